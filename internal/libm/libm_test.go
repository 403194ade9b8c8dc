package libm

import (
	"math"
	"math/rand/v2"
	"testing"
)

// Each function is that of its name: nearly what package math has, and no number where that has none.
func TestFunctions(t *testing.T) {
	one := []struct {
		name    string
		c, goes func(float64) float64
	}{
		{"acos", Acos, math.Acos}, {"asin", Asin, math.Asin}, {"atan", Atan, math.Atan}, {"cos", Cos, math.Cos},
		{"cosh", Cosh, math.Cosh}, {"exp", Exp, math.Exp}, {"log", Log, math.Log}, {"log10", Log10, math.Log10},
		{"sin", Sin, math.Sin}, {"sinh", Sinh, math.Sinh}, {"tan", Tan, math.Tan}, {"tanh", Tanh, math.Tanh},
	}
	two := []struct {
		name    string
		c, goes func(x, y float64) float64
	}{{"atan2", Atan2, math.Atan2}, {"fmod", Fmod, math.Mod}, {"pow", Pow, math.Pow}}
	check := func(name string, c, goes float64) {
		t.Helper()
		if math.IsNaN(c) != math.IsNaN(goes) || math.Abs(c-goes) > 1e-12*math.Abs(goes) {
			t.Errorf("%s: %.17g and %.17g", name, c, goes)
		}
	}
	r := rand.New(rand.NewPCG(1, 1))
	for range 1000 {
		x, y := 4*r.Float64()-2, 4*r.Float64()-2
		for _, f := range one {
			check(f.name, f.c(x), f.goes(x))
		}
		for _, f := range two {
			check(f.name, f.c(x, y), f.goes(x, y))
		}
	}
}

func BenchmarkPow(b *testing.B) {
	x := 1.5
	for b.Loop() {
		x = Pow(x, 0.999)
	}
}
