package resp

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	tidwall "github.com/tidwall/resp"
)

// run decodes the whole of in, of which the first call sees first bytes and each
// further one step bytes more. The buffer moves between calls, as one that grows
// does. It returns the commands, skipped ones included, and the error's text.
func run(d *Decoder, in []byte, first, step int) (commands [][]string, text string) {
	have := min(first, len(in))
	start := 0
	for {
		buf := bytes.Clone(in[start:have])
		args, n, err := d.Next(buf, nil)
		switch {
		case err != nil:
			if _, ok := errors.AsType[*ProtocolError](err); !ok {
				return commands, fmt.Sprintf("%T is not a *ProtocolError", err)
			}
			return commands, err.Error()
		case n > 0:
			var words []string
			for _, a := range args {
				words = append(words, string(a))
			}
			commands = append(commands, words)
			start += n
		case have == len(in):
			return commands, ""
		default:
			have = min(have+step, len(in))
		}
	}
}

func TestDecoder(t *testing.T) {
	long := strings.Repeat("x", DefaultMaxInline)
	for _, c := range []struct {
		name   string
		in     string
		limits Limits
		want   [][]string
		err    string
	}{
		{name: "nothing"},
		{name: "one command", in: "*2\r\n$3\r\nGET\r\n$1\r\nk\r\n", want: [][]string{{"GET", "k"}}},
		{name: "empty argument", in: "*2\r\n$4\r\nECHO\r\n$0\r\n\r\n", want: [][]string{{"ECHO", ""}}},
		{name: "binary argument", in: "*1\r\n$5\r\n\r\n\x00$*\r\n", want: [][]string{{"\r\n\x00$*"}}},
		{name: "pipeline", in: "*1\r\n$4\r\nPING\r\nPING\r\n*1\r\n$4\r\nQUIT\r\n",
			want: [][]string{{"PING"}, {"PING"}, {"QUIT"}}},
		{name: "nothing in the array", in: "*0\r\n*-1\r\n*-9223372036854775808\r\nPING\n",
			want: [][]string{nil, nil, nil, {"PING"}}},
		{name: "empty lines", in: "\r\n\n  \t\r\nPING\r\n", want: [][]string{nil, nil, nil, {"PING"}}},
		{name: "incomplete count", in: "*3\r"},
		{name: "incomplete bulk", in: "PING\n*1\r\n$4\r\nPING\r", want: [][]string{{"PING"}}},

		{name: "inline", in: "SET  key\tvalue\r\n", want: [][]string{{"SET", "key", "value"}}},
		{name: "inline, double quotes", in: `ECHO "a b\x41\xzz\n\r\t\b\a\"\\\q"` + "\r\n",
			want: [][]string{{"ECHO", "a bAxzz\n\r\t\b\a\"\\q"}}},
		{name: "inline, single quotes", in: `ECHO 'a "b\n\'' ''` + "\n", want: [][]string{{"ECHO", `a "b\n'`, ""}}},
		{name: "inline, quote inside of a word", in: `ECHO a"b c" d'e f'` + "\n", want: [][]string{{"ECHO", "ab c", "de f"}}},
		{name: "inline, vertical tab", in: "\v\fECHO a\vb\r\n", want: [][]string{{"ECHO", "a\vb"}}},
		{name: "inline, longest", in: long + "\r\n", want: [][]string{{long}}},
		{name: "inline, bare CR", in: "a\rb\r\r\n", want: [][]string{{"a", "b"}}},
		{name: "inline, dollar", in: "$3\r\n", want: [][]string{{"$3"}}},

		{name: "double quote not closed", in: "ECHO \"a\r\n", err: "Protocol error: unbalanced quotes in request"},
		{name: "single quote not closed", in: "ECHO 'a\r\n", err: "Protocol error: unbalanced quotes in request"},
		{name: "word after a quote", in: "ECHO \"a\"b\r\n", err: "Protocol error: unbalanced quotes in request"},
		{name: "backslash last", in: "ECHO \"a\\\n", err: "Protocol error: unbalanced quotes in request"},
		{name: "inline too big", in: long + "x\n", err: "Protocol error: too big inline request"},
		{name: "inline too big, no line end", in: long + "xx", err: "Protocol error: too big inline request"},
		{name: "inline limit", in: "12345\r\n123456\r\n", limits: Limits{MaxInline: 5}, want: [][]string{{"12345"}},
			err: "Protocol error: too big inline request"},

		{name: "count is no number", in: "*x\r\n", err: "Protocol error: invalid multibulk length"},
		{name: "count is missing", in: "*\r\n", err: "Protocol error: invalid multibulk length"},
		{name: "count with plus", in: "*+1\r\n", err: "Protocol error: invalid multibulk length"},
		{name: "count with zero", in: "*01\r\n", err: "Protocol error: invalid multibulk length"},
		{name: "count is minus zero", in: "*-0\r\n", err: "Protocol error: invalid multibulk length"},
		{name: "count out of range", in: "*-9223372036854775809\r\n", err: "Protocol error: invalid multibulk length"},
		{name: "count above int64", in: "*9223372036854775808\r\n", err: "Protocol error: invalid multibulk length"},
		{name: "count above the limit", in: "*1048577\r\n", err: "Protocol error: invalid multibulk length"},
		{name: "count above a limit", in: "*4\r\n", limits: Limits{MaxArgs: 3},
			err: "Protocol error: invalid multibulk length"},
		{name: "count with bare LF", in: "*1\n$4\r\nPING\r\n", err: "Protocol error: invalid multibulk length"},
		{name: "count with bare CR", in: "*1\r$4\r\nPING\r\n", err: "Protocol error: invalid multibulk length"},
		{name: "count line too big", in: "*" + long, err: "Protocol error: too big mbulk count string"},
		{name: "count line too big, ended", in: "*" + long + "\r\n", err: "Protocol error: too big mbulk count string"},
		{name: "count before AUTH", in: "*10\r\n*11\r\n", limits: Limits{Unauthenticated: true},
			err: "Protocol error: expected '$', got '*'"},
		{name: "count before AUTH too big", in: "*11\r\n", limits: Limits{Unauthenticated: true},
			err: "Protocol error: unauthenticated multibulk length"},
		{name: "count before AUTH above all limits", in: "*1048577\r\n", limits: Limits{Unauthenticated: true},
			err: "Protocol error: invalid multibulk length"},

		{name: "no bulk", in: "*1\r\nPING\r\n", err: "Protocol error: expected '$', got 'P'"},
		{name: "no bulk, second argument", in: "*2\r\n$4\r\nPING\r\n:1\r\n", err: "Protocol error: expected '$', got ':'"},
		{name: "no bulk, high byte", in: "*1\r\n\xff", err: "Protocol error: expected '$', got '\xff'"},
		{name: "bulk is no number", in: "*1\r\n$x\r\n", err: "Protocol error: invalid bulk length"},
		{name: "bulk is missing", in: "*1\r\n$\r\n", err: "Protocol error: invalid bulk length"},
		{name: "bulk with zero", in: "*1\r\n$01\r\nx\r\n", err: "Protocol error: invalid bulk length"},
		{name: "bulk is negative", in: "*1\r\n$-1\r\n", err: "Protocol error: invalid bulk length"},
		{name: "bulk above the limit", in: "*1\r\n$536870913\r\n", err: "Protocol error: invalid bulk length"},
		{name: "bulk above a limit", in: "*1\r\n$2\r\nab\r\n*1\r\n$3\r\nabc\r\n", limits: Limits{MaxBulk: 2},
			want: [][]string{{"ab"}}, err: "Protocol error: invalid bulk length"},
		{name: "bulk length overflows", in: "*1\r\n$9223372036854775807\r\n", err: "Protocol error: invalid bulk length"},
		{name: "bulk with bare LF", in: "*1\r\n$4\nPING\r\n", err: "Protocol error: invalid bulk length"},
		{name: "bulk line too big", in: "*1\r\n$" + long, err: "Protocol error: too big bulk count string"},
		{name: "bulk before AUTH", in: "*1\r\n$16384\r\n" + long[:16384] + "\r\n*1\r\n$16385\r\n",
			limits: Limits{Unauthenticated: true}, want: [][]string{{long[:16384]}},
			err: "Protocol error: unauthenticated bulk length"},
		{name: "bulk before AUTH above all limits", in: "*1\r\n$536870913\r\n", limits: Limits{Unauthenticated: true},
			err: "Protocol error: invalid bulk length"},
		{name: "bulk too long", in: "*1\r\n$3\r\nPING\r\n", err: "Protocol error: expected CRLF after bulk"},
		{name: "bulk ends with LF LF", in: "*1\r\n$4\r\nPING\n\n", err: "Protocol error: expected CRLF after bulk"},
		{name: "bulk ends with CR CR", in: "*1\r\n$4\r\nPING\r\r", err: "Protocol error: expected CRLF after bulk"},
	} {
		t.Run(c.name, func(t *testing.T) {
			steps := [][2]int{{len(c.in), 1}, {0, 1}, {0, 7}, {len(c.in) / 2, 1}}
			if len(c.in) < 100 {
				for i := range c.in {
					steps = append(steps, [2]int{i, len(c.in)})
				}
			} else {
				steps[1], steps[3] = [2]int{0, 1001}, [2]int{len(c.in) - 5, 1}
				steps[2] = [2]int{5, 20000}
			}
			for _, s := range steps {
				got, text := run(&Decoder{Limits: c.limits}, []byte(c.in), s[0], s[1])
				if text != c.err || !slices.EqualFunc(got, c.want, slices.Equal[[]string]) {
					t.Fatalf("first %d, then by %d bytes: %.200q, error %q, want %.200q, error %q", s[0], s[1], got,
						text, c.want, c.err)
				}
			}
		})
	}
}

func TestDecoderAppends(t *testing.T) {
	var d Decoder
	buf := []byte("*1\r\n$1\r\na\r\n*2\r\n$1\r\nb\r\n$1\r\nc\r\n")
	args, n, err := d.Next(buf, [][]byte{[]byte("before")})
	if err != nil || n != 11 {
		t.Fatal(n, err)
	}
	args, _, err = d.Next(buf[n:], args)
	if err != nil || string(bytes.Join(args, []byte(" "))) != "before a b c" {
		t.Fatalf("%q, %v", args, err)
	}
	if cap(args[1]) != 1 {
		t.Error("appending to an argument would overwrite what follows it")
	}
}

func TestDecoderNeed(t *testing.T) {
	var d Decoder
	for _, c := range []struct {
		in   string
		need int
	}{
		{"", 1},
		{"*2\r\n", 1},
		{"*2\r\n$10\r\n", 12},
		{"*2\r\n$10\r\nabc", 9},
		{"*2\r\n$10\r\nabcdefghij\r", 1},
		{"*2\r\n$10\r\nabcdefghij\r\n$536870912\r\n", 536870914},
	} {
		if _, n, err := d.Next([]byte(c.in), nil); n != 0 || err != nil || d.Need() != c.need {
			t.Errorf("%q: n %d, %v, need %d, want %d", c.in, n, err, d.Need(), c.need)
		}
	}
	d.Reset()
	if args, n, err := d.Next([]byte("PING\r\n"), nil); n != 6 || len(args) != 1 || err != nil {
		t.Errorf("after Reset: %q, %d, %v", args, n, err)
	}
}

// TestDecoderIsLinear feeds a million arguments in small pieces. Reading from the
// start each time would look at 10^11 bytes.
func TestDecoderIsLinear(t *testing.T) {
	const count = 1 << 20
	in := []byte(fmt.Sprintf("*%d\r\n", count) + strings.Repeat("$1\r\nx\r\n", count))
	var d Decoder
	calls := 0
	for have := 0; ; have = min(have+64, len(in)) {
		args, n, err := d.Next(in[:have], nil)
		calls++
		if err != nil {
			t.Fatal(err)
		}
		if n > 0 {
			if n != len(in) || len(args) != count || string(args[count-1]) != "x" {
				t.Fatalf("n %d of %d, %d arguments", n, len(in), len(args))
			}
			break
		}
	}
	if calls < len(in)/64 {
		t.Errorf("complete after %d calls", calls)
	}
	if cap(d.spans) > 1024 {
		t.Errorf("%d spans stay allocated", cap(d.spans))
	}
}

func TestDecoderAnnouncedSizeIsNotAllocated(t *testing.T) {
	header := []byte("*1048576\r\n$536870912\r\n")
	if bytes := testing.Benchmark(func(b *testing.B) {
		for b.Loop() {
			var d Decoder
			if _, n, err := d.Next(header, nil); n != 0 || err != nil {
				b.Fatal(n, err)
			}
		}
	}).AllocedBytesPerOp(); bytes > 1024 {
		t.Errorf("%d bytes allocated", bytes)
	}
}

func TestDecoderDoesNotAllocate(t *testing.T) {
	in := []byte("*3\r\n$3\r\nSET\r\n$16\r\nkey:000000012345\r\n$5\r\nvalue\r\n")
	inline := []byte("SET key:000000012345 value\r\n")
	args := make([][]byte, 0, 8)
	var d Decoder
	if a := testing.AllocsPerRun(100, func() {
		d.Next(in, args)
		d.Next(inline, args)
		d.Next(in[:20], args)
		d.Next(in[:30], args)
		d.Next(in, args)
	}); a != 0 {
		t.Errorf("%v allocations", a)
	}
}

// TestDecoderAgainstOracle compares random well-formed streams with what an
// independent reader makes of them.
func TestDecoderAgainstOracle(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	var in []byte
	for range 2000 {
		count := 1 + rng.IntN(6)
		in = fmt.Appendf(in, "*%d\r\n", count)
		for range count {
			arg := make([]byte, rng.IntN(1<<rng.IntN(10)))
			for i := range arg {
				arg[i] = "\r\n$*\x00ab"[rng.IntN(7)]
			}
			in = fmt.Appendf(in, "$%d\r\n%s\r\n", len(arg), arg)
		}
	}
	var want [][]string
	reader := tidwall.NewReader(bytes.NewReader(in))
	for {
		v, _, _, err := reader.ReadMultiBulk()
		if err != nil {
			break
		}
		var words []string
		for _, a := range v.Array() {
			words = append(words, string(a.Bytes()))
		}
		want = append(want, words)
	}
	if len(want) != 2000 {
		t.Fatalf("the oracle reads %d commands", len(want))
	}
	for _, step := range []int{13, 100, 4096, len(in)} {
		got, text := run(&Decoder{}, in, step, step)
		if text != "" || !slices.EqualFunc(got, want, slices.Equal[[]string]) {
			t.Errorf("by %d bytes: %d commands, error %q", step, len(got), text)
		}
	}
}

func FuzzDecoder(f *testing.F) {
	for _, s := range []string{
		"*2\r\n$3\r\nGET\r\n$1\r\nk\r\n", "PING\r\n*1\r\n$4\r\nPING\r\n", "*0\r\n*-1\r\n", "ECHO \"\\x41\\n\" 'a\\''\n",
		"*1\r\n$3\r\nabcd\r\n", "*11\r\n", "*1\r\n$100\r\n", "*x\r\n", "\"\r\n", "*1\n",
	} {
		f.Add([]byte(s), uint8(1), false)
	}
	f.Fuzz(func(t *testing.T, in []byte, step uint8, unauth bool) {
		limits := Limits{MaxArgs: 12, MaxBulk: 20000, MaxInline: 40, Unauthenticated: unauth}
		want, wantText := run(&Decoder{Limits: limits}, in, len(in), 1)
		got, text := run(&Decoder{Limits: limits}, in, 0, int(step)+1)
		if text != wantText || !slices.EqualFunc(got, want, slices.Equal[[]string]) {
			t.Fatalf("by %d bytes: %q, error %q, at once: %q, error %q", int(step)+1, got, text, want, wantText)
		}
		for _, words := range got {
			if len(words) > 12 && !slices.ContainsFunc(words, func(w string) bool { return len(w) <= 40 }) {
				t.Fatalf("limits exceeded: %q", words)
			}
		}
	})
}

func BenchmarkDecoder(b *testing.B) {
	for _, size := range []int{16, 4096} {
		b.Run(fmt.Sprintf("SET/%d", size), func(b *testing.B) {
			in := fmt.Appendf(nil, "*3\r\n$3\r\nSET\r\n$16\r\nkey:000000012345\r\n$%d\r\n%s\r\n", size,
				strings.Repeat("v", size))
			args := make([][]byte, 0, 8)
			var d Decoder
			b.ReportAllocs()
			b.SetBytes(int64(len(in)))
			for b.Loop() {
				if _, n, _ := d.Next(in, args); n != len(in) {
					b.Fatal(n)
				}
			}
		})
	}
}
