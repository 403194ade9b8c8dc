package tool

import (
	"math"
	"testing"
)

func TestMeans(t *testing.T) {
	for _, tt := range []struct {
		in   []float64
		want float64
	}{{[]float64{3}, 3}, {[]float64{9, 1, 5}, 5}, {[]float64{4, 1, 2, 100}, 3}} {
		if got := Median(tt.in); got != tt.want {
			t.Errorf("Median(%v) = %v, want %v", tt.in, got, tt.want)
		}
	}
	if got := GeometricMean([]float64{0.5, 8}); math.Abs(got-2) > 1e-9 {
		t.Errorf("mean %v", got)
	}
	if !math.IsNaN(Median(nil)) || !math.IsNaN(GeometricMean(nil)) {
		t.Error("means of no numbers")
	}
}
