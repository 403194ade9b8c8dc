package reccache

import (
	"bytes"
	"encoding/binary"
	"testing"

	"github.com/basaltdb/basalt/cf"
)

// TestCacheHoldsWhatFits: keys share the sets of the record cache unevenly, and yet nearly all of so many as fill half
// of its slots are found again.
func TestCacheHoldsWhatFits(t *testing.T) {
	c := New(Size{Small: 4 << 20})
	keys := len(c.sets) * cacheWays / 2
	name := func(i int) []byte { return binary.BigEndian.AppendUint64(nil, uint64(i)) }
	for i := range keys {
		k := name(i)
		h := c.Hash(cf.Metadata, k)
		_, found, ticket := c.Get(h, cf.Metadata, k, nil)
		if found {
			t.Fatalf("key %d is there before it was put in", i)
		}
		c.Fill(h, cf.Metadata, k, bytes.Repeat(k, 4), ticket)
	}
	held := 0
	for i := range keys {
		k := name(i)
		v, found, _ := c.Get(c.Hash(cf.Metadata, k), cf.Metadata, k, nil)
		if !found {
			continue
		}
		if held++; !bytes.Equal(v, bytes.Repeat(k, 4)) {
			t.Fatalf("key %d has the value %x", i, v)
		}
		if _, found, _ := c.Get(c.Hash(cf.Default, k), cf.Default, k, nil); found {
			t.Fatalf("key %d is found in another family", i)
		}
	}
	if held < keys*9/10 {
		t.Errorf("%d of %d keys are there, in %d slots", held, keys, len(c.sets)*cacheWays)
	}
}

// TestCacheGrows reads many more records, small and large, than the new cache has room for. In the end it holds nearly
// all of them, each with its value, and is as big as it may be.
func TestCacheGrows(t *testing.T) {
	const small, large = 40000, 4000
	c := New(Size{Small: 1 << 20, SmallMax: 64 << 20, Large: LargeStep, LargeMax: 9 * LargeStep})
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
			h := c.Hash(cf.Default, k)
			v, found, ticket := c.Get(h, cf.Default, k, nil)
			if !found {
				missed++
				c.Fill(h, cf.Default, k, value(i), ticket)
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
	c := New(Size{Small: 1 << 20, SmallMax: 2 << 20})
	// A key that moves when its shard grows.
	var k []byte
	var h uint64
	for i := uint64(0); ; i++ {
		k = binary.BigEndian.AppendUint64(nil, i)
		if h = c.Hash(cf.Metadata, k); h>>1&cacheShards > 0 {
			break
		}
	}
	sh, n := c.shard(h), uint32(h>>1&(cacheShards-1))
	_, _, old := c.Get(h, cf.Metadata, k, nil) // a reader's ticket, and then a commit
	c.Mark(h)
	if c.grow(sh, n) {
		t.Fatal("a shard grew under a commit")
	}
	c.Done(h, cf.Metadata, k, nil, true, true)
	_, _, young := c.Get(h, cf.Metadata, k, nil)
	if !c.grow(sh, n) {
		t.Fatal("the shard does not grow")
	}
	c.Fill(h, cf.Metadata, k, []byte("old"), old)
	if v, found, _ := c.Get(h, cf.Metadata, k, nil); found {
		t.Errorf("the set took %q, which was read before the commit", v)
	}
	c.Fill(h, cf.Metadata, k, []byte("young"), young)
	if v, found, _ := c.Get(h, cf.Metadata, k, nil); !found || string(v) != "young" {
		t.Errorf("the key is %q, %v: what was read after the commit is not there", v, found)
	}
	if c.grow(sh, n) {
		t.Error("a shard grew beyond the bound")
	}
}

// TestCacheKeepsWhatIsUsed: a record that is read again and again stays, whatever passes through its set.
func TestCacheKeepsWhatIsUsed(t *testing.T) {
	c := New(Size{Small: 1 << 20})
	hot := []byte("hot")
	h := c.Hash(cf.Metadata, hot)
	c.Fill(h, cf.Metadata, hot, []byte("value"), 0)
	kept, reads := 0, 0
	for i := uint64(0); reads < 300; i++ {
		k := binary.BigEndian.AppendUint64(nil, i)
		o := c.Hash(cf.Metadata, k)
		if sh := c.shard(h); c.shard(o) != sh || sh.index(o) != sh.index(h) {
			continue
		}
		c.Fill(o, cf.Metadata, k, k, 0)
		reads++
		if _, found, ticket := c.Get(h, cf.Metadata, hot, nil); found {
			kept++
		} else {
			c.Fill(h, cf.Metadata, hot, []byte("value"), ticket)
		}
	}
	if kept < reads*2/3 {
		t.Errorf("it was there in %d of %d reads", kept, reads)
	}
}
