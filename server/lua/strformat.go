package lua

import (
	"bytes"
	"fmt"
	"math"
	"strconv"
	"strings"

	vm "github.com/yuin/gopher-lua"

	"github.com/basaltdb/basalt/server/lua/luac"
)

// verb is one conversion of string.format: %[flags][width][.precision]letter.
type verb struct {
	minus, plus, space, sharp, zero bool
	width, precision                int // precision -1 = none
}

func strFormat(L *vm.LState) int {
	format := checkString(L, 1)
	var b []byte
	arg := 1
	for i := 0; i < len(format); i++ {
		c := format[i]
		if c != '%' {
			b = append(b, c)
			continue
		}
		i++
		if i < len(format) && format[i] == '%' {
			b = append(b, '%')
			continue
		}
		if arg++; isNone(L, arg) {
			argError(L, arg, "no value")
		}
		v, end := parseVerb(L, format, i)
		i = end
		var letter byte
		if i < len(format) {
			letter = format[i]
		}
		n := len(b)
		switch letter {
		case 'c':
			from := len(b)
			b = v.pad(b, string([]byte{byte(cInt32(checkNumber(L, arg)))}))
			if i := bytes.IndexByte(b[from:], 0); i >= 0 { // a C string ends there
				b = b[:from+i]
			}
		case 'd', 'i':
			b = v.integer(b, int64(cInt(checkNumber(L, arg))))
		case 'o', 'u', 'x', 'X':
			b = v.unsigned(b, unsigned(checkNumber(L, arg)), letter)
		case 'e', 'E', 'f', 'g', 'G':
			b = v.float(b, checkNumber(L, arg), letter)
		case 'q':
			b = quote(b, checkString(L, arg))
		case 's':
			s := checkString(L, arg)
			if v.precision < 0 && len(s) >= 100 {
				b = append(b, s...)
				break
			}
			s = luac.CString(s)
			if v.precision >= 0 && v.precision < len(s) {
				s = s[:v.precision]
			}
			b = v.pad(b, s)
		default:
			shown := ""
			if letter != 0 {
				shown = string([]byte{letter})
			}
			raise(L, "invalid option '%%%s' to 'format'", shown)
		}
		charge(L, len(b)-n)
		if len(b) > maxString {
			outOfMemory(L)
		}
	}
	return pushBytes(L, b)
}

func parseVerb(L *vm.LState, format string, i int) (verb, int) {
	v := verb{precision: -1}
	start := i
	for ; i < len(format) && strings.IndexByte("-+ #0", format[i]) >= 0; i++ {
		switch format[i] {
		case '-':
			v.minus = true
		case '+':
			v.plus = true
		case ' ':
			v.space = true
		case '#':
			v.sharp = true
		case '0':
			v.zero = true
		}
	}
	if i-start >= 6 {
		raise(L, "invalid format (repeated flags)")
	}
	digits := func() (n int) {
		for j := 0; j < 2 && i < len(format) && isDigit(format[i]); j++ {
			n = n*10 + int(format[i]-'0')
			i++
		}
		return n
	}
	v.width = digits()
	if i < len(format) && format[i] == '.' {
		i++
		v.precision = digits()
	}
	if i < len(format) && isDigit(format[i]) {
		raise(L, "invalid format (width or precision too long)")
	}
	return v, i
}

// unsigned converts as C does: negative numbers through the signed type.
func unsigned(f float64) uint64 {
	if f >= 9.2233720368547758e18 && f < 1.8446744073709552e19 {
		return uint64(f-9.2233720368547758e18) + 1<<63
	}
	if f >= 1.8446744073709552e19 {
		return 0
	}
	return uint64(int64(cInt(f)))
}

func (v *verb) pad(b []byte, s string) []byte {
	n := v.width - len(s)
	if n <= 0 {
		return append(b, s...)
	}
	if v.minus {
		return append(append(b, s...), strings.Repeat(" ", n)...)
	}
	return append(append(b, strings.Repeat(" ", n)...), s...)
}

// number pads a number; its sign or prefix stays before the zeros.
func (v *verb) number(b []byte, prefix, digits string, zeros bool) []byte {
	if n := v.width - len(prefix) - len(digits); n > 0 && zeros && v.zero && !v.minus {
		digits = strings.Repeat("0", n) + digits
	}
	return v.pad(b, prefix+digits)
}

func (v *verb) sign(negative bool) string {
	switch {
	case negative:
		return "-"
	case v.plus:
		return "+"
	case v.space:
		return " "
	}
	return ""
}

func (v *verb) digits(n uint64, base int) string {
	s := strconv.FormatUint(n, base)
	if n == 0 && v.precision == 0 {
		s = ""
	}
	if len(s) < v.precision {
		s = strings.Repeat("0", v.precision-len(s)) + s
	}
	return s
}

func (v *verb) integer(b []byte, n int64) []byte {
	u := uint64(n)
	if n < 0 {
		u = -u
	}
	return v.number(b, v.sign(n < 0), v.digits(u, 10), v.precision < 0)
}

func (v *verb) unsigned(b []byte, n uint64, letter byte) []byte {
	prefix, digits := "", ""
	switch letter {
	case 'o':
		digits = v.digits(n, 8)
		if v.sharp && !strings.HasPrefix(digits, "0") {
			digits = "0" + digits
		}
	case 'u':
		digits = v.digits(n, 10)
	default:
		digits = v.digits(n, 16)
		if v.sharp && n != 0 {
			prefix = "0x"
		}
		if letter == 'X' {
			prefix, digits = strings.ToUpper(prefix), strings.ToUpper(digits)
		}
	}
	return v.number(b, prefix, digits, v.precision < 0)
}

func (v *verb) float(b []byte, f float64, letter byte) []byte {
	prefix := v.sign(math.Signbit(f))
	if math.IsInf(f, 0) || math.IsNaN(f) {
		s := "inf"
		if math.IsNaN(f) {
			s = "nan"
		}
		if letter < 'a' {
			s = strings.ToUpper(s)
		}
		return v.number(b, prefix, s, false)
	}
	precision := v.precision
	if precision < 0 {
		precision = 6
	}
	f = math.Abs(f)
	var s string
	switch letter | 0x20 {
	case 'f':
		s = strconv.FormatFloat(f, 'f', precision, 64)
		if v.sharp && precision == 0 {
			s += "."
		}
	case 'e':
		s = strconv.FormatFloat(f, 'e', precision, 64)
		if v.sharp && precision == 0 {
			s = strings.Replace(s, "e", ".e", 1)
		}
	case 'g':
		if v.sharp {
			s = fmt.Sprintf("%#.*g", max(precision, 1), f)
		} else {
			s = string(appendGeneral(nil, f, precision))
		}
	}
	if letter < 'a' {
		s = strings.ToUpper(s)
	}
	return v.number(b, prefix, s, true)
}

// quote appends a string in a form that the parser reads back.
func quote(b []byte, s string) []byte {
	b = append(b, '"')
	for i := range len(s) {
		switch c := s[i]; c {
		case '"', '\\', '\n':
			b = append(b, '\\', c)
		case '\r':
			b = append(b, `\r`...)
		case 0:
			b = append(b, `\000`...)
		default:
			b = append(b, c)
		}
	}
	return append(b, '"')
}
