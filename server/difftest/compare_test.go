package difftest

import (
	"bufio"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"
)

func parse(t *testing.T, raw string) reply {
	t.Helper()
	r, err := readReply(bufio.NewReader(strings.NewReader(raw)))
	if err != nil {
		t.Fatalf("%q: %v", raw, err)
	}
	if string(r.raw) != raw {
		t.Fatalf("%q is read as %q", raw, r.raw)
	}
	return r
}

// TestCompareReplies guards the guard: what must be told apart is.
func TestCompareReplies(t *testing.T) {
	for _, c := range []struct {
		command    string
		want, got  string
		mode       mode
		isSame     bool
		whatIsSeen string
	}{
		{"GET k", "$1\r\na\r\n", "$1\r\na\r\n", exact, true, "equal"},
		{"GET k", "$1\r\na\r\n", "$1\r\nb\r\n", exact, false, "text"},
		{"GET k", "$1\r\n1\r\n", ":1\r\n", exact, false, "type"},
		{"GET k", "$-1\r\n", "*-1\r\n", exact, false, "kind of null"},
		{"SMEMBERS k", "*2\r\n+a\r\n+b\r\n", "*2\r\n+b\r\n+a\r\n", set, true, "order"},
		{"SMEMBERS k", "*2\r\n+a\r\n+b\r\n", "*2\r\n+b\r\n+b\r\n", set, false, "elements"},
		{"SMEMBERS k", "*2\r\n+a\r\n+b\r\n", "~2\r\n+a\r\n+b\r\n", set, false, "type of the aggregate"},
		{"LRANGE k", "*2\r\n+a\r\n+b\r\n", "*2\r\n+b\r\n+a\r\n", exact, false, "order"},
		{"HGETALL k", "*4\r\n+a\r\n+1\r\n+b\r\n+2\r\n", "*4\r\n+b\r\n+2\r\n+a\r\n+1\r\n", pairs, true, "order of pairs"},
		{"HGETALL k", "*4\r\n+a\r\n+1\r\n+b\r\n+2\r\n", "*4\r\n+b\r\n+1\r\n+a\r\n+2\r\n", pairs, false, "values"},
		{"HGETALL k", "%2\r\n+a\r\n+1\r\n+b\r\n+2\r\n", "%2\r\n+b\r\n+2\r\n+a\r\n+1\r\n", pairs, true, "order of a map"},
		{"HSCAN k 0", "*2\r\n$1\r\n0\r\n*2\r\n+a\r\n+1\r\n", "*2\r\n$1\r\n0\r\n*2\r\n+a\r\n+2\r\n", scan, false, "elements"},
		{"HSCAN k 0", "*2\r\n$1\r\n0\r\n*2\r\n+a\r\n+1\r\n", "*2\r\n$2\r\n77\r\n*0\r\n", scan, true, "cursor"},
		{"HSCAN k 0", "-ERR x\r\n", "*2\r\n$1\r\n0\r\n*0\r\n", scan, false, "error"},
		{"SPOP k", "$1\r\na\r\n", "$2\r\nbb\r\n", shape, true, "content"},
		{"SPOP k", "*2\r\n+a\r\n+b\r\n", "*1\r\n+a\r\n", shape, false, "length"},
		{"SPOP k", "$1\r\na\r\n", "$-1\r\n", shape, false, "null"},
		{"SPOP k", "-ERR a\r\n", "-ERR b\r\n", shape, false, "error text"},
		{"TTL k", ":100\r\n", ":99\r\n", near, true, "a second"},
		{"TTL k", ":100\r\n", ":90\r\n", near, false, "ten seconds"},
		{"TTL k", ":1\r\n", ":-1\r\n", near, false, "no expiry"},
		{"PTTL k", ":100000\r\n", ":99000\r\n", near, true, "a second"},
		{"ZSCORE k m", "$19\r\n0.10000000000000001\r\n", "$3\r\n0.1\r\n", exact, true, "look of a double"},
		{"ZSCORE k m", "$3\r\n0.1\r\n", "$3\r\n.10\r\n", exact, false, "wrong look of a double"},
		{"ZSCORE k m", "$19\r\n0.10000000000000001\r\n", "$3\r\n0.2\r\n", exact, false, "double"},
		{"ZRANGE k 0 -1", "*2\r\n+a\r\n,0.10000000000000001\r\n", "*2\r\n+a\r\n,0.1\r\n", exact, true, "look of a double"},
	} {
		cmd := newCommand("here", strings.Fields(c.command)...)
		if cmd.mode != c.mode {
			t.Errorf("%s is compared by %q, want %q", c.command, cmd.mode, c.mode)
		}
		text := compareReplies(cmd, parse(t, c.want), parse(t, c.got), 0)
		if (text == "") != c.isSame {
			t.Errorf("%s, %s: %q against %q: %q", c.command, c.whatIsSeen, c.want, c.got, text)
		}
	}
}

// TestSlowRun: on a machine that is busy the two servers are asked for the time that is left at different times.
func TestSlowRun(t *testing.T) {
	for took, same := range map[time.Duration]bool{0: false, 7 * time.Second: false, 8 * time.Second: true} {
		for text, c := range map[string]command{":%d\r\n": newCommand("here", "TTL", "k"),
			":%d000\r\n": newCommand("here", "PTTL", "k")} {
			differs := compareReplies(c, parse(t, fmt.Sprintf(text, 100)), parse(t, fmt.Sprintf(text, 90)), took)
			if (differs == "") != same {
				t.Errorf("%s ten seconds apart after %v: %q", c, took, differs)
			}
		}
	}
}

func TestReadReplyRefuses(t *testing.T) {
	for _, raw := range []string{"", "x", "+\n", "$3\r\nab", "?1\r\n", "*2\r\n:1\r\n", "$x\r\n"} {
		if r, err := readReply(bufio.NewReader(strings.NewReader(raw))); err == nil {
			t.Errorf("%q is read as %q", raw, r.raw)
		}
	}
}

func TestCDouble(t *testing.T) {
	for f, want := range map[float64]string{
		0.1: "0.10000000000000001", 3: "3", 1e17: "1e+17", 1e16: "10000000000000000", 2.5e-5: "2.5000000000000001e-05",
		1e-4: "0.0001", math.Inf(1): "+Inf", 1e300: "1.0000000000000001e+300", 0: "0",
	} {
		if got := cDouble(f); got != want {
			t.Errorf("%v: %s, want %s", f, got, want)
		}
	}
}

// TestPermittedIsNarrow makes sure that each permitted difference says for which
// replies it is one and why.
func TestPermittedIsNarrow(t *testing.T) {
	for _, p := range permitted {
		if p.command == "" || p.redis == "" || p.basalt == "" || p.reason == "" {
			t.Errorf("%+v", p)
		}
	}
}
