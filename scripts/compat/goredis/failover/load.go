package main

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// load writes numbered keys through go-redis's failover client, and records those that WAIT 1 has confirmed.
type load struct {
	sentinels []string
	client    *redis.Client // replaced while the load is paused
	cancel    context.CancelFunc
	ended     sync.WaitGroup
	next      atomic.Int64
	gate      sync.RWMutex // held for writing while the load is paused
	paused    bool

	mu   sync.Mutex
	keys []string
	last error // of the last write that failed
}

// writers is the number of writers. It is small, because the servers need the CPU.
const writers = 4

func value(key string) string { return "value of " + key }

func newLoad(sentinels []string) *load {
	ctx, cancel := context.WithCancel(context.Background())
	l := &load{sentinels: sentinels, cancel: cancel}
	l.connect()
	l.pause()
	for range writers {
		l.ended.Go(func() {
			for ctx.Err() == nil {
				l.gate.RLock()
				l.write(ctx)
				l.gate.RUnlock()
			}
		})
	}
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
	key := "key:" + strconv.FormatInt(l.next.Add(1), 10)
	pipe := l.client.Pipeline()
	set := pipe.Set(ctx, key, value(key), 0)
	acked := pipe.Do(ctx, "wait", 1, 1000)
	_, err := pipe.Exec(ctx)
	n := 0
	if err == nil {
		n, err = acked.Int()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case err != nil || set.Err() != nil:
		l.last = err
	case n >= 1:
		l.keys = append(l.keys, key)
	default:
		l.last = fmt.Errorf("%s: no replica has acknowledged", key)
	}
}

func (l *load) pause() {
	if !l.paused {
		l.gate.Lock()
		l.paused = true
	}
}

func (l *load) resume() {
	if l.paused {
		l.paused = false
		l.gate.Unlock()
	}
}

func (l *load) stop() {
	l.cancel()
	l.resume()
	l.ended.Wait()
	l.client.Close()
}

// confirmed returns the keys that WAIT has confirmed so far.
func (l *load) confirmed() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]string(nil), l.keys...)
}

// since waits until n more writes than before are confirmed.
func (l *load) since(before, n int) error {
	deadline := time.Now().Add(patience)
	for {
		l.mu.Lock()
		got, last := len(l.keys)-before, l.last
		l.mu.Unlock()
		if got >= n {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%d of %d writes confirmed: %v", got, n, last)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func (l *load) confirmedCount() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.keys)
}
