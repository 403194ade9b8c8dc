package command

import (
	"math"
	"strconv"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
)

// ParseInt reads a signed decimal integer as Redis does: digits with an optional minus in front, no plus, no blanks,
// no leading zeros, no "-0". The whole range of int64 is accepted; ok is false for anything else.
func ParseInt(b []byte) (n int64, ok bool) {
	negative := len(b) > 0 && b[0] == '-'
	if negative {
		b = b[1:]
	}
	u, ok := parseDigits(b)
	switch {
	case !ok || negative && u == 0:
		return 0, false
	case negative:
		if u > 1<<63 {
			return 0, false
		}
		return -int64(u), true // -1<<63 negates to itself
	case u > math.MaxInt64:
		return 0, false
	}
	return int64(u), true
}

// ParseUint reads an unsigned decimal integer by the rules of ParseInt, up to the largest uint64.
func ParseUint(b []byte) (n uint64, ok bool) { return parseDigits(b) }

// parseDigits wants 1 to 20 digits; only "0" itself may start with 0.
func parseDigits(b []byte) (u uint64, ok bool) {
	if len(b) == 0 || len(b) > 20 || b[0] == '0' && len(b) > 1 {
		return 0, false
	}
	for _, c := range b {
		d := uint64(c - '0')
		if d > 9 || u > math.MaxUint64/10 {
			return 0, false
		}
		u *= 10
		if u > math.MaxUint64-d {
			return 0, false
		}
		u += d
	}
	return u, true
}

// ParseFloat reads a double as Redis does, with the grammar of C's strtod: decimal or hexadecimal (0x1.8p3, the
// exponent may be missing) with an optional sign, or inf or infinity in any case. Blanks, NaN, numbers too large for
// a double and numbers so small that they would become zero are refused.
func ParseFloat(b []byte) (f float64, ok bool) {
	rest := b
	if len(rest) > 0 && (rest[0] == '-' || rest[0] == '+') {
		rest = rest[1:]
	}
	if len(rest) == 0 {
		return 0, false
	}
	hex := len(rest) > 2 && rest[0] == '0' && rest[1]|0x20 == 'x'
	zero, exponent := true, false
	for i, c := range rest {
		switch {
		case c == '_':
			return 0, false // strconv takes it between hexadecimal digits
		case hex && c|0x20 == 'p', !hex && c|0x20 == 'e':
			exponent = true
		case exponent || c == '0' || hex && i == 1:
		case c != '.':
			zero = false
		}
	}
	var err error
	if hex && !exponent {
		// strconv wants an exponent; strtod does not.
		f, err = strconv.ParseFloat(string(b)+"p0", 64)
	} else {
		f, err = strconv.ParseFloat(string(b), 64)
	}
	if err != nil || math.IsNaN(f) || f == 0 && !zero {
		return 0, false
	}
	return f, true
}

// EqualFold reports whether arg is word, ASCII letters compared without regard to case.
func EqualFold(arg []byte, word string) bool {
	if len(arg) != len(word) {
		return false
	}
	for i, c := range arg {
		if c != word[i] && lower(c) != lower(word[i]) {
			return false
		}
	}
	return true
}

func lower(c byte) byte {
	if 'A' <= c && c <= 'Z' {
		c += 'a' - 'A'
	}
	return c
}

// prefetchMember makes a Spec.Prefetch for commands on one member or field of a collection: argument at of n, the
// name of the command counted. With more arguments there are several, which are looked up at once anyway, or options.
func prefetchMember(t cf.Type, at, n int) func(tx *engine.Tx, args [][]byte, keys *engine.KeyList) {
	return func(tx *engine.Tx, args [][]byte, keys *engine.KeyList) {
		if len(args) == n {
			tx.PrefetchSubkey(args[1], t, args[at], keys)
		}
	}
}
