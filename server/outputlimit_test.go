package server

import (
	"bytes"
	"errors"
	"io"
	"testing"
	"time"
)

// What a connection is sent stays within its class's limit, and above the soft limit only for its time.
func TestOutputLimitClasses(t *testing.T) {
	h := start(t)
	c := h.dial(t)
	if got := c.do("CONFIG", "SET", "client-output-buffer-limit", "normal 0 0 0 pubsub 1000000 0 0"); got != "+OK\r\n" {
		t.Fatal(got)
	}
	conns := h.services.Clients.List()
	h.mu.Lock()
	one := h.conns[conns[0].ID]
	h.mu.Unlock()
	if one.outputLimit() != 0 {
		t.Errorf("a normal client's limit is %d", one.outputLimit())
	}
	c.want("SUBSCRIBE ch", "*3\r\n$9\r\nsubscribe\r\n$2\r\nch\r\n:1\r\n")
	if one.outputLimit() != 1000000 {
		t.Errorf("a subscriber's limit is %d", one.outputLimit())
	}

	here, there := socketPair(t)
	o := newOutbox(here, noLimit)
	var during = time.Hour
	o.soft = func() (int, time.Duration) { return 100_000, during }
	for o.pending() <= 1<<20 {
		if err := o.send(bytes.Repeat([]byte("x"), 50_000)); err != nil {
			t.Fatal(err)
		}
	}
	o.mu.Lock()
	running := o.over != nil
	o.mu.Unlock()
	if !running {
		t.Error("the soft limit is exceeded, and no time runs")
	}
	go io.Copy(io.Discard, there)
	o.wait()
	o.mu.Lock()
	running = o.over != nil
	o.mu.Unlock()
	if running || o.failure() != nil {
		t.Errorf("the client has read all; the time runs: %v, %v", running, o.failure())
	}

	here, _ = socketPair(t)
	o = newOutbox(here, noLimit)
	o.soft = func() (int, time.Duration) { return 100_000, time.Millisecond }
	for o.send(bytes.Repeat([]byte("x"), 50_000)) == nil && o.pending() <= 1<<20 {
	}
	eventually(t, "the client is cut off", func() bool { return errors.Is(o.failure(), errOutputLimit) })
	if o.pending() != 0 {
		t.Error("its queue is kept")
	}
}
