package cf

import (
	"math/big"
	"math/rand/v2"
	"testing"
)

// TestCuckooBuckets compares with exact fractions: the smallest power of two of buckets that are filled to 95.5%.
func TestCuckooBuckets(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	load := big.NewRat(955, 1000)
	for range 10_000 {
		size := uint8(1 + rng.IntN(255))
		capacity := 1 + rng.Uint64()>>(24+rng.IntN(40))
		if rng.IntN(2) == 0 { // one that fills the buckets exactly, or one more or fewer
			size = uint8(25 * (1 + rng.IntN(10)))
			capacity = 191*uint64(size)/25<<rng.IntN(30) + uint64(rng.IntN(3)) - 1
		}
		need := new(big.Rat).SetFrac(new(big.Int).SetUint64(capacity), big.NewInt(int64(size)))
		need.Quo(need, load)
		want := uint64(1)
		for ; new(big.Rat).SetInt(new(big.Int).SetUint64(want)).Cmp(need) < 0; want *= 2 {
		}
		if want > CuckooMaxBuckets {
			want = 0
		}
		if got := CuckooBuckets(capacity, size); got != want {
			t.Errorf("%d items in buckets of %d: %d buckets, want %d", capacity, size, got, want)
		}
	}
}

// TestCuckooFilters: filter k is for capacity × expansion^k items, up to the largest filter, without an overflow.
func TestCuckooFilters(t *testing.T) {
	m := CuckooMeta{BaseCapacity: 1000, Expansion: 1, BucketSize: 2}
	for _, tt := range []struct {
		base      uint64
		expansion uint16
		filter    int
		want      uint64
	}{
		{1000, 1, 60_000, 1024}, {1000, 4, 0, 1024}, {1000, 4, 1, 4096}, {1000, 2, 21, 1 << 31}, {1000, 2, 22, 0},
		{1000, 1 << 15, 3, 0}, {1000, 1 << 15, 60_000, 0}, {1 << 63, 2, 1, 0}, {1, 1, 0, 1},
	} {
		m.BaseCapacity, m.Expansion = tt.base, tt.expansion
		if got := m.FilterBuckets(tt.filter); got != tt.want {
			t.Errorf("filter %d of %d items, expansion %d: %d buckets, want %d", tt.filter, tt.base, tt.expansion, got, tt.want)
		}
	}
}
