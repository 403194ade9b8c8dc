package crc64

import (
	"math/bits"
	"math/rand/v2"
	"testing"
)

// slow is the definition, bit by bit.
func slow(crc uint64, p []byte) uint64 {
	const polynomial = 0xad93d23594c935a9
	for _, c := range p {
		crc ^= uint64(c)
		for range 8 {
			if crc&1 != 0 {
				crc = crc>>1 ^ bits.Reverse64(polynomial)
			} else {
				crc >>= 1
			}
		}
	}
	return crc
}

func TestUpdate(t *testing.T) {
	for _, tt := range []struct {
		text string
		want uint64
	}{
		{"", 0},
		{"123456789", 0xe9c6d914c4b8d9ca},
		{"\x00\x00", 0},
	} {
		if got := Update(0, []byte(tt.text)); got != tt.want {
			t.Errorf("%q: %x, want %x", tt.text, got, tt.want)
		}
	}
	r := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		b := make([]byte, r.IntN(300))
		for i := range b {
			b[i] = byte(r.Uint32())
		}
		want := slow(0, b)
		at := r.IntN(len(b) + 1)
		if got := Update(0, b); got != want {
			t.Fatalf("%x: %x, want %x", b, got, want)
		}
		if got := Update(Update(0, b[:at]), b[at:]); got != want {
			t.Fatalf("%x in two parts: %x, want %x", b, got, want)
		}
	}
}
