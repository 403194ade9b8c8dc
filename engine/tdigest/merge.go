package tdigest

import (
	"cmp"
	"math"
	"slices"
)

// Centroid represents observations that lie close together.
type Centroid struct {
	Mean   float64
	Weight float64 // number of observations, at least 1
}

// join adds the observations of another centroid.
func (c *Centroid) join(o Centroid) {
	c.Weight += o.Weight
	c.Mean = between(c.Mean, o.Mean, o.Weight/c.Weight)
}

// between returns the point at the fraction t of the distance from a to b. It is never outside [a, b], however large
// they are. The conversions to float64, here and elsewhere, keep the compiler from fusing operations, so that every CPU
// gives the same digits.
func between(a, b, t float64) float64 {
	d := b - a
	if math.IsInf(d, 0) { // the distance overflows a double, the point does not
		return float64(a*(1-t)) + float64(b*t)
	}
	return min(max(a+float64(t*d), min(a, b)), max(a, b))
}

// minCompression is the lower limit of δ.
const minCompression = 10

// compress merges neighbours in a list that is sorted by mean, in place, as far as the scale function allows:
//
//	k(q) = δ/2π · asin(2q-1)
//
// may grow by at most 1 over a centroid of more than one observation (Dunning and Ertl, "Computing Extremely Accurate
// Quantiles Using t-Digests"). So centroids are small at the ends, where quantiles must be exact, and their number is
// about δ. Kvrocks and Apache Arrow compress by the same rule.
func compress(list []Centroid, compression uint32) []Centroid {
	total := weightOf(list)
	norm := float64(max(compression, minCompression)) / (2 * math.Pi)
	out := list[:0] // never longer than the part of list that was read
	sum, limit := 0.0, -1.0
	for _, c := range list {
		next := sum + c.Weight
		if next <= limit {
			out[len(out)-1].join(c)
		} else {
			// k is the limit for a centroid that begins here. Beyond the end of the scale the sine decreases again, and
			// the last centroid takes all that is left.
			k := float64(norm * math.Asin(2*min(sum/total, 1)-1))
			reach := total * (math.Sin((k+1)/norm) + 1) / 2
			if reach <= limit {
				reach = total
			}
			limit = reach
			out = append(out, c)
		}
		sum = next
	}
	return out
}

func weightOf(list []Centroid) (sum float64) {
	for i := range list {
		sum += list[i].Weight
	}
	return sum
}

// merge merges observations into a list that is sorted by mean, and compresses it.
func merge(list []Centroid, observations []float64, compression uint32) []Centroid {
	slices.Sort(observations)
	all := make([]Centroid, 0, len(list)+len(observations))
	i := 0
	for _, f := range observations {
		for i < len(list) && list[i].Mean < f {
			all = append(all, list[i])
			i++
		}
		all = append(all, Centroid{f, 1})
	}
	return compress(append(all, list[i:]...), compression)
}

// mergeAll sorts the centroids of several concatenated lists and compresses them.
func mergeAll(all []Centroid, compression uint32) []Centroid {
	slices.SortStableFunc(all, func(a, b Centroid) int { return cmp.Compare(a.Mean, b.Mean) })
	return compress(all, compression)
}
