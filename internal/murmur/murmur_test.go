package murmur

import "testing"

// FuzzSum64 compares with the description, with the seeds in use.
func FuzzSum64(f *testing.F) {
	for _, s := range []string{"", "a", "1234567", "12345678", "123456789", "\x00\xff"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, seed := range []uint64{0, 0xadc83b19} {
			if got, want := Sum64(b, seed), slowSum64(b, seed); got != want {
				t.Errorf("%x with seed %#x: %#x, want %#x", b, seed, got, want)
			}
		}
	})
}

// slowSum64 is MurmurHash64A bit by bit from its description.
func slowSum64(b []byte, seed uint64) uint64 {
	const m = uint64(0xc6a4a7935bd1e995)
	h := seed ^ m*uint64(len(b))
	for i := 0; i < len(b); i += 8 {
		var k uint64
		for j := i; j < min(i+8, len(b)); j++ {
			k += uint64(b[j]) << (8 * (j - i))
		}
		if len(b)-i >= 8 {
			k *= m
			k ^= k >> 47
			k *= m
		}
		h ^= k
		h *= m
	}
	h ^= h >> 47
	h *= m
	return h ^ h>>47
}
