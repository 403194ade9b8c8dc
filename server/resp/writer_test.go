package resp

import (
	"bytes"
	"math"
	"slices"
	"strings"
	"testing"
)

func TestWriter(t *testing.T) {
	for _, c := range []struct {
		name         string
		write        func(w *Writer)
		resp2, resp3 string // resp3 empty: the same
	}{
		{"OK", func(w *Writer) { w.OK() }, "+OK\r\n", ""},
		{"SimpleString", func(w *Writer) { w.SimpleString("a\r\nb") }, "+a  b\r\n", ""},
		{"Error", func(w *Writer) { w.Error("WRONGTYPE", "Operation\nagainst\r\n") }, "-WRONGTYPE Operation against\r\n", ""},
		{"Error without code", func(w *Writer) { w.Error("", "MYERR text") }, "-MYERR text\r\n", ""},
		{"Int", func(w *Writer) { w.Int(0); w.Int(1); w.Int(-7) }, ":0\r\n:1\r\n:-7\r\n", ""},
		{"Int limits", func(w *Writer) { w.Int(math.MaxInt64); w.Int(math.MinInt64) },
			":9223372036854775807\r\n:-9223372036854775808\r\n", ""},
		{"Bulk", func(w *Writer) { w.Bulk([]byte("a\r\nb")) }, "$4\r\na\r\nb\r\n", ""},
		{"Bulk nil", func(w *Writer) { w.Bulk(nil) }, "$0\r\n\r\n", ""},
		{"BulkString", func(w *Writer) { w.BulkString("abc") }, "$3\r\nabc\r\n", ""},
		{"BulkInt", func(w *Writer) { w.BulkInt(-12) }, "$3\r\n-12\r\n", ""},
		{"Null", func(w *Writer) { w.Null() }, "$-1\r\n", "_\r\n"},
		{"NullArray", func(w *Writer) { w.NullArray() }, "*-1\r\n", "_\r\n"},
		{"Array", func(w *Writer) { w.Array(2) }, "*2\r\n", ""},
		{"Map", func(w *Writer) { w.Map(2) }, "*4\r\n", "%2\r\n"},
		{"Set", func(w *Writer) { w.Set(2) }, "*2\r\n", "~2\r\n"},
		{"Push", func(w *Writer) { w.Push(2) }, "*2\r\n", ">2\r\n"},
		{"Double", func(w *Writer) { w.Double(1.5); w.Double(math.Inf(-1)) }, "$3\r\n1.5\r\n$4\r\n-inf\r\n",
			",1.5\r\n,-inf\r\n"},
		{"Bool", func(w *Writer) { w.Bool(true); w.Bool(false) }, ":1\r\n:0\r\n", "#t\r\n#f\r\n"},
		{"Verbatim", func(w *Writer) { w.Verbatim("txt", "a\nb") }, "$3\r\na\nb\r\n", "=7\r\ntxt:a\nb\r\n"},
		{"Verbatim, odd format", func(w *Writer) { w.Verbatim("t", ""); w.Verbatim("text", "") },
			"$0\r\n\r\n$0\r\n\r\n", "=4\r\nt  :\r\n=4\r\ntex:\r\n"},
		{"BigNumber", func(w *Writer) { w.BigNumber("-1234567890123456789012") },
			"$23\r\n-1234567890123456789012\r\n", "(-1234567890123456789012\r\n"},
		{"Raw", func(w *Writer) { w.Raw([]byte(":5\r\n")) }, ":5\r\n", ""},
		{"InsertArray", func(w *Writer) { w.OK(); m := w.Mark(); w.Int(5); w.InsertArray(m, 1) }, "+OK\r\n*1\r\n:5\r\n", ""},
		{"InsertMap", func(w *Writer) { m := w.Mark(); w.Int(5); w.Int(6); w.InsertMap(m, 1) }, "*2\r\n:5\r\n:6\r\n",
			"%1\r\n:5\r\n:6\r\n"},
		{"InsertSet", func(w *Writer) { m := w.Mark(); w.InsertSet(m, 0) }, "*0\r\n", "~0\r\n"},
		{"Truncate", func(w *Writer) { w.OK(); m := w.Mark(); w.Int(5); w.Truncate(m) }, "+OK\r\n", ""},
		{"Reset", func(w *Writer) { w.Int(5); w.Reset(); w.OK() }, "+OK\r\n", ""},
		{"Release", func(w *Writer) { w.Int(5); w.Release(0); w.OK() }, "+OK\r\n", ""},
	} {
		if c.resp3 == "" {
			c.resp3 = c.resp2
		}
		for proto, want := range map[int]string{0: c.resp2, 2: c.resp2, 3: c.resp3} {
			w := &Writer{Proto: proto}
			c.write(w)
			if got := string(w.Bytes()); got != want || w.Len() != len(want) || w.Proto != proto {
				t.Errorf("%s, RESP%d: %q, want %q", c.name, proto, got, want)
			}
		}
	}
}

func TestWriterRelease(t *testing.T) {
	var w Writer
	w.BulkString(strings.Repeat("x", 1000))
	w.Release(2000)
	if cap(w.buf) < 1000 || w.Len() != 0 {
		t.Errorf("a small buffer was not kept: cap %d, len %d", cap(w.buf), w.Len())
	}
	w.Release(100)
	if cap(w.buf) != 0 {
		t.Errorf("a large buffer was kept: cap %d", cap(w.buf))
	}
}

func TestWriterDoesNotAllocate(t *testing.T) {
	w := &Writer{Proto: 3}
	value := []byte("value")
	write := func() {
		w.Reset()
		w.Array(5)
		w.Int(12345)
		w.Bulk(value)
		w.Double(0.1)
		m := w.Mark()
		w.BulkString("abc")
		w.InsertArray(m, 1)
		w.Error("ERR", "no such key")
		w.BulkInt(77)
	}
	write()
	if a := testing.AllocsPerRun(100, write); a != 0 {
		t.Errorf("%v allocations", a)
	}
}

// TestAppendDouble has what fpconv of Redis 7.2 prints for these numbers.
func TestAppendDouble(t *testing.T) {
	for _, c := range []struct {
		f    float64
		want string
	}{
		{0, "0"},
		{math.Copysign(0, -1), "-0"},
		{3, "3"},
		{-3, "-3"},
		{3.5, "3.5"},
		{0.1, "0.1"},
		{0.30000000000000004, "0.30000000000000004"},
		{1.0 / 3, "0.3333333333333333"},
		{3.14159265358979, "3.14159265358979"},
		{1234.5678, "1234.5678"},
		{12345.678901234, "1.2345678901234e+4"},
		{12345.678, "12345.678"},
		{123456.1234567, "1.234561234567e+5"},
		{0.001, "0.001"},
		{0.0000012, "1.2e-6"},
		{0.00001, "0.00001"},
		{0.000001, "0.000001"},
		{0.0000001, "1e-7"},
		{0.000123456789, "1.23456789e-4"},
		{-0.000123456, "-1.23456e-4"},
		{100000, "100000"},
		{1 << 53, "9007199254740992"},
		{1e17, "100000000000000000"},
		{1 << 62, "4611686018427387904"},
		{-(1 << 62), "-4611686018427387904"},
		{1 << 63, "9223372036854776000"},
		{1e19, "1e+19"},
		{1e21, "1e+21"},
		{1.5e300, "1.5e+300"},
		{123456789012345680000, "123456789012345680000"},
		{math.MaxFloat64, "1.7976931348623157e+308"},
		{math.SmallestNonzeroFloat64, "5e-324"},
		{1e-100, "1e-100"},
		{1e-10, "1e-10"},
		{1e105, "1e+105"},
		{math.Inf(1), "inf"},
		{math.Inf(-1), "-inf"},
		{math.NaN(), "nan"},
	} {
		if got := string(AppendDouble(nil, c.f)); got != c.want {
			t.Errorf("%v: %s, want %s", c.f, got, c.want)
		}
	}
}

// What is written beyond the limit is dropped, marks stay valid, and a new Limit begins anew.
func TestWriterLimit(t *testing.T) {
	part := make([]byte, 100_000)
	for _, limit := range []int{0, 1, 300_000, 1_000_000} {
		var w Writer
		w.Limit(limit)
		w.OK()
		mark := w.Mark()
		for range 100 {
			w.Bulk(part)
			w.BulkString("x")
		}
		w.InsertArray(mark, 200)
		most := max(limit, streamChunk) + len(part) + 100
		if over := limit != 0; w.Overflowed() != over || over && w.Len() > most {
			t.Errorf("limit %d: overflowed %v, %d bytes", limit, w.Overflowed(), w.Len())
		}
		w.Reset()
		w.Limit(limit)
		w.Bulk(part)
		if w.Overflowed() || w.Len() != len(part)+11 {
			t.Errorf("limit %d: a short reply afterwards: overflowed %v, %d bytes", limit, w.Overflowed(), w.Len())
		}
	}
}

// A long reply is in pieces: marks, headers that are put in later and what is cut off are the same as in one.
func TestWriterOfManyPieces(t *testing.T) {
	part := strings.Repeat("p", 100_000)
	bulk := "$100000\r\n" + part + "\r\n"
	var w Writer
	write := func(n int) (want string) {
		for range n {
			w.Bulk([]byte(part))
		}
		return strings.Repeat(bulk, n)
	}
	check := func(what, want string, pieces int) {
		t.Helper()
		if w.Len() != len(want) || w.Cap() < len(want) {
			t.Errorf("%s: %d bytes, capacity %d, want %d", what, w.Len(), w.Cap(), len(want))
		}
		copied := w
		parts, last := copied.Parts()
		if len(parts) < pieces || copied.Len() != 0 {
			t.Errorf("%s: %d parts, and %d bytes are left", what, len(parts), copied.Len())
		}
		if got := string(bytes.Join(append(slices.Clone(parts), last), nil)); got != want {
			t.Errorf("%s: parts begin with %.40q, want %.40q", what, got, want)
		}
		if got := string(w.Bytes()); got != want {
			t.Errorf("%s: begins with %.40q, want %.40q", what, got, want)
		}
	}
	w.OK()
	first := w.Mark()
	want := write(30)
	write(30)
	w.Truncate(len("+OK\r\n") + len(want))
	middle := w.Mark() // in a later piece
	rest := write(30)
	w.InsertArray(middle, 30)
	w.InsertArray(first, 31)
	want = "+OK\r\n*31\r\n" + want + "*30\r\n" + rest
	check("two arrays", want, 15)
	write(40)
	w.Truncate(len(want))
	check("cut off", want, 0) // it is in one piece since the last call of Bytes
	w.Truncate(len(want) - len(rest) - 5)
	check("cut off further", want[:len(want)-len(rest)-5], 0)
	w.Release(1 << 20)
	if w.Len() != 0 || w.Cap() != 0 {
		t.Errorf("released: %d bytes, capacity %d", w.Len(), w.Cap())
	}
}

// A reply that leaves in parts does not reach the limit.
func TestWriterLimitOfStream(t *testing.T) {
	var w Writer
	w.Limit(300_000)
	w.Stream(taker{&w})
	for range 100 {
		w.Bulk(make([]byte, 100_000))
	}
	if w.Overflowed() {
		t.Error("overflowed")
	}
}

type taker struct{ w *Writer }

func (t taker) TakeReply() { t.w.Reset() }
