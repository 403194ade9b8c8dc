package harness

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
)

// writers is the number of writers. It is small, because the servers need the CPU.
const writers = 4

// Load writes numbered keys, and records those that WAIT 1 has confirmed.
type Load struct {
	next   atomic.Int64
	gate   sync.RWMutex // held for writing while the load is paused
	paused bool
	cancel context.CancelFunc
	ended  sync.WaitGroup

	Mu   sync.Mutex // guards the fields below, and those of the embedding type that writers change
	Keys []string   // confirmed
	Last error      // of the last write that failed
}

// Value returns what is written to a key.
func Value(key string) string { return "value of " + key }

// Begin starts writers, which call write again and again once the load is resumed.
func (l *Load) Begin(write func(context.Context)) {
	ctx, cancel := context.WithCancel(context.Background())
	l.cancel = cancel
	l.Pause()
	for range writers {
		l.ended.Go(func() {
			for ctx.Err() == nil {
				l.gate.RLock()
				write(ctx)
				l.gate.RUnlock()
			}
		})
	}
}

// Next returns the number and the name of the next key.
func (l *Load) Next() (n int64, key string) {
	n = l.next.Add(1)
	return n, "key:" + strconv.FormatInt(n, 10)
}

// Number returns the number of the newest key.
func (l *Load) Number() int64 { return l.next.Load() }

// Pause waits for the end of the writes that run, and lets none begin.
func (l *Load) Pause() {
	if !l.paused {
		l.gate.Lock()
		l.paused = true
	}
}

// Resume ends a pause.
func (l *Load) Resume() {
	if l.paused {
		l.paused = false
		l.gate.Unlock()
	}
}

// Stop ends the writers.
func (l *Load) Stop() {
	l.cancel()
	l.Resume()
	l.ended.Wait()
}

// Confirmed returns the keys that WAIT has confirmed so far.
func (l *Load) Confirmed() []string {
	l.Mu.Lock()
	defer l.Mu.Unlock()
	return slices.Clone(l.Keys)
}

// ConfirmedCount returns the number of these keys.
func (l *Load) ConfirmedCount() int {
	l.Mu.Lock()
	defer l.Mu.Unlock()
	return len(l.Keys)
}

// Since waits until n more writes than before are confirmed.
func (l *Load) Since(before, n int) error {
	return Await(fmt.Sprintf("%d more writes confirmed", n), func() error {
		l.Mu.Lock()
		defer l.Mu.Unlock()
		if got := len(l.Keys) - before; got < n {
			return fmt.Errorf("%d: %v", got, l.Last)
		}
		return nil
	})
}
