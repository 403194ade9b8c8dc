package torture

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"

	"github.com/basaltdb/basalt/server/resp"
)

// op is one write: the command, and its effect on the writer's state. apply returns the reply that the server must
// send, in the format of render, or anyReply if the reply depends on the other writers.
type op struct {
	args  []string
	apply func(*state) string
}

const anyReply = ""

// render formats a reply: +OK, :1, $text, $nil, or [elements].
func render(v resp.Reply) string {
	switch {
	case v.Null:
		return "$nil"
	case v.Kind == '*':
		parts := make([]string, len(v.Elems))
		for i := range v.Elems {
			parts[i] = render(v.Elems[i])
		}
		return "[" + strings.Join(parts, " ") + "]"
	case v.Kind == '+':
		return "+" + v.String()
	case v.Kind == ':':
		return ":" + v.String()
	default:
		return "$" + v.String()
	}
}

func number(n int) string { return ":" + strconv.Itoa(n) }

func truth(b bool) string {
	if b {
		return ":1"
	}
	return ":0"
}

// The sizes keep every collection small enough to read whole after each round,
// and large enough that most commands find an existing member.
const (
	stringKeys     = 20
	collectionKeys = 3
	memberNames    = 150
	longestList    = 300
	longestString  = 2000
)

const (
	sharedHash = "shared:hash"
	sharedList = "shared:list"
	sharedSet  = "shared:set"
	sharedZset = "shared:zset"
)

// generator makes the operations of one writer. Every value is unique, so that
// the verification detects a lost or repeated write.
type generator struct {
	id  string // "w3:", the prefix of the writer's keys and of its shared members
	rng *rand.Rand
	seq int // of the last value
}

func (g *generator) value() string {
	g.seq++
	return g.id + strconv.Itoa(g.seq) + strings.Repeat(".", g.rng.IntN(100))
}

func (g *generator) key(kind string, n int) string {
	return g.id + kind + ":" + strconv.Itoa(g.rng.IntN(n))
}

func (g *generator) member() string { return "m" + strconv.Itoa(g.rng.IntN(memberNames)) }

func (g *generator) members() []string {
	out := make([]string, 1+g.rng.IntN(3))
	for i := range out {
		out[i] = g.member()
	}
	return out
}

// ownKeys returns every key that the writer may create, by type. Counters are strings.
func (g *generator) ownKeys() (strings, hashes, lists, sets, zsets []string) {
	for i := range stringKeys {
		strings = append(strings, fmt.Sprintf("%sstring:%d", g.id, i), fmt.Sprintf("%scounter:%d", g.id, i))
	}
	for i := range collectionKeys {
		hashes = append(hashes, fmt.Sprintf("%shash:%d", g.id, i))
		lists = append(lists, fmt.Sprintf("%slist:%d", g.id, i))
		sets = append(sets, fmt.Sprintf("%sset:%d", g.id, i))
		zsets = append(zsets, fmt.Sprintf("%szset:%d", g.id, i))
	}
	return strings, hashes, lists, sets, zsets
}

// next makes one operation. s is the state before the pipeline that the operation belongs to: it only guides the choice
// of the operation, and the reply is predicted later, by apply.
func (g *generator) next(s *state) op {
	switch n := g.rng.IntN(100); {
	case n < 22:
		return g.stringOp(s)
	case n < 24:
		return g.keyOp()
	case n < 40:
		return g.hashOp(g.key("hash", collectionKeys), "")
	case n < 56:
		return g.listOp(s)
	case n < 70:
		return g.setOp(g.key("set", collectionKeys), "")
	case n < 84:
		return g.zsetOp(g.key("zset", collectionKeys), "")
	case n < 88:
		return g.hashOp(sharedHash, g.id)
	case n < 92:
		return g.setOp(sharedSet, g.id)
	case n < 96:
		return g.zsetOp(sharedZset, g.id)
	default:
		v := g.value()
		return op{[]string{"RPUSH", sharedList, v}, func(s *state) string {
			s.lists[sharedList] = append(s.lists[sharedList], v)
			return anyReply
		}}
	}
}

func (g *generator) stringOp(s *state) op {
	key, v := g.key("string", stringKeys), g.value()
	switch n := g.rng.IntN(10); {
	case n < 4 || n < 6 && len(s.strings[key]) > longestString:
		return op{[]string{"SET", key, v}, func(s *state) string {
			s.strings[key] = v
			return "+OK"
		}}
	case n < 6:
		return op{[]string{"APPEND", key, v}, func(s *state) string {
			s.strings[key] += v
			return number(len(s.strings[key]))
		}}
	case n < 8:
		counter := g.key("counter", stringKeys)
		return op{[]string{"INCR", counter}, func(s *state) string {
			i, _ := strconv.Atoi(s.strings[counter])
			s.strings[counter] = strconv.Itoa(i + 1)
			return number(i + 1)
		}}
	default:
		args := []string{"MSET"}
		for range 2 + g.rng.IntN(4) {
			args = append(args, g.key("string", stringKeys), g.value())
		}
		return op{args, func(s *state) string {
			for i := 1; i < len(args); i += 2 {
				s.strings[args[i]] = args[i+1]
			}
			return "+OK"
		}}
	}
}

// keyOp deletes a key of any type, or lets it expire in the far future.
func (g *generator) keyOp() op {
	kind := []string{"string", "counter", "hash", "list", "set", "zset"}[g.rng.IntN(6)]
	key := g.key(kind, collectionKeys)
	if g.rng.IntN(2) == 0 {
		return op{[]string{"DEL", key}, func(s *state) string { return truth(s.drop(key)) }}
	}
	return op{[]string{"EXPIRE", key, "1000000"}, func(s *state) string { return truth(s.exists(key)) }}
}

// hashOp writes to fields that start with prefix.
func (g *generator) hashOp(key, prefix string) op {
	switch n := g.rng.IntN(10); {
	case n < 5:
		args := []string{"HSET", key}
		for _, m := range g.members() {
			args = append(args, prefix+m, g.value())
		}
		return op{args, func(s *state) string {
			added := 0
			for i := 2; i < len(args); i += 2 {
				if s.set(key, args[i], args[i+1]) {
					added++
				}
			}
			return number(added)
		}}
	case n < 7:
		field, by := prefix+"n"+strconv.Itoa(g.rng.IntN(10)), g.rng.IntN(100)
		return op{[]string{"HINCRBY", key, field, strconv.Itoa(by)}, func(s *state) string {
			n := s.number(key, field) + by
			s.set(key, field, strconv.Itoa(n))
			return number(n)
		}}
	default:
		args := []string{"HDEL", key}
		for _, m := range g.members() {
			args = append(args, prefix+m)
		}
		return op{args, func(s *state) string { return number(s.remove(key, args[2:]...)) }}
	}
}

func (g *generator) listOp(s *state) op {
	key := g.key("list", collectionKeys)
	n := g.rng.IntN(12)
	if len(s.lists[key]) > longestList {
		n = 10
	}
	switch {
	case n < 6:
		right := n < 4
		args := []string{"LPUSH", key}
		if right {
			args[0] = "RPUSH"
		}
		for range 1 + g.rng.IntN(3) {
			args = append(args, g.value())
		}
		return op{args, func(s *state) string {
			for _, v := range args[2:] {
				if right {
					s.lists[key] = append(s.lists[key], v)
				} else {
					s.lists[key] = slices.Insert(s.lists[key], 0, v)
				}
			}
			return number(len(s.lists[key]))
		}}
	case n < 10:
		left := n < 8
		name := "RPOP"
		if left {
			name = "LPOP"
		}
		return op{[]string{name, key}, func(s *state) string {
			l := s.lists[key]
			if len(l) == 0 {
				return "$nil"
			}
			at := len(l) - 1
			if left {
				at = 0
			}
			v := l[at]
			s.setList(key, slices.Delete(l, at, at+1))
			return "$" + v
		}}
	case n < 11:
		return op{[]string{"LTRIM", key, "5", "49"}, func(s *state) string {
			l := s.lists[key]
			s.setList(key, slices.Clone(l[min(5, len(l)):min(50, len(l))]))
			return "+OK"
		}}
	default:
		from, to := g.id+"list:0", g.id+"list:1"
		return op{[]string{"LMOVE", from, to, "LEFT", "RIGHT"}, func(s *state) string {
			l := s.lists[from]
			if len(l) == 0 {
				return "$nil"
			}
			s.setList(from, slices.Clone(l[1:]))
			s.lists[to] = append(s.lists[to], l[0])
			return "$" + l[0]
		}}
	}
}

func (g *generator) setOp(key, prefix string) op {
	n := g.rng.IntN(10)
	if n == 9 && prefix == "" {
		from, to, m := g.id+"set:0", g.id+"set:1", g.member()
		return op{[]string{"SMOVE", from, to, m}, func(s *state) string {
			if s.remove(from, m) == 0 {
				return ":0"
			}
			s.set(to, m, "")
			return ":1"
		}}
	}
	add := n < 6
	args := []string{"SREM", key}
	if add {
		args[0] = "SADD"
	}
	for _, m := range g.members() {
		args = append(args, prefix+m)
	}
	return op{args, func(s *state) string {
		if !add {
			return number(s.remove(key, args[2:]...))
		}
		added := 0
		for _, m := range args[2:] {
			if s.set(key, m, "") {
				added++
			}
		}
		return number(added)
	}}
}

func (g *generator) zsetOp(key, prefix string) op {
	switch n := g.rng.IntN(10); {
	case n < 5:
		score, args := g.rng.IntN(1000)-500, []string{"ZADD", key}
		for _, m := range g.members() {
			args = append(args, strconv.Itoa(score), prefix+m)
		}
		return op{args, func(s *state) string {
			added := 0
			for i := 3; i < len(args); i += 2 {
				if s.set(key, args[i], args[i-1]) {
					added++
				}
			}
			return number(added)
		}}
	case n < 7:
		m, by := prefix+g.member(), g.rng.IntN(100)
		return op{[]string{"ZINCRBY", key, strconv.Itoa(by), m}, func(s *state) string {
			s.set(key, m, strconv.Itoa(s.number(key, m)+by))
			return "$" + s.members[key][m]
		}}
	case n < 9 || prefix != "":
		args := []string{"ZREM", key}
		for _, m := range g.members() {
			args = append(args, prefix+m)
		}
		return op{args, func(s *state) string { return number(s.remove(key, args[2:]...)) }}
	default:
		return op{[]string{"ZPOPMIN", key}, func(s *state) string {
			if len(s.members[key]) == 0 {
				return "[]"
			}
			m := s.lowest(key)
			score := s.members[key][m]
			s.remove(key, m)
			return fmt.Sprintf("[$%s $%s]", m, score)
		}}
	}
}
