package hll

import (
	"encoding/binary"
	"math/bits"
	"math/rand/v2"
	"testing"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/internal/murmur"
	"github.com/basaltdb/basalt/internal/require"
)

// The registers and ranks that PFDEBUG GETREG of redis-server 7.0 shows for HyperLogLogs of one element.
func TestPlace(t *testing.T) {
	for _, tt := range places {
		if register, rank := place([]byte(tt.element)); register != tt.register || rank != tt.rank {
			t.Errorf("%q: register %d rank %d, want %d %d", tt.element, register, rank, tt.register, tt.rank)
		}
	}
}

// The rank is that of the bits behind the register's number, however long the element is.
func TestRanks(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for range 20000 {
		b := make([]byte, r.IntN(40))
		for i := range b {
			b[i] = byte(r.Uint32())
		}
		h := murmur.Sum64(b, hashSeed)
		register, rank := place(b)
		want := min(bits.TrailingZeros64(h>>14)+1, 51)
		if register != int(h%16384) || int(rank) != want {
			t.Fatalf("%x: register %d rank %d, the hash is %#x", b, register, rank, h)
		}
	}
}

func TestRegisters(t *testing.T) {
	require.NoError(t, SelfTest())
	// The lowest bits of a byte first: registers 0 to 3 in three bytes.
	s := make(segment, cf.HLLSegmentLen)
	for i, v := range []uint8{1, 2, 3, 63} {
		if !s.raise(i, v) || s.raise(i, v) || s.raise(i, v-1) || s.get(i) != v {
			t.Errorf("register %d is %d, want %d", i, s.get(i), v)
		}
	}
	if want := uint32(1 | 2<<6 | 3<<12 | 63<<18); binary.LittleEndian.Uint32(s) != want {
		t.Errorf("the registers are %#x, want %#x", binary.LittleEndian.Uint32(s), want)
	}
	s.set(cf.HLLSegmentRegisters-1, 63)
	if s[cf.HLLSegmentLen-1] != 63<<2 {
		t.Errorf("the last byte is %#x", s[cf.HLLSegmentLen-1])
	}
}

// Counting and merging go over all registers in their order.
func TestWholeSegments(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 1))
	s := make(segment, cf.HLLSegmentLen)
	have := make([]uint8, cf.HLLSegmentRegisters)
	var want, got histogram
	merged := make([]uint8, cf.HLLSegmentRegisters)
	for i := range have {
		have[i], merged[i] = uint8(r.IntN(64)), uint8(r.IntN(64))
		s.set(i, have[i])
		want[have[i]]++
	}
	got.add(s)
	if got != want {
		t.Errorf("histogram %v, want %v", got, want)
	}
	before := append([]uint8(nil), merged...)
	s.mergeInto(merged)
	for i := range merged {
		if merged[i] != max(before[i], have[i]) {
			t.Fatalf("register %d: %d and %d give %d", i, before[i], have[i], merged[i])
		}
	}
}

func TestEstimate(t *testing.T) {
	with := func(counts map[int]int) (h histogram) {
		left := Registers
		for v, n := range counts {
			h[v] = n
			left -= n
		}
		h[0] += left
		return h
	}
	for _, tt := range []struct {
		name string
		h    histogram
		want uint64
	}{
		{"empty", with(nil), 0},
		{"one", with(map[int]int{1: 1}), 1},
		{"two", with(map[int]int{1: 1, 5: 1}), 2},
		// m alpha / (1/2 * 2^-1 + 1/4 * 2^-2 + 1/4 * 2^-3)
		{"none is zero", with(map[int]int{1: Registers / 2, 2: Registers / 4, 3: Registers / 4}), 34381},
		{"all are full", with(map[int]int{51: Registers}), 1<<63 - 1024},
	} {
		if got := tt.h.estimate(); got != tt.want {
			t.Errorf("%s: %d, want %d", tt.name, got, tt.want)
		}
	}
}

// places are elements with the register that each raises, and how far.
var places = []struct {
	element  string
	register int
	rank     uint8
}{
	{"", 5938, 2},
	{"a", 12711, 2},
	{"b", 15780, 1},
	{"hello", 9216, 1},
	{"1234567", 10327, 3},
	{"12345678", 10579, 3},
	{"123456789", 9293, 2},
	{"longer than eight bytes", 7957, 1},
}
