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

// point is a vector between which and others distances are measured.
type point struct {
	metric uint8
	v      []float64
	square float64 // the inner product of v with itself
}

func newPoint(metric uint8, v []float64) point { return point{metric, v, dot(v, v)} }

// to returns the distance to another vector: the Euclidean distance, the negative inner product, or 1 minus the cosine,
// as Kvrocks defines them. A distance that is not a number, such as the cosine of a vector of zeros, is infinite, so
// that all distances have an order. It is the same in both directions.
func (p *point) to(q *point) (d float64) {
	if len(p.v) != len(q.v) {
		return math.Inf(1)
	}
	switch p.metric {
	case MetricL2:
		d = math.Sqrt(squares(p.v, q.v))
	case MetricIP:
		d = -dot(p.v, q.v)
	default:
		d = 1 - dot(p.v, q.v)/math.Sqrt(p.square*q.square)
	}
	if math.IsNaN(d) {
		return math.Inf(1)
	}
	return d
}

// dot returns the inner product of two vectors of one length. Four sums keep the CPU busy, because each addition waits
// for the one before it.
func dot(a, b []float64) float64 {
	var s0, s1, s2, s3 float64
	b = b[:len(a)]
	i := 0
	for ; i <= len(a)-8; i += 8 {
		x, y := a[i:i+8:i+8], b[i:i+8:i+8]
		s0 += x[0] * y[0]
		s1 += x[1] * y[1]
		s2 += x[2] * y[2]
		s3 += x[3] * y[3]
		s0 += x[4] * y[4]
		s1 += x[5] * y[5]
		s2 += x[6] * y[6]
		s3 += x[7] * y[7]
	}
	for ; i < len(a); i++ {
		s0 += a[i] * b[i]
	}
	return s0 + s1 + (s2 + s3)
}

// squares returns the sum of the squares of the differences of two vectors of one length.
func squares(a, b []float64) float64 {
	var s0, s1, s2, s3 float64
	b = b[:len(a)]
	i := 0
	for ; i <= len(a)-8; i += 8 {
		x, y := a[i:i+8:i+8], b[i:i+8:i+8]
		d0, d1, d2, d3 := x[0]-y[0], x[1]-y[1], x[2]-y[2], x[3]-y[3]
		s0 += d0 * d0
		s1 += d1 * d1
		s2 += d2 * d2
		s3 += d3 * d3
		d0, d1, d2, d3 = x[4]-y[4], x[5]-y[5], x[6]-y[6], x[7]-y[7]
		s0 += d0 * d0
		s1 += d1 * d1
		s2 += d2 * d2
		s3 += d3 * d3
	}
	for ; i < len(a); i++ {
		d := a[i] - b[i]
		s0 += d * d
	}
	return s0 + s1 + (s2 + s3)
}
