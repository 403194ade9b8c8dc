package engine

import (
	"bytes"
	"encoding/binary"
	"sync"
	"testing"

	"github.com/basaltdb/basalt/cf"
)

// TestCacheHoldsWhatFits: keys share the sets of the record cache unevenly, and yet nearly all of so many as fill half
// of its slots are found again.
func TestCacheHoldsWhatFits(t *testing.T) {
	c := newRecordCache(4<<20, -1)
	keys := len(c.sets) * cacheWays / 2
	name := func(i int) []byte { return binary.BigEndian.AppendUint64(nil, uint64(i)) }
	for i := range keys {
		k := name(i)
		h := c.hash(cf.Metadata, k)
		_, found, ticket := c.get(h, cf.Metadata, k, nil)
		if found {
			t.Fatalf("key %d is there before it was put in", i)
		}
		c.fill(h, cf.Metadata, k, bytes.Repeat(k, 4), ticket)
	}
	held := 0
	for i := range keys {
		k := name(i)
		v, found, _ := c.get(c.hash(cf.Metadata, k), cf.Metadata, k, nil)
		if !found {
			continue
		}
		if held++; !bytes.Equal(v, bytes.Repeat(k, 4)) {
			t.Fatalf("key %d has the value %x", i, v)
		}
		if _, found, _ := c.get(c.hash(cf.Default, k), cf.Default, k, nil); found {
			t.Fatalf("key %d is found in another family", i)
		}
	}
	if held < keys*9/10 {
		t.Errorf("%d of %d keys are there, in %d slots", held, keys, len(c.sets)*cacheWays)
	}
}

// TestCacheKeepsWhatIsUsed: a record that is read again and again stays, whatever passes through its set.
func TestCacheKeepsWhatIsUsed(t *testing.T) {
	c := newRecordCache(1<<20, -1)
	hot := []byte("hot")
	h := c.hash(cf.Metadata, hot)
	c.fill(h, cf.Metadata, hot, []byte("value"), 0)
	kept, reads := 0, 0
	for i := uint64(0); reads < 300; i++ {
		k := binary.BigEndian.AppendUint64(nil, i)
		o := c.hash(cf.Metadata, k)
		if o>>1&c.mask != h>>1&c.mask {
			continue
		}
		c.fill(o, cf.Metadata, k, k, 0)
		reads++
		if _, found, ticket := c.get(h, cf.Metadata, hot, nil); found {
			kept++
		} else {
			c.fill(h, cf.Metadata, hot, []byte("value"), ticket)
		}
	}
	if kept < reads*2/3 {
		t.Errorf("it was there in %d of %d reads", kept, reads)
	}
}

// TestKnownKeys: what is in the table was noted and not taken back since, and of half as many keys as it has room for
// nearly all are in it.
func TestKnownKeys(t *testing.T) {
	k := newKnownKeys()
	n := len(k.sets) * len(knownSet{}) / 2
	hash := func(i int) uint64 { return k.hash(binary.BigEndian.AppendUint64(nil, uint64(i))) }
	for i := range n {
		if k.holds(hash(i)) {
			t.Fatalf("key %d is known before it was noted", i)
		}
		k.note(hash(i), true)
		k.note(hash(i), true) // a second time is not a second entry
	}
	held := 0
	for i := range n {
		if k.holds(hash(i)) {
			held++
		}
	}
	if held < n*95/100 {
		t.Errorf("%d of %d keys are known", held, n)
	}
	for i := 0; i < n; i += 2 {
		k.note(hash(i), false)
		k.note(hash(i), false)
	}
	for i := range n {
		if even := i%2 == 0; even && k.holds(hash(i)) {
			t.Fatalf("key %d is known after it was taken back", i)
		}
	}
	k.clear()
	for i := range n {
		if k.holds(hash(i)) {
			t.Fatalf("key %d is known after everything was cleared", i)
		}
	}
}

// TestKnownKeysTogether has each key noted and taken back by its own goroutine, with so many in one set that they
// displace each other. A key that its goroutine has taken back last is not known.
func TestKnownKeysTogether(t *testing.T) {
	k := newKnownKeys()
	var wg sync.WaitGroup
	for i := range uint64(16) {
		h := i<<1 | 1 // the upper bits choose the set: all in the first
		wg.Go(func() {
			for range 20000 {
				k.note(h, true)
				k.note(h, false)
				if k.holds(h) {
					t.Errorf("hash %d is known", h)
					return
				}
			}
		})
	}
	wg.Wait()
}
