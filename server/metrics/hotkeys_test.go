package metrics

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

// Two keys get a tenth and a twenty-fifth of the commands, many others the rest: both are found, in order, with about
// their shares.
func TestHotKeys(t *testing.T) {
	var h HotKeys
	now := time.Unix(1000, 0)
	random := rand.New(rand.NewPCG(1, 2))
	for range 100_000 {
		key := fmt.Sprintf("cold-%d", random.IntN(1_000_000))
		switch n := random.IntN(100); {
		case n < 10:
			key = "hot"
		case n < 14:
			key = "warm"
		}
		h.Add("ns", []byte(key), now)
	}
	top := h.Top(2, now)
	if len(top) != 2 || top[0].Key != "hot" || top[1].Key != "warm" || top[0].Namespace != "ns" {
		t.Fatalf("%+v", top)
	}
	if math.Abs(top[0].Share-0.1) > 0.01 || math.Abs(top[1].Share-0.04) > 0.01 {
		t.Errorf("%+v", top)
	}
	if len(h.names) != hotKeys || len(h.byName) != hotKeys {
		t.Errorf("%d counters, %d names", len(h.names), len(h.byName))
	}
}

// A key that is not used any more gives way to one that is.
func TestHotKeysForget(t *testing.T) {
	var h HotKeys
	now := time.Unix(1000, 0)
	add := func(key string, n int) {
		for range n {
			h.Add("ns", []byte(key), now)
		}
	}
	add("old", 1000)
	now = now.Add(5 * hotHalf) // 31 are left
	add("new", 100)
	if top := h.Top(9, now); len(top) != 2 || top[0].Key != "new" || top[0].Share < 0.7 {
		t.Errorf("%+v", top)
	}
	now = now.Add(10 * hotHalf)
	if top := h.Top(9, now); len(top) != 0 {
		t.Errorf("after a long time: %+v", top)
	}
}

func TestHotKeysBounds(t *testing.T) {
	var h HotKeys
	now := time.Unix(1000, 0)
	for range hotSure {
		h.Add("a", make([]byte, maxHotKey+1), now)
		h.Add("a", []byte("bc"), now)
		h.Add("ab", []byte("c"), now) // another key, though the bytes are the same
	}
	if top := h.Top(9, now); len(top) != 2 || top[0].Share != 0.5 {
		t.Errorf("%+v", top)
	}
}

// The scale is Redis's: 5 is new, 10 about a hundred accesses, 255 a million.
func TestFrequency(t *testing.T) {
	now := time.Unix(1000, 0)
	for _, tt := range []struct {
		samples int
		want    int64
	}{{1, 0}, {hotSure, 17}, {1_000_000 / hotEvery, 255}, {10_000_000 / hotEvery, 255}} {
		var h HotKeys
		for range tt.samples {
			h.Add("ns", []byte("k"), now)
		}
		if got := h.Frequency("ns", []byte("k"), now); got < tt.want-8 || got > tt.want {
			t.Errorf("%d samples: %d, want %d", tt.samples, got, tt.want)
		}
		if got := h.Frequency("other", []byte("k"), now); got != 0 {
			t.Errorf("another namespace: %d", got)
		}
	}
	var h HotKeys
	if n := testing.AllocsPerRun(100, func() { h.Frequency("ns", []byte("k"), now) }); n > 1 {
		t.Errorf("%v allocations", n)
	}
}

// The mean of NextSample is hotEvery.
func TestNextSample(t *testing.T) {
	sum := 0
	const n = 100_000
	for range n {
		s := NextSample()
		if s < 1 || s >= 2*hotEvery {
			t.Fatal(s)
		}
		sum += s
	}
	if mean := float64(sum) / n; math.Abs(mean-hotEvery) > 5 { // ten times the standard error
		t.Errorf("mean %v", mean)
	}
}

func BenchmarkHotKeys(b *testing.B) {
	for _, keys := range []int{100, 1_000_000} {
		b.Run(fmt.Sprint(keys), func(b *testing.B) {
			var h HotKeys
			names := make([][]byte, 1<<16)
			for i := range names {
				names[i] = fmt.Appendf(nil, "key:%d", rand.IntN(keys))
			}
			now := time.Unix(1000, 0)
			b.ReportAllocs()
			for i := range b.N {
				h.Add("ns", names[i%len(names)], now)
			}
		})
	}
}
