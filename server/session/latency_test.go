package session_test

import (
	"strings"
	"testing"

	"github.com/basaltdb/basalt/server/command"
	"github.com/basaltdb/basalt/server/servertest"
)

// The histogram of a command counts every call, also in a pipeline.
func TestLatencyHistogram(t *testing.T) {
	h := servertest.Start(t)
	c := h.Dial(t)
	var p strings.Builder
	for range 100 {
		p.WriteString(servertest.Pipeline("GET a", "GET b", "SET a 1", "LRANGE l 0 -1", "CONFIG GET port"))
	}
	c.Send(p.String())
	for range 500 {
		c.Reply()
	}
	for _, name := range []string{"get", "set", "lrange", "config|get"} {
		spec := command.Lookup([]byte(strings.Split(name, "|")[0]))
		if _, sub, ok := strings.Cut(name, "|"); ok {
			spec = spec.Subcommand([]byte(sub))
		}
		want := int64(100)
		if name == "get" {
			want = 200
		}
		if _, _, calls, _ := h.Sessions().Stats.Latencies(spec); calls != want {
			t.Errorf("%s: %d calls, want %d", name, calls, want)
		}
	}
	got := c.Do("LATENCY", "HISTOGRAM", "GET", "config", "nosuch", "zadd")
	if !strings.HasPrefix(got, "*4\r\n$3\r\nget\r\n*4\r\n$5\r\ncalls\r\n:200\r\n$14\r\nhistogram_usec\r\n*") ||
		!strings.Contains(got, "$10\r\nconfig|get\r\n") {
		t.Errorf("%q", got)
	}
	c.Do("HELLO", "3")
	if got := c.Do("LATENCY", "HISTOGRAM", "set"); !strings.HasPrefix(got,
		"%1\r\n$3\r\nset\r\n%2\r\n$5\r\ncalls\r\n:100\r\n$14\r\nhistogram_usec\r\n%") {
		t.Errorf("%q", got)
	}
	if got := c.Do("INFO", "latencystats"); !strings.Contains(got, "latency_percentiles_usec_get:p50=") ||
		!strings.Contains(got, ",p99.9=") {
		t.Errorf("%q", got)
	}
	c.Want("CONFIG SET latency-tracking no", "+OK\r\n")
	c.Want("CONFIG RESETSTAT", "+OK\r\n")
	c.Do("GET", "a")
	c.Want("LATENCY HISTOGRAM", "%0\r\n")
	c.Want("CONFIG SET latency-tracking-info-percentiles 101",
		"-ERR CONFIG SET failed (possibly related to argument 'latency-tracking-info-percentiles') - "+
			"latency-tracking-info-percentiles parameters should sit between [0.0,100.0]\r\n")
}

func TestLatencyMonitor(t *testing.T) {
	h := servertest.Start(t)
	c := h.Dial(t)
	c.Want("LATENCY LATEST", "*0\r\n")
	c.Want("DEBUG SLEEP 0.06", "+OK\r\n")
	c.Want("LATENCY LATEST", "*0\r\n") // the monitor is off
	c.Want("CONFIG SET latency-monitor-threshold 50", "+OK\r\n")
	h.Sessions().Latency().Reset() // on a busy host CONFIG SET may have exceeded the threshold
	c.Want("DEBUG SLEEP 0.06", "+OK\r\n")
	h.Sessions().NoLatency() // the following commands may exceed the threshold, too
	if got := c.Do("LATENCY", "LATEST"); !strings.HasPrefix(got, "*1\r\n*4\r\n$7\r\ncommand\r\n:") {
		t.Errorf("%q", got)
	}
	if got := c.Do("LATENCY", "HISTORY", "command"); !strings.HasPrefix(got, "*1\r\n*2\r\n:") {
		t.Errorf("%q", got)
	}
	c.Want("LATENCY HISTORY nosuch", "*0\r\n")
	if got := c.Do("LATENCY", "DOCTOR"); !strings.Contains(got, "1. command: 1 samples") {
		t.Errorf("%q", got)
	}
	if got := c.Do("LATENCY", "GRAPH", "command"); !strings.Contains(got, "command - high ") {
		t.Errorf("%q", got)
	}
	c.Want("LATENCY GRAPH nosuch", "-ERR No samples available for event 'nosuch'\r\n")
	c.Want("LATENCY RESET nosuch", ":0\r\n")
	c.Want("LATENCY RESET command", ":1\r\n")
	c.Want("LATENCY RESET", ":0\r\n")
}
