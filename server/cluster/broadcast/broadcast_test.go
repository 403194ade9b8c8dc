package broadcast

import (
	"bytes"
	"context"
	"errors"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/basaltdb/basalt/server/cluster/peertest"
	"github.com/basaltdb/basalt/server/cluster/topology"
)

type dialer = func(ctx context.Context, addr string) (net.Conn, error)

// nodes are the nodes of a test by address.
type nodes map[string]*peertest.Node

func (n nodes) dial(ctx context.Context, addr string) (net.Conn, error) {
	return n[addr].Dial(ctx, addr)
}

func id(name string) string { return strings.Repeat(name, topology.IDLen) }

// The nodes a and b are masters; c and d are replicas of a, e is one of b.
var text = strings.NewReplacer("A", id("a"), "B", id("b"), "C", id("c"), "D", id("d"), "E", id("e")).Replace(
	"A a 1 master - 0-99\nB b 1 master - 100-16383\nC c 1 slave A\nD d 1 slave A\nE e 1 replica B\n")

func topologyOf(t *testing.T, self string) *topology.Topology {
	top, err := topology.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	top.Self = top.Node(id(self))
	return top
}

func newSender(t *testing.T, self string, dial dialer) (*Sender, *observer.ObservedLogs) {
	core, logs := observer.New(zap.WarnLevel)
	top := topologyOf(t, self)
	return New(Options{Log: zap.New(core), Topology: func() *topology.Topology { return top }, Dial: dial,
		Password: func() string { return "secret" }}), logs
}

// commands returns what a node has received since the last call, one command a word.
func commands(n *peertest.Node) string {
	var all []string
	for _, c := range n.Commands() {
		all = append(all, strings.Join(c, "-"))
	}
	return strings.Join(all, " ")
}

// Messages of channels go to all masters, those of shard channels to the nodes that have the same slots.
func TestNodes(t *testing.T) {
	for _, c := range []struct {
		self, want string
		shard      bool
	}{
		{"a", "b", false}, {"a", "c d", true},
		{"c", "a b", false}, {"c", "a d", true},
		{"e", "a b", false}, {"e", "b", true},
		{"x", "", false}, {"x", "", true}, // not in the cluster
	} {
		synctest.Test(t, func(t *testing.T) {
			all := nodes{}
			for _, name := range []string{"a", "b", "c", "d", "e"} {
				all[name+":1"] = &peertest.Node{}
			}
			s, _ := newSender(t, c.self, all.dial)
			defer s.Close()
			s.Send([]byte("channel"), []byte("message"), c.shard)
			synctest.Wait()
			want := "AUTH-secret CLUSTERX-RELAY PUBLISH-channel-message"
			if c.shard {
				want = strings.Replace(want, "PUBLISH", "SPUBLISH", 1)
			}
			var got []string
			for addr, n := range all {
				switch sent := commands(n); sent {
				case want:
					got = append(got, addr[:1])
				case "":
				default:
					t.Errorf("%s: %s received %q", c.self, addr, sent)
				}
			}
			if slices.Sort(got); strings.Join(got, " ") != c.want {
				t.Errorf("from %s, shard %t: sent to %q, want %q", c.self, c.shard, got, c.want)
			}
		})
	}
}

// A node gets messages in their order, also a Kvrocks, which does not know CLUSTERX RELAY. The caller may change them.
func TestOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &peertest.Node{Answer: func(cmd []string) (string, bool) {
			switch cmd[0] {
			case "CLUSTERX":
				return "-ERR CLUSTERX command, CLUSTERX VERSION|MYID|SETNODEID|SETNODES|SETSLOT|MIGRATE\r\n", true
			case "PUBLISH":
				return ":0\r\n", true
			}
			return "", true
		}}
		s, logs := newSender(t, "a", b.Dial)
		defer s.Close()
		want := []string{"AUTH-secret", "CLUSTERX-RELAY"}
		var message []byte
		for i := range 1000 {
			message = strconv.AppendInt(message[:0], int64(i), 10)
			s.Send([]byte("c"), message, false)
			want = append(want, "PUBLISH-c-"+strconv.Itoa(i))
		}
		synctest.Wait()
		if got := commands(b); got != strings.Join(want, " ") {
			t.Errorf("got %.200q", got)
		}
		if logs.Len() > 0 {
			t.Error(logs.All())
		}
	})
}

// A node that refuses CLUSTERX RELAY for another reason than that it does not know it gets no messages: it would pass
// them on.
func TestRefused(t *testing.T) {
	for _, refusal := range []string{
		"NOPERM User default has no permissions to run the 'clusterx|relay' command",
		"ERR this command needs an administrator", "NOAUTH Authentication required.",
	} {
		synctest.Test(t, func(t *testing.T) {
			b := &peertest.Node{Answer: func(cmd []string) (string, bool) {
				if cmd[0] == "CLUSTERX" {
					return "-" + refusal + "\r\n", true
				}
				return "", true
			}}
			s, logs := newSender(t, "a", b.Dial)
			defer s.Close()
			s.Send([]byte("c"), []byte("1"), false)
			synctest.Wait()
			if got := commands(b); got != "AUTH-secret CLUSTERX-RELAY" || logs.Len() != 1 {
				t.Error(got, logs.All())
			}
		})
	}
}

// A message that a node refuses holds up no other one.
func TestUnknownMessages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		master := &peertest.Node{Answer: func(cmd []string) (string, bool) {
			if cmd[0] == "SPUBLISH" {
				return "-ERR unknown command\r\n", true
			}
			return "", true
		}}
		s, logs := newSender(t, "e", func(ctx context.Context, addr string) (net.Conn, error) {
			if addr != "b:1" {
				return nil, errors.New("refused")
			}
			return master.Dial(ctx, addr)
		})
		defer s.Close()
		began := time.Now()
		s.Send([]byte("c"), []byte("0"), true)
		synctest.Wait()
		s.Send([]byte("c"), []byte("1"), true)
		synctest.Wait()
		s.Send([]byte("c"), []byte("2"), false)
		synctest.Wait()
		if got := commands(master); !strings.HasSuffix(got, "SPUBLISH-c-1 PUBLISH-c-2") || time.Since(began) > 0 {
			t.Error(got, time.Since(began))
		}
		if got := logs.FilterField(zap.String("node", "b:1")).Len(); got != 1 {
			t.Error(logs.All())
		}
	})
}

// While a node cannot be reached, or does not read, what waits for it is bounded, and the log says how many messages
// were lost. When it is back it gets the next ones.
func TestUnreachable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &peertest.Node{}
		var up atomic.Bool
		s, logs := newSender(t, "a", func(ctx context.Context, addr string) (net.Conn, error) {
			if !up.Load() {
				return nil, errors.New("refused")
			}
			return b.Dial(ctx, addr)
		})
		defer s.Close()
		s.Send([]byte("c"), []byte("1"), false)
		synctest.Wait()
		if got := logs.FilterMessageSnippet("do not reach").Len(); got != 1 {
			t.Fatal(logs.All())
		}
		large := bytes.Repeat([]byte("x"), maxQueue/4)
		for range 10 {
			s.Send([]byte("c"), large, false)
		}
		s.mu.Lock()
		l := s.links["b:1"]
		if l.bytes > maxQueue || len(l.queue) != 3 || l.lost != 1+7 {
			t.Errorf("%d messages of %d bytes wait, %d are lost", len(l.queue), l.bytes, l.lost)
		}
		s.mu.Unlock()
		up.Store(true)
		time.Sleep(retryTime) // of the bubble
		synctest.Wait()
		if got := len(b.Commands()); got != 2+3 {
			t.Errorf("%d commands", got)
		}
		if again := logs.FilterMessageSnippet("takes them again").All(); len(again) != 1 ||
			again[0].ContextMap()["lost"] != int64(8) {
			t.Error(logs.All())
		}
	})
}

// A node may close a connection that is idle; the next message must not be lost by that. Without messages the
// connection and its goroutine end.
func TestIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var closing atomic.Bool
		b := &peertest.Node{Answer: func(cmd []string) (string, bool) { return "", !closing.CompareAndSwap(true, false) }}
		s, logs := newSender(t, "a", b.Dial)
		defer s.Close()
		s.Send([]byte("c"), []byte("1"), false)
		synctest.Wait()
		closing.Store(true)
		b.Commands()
		s.Send([]byte("c"), []byte("2"), false)
		synctest.Wait()
		if got := commands(b); got != "PUBLISH-c-2 AUTH-secret CLUSTERX-RELAY PUBLISH-c-2" || logs.Len() > 0 {
			t.Error(got, logs.All())
		}
		time.Sleep(2 * idleTime) // of the bubble
		synctest.Wait()
		s.mu.Lock()
		if len(s.links) > 0 {
			t.Error("the connection is kept")
		}
		s.mu.Unlock()
		s.Send([]byte("c"), []byte("3"), false)
		synctest.Wait()
		if got := commands(b); got != "AUTH-secret CLUSTERX-RELAY PUBLISH-c-3" {
			t.Error(got)
		}
	})
}
