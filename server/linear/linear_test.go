// Package linear_test looks for histories of concurrent clients that no order of their commands explains.
//
// Redis runs one command, transaction or script at a time. So for all that clients see there is an order of what they
// have sent that explains all replies, keeps the order of each client, and puts what was answered before what was sent
// later (Herlihy, Wing: Linearizability, 1990). Several clients send random commands on three keys at the same time; a
// model of the commands then searches for such an order (Wing, Gong: Testing and Verifying Concurrent Objects, 1993).
//
// Keys with an expiry have no part in it. A command that reads one record takes no lock: it may find a key expired
// while a transaction that began before the expiry still changes the key. DBSIZE is asked at rest only: it locks
// nothing, so two transactions that create a key each may both count without the other one's.
package linear_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/basaltdb/basalt/server/servertest"
)

// op is what a client has sent: a command, a transaction or a script; and what it has seen.
type op struct {
	kind       kind
	cmds       [][]string // of the transaction or the script; else one
	sent, done int64      // by a clock that all clients share
	reply      string
	parts      []string // the replies of the commands
}

type kind string

const (
	single kind = "command"
	multi  kind = "MULTI"
	eval   kind = "EVAL"
)

func (o *op) String() string {
	return fmt.Sprintf("%s %q, from %d to %d: %q", o.kind, o.cmds, o.sent, o.done, o.reply)
}

// script runs the commands in its arguments, each after the number of its words.
const script = `local out = {}
local at = 1
for i = 1, tonumber(ARGV[1]) do
  local n = tonumber(ARGV[at + 1])
  out[i] = redis.pcall(unpack(ARGV, at + 2, at + 1 + n))
  at = at + 1 + n
end
return out`

// encoded returns what is sent, and how many replies come.
func (o *op) encoded() (string, int) {
	switch o.kind {
	case multi:
		s := servertest.Encode("MULTI")
		for _, c := range o.cmds {
			s += servertest.Encode(c...)
		}
		return s + servertest.Encode("EXEC"), len(o.cmds) + 2
	case eval:
		args := []string{"EVAL", script}
		var keys []string
		for _, c := range o.cmds {
			for _, k := range keysOf(c) {
				if !slices.Contains(keys, k) {
					keys = append(keys, k)
				}
			}
		}
		if rand.IntN(3) == 0 { // undeclared keys are locked on the way
			keys = nil
		}
		args = append(args, fmt.Sprint(len(keys)))
		args = append(args, keys...)
		args = append(args, fmt.Sprint(len(o.cmds)))
		for _, c := range o.cmds {
			args = append(args, fmt.Sprint(len(c)))
			args = append(args, c...)
		}
		return servertest.Encode(args...), 1
	}
	return servertest.Encode(o.cmds[0]...), 1
}

// split returns the replies in an array of replies.
func split(reply string) []string {
	var one func() string
	rest := reply
	one = func() string {
		i := strings.Index(rest, "\r\n") + 2
		line := rest[:i]
		rest = rest[i:]
		n := number(strings.TrimSpace(line[1:]))
		switch {
		case line[0] == '$' && n >= 0:
			s := line + rest[:n+2]
			rest = rest[n+2:]
			return s
		case line[0] == '*':
			s := line
			for range n {
				s += one()
			}
			return s
		}
		return line
	}
	i := strings.Index(rest, "\r\n") + 2
	n := number(strings.TrimSpace(rest[1 : i-2]))
	rest = rest[i:]
	var out []string
	for range n {
		out = append(out, one())
	}
	return out
}

func pick[T any](all ...T) T { return all[rand.IntN(len(all))] }

// themes are the types that most commands of a history are about.
var themes = []string{"string", "list", "set", "hash", "zset", "any"}

// randomCommand makes a command, mostly of a theme. inside: of a transaction or a script, where nothing blocks.
func randomCommand(theme string, inside bool) []string {
	k, d, e := pick(modelKeys[:]...), pick(modelKeys[:]...), pick(modelKeys[:]...)
	x, n := pick("x", "y", "z"), pick("1", "2", "3")
	if theme == "any" {
		theme = pick(themes[:5]...)
	}
	if rand.IntN(4) == 0 {
		theme = "keys"
	}
	var all [][]string
	switch theme {
	case "keys":
		all = [][]string{{"DEL", k}, {"UNLINK", k}, {"EXISTS", k, d}, {"TYPE", k}, {"PEXPIRE", k, "-1"}, {"RENAME", k, d},
			{"SORT", k, "ALPHA", "STORE", d}, {"MGET", k, d}}
		if k != d {
			all = append(all, []string{"COPY", k, d}, []string{"COPY", k, d, "REPLACE"}, []string{"RENAMENX", k, d})
		}
		if rand.IntN(4) == 0 {
			all = [][]string{{"FLUSHALL"}}
		}
	case "string":
		all = [][]string{{"SET", k, n}, {"SET", k, x}, {"SET", k, n, "NX"}, {"SET", k, n, "XX"}, {"SET", k, n, "GET"},
			{"GET", k}, {"GET", k}, {"INCR", k}, {"INCR", k}, {"INCRBY", k, n}, {"APPEND", k, n}, {"GETDEL", k},
			{"GETSET", k, n}, {"SETRANGE", k, "1", n}, {"STRLEN", k}, {"SETNX", k, n}, {"MSET", "a", n, "b", n, "c", n},
			{"MSETNX", "a", n, "b", n}, {"MGET", "a", "b", "c"}}
	case "list":
		all = [][]string{{"LPUSH", k, x}, {"RPUSH", k, x}, {"RPUSH", k, x, n}, {"LPUSHX", k, x}, {"LPOP", k}, {"RPOP", k},
			{"LRANGE", k, "0", "-1"}, {"LRANGE", k, "0", "-1"}, {"LLEN", k}, {"LREM", k, "0", x},
			{"LMOVE", k, d, pick("LEFT", "RIGHT"), pick("LEFT", "RIGHT")}}
		if !inside {
			all = append(all, []string{"BLPOP", k, "0.002"}, []string{"BRPOP", k, "0.003"},
				[]string{"BLMOVE", k, d, "LEFT", "RIGHT", "0.002"},
				[]string{"BLMOVEM", k, d, "LEFT", "RIGHT", "0.002", pick("COUNT", "EXACTLY"), "2", "BULK"})
		}
	case "set":
		all = [][]string{{"SADD", k, x}, {"SADD", k, x, n}, {"SREM", k, x}, {"SREM", k, x, n}, {"SMEMBERS", k}, {"SCARD", k},
			{"SPOP", k}, {"SMOVE", k, d, x}, {"SUNIONSTORE", e, k, d}, {"SINTERSTORE", e, k, d}, {"SDIFFSTORE", e, k, d},
			{"ZUNIONSTORE", e, "2", k, d}}
	case "hash":
		all = [][]string{{"HSET", k, x, n}, {"HSET", k, x, n, "w", n}, {"HSETNX", k, x, n}, {"HINCRBY", k, x, n},
			{"HINCRBY", k, x, n}, {"HDEL", k, x}, {"HGET", k, x}, {"HGETALL", k}, {"HGETALL", k}, {"HLEN", k}}
	case "zset":
		all = [][]string{{"ZADD", k, n, x}, {"ZADD", k, n, x, "4", "w"}, {"ZINCRBY", k, n, x}, {"ZREM", k, x}, {"ZPOPMIN", k},
			{"ZPOPMAX", k}, {"ZRANGE", k, "0", "-1", "WITHSCORES"}, {"ZREVRANGE", k, "0", "-1", "WITHSCORES"}, {"ZRANK", k, x},
			{"ZSCORE", k, x}, {"ZCARD", k}, {"ZCOUNT", k, "-inf", "+inf"}, {"ZREMRANGEBYRANK", k, "0", "0"},
			{"ZRANGESTORE", k, d, "0", "1"}, {"ZUNIONSTORE", e, "2", k, d}}
		if !inside {
			all = append(all, []string{"BZPOPMIN", k, "0.002"})
		}
	}
	return pick(all...)
}

func randomOp(theme string) *op {
	o := &op{kind: pick(single, single, single, single, single, single, multi, eval)}
	n := 1
	if o.kind != single {
		n += rand.IntN(3)
	}
	for range n {
		o.cmds = append(o.cmds, randomCommand(theme, o.kind != single))
	}
	return o
}

// apply returns the state after an operation; ok: the operation has the reply in that order.
func (o *op) apply(s state) (after state, ok bool) {
	for i, c := range o.cmds {
		got := o.reply
		if o.kind != single {
			got = o.parts[i]
		}
		want := s.run(c, got)
		if want[0] == '-' { // the code of the error
			want, _, _ = strings.Cut(want, " ")
			got, _, _ = strings.Cut(got, " ")
		}
		if got != want {
			return s, false
		}
	}
	return s, true
}

// search looks for orders of the operations of several clients.
type search struct {
	clients [][]*op
	seen    map[string]bool  // positions and states
	ends    map[string]state // the states after all operations, by their text
}

// ends returns the possible states after the operations of clients.
func ends(from map[string]state, clients [][]*op) map[string]state {
	s := search{clients, map[string]bool{}, map[string]state{}}
	for _, begin := range from {
		s.from(make([]int, len(clients)), begin)
	}
	return s.ends
}

// from goes on where at[i] operations of client i are in the order.
func (s *search) from(at []int, now state) {
	key := fmt.Sprint(at, now.text())
	if s.seen[key] {
		return
	}
	s.seen[key] = true
	first, more := int64(0), false // when the first operation was answered that is not in the order
	for i, ops := range s.clients {
		if at[i] < len(ops) && (!more || ops[at[i]].done < first) {
			first, more = ops[at[i]].done, true
		}
	}
	if !more {
		s.ends[now.text()] = now
	}
	for i, ops := range s.clients {
		if at[i] < len(ops) && ops[at[i]].sent <= first {
			if after, ok := ops[at[i]].apply(now); ok {
				next := slices.Clone(at)
				next[i]++
				s.from(next, after)
			}
		}
	}
}

// send sends operations in pipelines, and notes the replies.
func send(c *servertest.Client, ops []*op, clock *atomic.Int64) {
	for len(ops) > 0 {
		now := ops[:1+rand.IntN(len(ops))]
		ops = ops[len(now):]
		text, replies := "", make([]int, len(now))
		for i, o := range now {
			var s string
			s, replies[i] = o.encoded()
			text += s
		}
		sent := clock.Add(1)
		c.Send(text)
		for i, o := range now {
			for range replies[i] {
				o.reply = c.Reply()
			}
			o.sent, o.done = sent, clock.Add(1)
			if o.kind != single {
				o.parts = split(o.reply)
			}
		}
	}
}

// readers read all keys.
func readers() (ops []*op) {
	all := []string{"DBSIZE"}
	for _, k := range modelKeys {
		for _, c := range []string{"TYPE", "GET", "LRANGE 0 -1", "SMEMBERS", "HGETALL", "ZRANGE 0 -1 WITHSCORES", "LLEN",
			"SCARD", "HLEN", "ZCARD"} {
			name, rest, _ := strings.Cut(c, " ")
			all = append(all, name+" "+k+" "+rest)
		}
	}
	for _, c := range all {
		ops = append(ops, &op{kind: single, cmds: [][]string{strings.Fields(c)}})
	}
	return ops
}

func TestLinearizable(t *testing.T) {
	if testing.Short() {
		t.Skip("random histories: make test-long searches them")
	}
	const histories = 300
	h := servertest.Start(t)
	var clock atomic.Int64
	clients := []*servertest.Client{h.Dial(t), h.Dial(t), h.Dial(t), h.Dial(t)}
	reader, beside := h.Dial(t), h.Dial(t)
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			default:
				beside.Do(strings.Fields(pick("COMPACT", "BGSAVE", "DBSIZE SCAN", "CLIENT PAUSE 2 WRITE", "CLIENT PAUSE 2"))...)
			}
		}
	}()
	defer func() { close(stop); <-stopped }()
	for range histories {
		reader.Do("FLUSHALL")
		possible := map[string]state{"": {}}
		theme := pick(themes...)
		for range 5 {
			history := make([][]*op, len(clients)+1)
			var wg sync.WaitGroup
			for i, c := range clients {
				for range 1 + rand.IntN(5) {
					history[i] = append(history[i], randomOp(theme))
				}
				wg.Go(func() { send(c, history[i], &clock) })
			}
			wg.Wait()
			history[len(clients)] = readers()
			send(reader, history[len(clients)], &clock)
			after := ends(possible, history)
			if len(after) == 0 {
				t.Errorf("no order explains the replies, from one of the states %v on:", possible)
				for i, ops := range history {
					for _, o := range ops {
						t.Logf("client %d: %v", i, o)
					}
				}
				return
			}
			possible = after
		}
	}
}

// TestSearch: histories that an order explains, and histories that none does.
func TestSearch(t *testing.T) {
	one := func(command, reply string, sent, done int64) *op {
		return &op{kind: single, cmds: [][]string{strings.Fields(command)}, reply: reply, sent: sent, done: done}
	}
	set := func(sent, done int64) *op { return one("SET a 1", "+OK\r\n", sent, done) }
	both := &op{kind: multi, cmds: [][]string{{"SET", "a", "1"}, {"SET", "b", "1"}}, sent: 1, done: 4,
		parts: []string{"+OK\r\n", "+OK\r\n"}}
	for name, tt := range map[string]struct {
		a, b []*op // of two clients
		want bool
	}{
		"the later one first":     {[]*op{one("INCR a", ":2\r\n", 1, 3)}, []*op{one("INCR a", ":1\r\n", 2, 4)}, true},
		"a lost update":           {[]*op{one("INCR a", ":1\r\n", 1, 3)}, []*op{one("INCR a", ":1\r\n", 2, 4)}, false},
		"a read at the same time": {[]*op{set(1, 3)}, []*op{one("GET a", "$-1\r\n", 2, 4)}, true},
		"a stale read":            {[]*op{set(1, 2)}, []*op{one("GET a", "$-1\r\n", 3, 4)}, false},
		"the order of a client": {[]*op{set(1, 4), one("SET b 1", "+OK\r\n", 1, 5)},
			[]*op{one("GET b", "$1\r\n1\r\n", 2, 6), one("GET a", "$-1\r\n", 2, 7)}, false},
		"half of a transaction": {[]*op{both}, []*op{one("MGET a b", "*2\r\n$1\r\n1\r\n$-1\r\n", 2, 3)}, false},
	} {
		if got := len(ends(map[string]state{"": {}}, [][]*op{tt.a, tt.b})) > 0; got != tt.want {
			t.Errorf("%s: explained: %v", name, got)
		}
	}
}
