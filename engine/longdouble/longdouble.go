// Package longdouble is the arithmetic of INCRBYFLOAT, HINCRBYFLOAT and INCREX: that of an x86-64 long double, the
// 80-bit extended format with 64 bits of precision, parsed as by C's strtold and printed with 17 digits after the
// point. A double would give other digits: 3.0 + 0.1 must be 3.1, and 10.5 + 0.1 must be 10.6.
//
// The numbers are big.Float values of 64 bits of precision, rounded to nearest even. Only subnormals, whose exponents
// are below -16382, have more bits here than in the hardware format; all of them print as 0.
package longdouble

import (
	"math"
	"math/big"
	"strconv"
)

const (
	precision = 64
	// Exponents of big.Float.MantExp: its mantissa is below 1, so they are one above those of the format.
	maxExp = 16384
	// A number up to half the least subnormal, 2^-16445, becomes zero.
	minExp = -16445

	// MaxLen is the length in bytes from which Redis refuses to parse a number.
	MaxLen = 5 * 1024
	// Numbers of at least 10^maxDecimal, or below its inverse, are refused before their digits are parsed.
	maxDecimal = 5000
)

// Parse parses a number by the grammar of C's strtold: decimal or hexadecimal, optionally signed, or inf or infinity in
// any case. ok is false for blanks, trailing characters, NaN, numbers beyond the range of the format, and numbers so
// small that they would become zero.
func Parse(b []byte) (x *big.Float, ok bool) {
	if len(b) == 0 || len(b) >= MaxLen {
		return nil, false
	}
	rest := b
	negative := b[0] == '-'
	if negative || b[0] == '+' {
		rest = b[1:]
	}
	if isInf(rest) {
		return new(big.Float).SetPrec(precision).SetInf(negative), true
	}
	n, ok := scan(rest)
	if !ok {
		return nil, false
	}
	x = new(big.Float).SetPrec(precision).SetMode(big.ToNearestEven)
	switch {
	case n.zero:
	case n.hex && (n.exp > 1<<16 || n.exp < -1<<16):
		return nil, false
	case n.hex || n.exp == 0 && len(rest) <= 48:
		// Without an exponent, the power of five is exact within the 128 bits that big.Float uses for it, so its single
		// division rounds correctly.
		if _, _, err := x.Parse(string(rest), 0); err != nil {
			return nil, false
		}
	default:
		if !n.setDecimal(x, rest) {
			return nil, false
		}
	}
	if !n.zero {
		if exp := x.MantExp(nil); exp > maxExp || exp < minExp || exp == minExp && x.MinPrec() == 1 {
			return nil, false
		}
	}
	if negative {
		x.Neg(x)
	}
	return x, true
}

// Add returns x+y rounded to the format. ok is false when the sum is infinite or not a number.
func Add(x, y *big.Float) (sum *big.Float, ok bool) {
	if x.IsInf() || y.IsInf() {
		return nil, false
	}
	sum = new(big.Float).SetPrec(precision).SetMode(big.ToNearestEven)
	sum.Add(x, y)
	if sum.MantExp(nil) > maxExp {
		return nil, false
	}
	return sum, true
}

// Max returns the greatest finite number, or the least one.
func Max(negative bool) *big.Float {
	x := new(big.Float).SetPrec(precision).SetUint64(math.MaxUint64)
	x.SetMantExp(x, maxExp-precision)
	if negative {
		x.Neg(x)
	}
	return x
}

// Append appends x with 17 digits after the point, without trailing zeros and a trailing point; zero is always "0".
// Infinities are "inf" and "-inf".
func Append(dst []byte, x *big.Float) []byte {
	if x.IsInf() {
		if x.Signbit() {
			return append(dst, "-inf"...)
		}
		return append(dst, "inf"...)
	}
	start := len(dst)
	dst = x.Append(dst, 'f', 17)
	for dst[len(dst)-1] == '0' {
		dst = dst[:len(dst)-1]
	}
	if dst[len(dst)-1] == '.' {
		dst = dst[:len(dst)-1]
	}
	if string(dst[start:]) == "-0" {
		dst = append(dst[:start], '0')
	}
	return dst
}

func isInf(b []byte) bool {
	const word = "infinity"
	if len(b) != 3 && len(b) != len(word) {
		return false
	}
	for i, c := range b {
		if c|0x20 != word[i] {
			return false
		}
	}
	return true
}

type number struct {
	hex    bool
	zero   bool // all digits are 0
	digits int  // length of the number without its exponent
	exp    int  // the exponent as written, clamped far outside the range
}

// setDecimal sets x to the decimal number in b, rounded once.
func (n number) setDecimal(x *big.Float, b []byte) bool {
	digits := make([]byte, 0, n.digits)
	exp := n.exp
	fraction := false
	for _, c := range b[:n.digits] {
		if c == '.' {
			fraction = true
			continue
		}
		if fraction {
			exp--
		}
		if c != '0' || len(digits) > 0 {
			digits = append(digits, c)
		}
	}
	if first := exp + len(digits); first > maxDecimal || first < -maxDecimal {
		return false
	}
	mantissa, ok := new(big.Int).SetString(string(digits), 10)
	if !ok {
		return false
	}
	power := big.NewInt(int64(max(exp, -exp)))
	power.Exp(big.NewInt(10), power, nil)
	if exp >= 0 {
		x.SetInt(mantissa.Mul(mantissa, power))
		return true
	}
	// SetInt on a Float without precision is exact.
	x.Quo(new(big.Float).SetInt(mantissa), new(big.Float).SetInt(power))
	return true
}

// scan validates an unsigned number. big.Float would accept more: underscores, binary and octal prefixes.
func scan(b []byte) (n number, ok bool) {
	n.zero = true
	i := 0
	if len(b) > 2 && b[0] == '0' && b[1]|0x20 == 'x' {
		n.hex = true
		i = 2
	}
	digits, points := 0, 0
	for ; i < len(b); i++ {
		c := b[i]
		if c == '.' {
			points++
			continue
		}
		if (c < '0' || c > '9') && !(n.hex && c|0x20 >= 'a' && c|0x20 <= 'f') {
			break
		}
		digits++
		n.zero = n.zero && c == '0'
	}
	if digits == 0 || points > 1 {
		return n, false
	}
	n.digits = i
	if i == len(b) {
		return n, true
	}
	if c := b[i] | 0x20; n.hex && c != 'p' || !n.hex && c != 'e' {
		return n, false
	}
	i++
	text := string(b[i:])
	if i < len(b) && (b[i] == '+' || b[i] == '-') {
		i++
	}
	if i == len(b) {
		return n, false
	}
	for _, c := range b[i:] {
		if c < '0' || c > '9' {
			return n, false
		}
	}
	exp, err := strconv.Atoi(text)
	if err != nil { // out of the range of int
		exp = maxExp * MaxLen
		if text[0] == '-' {
			exp = -exp
		}
	}
	exp = min(max(exp, -maxExp*MaxLen), maxExp*MaxLen)
	n.exp = exp
	return n, true
}
