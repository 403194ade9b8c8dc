package rdb

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/internal/crc64"
	"github.com/basaltdb/basalt/server/rdb/internal/raw"
)

// short is a string that is not too long to be shown.
func short(b []byte) string {
	if len(b) > 5000 {
		return fmt.Sprintf("%d bytes %x", len(b), crc64.Update(0, b))
	}
	return string(b)
}

// text shows a value.
func text(v *Value) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s", v.Kind)
	if v.Kind == String {
		fmt.Fprintf(&b, " %q", short(v.String))
	}
	step := 1
	if v.Kind == Hash {
		step = 2
	}
	for i := 0; i < len(v.Elems); i += step {
		fmt.Fprintf(&b, " %q", short(v.Elems[i]))
		if step == 2 {
			fmt.Fprintf(&b, "=%q", short(v.Elems[i+1]))
		}
		if v.Scores != nil {
			fmt.Fprintf(&b, ":%v", v.Scores[i])
		}
		if v.Expires != nil {
			fmt.Fprintf(&b, "@%d", v.Expires[i/2])
		}
	}
	if s := v.Stream; s != nil {
		for _, e := range s.Entries {
			fmt.Fprintf(&b, " %d-%d", e.ID.Ms, e.ID.Seq)
			for _, f := range e.Fields {
				fmt.Fprintf(&b, " %q", short(f))
			}
		}
		fmt.Fprintf(&b, " last %d-%d deleted %d-%d added %d", s.Last.Ms, s.Last.Seq, s.MaxDeleted.Ms,
			s.MaxDeleted.Seq, s.EntriesAdded)
		for _, g := range s.Groups {
			fmt.Fprintf(&b, " group %q %d-%d read %d pending %v consumers", g.Name, g.Last.Ms, g.Last.Seq,
				g.EntriesRead, g.Pending)
			for _, c := range g.Consumers {
				fmt.Fprintf(&b, " %q %d %d", c.Name, c.Seen, c.Active)
			}
		}
	}
	return b.String()
}

func rawID(ms, seq uint64) string { return string(cf.StreamID{Ms: ms, Seq: seq}.Append(nil)) }

func repeatAny(n int, e any) []any {
	list := make([]any, n)
	for i := range list {
		list[i] = e
	}
	return list
}

// node is one node of a stream with the entries 5-1, 5-3 and, deleted, 6-0.
var node = str(rawID(5, 1)) + str(listpack(2, 1, 1, "f", 0,
	2, 0, 0, "v", 4,
	0, 0, 2, 2, "a", 1, "b", "2", 8,
	3, 1, -1, "gone", 4))

func TestDecode(t *testing.T) {
	long := strings.Repeat("x", 300)
	for _, tt := range []struct{ name, body, want string }{
		{"string", "\x00\x05hello", `string "hello"`},
		{"empty string", "\x00\x00", `string ""`},
		{"14 bits", "\x00\x40\x05hello", `string "hello"`},
		{"32 bits", "\x00\x80\x00\x00\x00\x05hello", `string "hello"`},
		{"64 bits", "\x00\x81\x00\x00\x00\x00\x00\x00\x00\x05hello", `string "hello"`},
		{"int8", "\x00\xc0\x80", `string "-128"`},
		{"int16", "\x00\xc1\x00\x80", `string "-32768"`},
		{"int32", "\x00\xc2\x00\x00\x00\x80", `string "-2147483648"`},
		{"lzf", "\x00\xc3\x06\x14\x01aa\xe0\x09\x00", `string "` + strings.Repeat("a", 20) + `"`},
		{"lzf literals", "\x00\xc3\x04\x03\x02abc", `string "abc"`},
		{"behind", "\x00\x01ab", `string "a"`},
		{"list", "\x01\x03\x01a\x00\xc0\x05", `list "a" "" "5"`},
		{"ziplist", "\x0a" + str(ziplist("a", "", 0, 12, 13, -1, 127, -128, 128, -32768, 40000, -8388608, 8388608,
			math.MinInt32, 1<<31, math.MinInt64)),
			`list "a" "" "0" "12" "13" "-1" "127" "-128" "128" "-32768" "40000" "-8388608" "8388608" "-2147483648" ` +
				`"2147483648" "-9223372036854775808"`},
		{"long in a ziplist", "\x0a" + str(ziplist(long, "a", strings.Repeat("y", 64))),
			fmt.Sprintf("list %q %q %q", long, "a", strings.Repeat("y", 64))},
		{"quicklist", "\x0e\x03" + str(ziplist("a", "b")) + str(ziplist()) + str(ziplist(7)), `list "a" "b" "7"`},
		{"quicklist 2", "\x12\x03\x01\x03big\x02" + str(listpack("a", 1)) + "\x02" + str(listpack()), `list "big" "a" "1"`},
		{"listpack numbers", "\x12\x01\x02" + str(listpack(0, 127, 128, -1, 4095, -4096, 4096, -4097, 32768, -8388608,
			8388608, math.MinInt32, 1<<31, math.MaxInt64, math.MinInt64)),
			`list "0" "127" "128" "-1" "4095" "-4096" "4096" "-4097" "32768" "-8388608" "8388608" "-2147483648" "2147483648" ` +
				`"9223372036854775807" "-9223372036854775808"`},
		{"listpack strings", "\x12\x01\x02" + str(listpack("", long, strings.Repeat("z", 5000))),
			fmt.Sprintf("list %q %q %q", "", long, strings.Repeat("z", 5000))},
		{"set", "\x02\x02\x01a\x01b", `set "a" "b"`},
		{"intset 16", "\x0b" + str(intset(2, -7, 1, 300)), `set "-7" "1" "300"`},
		{"intset 32", "\x0b" + str(intset(4, -70000, 1)), `set "-70000" "1"`},
		{"intset 64", "\x0b" + str(intset(8, math.MinInt64, 1)), `set "-9223372036854775808" "1"`},
		{"set listpack", "\x14" + str(listpack("a", 5)), `set "a" "5"`},
		{"zset", "\x03\x04\x01a\x031.5\x01b\xfe\x01c\xff\x01d\x0517e-1", `zset "a":1.5 "b":+Inf "c":-Inf "d":1.7`},
		{"zset 2", "\x05\x02\x01a" + le64(math.Float64bits(2.25)) + "\x01b" + le64(math.Float64bits(math.Inf(-1))),
			`zset "a":2.25 "b":-Inf`},
		{"zset ziplist", "\x0c" + str(ziplist("a", 1, 5, "2.5", "c", "inf")), `zset "a":1 "5":2.5 "c":+Inf`},
		{"zset listpack", "\x11" + str(listpack("a", -3, "b", "2.5e-3")), `zset "a":-3 "b":0.0025`},
		{"hash", "\x04\x02\x01a\x01b\x01c\xc0\x05", `hash "a"="b" "c"="5"`},
		{"zipmap", "\x09" + str("\x02\x01a\x01\x00b\x02cc\x01\x02dxx\xff"), `hash "a"="b" "cc"="d"`},
		{"zipmap, long", "\x09" + str("\xfe\x01a\xfe"+le32(300)+"\x00"+long+"\xff"), fmt.Sprintf("hash %q=%q", "a", long)},
		{"hash ziplist", "\x0d" + str(ziplist("a", "b", 1, 2)), `hash "a"="b" "1"="2"`},
		{"hash listpack", "\x10" + str(listpack("a", "b", 1, 2)), `hash "a"="b" "1"="2"`},
		{"hash with expiries", "\x18" + le64(1000) + "\x03\x01\x01a\x01b\x00\x01c\x01d\x0b\x01e\x01f",
			`hash "a"="b"@1000 "c"="d"@0 "e"="f"@1010`},
		{"hash with expiries, none", "\x18" + le64(0) + "\x01\x00\x01c\x01d", `hash "c"="d"`},
		{"hash listpack with expiries", "\x19" + le64(1000) + str(listpack("a", "b", 1000, "c", 5, 0)),
			`hash "a"="b"@1000 "c"="5"@0`},
		{"hash with expiries, early", "\x16\x01\x43\xe8\x01a\x01b", `hash "a"="b"@1000`},
		{"hash listpack with expiries, early", "\x17" + str(listpack("a", "b", 1000)), `hash "a"="b"@1000`},
		{"stream", "\x0f\x01" + node + "\x02\x07\x00\x00",
			`stream 5-1 "f" "v" 5-3 "a" "1" "b" "2" last 7-0 deleted 0-0 added 2`},
		{"empty stream", "\x0f\x00\x00\x07\x01\x00", `stream last 7-1 deleted 0-0 added 0`},
		{"stream 2", "\x13\x01" + node + "\x02\x07\x00" + "\x05\x01\x06\x00\x09" + "\x01" + str("g") + "\x05\x01\x04" +
			"\x02" + rawID(5, 1) + le64(99) + "\x03" + rawID(5, 2) + le64(98) + "\x01" +
			"\x02" + str("c") + le64(50) + "\x01" + rawID(5, 2) + str("d") + le64(60) + "\x01" + rawID(5, 1),
			`stream 5-1 "f" "v" 5-3 "a" "1" "b" "2" last 7-0 deleted 6-0 added 9 group "g" 5-1 read 4 pending [{{5 1} 99 3 1} ` +
				`{{5 2} 98 1 0}] consumers "c" 50 50 "d" 60 60`},
		{"stream 3", "\x15\x00\x00\x07\x00\x00\x00\x00\x00\x00\x01" + str("g") + "\x05\x01\x81" + strings.Repeat("\xff", 8) +
			"\x00\x02" + str("c") + le64(50) + le64(40) + "\x00" + str("d") + le64(60) + strings.Repeat("\xff", 8) + "\x00",
			`stream last 7-0 deleted 0-0 added 0 group "g" 5-1 read -1 pending [] consumers "c" 50 40 "d" 60 0`},
		{"stream, reads estimated", "\x0f\x01" + node + "\x02\x07\x00\x04" + str("a") + "\x07\x00\x00\x00" +
			str("b") + "\x05\x01\x00\x00" + str("c") + "\x00\x00\x00\x00" + str("d") + "\x06\x00\x00\x00",
			`stream 5-1 "f" "v" 5-3 "a" "1" "b" "2" last 7-0 deleted 0-0 added 2 group "a" 7-0 read 2 pending [] consumers` +
				` group "b" 5-1 read 1 pending [] consumers group "c" 0-0 read 0 pending [] consumers group "d" 6-0 read -1 ` +
				`pending [] consumers`},
		{"many in a listpack", "\x12\x01\x02" + str(listpack(repeatAny(70000, 1)...)), "list" +
			strings.Repeat(` "1"`, 70000)},
		{"many in a ziplist", "\x0a" + str(ziplist(repeatAny(70000, 1)...)), "list" + strings.Repeat(` "1"`, 70000)},
	} {
		v, err := Decode([]byte(tt.body), hugeBudget)
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
			continue
		}
		if got := text(v); got != tt.want {
			t.Errorf("%s: %.300s\nwant %.300s", tt.name, got, tt.want)
		}
	}
}

func TestMalformed(t *testing.T) {
	lp, zl := listpack("a", "b"), ziplist("a", "b")
	change := func(s string, at int, c byte) string {
		b := []byte(s)
		if at < 0 {
			at += len(b)
		}
		b[at] = c
		return string(b)
	}
	stream := func(node, rest string) string { return "\x0f\x01" + node + rest }
	const two = "\x02\x07\x00\x00"
	for _, tt := range []struct{ name, body string }{
		{"nothing", ""},
		{"unknown type", "\x08\x00"},
		{"unknown type", "\x1a\x00"},
		{"unknown length", "\x00\x82\x00"},
		{"unknown encoding", "\x00\xc4\x00"},
		{"too short", "\x00\x05hell"},
		{"no end", "\x00\x81\xff\xff\xff\xff\xff\xff\xff\xffabc"},
		{"encoded count", "\x01\xc0\x01\x01a"},
		{"count beyond the end", "\x01\x80\xff\xff\xff\xff\x01a"},
		{"empty list", "\x01\x00"},
		{"empty set", "\x02\x00"},
		{"empty zset", "\x05\x00"},
		{"empty hash", "\x04\x00"},
		{"empty quicklist", "\x12\x01\x02" + str(listpack())},
		{"repeated member", "\x02\x02\x01a\x01a"},
		{"repeated field", "\x04\x02\x01a\x01b\x01a\x01c"},
		{"repeated member of a zset", "\x05\x02\x01a" + le64(0) + "\x01a" + le64(0)},
		{"repeated field of a listpack", "\x10" + str(listpack(1, 2, "1", 3))},
		{"field without value", "\x10" + str(listpack("a", "b", "c"))},
		{"member without score", "\x11" + str(listpack("a", 1, "c"))},
		{"score that is no number", "\x05\x01\x01a" + le64(math.Float64bits(math.NaN()))},
		{"old score that is no number", "\x03\x01\x01a\xfd"},
		{"text of no score", "\x11" + str(listpack("a", "b"))},
		{"text of nan", "\x11" + str(listpack("a", "nan"))},
		{"plain node of unknown kind", "\x12\x01\x03\x01a"},
		{"lzf too short", "\x00\xc3\x06\x15\x01aa\xe0\x09\x00"},
		{"lzf too long", "\x00\xc3\x06\x13\x01aa\xe0\x09\x00"},
		{"lzf from before", "\x00\xc3\x06\x14\x01aa\xe0\x09\x05"},
		{"lzf ends early", "\x00\xc3\x04\x14\x01aa\xe0"},
		{"lzf of nothing", "\x00\xc3\x00\x00"},
		{"lzf ratio", "\x00\xc3\x06\x80\x7f\xff\xff\xff\x01aa\xe0\x09\x00"},
		{"listpack size", "\x14" + str(change(lp, 0, 99))},
		{"listpack count", "\x14" + str(change(lp, 4, 3))},
		{"listpack end", "\x14" + str(change(lp, -1, 0))},
		{"listpack encoding", "\x14" + str(change(lp, 6, 0xf5))},
		{"listpack length", "\x14" + str(change(lp, 6, 0xbf))},
		{"listpack back length", "\x14" + str(change(lp, 8, 3))},
		{"listpack with an end inside", "\x14" + str(change(lp, 9, 0xff))},
		{"listpack head", "\x14" + str("\x06\x00\x00\x00\x00\x00")},
		{"ziplist size", "\x0a" + str(change(zl, 0, 99))},
		{"ziplist tail", "\x0a" + str(change(zl, 4, 10))},
		{"ziplist count", "\x0a" + str(change(zl, 8, 3))},
		{"ziplist end", "\x0a" + str(change(zl, -1, 0))},
		{"ziplist previous length", "\x0a" + str(change(zl, 10, 1))},
		{"ziplist previous length", "\x0a" + str(change(zl, 13, 254))},
		{"ziplist encoding", "\x0a" + str(change(zl, 11, 0xf1-1))},
		{"ziplist length", "\x0a" + str(change(zl, 11, 0x3f))},
		{"intset width", "\x0b" + str(intset(3, 1))},
		{"intset order", "\x0b" + str(intset(2, 2, 1))},
		{"intset repeated", "\x0b" + str(intset(2, 1, 1))},
		{"intset short", "\x0b" + str(intset(2, 1, 2)[:11])},
		{"zipmap count", "\x09" + str("\x02\x01a\x01\x00b\xff")},
		{"zipmap length", "\x09" + str("\x01\x01a\x09\x00b\xff")},
		{"zipmap end", "\x09" + str("\x01\x01a\x01\x00b")},
		{"hash expiry", "\x18" + strings.Repeat("\xff", 8) + "\x01\x05\x01a\x01b"},
		{"hash listpack expiry", "\x19" + le64(0) + str(listpack("a", "b", "c"))},
		{"hash listpack negative expiry", "\x19" + le64(0) + str(listpack("a", "b", -1))},
		{"hash listpack without expiry", "\x19" + le64(0) + str(listpack("a", "b"))},
		{"stream key", stream(str("short")+str(listpack(0, 0, 0, 0)), "\x00\x07\x00\x00")},
		{"stream length", stream(node, "\x03\x07\x00\x00")},
		{"stream last id", stream(node, "\x02\x05\x02\x00")},
		{"stream without end", stream(node, "")},
		{"stream entry order", stream(str(rawID(5, 1))+str(listpack(2, 0, 1, "f", 0, 2, 0, 1, "v", 4, 2, 0, 1, "v",
			4)), two)},
		{"stream entry 0-0", stream(str(rawID(0, 0))+str(listpack(2, 0, 1, "f", 0, 2, 0, 0, "v", 4, 2, 0, 1, "v", 4)), two)},
		{"stream entry without fields", stream(str(rawID(5, 1))+str(listpack(2, 0, 0, 0, 2, 0, 0, 3, 2, 0, 1, 3)), two)},
		{"stream node that ends", stream(str(rawID(5, 1))+str(listpack(2, 0, 1, "f", 0, 2, 0, 0, "v", 4)), two)},
		{"stream node that goes on", stream(str(rawID(5, 1))+str(listpack(2, 0, 1, "f", 0, 2, 0, 0, "v", 4, 2, 0, 1,
			"v", 4, 0)), two)},
		{"stream node head", stream(str(rawID(5, 1))+str(listpack(2, 0, 1, "f", 1, 2, 0, 0, "v", 4, 2, 0, 1, "v", 4)), two)},
		{"stream node count", stream(str(rawID(5, 1))+str(listpack(1000, 0, 1, "f", 0, 2, 0, 0, "v", 4)), two)},
		{"stream node negative count", stream(str(rawID(5, 1))+str(listpack(-1, 3, 1, "f", 0, 3, 0, 0, "v", 4, 3, 0,
			1, "v", 4)), two)},
		{"stream node string for a number", stream(str(rawID(5, 1))+str(listpack("2", 0, 1, "f", 0, 2, 0, 0, "v", 4,
			2, 0, 1, "v", 4)), two)},
		{"stream, deleted is not", stream(str(rawID(5, 1))+str(listpack(1, 1, 1, "f", 0, 2, 0, 0, "v", 4, 2, 0, 1,
			"v", 4)), two)},
		{"stream, group twice", "\x13\x00\x00\x07\x00\x00\x00\x00\x00\x00\x02" +
			strings.Repeat(str("g")+"\x00\x00\x00\x00\x00", 2)},
		{"stream, consumer twice", "\x13\x00\x00\x07\x00\x00\x00\x00\x00\x00\x01" + str("g") +
			"\x00\x00\x00\x00\x02" + strings.Repeat(str("c")+le64(1)+"\x00", 2)},
		{"stream, pending for nobody", "\x13\x00\x00\x07\x00\x00\x00\x00\x00\x00\x01" + str("g") +
			"\x00\x00\x00\x01" + rawID(1, 1) + le64(1) + "\x01\x00"},
		{"stream, pending twice", "\x13\x00\x00\x07\x00\x00\x00\x00\x00\x00\x01" + str("g") + "\x00\x00\x00\x02" +
			strings.Repeat(rawID(1, 1)+le64(1)+"\x01", 2) + "\x00"},
		{"stream, pending for two", "\x13\x00\x00\x07\x00\x00\x00\x00\x00\x00\x01" + str("g") + "\x00\x00\x00\x01" +
			rawID(1, 1) + le64(1) + "\x01\x02" +
			str("c") + le64(1) + "\x01" + rawID(1, 1) + str("d") + le64(1) + "\x01" + rawID(1, 1)},
		{"stream, pending for a consumer only", "\x13\x00\x00\x07\x00\x00\x00\x00\x00\x00\x01" + str("g") +
			"\x00\x00\x00\x00\x01" + str("c") + le64(1) + "\x01" + rawID(1, 1)},
		{"stream, groups without end", "\x13\x00\x00\x07\x00\x00\x00\x00\x00\x00\x80\x7f\xff\xff\xff"},
	} {
		if v, err := Decode([]byte(tt.body), hugeBudget); !errors.Is(err, ErrFormat) {
			t.Errorf("%s: %v, %v", tt.name, v, err)
		}
	}
	for _, body := range []string{"\x06\x00", "\x07\x00"} {
		if _, err := Decode([]byte(body), hugeBudget); !errors.Is(err, ErrUnsupported) {
			t.Errorf("module: %v", err)
		}
	}
}

// TestBudget decodes values that are much larger than the bytes they are read from.
func TestBudget(t *testing.T) {
	zeros := string(bytes.Repeat([]byte{0xe0, 0xff, 0x00}, 10000)) // 264 bytes each
	bomb := "\x01\x01a" + zeros
	n := uint64(2 + 264*10000)
	lzf := "\xc3" + string(raw.AppendLength(nil, uint64(len(bomb)))) + string(raw.AppendLength(nil, n)) + bomb
	fields := strings.Repeat("f", 10000)
	entries := []any{1000, 0, 1, fields, 0}
	for i := range 1000 {
		entries = append(entries, 2, i, 0, "v", 4)
	}
	for _, tt := range []struct {
		name, body string
		needs      int64
	}{
		{"lzf", "\x00" + lzf, int64(n)},
		{"many lzf", "\x01\x0a" + strings.Repeat(lzf, 10), 10 * int64(n)},
		{"many empty elements", "\x01\x80\x00\x01\x00\x00" + strings.Repeat("\x00", 1<<16), raw.ElemCost << 16},
		{"fields of a node", "\x0f\x01" + str(rawID(5, 1)) + str(listpack(entries...)) + "\x43\xe8\x7f\xff\x00\x00",
			1000 * 10000},
	} {
		if _, err := Decode([]byte(tt.body), tt.needs-1); !errors.Is(err, ErrTooLarge) {
			t.Errorf("%s: %v", tt.name, err)
		}
		if tt.name == "fields of a node" {
			continue
		}
		if _, err := Decode([]byte(tt.body), 2*tt.needs); err != nil {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
}

func TestRoundTrip(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for i := range 600 {
		v := randomValue(r, Kind(i%6))
		body, version := v.append([]byte("before"))
		if string(body[:6]) != "before" {
			t.Fatal("what was there is gone")
		}
		payload := AppendFooter(body[6:len(body):len(body)], version)
		opened, err := Open(payload)
		if err != nil {
			t.Fatalf("%s: %v", v.Kind, err)
		}
		got, err := Decode(opened, hugeBudget)
		if err != nil {
			t.Fatalf("%s: %v\n%.500s", v.Kind, err, text(v))
		}
		if text(got) != text(v) {
			t.Fatalf("%.500s\nwant %.500s", text(got), text(v))
		}
	}
}

func TestFooter(t *testing.T) {
	good := AppendFooter([]byte("\x00\x01a"), 11)
	if body, err := Open(good); err != nil || string(body) != "\x00\x01a" {
		t.Errorf("%q, %v", body, err)
	}
	// What Redis 7.0 dumps for SET k hello.
	if body, err := Open([]byte("\x00\x05hello\x0a\x00\x59\x96\x4f\xcb\x30\xc6\x5c\x0b")); err != nil &&
		!errors.Is(err, ErrFooter) {
		t.Errorf("%q, %v", body, err)
	}
	for i := range good {
		bad := bytes.Clone(good)
		bad[i] ^= 1
		if _, err := Open(bad); !errors.Is(err, ErrFooter) {
			t.Errorf("byte %d changed: %v", i, err)
		}
		if _, err := Open(good[:i]); !errors.Is(err, ErrFooter) {
			t.Errorf("%d bytes: %v", i, err)
		}
	}
	if _, err := Open(AppendFooter([]byte("\x00\x01a"), MaxVersion)); err != nil {
		t.Error(err)
	}
	if _, err := Open(AppendFooter([]byte("\x00\x01a"), MaxVersion+1)); !errors.Is(err, ErrFooter) {
		t.Error(err)
	}
}

func TestStreamVersions(t *testing.T) {
	entry := StreamEntry{ID: cf.StreamID{Ms: 1}, Fields: [][]byte{[]byte("f"), []byte("v")}}
	for _, tt := range []struct {
		name    string
		s       StreamValue
		version uint16
	}{
		{"whole", StreamValue{Entries: []StreamEntry{entry}, Last: entry.ID, EntriesAdded: 1}, 9},
		{"trimmed", StreamValue{Entries: []StreamEntry{entry}, Last: entry.ID, EntriesAdded: 2}, 10},
		{"deleted", StreamValue{Entries: []StreamEntry{entry}, Last: entry.ID, MaxDeleted: cf.StreamID{Seq: 1},
			EntriesAdded: 1}, 10},
		{"group", StreamValue{Last: entry.ID, Groups: []StreamGroup{{Name: []byte("g")}}}, 10},
	} {
		if _, version := (&Value{Kind: Stream, Stream: &tt.s}).append(nil); version != tt.version {
			t.Errorf("%s: version %d, want %d", tt.name, version, tt.version)
		}
	}
}

// TestStreamInParts: a stream that is written in parts has the bytes of one that is written as a whole.
func TestStreamInParts(t *testing.T) {
	for _, groups := range [][]StreamGroup{nil, {{Name: []byte("g"), Last: cf.StreamID{Ms: 3}, EntriesRead: 3}}} {
		v := &Value{Kind: Stream, Stream: &StreamValue{Last: cf.StreamID{Ms: 1000}, EntriesAdded: 1000, Groups: groups}}
		for i := range 1000 {
			fields := [][]byte{[]byte("f"), fmt.Appendf(nil, "value%d", i), []byte(strings.Repeat("g", 1+i/300)), []byte("v")}
			v.Stream.Entries = append(v.Stream.Entries, StreamEntry{ID: cf.StreamID{Ms: uint64(i + 1)}, Fields: fields})
		}
		want, wantVersion := AppendValue([]byte("before"), v)
		w := NewStreamWriter([]byte("before"))
		for i, e := range v.Stream.Entries {
			if w.Add(e.ID, e.Fields); i%70 == 0 {
				w.Drop()
			}
		}
		if w.Len() > len(want)/2 {
			t.Errorf("%d bytes are in memory", w.Len())
		}
		w = w.Again([]byte("before"), v.Stream)
		var got []byte
		for i, e := range v.Stream.Entries {
			if w.Add(e.ID, e.Fields); i%70 == 0 {
				got = append(got, w.Take()...)
			}
		}
		rest, version := w.End(v.Stream)
		if got = append(got, rest...); !bytes.Equal(got, want) || version != wantVersion {
			t.Errorf("%d bytes of version %d, want %d of %d", len(got), version, len(want), wantVersion)
		}
	}
}
