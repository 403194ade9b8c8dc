package migrate

import (
	"bytes"
	"cmp"
	"encoding/json"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/basaltdb/basalt/engine/hll"
	"github.com/basaltdb/basalt/server/rdb"
	"github.com/basaltdb/basalt/server/resp"
)

// The sizes of the parts in which values are compared: elements, and bytes of a string.
const (
	partElems = 256
	partBytes = 256 << 10
)

// expirySlack is the max difference of equal expiries in milliseconds: some versions of Kvrocks store seconds.
const expirySlack = 1000

func sameExpiry(a, b int64) bool {
	return (a < 0) == (b < 0) && (a < 0 || max(a-b, b-a) <= expirySlack)
}

// expiryCommand returns the command that returns the expiry of a key, if possible as a time.
func expiryCommand(absolute bool) string {
	if absolute {
		return "PEXPIRETIME"
	}
	return "PTTL"
}

// pair is a key on both sides.
type pair struct {
	c        *comparer
	key      string
	src, dst *keyspace
}

// presence tells which side lacks a key.
type presence int

const (
	both presence = iota
	noSource
	neither
)

// ask sends the same commands to both sides.
func (x *pair) ask(commands ...[]string) (src, dst []resp.Reply, err error) {
	s, d := x.src.start(x.key, commands...), x.dst.start(x.key, commands...)
	src, err = s()
	dst, e := d()
	if err = cmp.Or(err, e); err == nil {
		err = cmp.Or(x.check(src, "the source", commands), x.check(dst, "the target", commands))
	}
	return src, dst, err
}

// check treats error replies as differences: the key may have another type by now, or the server may lack the command.
func (x *pair) check(replies []resp.Reply, side string, commands [][]string) error {
	for i := range replies {
		if err := replies[i].Err(); err != nil {
			return differ("%s: %s: %v", side, commands[i][0], err)
		}
	}
	return nil
}

// one sends commands to one side.
func (x *pair) one(k *keyspace, commands ...[]string) ([]resp.Reply, error) {
	replies, err := k.start(x.key, commands...)()
	if err == nil {
		side := "the source"
		if k == x.dst {
			side = "the target"
		}
		err = x.check(replies, side, commands)
	}
	return replies, err
}

// normal maps types to those that TYPE should return: clients do not distinguish them.
var normal = map[string]string{"bitmap": "string", "hyperloglog": "string"}

func kindOf(r *resp.Reply) string {
	name := string(r.Text)
	if n := normal[name]; n != "" {
		return n
	}
	return name
}

func (x *pair) compare() (presence, error) {
	expiry := expiryCommand(x.c.absolute)
	src, dst, err := x.ask([]string{"TYPE", x.key}, []string{expiry, x.key})
	if err != nil {
		return both, err
	}
	kind, other := kindOf(&src[0]), kindOf(&dst[0])
	switch {
	case kind == "none" && other == "none":
		return neither, nil
	case kind == "none":
		return noSource, nil
	case other == "none":
		return both, differ("the target does not have it (%s)", src[0].Text)
	case kind != other:
		return both, differ("%s, not %s", dst[0].Text, src[0].Text)
	}
	if a, b := src[1].Int, dst[1].Int; !sameExpiry(a, b) {
		return both, differ("%s is %d, not %d", expiry, b, a)
	}
	return both, x.value(kind, string(src[0].Text), string(dst[0].Text))
}

func (x *pair) value(kind, src, dst string) error {
	switch kind {
	case "string":
		kvrocks := func(name string) bool {
			return src == name && x.c.from.kind == Kvrocks || dst == name && x.c.to.kind == Kvrocks
		}
		switch {
		case kvrocks("hyperloglog"): // it has no DUMP
			x.byType("hyperloglog")
			return nil
		case kvrocks("bitmap"): // GETRANGE works on strings only
			return x.bitmap()
		case src == "hyperloglog" || dst == "hyperloglog":
			return x.hyperLogLog()
		}
		return x.text()
	case "list":
		return x.list()
	case "set", "zset", "hash":
		return x.unordered(kind)
	case "stream":
		return x.stream()
	case "ReJSON-RL":
		return x.json()
	case "sortedint":
		return x.sortedint()
	}
	x.byType(kind)
	return nil
}

// byType records that only the type and the expiry were compared.
func (x *pair) byType(kind string) {
	x.c.mu.Lock()
	defer x.c.mu.Unlock()
	x.c.result.ByType.Add("%s %q", kind, x.key)
}

// bitmap compares a bitmap of a Kvrocks. A Kvrocks returns a bitmap only as a whole, up to max-bitmap-to-string-mb.
func (x *pair) bitmap() error {
	src, dst, err := x.ask([]string{"GET", x.key})
	switch {
	case err != nil && strings.Contains(err.Error(), "max-bitmap-to-string-mb"):
		x.byType("bitmap")
		return nil
	case err == nil && !bytes.Equal(src[0].Text, dst[0].Text):
		return differ("another value of %d bytes, not %d", len(dst[0].Text), len(src[0].Text))
	}
	return err
}

// text compares strings, part by part.
func (x *pair) text() error {
	for at := 0; ; at += partBytes {
		src, dst, err := x.ask([]string{"STRLEN", x.key},
			[]string{"GETRANGE", x.key, strconv.Itoa(at), strconv.Itoa(at + partBytes - 1)})
		switch {
		case err != nil:
			return err
		case src[0].Int != dst[0].Int:
			return differ("%d bytes, not %d", dst[0].Int, src[0].Int)
		case !bytes.Equal(src[1].Text, dst[1].Text):
			return differ("another value within bytes %d to %d", at, at+partBytes-1)
		case len(src[1].Text) < partBytes:
			return nil
		}
	}
}

// hyperLogLog compares registers, because the encodings differ.
func (x *pair) hyperLogLog() error {
	src, dst, err := x.ask([]string{"DUMP", x.key})
	if err != nil {
		return err
	}
	var registers [2][]byte
	for i, r := range []resp.Reply{src[0], dst[0]} {
		body, err := rdb.Open(r.Text)
		if err != nil {
			return differ("DUMP: %v", err)
		}
		v, err := rdb.Decode(body, maxValue)
		if err != nil {
			return differ("DUMP: %v", err)
		}
		if registers[i], err = hll.Unpack(v.String); err != nil {
			return differ("a HyperLogLog on one side only")
		}
	}
	if !bytes.Equal(registers[0], registers[1]) {
		return differ("other registers of a HyperLogLog")
	}
	return nil
}

// maxValue is the max size in bytes of a value in memory.
const maxValue = 1 << 30

// equal compares replies. A null equals an empty string, for which a Kvrocks returns null within XRANGE.
func equal(a, b *resp.Reply) bool {
	return a.Kind == b.Kind && (a.Kind != ':' || a.Int == b.Int) && bytes.Equal(a.Text, b.Text) &&
		slices.EqualFunc(a.Elems, b.Elems, func(a, b resp.Reply) bool { return equal(&a, &b) })
}

func (x *pair) list() error {
	for at := 0; ; at += partElems {
		src, dst, err := x.ask([]string{"LLEN", x.key},
			[]string{"LRANGE", x.key, strconv.Itoa(at), strconv.Itoa(at + partElems - 1)})
		switch {
		case err != nil:
			return err
		case src[0].Int != dst[0].Int:
			return differ("%d elements, not %d", dst[0].Int, src[0].Int)
		case !equal(&src[1], &dst[1]):
			return differ("other elements within %d to %d", at, at+partElems-1)
		case len(src[1].Elems) < partElems:
			return nil
		}
	}
}

// collection describes how an unordered collection is scanned, and how its members are looked up on the other side.
type collection struct {
	size, scan, look string
	step             int // elements of the scan's reply for each member
}

// ZSCORE instead of ZMSCORE, whose reply of Kvrocks 2.10 is malformed.
var collections = map[string]collection{
	"set":  {"SCARD", "SSCAN", "SISMEMBER", 1},
	"zset": {"ZCARD", "ZSCAN", "ZSCORE", 2},
	"hash": {"HLEN", "HSCAN", "HGET", 2},
}

// unordered compares sets, sorted sets and hashes: the target must have all members of the source, and no others.
func (x *pair) unordered(kind string) error {
	how := collections[kind]
	expiring, err := x.contains(kind, how, x.src, x.dst)
	if err != nil {
		return err
	}
	src, dst, err := x.ask([]string{how.size, x.key})
	if err != nil || src[0].Int == dst[0].Int {
		return err
	}
	if expiring { // expired fields count until they are removed
		_, err = x.contains(kind, how, x.dst, x.src)
		return err
	}
	return differ("%d elements, not %d", dst[0].Int, src[0].Int)
}

// contains checks that one side has all members of the other. expiring: some members have an expiry.
func (x *pair) contains(kind string, how collection, one, other *keyspace) (expiring bool, _ error) {
	for cursor := "0"; ; {
		page, err := x.one(one, []string{how.scan, x.key, cursor, "COUNT", strconv.Itoa(partElems)})
		if err != nil {
			return false, err
		}
		if len(page[0].Elems) != 2 {
			return false, differ("the reply to %s is not understood", how.scan)
		}
		cursor = string(page[0].Elems[0].Text)
		elems := page[0].Elems[1].Elems
		for len(elems) > 0 { // a small collection arrives as a whole
			n := min(len(elems), partElems*how.step)
			part, err := x.part(kind, how, elems[:n], one, other)
			if err != nil {
				return false, err
			}
			expiring = expiring || part
			elems = elems[n:]
		}
		if cursor == "0" {
			return expiring, nil
		}
	}
}

// part looks up some members of one side on the other.
func (x *pair) part(kind string, how collection, elems []resp.Reply, one, other *keyspace) (
	expiring bool, _ error) {
	var commands [][]string
	times := []string{"HPEXPIRETIME", x.key, "FIELDS", strconv.Itoa(len(elems) / how.step)}
	for i := 0; i+how.step <= len(elems); i += how.step {
		commands = append(commands, []string{how.look, x.key, string(elems[i].Text)})
		times = append(times, string(elems[i].Text))
	}
	members := len(commands)
	var ends []resp.Reply
	if kind == "hash" && x.c.fields {
		commands = append(commands, times)
		var err error
		if ends, err = x.one(one, times); err != nil {
			return false, err
		}
	}
	found, err := x.one(other, commands...)
	if err != nil {
		return false, err
	}
	for n := range members {
		i := n * how.step
		member, got := &elems[i], &found[n]
		missing := got.Null || kind == "set" && got.Int == 0
		switch {
		case ends != nil && n < len(ends[0].Elems) && ends[0].Elems[n].Int == -2: // it has expired meanwhile
			expiring = true
			continue
		case missing && one == x.dst:
			return false, differ("%.100q is in it that the source does not have", member.Text)
		case missing:
			return false, differ("%.100q is missing in it", member.Text)
		case kind == "hash" && !bytes.Equal(elems[i+1].Text, got.Text):
			return false, differ("the value of the field %.100q", member.Text)
		case kind == "zset" && !sameScore(elems[i+1].Text, got.Text):
			return false, differ("the score of %.100q: %s and %s", member.Text, elems[i+1].Text, got.Text)
		}
		if ends == nil || n >= len(ends[0].Elems) || n >= len(found[members].Elems) {
			continue
		}
		a, b := ends[0].Elems[n].Int, found[members].Elems[n].Int
		expiring = expiring || a > 0
		if !sameExpiry(a, b) {
			return false, differ("the expiry of the field %.100q: %d and %d", member.Text, a, b)
		}
	}
	return expiring, nil
}

func sameScore(a, b []byte) bool {
	x, err := strconv.ParseFloat(string(a), 64)
	y, e := strconv.ParseFloat(string(b), 64)
	return err == nil && e == nil && x == y
}

func (x *pair) json() error {
	src, dst, err := x.ask([]string{"JSON.GET", x.key})
	if err != nil || bytes.Equal(src[0].Text, dst[0].Text) {
		return err
	}
	var values [2]any
	for i, r := range []resp.Reply{src[0], dst[0]} {
		d := json.NewDecoder(bytes.NewReader(r.Text))
		d.UseNumber()
		if err := d.Decode(&values[i]); err != nil {
			return differ("no JSON: %v", err)
		}
	}
	if !reflect.DeepEqual(values[0], values[1]) {
		return differ("another document")
	}
	return nil
}

// sortedint compares sorted sets of integers, a type of Kvrocks and basalt.
func (x *pair) sortedint() error {
	first := "-inf"
	for {
		// The SIRANGE of Kvrocks leaves out the id 0.
		page := []string{"SIRANGEBYVALUE", x.key, first, "+inf", "LIMIT", "0", strconv.Itoa(partElems)}
		src, dst, err := x.ask([]string{"SICARD", x.key}, page)
		n := 0
		if err == nil {
			n = len(src[1].Elems)
		}
		switch {
		case err != nil:
			return err
		case src[0].Int != dst[0].Int:
			return differ("%d elements, not %d", dst[0].Int, src[0].Int)
		case !equal(&src[1], &dst[1]):
			return differ("other elements")
		case n < partElems:
			return nil
		}
		first = "(" + string(src[1].Elems[n-1].Text)
	}
}
