package transfer

import (
	"math"
	"strconv"

	"github.com/basaltdb/basalt/engine/stream"
	"github.com/basaltdb/basalt/server/rdb"
	"github.com/basaltdb/basalt/server/resp"
)

// commandElems is the max number of elements in a command that adds to a collection.
const commandElems = 256

// appendValue appends commands that create a value, or add a part of it. It calls one after each command, with the
// commands so far. The commands set no expiry.
func appendValue(dst []byte, i *rdb.Item, one func(b []byte) ([]byte, error)) (b []byte, err error) {
	v := i.Value
	step := 1
	name := ""
	switch v.Kind {
	case rdb.String:
		return one(resp.AppendCommand(dst, []byte("SET"), i.Key, v.String))
	case rdb.List:
		name = "RPUSH"
	case rdb.Set:
		name = "SADD"
	case rdb.ZSet:
		name = "ZADD"
	case rdb.Hash:
		name, step = "HSET", 2
	case rdb.Stream:
		return appendStream(dst, i, one)
	case rdb.JSON:
		return one(resp.AppendCommand(dst, []byte("JSON.SET"), i.Key, []byte("$"), v.String))
	}
	b = dst
	for at := 0; at < len(v.Elems); at += commandElems * step {
		elems := v.Elems[at:min(at+commandElems*step, len(v.Elems))]
		n := len(elems)
		if v.Kind == rdb.ZSet {
			n *= 2
		}
		b = resp.AppendBulk(resp.AppendBulk(resp.AppendHead(b, '*', 2+n), name), i.Key)
		for j, e := range elems {
			if v.Kind == rdb.ZSet {
				b = resp.AppendBulk(b, score(v.Scores[at+j]))
			}
			b = resp.AppendBulk(b, e)
		}
		if b, err = one(b); err != nil {
			return b, err
		}
	}
	for n, at := range v.Expires {
		if at == 0 {
			continue
		}
		b = resp.AppendCommand(b, []byte("HPEXPIREAT"), i.Key, strconv.AppendUint(nil, at, 10), []byte("FIELDS"), []byte("1"),
			v.Elems[2*n])
		if b, err = one(b); err != nil {
			return b, err
		}
	}
	return b, nil
}

// score formats a score for commands.
func score(f float64) []byte {
	switch {
	case math.IsInf(f, 1):
		return []byte("+inf")
	case math.IsInf(f, -1):
		return []byte("-inf")
	}
	return strconv.AppendFloat(nil, f, 'g', -1, 64)
}

// appendStream appends commands that create a stream, as in a rewritten append-only file.
func appendStream(dst []byte, i *rdb.Item, one func(b []byte) ([]byte, error)) (b []byte, err error) {
	s := i.Value.Stream
	b = dst
	word := func(s string) []byte { return []byte(s) }
	num := func(n uint64) []byte { return strconv.AppendUint(nil, n, 10) }
	add := func(args ...[]byte) {
		if err == nil {
			b, err = one(resp.AppendCommand(b, args...))
		}
	}
	for _, e := range s.Entries {
		add(append([][]byte{word("XADD"), i.Key, stream.AppendID(nil, e.ID)}, e.Fields...)...)
	}
	if i.More {
		return b, err
	}
	if len(s.Entries) == 0 && i.Part == 0 { // XGROUP CREATE with MKSTREAM, the only way to an empty stream
		b = resp.AppendCommand(b, word("XGROUP"), word("CREATE"), i.Key, word("basalt-import"), word("0"), word("MKSTREAM"))
		add(word("XGROUP"), word("DESTROY"), i.Key, word("basalt-import"))
	}
	add(word("XSETID"), i.Key, stream.AppendID(nil, s.Last), word("ENTRIESADDED"), num(s.EntriesAdded),
		word("MAXDELETEDID"), stream.AppendID(nil, s.MaxDeleted))
	for gi := range s.Groups {
		g := &s.Groups[gi]
		add(word("XGROUP"), word("CREATE"), i.Key, g.Name, stream.AppendID(nil, g.Last), word("ENTRIESREAD"),
			strconv.AppendInt(nil, g.EntriesRead, 10))
		for _, c := range g.Consumers {
			add(word("XGROUP"), word("CREATECONSUMER"), i.Key, g.Name, c.Name)
		}
		for _, p := range g.Pending {
			add(word("XCLAIM"), i.Key, g.Name, g.Consumers[p.Consumer].Name, word("0"), stream.AppendID(nil, p.ID), word("TIME"),
				num(p.Delivered), word("RETRYCOUNT"), num(p.Deliveries), word("JUSTID"), word("FORCE"))
		}
	}
	return b, err
}
