package tdigest

import "math"

// Sketch is a t-digest in memory, for estimates. When centroids stand for several observations, all estimates except
// the smallest and the largest observation are approximate. The weight between two centroids is spread evenly, except
// that a centroid of one observation lies exactly at its mean: RedisBloom estimates the same way.
type Sketch struct {
	centroids []Centroid // sorted by mean
	weight    float64    // number of observations
	min, max  float64
}

// Quantile returns the value that a fraction q of the observations, 0 to 1, do not exceed; NaN when the sketch is
// empty.
func (s *Sketch) Quantile(q float64) float64 { return s.valueAt(float64(q * s.weight)) }

// valueAt returns the observation at a position in the sorted order, 0 to the weight.
func (s *Sketch) valueAt(index float64) float64 {
	n := len(s.centroids)
	switch {
	case n == 0:
		return math.NaN()
	case n == 1:
		return s.centroids[0].Mean
	case index < 1:
		return s.min
	case index > s.weight-1:
		return s.max
	}
	first, last := s.centroids[0], s.centroids[n-1]
	// One observation of the outermost centroids is exactly the minimum or the maximum.
	if half := first.Weight / 2; first.Weight > 1 && index < half {
		return between(s.min, first.Mean, (index-1)/(half-1))
	}
	if half := last.Weight / 2; last.Weight > 1 && s.weight-index <= half {
		if half == 1 {
			return s.max
		}
		return between(s.max, last.Mean, (s.weight-index-1)/(half-1))
	}
	at := first.Weight / 2 // position of the centre of centroid i
	for i := range n - 1 {
		a, b := s.centroids[i], s.centroids[i+1]
		next := at + (a.Weight+b.Weight)/2
		if next <= index {
			at = next
			continue
		}
		from, to := at, next
		if a.Weight == 1 {
			if index-at < 0.5 {
				return a.Mean
			}
			from += 0.5
		}
		if b.Weight == 1 {
			if next-index <= 0.5 {
				return b.Mean
			}
			to -= 0.5
		}
		return between(a.Mean, b.Mean, (index-from)/(to-from))
	}
	// Only rounding leads here: index is the centre of the last centroid.
	return last.Mean
}

// below returns the number of observations less than v plus half the number of those equal to v.
func (s *Sketch) below(v float64) float64 {
	n := len(s.centroids)
	switch {
	case v < s.min:
		return 0
	case v > s.max:
		return s.weight
	}
	if n == 1 {
		if s.max > s.min {
			return s.weight * ((v - s.min) / (s.max - s.min))
		}
		return s.weight / 2
	}
	first, last := s.centroids[0], s.centroids[n-1]
	if v < first.Mean {
		if v == s.min {
			return 0.5
		}
		return 1 + float64(fraction(s.min, v, first.Mean)*(first.Weight/2-1))
	}
	if v > last.Mean {
		if v == s.max {
			return s.weight - 0.5
		}
		return s.weight - 1 - float64(fraction(s.max, v, last.Mean)*(last.Weight/2-1))
	}
	sum := 0.0 // weight of the centroids before i
	for i := 0; i < n; i++ {
		a := s.centroids[i]
		if a.Mean == v {
			same := 0.0
			for ; i < n && s.centroids[i].Mean == v; i++ {
				same += s.centroids[i].Weight
			}
			return sum + same/2
		}
		if i < n-1 && v < s.centroids[i+1].Mean {
			b := s.centroids[i+1]
			from, to := sum+a.Weight/2, sum+a.Weight+b.Weight/2
			if a.Weight == 1 && b.Weight == 1 {
				return sum + 1
			}
			if a.Weight == 1 {
				from += 0.5
			}
			if b.Weight == 1 {
				to -= 0.5
			}
			return from + float64((to-from)*fraction(a.Mean, v, b.Mean))
		}
		sum += a.Weight
	}
	return s.weight - 0.5 // unreachable: v is at most the last mean
}

// fraction returns the position of v between a (0) and b (1).
func fraction(a, v, b float64) float64 {
	d := b - a
	if math.IsInf(d, 0) {
		return (v/2 - a/2) / (b/2 - a/2)
	}
	return (v - a) / d
}

// CDF returns the fraction of the observations that are less than v, those equal to v counted half; NaN when the sketch
// is empty.
func (s *Sketch) CDF(v float64) float64 {
	if len(s.centroids) == 0 {
		return math.NaN()
	}
	return s.below(v) / s.weight
}

// Special results of Rank and RevRank.
const (
	NoRank    = -1 // v is less than all observations (Rank), or greater (RevRank)
	EmptyRank = -2 // the sketch is empty
)

// Rank returns the number of observations less than v plus half the number of those equal to v, rounded down.
func (s *Sketch) Rank(v float64) int64 {
	switch {
	case len(s.centroids) == 0:
		return EmptyRank
	case v < s.min:
		return NoRank
	case v > s.max:
		return int64(s.weight)
	}
	return int64(math.Ceil(s.below(v) - 0.5))
}

// RevRank returns the number of observations greater than v plus half the number of those equal to v, rounded down.
func (s *Sketch) RevRank(v float64) int64 {
	switch {
	case len(s.centroids) == 0:
		return EmptyRank
	case v < s.min:
		return int64(s.weight)
	case v > s.max:
		return NoRank
	}
	return int64(s.weight - math.Floor(s.below(v)+0.5))
}

// ByRank returns the observation of a rank, counted from 0 for the smallest one; +Inf beyond the last one, NaN when the
// sketch is empty.
func (s *Sketch) ByRank(rank uint64) float64 {
	switch {
	case len(s.centroids) == 0:
		return math.NaN()
	case rank == 0:
		return s.min
	case float64(rank) >= s.weight:
		return math.Inf(1)
	}
	return s.valueAt(float64(rank))
}

// ByRevRank returns the observation of a rank, counted from 0 for the largest one; -Inf beyond the last one, NaN when
// the sketch is empty.
func (s *Sketch) ByRevRank(rank uint64) float64 {
	switch {
	case len(s.centroids) == 0:
		return math.NaN()
	case rank == 0:
		return s.max
	case float64(rank) >= s.weight:
		return math.Inf(-1)
	}
	return s.valueAt(s.weight - float64(rank) - 1)
}

// TrimmedMean returns the mean of the observations between two quantiles; NaN when the sketch is empty.
func (s *Sketch) TrimmedMean(low, high float64) float64 {
	n := len(s.centroids)
	switch {
	case n == 0:
		return math.NaN()
	case n == 1:
		return s.centroids[0].Mean
	}
	from, to := math.Floor(s.weight*low), math.Ceil(s.weight*high)
	mean := Centroid{}
	sum := 0.0
	for _, c := range s.centroids {
		w := min(sum+c.Weight, to) - max(sum, from)
		sum += c.Weight
		switch {
		case w <= 0:
		case mean.Weight == 0:
			mean = Centroid{c.Mean, w}
		default:
			mean.join(Centroid{c.Mean, w})
		}
	}
	if mean.Weight == 0 {
		return math.NaN()
	}
	return mean.Mean
}
