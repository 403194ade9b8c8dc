package session

import (
	"runtime"
	"time"
)

// turn lets the requests of other clients run before a reply is sent, so that the replies to several clients are sent
// one right after the other, as by a server with one thread that answers all clients that are ready. A client program
// on this machine then wakes up once for several replies. If it wakes up for each, that costs both sides: the server
// has to wake up a core, and the program goes to sleep between the replies.
//
// Only replies for which RocksDB was asked wait. Replies from the record cache follow each other fast enough, and lost
// 2 % by waiting. Replies to clients on other hosts do not wait, because they wake up nobody here.
//
// Measured with 50 connections that share two cores with the server and do not pipeline, GET of 150,000 values of
// 1,000 bytes, means of 16 in turns: 73,100 requests a second instead of 65,200, p99 1.15 ms instead of 1.64, CPU time
// 13.5 us instead of 15.2. Two later runs of 8 gained 3 and 4 %.
type turn struct {
	rest uint16 // replies until the next wait
	skip uint16 // how many replies did not wait before the last wait that gained nothing
}

const (
	// maxTurns is how many clients may wait at the same time: each of them holds the memory of a run.
	maxTurns = 64
	// firstTurn is how many replies to a new client do not wait: a client that connects for one request must not.
	firstTurn = 16
	// longTurn is the time from which a wait was too long, because requests of others take long. Such requests delay a
	// client before its request runs; its replies must not wait for them too.
	longTurn = time.Millisecond
	// maxSkip and maxSkipLong bound how many replies do not wait after waits in which nobody else ran, and after waits
	// that were too long.
	maxSkip, maxSkipLong = 63, 4095
)

// due reports whether the next reply is to wait.
func (t *turn) due() bool {
	if t.rest > 0 {
		t.rest--
		return false
	}
	return true
}

// waited takes how long a reply has waited, and whether requests of other clients were read meanwhile.
func (t *turn) waited(took time.Duration, others bool) {
	switch {
	case took > longTurn:
		t.skip = min(4*t.skip+maxSkip, maxSkipLong)
		t.rest = t.skip
	case others:
		t.skip = 0
	default:
		t.skip = min(2*t.skip+1, maxSkip)
		t.rest = t.skip
	}
}

// waitTurn lets the requests of other clients run.
func (c *conn) waitTurn() {
	if c.info.remote || !c.turn.due() {
		return
	}
	if c.srv.waiting.Add(1) <= maxTurns {
		before, begin := c.srv.Stats.Reads.Load(), time.Now()
		runtime.Gosched()
		c.turn.waited(time.Since(begin), c.srv.Stats.Reads.Load() != before)
	}
	c.srv.waiting.Add(-1)
}
