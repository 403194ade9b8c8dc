package rocks

import (
	"math/rand/v2"
	"testing"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/compaction"
)

// TestSettledAsInGo holds the native side to the rule that is in Go, on records of every type, whole, cut off and with
// bytes behind, and that what is settled is kept at any time.
func TestSettledAsInGo(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	small := func() uint64 { return r.Uint64N(3) * r.Uint64N(1<<r.UintN(64)) } // often 0
	count := map[bool]int{}
	for range 200_000 {
		m := cf.Meta{Type: cf.Type(r.IntN(16)), Narrow: r.IntN(2) == 0, Expire: small(), Version: r.Uint64(), Size: small()}
		if m.Narrow {
			m.Size &= 1<<32 - 1
		}
		value := m.Append(nil)
		switch r.IntN(4) {
		case 0:
			value = value[:r.IntN(len(value)+1)]
		case 1:
			value = append(value, make([]byte, r.IntN(40))...)
		}
		got, want := settled(value), compaction.Settled(value)
		if got != want {
			t.Fatalf("%x: the native side says %v, Go %v", value, got, want)
		}
		count[got]++
		for _, now := range []int64{0, 1, 1 << 40, 1<<63 - 1} {
			if got && compaction.MetadataVerdict(value, now) != compaction.Keep {
				t.Fatalf("%x is settled but dropped at %d", value, now)
			}
		}
	}
	if count[true] < 10_000 || count[false] < 10_000 {
		t.Errorf("records that are settled or not: %v: too few of one kind", count)
	}
}
