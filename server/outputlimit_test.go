package server

import "testing"

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
}
