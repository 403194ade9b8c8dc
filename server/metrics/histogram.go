package metrics

import (
	"math/bits"
	"sync/atomic"
	"time"
)

// Histogram counts durations in buckets whose widths are a sixteenth of their octave, so a percentile is right to 6
// percent. It has room for one nanosecond to one second; what takes longer counts as a second, as in Redis. The zero
// value is ready; any number of goroutines may use it.
type Histogram struct {
	buckets [histBuckets]atomic.Int64
}

const (
	histSub     = 4 // bits of a bucket within an octave
	histOctaves = 30
	histMax     = 1<<histOctaves - 1 // nanoseconds, 1.07 seconds
	histBuckets = (histOctaves - histSub + 1) << histSub
)

// histBucket returns the bucket of a duration in nanoseconds. Those below 16 have one each.
func histBucket(ns uint64) int {
	if ns < 1<<histSub {
		return int(ns)
	}
	ns = min(ns, histMax)
	octave := bits.Len64(ns) - 1 // at least histSub
	return (octave-histSub+1)<<histSub + int(ns>>(octave-histSub))&(1<<histSub-1)
}

// histBound returns the highest nanoseconds of a bucket.
func histBound(bucket int) uint64 {
	if bucket < 1<<histSub {
		return uint64(bucket)
	}
	octave := bucket>>histSub + histSub - 1
	width := uint64(1) << (octave - histSub)
	return 1<<octave + uint64(bucket&(1<<histSub-1)+1)*width - 1
}

// Add counts n durations.
func (h *Histogram) Add(d time.Duration, n int64) {
	h.buckets[histBucket(uint64(max(d, 0)))].Add(n)
}

// histogram returns the command's histogram, made when it is first needed.
func (s *commandStats) histogram() *Histogram {
	if h := s.latency.Load(); h != nil {
		return h
	}
	s.latency.CompareAndSwap(nil, &Histogram{})
	if h := s.latency.Load(); h != nil {
		return h
	}
	return &Histogram{} // the statistics were reset meanwhile
}

// Percentile returns the duration that p percent (0 to 100) of the calls did not exceed.
func (h *Histogram) Percentile(p float64) time.Duration {
	var counts [histBuckets]int64
	var total int64
	for i := range h.buckets {
		counts[i] = h.buckets[i].Load()
		total += counts[i]
	}
	if total == 0 {
		return 0
	}
	want := max(int64(p/100*float64(total)+0.5), 1)
	var sum int64
	for i, n := range counts {
		if sum += n; sum >= want {
			return time.Duration(histBound(i))
		}
	}
	return histMax
}

// Cumulative returns Redis's view of the histogram: how many calls took up to 1, 2, 4, 8, 16, 33, ... microseconds,
// leaving out the bounds up to which there are no more calls than up to the one before, and how many calls there are.
// (Redis's bounds are powers of two of 1024 ns, each with the width of a bucket of its own on top.)
func (h *Histogram) Cumulative() (usec, counts []int64, calls int64) {
	bucket := 0
	var before int64
	for octave := 10; octave <= histOctaves; octave++ {
		for ; bucket < histBuckets && histBound(bucket) < 1<<octave; bucket++ {
			calls += h.buckets[bucket].Load()
		}
		if calls == before {
			continue
		}
		before = calls
		bound := int64(1<<octave + 1<<(octave-7))
		if octave == histOctaves {
			bound = 1 << octave // the highest value that is kept
		}
		usec, counts = append(usec, bound/1000), append(counts, calls)
	}
	return usec, counts, calls
}

// Bounds are the upper bounds, in seconds, of the buckets that [Histogram.Buckets] returns: powers of two of a
// nanosecond from 1 us to 0.5 s, and 1 s. They are the same for all histograms, as Prometheus needs it.
var Bounds = func() (bounds [histOctaves - 9]float64) {
	for i := range bounds {
		bounds[i] = float64(upTo(i)) / 1e9
	}
	return bounds
}()

// upTo returns the bound of a bucket of Bounds in nanoseconds. What took longer than a second is in the last bucket of
// the histogram, so that one is behind the last bound.
func upTo(i int) uint64 {
	if octave := i + 10; octave < histOctaves {
		return 1 << octave
	}
	return histBound(histBuckets-2) + 1
}

// Buckets returns how many calls took up to each of Bounds, and how many calls there are.
func (h *Histogram) Buckets() (counts [len(Bounds)]uint64, calls uint64) {
	bucket := 0
	for i := range counts {
		for ; histBound(bucket) < upTo(i); bucket++ {
			calls += uint64(h.buckets[bucket].Load())
		}
		counts[i] = calls
	}
	for ; bucket < histBuckets; bucket++ {
		calls += uint64(h.buckets[bucket].Load())
	}
	return counts, calls
}
