package stream_test

import (
	"errors"
	"math"
	"testing"

	"github.com/basaltdb/basalt/engine/stream"
)

func TestParseID(t *testing.T) {
	for _, c := range []struct {
		text string
		want string // "" = no id
	}{
		{"0-0", "0-0"}, {"1-2", "1-2"}, {"5", "5-7"}, {"18446744073709551615-18446744073709551615",
			"18446744073709551615-18446744073709551615"},
		{"18446744073709551616", ""}, {"1-18446744073709551616", ""}, {"99999999999999999999999999", ""},
		{"", ""}, {"-", ""}, {"+", ""}, {"-1", ""}, {"1-", ""}, {"1-2-3", ""}, {"a", ""}, {"1-a", ""}, {"1-*",
			""}, {"*", ""}, {"1 ", ""}, {"1- 2 ", ""}, {"0x1", ""}, {"1.5", ""},
		// What C's strtoull takes.
		{"01-002", "1-2"}, {" 1-\t2", "1-2"}, {"+1-+2", "1-2"}, {"+-1", ""}, {"+", ""}, {" ", ""}, {" -1",
			""}, {"1--0", "1-0"}, {"1--00", "1-0"},
		{"1--1", ""}, {"1--9223372036854775807", ""}, {"1--9223372036854775808", ""}, {"1--9223372036854775809",
			"1-9223372036854775807"}, {"1--18446744073709551615", "1-1"},
		// not the shortest form of a negative number
		{"1--01", "1-18446744073709551615"}, {"1- -1", "1-18446744073709551615"},
		{"1-\x002", ""}, {"1-2\x00garbage", "1-2"}, {"\x00", ""},
	} {
		got, err := stream.ParseID([]byte(c.text), 7)
		if c.want == "" {
			if !errors.Is(err, stream.ErrInvalidID) {
				t.Errorf("%q: %s, %v", c.text, text(got), err)
			}
			continue
		}
		if err != nil || text(got) != c.want {
			t.Errorf("%q: %s, %v, want %s", c.text, text(got), err, c.want)
		}
	}
}

func TestParseBounds(t *testing.T) {
	const most = "18446744073709551615"
	for _, c := range []struct{ text, start, end string }{ // "" = an error
		{"-", "0-0", "0-0"},
		{"+", most + "-" + most, most + "-" + most},
		{"5", "5-0", "5-" + most},
		{"5-3", "5-3", "5-3"},
		{"(5", "5-1", "5-18446744073709551614"},
		{"(5-3", "5-4", "5-2"},
		{"(5-0", "5-1", "4-" + most},
		{"(5-" + most, "6-0", "5-18446744073709551614"},
		{"(0-0", "0-1", ""},
		{"(" + most + "-" + most, "", most + "-18446744073709551614"},
		{"(", "", ""}, {"(-", "", ""}, {"(+", "", ""}, {"((1", "", ""}, {"x", "", ""}, {"", "", ""}, {"[1", "", ""},
	} {
		start, err := stream.ParseStart([]byte(c.text))
		if (err != nil) != (c.start == "") || err == nil && text(start) != c.start {
			t.Errorf("start %q: %s, %v, want %s", c.text, text(start), err, c.start)
		}
		end, err := stream.ParseEnd([]byte(c.text))
		if (err != nil) != (c.end == "") || err == nil && text(end) != c.end {
			t.Errorf("end %q: %s, %v, want %s", c.text, text(end), err, c.end)
		}
	}
}

func TestParseNewID(t *testing.T) {
	for _, c := range []struct {
		text string
		want stream.NewID
		ok   bool
	}{
		{"*", stream.NewID{Auto: stream.AutoID}, true},
		{"5-*", stream.NewID{ID: stream.ID{Ms: 5}, Auto: stream.AutoSeq}, true},
		{"5", stream.NewID{ID: stream.ID{Ms: 5}}, true},
		{"5-6", stream.NewID{ID: stream.ID{Ms: 5, Seq: 6}}, true},
		{"5-**", stream.NewID{}, false}, {"*-5", stream.NewID{}, false}, {"-*", stream.NewID{}, false}, {"",
			stream.NewID{}, false}, {"+", stream.NewID{}, false},
	} {
		got, err := stream.ParseNewID([]byte(c.text))
		if (err == nil) != c.ok || c.ok && got != c.want {
			t.Errorf("%q: %v, %v", c.text, got, err)
		}
	}
}

func TestNextPrev(t *testing.T) {
	const most = math.MaxUint64
	for _, c := range []struct{ a, b stream.ID }{
		{stream.ID{}, stream.ID{Seq: 1}},
		{stream.ID{Ms: 1, Seq: most}, stream.ID{Ms: 2}},
		{stream.ID{Ms: most, Seq: most - 1}, stream.MaxID},
		{stream.ID{Ms: most - 1, Seq: most}, stream.ID{Ms: most}},
	} {
		if next, ok := stream.Next(c.a); !ok || next != c.b {
			t.Errorf("after %s: %s", text(c.a), text(next))
		}
		if prev, ok := stream.Prev(c.b); !ok || prev != c.a {
			t.Errorf("before %s: %s", text(c.b), text(prev))
		}
	}
	if _, ok := stream.Next(stream.MaxID); ok {
		t.Error("there is an id after the last one")
	}
	if _, ok := stream.Prev(stream.MinID); ok {
		t.Error("there is an id before the first one")
	}
}

// What is an id has a text that is the same id.
func FuzzParseID(f *testing.F) {
	for _, s := range []string{"1-2", "*", "5-*", "(1-1", "-", "+", " +1-\t-7", "1--18446744073709551615", "0000-0",
		"1\x00-2"} {
		f.Add([]byte(s), uint64(3))
	}
	f.Fuzz(func(t *testing.T, b []byte, missing uint64) {
		id, err := stream.ParseID(b, missing)
		if err == nil {
			again, err := stream.ParseID(stream.AppendID(nil, id), 0)
			if err != nil || again != id {
				t.Errorf("%q: %s, and that is %s, %v", b, text(id), text(again), err)
			}
		}
		n, err2 := stream.ParseNewID(b)
		if err == nil && (err2 != nil || n.Auto != stream.AutoNone || n.ID.Ms != id.Ms) {
			t.Errorf("%q: %v, %v as a new id", b, n, err2)
		}
		if start, err := stream.ParseStart(b); err == nil {
			end, err := stream.ParseEnd(b)
			open := len(b) > 1 && b[0] == '('
			if err == nil && !open && start.Compare(end) > 0 {
				t.Errorf("%q: from %s to %s", b, text(start), text(end))
			}
		}
	})
}
