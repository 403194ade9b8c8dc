package json

import (
	"bytes"
	"cmp"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/fxamacker/cbor/v2"

	"github.com/basaltdb/basalt/internal/require"
)

func parse(t testing.TB, s string) Value {
	t.Helper()
	v, err := Parse(s, 1000)
	if err != nil {
		t.Fatalf("%.100s: %v", s, err)
	}
	return v
}

func text(v *Value) string { return string(Append(nil, v)) }

// TestTexts: what is read is printed in one form, whether it was made a value or not.
func TestTexts(t *testing.T) {
	for in, want := range map[string]string{
		" null ":                          "null",
		"\t[ ]\r\n":                       "[]",
		"{ }":                             "{}",
		"[1 , 2,[ true ]]":                "[1,2,[true]]",
		`{"b":1,"a":{"c":false}}`:         `{"b":1,"a":{"c":false}}`,
		`{"a":1,"b":2,"a":3}`:             `{"a":3,"b":2}`,
		`{"a":1,"\u0061":{"x":1,"x":2}}`:  `{"a":{"x":2}}`,
		`"\u00e9\"\\\/\b\f\n\r\t\u0001"`:  `"é\"\\/\b\f\n\r\t\u0001"`,
		`"\ud83d\ude00 ü 日本"`:             `"😀 ü 日本"`,
		"\"\x7f\"":                        "\"\x7f\"",
		"0":                               "0",
		"-0":                              "-0.0",
		"-0.0":                            "-0.0",
		"1.0":                             "1.0",
		"1e2":                             "100.0",
		"1E+2":                            "100.0",
		"1.50":                            "1.5",
		"0.1":                             "0.1",
		"123456789.123":                   "123456789.123",
		"1e15":                            "1000000000000000.0",
		"1e16":                            "1e16",
		"1.5e300":                         "1.5e300",
		"0.00001":                         "0.00001",
		"0.000001":                        "1e-6",
		"-1.25e-7":                        "-1.25e-7",
		"5e-324":                          "5e-324",
		"1e-400":                          "0.0",
		"1.7976931348623157e308":          "1.7976931348623157e308",
		"9007199254740993":                "9007199254740993",
		"9223372036854775807":             "9223372036854775807",
		"-9223372036854775808":            "-9223372036854775808",
		"9223372036854775808":             "9223372036854775808",
		"18446744073709551615":            "18446744073709551615",
		"18446744073709551616":            "18446744073709551616",
		"-123456789012345678901234567890": "-123456789012345678901234567890",
	} {
		v := parse(t, in)
		if got := text(&v); got != want {
			t.Errorf("%s: %s, want %s", in, got, want)
		}
		got, err := Compact([]byte("before"), in, 100)
		if err != nil || string(got) != "before"+want {
			t.Errorf("compact %s: %s %v, want %s", in, got, err, want)
		}
	}
}

func TestTextErrors(t *testing.T) {
	for in, want := range map[string]string{
		"":                               "EOF while parsing a value at line 1 column 0",
		" \n ":                           "EOF while parsing a value at line 2 column 1",
		"{":                              "EOF while parsing an object at line 1 column 1",
		"[":                              "EOF while parsing a list at line 1 column 1",
		"[1":                             "EOF while parsing a list at line 1 column 2",
		`"abc`:                           "EOF while parsing a string at line 1 column 4",
		"nul":                            "EOF while parsing a value at line 1 column 3",
		"nulx":                           "expected ident at line 1 column 4",
		"x":                              "expected value at line 1 column 1",
		"[1 2]":                          "expected `,` or `]` at line 1 column 4",
		"[1,]":                           "trailing comma at line 1 column 4",
		`{"a":1,}`:                       "trailing comma at line 1 column 8",
		`{"a" 1}`:                        "expected `:` at line 1 column 6",
		`{"a":1 "b"`:                     "expected `,` or `}` at line 1 column 8",
		`{a:1}`:                          "key must be a string at line 1 column 2",
		"1 2":                            "trailing characters at line 1 column 3",
		"{}\n}":                          "trailing characters at line 2 column 1",
		"01":                             "invalid number at line 1 column 2",
		"1.":                             "EOF while parsing a value at line 1 column 2",
		"1.x":                            "invalid number at line 1 column 3",
		"-":                              "EOF while parsing a value at line 1 column 1",
		"-x":                             "invalid number at line 1 column 2",
		"1e":                             "EOF while parsing a value at line 1 column 2",
		"1e400":                          "number out of range at line 1 column 5",
		"NaN":                            "expected value at line 1 column 1",
		"\"a\nb\"":                       `control character (\u0000-\u001F) found while parsing a string at line 2 column 0`,
		`"\x"`:                           "invalid escape at line 1 column 3",
		`"\u12"`:                         "EOF while parsing a string at line 1 column 6",
		`"\u12zz"`:                       "invalid escape at line 1 column 7",
		`"\ud800"`:                       "unexpected end of hex escape at line 1 column 7",
		`"\ud800\u0041"`:                 "lone leading surrogate in hex escape at line 1 column 13",
		`"\udc00"`:                       "lone leading surrogate in hex escape at line 1 column 7",
		"\"\xff\"":                       "invalid unicode code point at line 1 column 2",
		"[[[[]]]]":                       "recursion limit exceeded at line 1 column 4",
		`{"a":{"b":[[]]}}`:               "recursion limit exceeded at line 1 column 12",
		strings.Repeat("9", maxDigits+1): "number out of range at line 1 column 4097",
	} {
		_, err := Parse(in, 3)
		if err == nil || err.Error() != want {
			t.Errorf("%.50q: %v, want %s", in, err, want)
		}
		dst, err := Compact([]byte("x"), in, 3)
		if err == nil || err.Error() != want || string(dst) != "x" {
			t.Errorf("compact %.50q: %v, %q, want %s", in, err, dst, want)
		}
	}
}

// generate makes a random value of at most so many levels.
func generate(g *rand.Rand, levels int) Value {
	letters := []string{"a", "b", "\"", "\\", "\n", "é", "😀", "\x00", " ", "long enough not to be short"}
	str := func() string {
		s := ""
		for range g.IntN(4) {
			s += letters[g.IntN(len(letters))]
		}
		return s
	}
	kinds := 9
	if levels <= 0 {
		kinds = 7
	}
	switch g.IntN(kinds) {
	case 0:
		return Value{}
	case 1:
		return BoolOf(g.IntN(2) == 0)
	case 2:
		return IntOf(int64(g.Uint64()) >> g.IntN(64))
	case 3:
		return Value{kind: Uint, num: g.Uint64() | 1<<63}
	case 4:
		n := new(big.Int).Lsh(big.NewInt(int64(g.Uint64())|1<<62), uint(g.IntN(200)+2))
		return integerOf(n)
	case 5:
		for {
			f := math.Float64frombits(g.Uint64())
			f = []float64{f, float64(float32(f)), float64(g.IntN(100)) / 4}[g.IntN(3)]
			if !math.IsNaN(f) && !math.IsInf(f, 0) {
				return floatOf(f)
			}
		}
	case 6:
		return StringOf(str())
	case 7:
		v := ArrayOf()
		for range g.IntN(5) {
			v.box.vals = append(v.box.vals, generate(g, levels-1))
		}
		return v
	}
	v := newObject()
	for range g.IntN(5) * (1 + g.IntN(10)) {
		v.box.set(str(), generate(g, levels-1))
	}
	return v
}

// TestRoundTrip: every value survives both formats, the order of members included; white space and indentation do not
// matter; and another library reads our CBOR as the same and we read its.
func TestRoundTrip(t *testing.T) {
	g := rand.New(rand.NewPCG(1, 2))
	ours, err := cbor.EncOptions{ShortestFloat: cbor.ShortestFloat16}.EncMode()
	require.NoError(t, err)
	for i := range 3000 {
		v := generate(g, 5)
		s := text(&v)
		back := parse(t, s)
		if got := text(&back); got != s || !back.Equal(&v) {
			t.Fatalf("%d: %s became %s", i, s, got)
		}
		w := Printer{Format: Format{Indent: "\t", Newline: "\n", Space: " "}}
		w.Value(&v)
		pretty := parse(t, string(w.Dst))
		if text(&pretty) != s {
			t.Fatalf("%d: %s became %s", i, s, w.Dst)
		}
		if got, err := Compact(nil, string(w.Dst), 100); err != nil || string(got) != s {
			t.Fatalf("%d: %s became %s, %v", i, w.Dst, got, err)
		}
		enc := AppendCBOR(nil, &v)
		if back, err = ParseCBOR(string(enc), 100); err != nil || text(&back) != s {
			t.Fatalf("%d: %s became %s, %v", i, s, text(&back), err)
		}
		clone := v.Clone()
		if !clone.Equal(&v) || text(&clone) != s {
			t.Fatalf("%d: the clone of %s is %s", i, s, text(&clone))
		}

		var any any
		if err := cbor.Unmarshal(enc, &any); err != nil {
			t.Fatalf("%d: %s as CBOR: %v", i, s, err)
		}
		other, err := ours.Marshal(any)
		require.NoError(t, err)
		back, err = ParseCBOR(string(other), 100)
		if err != nil || !back.Equal(&v) {
			t.Fatalf("%d: %s came back from the other library as %s, %v", i, s, text(&back), err)
		}
	}
}

// TestCBOR has encodings from appendix A of RFC 8949, and what Kvrocks writes.
func TestCBOR(t *testing.T) {
	for hex, want := range map[string]string{
		"\x00": "0", "\x17": "23", "\x18\x18": "24", "\x19\x03\xe8": "1000", "\x1a\x00\x0f\x42\x40": "1000000",
		"\x1b\x00\x00\x00\xe8\xd4\xa5\x10\x00":         "1000000000000",
		"\x1b\xff\xff\xff\xff\xff\xff\xff\xff":         "18446744073709551615",
		"\xc2\x49\x01\x00\x00\x00\x00\x00\x00\x00\x00": "18446744073709551616",
		"\x3b\xff\xff\xff\xff\xff\xff\xff\xff":         "-18446744073709551616",
		"\xc3\x49\x01\x00\x00\x00\x00\x00\x00\x00\x00": "-18446744073709551617", "\x20": "-1", "\x39\x03\xe7": "-1000",
		"\xc2\x41\x05": "5", "\xc3\x40": "-1", "\xf9\x00\x00": "0.0", "\xf9\x80\x00": "-0.0", "\xf9\x3c\x00": "1.0",
		"\xfb\x3f\xf1\x99\x99\x99\x99\x99\x9a": "1.1", "\xf9\x7b\xff": "65504.0", "\xfa\x47\xc3\x50\x00": "100000.0",
		"\xf9\x00\x01": "5.960464477539063e-8", "\xf9\xc4\x00": "-4.0", "\xf9\x7c\x00": "null",
		"\xfb\x7f\xf8\x00\x00\x00\x00\x00\x00": "null", "\xf4": "false", "\xf5": "true", "\xf6": "null", "\xf7": "null",
		"\xc1\x1a\x51\x4b\x67\xb0": "1363896240", "\x44\x01\x02\x03\x04": `"AQIDBA"`, "\x60": `""`,
		"\x62\xc3\xbc": "\"\xc3\xbc\"", "\x62\x22\x5c": `"\"\\"`, "\x80": "[]",
		"\x83\x01\x82\x02\x03\x82\x04\x05": "[1,[2,3],[4,5]]", "\xa0": "{}",
		"\xa2\x61a\x01\x61b\x82\x02\x03": `{"a":1,"b":[2,3]}`, "\x5f\x42\x01\x02\x43\x03\x04\x05\xff": `"AQIDBAU"`,
		"\x7f\x65strea\x64ming\xff": `"streaming"`, "\x9f\xff": "[]",
		"\x9f\x01\x82\x02\x03\x9f\x04\x05\xff\xff": "[1,[2,3],[4,5]]",
		"\xbf\x61a\x01\x61b\x9f\x02\x03\xff\xff":   `{"a":1,"b":[2,3]}`,
		"\xa2\x61a\x01\x61a\x02":                   `{"a":2}`,
	} {
		v, err := ParseCBOR(hex, 10)
		if err != nil || text(&v) != want {
			t.Errorf("%x: %s %v, want %s", hex, text(&v), err, want)
		}
	}
	for _, bad := range []string{"", "\x18", "\x1c", "\x61", "\x62a", "\x81", "\x9f", "\x9f\x01", "\xa1\x01\x02",
		"\xa1\x61a", "\xbf\x61a", "\xbf\x61a\xff", "\xff", "\x00\x00",
		"\x5f\x61a\xff", "\x5f\x5f\xff\xff", "\x7f\x61", "\x62\xff\xff", "\xe0", "\xf8\x20", "\xc2\x01", "\xc2", "\xc0",
		"\x1f", "\x3f", "\xdf\x00", "\xfc", "\x9b\xff\xff\xff\xff\xff\xff\xff\xff", "\xbb\x7f\xff\xff\xff\xff\xff\xff\xff",
		"\x7b\xff\xff\xff\xff\xff\xff\xff\xff",
		strings.Repeat("\x81", 11) + "\x80", strings.Repeat("\xc1", 11) + "\x01", "\xc2\x59\xff\xff" +
			strings.Repeat("\x01", 0xffff)} {
		if v, err := ParseCBOR(bad, 10); err == nil {
			t.Errorf("%.40x is %s", bad, text(&v))
		}
	}
	for doc, want := range map[string]string{
		`{"b":[1,2.5,"x"],"a":null,"f":1.1}`: "\xa3" +
			"\x61b\x83\x01\xfa\x40\x20\x00\x00\x61x\x61a\xf6\x61f\xfb\x3f\xf1\x99\x99\x99\x99\x99\x9a",
		"-18446744073709551617": "\xc3\x49\x01\x00\x00\x00\x00\x00\x00\x00\x00",
	} {
		v := parse(t, doc)
		if got := string(AppendCBOR(nil, &v)); got != want {
			t.Errorf("%s: %x, want %x", doc, got, want)
		}
	}
}

// TestCBORMemory: a nest of arrays that each claim many elements takes no more memory than it has bytes.
func TestCBORMemory(t *testing.T) {
	claim := strings.Repeat("\x9a\x00\x00\x80\x00", 6000) + strings.Repeat("\x00", 1<<16)
	if n := testing.AllocsPerRun(1, func() {
		if _, err := ParseCBOR(claim, MaxDepth); err == nil {
			t.Error("it is a document")
		}
	}); n > 20_000 {
		t.Errorf("%v allocations", n)
	}
}

func TestArithmetic(t *testing.T) {
	for _, c := range []struct {
		op         Operation
		a, b, want string
	}{
		{Add, "1", "2", "3"}, {Add, "1", "2.0", "3.0"}, {Add, "5.0", "2", "7.0"}, {Add, "0.1", "0.2", "0.30000000000000004"},
		{Add, "9223372036854775807", "1", "9223372036854775808"}, {Add, "-9223372036854775808", "-1",
			"-9.223372036854776e18"},
		{Add, "18446744073709551615", "1", "1.8446744073709552e19"}, {Add, "18446744073709551615", "-1",
			"18446744073709551614"},
		{Add, "9223372036854775808", "-9223372036854775808", "0"}, {Add, "-5", "-7", "-12"}, {Add, "5", "0", "5"},
		{Multiply, "3", "-4", "-12"}, {Multiply, "3", "0.5", "1.5"}, {Multiply, "4294967296", "4294967296",
			"1.8446744073709552e19"},
		{Multiply, "9223372036854775807", "2", "18446744073709551614"}, {Multiply, "-1", "9223372036854775808",
			"-9223372036854775808"},
		{Multiply, "123456789012345678901234567890", "0", "0"}, {Multiply, "1e308", "10", ""}, {Add, "1.7e308",
			"1.7e308", ""},
		{Multiply, strings.Repeat("9", 400), "2", ""},
	} {
		a, b := parse(t, c.a), parse(t, c.b)
		got := ""
		if v, ok := c.op.apply(&a, &b); ok {
			got = text(&v)
		}
		if got != c.want {
			t.Errorf("%.30s, %s: %s, want %s", c.a, c.b, got, c.want)
		}
	}
}

func TestCompareNumbers(t *testing.T) {
	// In ascending order.
	numbers := []string{"-1e300", "-" + strings.Repeat("9", 40), "-18446744073709551616", "-9223372036854775809",
		"-9223372036854775808", "-1.5", "-1", "-0.5", "0", "0.5", "1",
		"9007199254740992", "9007199254740993", "9007199254740994.0", "9223372036854775807", "9223372036854775808",
		"18446744073709551615", "18446744073709551616",
		strings.Repeat("9", 40), "1e300", strings.Repeat("9", 310), strings.Repeat("9", 311)}
	for i, a := range numbers {
		for j, b := range numbers {
			x, y := parse(t, a), parse(t, b)
			if got, want := compareNumbers(&x, &y), cmp.Compare(int64(i), int64(j)); got != want {
				t.Errorf("%.30s and %.30s: %d, want %d", a, b, got, want)
			}
			if x.Equal(&y) != (i == j) {
				t.Errorf("%.30s and %.30s are equal: %v", a, b, i != j)
			}
		}
	}
	for _, same := range [][2]string{{"1", "1.0"}, {"0", "-0.0"}, {"9223372036854775808", "9223372036854775808.0"},
		{"1000000000000000000000", "1e21"}} {
		x, y := parse(t, same[0]), parse(t, same[1])
		if compareNumbers(&x, &y) != 0 || !equal(&x, &y, true) || x.Equal(&y) {
			t.Errorf("%v", same)
		}
	}
}

func TestPrinterLimit(t *testing.T) {
	v := parse(t, "["+strings.Repeat(`"0123456789",`, 1000)+"1]")
	for _, w := range []Printer{{Limit: 100}, {Limit: 100, Format: Format{Indent: strings.Repeat("x", 1000)}}} {
		w.Value(&v)
		if !w.Full() || len(w.Dst) > 3000 {
			t.Errorf("%d bytes", len(w.Dst))
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{`{"a":[1,-2.5e3,"x\u00e9\n",true,false,null],"a":{}}`, "[[[[[]]]]]",
		"12345678901234567890", `"\ud83d\ude00"`, "[1,]", "-0"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		v, err := Parse(s, 20)
		compact, cerr := Compact(nil, s, 20)
		if (err == nil) != (cerr == nil) || err != nil && err.Error() != cerr.Error() {
			t.Fatalf("parsing: %v, compacting: %v", err, cerr)
		}
		if err != nil {
			return
		}
		if got := text(&v); got != string(compact) {
			t.Fatalf("%s and %s", got, compact)
		}
		again := parse(t, string(compact))
		if !again.Equal(&v) || depth(&v, 20) > 20 {
			t.Fatalf("%s changed", compact)
		}
		enc := AppendCBOR(nil, &v)
		back, err := ParseCBOR(string(enc), 20)
		if err != nil || text(&back) != string(compact) {
			t.Fatalf("%s as CBOR is %s, %v", compact, text(&back), err)
		}
	})
}

func FuzzCBOR(f *testing.F) {
	for _, s := range []string{"\xa2\x61a\x01\x61b\x82\x02\x03", "\x9f\x01\xff", "\x7f\x61a\x61b\xff",
		"\xc2\x49\x01\x00\x00\x00\x00\x00\x00\x00\x00", "\xf9\x3c\x00", "\xbf\x61a\xf6\xff"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		v, err := ParseCBOR(string(b), 20)
		if err != nil {
			return
		}
		enc := AppendCBOR(nil, &v)
		again, err := ParseCBOR(string(enc), 20)
		if err != nil || !again.Equal(&v) || !bytes.Equal(AppendCBOR(nil, &again), enc) {
			t.Fatalf("%x became %x: %v", b, enc, err)
		}
		if s := text(&v); !slices.Equal([]byte(s), Append(nil, &again)) {
			t.Fatalf("%s became %s", s, text(&again))
		}
	})
}

// TestManyNames: repetitions are found among few and many names, in nested objects too.
func TestManyNames(t *testing.T) {
	for _, n := range []int{1, 23, 24, 25, 63, 64, 65, 66, 500} {
		var members []string
		for i := range n {
			members = append(members, `"`+strings.Repeat("n", i+1)+`":{"n":0}`)
		}
		once := "{" + strings.Join(members, ",") + "}"
		twice := "{" + strings.Join(members, ",") + `, "n":[]}`
		for in, want := range map[string]string{once: once, twice: strings.Replace(once, `"n":{"n":0}`, `"n":[]`, 1)} {
			v := parse(t, in)
			got, err := Compact(nil, in, 10)
			if err != nil || string(got) != want || text(&v) != want {
				t.Errorf("%d names: %.80s and %.80s, want %.80s", n, got, text(&v), want)
			}
			if i := v.box.find(strings.Repeat("n", n)); i != n-1 || v.box.find("x") != -1 || v.Len() != n {
				t.Errorf("%d names: the last is member %d of %d", n, i, v.Len())
			}
		}
	}
}
