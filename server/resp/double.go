package resp

import (
	"math"
	"strconv"
)

// AppendDouble appends the text of f as a Redis 7.2 reply shows it: the shortest digits that read back as f, "inf",
// "-inf", "nan", and "-0" for negative zero. The printer of Redis 7.2 misses the shortest digits for about 3 numbers in
// 1000 (52.579034299999996 for 52.5790343); this one never does.
//
// Whole numbers up to 2^62 are written without an exponent. Of the others, with
// D the digits without trailing zeros and f = D x 10^k:
//
//   - k >= 0 and at most 7 zeros are missing: a plain integer;
//   - -7 < k < 0, or the decimal exponent is within ±3: a plain fraction;
//   - otherwise d.ddde±x, with no zeros in front of the exponent.
func AppendDouble(dst []byte, f float64) []byte {
	switch {
	case math.IsNaN(f):
		return append(dst, "nan"...)
	case math.IsInf(f, 1):
		return append(dst, "inf"...)
	case math.IsInf(f, -1):
		return append(dst, "-inf"...)
	case f == 0:
		if math.Signbit(f) {
			return append(dst, "-0"...)
		}
		return append(dst, '0')
	}
	const limit = 1 << 62
	if f >= -limit && f <= limit {
		if n := int64(f); float64(n) == f {
			return strconv.AppendInt(dst, n, 10)
		}
	}
	if f < 0 {
		dst = append(dst, '-')
		f = -f
	}

	// strconv gives d.ddde±xx with the shortest digits.
	var text, digits [32]byte
	e := strconv.AppendFloat(text[:0], f, 'e', -1, 64)
	nd, i := 0, 0
	for ; e[i] != 'e'; i++ {
		if e[i] != '.' {
			digits[nd] = e[i]
			nd++
		}
	}
	exp := 0
	for _, c := range e[i+2:] {
		exp = exp*10 + int(c-'0')
	}
	if e[i+1] == '-' {
		exp = -exp
	}
	for nd > 1 && digits[nd-1] == '0' {
		nd--
	}
	d := digits[:nd]
	k := exp - (nd - 1)
	abs := max(exp, -exp)

	switch {
	case k >= 0 && abs < nd+7:
		dst = append(dst, d...)
		for ; k > 0; k-- {
			dst = append(dst, '0')
		}
		return dst
	case k < 0 && (k > -7 || abs < 4):
		whole := nd + k
		if whole > 0 {
			dst = append(dst, d[:whole]...)
			dst = append(dst, '.')
			return append(dst, d[whole:]...)
		}
		dst = append(dst, "0."...)
		for ; whole < 0; whole++ {
			dst = append(dst, '0')
		}
		return append(dst, d...)
	}
	dst = append(dst, d[0])
	if nd > 1 {
		dst = append(dst, '.')
		dst = append(dst, d[1:]...)
	}
	if exp < 0 {
		dst = append(dst, 'e', '-')
	} else {
		dst = append(dst, 'e', '+')
	}
	return strconv.AppendInt(dst, int64(abs), 10)
}
