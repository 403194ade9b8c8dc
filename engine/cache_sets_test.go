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
	c := newRecordCache(cacheSize{small: 4 << 20})
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

// TestCacheGrows reads many more records than the cache begins with has room for, small ones and large ones. In the end it holds nearly
// all of them, each with its value, and is as big as it may be.
func TestCacheGrows(t *testing.T) {
	const small, large = 40000, 4000
	c := newRecordCache(cacheSize{small: 1 << 20, smallMost: 64 << 20, large: LargeRecordCacheStep, largeMost: 9 * LargeRecordCacheStep})
	value := func(i int) []byte {
		v := binary.BigEndian.AppendUint64(nil, uint64(i))
		if i < large {
			return bytes.Repeat(v, 100)
		}
		return v
	}
	name := func(i int) []byte { return binary.BigEndian.AppendUint64(nil, uint64(i)) }
	for round := 1; ; round++ {
		missed := 0
		for i := range small + large {
			k := name(i)
			h := c.hash(cf.Default, k)
			v, found, ticket := c.get(h, cf.Default, k, nil)
			if !found {
				missed++
				c.fill(h, cf.Default, k, value(i), ticket)
			} else if !bytes.Equal(v, value(i)) {
				t.Fatalf("key %d has the value %.20x", i, v)
			}
		}
		if missed < (small+large)/10 {
			break
		}
		if round == 20 {
			t.Fatalf("%d of %d records are missed after %d rounds", missed, small+large, round)
		}
	}
	for i, owner := range c.large.owner {
		if owner > 0 && c.sets[(owner-1)/cacheWays].large[(owner-1)%cacheWays] != uint32(i)+1 {
			t.Fatalf("large slot %d belongs to slot %d of the cache, which does not know it", i, owner-1)
		}
	}
	for i := range c.shards {
		if sh := &c.shards[i]; sh.groups > 8 || int(sh.mask.Load())+1 > len(c.sets) {
			t.Fatalf("shard %d has %d groups and sets up to %d", i, sh.groups, sh.mask.Load())
		}
	}
}

// TestCacheWaitsWithGrowing: a set that a commit has marked stays where it is until the commit is over, and a reader's
// ticket that is older than a mark is refused in the new set as in the old one.
func TestCacheWaitsWithGrowing(t *testing.T) {
	c := newRecordCache(cacheSize{small: 1 << 20, smallMost: 2 << 20})
	// A key that moves when its shard grows.
	var k []byte
	var h uint64
	for i := uint64(0); ; i++ {
		k = binary.BigEndian.AppendUint64(nil, i)
		if h = c.hash(cf.Metadata, k); h>>1&cacheShards > 0 {
			break
		}
	}
	sh, n := c.shard(h), uint32(h>>1&(cacheShards-1))
	_, _, old := c.get(h, cf.Metadata, k, nil) // a reader's ticket, and then a commit
	c.mark(h)
	if c.grow(sh, n) {
		t.Fatal("a shard grew under a commit")
	}
	c.done(h, cf.Metadata, k, nil, true, true)
	_, _, young := c.get(h, cf.Metadata, k, nil)
	if !c.grow(sh, n) {
		t.Fatal("the shard does not grow")
	}
	c.fill(h, cf.Metadata, k, []byte("old"), old)
	if v, found, _ := c.get(h, cf.Metadata, k, nil); found {
		t.Errorf("the set took %q, which was read before the commit", v)
	}
	c.fill(h, cf.Metadata, k, []byte("young"), young)
	if v, found, _ := c.get(h, cf.Metadata, k, nil); !found || string(v) != "young" {
		t.Errorf("the key is %q, %v: what was read after the commit is not there", v, found)
	}
	if c.grow(sh, n) {
		t.Error("a shard grew beyond the bound")
	}
}

// TestCacheKeepsWhatIsUsed: a record that is read again and again stays, whatever passes through its set.
func TestCacheKeepsWhatIsUsed(t *testing.T) {
	c := newRecordCache(cacheSize{small: 1 << 20})
	hot := []byte("hot")
	h := c.hash(cf.Metadata, hot)
	c.fill(h, cf.Metadata, hot, []byte("value"), 0)
	kept, reads := 0, 0
	for i := uint64(0); reads < 300; i++ {
		k := binary.BigEndian.AppendUint64(nil, i)
		o := c.hash(cf.Metadata, k)
		if sh := c.shard(h); c.shard(o) != sh || sh.index(o) != sh.index(h) {
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
	k := newKnownKeys(0)
	n := len(k.table.Load().sets) * len(knownSet{}) / 2
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

// TestKnownKeysGrow: of more keys than the first table holds, nearly all are known once they were noted often enough, and one
// that was taken back never is, whichever table it was in. The table stays within its bound.
func TestKnownKeysGrow(t *testing.T) {
	const most = 4 * firstKnownSets * 64
	k := newKnownKeys(most)
	const n = firstKnownSets * 8 * 2
	hash := func(i int) uint64 { return k.hash(binary.BigEndian.AppendUint64(nil, uint64(i))) }
	for round := 1; ; round++ {
		var wg sync.WaitGroup
		for part := range 4 {
			wg.Go(func() {
				for i := part; i < n; i += 4 {
					k.note(hash(i), i%8 > 0 || round%2 > 0)
					if i%8 == 0 && round%2 == 0 && k.holds(hash(i)) {
						t.Errorf("key %d is known after it was taken back", i)
						return
					}
				}
			})
		}
		wg.Wait()
		held := 0
		for i := range n {
			if k.holds(hash(i)) {
				held++
			}
		}
		if size := len(k.table.Load().sets) * 64; size > most {
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

// TestKnownKeysTogether has each key noted and taken back by its own goroutine, with so many in one set that they
// displace each other. A key that its goroutine has taken back last is not known.
func TestKnownKeysTogether(t *testing.T) {
	k := newKnownKeys(0)
	var wg sync.WaitGroup
	for i := range uint64(16) {
		h := i<<60 | 1 // the lower bits choose the set: all in the first
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
