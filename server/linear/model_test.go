package linear_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// value is the value of a key in the model. It is never changed, but replaced. kind is s for a string, l for a list, t
// for a set, h for a hash, z for a sorted set; 0 = the key does not exist. elems are the string; the elements; the
// members in their order; fields, each with its value, in their order; scores, each with its member, in their order.
type value struct {
	kind  byte
	elems []string
}

// state is the values of the keys of the model.
type state [len(modelKeys)]value

var modelKeys = [...]string{"a", "b", "c"}

func index(key string) int { return slices.Index(modelKeys[:], key) }

// text is the state as a key of maps.
func (s *state) text() string {
	var b strings.Builder
	for _, v := range s {
		fmt.Fprintf(&b, "%d %d", v.kind, len(v.elems))
		for _, e := range v.elems {
			b.WriteByte(' ')
			b.WriteString(e)
		}
		b.WriteByte('|')
	}
	return b.String()
}

const (
	wrongType = "-WRONGTYPE Operation against a key holding the wrong kind of value\r\n"
	notInt    = "-ERR value is not an integer or out of range\r\n"
	nilBulk   = "$-1\r\n"
	nilArray  = "*-1\r\n"
	okReply   = "+OK\r\n"
)

func integer(n int) string { return fmt.Sprintf(":%d\r\n", n) }
func bulk(s string) string { return fmt.Sprintf("$%d\r\n%s\r\n", len(s), s) }
func array(e []string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "*%d\r\n", len(e))
	for _, s := range e {
		b.WriteString(bulk(s))
	}
	return b.String()
}

func number(s string) int {
	n, _ := strconv.Atoi(s)
	return n
}

// elements returns the strings of a reply that is a flat array of bulk strings.
func elements(reply string) []string {
	lines := strings.Split(reply, "\r\n")
	var out []string
	for i := 2; i < len(lines); i += 2 {
		out = append(out, lines[i])
	}
	return out
}

// put stores a value. A collection without elements does not exist.
func (s *state) put(key string, v value) {
	if v.kind != 's' && len(v.elems) == 0 {
		v = value{}
	}
	s[index(key)] = v
}

// get returns the value of a key.
func (s *state) get(key string) value { return s[index(key)] }

// find returns where the pair is that has a name at the position nameAt, 0 or 1, of the pair; -1 = nowhere.
func find(pairs []string, name string, nameAt int) int {
	for i := 0; i < len(pairs); i += 2 {
		if pairs[i+nameAt] == name {
			return i
		}
	}
	return -1
}

// sortPairs sorts pairs by their first part or, byScore, by a number and the second part.
func sortPairs(pairs []string, byScore bool) []string {
	type pair struct{ a, b string }
	var ps []pair
	for i := 0; i < len(pairs); i += 2 {
		ps = append(ps, pair{pairs[i], pairs[i+1]})
	}
	slices.SortFunc(ps, func(x, y pair) int {
		if byScore {
			if d := number(x.a) - number(y.a); d != 0 {
				return d
			}
			return strings.Compare(x.b, y.b)
		}
		return strings.Compare(x.a, y.a)
	})
	out := make([]string, 0, len(pairs))
	for _, p := range ps {
		out = append(out, p.a, p.b)
	}
	return out
}

// reversed returns the elements in reverse.
func reversed(e []string) []string {
	e = slices.Clone(e)
	slices.Reverse(e)
	return e
}

// keysOf returns the keys that a command names.
func keysOf(cmd []string) []string {
	var ks []string
	for _, a := range cmd[1:] {
		if index(a) >= 0 && !slices.Contains(ks, a) {
			ks = append(ks, a)
		}
	}
	return ks
}

// swapPairs turns score and member into member and score.
func swapPairs(p []string) []string {
	out := slices.Clone(p)
	for i := 0; i < len(out); i += 2 {
		out[i], out[i+1] = out[i+1], out[i]
	}
	return out
}

// nothing is the reply of a pop from a key that does not exist.
func nothing(name string) string {
	if name[0] == 'B' {
		return nilArray
	}
	return nilBulk
}

// run applies a command to the state, and returns the reply; got is the reply that was seen, for commands that choose.
func (s *state) run(cmd []string, got string) string {
	name := cmd[0]
	arg := func(i int) string { return cmd[i] }
	key := ""
	if len(cmd) > 1 {
		key = cmd[1]
	}
	var v value
	if index(key) >= 0 {
		v = s.get(key)
	}
	want := func(kind byte) bool { return v.kind == 0 || v.kind == kind }
	with := func(kind byte, elems []string) value { return value{kind, elems} }
	str := func() string {
		if len(v.elems) == 0 {
			return ""
		}
		return v.elems[0]
	}
	switch name {
	case "DBSIZE":
		n := 0
		for _, v := range s {
			if v.kind != 0 {
				n++
			}
		}
		return integer(n)
	case "FLUSHALL":
		*s = state{}
		return okReply
	case "EXISTS":
		n := 0
		for _, k := range cmd[1:] {
			if s.get(k).kind != 0 {
				n++
			}
		}
		return integer(n)
	case "TYPE":
		names := map[byte]string{0: "none", 's': "string", 'l': "list", 't': "set", 'h': "hash", 'z': "zset"}
		return "+" + names[v.kind] + "\r\n"
	case "DEL", "UNLINK":
		n := 0
		for _, k := range cmd[1:] {
			if s.get(k).kind != 0 {
				n++
				s.put(k, value{})
			}
		}
		return integer(n)
	case "PEXPIRE": // of the past
		if v.kind == 0 {
			return integer(0)
		}
		s.put(key, value{})
		return integer(1)
	case "RENAME", "RENAMENX":
		if v.kind == 0 {
			return "-ERR no such key\r\n"
		}
		if name == "RENAMENX" {
			if s.get(arg(2)).kind != 0 {
				return integer(0)
			}
			s.put(key, value{})
			s.put(arg(2), v)
			return integer(1)
		}
		s.put(key, value{})
		s.put(arg(2), v)
		return okReply
	case "COPY": // source, destination, REPLACE
		if v.kind == 0 || s.get(arg(2)).kind != 0 && len(cmd) < 4 {
			return integer(0)
		}
		s.put(arg(2), v)
		return integer(1)

	case "GET", "STRLEN", "GETDEL", "GETSET", "INCR", "INCRBY", "APPEND", "SETRANGE":
		if !want('s') {
			return wrongType
		}
		reply := nilBulk
		if v.kind != 0 {
			reply = bulk(str())
		}
		switch name {
		case "STRLEN":
			return integer(len(str()))
		case "GETDEL":
			s.put(key, value{})
		case "GETSET":
			s.put(key, value{'s', []string{arg(2)}})
		case "INCR", "INCRBY":
			n, by := 0, 1
			if name == "INCRBY" {
				by = number(arg(2))
			}
			if v.kind != 0 {
				var err error
				if n, err = strconv.Atoi(str()); err != nil || strconv.Itoa(n) != str() {
					return notInt
				}
			}
			s.put(key, with('s', []string{strconv.Itoa(n + by)}))
			return integer(n + by)
		case "APPEND":
			s.put(key, with('s', []string{str() + arg(2)}))
			return integer(len(str() + arg(2)))
		case "SETRANGE":
			at := number(arg(2))
			old := str()
			for len(old) < at {
				old += "\x00"
			}
			n := old[:at] + arg(3)
			if len(n) < len(old) {
				n += old[len(n):]
			}
			s.put(key, with('s', []string{n}))
			return integer(len(n))
		}
		return reply
	case "SET": // key value [NX|XX|GET]
		opt := ""
		if len(cmd) > 3 {
			opt = arg(3)
		}
		switch {
		case opt == "NX" && v.kind != 0, opt == "XX" && v.kind == 0:
			return nilBulk
		case opt == "GET" && !want('s'):
			return wrongType
		}
		s.put(key, value{'s', []string{arg(2)}})
		if opt == "GET" {
			if v.kind == 0 {
				return nilBulk
			}
			return bulk(str())
		}
		return okReply
	case "SETNX":
		if v.kind != 0 {
			return integer(0)
		}
		s.put(key, value{'s', []string{arg(2)}})
		return integer(1)
	case "MSET", "MSETNX":
		if name == "MSETNX" {
			for i := 1; i < len(cmd); i += 2 {
				if s.get(cmd[i]).kind != 0 {
					return integer(0)
				}
			}
		}
		for i := 1; i < len(cmd); i += 2 {
			s.put(cmd[i], value{'s', []string{cmd[i+1]}})
		}
		if name == "MSETNX" {
			return integer(1)
		}
		return okReply
	case "MGET":
		var b strings.Builder
		fmt.Fprintf(&b, "*%d\r\n", len(cmd)-1)
		for _, k := range cmd[1:] {
			if v := s.get(k); v.kind == 's' {
				b.WriteString(bulk(v.elems[0]))
			} else {
				b.WriteString(nilBulk)
			}
		}
		return b.String()

	case "LPUSH", "RPUSH", "LPUSHX", "RPUSHX":
		if !want('l') {
			return wrongType
		}
		if v.kind == 0 && strings.HasSuffix(name, "X") {
			return integer(0)
		}
		e := slices.Clone(v.elems)
		for _, x := range cmd[2:] {
			if name[0] == 'L' {
				e = slices.Insert(e, 0, x)
			} else {
				e = append(e, x)
			}
		}
		s.put(key, with('l', e))
		return integer(len(e))
	case "LPOP", "RPOP", "BLPOP", "BRPOP":
		if !want('l') {
			return wrongType
		}
		if v.kind == 0 {
			return nothing(name)
		}
		e := v.elems
		var x string
		if strings.TrimPrefix(name, "B")[0] == 'L' {
			x, e = e[0], e[1:]
		} else {
			x, e = e[len(e)-1], e[:len(e)-1]
		}
		s.put(key, with('l', e))
		if name[0] == 'B' {
			return array([]string{key, x})
		}
		return bulk(x)
	case "LRANGE":
		if !want('l') {
			return wrongType
		}
		return array(v.elems)
	case "LLEN":
		if !want('l') {
			return wrongType
		}
		return integer(len(v.elems))
	case "LMOVE", "BLMOVE": // source destination LEFT|RIGHT LEFT|RIGHT
		if !want('l') {
			return wrongType
		}
		if v.kind == 0 {
			return nothing(name)
		}
		if d := s.get(arg(2)); d.kind != 0 && d.kind != 'l' {
			return wrongType
		}
		e := v.elems
		var x string
		if arg(3) == "LEFT" {
			x, e = e[0], e[1:]
		} else {
			x, e = e[len(e)-1], e[:len(e)-1]
		}
		if key == arg(2) { // a list of one element is not deleted in between
			n := slices.Clone(e)
			if arg(4) == "LEFT" {
				n = slices.Insert(n, 0, x)
			} else {
				n = append(n, x)
			}
			s.put(key, with('l', n))
			return bulk(x)
		}
		s.put(key, with('l', e))
		d := s.get(arg(2))
		n := slices.Clone(d.elems)
		if arg(4) == "LEFT" {
			n = slices.Insert(n, 0, x)
		} else {
			n = append(n, x)
		}
		s.put(arg(2), value{'l', n})
		return bulk(x)
	case "BLMOVEM": // source destination LEFT RIGHT timeout COUNT|EXACTLY 2 BULK
		if !want('l') {
			return wrongType
		}
		n := min(2, len(v.elems))
		if n == 0 || n < 2 && arg(6) == "EXACTLY" {
			return nothing(name)
		}
		if d := s.get(arg(2)); d.kind != 0 && d.kind != 'l' {
			return wrongType
		}
		moved := v.elems[:n]
		s.put(key, with('l', v.elems[n:]))
		s.put(arg(2), value{'l', slices.Concat(s.get(arg(2)).elems, moved)})
		return array(moved)
	case "LREM":
		if !want('l') {
			return wrongType
		}
		e := slices.DeleteFunc(slices.Clone(v.elems), func(x string) bool { return x == arg(3) })
		s.put(key, with('l', e))
		return integer(len(v.elems) - len(e))

	case "SADD", "SREM":
		if !want('t') {
			return wrongType
		}
		e := slices.Clone(v.elems)
		for _, x := range cmd[2:] {
			i, ok := slices.BinarySearch(e, x)
			if name == "SADD" && !ok {
				e = slices.Insert(e, i, x)
			} else if name == "SREM" && ok {
				e = slices.Delete(e, i, i+1)
			}
		}
		s.put(key, with('t', e))
		if len(e) > len(v.elems) {
			return integer(len(e) - len(v.elems))
		}
		return integer(len(v.elems) - len(e))
	case "SMEMBERS":
		if !want('t') {
			return wrongType
		}
		return sortedReply(v.elems, got, 1)
	case "SCARD":
		if !want('t') {
			return wrongType
		}
		return integer(len(v.elems))
	case "SPOP":
		if !want('t') {
			return wrongType
		}
		if v.kind == 0 {
			return nilBulk
		}
		for i, x := range v.elems {
			if bulk(x) == got {
				s.put(key, with('t', slices.Delete(slices.Clone(v.elems), i, i+1)))
				return got
			}
		}
		return "a member"
	case "SMOVE":
		if v.kind == 0 {
			return integer(0)
		}
		d := s.get(arg(2))
		if v.kind != 't' || d.kind != 0 && d.kind != 't' {
			return wrongType
		}
		i, ok := slices.BinarySearch(v.elems, arg(3))
		if !ok {
			return integer(0)
		}
		if key == arg(2) {
			return integer(1)
		}
		s.put(key, with('t', slices.Delete(slices.Clone(v.elems), i, i+1)))
		if j, ok := slices.BinarySearch(d.elems, arg(3)); !ok {
			d = value{'t', slices.Insert(slices.Clone(d.elems), j, arg(3))}
		}
		s.put(arg(2), d)
		return integer(1)
	case "SUNIONSTORE", "SINTERSTORE", "SDIFFSTORE": // destination source source
		x, y := s.get(arg(2)), s.get(arg(3))
		for _, v := range []value{x, y} {
			if v.kind != 0 && v.kind != 't' {
				return wrongType
			}
		}
		var out []string
		switch name[1] {
		case 'U':
			out = slices.Concat(x.elems, y.elems)
		default:
			for _, m := range x.elems {
				if slices.Contains(y.elems, m) == (name[1] == 'I') {
					out = append(out, m)
				}
			}
		}
		slices.Sort(out)
		out = slices.Compact(out)
		s.put(key, value{'t', out})
		return integer(len(out))

	case "HSET", "HSETNX":
		if !want('h') {
			return wrongType
		}
		e := slices.Clone(v.elems)
		added := 0
		for i := 2; i < len(cmd); i += 2 {
			if at := find(e, cmd[i], 0); at >= 0 {
				if name == "HSET" {
					e[at+1] = cmd[i+1]
				}
			} else {
				e = append(e, cmd[i], cmd[i+1])
				added++
			}
		}
		s.put(key, with('h', sortPairs(e, false)))
		return integer(added)
	case "HINCRBY":
		if !want('h') {
			return wrongType
		}
		e := slices.Clone(v.elems)
		n := number(arg(3))
		if at := find(e, arg(2), 0); at >= 0 {
			old, err := strconv.Atoi(e[at+1])
			if err != nil {
				return "-ERR hash value is not an integer\r\n"
			}
			n += old
			e[at+1] = strconv.Itoa(n)
		} else {
			e = append(e, arg(2), strconv.Itoa(n))
		}
		s.put(key, with('h', sortPairs(e, false)))
		return integer(n)
	case "HDEL", "ZREM": // the name is the first of a pair, the member the second one
		kind, offset := byte('h'), 0
		if name == "ZREM" {
			kind, offset = 'z', 1
		}
		if !want(kind) {
			return wrongType
		}
		at := find(v.elems, arg(2), offset)
		if at < 0 {
			return integer(0)
		}
		s.put(key, with(kind, slices.Delete(slices.Clone(v.elems), at, at+2)))
		return integer(1)
	case "HGET":
		if !want('h') {
			return wrongType
		}
		if at := find(v.elems, arg(2), 0); at >= 0 {
			return bulk(v.elems[at+1])
		}
		return nilBulk
	case "HGETALL":
		if !want('h') {
			return wrongType
		}
		return sortedReply(v.elems, got, 2)
	case "HLEN":
		if !want('h') {
			return wrongType
		}
		return integer(len(v.elems) / 2)

	case "ZADD", "ZINCRBY":
		if !want('z') {
			return wrongType
		}
		e := slices.Clone(v.elems)
		added, score := 0, 0
		for i := 2; i < len(cmd); i += 2 {
			score = number(cmd[i])
			if at := find(e, cmd[i+1], 1); at >= 0 {
				if name == "ZINCRBY" {
					score += number(e[at])
				}
				e[at] = strconv.Itoa(score)
			} else {
				e = append(e, strconv.Itoa(score), cmd[i+1])
				added++
			}
		}
		s.put(key, with('z', sortPairs(e, true)))
		if name == "ZINCRBY" {
			return bulk(strconv.Itoa(score))
		}
		return integer(added)
	case "ZPOPMIN", "ZPOPMAX", "BZPOPMIN":
		if !want('z') {
			return wrongType
		}
		if v.kind == 0 {
			if name[0] == 'B' {
				return nilArray
			}
			return array(nil)
		}
		at := 0
		if name == "ZPOPMAX" {
			at = len(v.elems) - 2
		}
		score, member := v.elems[at], v.elems[at+1]
		s.put(key, with('z', slices.Delete(slices.Clone(v.elems), at, at+2)))
		if name[0] == 'B' {
			return array([]string{key, member, score})
		}
		return array([]string{member, score})
	case "ZRANGE", "ZREVRANGE": // with scores
		if !want('z') {
			return wrongType
		}
		if name == "ZREVRANGE" {
			return array(reversed(v.elems))
		}
		return array(swapPairs(v.elems))
	case "ZRANK":
		if !want('z') {
			return wrongType
		}
		if at := find(v.elems, arg(2), 1); at >= 0 {
			return integer(at / 2)
		}
		return nilBulk
	case "ZSCORE":
		if !want('z') {
			return wrongType
		}
		if at := find(v.elems, arg(2), 1); at >= 0 {
			return bulk(v.elems[at])
		}
		return nilBulk
	case "ZCARD", "ZCOUNT":
		if !want('z') {
			return wrongType
		}
		return integer(len(v.elems) / 2)
	case "ZREMRANGEBYRANK": // key 0 0
		if !want('z') {
			return wrongType
		}
		if v.kind == 0 {
			return integer(0)
		}
		s.put(key, with('z', v.elems[2:]))
		return integer(1)
	case "ZRANGESTORE": // destination source 0 1
		v = s.get(arg(2))
		if !want('z') {
			return wrongType
		}
		e := v.elems[:min(4, len(v.elems))]
		s.put(key, value{'z', e})
		return integer(len(e) / 2)
	case "ZUNIONSTORE": // destination 2 source source
		var e []string
		for _, k := range cmd[3:5] {
			v := s.get(k)
			switch v.kind {
			case 0:
			case 'z', 't':
				for i := 0; i < len(v.elems); i++ {
					score, m := "1", v.elems[i]
					if v.kind == 'z' {
						score, m = v.elems[i], v.elems[i+1]
						i++
					}
					if at := find(e, m, 1); at >= 0 {
						e[at] = strconv.Itoa(number(e[at]) + number(score))
					} else {
						e = append(e, score, m)
					}
				}
			default:
				return wrongType
			}
		}
		s.put(key, value{'z', sortPairs(e, true)})
		return integer(len(e) / 2)
	case "SORT": // key ALPHA STORE destination
		e := slices.Clone(v.elems)
		switch v.kind {
		case 0, 'l', 't':
		case 'z':
			var m []string
			for i := 1; i < len(e); i += 2 {
				m = append(m, e[i])
			}
			e = m
		default:
			return wrongType
		}
		slices.Sort(e)
		s.put(arg(4), value{'l', e})
		return integer(len(e))
	}
	panic(name)
}

// sortedReply returns got if its elements, in groups of n, are the given ones in any order.
func sortedReply(elems []string, got string, n int) string {
	e := elements(got)
	if len(e) != len(elems) {
		return array(elems)
	}
	if n == 2 {
		e = sortPairs(e, false)
	} else {
		e = slices.Sorted(slices.Values(e))
	}
	if slices.Equal(e, elems) {
		return got
	}
	return array(elems)
}
