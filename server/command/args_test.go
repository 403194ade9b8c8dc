package command

import (
	"math"
	"strconv"
	"testing"
)

func TestParseInt(t *testing.T) {
	for _, c := range []struct {
		in   string
		want int64
		ok   bool
	}{
		{"0", 0, true},
		{"7", 7, true},
		{"-1", -1, true},
		{"1234567890", 1234567890, true},
		{"9223372036854775807", math.MaxInt64, true},
		{"-9223372036854775808", math.MinInt64, true},
		{"9223372036854775808", 0, false},
		{"-9223372036854775809", 0, false},
		{"18446744073709551616", 0, false},
		{"99999999999999999999", 0, false},
		{"100000000000000000000", 0, false},
		{"", 0, false},
		{"-", 0, false},
		{"-0", 0, false},
		{"+1", 0, false},
		{"00", 0, false},
		{"01", 0, false},
		{"-01", 0, false},
		{" 1", 0, false},
		{"1 ", 0, false},
		{"1.0", 0, false},
		{"1e3", 0, false},
		{"0x10", 0, false},
		{"--1", 0, false},
		{"1\x00", 0, false},
		{"\xb1", 0, false},
	} {
		got, ok := ParseInt([]byte(c.in))
		if got != c.want || ok != c.ok {
			t.Errorf("ParseInt(%q) = %d, %v, want %d, %v", c.in, got, ok, c.want, c.ok)
		}
	}
}

func TestParseUint(t *testing.T) {
	for _, c := range []struct {
		in   string
		want uint64
		ok   bool
	}{
		{"0", 0, true},
		{"18446744073709551615", math.MaxUint64, true},
		{"18446744073709551616", 0, false},
		{"28446744073709551615", 0, false},
		{"-1", 0, false},
		{"01", 0, false},
		{"", 0, false},
	} {
		got, ok := ParseUint([]byte(c.in))
		if got != c.want || ok != c.ok {
			t.Errorf("ParseUint(%q) = %d, %v, want %d, %v", c.in, got, ok, c.want, c.ok)
		}
	}
}

func TestParseFloat(t *testing.T) {
	inf := math.Inf(1)
	for _, c := range []struct {
		in   string
		want float64
		ok   bool
	}{
		{"0", 0, true},
		{"-0", math.Copysign(0, -1), true},
		{"1", 1, true},
		{"+1.5", 1.5, true},
		{".5", 0.5, true},
		{"5.", 5, true},
		{"1e3", 1000, true},
		{"1E+3", 1000, true},
		{"1e-3", 0.001, true},
		{"0001.50", 1.5, true},
		{"0x10", 16, true},
		{"0X1.8p1", 3, true},
		{"-0x.8P+1", -1, true},
		{"0xep0", 14, true},
		{"0x0p5", 0, true},
		{"inf", inf, true},
		{"+INF", inf, true},
		{"-Infinity", -inf, true},
		{"1.7976931348623157e308", math.MaxFloat64, true},
		{"4.9406564584124654e-324", math.SmallestNonzeroFloat64, true},
		{"0e-999", 0, true},
		{"0.0e999999999999", 0, true},
		{"1e309", 0, false},
		{"-1e309", 0, false},
		{"1e-400", 0, false},
		{"0x1p-2000", 0, false},
		{"0x1p2000", 0, false},
		{"nan", 0, false},
		{"-NaN", 0, false},
		{"", 0, false},
		{"+", 0, false},
		{" 1", 0, false},
		{"1 ", 0, false},
		{"1e", 0, false},
		{"1_0", 0, false},
		{"0x1_0", 0, false},
		{"0x", 0, false},
		{"0x1p", 0, false},
		{"0b1", 0, false},
		{"infi", 0, false},
		{"1.2.3", 0, false},
		{"1\x00", 0, false},
		{"abc", 0, false},
	} {
		got, ok := ParseFloat([]byte(c.in))
		if ok != c.ok || ok && (got != c.want || math.Signbit(got) != math.Signbit(c.want)) {
			t.Errorf("ParseFloat(%q) = %v, %v, want %v, %v", c.in, got, ok, c.want, c.ok)
		}
	}
}

func TestEqualFold(t *testing.T) {
	for _, c := range []struct {
		arg, word string
		want      bool
	}{
		{"EX", "EX", true},
		{"eX", "EX", true},
		{"ex", "eX", true},
		{"E", "EX", false},
		{"EXX", "EX", false},
		{"", "", true},
		{"[", "{", false}, // no letters, but they differ in the same bit as the cases of a letter
		{"\xc3", "\xe3", false},
	} {
		if got := EqualFold([]byte(c.arg), c.word); got != c.want {
			t.Errorf("EqualFold(%q, %q) = %v", c.arg, c.word, got)
		}
	}
}

func TestArgsDoNotAllocate(t *testing.T) {
	n, f, w := []byte("-9223372036854775808"), []byte("3.25"), []byte("withscores")
	if a := testing.AllocsPerRun(100, func() {
		ParseInt(n)
		ParseFloat(f)
		EqualFold(w, "WITHSCORES")
	}); a != 0 {
		t.Errorf("%v allocations", a)
	}
}

func FuzzParseInt(f *testing.F) {
	f.Add([]byte("-9223372036854775808"))
	f.Add([]byte("0"))
	f.Fuzz(func(t *testing.T, b []byte) {
		n, ok := ParseInt(b)
		if ok && strconv.FormatInt(n, 10) != string(b) {
			t.Fatalf("ParseInt(%q) = %d", b, n)
		}
		if m, err := strconv.ParseInt(string(b), 10, 64); !ok && err == nil && strconv.FormatInt(m, 10) == string(b) {
			t.Fatalf("ParseInt(%q) refused", b)
		}
		u, ok := ParseUint(b)
		if ok && strconv.FormatUint(u, 10) != string(b) {
			t.Fatalf("ParseUint(%q) = %d", b, u)
		}
	})
}
