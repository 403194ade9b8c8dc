package longdouble

import (
	"bufio"
	"math/big"
	"os"
	"strings"
	"testing"
)

func TestIncrByFloatAsRedis(t *testing.T) {
	f, err := os.Open("testdata/incrbyfloat.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	cases := 0
	for lines.Scan() {
		if strings.HasPrefix(lines.Text(), "#") {
			continue
		}
		cases++
		part := strings.Split(lines.Text(), "|")
		if got := incrByFloat(part[0], part[1]); got != part[2] {
			t.Errorf("%s + %s = %s, want %s", part[0], part[1], got, part[2])
		}
	}
	if err := lines.Err(); err != nil || cases < 70 {
		t.Fatalf("read %d cases: %v", cases, err)
	}
}

// incrByFloat is the command on the texts of the value and the increment.
func incrByFloat(value, by string) string {
	x, ok := Parse([]byte(value))
	y, ok2 := Parse([]byte(by))
	if !ok || !ok2 {
		return "ERR value is not a valid float"
	}
	sum, ok := Add(x, y)
	if !ok {
		return "ERR increment would produce NaN or Infinity"
	}
	return string(Append(nil, sum))
}

func TestParseRefuses(t *testing.T) {
	for _, s := range []string{
		"", " 1", "1 ", "\v1", "1\x00", "+", "-", "+-1", "..", "1.2.3", "e1", "0x1p", "0xp1",
		"infinit", "infx", "nan", "-nan", "NAN(1)", "1__0", "0o7", "0b1", "\xff", "inf\x00",
		strings.Repeat("0", MaxLen),
	} {
		if x, ok := Parse([]byte(s)); ok {
			t.Errorf("Parse(%.20q) = %v, want refused", s, x)
		}
	}
}

func TestParseInfinity(t *testing.T) {
	for s, want := range map[string]string{
		"inf": "inf", "INF": "inf", "+inf": "inf", "-inf": "-inf", "Infinity": "inf", "-INFINITY": "-inf",
	} {
		x, ok := Parse([]byte(s))
		if !ok || string(Append(nil, x)) != want {
			t.Errorf("Parse(%q) = %v, %v, want %s", s, x, ok, want)
		}
	}
}

// TestRoundingIsExact reads numbers both ways that Parse knows, its own and that of
// big.Rat.
func TestRoundingIsExact(t *testing.T) {
	for _, s := range []string{
		"0.1", "1e-40", "1e40", "12345678901234567890123456789012345678.5e-40", "9.999999999999999999999999e39",
		"0.000000000000000000000000000000000000000001", "18446744073709551617", "36893488147419103233",
		"1.5e-300", "123.456e-1000", "0.00001e4000", "1e27", "0.000000000000000000000000000000000000000000000000000001e50",
	} {
		x, ok := Parse([]byte(s))
		if !ok {
			t.Fatalf("Parse(%q) refused", s)
		}
		r, _ := new(big.Rat).SetString(s)
		want := new(big.Float).SetPrec(precision).SetRat(r)
		if x.Cmp(want) != 0 {
			t.Errorf("Parse(%q) = %s, want %s", s, x.Text('p', 0), want.Text('p', 0))
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"0", "-1.5", "0x1.8p-3", "inf", "1e4932", "1e-4950", ".", "1_0", "00000.1e+1"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		x, ok := Parse(b)
		if !ok {
			return
		}
		text := Append(nil, x)
		y, ok := Parse(text)
		if !ok && !strings.HasPrefix(string(text), "0.") {
			t.Fatalf("%q prints as %q, which Parse refuses", b, text)
		}
		if ok && string(Append(nil, y)) != string(text) && x.IsInt() {
			t.Fatalf("%q prints as %q, which prints as %q", b, text, Append(nil, y))
		}
	})
}

func BenchmarkIncrement(b *testing.B) {
	b.ReportAllocs()
	var dst []byte
	for b.Loop() {
		x, _ := Parse([]byte("10.5"))
		y, _ := Parse([]byte("0.1"))
		sum, _ := Add(x, y)
		dst = Append(dst[:0], sum)
	}
}
