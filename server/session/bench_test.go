package session_test

import (
	"io"
	"strings"
	"testing"

	"github.com/basaltdb/basalt/engine/enginetest"
	"github.com/basaltdb/basalt/server"
	"github.com/basaltdb/basalt/server/servertest"
	"github.com/basaltdb/basalt/server/session"
	"github.com/basaltdb/basalt/server/wire/wiretest"
)

// hot are pipelines of one kind of command, for the benchmark and the allocation test; n is the number of commands.
var hot = []struct {
	name string
	text string
	n    int
}{
	{"ping", strings.Repeat(servertest.Pipeline("PING"), 64), 64},
	{"get", strings.Repeat(servertest.Pipeline("GET key:000001", "GET key:000002"), 32), 64},
	{"set", strings.Repeat(servertest.Encode("SET", "key:000001", strings.Repeat("v", 128)), 64), 64},
	{"mixed", strings.Repeat(servertest.Pipeline("SET key:000003 v", "GET key:000003"), 32), 64},
	{"hget", strings.Repeat(servertest.Pipeline("HGET hash f"), 64), 64},
}

// looped returns a connection of a new server, see loopTo.
func looped(tb testing.TB) *session.Loop {
	s := server.New(servertest.Config(tb), enginetest.Open(tb), nil)
	c := loopTo(tb, s.Sessions())
	c.Feed("*4\r\n$4\r\nHSET\r\n$4\r\nhash\r\n$1\r\nf\r\n$1\r\nv\r\n")
	return c
}

// loopTo returns a connection that the test feeds with commands. Its replies go to a socket, from which they are
// discarded.
func loopTo(tb testing.TB, s *session.Shared) *session.Loop {
	here, there := wiretest.SocketPair(tb)
	done := make(chan struct{})
	go func() {
		defer close(done)
		io.Copy(io.Discard, there)
	}()
	tb.Cleanup(func() { here.Close(); <-done })
	return session.NewLoop(s, here, 1)
}

func TestHotPathDoesNotAllocate(t *testing.T) {
	if servertest.RaceEnabled {
		t.Skip("the race detector allocates")
	}
	for _, p := range hot {
		c := looped(t)
		for range 10 {
			c.Feed(p.text)
		}
		// The queue of replies, when the reader is slow, and RocksDB's bindings may allocate now and then.
		if n := testing.AllocsPerRun(200, func() { c.Feed(p.text) }); n > 4 {
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
				c.Feed(p.text)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*p.n), "ns/command")
		})
	}
}
