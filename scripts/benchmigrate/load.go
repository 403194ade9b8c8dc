package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/basaltdb/basalt/scripts/internal/loadgen"
	"github.com/basaltdb/basalt/scripts/internal/redisclient"
	"github.com/basaltdb/basalt/server/resp"
)

// writers write keys while their slots move, and follow redirections.
type writers struct {
	stop  chan struct{}
	ended sync.WaitGroup

	mu      sync.Mutex
	began   time.Time
	latency loadgen.Histogram
	longest time.Duration // from the first attempt of a write to its OK
	err     error
}

const loadConnections = 8

// startWriters starts writers that write rate keys a second together; 0 = as many as they can.
func (b *bench) startWriters(rate int) *writers {
	w := &writers{stop: make(chan struct{}), began: time.Now()}
	every := time.Duration(0)
	if rate > 0 {
		every = time.Second * loadConnections / time.Duration(rate)
	}
	for i := range loadConnections {
		w.ended.Go(func() {
			err := b.write(w, uint64(i), every)
			w.mu.Lock()
			w.err = errors.Join(w.err, err)
			w.mu.Unlock()
		})
	}
	return w
}

// write writes a key at each interval, until the writers stop.
func (b *bench) write(w *writers, seed uint64, every time.Duration) (err error) {
	conns := map[string]*redisclient.Conn{}
	defer func() {
		for _, c := range conns {
			c.Close()
		}
	}()
	rnd := rand.New(rand.NewPCG(seed, 1))
	at := b.source.Addr
	for due := time.Now(); ; due = due.Add(every) {
		if wait := time.Until(due); wait > 0 {
			time.Sleep(wait)
		}
		select {
		case <-w.stop:
			return nil
		default:
		}
		n := rnd.IntN(b.keys)
		key := "key:" + string(loadgen.AppendDigits(nil, n))
		value := string(loadgen.AppendValue(nil, rnd, n, b.value))
		began := time.Now()
		for done := false; !done; {
			c := conns[at]
			if c == nil {
				if c, err = redisclient.Dial(at, patience); err != nil {
					return err
				}
				conns[at] = c
			}
			c.SetDeadline(time.Now().Add(patience))
			_, err := c.Do("SET", key, value)
			var reply resp.ReplyError
			switch {
			case err == nil:
				done = true
			case !errors.As(err, &reply):
				return err
			case strings.HasPrefix(string(reply), "MOVED "):
				at = strings.Fields(string(reply))[2]
			case strings.HasPrefix(string(reply), "TRYAGAIN "):
				time.Sleep(time.Millisecond)
			default:
				return err
			}
		}
		took := time.Since(began)
		w.mu.Lock()
		w.latency.Add(took, 1)
		w.longest = max(w.longest, took)
		w.mu.Unlock()
	}
}

// end stops the writers and returns how many keys a second they have written.
func (w *writers) end() (rate float64, err error) {
	took := time.Since(w.began)
	close(w.stop)
	w.ended.Wait()
	return float64(w.latency.Total()) / took.Seconds(), w.err
}

// String says what the writers have measured.
func (w *writers) String() string {
	return fmt.Sprintf("p99 %v, the longest %v", w.latency.Percentile(99).Round(10*time.Microsecond),
		w.longest.Round(10*time.Microsecond))
}

// fullTime is how long the writers write as much as they can.
const fullTime = 5 * time.Second

// rate returns how many keys a second clients write during a migration: a part of what they can write before it, if
// that is wanted.
func (b *bench) rate() (int, error) {
	if b.part == 0 {
		return b.load, nil
	}
	w := b.startWriters(0)
	time.Sleep(fullTime)
	full, err := w.end()
	fmt.Printf("full load: %.0f writes/s, %v\n", full, w)
	return int(b.part * full), errors.Join(err, b.source.Settled(b.ctx))
}
