package lua

import (
	"math"
	"math/bits"
	"sync/atomic"

	"github.com/basaltdb/basalt/internal/libm"

	vm "github.com/yuin/gopher-lua"
)

// random is the generator of math.random: C's drand48 with 48 bits of state, with Redis's initial state. All states of
// an engine share one, so that two concurrent scripts do not draw the same numbers.
type random struct{ x atomic.Uint64 }

const (
	randomStart = 0x1234abcd330e
	randomMax   = math.MaxInt32
)

// next returns the next number, which has 31 bits.
func (r *random) next() uint64 {
	for {
		old := r.x.Load()
		x := (old*0x5deece66d + 0xb) & (1<<48 - 1)
		if r.x.CompareAndSwap(old, x) {
			return x >> 17
		}
	}
}

func openMath(st *state, L *vm.LState) {
	functions := map[string]vm.LGFunction{
		"atan2": ofTwo(libm.Atan2),
		"fmod":  ofTwo(libm.Fmod),
		"pow":   ofTwo(libm.Pow),
		"deg":   func(L *vm.LState) int { return pushNumber(L, checkNumber(L, 1)/(math.Pi/180)) },
		"rad":   func(L *vm.LState) int { return pushNumber(L, checkNumber(L, 1)*(math.Pi/180)) },
		"ldexp": func(L *vm.LState) int {
			exponent := checkInt32(L, 2)
			return pushNumber(L, math.Ldexp(checkNumber(L, 1), exponent))
		},
		"max": func(L *vm.LState) int { return extreme(L, func(a, b float64) bool { return a > b }) },
		"min": func(L *vm.LState) int { return extreme(L, func(a, b float64) bool { return a < b }) },
		"frexp": func(L *vm.LState) int {
			m, e := math.Frexp(checkNumber(L, 1))
			return push(L, vm.LNumber(m), vm.LNumber(e))
		},
		"modf": func(L *vm.LState) int {
			f := checkNumber(L, 1)
			whole, part := math.Trunc(f), math.Copysign(0, f)
			if !math.IsInf(f, 0) {
				part = math.Copysign(f-whole, f)
			}
			return push(L, vm.LNumber(whole), vm.LNumber(part))
		},
	}
	functions["mod"] = functions["fmod"]
	for name, f := range map[string]func(float64) float64{
		"abs": math.Abs, "acos": libm.Acos, "asin": libm.Asin, "atan": libm.Atan, "ceil": math.Ceil, "cos": libm.Cos,
		"cosh": libm.Cosh, "exp": libm.Exp, "floor": math.Floor, "log": libm.Log, "log10": libm.Log10, "sin": libm.Sin,
		"sinh": libm.Sinh, "sqrt": sqrt, "tan": libm.Tan, "tanh": libm.Tanh,
	} {
		functions[name] = func(L *vm.LState) int { return pushNumber(L, f(checkNumber(L, 1))) }
	}
	functions["random"] = func(L *vm.LState) int {
		if !st.running {
			raise(L, "math.random can only be called inside a script invocation")
		}
		r := float64(st.engine.random.next()%randomMax) / randomMax
		low, high := 1, 0
		switch L.GetTop() {
		case 0:
			return pushNumber(L, r)
		case 1:
			if high = checkInt32(L, 1); high < 1 {
				argError(L, 1, "interval is empty")
			}
		case 2:
			low, high = checkInt32(L, 1), checkInt32(L, 2)
			if low > high {
				argError(L, 2, "interval is empty")
			}
		default:
			raise(L, "wrong number of arguments")
		}
		return pushNumber(L, math.Floor(r*float64(int32(high-low+1)))+float64(low))
	}
	functions["randomseed"] = func(L *vm.LState) int {
		if !st.running {
			raise(L, "math.randomseed can only be called inside a script invocation")
		}
		st.engine.random.x.Store(uint64(uint32(checkInt(L, 1)))<<16 | 0x330e)
		return 0
	}
	st.library(L, "math", functions, map[string]vm.LValue{"pi": vm.LNumber(math.Pi), "huge": vm.LNumber(math.Inf(1))})
}

// ofTwo returns a function of two arguments. It checks the second one first, as C does.
func ofTwo(f func(x, y float64) float64) vm.LGFunction {
	return func(L *vm.LState) int {
		y := checkNumber(L, 2)
		return pushNumber(L, f(checkNumber(L, 1), y))
	}
}

func extreme(L *vm.LState, better func(a, b float64) bool) int {
	best := checkNumber(L, 1)
	for i := 2; i <= L.GetTop(); i++ {
		if f := checkNumber(L, i); better(f, best) {
			best = f
		}
	}
	return pushNumber(L, best)
}

// bitArg reads an argument of the bit library: a number modulo 2^32, rounded to the nearest integer.
func bitArg(L *vm.LState, n int) uint32 {
	f := checkNumber(L, n)
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return 0
	}
	return uint32(math.Float64bits(f + 6755399441055744)) // 2^52 + 2^51: the integer is in the low bits of the mantissa
}

func pushBits(L *vm.LState, b uint32) int { return pushNumber(L, float64(int32(b))) }

func openBit(st *state, L *vm.LState) {
	fold := func(op func(a, b uint32) uint32) vm.LGFunction {
		return func(L *vm.LState) int {
			b := bitArg(L, 1)
			for i := L.GetTop(); i > 1; i-- {
				b = op(b, bitArg(L, i))
			}
			return pushBits(L, b)
		}
	}
	shift := func(op func(a uint32, n int) uint32) vm.LGFunction {
		return func(L *vm.LState) int {
			b := bitArg(L, 1)
			return pushBits(L, op(b, int(bitArg(L, 2)&31)))
		}
	}
	st.library(L, "bit", map[string]vm.LGFunction{
		"tobit":   func(L *vm.LState) int { return pushBits(L, bitArg(L, 1)) },
		"bnot":    func(L *vm.LState) int { return pushBits(L, ^bitArg(L, 1)) },
		"bswap":   func(L *vm.LState) int { return pushBits(L, bits.ReverseBytes32(bitArg(L, 1))) },
		"band":    fold(func(a, b uint32) uint32 { return a & b }),
		"bor":     fold(func(a, b uint32) uint32 { return a | b }),
		"bxor":    fold(func(a, b uint32) uint32 { return a ^ b }),
		"lshift":  shift(func(a uint32, n int) uint32 { return a << n }),
		"rshift":  shift(func(a uint32, n int) uint32 { return a >> n }),
		"arshift": shift(func(a uint32, n int) uint32 { return uint32(int32(a) >> n) }),
		"rol":     shift(func(a uint32, n int) uint32 { return bits.RotateLeft32(a, n) }),
		"ror":     shift(func(a uint32, n int) uint32 { return bits.RotateLeft32(a, -n) }),
		"tohex":   bitToHex,
	}, nil)
}

func bitToHex(L *vm.LState) int {
	b := bitArg(L, 1)
	n := int32(8)
	if !isNone(L, 2) {
		n = int32(bitArg(L, 2))
	}
	digits := "0123456789abcdef"
	if n < 0 {
		n = -n
		digits = "0123456789ABCDEF"
	}
	if n > 8 || n < 0 {
		n = 8
	}
	var text [8]byte
	for i := n - 1; i >= 0; i-- {
		text[i] = digits[b&15]
		b >>= 4
	}
	return pushString(L, string(text[:n]))
}

// sqrt is math.Sqrt with the CPU's sign of NaN.
func sqrt(x float64) float64 {
	if x < 0 {
		return math.Copysign(math.NaN(), -1)
	}
	return math.Sqrt(x)
}
