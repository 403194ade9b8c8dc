package presence

import (
	"encoding/binary"
	"sync"
	"testing"
)

// TestNoted: what is in the table was noted and not taken back since, and of half as many keys as it has room for
// nearly all are in it.
func TestNoted(t *testing.T) {
	k := New(0)
	n := len(k.current.Load().sets) * len(set{}) / 2
	hash := func(i int) uint64 { return k.Hash(binary.BigEndian.AppendUint64(nil, uint64(i))) }
	for i := range n {
		if k.ExistsHash(hash(i)) {
			t.Fatalf("key %d is known before it was noted", i)
		}
		k.Note(hash(i), true)
		k.Note(hash(i), true) // a second time is not a second entry
	}
	held := 0
	for i := range n {
		if k.ExistsHash(hash(i)) {
			held++
		}
	}
	if held < n*95/100 {
		t.Errorf("%d of %d keys are known", held, n)
	}
	for i := 0; i < n; i += 2 {
		k.Note(hash(i), false)
		k.Note(hash(i), false)
	}
	for i := range n {
		if even := i%2 == 0; even && k.ExistsHash(hash(i)) {
			t.Fatalf("key %d is known after it was taken back", i)
		}
	}
	k.Clear()
	for i := range n {
		if k.ExistsHash(hash(i)) {
			t.Fatalf("key %d is known after everything was cleared", i)
		}
	}
}

// TestGrow: of more keys than the first table holds, nearly all are known once they were noted often enough, and one
// that was taken back never is, whichever table it was in. The table stays within its bound.
func TestGrow(t *testing.T) {
	const max = 4 * firstSets * 64
	k := New(max)
	const n = firstSets * 8 * 2
	hash := func(i int) uint64 { return k.Hash(binary.BigEndian.AppendUint64(nil, uint64(i))) }
	for round := 1; ; round++ {
		var wg sync.WaitGroup
		for part := range 4 {
			wg.Go(func() {
				for i := part; i < n; i += 4 {
					k.Note(hash(i), i%8 > 0 || round%2 > 0)
					if i%8 == 0 && round%2 == 0 && k.ExistsHash(hash(i)) {
						t.Errorf("key %d is known after it was taken back", i)
						return
					}
				}
			})
		}
		wg.Wait()
		held := 0
		for i := range n {
			if k.ExistsHash(hash(i)) {
				held++
			}
		}
		if size := len(k.current.Load().sets) * 64; size > max {
			t.Fatalf("the table has %d bytes", size)
		}
		if t.Failed() || held > n*80/100 {
			return
		}
		if round == 10 {
			t.Fatalf("%d of %d keys are known", held, n)
		}
	}
}

// TestConcurrent has each key noted and taken back by its own goroutine, with so many in one set that they
// displace each other. A key that its goroutine has taken back last is not known.
func TestConcurrent(t *testing.T) {
	k := New(0)
	var wg sync.WaitGroup
	for i := range uint64(16) {
		h := i<<60 | 1 // the lower bits choose the set: all in the first
		wg.Go(func() {
			for range 20000 {
				k.Note(h, true)
				k.Note(h, false)
				if k.ExistsHash(h) {
					t.Errorf("hash %d is known", h)
					return
				}
			}
		})
	}
	wg.Wait()
}
