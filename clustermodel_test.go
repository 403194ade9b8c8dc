package main

import (
	"bufio"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/basaltdb/basalt/server/servertest"
)

// A load on a cluster, and a model of the keys: every acknowledged write counts once, a write without a reply counts
// once or not at all, and no other write counts.

// roamer is a client without a topology: it asks any node and follows redirections. So it also asks a node that has
// just got a slot, or has just lost one, before others do.
type roamer struct {
	t     testing.TB
	nodes []*clusterNode
	conns []*servertest.Client
	rnd   *rand.Rand
	over  *atomic.Bool // set when the client is to end, whatever it waits for
}

func newRoamer(t testing.TB, nodes []*clusterNode, seed uint64) *roamer {
	return &roamer{t: t, nodes: nodes, conns: make([]*servertest.Client, len(nodes)), rnd: rand.New(rand.NewPCG(seed, 1)),
		over: new(atomic.Bool)}
}

func (c *roamer) close() {
	for i := range c.conns {
		c.drop(i)
	}
}

func (c *roamer) drop(i int) {
	if c.conns[i] != nil {
		c.conns[i].Close()
		c.conns[i] = nil
	}
}

// ask sends a command to a node. sent: the command may have run although there is an error.
func (c *roamer) ask(i int, args []string) (reply string, sent bool, err error) {
	if c.conns[i] == nil {
		nc, err := net.Dial("tcp", *c.nodes[i].at.Load())
		if err != nil {
			return "", false, err
		}
		c.conns[i] = &servertest.Client{T: c.t, Conn: nc, R: bufio.NewReader(nc)}
	}
	conn := c.conns[i]
	conn.SetDeadline(time.Now().Add(patience))
	_, err = io.WriteString(conn, servertest.Encode(args...))
	var b strings.Builder
	if err == nil {
		err = conn.ReadReply(&b)
	}
	if err != nil {
		c.drop(i)
	}
	return b.String(), true, err
}

// do runs a command on the node of its slot. doubt: the command may or may not have run.
func (c *roamer) do(args ...string) (reply string, doubt bool) {
	i := c.rnd.IntN(len(c.nodes))
	deadline := time.Now().Add(patience)
	var err error
	for turn := 0; ; turn++ {
		if c.over.Load() {
			return "", true
		}
		if time.Now().After(deadline) {
			c.t.Errorf("%q: nobody runs it: %q, %v", args, reply, err)
			c.over.Store(true)
			return "", true
		}
		if turn > 1 {
			time.Sleep(time.Millisecond)
		}
		var sent bool
		reply, sent, err = c.ask(i, args)
		switch {
		case err != nil && sent:
			return "", true
		case err != nil:
			i = c.rnd.IntN(len(c.nodes))
		case strings.HasPrefix(reply, "-MOVED "):
			_, port, _ := strings.Cut(strings.TrimSpace(reply), ":")
			i = slices.IndexFunc(c.nodes, func(n *clusterNode) bool { return strconv.Itoa(n.proxy.Port()) == port })
		case strings.HasPrefix(reply, "-TRYAGAIN "), strings.HasPrefix(reply, "-CLUSTERDOWN "):
		default:
			return reply, false
		}
	}
}

// modelKey is a key with its possible values. A write in doubt leaves several.
type modelKey struct {
	name, kind string
	states     []string
}

// elementsOf returns the elements of a state of a list or a set.
func elementsOf(state string) []string {
	if state == "" {
		return nil
	}
	return strings.Split(state, ",")
}

// modelWrites are the writes to keys of each kind: K is the key, N a number that no other write has.
var modelWrites = map[string][]struct {
	command string
	effect  func(state, n string) string
}{
	"string": {
		{"SET K N", func(_, n string) string { return n }},
		{"APPEND K xN", func(s, n string) string { return s + "x" + n }},
		{"DEL K", func(string, string) string { return "" }},
	},
	"number": {
		{"INCR K", func(s, _ string) string { v, _ := strconv.Atoi(s); return strconv.Itoa(v + 1) }},
	},
	"list": {
		{"RPUSH K N", func(s, n string) string { return strings.Join(append(elementsOf(s), n), ",") }},
		{"RPUSH K N", func(s, n string) string { return strings.Join(append(elementsOf(s), n), ",") }},
		{"LPOP K", func(s, _ string) string { return strings.Join(elementsOf(s)[min(1, len(elementsOf(s))):], ",") }},
	},
	"set": {
		{"SADD K N", func(s, n string) string { return sorted(append(elementsOf(s), n)) }},
		{"DEL K", func(string, string) string { return "" }},
	},
}

func sorted(words []string) string {
	slices.Sort(words)
	return strings.Join(words, ",")
}

var modelReads = map[string]string{"string": "GET K", "number": "GET K", "list": "LRANGE K 0 -1", "set": "SMEMBERS K"}

// replyWords returns the strings of a reply.
func replyWords(reply string) (words []string) {
	lines := strings.Split(reply, "\r\n")
	for i, line := range lines {
		if strings.HasPrefix(line, "$") && line != "$-1" {
			words = append(words, lines[i+1])
		}
	}
	return words
}

// modelLoad are writers, each with its own keys.
type modelLoad struct {
	t       testing.TB
	nodes   []*clusterNode
	numbers atomic.Int64
	acked   atomic.Int64
	gate    sync.RWMutex // held for writing while they pause
	paused  bool
	over    atomic.Bool
	ended   sync.WaitGroup
	writers []*modelWriter
}

type modelWriter struct {
	*roamer
	load *modelLoad
	keys []*modelKey
}

// startLoad starts writers for keys with some hash tags. They are paused at first.
func startLoad(t testing.TB, nodes []*clusterNode, tags []string, writers int) *modelLoad {
	l := &modelLoad{t: t, nodes: nodes}
	l.pause()
	for i := range writers {
		w := &modelWriter{roamer: newRoamer(t, nodes, uint64(i)), load: l}
		w.over = &l.over
		for k := range 8 {
			for _, kind := range []string{"string", "number", "list", "set"} {
				tag := tags[(i*8+k)*len(tags)/(writers*8)]
				w.keys = append(w.keys, &modelKey{fmt.Sprintf("{%s}%s:%d:%d", tag, kind, i, k), kind, []string{""}})
			}
		}
		l.writers = append(l.writers, w)
		l.ended.Go(func() {
			defer w.close()
			for !l.over.Load() {
				l.gate.RLock()
				w.step()
				l.gate.RUnlock()
			}
		})
	}
	t.Cleanup(l.stop)
	return l
}

func (l *modelLoad) resume() {
	l.paused = false
	l.gate.Unlock()
}

func (l *modelLoad) pause() {
	l.gate.Lock()
	l.paused = true
}

// stop ends the writers.
func (l *modelLoad) stop() {
	l.over.Store(true)
	if l.paused {
		l.resume()
	}
	l.ended.Wait()
}

// more waits until n more writes are acknowledged.
func (l *modelLoad) more(n int64) {
	l.t.Helper()
	want := l.acked.Load() + n
	for deadline := time.Now().Add(patience); l.acked.Load() < want; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) || l.over.Load() {
			l.t.Fatal("the clients do not go on")
		}
	}
}

// step writes one key, and sometimes reads it.
func (w *modelWriter) step() {
	k := w.keys[w.rnd.IntN(len(w.keys))]
	ops := modelWrites[k.kind]
	op := ops[w.rnd.IntN(len(ops))]
	if len(k.states[0]) > 200 {
		op = modelWrites["string"][2]
		if k.kind == "number" {
			op = modelWrites["number"][0]
		}
	}
	n := strconv.FormatInt(w.load.numbers.Add(1), 10)
	args := strings.Fields(op.command)
	args[1] = k.name
	if len(args) > 2 {
		args[2] = strings.Replace(args[2], "N", n, 1)
	}
	reply, doubt := w.do(args...)
	if doubt && w.over.Load() {
		return
	}
	var after []string
	for _, s := range k.states {
		after = append(after, op.effect(s, n))
	}
	switch {
	case doubt:
		k.states = append(k.states, after...)
		w.check(k)
	case strings.HasPrefix(reply, "-"):
		w.t.Errorf("%q: %s", args, reply)
	default:
		k.states = after
		w.load.acked.Add(1)
		if w.rnd.IntN(8) == 0 {
			w.check(k)
		}
	}
}

// check reads a key: from then on its value is known.
func (w *modelWriter) check(k *modelKey) {
	args := strings.Fields(strings.Replace(modelReads[k.kind], "K", k.name, 1))
	reply, doubt := w.do(args...)
	for doubt && !w.over.Load() {
		reply, doubt = w.do(args...)
	}
	if doubt {
		return
	}
	words := replyWords(reply)
	if k.kind == "set" {
		slices.Sort(words)
	}
	is := strings.Join(words, ",")
	if !slices.Contains(k.states, is) {
		w.t.Errorf("%s is %q, and can only be one of %q", k.name, is, k.states)
	}
	k.states = []string{is}
}

// live pauses the load, checks all its keys, and returns the names of the existing ones.
func (l *modelLoad) live() (names []string) {
	for _, w := range l.writers {
		for _, k := range w.keys {
			w.check(k)
			if k.states[0] != "" {
				names = append(names, k.name)
			}
		}
	}
	return names
}
