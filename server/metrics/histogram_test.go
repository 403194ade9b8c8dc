package metrics

import (
	"math/rand/v2"
	"testing"
	"time"
)

func TestHistogramBuckets(t *testing.T) {
	last := -1
	for ns := uint64(0); ns < 1<<31; ns += 1 + ns/61 {
		b := histBucket(ns)
		if b < last || b >= histBuckets {
			t.Fatalf("%d ns is in bucket %d after %d", ns, b, last)
		}
		last = b
		if ns > histMax {
			continue
		}
		high := histBound(b)
		if ns > high || float64(high-ns) > float64(ns)/16+1 {
			t.Fatalf("%d ns is in bucket %d, which ends at %d", ns, b, high)
		}
		if b > 0 && ns <= histBound(b-1) {
			t.Fatalf("%d ns is in bucket %d, but that before it ends at %d", ns, b, histBound(b-1))
		}
	}
	if last != histBuckets-1 {
		t.Errorf("the last bucket used is %d of %d", last, histBuckets)
	}
}

func TestHistogramPercentiles(t *testing.T) {
	var h Histogram
	r := rand.New(rand.NewPCG(1, 2))
	for _, ms := range r.Perm(1000) {
		h.Add(time.Duration(ms+1)*time.Millisecond, 1)
	}
	for _, p := range []float64{1, 50, 99, 99.9, 100} {
		want := p * 10
		if got := float64(h.Percentile(p).Milliseconds()); got < want*0.99-1 || got > want*1.07+1 {
			t.Errorf("p%v = %v ms, want %v", p, got, want)
		}
	}
	if got := (&Histogram{}).Percentile(50); got != 0 {
		t.Errorf("of nothing: %v", got)
	}
	h.Add(time.Hour, 1000)
	if got := h.Percentile(99); got != histMax {
		t.Errorf("an hour counts as %v", got)
	}
}

// The bounds are those of redis-server: 1, 2, 4, ..., 16, 33, ... 1073741 microseconds.
func TestHistogramAsRedisShowsIt(t *testing.T) {
	var h Histogram
	for _, d := range []time.Duration{500, 33_000, 33_010, 3 * time.Millisecond, 100 * time.Millisecond,
		1200 * time.Millisecond} {
		h.Add(d, 2)
	}
	usec, counts, calls := h.Cumulative()
	wantUsec, wantCounts := []int64{1, 66, 4227, 135266, 1073741}, []int64{2, 6, 8, 10, 12}
	if calls != 12 || len(usec) != len(wantUsec) {
		t.Fatalf("%d calls, %v %v", calls, usec, counts)
	}
	for i := range usec {
		if usec[i] != wantUsec[i] || counts[i] != wantCounts[i] {
			t.Fatalf("%v %v, want %v %v", usec, counts, wantUsec, wantCounts)
		}
	}
}
