package search

import "math"

// The metrics of vectors, with their numbers on disk.
const (
	MetricL2     = 0
	MetricIP     = 1
	MetricCosine = 2
)

// Float64Vector is the number on disk of the only type of vectors.
const Float64Vector = 1

// point is a vector from which distances are measured.
type point struct {
	metric uint8
	v      []float64
	square float64 // the sum of the squares
}

func newPoint(metric uint8, v []float64) point {
	p := point{metric: metric, v: v}
	for _, x := range v {
		p.square += x * x
	}
	return p
}

// to returns the distance to a vector: the Euclidean distance, the negative inner product, or 1 minus the cosine, as
// Kvrocks defines them. A distance that is not a number, such as the cosine of a vector of zeros, is infinite, so that
// all distances have an order.
func (p *point) to(v []float64) (d float64) {
	if len(v) != len(p.v) {
		return math.Inf(1)
	}
	var sum, square float64
	switch p.metric {
	case MetricL2:
		for i, x := range p.v {
			diff := x - v[i]
			sum += diff * diff
		}
		d = math.Sqrt(sum)
	case MetricIP:
		for i, x := range p.v {
			sum += x * v[i]
		}
		d = -sum
	default:
		for i, x := range p.v {
			y := v[i]
			sum += x * y
			square += y * y
		}
		d = 1 - sum/math.Sqrt(p.square*square)
	}
	if math.IsNaN(d) {
		return math.Inf(1)
	}
	return d
}
