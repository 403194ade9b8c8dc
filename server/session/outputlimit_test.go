package session_test

import (
	"testing"

	"github.com/basaltdb/basalt/server/servertest"
)

// The hard limit of a connection's output is the limit of its class: normal, or pubsub after SUBSCRIBE.
func TestOutputLimitClasses(t *testing.T) {
	h := servertest.Start(t)
	c := h.Dial(t)
	if got := c.Do("CONFIG", "SET", "client-output-buffer-limit", "normal 0 0 0 pubsub 1000000 0 0"); got != "+OK\r\n" {
		t.Fatal(got)
	}
	one := h.Sessions().Newest()
	if one.OutputLimit() != 0 {
		t.Errorf("a normal client's limit is %d", one.OutputLimit())
	}
	c.Want("SUBSCRIBE ch", "*3\r\n$9\r\nsubscribe\r\n$2\r\nch\r\n:1\r\n")
	if one.OutputLimit() != 1000000 {
		t.Errorf("a subscriber's limit is %d", one.OutputLimit())
	}
}
