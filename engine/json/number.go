package json

import (
	"bytes"
	"cmp"
	"errors"
	"math"
	"math/big"
	"strconv"
)

// maxDigits is the max number of digits of an integer: operations on integers take more than linear time.
const maxDigits = 4096

// parseNumber parses a number in JSON syntax. fraction says whether it has a fraction or an exponent. ok is false if a
// double cannot hold it.
func parseNumber(s string, fraction bool) (v Value, ok bool) {
	if !fraction && s != "-0" {
		return parseInteger(s), true
	}
	f, err := strconv.ParseFloat(s, 64)
	if errors.Is(err, strconv.ErrRange) && math.IsInf(f, 0) {
		return v, false
	}
	return floatOf(f), true
}

// parseInteger parses decimal digits with an optional minus sign, without leading zeros.
func parseInteger(s string) Value {
	if n, err := strconv.ParseInt(s, 10, 64); err == nil {
		return IntOf(n)
	}
	if u, err := strconv.ParseUint(s, 10, 64); err == nil {
		return Value{kind: Uint, num: u}
	}
	return Value{kind: BigInt, text: s}
}

// integerOf returns an integer of any size.
func integerOf(n *big.Int) Value {
	switch {
	case n.IsInt64():
		return IntOf(n.Int64())
	case n.IsUint64():
		return Value{kind: Uint, num: n.Uint64()}
	}
	return Value{kind: BigInt, text: n.String()}
}

// big returns an integer of any kind.
func (v *Value) big() *big.Int {
	switch v.kind {
	case Int:
		return big.NewInt(v.Int())
	case Uint:
		return new(big.Int).SetUint64(v.num)
	}
	n, _ := new(big.Int).SetString(v.text, 10)
	return n
}

// Float returns a number of any kind as a double. A BigInt too large for one is infinite.
func (v *Value) Float() float64 {
	switch v.kind {
	case Int:
		return float64(v.Int())
	case Uint:
		return float64(v.num)
	case Float:
		return math.Float64frombits(v.num)
	}
	f, _ := strconv.ParseFloat(v.text, 64)
	return f
}

// exactFloat: up to this integer every integer is exactly a double.
const exactFloat = 1 << 53

// compareNumbers compares the exact values of two numbers of any kind.
func compareNumbers(a, b *Value) int {
	switch {
	case a.kind == Int && b.kind == Int:
		return cmp.Compare(a.Int(), b.Int())
	case a.kind == Float && b.kind == Float:
		return cmp.Compare(a.Float(), b.Float())
	}
	fa, fb := a.Float(), b.Float()
	if c := cmp.Compare(fa, fb); c != 0 && (math.Abs(fa) <= exactFloat || math.Abs(fb) <= exactFloat) {
		return c
	}
	if math.IsInf(fa, 0) && math.IsInf(fb, 0) || a.kind != Float && b.kind != Float {
		return a.big().Cmp(b.big()) // a Float here is finite, so both are integers
	}
	if math.IsInf(fa, 0) || math.IsInf(fb, 0) {
		return cmp.Compare(fa, fb)
	}
	return a.wide().Cmp(b.wide())
}

// wide returns a number whose double is finite, exactly.
func (v *Value) wide() *big.Float {
	if v.kind == Float {
		return big.NewFloat(v.Float())
	}
	n := v.big()
	return new(big.Float).SetPrec(uint(max(n.BitLen(), 64))).SetInt(n)
}

// Operation is an arithmetic operation.
type Operation uint8

// The operations.
const (
	Add Operation = iota
	Multiply
)

// apply returns a + b or a * b. For integers the result is an integer if it fits into 64 bits; otherwise it is a
// double. ok is false if the double is infinite.
func (op Operation) apply(a, b *Value) (v Value, ok bool) {
	if a.kind == Int && b.kind == Int && op == Add {
		x, y := a.Int(), b.Int()
		if sum := x + y; (sum > x) == (y > 0) {
			return IntOf(sum), true
		}
	}
	if a.kind != Float && b.kind != Float {
		n := a.big()
		if op == Add {
			n.Add(n, b.big())
		} else {
			n.Mul(n, b.big())
		}
		if v = integerOf(n); v.kind != BigInt {
			return v, true
		}
		f := v.Float()
		return floatOf(f), !math.IsInf(f, 0)
	}
	f := a.Float()
	if op == Add {
		f += b.Float()
	} else {
		f *= b.Float()
	}
	return floatOf(f), !math.IsInf(f, 0) && !math.IsNaN(f)
}

func appendNumber(dst []byte, v *Value) []byte {
	switch v.kind {
	case Int:
		return strconv.AppendInt(dst, v.Int(), 10)
	case Uint:
		return strconv.AppendUint(dst, v.num, 10)
	case BigInt:
		return append(dst, v.text...)
	}
	return appendFloat(dst, v.Float())
}

// appendFloat appends the shortest text that identifies the double, with a fraction or an exponent so that it is not
// parsed as an integer: 1.0, 0.00001, 1e16, 1.5e-7. This is RedisJSON's format: decimal from 1e-5 up to 16 digits
// before the point.
func appendFloat(dst []byte, f float64) []byte {
	abs := math.Abs(f)
	if abs != 0 && (abs < 1e-5 || abs >= 1e16) {
		from := len(dst)
		dst = strconv.AppendFloat(dst, f, 'e', -1, 64)
		// Change 1e+16 to 1e16 and 1e-07 to 1e-7.
		for i := from; i < len(dst); i++ {
			if dst[i] != 'e' {
				continue
			}
			digits := i + 2
			if dst[i+1] == '-' {
				i++
			}
			if dst[digits] == '0' {
				digits++
			}
			return append(dst[:i+1], dst[digits:]...)
		}
		return dst
	}
	from := len(dst)
	dst = strconv.AppendFloat(dst, f, 'f', -1, 64)
	if bytes.IndexByte(dst[from:], '.') < 0 {
		dst = append(dst, '.', '0')
	}
	return dst
}
