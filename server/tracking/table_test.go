package tracking

import (
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/server/command"
	"github.com/basaltdb/basalt/server/wire"
)

// bench is a table with connections, whose numbers are their ids.
type bench struct {
	*Table
	t        *testing.T
	observed bool
	peers    map[int64]*peer
}

type peer struct {
	Peer
	there net.Conn
}

func newBench(t *testing.T) *bench {
	b := &bench{t: t, peers: map[int64]*peer{}}
	b.Table = New(Options{
		Observe: func(o engine.Observer) { b.observed = o != nil },
		Find: func(id int64) (Peer, bool) {
			p, ok := b.peers[id]
			if !ok {
				return Peer{}, false
			}
			return p.Peer, true
		},
	})
	return b
}

func (b *bench) connect(id int64, proto int) *peer {
	here, there := net.Pipe()
	p := &peer{there: there}
	p.Out, p.Proto, p.Namespace = wire.New(here, wire.Limits{Hard: func() int { return 0 }}), proto, "ns"
	b.t.Cleanup(func() { there.Close(); p.Out.Close() })
	b.peers[id] = p
	return p
}

// track begins to track for a connection that is idle.
func (b *bench) track(id int64, how command.Tracking) *Client {
	p := b.peers[id]
	c := b.Add(id, how, func() Peer { return p.Peer })
	c.Idle(nil)
	return c
}

func nsKey(key string) []byte { return cf.AppendNSKey(nil, "ns", []byte(key), false) }

func (b *bench) read(c *Client, key string, expire uint64) {
	b.Remember(c, nsKey(key), []byte(key), expire)
}

func (b *bench) commit(by any, keys ...string) {
	var all [][]byte
	for _, k := range keys {
		all = append(all, nsKey(k))
	}
	b.Committed(by, all)
}

// expect reads what the connection gets next.
func (p *peer) expect(t *testing.T, want string) {
	t.Helper()
	p.there.SetReadDeadline(time.Now().Add(10 * time.Minute))
	got := make([]byte, len(want))
	if _, err := io.ReadFull(p.there, got); err != nil || string(got) != want {
		t.Fatalf("received %q, want %q: %v", got, want, err)
	}
}

// quiet checks that the connection gets nothing: what is sent now comes next.
func (p *peer) quiet(t *testing.T) {
	t.Helper()
	p.Out.Send([]byte("next"))
	p.expect(t, "next")
}

func invalidate(keys ...string) string {
	s := fmt.Sprintf(">2\r\n$10\r\ninvalidate\r\n*%d\r\n", len(keys))
	for _, k := range keys {
		s += fmt.Sprintf("$%d\r\n%s\r\n", len(k), k)
	}
	return s
}

const invalidateAll = ">2\r\n$10\r\ninvalidate\r\n_\r\n"

var somebody = &Origin{ID: 99}

func TestTable(t *testing.T) {
	for _, tt := range []struct {
		name string
		how  command.Tracking
		do   func(b *bench, c *Client)
		want string
	}{
		{"a change", command.Tracking{}, func(b *bench, c *Client) { b.commit(somebody, "other", "k") }, invalidate("k")},
		{"only the first change", command.Tracking{}, func(b *bench, c *Client) {
			b.commit(somebody, "k")
			b.commit(somebody, "k")
		}, invalidate("k")},
		{"an own change", command.Tracking{}, func(b *bench, c *Client) { b.commit(&Origin{ID: 1}, "k") }, invalidate("k")},
		{"NOLOOP", command.Tracking{NoLoop: true}, func(b *bench, c *Client) { b.commit(&Origin{ID: 1}, "k") }, ""},
		{"the server's change", command.Tracking{NoLoop: true}, func(b *bench, c *Client) {
			b.commit(nil, "k")
		}, invalidate("k")},
		{"a flush", command.Tracking{NoLoop: true}, func(b *bench, c *Client) {
			prefix := cf.AppendNSPrefix(nil, "ns")
			end, _ := cf.AppendSuccessor(nil, prefix)
			b.Flushed(&Origin{ID: 1}, prefix, end)
		}, invalidateAll},
		{"a flush of another namespace", command.Tracking{}, func(b *bench, c *Client) {
			prefix := cf.AppendNSPrefix(nil, "other")
			end, _ := cf.AppendSuccessor(nil, prefix)
			b.Flushed(somebody, prefix, end)
		}, ""},
		{"expiry", command.Tracking{}, func(b *bench, c *Client) {
			b.Expire(time.UnixMilli(999))
			b.Expire(time.UnixMilli(1000))
			b.Expire(time.UnixMilli(1001))
		}, invalidate("k")},
		{"prefixes", command.Tracking{Broadcast: true, Prefixes: []string{"a", "ab"}}, func(b *bench, c *Client) {
			b.commit(somebody, "abc", "x", "a", "abc")
		}, invalidate("a", "abc") + invalidate("abc")},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := newBench(t)
			p := b.connect(1, 3)
			c := b.track(1, tt.how)
			if !b.observed || b.Clients() != 1 {
				t.Error("the table does not observe the database")
			}
			if !tt.how.Broadcast {
				b.read(c, "k", 1000)
			}
			tt.do(b, c)
			if tt.want == "" {
				p.quiet(t)
			}
			p.expect(t, tt.want)
			p.quiet(t)
			b.Remove(c, nil)
			if b.observed || b.Clients() != 0 || b.Keys() != 0 || b.Items() != 0 || b.Prefixes() != 0 || b.expires.Load() != 0 {
				t.Errorf("%d clients, %d keys, %d items are left", b.Clients(), b.Keys(), b.Items())
			}
			b.commit(somebody, "k", "a")
			p.quiet(t)
		})
	}
}

// The table is bounded: of what is dropped the readers are told.
func TestLimit(t *testing.T) {
	b := newBench(t)
	p := b.connect(1, 3)
	c := b.track(1, command.Tracking{})
	const limit, n = 10, 500
	b.SetLimit(limit)
	for i := range n {
		b.read(c, fmt.Sprintf("k%03d", i), uint64(1+i%2))
	}
	if b.Keys() > limit || b.Items() != b.Keys() {
		t.Errorf("%d keys and %d items, the limit is %d", b.Keys(), b.Items(), limit)
	}
	p.there.SetReadDeadline(time.Now().Add(10 * time.Minute))
	if _, err := io.CopyN(io.Discard, p.there, (n-b.Keys())*int64(len(invalidate("k000")))); err != nil {
		t.Error(err)
	}
	p.quiet(t)
}

// While commands run, messages wait; those of a run go with its batch.
func TestBusyClient(t *testing.T) {
	b := newBench(t)
	p := b.connect(1, 3)
	c := b.track(1, command.Tracking{})
	b.read(c, "k", 0)
	c.Begin()
	b.commit(somebody, "k")
	if _, n := p.Out.Backlog(); n != 0 {
		t.Errorf("%d bytes are sent while it is busy", n)
	}
	var flusher wire.Flusher
	batch := wire.NewBatch(&flusher)
	c.Idle(&batch)
	if !batch.Pending() {
		t.Error("the message does not wait for the flush")
	}
	batch.Flush()
	p.expect(t, invalidate("k"))
}

// A message goes where it is redirected to, or the client hears that there is nobody.
func TestRedirect(t *testing.T) {
	b := newBench(t)
	own, to := b.connect(1, 3), b.connect(2, 2)
	to.Subscribed = true
	c := b.track(1, command.Tracking{Redirect: 2})
	b.read(c, "k", 0)
	b.commit(somebody, "k")
	to.expect(t, "*3\r\n$7\r\nmessage\r\n$20\r\n"+command.InvalidateChannel+"\r\n*1\r\n$1\r\nk\r\n")
	own.quiet(t)
	delete(b.peers, 2)
	b.read(c, "k", 0)
	b.commit(somebody, "k")
	own.expect(t, ">2\r\n$21\r\ntracking-redir-broken\r\n:2\r\n")
	if !c.Broken() || c.Letters() != "tR" {
		t.Errorf("flags %q", c.Letters())
	}
}

// What CLIENT CACHING says decides with OPTIN and OPTOUT.
func TestRemembers(t *testing.T) {
	for _, tt := range []struct {
		how               command.Tracking
		default_, yes, no bool
	}{
		{command.Tracking{}, true, true, true},
		{command.Tracking{OptIn: true}, false, true, false},
		{command.Tracking{OptOut: true}, true, true, false},
		{command.Tracking{Broadcast: true}, false, false, false},
	} {
		b := newBench(t)
		b.connect(1, 3)
		c := b.track(1, tt.how)
		got := []bool{c.Remembers(command.ReadOnly)}
		c.SetCaching(true)
		got = append(got, c.Remembers(command.ReadOnly))
		c.SetCaching(false)
		got = append(got, c.Remembers(command.ReadOnly))
		if want := []bool{tt.default_, tt.yes, tt.no}; fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%+v: %v, want %v", tt.how, got, want)
		}
		if c.Ran(); c.Caching() != 0 || c.Remembers(command.Write) || c.Remembers(command.ReadOnly|command.Script) {
			t.Errorf("%+v: after a command, or of a script", tt.how)
		}
	}
}

// TestHeldBackIsBounded: what others write while a client's commands run is held back up to a bound; beyond it the
// client is told that everything has changed.
func TestHeldBackIsBounded(t *testing.T) {
	b := newBench(t)
	p := b.connect(1, 3)
	c := b.track(1, command.Tracking{Broadcast: true, Prefixes: []string{""}})
	long := strings.Repeat("k", 1000)
	const few = 3
	for _, tt := range []struct {
		keys int
		want string
	}{
		{few, strings.Repeat(invalidate(long), few)},
		{10 * maxHeld / len(long), invalidateAll},
		{few, strings.Repeat(invalidate(long), few)}, // the bound is for each run of commands
	} {
		c.Begin()
		for range tt.keys {
			b.commit(somebody, long)
		}
		if held := len(c.pending); held > maxHeld/len(long) {
			t.Errorf("after %d keys %d messages are held back", tt.keys, held)
		}
		c.Idle(nil)
		p.expect(t, tt.want)
		p.quiet(t)
	}
}

// A key that nobody writes does not collect the clients that have read it and have ended.
func TestEndedClientsAreForgotten(t *testing.T) {
	b := newBench(t)
	b.connect(1, 3)
	stays := b.track(1, command.Tracking{})
	b.read(stays, "k", 0)
	for range 1000 {
		b.connect(2, 3)
		c := b.track(2, command.Tracking{})
		b.read(c, "k", 0)
		b.Remove(c, nil)
	}
	if n := b.Items(); n > 4 {
		t.Errorf("%d clients are remembered, of which 1 still tracks", n)
	}
	b.commit(nil, "k")
	b.peers[1].expect(t, ">2\r\n$10\r\ninvalidate\r\n*1\r\n$1\r\nk\r\n")
	if n := b.Items(); n != 0 {
		t.Errorf("%d clients are remembered of no key", n)
	}
}
