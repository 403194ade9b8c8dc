package replycache

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/basaltdb/basalt/engine/derived"
	"github.com/basaltdb/basalt/server/command"
)

func words(line string) (args [][]byte) {
	for _, w := range strings.Fields(line) {
		args = append(args, []byte(w))
	}
	return args
}

// request identifies a command in RESP2 in a namespace, with a generation of its key's lock.
func request(t *testing.T, ns, line string, generation uint64) *Request {
	t.Helper()
	args := words(line)
	spec, err := command.Resolve(args)
	if err != nil {
		t.Fatal(err)
	}
	var q Request
	q.Set(2, ns, spec, args, generation)
	return &q
}

// keep keeps the reply of a first request.
func keep(t *testing.T, c Cache, q *Request, reply string, until int64) {
	t.Helper()
	if !c.Seen(q) {
		t.Error("a reply is not kept although there is room")
	}
	c.Put(q, []byte(reply), until)
}

// Without room, a reply is kept from the second request on, one time of eight.
func TestWithoutRoom(t *testing.T) {
	r := derived.New(1 << 20)
	c := New(r)
	q := request(t, "ns", "LRANGE other 0 -1", 7)
	for i := 0; r.HasRoom(q.id, usualReply); i++ {
		keep(t, c, request(t, "ns", fmt.Sprint("LRANGE l 0 ", i), 7), strings.Repeat("x", usualReply), 0)
	}
	if c.Seen(q) {
		t.Error("a first request displaces the reply of another one")
	}
	kept := 0
	for range 1000 {
		if c.Seen(q) {
			kept++
		}
	}
	if kept == 0 || kept > 500 {
		t.Errorf("%d of 1000 repeated requests displace the reply of another one", kept)
	}
}

// A kept reply answers the same request only.
func TestGet(t *testing.T) {
	c := New(derived.New(1 << 20))
	q := request(t, "ns", "LRANGE l 0 -1", 7)
	if c.Get(q, 0) != nil {
		t.Error("an empty cache has a reply")
	}
	keep(t, c, q, "*1\r\n$1\r\na\r\n", 0)
	if got := c.Get(q, 1<<60); string(got) != "*1\r\n$1\r\na\r\n" {
		t.Errorf("%q", got)
	}
	resp3 := request(t, "ns", "LRANGE l 0 -1", 7)
	resp3.Set(3, "ns", command.Lookup([]byte("lrange")), words("LRANGE l 0 -1"), 7)
	for name, other := range map[string]*Request{
		"other arguments": request(t, "ns", "LRANGE l 0 1", 7), "another command": request(t, "ns", "ZRANGE l 0 -1", 7),
		"another namespace": request(t, "n", "LRANGE l 0 -1", 7), "another protocol": resp3,
		"arguments that join to the same": request(t, "ns", "LRANGE l0 -1 0", 7),
	} {
		if got := c.Get(other, 0); got != nil {
			t.Errorf("%s: %q", name, got)
		}
	}
}

// A reply is gone with the next generation, even when the former one is asked for again.
func TestGenerations(t *testing.T) {
	c := New(derived.New(1 << 20))
	q := request(t, "ns", "LRANGE l 0 -1", 7)
	keep(t, c, q, "+OK\r\n", 0)
	if got := c.Get(request(t, "ns", "LRANGE l 0 -1", 8), 0); got != nil {
		t.Errorf("in the next generation: %q", got)
	}
	if got := c.Get(q, 0); got != nil {
		t.Errorf("in the former generation: %q", got)
	}
}

func TestExpiry(t *testing.T) {
	c := New(derived.New(1 << 20))
	q := request(t, "ns", "LRANGE l 0 -1", 7)
	keep(t, c, q, "+OK\r\n", 1000)
	if c.Get(q, 999) == nil {
		t.Error("the reply is gone before the key expires")
	}
	if c.Get(q, 1000) != nil {
		t.Error("the reply outlives the key")
	}
}

// What is kept is bounded, and it is a copy.
func TestBounds(t *testing.T) {
	r := derived.New(1 << 20)
	c := New(r)
	q := request(t, "ns", "LRANGE l 0 -1", 7)
	long := bytes.Repeat([]byte("x"), MaxReply+1)
	c.Put(q, long, 0)
	if c.Get(q, 0) != nil {
		t.Error("a reply longer than the limit was kept")
	}
	reply := []byte("+OK\r\n")
	c.Put(q, reply, 0)
	reply[1] = 'x'
	if got := c.Get(q, 0); string(got) != "+OK\r\n" {
		t.Errorf("%q", got)
	}
	r.SetLimit(0)
	if c.Get(q, 0) != nil || c.Seen(q) || c.Seen(q) {
		t.Error("a cache without room keeps replies")
	}
}

// A request that repeats costs no allocation.
func TestAllocations(t *testing.T) {
	c := New(derived.New(1 << 20))
	q := request(t, "ns", "LRANGE l 0 -1", 7)
	keep(t, c, q, "+OK\r\n", 0)
	spec, args := command.Lookup([]byte("lrange")), words("LRANGE l 0 -1")
	if n := testing.AllocsPerRun(100, func() {
		q.Set(2, "ns", spec, args, 7)
		if c.Get(q, 0) == nil {
			t.Fatal("the reply is gone")
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
