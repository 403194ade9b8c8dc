package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/basaltdb/basalt/scripts/compat/goredis/internal/harness"
)

// load writes numbered keys through go-redis's cluster client. It records the acknowledged writes, and those that WAIT
// 1 has confirmed.
type load struct {
	harness.Load
	client *redis.ClusterClient

	where  map[string]int64 // the number of the last write to each node, by its address
	wrong  error            // of a read that did not see the preceding write
	errors int
	phases []string                  // in order
	texts  map[string]map[string]int // the number of errors by phase and text
}

func newLoad(nodes []*harness.Server) *load {
	var addrs []string
	for _, n := range nodes {
		addrs = append(addrs, n.Addr())
	}
	l := &load{where: map[string]int64{}, texts: map[string]map[string]int{},
		client: redis.NewClusterClient(&redis.ClusterOptions{Addrs: addrs,
			DialTimeout: time.Second, ReadTimeout: 2 * time.Second, WriteTimeout: time.Second})}
	l.Begin(l.write)
	return l
}

// write writes a key, possibly after a redirection, reads it, and asks the master of its slot whether a replica has it.
func (l *load) write(ctx context.Context) {
	n, key := l.Next()
	err := l.client.Set(ctx, key, harness.Value(key), 0).Err()
	var got string
	if err == nil {
		got, err = l.client.Get(ctx, key).Result()
		if err == redis.Nil {
			err = nil
		}
	}
	var addr string
	acked := 0
	if err == nil {
		var master *redis.Client
		if master, err = l.client.MasterForKey(ctx, key); err == nil {
			// The same write again, so that WAIT runs on the node that has it.
			pipe := master.Pipeline()
			set := pipe.Set(ctx, key, harness.Value(key), 0)
			wait := pipe.Do(ctx, "wait", 1, 1000)
			_, err = pipe.Exec(ctx)
			if err == nil && set.Err() == nil {
				acked, err = wait.Int()
			}
			addr = master.Options().Addr
		}
	}
	if err != nil {
		l.client.ReloadState(ctx)
	}
	l.Mu.Lock()
	defer l.Mu.Unlock()
	switch {
	case err != nil:
		l.Last = err
		l.errors++
		l.texts[l.phases[len(l.phases)-1]][kind(err)]++
	case got != harness.Value(key) && l.errors == 0: // a failover may lose writes that no replica has
		l.wrong = fmt.Errorf("%s, just written, is %q", key, got)
	case acked >= 1:
		l.Keys = append(l.Keys, key)
		fallthrough
	default:
		l.where[addr] = n // perhaps no replica has acknowledged it, because none is connected
	}
}

// phase begins a step: errors from now on belong to it.
func (l *load) phase(name string) {
	l.Mu.Lock()
	defer l.Mu.Unlock()
	l.phases = append(l.phases, name)
	if l.texts[name] == nil {
		l.texts[name] = map[string]int{}
	}
}

// kind returns the text of an error without its variable parts.
func kind(err error) string {
	text := numbers.ReplaceAllString(err.Error(), "N")
	return strings.ReplaceAll(text, "N.N.N.N:N->N.N.N.N:N", "a connection")
}

var numbers = regexp.MustCompile("[0-9]+")

// report prints the number of errors of each step.
func (l *load) report(w io.Writer) {
	l.Mu.Lock()
	defer l.Mu.Unlock()
	for _, phase := range slices.Compact(l.phases) {
		for _, text := range slices.Sorted(maps.Keys(l.texts[phase])) {
			fmt.Fprintf(w, "cluster: errors of the client: %s: %d: %s\n", phase, l.texts[phase][text], text)
		}
	}
}

// expected returns an error when clients have seen errors in a step in which no node fails. While slots are handed
// over, go-redis on a busy host may stop repeating a command: that is not an error.
func (l *load) expected() error {
	l.Mu.Lock()
	defer l.Mu.Unlock()
	for phase, texts := range l.texts {
		for text := range texts {
			if phase != "a killed master" && !strings.HasPrefix(text, "TRYAGAIN ") && !strings.HasPrefix(text, "MOVED ") {
				return fmt.Errorf("%s: the client saw: %s", phase, text)
			}
		}
	}
	return nil
}

func (l *load) stop() {
	l.Stop()
	l.client.Close()
}

// eachShard waits until each of the given masters has acknowledged a write that begins from now on.
func (l *load) eachShard(masters ...*harness.Server) error {
	from := l.Number()
	return harness.Await("a write at each master", func() error {
		l.Mu.Lock()
		defer l.Mu.Unlock()
		for _, m := range masters {
			if l.where[m.Addr()] <= from {
				return fmt.Errorf("none at %s: %v", m.Name, l.Last)
			}
		}
		return nil
	})
}

// compare checks the keys on all nodes after the last write.
func (s *set) compare(l *load) (string, error) {
	ctx := context.Background()
	l.Pause()
	if l.wrong != nil {
		return "", l.wrong
	}
	confirmed := l.Confirmed()
	for _, key := range confirmed {
		if got, err := l.client.Get(ctx, key).Result(); err != nil || got != harness.Value(key) {
			return "", fmt.Errorf("%s, confirmed by WAIT 1, is %q: %v", key, got, err)
		}
	}
	at := map[string]string{}
	for _, n := range s.nodes {
		role, err := n.Info("role")
		if err != nil {
			return "", err
		}
		if role != "master" {
			continue
		}
		keys, err := keysOf(n)
		if err != nil {
			return "", err
		}
		for _, k := range keys {
			if other := at[k]; other != "" {
				return "", fmt.Errorf("%s is at %s and at %s", k, other, n.Name)
			}
			at[k] = n.Name
			if err := n.Client.Exists(ctx, k).Err(); err != nil {
				return "", fmt.Errorf("%s has %s: %w", n.Name, k, err)
			}
		}
	}
	for _, n := range s.nodes {
		if role, err := n.Info("role"); err != nil || role == "master" {
			continue
		}
		port, err := n.Info("master_port")
		if err != nil {
			return "", err
		}
		var master *harness.Server
		for _, m := range s.nodes {
			if strconv.Itoa(m.Port) == port {
				master = m
			}
		}
		if master == nil {
			return "", errors.New(n.Name + " has no master")
		}
		if err := harness.Await(n.Name+" has what "+master.Name+" has", func() error {
			a, err := keysOf(n)
			if err != nil {
				return err
			}
			b, err := keysOf(master)
			if err == nil && strings.Join(a, " ") != strings.Join(b, " ") {
				err = fmt.Errorf("%d and %d keys", len(a), len(b))
			}
			return err
		}); err != nil {
			return "", err
		}
	}
	return fmt.Sprintf("%d keys, %d writes confirmed and all there, %d errors of the client, ",
		len(at), len(confirmed), l.errors), nil
}

// keysOf returns all keys of a node in the order of the scan.
func keysOf(s *harness.Server) (all []string, err error) {
	for cursor := uint64(0); ; {
		var some []string
		some, cursor, err = s.Client.Scan(context.Background(), cursor, "", 1000).Result()
		if all = append(all, some...); err != nil || cursor == 0 {
			return all, err
		}
	}
}
