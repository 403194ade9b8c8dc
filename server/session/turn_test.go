package session

import (
	"sync/atomic"
	"testing"
	"time"
)

// TestTurn: a reply waits while other clients make use of it, and ever more rarely while they do not.
func TestTurn(t *testing.T) {
	const replies = 1000
	var reads, waiting atomic.Int64
	for _, c := range []struct {
		name    string
		others  int64  // clients that wait already
		yield   func() // what happens meanwhile
		replies int
		least   int // waits
		most    int
	}{
		{"others run", 0, func() { reads.Add(1) }, replies, replies, replies},
		{"nobody else runs", 0, func() {}, replies, 6, replies/maxSkip + 6},
		{"others take long", 0, func() { reads.Add(1); time.Sleep(2 * longTurn) }, replies, 6, replies/maxSkip + 6},
		{"too many wait", maxTurns, func() { reads.Add(1) }, replies, 0, 0},
	} {
		waiting.Store(c.others)
		var own turn
		waits := 0
		for range c.replies {
			own.wait(&reads, &waiting, func() {
				waits++
				c.yield()
			})
		}
		if waits < c.least || waits > c.most {
			t.Errorf("%s: %d waits for %d replies, not %d to %d", c.name, waits, c.replies, c.least, c.most)
		}
		if n := waiting.Load(); n != c.others {
			t.Errorf("%s: %d clients wait after the last reply, not %d", c.name, n, c.others)
		}
	}
	var own turn
	for range replies {
		own.wait(&reads, &waiting, func() {})
	}
	waiting.Store(0)
	n := 0
	for range 2*maxSkip + 3 {
		own.wait(&reads, &waiting, func() { n++; reads.Add(1) })
	}
	if n < maxSkip {
		t.Errorf("%d waits since others run again", n)
	}
}
