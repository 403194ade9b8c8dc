package server

import (
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/internal/fixture"
	"github.com/basaltdb/basalt/server/replication/proto"
)

// follower is a replica as a test plays it.
type follower struct {
	*client
	next uint64
	buf  []byte
}

// follow makes a connection that of a replica.
func follow(t *testing.T, c *client, next uint64) *follower {
	t.Helper()
	c.want("REPLCONF listening-port 7999 ip-address replica.example", "+OK\r\n")
	c.want("REPLCONF capa ack", "+OK\r\n")
	c.want(fmt.Sprint("PSYNC ", next), "+OK\r\n")
	return &follower{client: c, next: next}
}

func (f *follower) frame() proto.Frame {
	f.t.Helper()
	f.SetReadDeadline(time.Now().Add(patience))
	for {
		frame, n, need, err := proto.ReadFrame(f.buf, 64<<20)
		if err != nil {
			f.t.Fatal(err)
		}
		if n > 0 {
			f.buf = f.buf[n:]
			return frame
		}
		b := make([]byte, need-len(f.buf))
		if n, err = io.ReadAtLeast(f.r, b, 1); err != nil {
			f.t.Fatal(err)
		}
		f.buf = append(f.buf, b[:n]...)
	}
}

// batch returns the next batch. kind tells of other frames in between.
func (f *follower) batch() []byte {
	f.t.Helper()
	for {
		if frame := f.frame(); frame.Kind == proto.KindBatch {
			if frame.Sequence() != f.next {
				f.t.Fatalf("sequence number %d, want %d", frame.Sequence(), f.next)
			}
			f.next += uint64(frame.Count())
			return frame.Payload
		}
	}
}

// TestReplicaConversation: what a replica sends and gets, as recorded of a Kvrocks.
func TestReplicaConversation(t *testing.T) {
	h := start(t)
	for _, s := range fixture.LoadReplication(t, fixture.PlainReplication).Transcript {
		if len(s.Sent) == 0 || s.Name == "psync 1" || strings.Contains(s.Name, " 1") && s.Received[0] == '+' {
			continue
		}
		c := h.dial(t)
		c.send(string(s.Sent))
		got := make([]byte, len(s.Received))
		c.SetReadDeadline(time.Now().Add(patience))
		if _, err := io.ReadFull(c.r, got); err != nil || string(got) != string(s.Received) {
			t.Errorf("%s: %q, %v, want %q", s.Name, got, err, s.Received)
		}
	}
	c := h.dial(t)
	for _, tt := range []struct{ command, want string }{
		{"REPLCONF unknown 1", "-ERR unknown option\r\n"},
		{"REPLCONF listening-port x", "-ERR listening-port should be number or out of range\r\n"},
		{"REPLCONF listening-port", "-ERR wrong number of arguments for 'replconf' command\r\n"},
		{"PSYNC x", "-ERR value is not an unsigned long long or out of range\r\n"},
		{"PSYNC ? -1", "-ERR value is not an unsigned long long or out of range\r\n"},
		{"_fetch_file ../db/CURRENT", "-ERR no such file in the checkpoint\r\n"},
	} {
		c.want(tt.command, tt.want)
	}
}

// TestReplicaIsFed: writes, transactions, scripts, messages and a flush reach a replica in their order; INFO and ROLE
// show it.
func TestReplicaIsFed(t *testing.T) {
	for _, layer := range []string{"plain", "TLS"} {
		t.Run(layer, func(t *testing.T) {
			h, dial := layered(t, layer)
			c := dial()
			c.want("SET before 1", "+OK\r\n")
			f := follow(t, dial(), 1)
			c.want("SET k v", "+OK\r\n")
			c.want("PUBLISH channel message", ":0\r\n")
			c.want("MULTI", "+OK\r\n")
			c.want("PUBLISH channel deferred", "+QUEUED\r\n")
			c.want("SET in multi", "+QUEUED\r\n")
			c.want("EXEC", "*2\r\n:0\r\n+OK\r\n")
			c.want("FLUSHALL", "+OK\r\n")
			c.want("SET after flush", "+OK\r\n")
			for _, want := range []string{"before", "v", "\x05\x03\x07channel\x07message", "multi",
				"\x05\x03\x07channel\x08deferred", "", "after"} {
				if b := f.batch(); !strings.Contains(string(b), want) {
					t.Errorf("%q, want one with %q", b, want)
				}
			}
			latest := h.db.LatestSequence()
			if want := fmt.Sprintf("slave0:ip=replica.example,port=7999,state=online,offset=%d,lag=0",
				latest); !strings.Contains(c.do("INFO", "replication"), want) {
				t.Errorf("%s, want %s", c.do("INFO", "replication"), want)
			}
			c.want("ROLE", fmt.Sprintf("*3\r\n$6\r\nmaster\r\n:%d\r\n*1\r\n*3\r\n$15\r\nreplica.example\r\n$4\r\n7999\r\n$%d\r\n%d\r\n",
				latest, len(fmt.Sprint(latest)), latest))
			if got := c.do("CLIENT", "LIST", "TYPE", "replica"); strings.Count(got, "id=") != 1 {
				t.Errorf("CLIENT LIST: %s", got)
			}
			c.want("CLIENT KILL TYPE replica", ":1\r\n")
			f.closed()
			eventually(t, "the replica is gone", func() bool { return h.master.Connected() == 0 })
			c.want("ROLE", fmt.Sprintf("*3\r\n$6\r\nmaster\r\n:%d\r\n*0\r\n", latest))
		})
	}
}

// TestWaitForReplicas: WAIT counts what was acknowledged, and asks for it.
func TestWaitForReplicas(t *testing.T) {
	h := start(t)
	c, w := h.dial(t), h.dial(t)
	f := follow(t, h.dial(t), 1)
	c.want("SET k v", "+OK\r\n")
	c.want("WAIT 0 0", ":0\r\n")
	c.want("WAIT 1 1", ":0\r\n") // its time is up before anything is acknowledged
	w.send(pipeline("WAIT 1 0", "PING"))
	eventually(t, "the client waits", func() bool {
		return strings.Contains(c.do("INFO", "clients"),
			"blocked_clients:1\r\n")
	})
	f.batch()
	for f.frame().Kind != proto.KindGetAck {
	}
	f.send(string(proto.AppendAck(nil, 1)))
	if got := w.reply(); got != ":1\r\n" {
		t.Errorf("%q", got)
	}
	if got := w.reply(); got != "+PONG\r\n" {
		t.Errorf("%q", got)
	}
	c.want("WAIT 1 0", ":1\r\n") // nothing was written since
	c.want("SET k w", "+OK\r\n")
	c.want("MULTI", "+OK\r\n")
	c.want("WAIT 1 0", "+QUEUED\r\n")
	c.want("EXEC", "*1\r\n:0\r\n")
	w.send(pipeline("WAIT 1 0"))
	eventually(t, "the client waits", func() bool {
		return strings.Contains(c.do("INFO", "clients"),
			"blocked_clients:1\r\n")
	})
	f.batch() // what was not sent cannot be acknowledged
	f.send(string(proto.AppendAck(nil, 2)))
	if got := w.reply(); got != ":1\r\n" {
		t.Errorf("%q", got)
	}
	w.send(pipeline("WAIT 2 0"))
	eventually(t, "the client waits", func() bool {
		return strings.Contains(c.do("INFO", "clients"),
			"blocked_clients:1\r\n")
	})
	f2 := follow(t, h.dial(t), 1)
	f2.batch()
	f2.batch()
	f2.send(string(proto.AppendAck(nil, 2)))
	if got := w.reply(); got != ":2\r\n" {
		t.Errorf("%q", got)
	}
}

// TestTooFewReplicas: without enough replicas that acknowledge there are no writes.
func TestTooFewReplicas(t *testing.T) {
	h := start(t, "min-replicas-to-write", "1")
	c := h.dial(t)
	const lacking = "-NOREPLICAS Not enough good replicas to write.\r\n"
	c.want("SET k v", lacking)
	c.want("GET k", "$-1\r\n")
	f := follow(t, h.dial(t), 1)
	c.want("SET k v", lacking) // it has acknowledged nothing
	f.send(string(proto.AppendAck(nil, 0)))
	eventually(t, "the replica counts", func() bool { return c.do("SET", "k", "v") == "+OK\r\n" })
	if info := c.do("INFO", "replication"); !strings.Contains(info, "\r\nmin_slaves_good_slaves:1\r\n") {
		t.Error(info)
	}
	f.Close()
	eventually(t, "the replica is gone", func() bool { return c.do("SET", "k", "v") == lacking })
	c.want("CONFIG SET min-replicas-to-write 0", "+OK\r\n")
	c.want("SET k v", "+OK\r\n")
}

// TestReplicationID: with use-rsid-psync a master begins a history, each of its batches ends with it, and PSYNC
// compares.
func TestReplicationID(t *testing.T) {
	h := start(t, "use-rsid-psync", "yes")
	c := h.dial(t)
	c.want("SET k v", "+OK\r\n")
	f := follow(t, h.dial(t), 1)
	first := f.batch()
	id := string(first[len(first)-proto.IDLen:])
	if !strings.Contains(string(first), "replication_id_\x10"+id) || !strings.HasSuffix(string(f.batch()), "r "+id) {
		t.Errorf("%q", first)
	}
	c.want("PSYNC 0000000000000000 2", "-ERR wrong replication id of the last log\r\n")
	c.want("PSYNC "+id+" 2", "+OK\r\n")
}

// TestClosingWithReplicas: the end of the server ends the links of replicas, also of those that fetch files.
func TestClosingWithReplicas(t *testing.T) {
	h := start(t)
	f := follow(t, h.dial(t), 1)
	c := h.dial(t)
	c.want("SET k v", "+OK\r\n")
	f.batch()
	h.Close()
	f.closed()
	if _, err := h.db.UpdatesAfter(0, engine.UpdatesLimit{Batches: 1, Bytes: 1}); err != nil {
		t.Error(err)
	}
}
