package main

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/basaltdb/basalt/scripts/compat/goredis/internal/harness"
)

// load writes numbered keys through go-redis's failover client, and records those that WAIT 1 has confirmed.
type load struct {
	harness.Load
	sentinels []string
	client    *redis.Client // replaced while the load is paused
}

func newLoad(sentinels []string) *load {
	l := &load{sentinels: sentinels}
	l.connect()
	l.Begin(l.write)
	return l
}

func (l *load) connect() {
	l.client = redis.NewFailoverClient(&redis.FailoverOptions{
		MasterName: masterName, SentinelAddrs: l.sentinels, MaxRetries: -1,
		DialTimeout: time.Second, ReadTimeout: 2 * time.Second, WriteTimeout: time.Second,
	})
}

// reconnect closes all connections while the load is paused. Connections to a stopped master look alive: writes stay in
// its sockets, and the master executes them when it continues.
func (l *load) reconnect() {
	l.client.Close()
	l.connect()
}

// write writes a key and waits for a replica, over one connection.
func (l *load) write(ctx context.Context) {
	_, key := l.Next()
	pipe := l.client.Pipeline()
	set := pipe.Set(ctx, key, harness.Value(key), 0)
	acked := pipe.Do(ctx, "wait", 1, 1000)
	_, err := pipe.Exec(ctx)
	n := 0
	if err == nil {
		n, err = acked.Int()
	}
	l.Mu.Lock()
	defer l.Mu.Unlock()
	switch {
	case err != nil || set.Err() != nil:
		l.Last = err
	case n >= 1:
		l.Keys = append(l.Keys, key)
	default:
		l.Last = fmt.Errorf("%s: no replica has acknowledged", key)
	}
}

func (l *load) stop() {
	l.Stop()
	l.client.Close()
}
