package loadgen

import (
	"math/bits"
	"time"
)

// subBits gives each power of two 2^subBits buckets: a percentile is at most 1/64 too high.
const subBits = 6

// Histogram counts durations in buckets whose width grows with the duration, as HdrHistogram does. The zero value is
// empty and ready to use.
type Histogram struct {
	counts [(64 - subBits + 1) << subBits]int64
	total  int64
}

func (h *Histogram) Add(d time.Duration, n int64) {
	h.counts[bucket(uint64(max(d, 0)))] += n
	h.total += n
}

// Total is the number of durations counted.
func (h *Histogram) Total() int64 { return h.total }

// Percentile is the duration that p percent of the durations do not exceed; 0 for an empty histogram.
func (h *Histogram) Percentile(p float64) time.Duration {
	rank := int64(p / 100 * float64(h.total))
	if float64(rank) < p/100*float64(h.total) || rank == 0 {
		rank++
	}
	for i, n := range h.counts {
		if rank -= n; n > 0 && rank <= 0 {
			return time.Duration(bucketEnd(i))
		}
	}
	return 0
}

// bucket is the index of v's bucket: v itself while it is below 2^(subBits+1), then its exponent and its first
// subBits+1 bits.
func bucket(v uint64) int {
	shift := max(bits.Len64(v)-subBits-1, 0)
	return shift<<subBits + int(v>>shift)
}

// bucketEnd is the largest value of a bucket.
func bucketEnd(i int) uint64 {
	shift := max(i>>subBits-1, 0)
	return (uint64(i-shift<<subBits)+1)<<shift - 1
}
