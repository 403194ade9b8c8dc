package difftest

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"testing"
)

// TestLuaMath compares what scripts compute with all 17 digits: both servers use the C library of the machine, whose
// last bits depend on its processor.
func TestLuaMath(t *testing.T) {
	ask := askBoth(t)
	const script = `local f, x, y = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
		if f == '^' then return string.format('%.17g', x ^ y) end
		if f == '%' then return string.format('%.17g', x % y) end
		return string.format('%.17g', math[f](x, y))`
	functions := []string{"^", "%", "acos", "asin", "atan", "atan2", "ceil", "cos", "cosh", "deg", "exp", "floor",
		"fmod", "log", "log10",
		"pow", "rad", "sin", "sinh", "sqrt", "tan", "tanh"}
	odd := []float64{0, math.Copysign(0, -1), 1, -1, 0.5, math.Pi, math.Inf(1), math.Inf(-1), 5e-324, math.MaxFloat64,
		1 << 53}
	r := rand.New(rand.NewPCG(1, 1))
	draw := func() float64 {
		switch r.IntN(4) {
		case 0:
			return odd[r.IntN(len(odd))]
		case 1:
			return float64(r.IntN(200) - 100)
		case 2:
			return r.Float64()*2 - 1
		}
		return r.NormFloat64() * math.Pow(10, float64(r.IntN(12)-4))
	}
	for range 10000 {
		f, x, y := functions[r.IntN(len(functions))], draw(), draw()
		if want, got := ask("EVAL", script, "0", f, luaNumber(x), luaNumber(y)); got != want {
			t.Errorf("%s(%s, %s): %q, Redis %q", f, luaNumber(x), luaNumber(y), got, want)
		}
	}
}

// askBoth starts both servers and returns a function that gives their replies to a command, as they came.
func askBoth(t *testing.T) (ask func(args ...string) (redis, basalt string)) {
	t.Helper()
	var clients [2]*client
	for i, to := range []target{startRedis(t), startBasalt(t)} {
		c := connect(t, to.Addr(), 2)
		clients[i] = c
	}
	return func(args ...string) (string, string) {
		t.Helper()
		var replies [2]string
		for i, c := range clients {
			r, err := c.do(args...)
			if err != nil {
				t.Fatalf("%q: %v", args, err)
			}
			replies[i] = string(r.raw)
		}
		return replies[0], replies[1]
	}
}

// luaNumber writes a number so that tonumber of Lua reads the same one.
func luaNumber(f float64) string {
	if math.IsInf(f, 0) {
		return fmt.Sprintf("%se999", strconv.FormatFloat(math.Copysign(1, f), 'g', -1, 64))
	}
	return strconv.FormatFloat(f, 'g', -1, 64)
}
