package bloom

import (
	"math"
	"testing"
)

// Vectors of the reference implementation (xxhsum -H1), of lengths on both sides of the steps of the algorithm.
func TestHash(t *testing.T) {
	sanity := func(n int) []byte { // the generator of the reference implementation's own test
		b := make([]byte, n)
		g := uint64(2654435761)
		for i := range b {
			b[i] = byte(g >> 56)
			g *= 11400714785074694797
		}
		return b
	}
	for _, tt := range []struct {
		in   []byte
		want uint64
	}{
		{nil, 0xef46db3751d8e999},
		{[]byte("a"), 0xd24ec4f1a98c6e5b},
		{[]byte("abc"), 0x44bc2cf5ad770999},
		{[]byte("Nobody inspects the spammish repetition"), 0xfbcea83c8a378bf1},
		{sanity(1), 0xe934a84adb052768},
		{sanity(4), 0x9136a0dca57457ee},
		{sanity(14), 0x8282dcc4994e35c8},
		{sanity(222), 0xb641ae8cb691c174},
	} {
		if got := hash(tt.in); got != tt.want {
			t.Errorf("%d bytes: %x, want %x", len(tt.in), got, tt.want)
		}
	}
	if n := testing.AllocsPerRun(10, func() { hash([]byte("some item of more than thirty-two bytes")) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// The lengths that Kvrocks replied with BF.INFO SIZE, and the limits.
func TestFilterLen(t *testing.T) {
	for _, tt := range []struct {
		items uint32
		rate  float64
		want  int
	}{
		{100, 0.01, 128}, {50, 0.001, 128}, {300, 0.01, 512}, {5, 0.1, 32}, {1, 0.5, 32},
		// as Kvrocks has them, although they err a bit more often than promised
		{1000, 0.001, 2048}, {100_000, 0.01, 128 << 10},
		{1_000_000, 0.01, 2 << 20}, {1_000_000, 0.001, 4 << 20}, {1_000_000, 0.0001, 4 << 20}, {1_000_000, 0.00001,
			8 << 20}, {10_000_000, 0.0000001, 128 << 20},
		{math.MaxUint32, 0.01, maxFilter}, {1, 1e-300, maxFilter}, {1, math.SmallestNonzeroFloat64, maxFilter}, {1,
			math.Nextafter(1, 0), 32},
		{0, 0.01, 32},
	} {
		if got := filterLen(tt.items, tt.rate); got != tt.want {
			t.Errorf("%d items at %g: %d, want %d", tt.items, tt.rate, got, tt.want)
		}
		if !validLen(tt.want) {
			t.Errorf("a length of %d is not valid", tt.want)
		}
	}
	for _, n := range []int{0, 1, 31, 33, 48, maxFilter + 1, 2 * maxFilter} {
		if validLen(n) {
			t.Errorf("a length of %d is valid", n)
		}
	}
}

func TestBlock(t *testing.T) {
	for _, h := range []uint64{0, 1, math.MaxUint64, 0x123456789abcdef0, hash([]byte("x"))} {
		for n := minFilter; n <= maxFilter; n *= 2 {
			if at := blockAt(h, n); at%blockLen != 0 || int(at)+blockLen > n {
				t.Errorf("the block of %x in %d bytes is at %d", h, n, at)
			}
		}
		var block [blockLen]byte
		if has(block[:], h) {
			t.Errorf("an empty block has %x", h)
		}
		set(block[:], h)
		if !has(block[:], h) {
			t.Errorf("a block does not have %x", h)
		}
		for i := range 8 {
			b := block
			clear(b[4*i : 4*i+4])
			if has(b[:], h) {
				t.Errorf("a block without the bit in word %d has %x", i, h)
			}
		}
	}
}

// The error rate that is promised is kept when a filter is as full as it may be, for the usual rates.
func TestErrorRate(t *testing.T) {
	if testing.Short() {
		t.Skip("a million items")
	}
	const items = 1_000_000
	for _, rate := range []float64{0.2, 0.05, 0.015, 0.01, 0.001, 0.00043, 0.00001} {
		filter := make([]byte, filterLen(items, rate))
		word := make([]byte, 8)
		item := func(n uint64) uint64 {
			for i := range word {
				word[i] = byte(n >> (8 * i))
			}
			return hash(word)
		}
		for i := range uint64(items) {
			h := item(i)
			at := blockAt(h, len(filter))
			set(filter[at:at+blockLen], h)
		}
		wrong := 0
		for i := range uint64(items) {
			h := item(1<<40 + i)
			at := blockAt(h, len(filter))
			if has(filter[at:at+blockLen], h) {
				wrong++
			}
		}
		got, calculated := float64(wrong)/items, errorRate(items, len(filter))
		t.Logf("promised %g, calculated %.2g, measured %g in %d KiB", rate, calculated, got, len(filter)>>10)
		if math.Abs(got-calculated) > calculated/20+5/math.Sqrt(items)*math.Sqrt(calculated) {
			t.Errorf("calculated %g, measured %g", calculated, got)
		}
		if got > rate {
			t.Errorf("promised %g, measured %g", rate, got)
		}
	}
}
