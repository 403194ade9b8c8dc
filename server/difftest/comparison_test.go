package difftest

import (
	"bytes"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/basaltdb/basalt/server/resp"
)

// mode says what of two replies must be equal.
type mode string

const (
	exact mode = ""       // every byte
	set   mode = "~set"   // the elements, in any order
	pairs mode = "~pairs" // the pairs of elements, in any order
	scan  mode = "~scan"  // [cursor, elements]: the elements in any order if both cursors are 0
	shape mode = "~shape" // types and lengths
	kind  mode = "~type"  // the type
	near  mode = "~near"  // an integer in seconds or milliseconds, within two seconds and what the run has taken
	none  mode = "~none"  // there is no reply
)

// modes are the commands, upper case, whose replies have no defined order or
// content. A scan of ZSCAN and HSCAN is compared in pairs.
var modes = map[string]mode{
	"HGETALL":     pairs,
	"HKEYS":       set,
	"HVALS":       set,
	"SMEMBERS":    set,
	"SINTER":      set,
	"SUNION":      set,
	"SDIFF":       set,
	"KEYS":        set,
	"SCAN":        scan,
	"HSCAN":       scan,
	"SSCAN":       scan,
	"ZSCAN":       scan,
	"SPOP":        shape,
	"SRANDMEMBER": shape,
	"HRANDFIELD":  shape,
	"ZRANDMEMBER": shape,
	"RANDOMKEY":   shape,
	"TTL":         near,
	"PTTL":        near,
	"EXPIRETIME":  near,
	"PEXPIRETIME": near,
	"TIME":        shape,
	"LASTSAVE":    kind,
}

// command is one line of a table.
type command struct {
	where string // file:line, or what made the command
	mode  mode
	args  []string
}

func newCommand(where string, args ...string) command {
	c := command{where: where, args: args}
	if len(args) > 0 {
		c.mode = modes[strings.ToUpper(args[0])]
	}
	return c
}

func (c command) name() string {
	if len(c.args) == 0 {
		return ""
	}
	return strings.ToUpper(c.args[0])
}

func (c command) String() string {
	words := make([]string, len(c.args))
	for i, a := range c.args {
		words[i] = a
		if a == "" || strings.ContainsFunc(a, func(r rune) bool {
			return r <= ' ' || r > '~' || r == '"' ||
				r == '\'' || r == '\\'
		}) {
			words[i] = strconv.Quote(a)
		}
		if len(words[i]) > 200 {
			words[i] = words[i][:200] + "..."
		}
	}
	return strings.Join(words, " ")
}

// startsScan reports whether the command is a scan with the cursor 0.
func (c command) startsScan() bool {
	at := 2
	if c.name() == "SCAN" {
		at = 1
	}
	return len(c.args) > at && c.args[at] == "0"
}

// encode appends the command in the form clients send it.
func (c command) encode(dst []byte) []byte {
	dst = fmt.Appendf(dst, "*%d\r\n", len(c.args))
	for _, a := range c.args {
		dst = fmt.Appendf(dst, "$%d\r\n%s\r\n", len(a), a)
	}
	return dst
}

// compareReplies returns "" when got is as good as want, and what differs
// otherwise. took is how long it has taken to get all replies: so far may the
// remaining times of keys be apart.
func compareReplies(c command, want, got reply, took time.Duration) string {
	if bytes.Equal(want.raw, got.raw) {
		return ""
	}
	same := false
	switch c.mode {
	case set:
		want, got = want.sorted(1), got.sorted(1)
	case pairs:
		want, got = want.sorted(2), got.sorted(2)
	case scan:
		if len(want.elems) != 2 || len(got.elems) != 2 {
			break
		}
		if c.startsScan() && string(want.elems[0].text) == "0" && string(got.elems[0].text) == "0" {
			size := 1
			if c.name() == "HSCAN" || c.name() == "ZSCAN" {
				size = 2
			}
			want, got = want.elems[1].sorted(size), got.elems[1].sorted(size)
			break
		}
		// Any other cursor means something to the server that gave it only, and
		// Redis returns a small collection whole whatever the COUNT.
		same = want.elems[1].kind == got.elems[1].kind && got.elems[0].kind == '$'
	case shape:
		same = want.shape() == got.shape()
	case kind:
		same = want.kind == got.kind && want.null == got.null
	case near:
		a, errA := strconv.ParseInt(string(want.text), 10, 64)
		b, errB := strconv.ParseInt(string(got.text), 10, 64)
		slack := int64(2 + took.Seconds())
		if strings.HasPrefix(c.name(), "P") {
			slack = 2000 + took.Milliseconds()
		}
		same = want.kind == ':' && got.kind == ':' && errA == nil && errB == nil && a > 0 && b > 0 && max(a-b, b-a) <= slack
	}
	if same || equalDoubles(want, got) || permittedDifference(c, want, got) {
		return ""
	}
	return fmt.Sprintf("%s: %s\n\tredis:  %.400q\n\tbasalt: %.400q", c.where, c, want.raw, got.raw)
}

// equalDoubles reports whether the replies differ at most in the text of
// doubles: 17 digits in Redis 7.0, the shortest in Redis 7.2 and here.
func equalDoubles(want, got reply) bool {
	if bytes.Equal(want.raw, got.raw) {
		return true
	}
	if want.kind != got.kind || want.null != got.null || len(want.elems) != len(got.elems) {
		return false
	}
	if want.aggregate() {
		for i := range want.elems {
			if !equalDoubles(want.elems[i], got.elems[i]) {
				return false
			}
		}
		return true
	}
	if want.kind != '$' && want.kind != ',' {
		return false
	}
	a, errA := strconv.ParseFloat(string(want.text), 64)
	b, errB := strconv.ParseFloat(string(got.text), 64)
	return errA == nil && errB == nil && a == b && math.Signbit(a) == math.Signbit(b) &&
		string(want.text) == cDouble(a) && string(got.text) == string(resp.AppendDouble(nil, b))
}

// cDouble is what C prints for "%.17g".
func cDouble(f float64) string {
	s := strconv.FormatFloat(f, 'e', 16, 64)
	mantissa, exp, _ := strings.Cut(s, "e")
	n, err := strconv.Atoi(exp)
	if err != nil {
		return s // inf, nan
	}
	if n < -4 || n >= 17 {
		if strings.Contains(mantissa, ".") {
			mantissa = strings.TrimRight(strings.TrimRight(mantissa, "0"), ".")
		}
		return mantissa + "e" + exp
	}
	s = strconv.FormatFloat(f, 'f', 16-n, 64)
	if strings.Contains(s, ".") {
		s = strings.TrimRight(strings.TrimRight(s, "0"), ".")
	}
	return s
}
