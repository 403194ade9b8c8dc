package server

import (
	"io"
	"strings"
	"testing"

	"github.com/basaltdb/basalt/engine/enginetest"
)

// pipelines of one kind of command, as the benchmark and the allocation test send them.
var hot = []struct {
	name string
	text string
	n    int
}{
	{"ping", strings.Repeat(pipeline("PING"), 64), 64},
	{"get", strings.Repeat(pipeline("GET key:000001", "GET key:000002"), 32), 64},
	{"set", strings.Repeat(encode("SET", "key:000001", strings.Repeat("v", 128)), 64), 64},
	{"mixed", strings.Repeat(pipeline("SET key:000003 v", "GET key:000003"), 32), 64},
	{"hget", strings.Repeat(pipeline("HGET hash f"), 64), 64},
}

// looped is a connection that is fed without a client; its replies go to a socket that is read.
func looped(tb testing.TB) *conn {
	db := enginetest.Open(tb)
	s := New(testConfig(tb), db, nil)
	here, there := socketPair(tb)
	done := make(chan struct{})
	go func() {
		defer close(done)
		io.Copy(io.Discard, there)
	}()
	tb.Cleanup(func() { here.Close(); <-done })
	c := newConn(s.Shared, here, 1)
	c.feed("*4\r\n$4\r\nHSET\r\n$4\r\nhash\r\n$1\r\nf\r\n$1\r\nv\r\n")
	return c
}

func (c *conn) feed(text string) {
	c.wire.Inject([]byte(text))
	c.process()
}

func TestHotPathDoesNotAllocate(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	for _, p := range hot {
		c := looped(t)
		for range 10 {
			c.feed(p.text)
		}
		// Queueing of replies, when the reader is slow, and RocksDB's side may allocate now and then.
		if n := testing.AllocsPerRun(200, func() { c.feed(p.text) }); n > 4 {
			t.Errorf("%s: %v allocations for %d commands", p.name, n, p.n)
		}
	}
}

func BenchmarkPipeline(b *testing.B) {
	for _, p := range hot {
		b.Run(p.name, func(b *testing.B) {
			c := looped(b)
			b.ReportAllocs()
			for b.Loop() {
				c.feed(p.text)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*p.n), "ns/command")
		})
	}
}
