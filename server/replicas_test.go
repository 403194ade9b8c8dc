package server_test

import (
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/internal/fixture"
	"github.com/basaltdb/basalt/server/replication/proto"
	"github.com/basaltdb/basalt/server/servertest"
)

// follower simulates a replica.
type follower struct {
	*servertest.Client
	next uint64 // the next sequence number
	buf  []byte // received bytes that were not returned yet
}

// follow makes a connection the connection of a replica that has the sequence numbers below next.
func follow(t *testing.T, c *servertest.Client, next uint64) *follower {
	t.Helper()
	c.Want("REPLCONF listening-port 7999 ip-address replica.example", "+OK\r\n")
	c.Want("REPLCONF capa ack", "+OK\r\n")
	c.Want(fmt.Sprint("PSYNC ", next), "+OK\r\n")
	return &follower{Client: c, next: next}
}

// frame returns the next frame.
func (f *follower) frame() proto.Frame {
	f.T.Helper()
	f.SetReadDeadline(time.Now().Add(servertest.Patience))
	for {
		frame, n, need, err := proto.ReadFrame(f.buf, 64<<20)
		if err != nil {
			f.T.Fatal(err)
		}
		if n > 0 {
			f.buf = f.buf[n:]
			return frame
		}
		b := make([]byte, need-len(f.buf))
		if n, err = io.ReadAtLeast(f.R, b, 1); err != nil {
			f.T.Fatal(err)
		}
		f.buf = append(f.buf, b[:n]...)
	}
}

// batch returns the next batch, and ignores other frames before it.
func (f *follower) batch() []byte {
	f.T.Helper()
	for {
		if frame := f.frame(); frame.Kind == proto.KindBatch {
			if frame.Sequence() != f.next {
				f.T.Fatalf("sequence number %d, want %d", frame.Sequence(), f.next)
			}
			f.next += uint64(frame.Count())
			return frame.Payload
		}
	}
}

// TestReplicaConversation: the requests of a replica get the replies that were recorded from a Kvrocks.
func TestReplicaConversation(t *testing.T) {
	h := servertest.Start(t)
	for _, s := range fixture.LoadReplication(t, fixture.PlainReplication).Transcript {
		if len(s.Sent) == 0 || s.Name == "psync 1" || strings.Contains(s.Name, " 1") && s.Received[0] == '+' {
			continue
		}
		c := h.Dial(t)
		c.Send(string(s.Sent))
		got := make([]byte, len(s.Received))
		c.SetReadDeadline(time.Now().Add(servertest.Patience))
		if _, err := io.ReadFull(c.R, got); err != nil || string(got) != string(s.Received) {
			t.Errorf("%s: %q, %v, want %q", s.Name, got, err, s.Received)
		}
	}
	c := h.Dial(t)
	for _, tt := range []struct{ command, want string }{
		{"REPLCONF unknown 1", "-ERR unknown option\r\n"},
		{"REPLCONF listening-port x", "-ERR listening-port should be number or out of range\r\n"},
		{"REPLCONF listening-port", "-ERR wrong number of arguments for 'replconf' command\r\n"},
		{"PSYNC x", "-ERR value is not an unsigned long long or out of range\r\n"},
		{"PSYNC ? -1", "-ERR " + string(proto.ErrRedis) + "\r\n"},
		{"_fetch_file ../db/CURRENT", "-ERR no such file in the checkpoint\r\n"},
	} {
		c.Want(tt.command, tt.want)
	}
}

// TestReplicaIsFed: writes, transactions, messages and a flush reach a replica in order, and INFO and ROLE show the
// replica.
func TestReplicaIsFed(t *testing.T) {
	for _, layer := range []string{"plain", "TLS"} {
		t.Run(layer, func(t *testing.T) {
			h, dial := servertest.Layered(t, layer)
			c := dial()
			c.Want("SET before 1", "+OK\r\n")
			f := follow(t, dial(), 1)
			c.Want("SET k v", "+OK\r\n")
			c.Want("PUBLISH channel message", ":0\r\n")
			c.Want("MULTI", "+OK\r\n")
			c.Want("PUBLISH channel deferred", "+QUEUED\r\n")
			c.Want("SET in multi", "+QUEUED\r\n")
			c.Want("EXEC", "*2\r\n:0\r\n+OK\r\n")
			c.Want("FLUSHALL", "+OK\r\n")
			c.Want("SET after flush", "+OK\r\n")
			for _, want := range []string{"before", "v", "\x05\x03\x07channel\x07message", "multi",
				"\x05\x03\x07channel\x08deferred", "", "after"} {
				if b := f.batch(); !strings.Contains(string(b), want) {
					t.Errorf("%q, want one with %q", b, want)
				}
			}
			latest := h.DB.LatestSequence()
			if want := fmt.Sprintf("slave0:ip=replica.example,port=7999,state=online,offset=%d,lag=0",
				latest); !strings.Contains(c.Do("INFO", "replication"), want) {
				t.Errorf("%s, want %s", c.Do("INFO", "replication"), want)
			}
			c.Want("ROLE",
				fmt.Sprintf("*3\r\n$6\r\nmaster\r\n:%d\r\n*1\r\n*3\r\n$15\r\nreplica.example\r\n$4\r\n7999\r\n$%d\r\n%d\r\n",
					latest, len(fmt.Sprint(latest)), latest))
			if got := c.Do("CLIENT", "LIST", "TYPE", "replica"); strings.Count(got, "id=") != 1 {
				t.Errorf("CLIENT LIST: %s", got)
			}
			c.Want("CLIENT KILL TYPE replica", ":1\r\n")
			f.Closed()
			servertest.Eventually(t, "the replica is gone", func() bool { return h.Master().Connected() == 0 })
			c.Want("ROLE", fmt.Sprintf("*3\r\n$6\r\nmaster\r\n:%d\r\n*0\r\n", latest))
		})
	}
}

// TestResetReplicationStats: CONFIG RESETSTAT also sets the counters of synchronizations to zero.
func TestResetReplicationStats(t *testing.T) {
	h := servertest.Start(t)
	c := h.Dial(t)
	follow(t, h.Dial(t), 1)
	for _, want := range []string{"1", "0"} {
		fields, _ := servertest.ParseInfo(t, c.Do("INFO", "stats"))
		if got := fields["sync_partial_ok"]; got != want {
			t.Errorf("sync_partial_ok:%s, want %s", got, want)
		}
		c.Want("CONFIG RESETSTAT", "+OK\r\n")
	}
}

// TestWaitForReplicas: WAIT counts the replicas that have acknowledged the writes, and requests acknowledgements.
func TestWaitForReplicas(t *testing.T) {
	h := servertest.Start(t)
	c, w := h.Dial(t), h.Dial(t)
	f := follow(t, h.Dial(t), 1)
	c.Want("SET k v", "+OK\r\n")
	c.Want("WAIT 0 0", ":0\r\n")
	c.Want("WAIT 1 1", ":0\r\n") // the timeout passes before an acknowledgement
	w.Send(servertest.Pipeline("WAIT 1 0", "PING"))
	servertest.Eventually(t, "the client waits", func() bool {
		return strings.Contains(c.Do("INFO", "clients"),
			"blocked_clients:1\r\n")
	})
	f.batch()
	for f.frame().Kind != proto.KindGetAck {
	}
	f.Send(string(proto.AppendAck(nil, 1)))
	if got := w.Reply(); got != ":1\r\n" {
		t.Errorf("%q", got)
	}
	if got := w.Reply(); got != "+PONG\r\n" {
		t.Errorf("%q", got)
	}
	c.Want("WAIT 1 0", ":1\r\n") // there is no later write
	c.Want("SET k w", "+OK\r\n")
	c.Want("MULTI", "+OK\r\n")
	c.Want("WAIT 1 0", "+QUEUED\r\n")
	c.Want("EXEC", "*1\r\n:0\r\n")
	w.Send(servertest.Pipeline("WAIT 1 0"))
	servertest.Eventually(t, "the client waits", func() bool {
		return strings.Contains(c.Do("INFO", "clients"),
			"blocked_clients:1\r\n")
	})
	f.batch() // the master ignores acknowledgements of writes that it has not sent
	f.Send(string(proto.AppendAck(nil, 2)))
	if got := w.Reply(); got != ":1\r\n" {
		t.Errorf("%q", got)
	}
	w.Send(servertest.Pipeline("WAIT 2 0"))
	servertest.Eventually(t, "the client waits", func() bool {
		return strings.Contains(c.Do("INFO", "clients"),
			"blocked_clients:1\r\n")
	})
	f2 := follow(t, h.Dial(t), 1)
	f2.batch()
	f2.batch()
	f2.Send(string(proto.AppendAck(nil, 2)))
	if got := w.Reply(); got != ":2\r\n" {
		t.Errorf("%q", got)
	}
}

// TestWaitForSyncedReplicas: WAITAOF counts the replicas that have synced the writes to disk. It asks the replicas that
// have the capability sync, also a replica that connects later.
func TestWaitForSyncedReplicas(t *testing.T) {
	h := servertest.Start(t)
	c, w := h.Dial(t), h.Dial(t)
	old := follow(t, h.Dial(t), 1) // a replica without the capability sync
	c.Want("SET k v", "+OK\r\n")
	old.batch()
	old.Send(string(proto.AppendAck(nil, 1)))
	c.Want("WAIT 1 0", ":1\r\n")
	w.Send(servertest.Pipeline("WAITAOF 1 1 0"))
	servertest.Eventually(t, "the client waits", func() bool {
		return strings.Contains(c.Do("INFO", "clients"), "blocked_clients:1\r\n")
	})
	conn := h.Dial(t)
	conn.Want("REPLCONF capa ack capa sync", "+OK\r\n")
	f := follow(t, conn, 1)
	f.batch()
	for f.frame().Kind != proto.KindGetSync {
	}
	f.Send(string(proto.AppendAck(nil, 1)))
	c.Want("WAIT 2 0", ":2\r\n")
	c.Want("WAITAOF 0 1 1", "*2\r\n:0\r\n:0\r\n") // the replica has acknowledged the write, but not that it is synced
	f.Send(string(proto.AppendSyncedAck(nil, 1, 1)))
	if got := w.Reply(); got != "*2\r\n:1\r\n:1\r\n" {
		t.Errorf("%q", got)
	}
	c.Want("WAITAOF 0 2 1", "*2\r\n:0\r\n:1\r\n")
}

// TestTooFewReplicas: writes are refused while fewer than min-replicas-to-write replicas send acknowledgements.
func TestTooFewReplicas(t *testing.T) {
	h := servertest.Start(t, "min-replicas-to-write", "1")
	c := h.Dial(t)
	const lacking = "-NOREPLICAS Not enough good replicas to write.\r\n"
	c.Want("SET k v", lacking)
	c.Want("GET k", "$-1\r\n")
	f := follow(t, h.Dial(t), 1)
	c.Want("SET k v", lacking) // the replica has not sent an acknowledgement
	f.Send(string(proto.AppendAck(nil, 0)))
	servertest.Eventually(t, "the replica counts", func() bool { return c.Do("SET", "k", "v") == "+OK\r\n" })
	if info := c.Do("INFO", "replication"); !strings.Contains(info, "\r\nmin_slaves_good_slaves:1\r\n") {
		t.Error(info)
	}
	f.Close()
	servertest.Eventually(t, "the replica is gone", func() bool { return c.Do("SET", "k", "v") == lacking })
	c.Want("CONFIG SET min-replicas-to-write 0", "+OK\r\n")
	c.Want("SET k v", "+OK\r\n")
}

// TestReplicationID: with use-rsid-psync a master creates a replication id, which it adds to the end of each batch, and
// PSYNC with another id is refused.
func TestReplicationID(t *testing.T) {
	h := servertest.Start(t, "use-rsid-psync", "yes")
	c := h.Dial(t)
	c.Want("SET k v", "+OK\r\n")
	f := follow(t, h.Dial(t), 1)
	first := f.batch()
	id := string(first[len(first)-proto.IDLen:])
	if !strings.Contains(string(first), "replication_id_\x10"+id) || !strings.HasSuffix(string(f.batch()), "r "+id) {
		t.Errorf("%q", first)
	}
	c.Want("PSYNC 0000000000000000 2", "-ERR wrong replication id of the last log\r\n")
	c.Want("PSYNC "+id+" 2", "+OK\r\n")
}

// TestClosingWithReplicas: Close ends the links of replicas. The log can still be read afterwards.
func TestClosingWithReplicas(t *testing.T) {
	h := servertest.Start(t)
	f := follow(t, h.Dial(t), 1)
	c := h.Dial(t)
	c.Want("SET k v", "+OK\r\n")
	f.batch()
	h.Close()
	f.Closed()
	if _, err := h.DB.UpdatesAfter(0, engine.UpdatesLimit{Batches: 1, Bytes: 1}); err != nil {
		t.Error(err)
	}
}
