package tdigest

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// sketchOf makes a sketch by merging observations, so many at a time.
func sketchOf(observations []float64, compression uint32, step int) *Sketch {
	var list []Centroid
	for part := range slices.Chunk(slices.Clone(observations), step) {
		list = merge(list, part, compression)
	}
	s := &Sketch{centroids: list, weight: weightOf(list)}
	if len(observations) > 0 {
		s.min, s.max = slices.Min(observations), slices.Max(observations)
	}
	return s
}

// same compares numbers, of which NaN is equal to itself.
func same(a, b float64) bool { return a == b || math.IsNaN(a) && math.IsNaN(b) }

// The examples of the documentation of RedisBloom's commands.
func TestDocumented(t *testing.T) {
	s := sketchOf([]float64{1, 2, 2, 3, 3, 3, 4, 4, 4, 4, 5, 5, 5, 5, 5}, 1000, 100)
	nan, inf := math.NaN(), math.Inf(1)
	check := func(what string, f func(x float64) float64, in, want []float64) {
		t.Helper()
		for i, x := range in {
			if got := f(x); !same(got, want[i]) {
				t.Errorf("%s %v: %v, want %v", what, x, got, want[i])
			}
		}
	}
	upTo := func(n int) (list []float64) {
		for i := range n + 1 {
			list = append(list, float64(i))
		}
		return list
	}
	check("quantile", s.Quantile, []float64{0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1},
		[]float64{1, 2, 3, 3, 4, 4, 4, 5, 5, 5, 5})
	check("cdf", s.CDF, upTo(6), []float64{0, 0.5 / 15, 2.0 / 15, 4.5 / 15, 8.0 / 15, 12.5 / 15, 1})
	check("rank", func(v float64) float64 { return float64(s.Rank(v)) }, upTo(6), []float64{-1, 0, 2, 4, 8, 12, 15})
	check("revrank", func(v float64) float64 { return float64(s.RevRank(v)) }, upTo(6),
		[]float64{15, 14, 13, 10, 7, 2, -1})
	check("byrank", func(v float64) float64 { return s.ByRank(uint64(v)) }, upTo(16),
		[]float64{1, 2, 2, 3, 3, 3, 4, 4, 4, 4, 5, 5, 5, 5, 5, inf, inf})
	check("byrevrank", func(v float64) float64 { return s.ByRevRank(uint64(v)) }, upTo(16),
		[]float64{5, 5, 5, 5, 5, 4, 4, 4, 4, 3, 3, 3, 2, 2, 1, -inf, -inf})

	s = sketchOf([]float64{10, 20, 30, 40, 50, 60}, 1000, 100)
	check("rank", func(v float64) float64 { return float64(s.Rank(v)) }, []float64{0, 10, 20, 30, 40, 50, 60, 70},
		[]float64{-1, 0, 1, 2, 3, 4, 5, 6})

	empty := sketchOf(nil, 100, 1)
	check("empty", empty.Quantile, []float64{0, 0.5, 1}, []float64{nan, nan, nan})
	check("empty", empty.CDF, []float64{0}, []float64{nan})
	check("empty", func(float64) float64 { return empty.Min() }, []float64{0}, []float64{nan})
	check("empty", func(float64) float64 { return empty.Max() }, []float64{0}, []float64{nan})
	check("empty", func(float64) float64 { return empty.ByRank(0) }, []float64{0}, []float64{nan})
	check("empty", func(float64) float64 { return empty.ByRevRank(9) }, []float64{0}, []float64{nan})
	check("empty", func(float64) float64 { return empty.TrimmedMean(0, 1) }, []float64{0}, []float64{nan})
	check("empty", func(v float64) float64 { return float64(empty.Rank(v)) }, []float64{0}, []float64{-2})
	check("empty", func(v float64) float64 { return float64(empty.RevRank(v)) }, []float64{0}, []float64{-2})

	one := sketchOf([]float64{7}, 100, 1)
	check("one", one.Quantile, []float64{0, 0.3, 1}, []float64{7, 7, 7})
	check("one", one.CDF, []float64{6, 7, 8}, []float64{0, 0.5, 1})
	check("one", func(float64) float64 { return one.TrimmedMean(0.4, 0.5) }, []float64{0}, []float64{7})
}

func TestTrimmedMean(t *testing.T) {
	s := sketchOf([]float64{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19}, 500, 100)
	for _, cut := range [][2]float64{{0.1, 0.9}, {0, 1}, {0.2, 0.8}} {
		if got := s.TrimmedMean(cut[0], cut[1]); math.Abs(got-9.5) > 1e-9 {
			t.Errorf("%v: %v", cut, got)
		}
	}
	s = sketchOf([]float64{1, 1, 1, 1, 1, 1, 1, 1, 1, 5}, 500, 100)
	for _, tt := range []struct{ low, high, want float64 }{{0.1, 0.9, 1}, {0.095, 0.905, 1.4}, {0.01, 0.99, 1.4},
		{0.9, 1, 5}, {0.5, 0.55, 1}} {
		if got := s.TrimmedMean(tt.low, tt.high); math.Abs(got-tt.want) > 1e-9 {
			t.Errorf("%v to %v: %v, want %v", tt.low, tt.high, got, tt.want)
		}
	}
}

// distributions are the shapes that the estimates are tested on.
var distributions = map[string]func(r *rand.Rand, i int) float64{
	"uniform":     func(r *rand.Rand, _ int) float64 { return r.Float64() * 100 },
	"normal":      func(r *rand.Rand, _ int) float64 { return r.NormFloat64() },
	"exponential": func(r *rand.Rand, _ int) float64 { return r.ExpFloat64() },
	"ascending":   func(_ *rand.Rand, i int) float64 { return float64(i) },
	"descending":  func(_ *rand.Rand, i int) float64 { return float64(-i) },
	"few values":  func(r *rand.Rand, _ int) float64 { return float64(r.IntN(5)) },
	"log-normal":  func(r *rand.Rand, _ int) float64 { return math.Exp(2 * r.NormFloat64()) },
}

// TestMillion: quantiles of a million observations are within 1 % of the rank that was asked for.
func TestMillion(t *testing.T) {
	if testing.Short() {
		t.Skip("a million observations")
	}
	const n = 1_000_000
	for name, next := range distributions {
		r := rand.New(rand.NewPCG(3, 4))
		list := make([]float64, n)
		for i := range list {
			list[i] = next(r, i)
		}
		s := sketchOf(list, DefaultCompression, 610)
		slices.Sort(list)
		for _, q := range []float64{0.001, 0.01, 0.25, 0.5, 0.9, 0.99, 0.999} {
			v := s.Quantile(q)
			low, _ := slices.BinarySearch(list, v)
			high, _ := slices.BinarySearch(list, math.Nextafter(v, math.Inf(1)))
			off := max(0, float64(low)/n-q, q-float64(high)/n)
			if off > 0.01 || off > 0.6*min(q, 1-q) {
				t.Errorf("%s: p%g is %v, at %g to %g: off by %g", name, q*100, v, float64(low)/n, float64(high)/n, off)
			}
		}
		if s.Weight() != n || len(s.centroids) > 2*DefaultCompression || s.Quantile(0) != list[0] ||
			s.Quantile(1) != list[n-1] {
			t.Errorf("%s: weight %v in %d centroids, from %v to %v", name, s.Weight(), len(s.centroids),
				s.Quantile(0), s.Quantile(1))
		}
	}
}

// Whatever is merged: nothing is lost, the centroids are in order, and the estimates are consistent.
func TestSketchProperties(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	extreme := []float64{-math.MaxFloat64, math.MaxFloat64, 0, math.Copysign(0, -1), math.SmallestNonzeroFloat64, 1,
		-1, 1e300, -1e300}
	for round := range 300 {
		n := 1 + r.IntN(2000)
		list := make([]float64, n)
		for i := range list {
			switch r.IntN(3) {
			case 0:
				list[i] = float64(r.IntN(10))
			case 1:
				list[i] = r.NormFloat64()
			default:
				if round%2 == 0 {
					list[i] = extreme[r.IntN(len(extreme))]
				}
			}
		}
		compression := []uint32{0, 1, 10, 20, 100, 1000}[r.IntN(6)]
		s := sketchOf(list, compression, 1+r.IntN(700))
		if round%3 == 0 { // by way of several sketches
			var all []Centroid
			for part := range slices.Chunk(list, 1+r.IntN(n)) {
				all = append(all, sketchOf(part, compression, 100).centroids...)
			}
			s.centroids = mergeAll(all, compression)
		}
		if got := weightOf(s.centroids); got != float64(n) {
			t.Fatalf("%d observations have the weight %v", n, got)
		}
		if most := 2*int(max(compression, minCompression)) + 2; len(s.centroids) > most {
			t.Fatalf("%d centroids with compression %d", len(s.centroids), compression)
		}
		for i, c := range s.centroids {
			if !(c.Mean >= s.min && c.Mean <= s.max && c.Weight >= 1) || i > 0 &&
				c.Mean < s.centroids[i-1].Mean-1e-12*math.Abs(c.Mean) {
				t.Fatalf("centroid %d is %+v after %+v, of observations from %v to %v", i, c,
					s.centroids[max(i-1, 0)], s.min, s.max)
			}
		}
		slices.SortFunc(s.centroids, func(a, b Centroid) int { return int(math.Copysign(1, a.Mean-b.Mean)) })
		if s.min != slices.Min(list) || s.Quantile(0) != s.min && n > 1 || s.Quantile(1) != s.max && n > 1 {
			t.Fatalf("from %v to %v, want %v to %v", s.Quantile(0), s.Quantile(1), s.min, s.max)
		}
		for range 20 {
			q := r.Float64()
			if v := s.Quantile(q); !(v >= s.min && v <= s.max) {
				t.Fatalf("quantile %v is %v, not from %v to %v", q, v, s.min, s.max)
			}
			v := list[r.IntN(n)]
			if c := s.CDF(v); !(c >= 0 && c <= 1) {
				t.Fatalf("the fraction below %v is %v", v, c)
			}
			if s.Rank(v) < 0 || s.Rank(v) > int64(n) || s.RevRank(v) < 0 || s.RevRank(v) > int64(n) {
				t.Fatalf("ranks of %v among %d: %d %d", v, n, s.Rank(v), s.RevRank(v))
			}
			if m := s.TrimmedMean(q/2, 0.5+q/2); !(m >= s.min && m <= s.max) {
				t.Fatalf("the trimmed mean is %v, not from %v to %v", m, s.min, s.max)
			}
		}
	}
}

// Weight returns the number of observations.
func (s *Sketch) Weight() float64 { return s.weight }

// Min returns the smallest observation, NaN when the sketch is empty.
func (s *Sketch) Min() float64 { return s.orNaN(s.min) }

// Max returns the largest observation, NaN when the sketch is empty.
func (s *Sketch) Max() float64 { return s.orNaN(s.max) }

func (s *Sketch) orNaN(f float64) float64 {
	if len(s.centroids) == 0 {
		return math.NaN()
	}
	return f
}
