package engine_test

import (
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/enginetest"
	"github.com/basaltdb/basalt/internal/require"
)

// partsDB holds a key for each place: a prefix, and the place in eight bytes.
func partsDB(t *testing.T, places []uint64) *engine.DB {
	t.Helper()
	db := enginetest.Open(t)
	require.NoError(t, db.Update(partsNS, [][]byte{[]byte("k")}, func(tx *engine.Tx) error {
		for _, p := range places {
			tx.Put(cf.Default, binary.BigEndian.AppendUint64([]byte("k"), p), nil)
		}
		return nil
	}))
	return db
}

// readParts reads the keys in the parts, given as lower and upper bounds in turn.
func readParts(t *testing.T, db *engine.DB, bounds []uint64) (places []uint64) {
	t.Helper()
	o := engine.IterOptions{Prefix: []byte("k"), SliceLen: 8, KeysOnly: true}
	for _, b := range bounds {
		o.Parts = binary.BigEndian.AppendUint64(o.Parts, b)
	}
	o.Lower = append([]byte("k"), o.Parts[:8]...)
	tx := db.NewTx()
	tx.Begin(partsNS)
	defer tx.Release()
	tx.Acquire()
	it := tx.Iter(cf.Default, o)
	defer it.Close()
	for it.Next() {
		places = append(places, binary.BigEndian.Uint64(it.Key()))
	}
	require.NoError(t, it.Err())
	return places
}

// TestIterPartsAgainstModel reads parts where entries lie densely in some places and sparsely in others, so that what
// is between two parts is more or less than the parts before let expect.
func TestIterPartsAgainstModel(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	var places []uint64
	for at := uint64(0); len(places) < 3000; {
		step := uint64(1) << r.IntN(40)
		for range r.IntN(60) {
			at += 1 + r.Uint64N(step)
			places = append(places, at)
		}
	}
	db := partsDB(t, places)
	for range 500 {
		var bounds, want []uint64
		for i := r.IntN(len(places)); i < len(places) && len(bounds) < 20; i += r.IntN(60) {
			from := places[i] - r.Uint64N(2)
			i = min(i+r.IntN(30), len(places)-1)
			to := places[i] + r.Uint64N(2)
			if n := len(bounds); n > 0 && from < bounds[n-1] || to < from {
				continue
			}
			bounds = append(bounds, from, to)
			for _, p := range places {
				if p >= from && p < to {
					want = append(want, p)
				}
			}
		}
		if len(bounds) == 0 {
			continue
		}
		if got := readParts(t, db, bounds); !slices.Equal(got, want) {
			t.Fatalf("%d: %d, want %d", bounds, got, want)
		}
	}
}

// TestIterPartsSteps counts what RocksDB is asked for: nothing is stepped over that a seek passes for less.
func TestIterPartsSteps(t *testing.T) {
	const size, part, parts = 10_000, 20, 5
	places := make([]uint64, size)
	for i := range places {
		places[i] = uint64(i) << 30
	}
	db := partsDB(t, places)
	for _, tt := range []struct {
		gap          int
		seeks, steps int // at most, besides the entries that are returned
	}{
		{gap: 3, seeks: 1, steps: 3*(parts-1) + 2},
		{gap: 500, seeks: parts, steps: parts + 1},
	} {
		var bounds []uint64
		for i := range parts {
			from := i * (part + tt.gap)
			bounds = append(bounds, places[from], places[from+part])
		}
		seeks, steps := ticker(t, db, "rocksdb.number.db.seek"), ticker(t, db, "rocksdb.number.db.next")
		if got := readParts(t, db, bounds); len(got) != part*parts {
			t.Fatalf("gaps of %d: %d entries", tt.gap, len(got))
		}
		seeks, steps = ticker(t, db, "rocksdb.number.db.seek")-seeks, ticker(t, db, "rocksdb.number.db.next")-steps-part*parts
		if seeks > tt.seeks || steps > tt.steps {
			t.Errorf("gaps of %d: %d seeks and %d steps in vain", tt.gap, seeks, steps)
		}
	}
}
