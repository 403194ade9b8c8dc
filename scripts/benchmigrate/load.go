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
)

// writers write keys while their slots move, and go where they are sent.
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

// startWriters starts writers that write rate keys a second together.
func (b *bench) startWriters(rate int) *writers {
	w := &writers{stop: make(chan struct{}), began: time.Now()}
	for i := range loadConnections {
		w.ended.Go(func() {
			err := b.write(w, uint64(i), time.Second*loadConnections/time.Duration(rate))
			w.mu.Lock()
			w.err = errors.Join(w.err, err)
			w.mu.Unlock()
		})
	}
	return w
}

// write writes a key each time that an interval is over, until the writers stop.
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
		select {
		case <-w.stop:
			return nil
		case <-time.After(time.Until(due)):
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
			var reply redisclient.ServerError
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

// end stops the writers and says what they have measured.
func (w *writers) end() (string, error) {
	close(w.stop)
	w.ended.Wait()
	return fmt.Sprintf("  %.0f writes/s meanwhile, p99 %v, the longest %v",
		float64(w.latency.Total())/time.Since(w.began).Seconds(),
		w.latency.Percentile(99).Round(10*time.Microsecond), w.longest.Round(10*time.Microsecond)), w.err
}
