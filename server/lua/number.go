package lua

import (
	"bytes"
	"math"
	"strconv"
	"strings"

	"github.com/basaltdb/basalt/server/lua/luac"
)

// appendNumber appends a number as Lua 5.1 prints it: %.14g of C.
func appendNumber(b []byte, f float64) []byte {
	if i := int64(f); float64(i) == f && i > -1e14 && i < 1e14 && (i != 0 || !math.Signbit(f)) {
		return strconv.AppendInt(b, i, 10)
	}
	return appendGeneral(b, f, 14)
}

// appendGeneral is %.*g of C: precision significant digits, trailing zeros dropped.
func appendGeneral(b []byte, f float64, precision int) []byte {
	switch {
	case math.IsNaN(f):
		if math.Signbit(f) {
			b = append(b, '-')
		}
		return append(b, "nan"...)
	case math.IsInf(f, 1):
		return append(b, "inf"...)
	case math.IsInf(f, -1):
		return append(b, "-inf"...)
	}
	precision = max(precision, 1)
	var text [128]byte
	e := strconv.AppendFloat(text[:0], f, 'e', precision-1, 64)
	at := bytes.LastIndexByte(e, 'e')
	exponent, _ := strconv.Atoi(string(e[at+1:]))
	if exponent < -4 || exponent >= precision {
		return append(append(b, trimZeros(e[:at])...), e[at:]...)
	}
	return append(b, trimZeros(strconv.AppendFloat(text[:0], f, 'f', precision-1-exponent, 64))...)
}

func trimZeros(digits []byte) []byte {
	if bytes.IndexByte(digits, '.') < 0 {
		return digits
	}
	return bytes.TrimSuffix(bytes.TrimRight(digits, "0"), []byte("."))
}

// plainInteger parses the digits at the beginning of a text, the common form of numbers. n is their number; it is 0 as
// well if the number is not exact in a double.
func plainInteger(s string) (f float64, n int) {
	const most = 15
	v := 0
	for n < len(s) && isDigit(s[n]) {
		if n == most {
			return 0, 0
		}
		v = v*10 + int(s[n]-'0')
		n++
	}
	return float64(v), n
}

// parseNumber parses a number like C's strtod, with blanks around it: decimal, hexadecimal, inf and nan.
func parseNumber(s string) (float64, bool) {
	if f, n := plainInteger(s); n > 0 && n == len(s) {
		return f, true
	}
	s = strings.Trim(luac.CString(s), " \t\n\v\f\r")
	if s == "" || strings.IndexByte(s, '_') >= 0 {
		return 0, false
	}
	if f, err := strconv.ParseFloat(s, 64); err == nil || math.IsInf(f, 0) {
		return f, true
	}
	unsigned := strings.TrimLeft(s, "+-")
	if len(s)-len(unsigned) == 1 && strings.EqualFold(unsigned, "nan") {
		if s[0] == '-' {
			return math.Copysign(math.NaN(), -1), true
		}
		return math.NaN(), true
	}
	if len(s)-len(unsigned) > 1 || len(unsigned) < 3 || unsigned[0] != '0' || unsigned[1]|0x20 != 'x' {
		return 0, false
	}
	if !strings.ContainsAny(unsigned, "pP") {
		s += "p0" // Go requires an exponent in a hexadecimal number
	}
	f, err := strconv.ParseFloat(s, 64)
	return f, err == nil || math.IsInf(f, 0)
}
