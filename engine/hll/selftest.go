package hll

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/basaltdb/basalt/cf"
)

// SelfTest checks registers and estimates with random numbers, without a database.
func SelfTest() error {
	if err := testRegisters(); err != nil {
		return err
	}
	return testEstimates(1_000_000)
}

// testRegisters writes random values to the registers of a segment, which must not affect their neighbours.
func testRegisters() error {
	s := make(segment, cf.HLLSegmentLen)
	var want [cf.HLLSegmentRegisters]uint8
	for range 100 {
		for _, i := range rand.Perm(len(want)) {
			want[i] = uint8(rand.IntN(64))
			s.set(i, want[i])
		}
		for i, w := range want {
			if got := s.get(i); got != w {
				return fmt.Errorf("register %d is %d and not %d", i, got, w)
			}
		}
	}
	return nil
}

// testEstimates adds distinct elements and compares the estimates at 1, 10, 100, ... elements with their number. With
// many elements, a deviation of six standard errors practically never happens. With few elements, an estimate is too
// small by about the number of elements that share a register: by two of ten in one of 250,000 tests, by six of a
// hundred in one of a million. So the tolerance is three higher, which makes a false failure rarer than one in ten
// billion.
func testEstimates(limit uint64) error {
	segments := make(segment, cf.HLLSegments*cf.HLLSegmentLen)
	seed := rand.Uint64()
	check := uint64(1)
	for n := uint64(1); n <= limit; n++ {
		var element [8]byte
		binary.LittleEndian.PutUint64(element[:], n^seed)
		segments.raise(place(element[:]))
		if n != check {
			continue
		}
		var h histogram
		for from := 0; from < len(segments); from += cf.HLLSegmentLen {
			h.add(segments[from:][:cf.HLLSegmentLen])
		}
		got, off := h.estimate(), math.Ceil(float64(n)*6*1.04/math.Sqrt(Registers))
		if n > 1 {
			off += 3
		}
		if math.Abs(float64(got)-float64(n)) > off {
			return fmt.Errorf("the estimate for %d elements is %d (seed %d)", n, got, seed)
		}
		check *= 10
	}
	return nil
}
