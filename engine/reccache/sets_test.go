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
		_, is, ticket := c.Get(h, cf.Metadata, k, nil)
		if is != Unknown {
			t.Fatalf("key %d is there before it was put in", i)
		}
		c.Fill(h, cf.Metadata, k, bytes.Repeat(k, 4), ticket)
	}
	held := 0
	for i := range keys {
		k := name(i)
		v, is, _ := c.Get(c.Hash(cf.Metadata, k), cf.Metadata, k, nil)
		if is != Present {
			continue
		}
		if held++; !bytes.Equal(v, bytes.Repeat(k, 4)) {
			t.Fatalf("key %d has the value %x", i, v)
		}
		if _, is, _ := c.Get(c.Hash(cf.Default, k), cf.Default, k, nil); is != Unknown {
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
			k, id := name(i), []cf.ID{cf.Default, cf.Metadata}[i%2]
			h := c.Hash(id, k)
			v, is, ticket := c.Get(h, id, k, nil)
			if is == Unknown {
				missed++
				c.Fill(h, id, k, value(i), ticket)
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
	if v, is, _ := c.Get(h, cf.Metadata, k, nil); is != Unknown {
		t.Errorf("the set took %q, which was read before the commit", v)
	}
	c.Fill(h, cf.Metadata, k, []byte("young"), young)
	if v, is, _ := c.Get(h, cf.Metadata, k, nil); is != Present || string(v) != "young" {
		t.Errorf("the key is %q, %d: what was read after the commit is not there", v, is)
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
		if _, is, ticket := c.Get(h, cf.Metadata, hot, nil); is == Present {
			kept++
		} else {
			c.Fill(h, cf.Metadata, hot, []byte("value"), ticket)
		}
	}
	if kept < reads*2/3 {
		t.Errorf("it was there in %d of %d reads", kept, reads)
	}
}

// TestCacheRemembersWhatIsAbsent: a delete, and a read that found nothing, leave an entry that says so.
func TestCacheRemembersWhatIsAbsent(t *testing.T) {
	c := New(Size{Small: 1 << 20, Large: LargeStep})
	key := []byte("key")
	h := c.Hash(cf.Default, key)
	answer := func(want Answer, value string) (ticket uint32) {
		t.Helper()
		v, is, ticket := c.Get(h, cf.Default, key, nil)
		if is != want || string(v) != value {
			t.Errorf("the answer is %d with %.10q, not %d with %.10q", is, v, want, value)
		}
		if head, is := c.Head(h, cf.Default, key, make([]byte, 0, 3)); is != want || len(head) != min(len(value), 3) {
			t.Errorf("Head answers %d with %q", is, head)
		}
		return ticket
	}
	commit := func(value string, deleted, ok bool) {
		c.Mark(h)
		c.Done(h, cf.Default, key, []byte(value), deleted, ok)
	}
	commit("", true, true)
	old := answer(Unknown, "") // deletes of what nobody reads take no room
	c.FillAbsent(h, cf.Default, key, old)
	answer(Absent, "")
	commit("value", false, false)
	answer(Absent, "")
	commit("value", false, true)
	answer(Present, "value")
	commit("", true, false)
	answer(Present, "value")
	commit("", true, true)
	young := answer(Absent, "")
	c.Clear()
	c.FillAbsent(h, cf.Default, key, old)
	c.FillAbsent(h, cf.Default, key, young) // both tickets are from before the Clear
	young = answer(Unknown, "")
	c.MarkAll()
	c.Fill(h, cf.Default, key, []byte("value"), young)
	answer(Unknown, "") // a commit may be about to delete the key
	c.DoneAll(false)
	c.Fill(h, cf.Default, key, []byte("value"), young) // read before the commit
	young = answer(Unknown, "")
	c.Fill(h, cf.Default, key, []byte("value"), young)
	c.MarkAll()
	answer(Unknown, "")
	c.DoneAll(false)
	answer(Present, "value")
	c.MarkAll()
	c.DoneAll(true)
	young = answer(Unknown, "")

	long := string(bytes.Repeat(key, 200)) // in a large slot
	c.Fill(h, cf.Default, key, []byte(long), young)
	answer(Present, long)
	commit("", true, true)
	answer(Absent, "")
	for at, owner := range c.large.owner {
		if owner > 0 {
			t.Errorf("large slot %d belongs to slot %d still", at, owner-1)
		}
	}
}

// TestAbsentDisplacesNothingUsed: a flood of look-ups of keys that do not exist leaves the records in place that were
// used since. Neither that flood nor one of records that are soon deleted makes the cache grow.
func TestAbsentDisplacesNothingUsed(t *testing.T) {
	c := New(Size{Small: 1 << 20, SmallMax: 16 << 20})
	name := func(i int) []byte { return binary.BigEndian.AppendUint64(nil, uint64(i)) }
	const records = 2 * cacheShards
	for i := range records {
		c.Fill(c.Hash(cf.Metadata, name(i)), cf.Metadata, name(i), []byte("value"), 0)
	}
	held := func() (n int) {
		for i := range records {
			if _, is, _ := c.Get(c.Hash(cf.Metadata, name(i)), cf.Metadata, name(i), nil); is == Present {
				n++
			}
		}
		return n
	}
	before := held()
	for i := range 100 * cacheShards {
		k := name(records + i)
		h := c.Hash(cf.Metadata, k)
		_, _, ticket := c.Get(h, cf.Metadata, k, nil)
		c.FillAbsent(h, cf.Metadata, k, ticket)
	}
	if after := held(); after != before {
		t.Errorf("%d of %d records are left", after, before)
	}
	for i := range 100 * cacheShards { // as many records as fit, again and again, each of which is deleted
		k := name(records + i)
		h := c.Hash(cf.Metadata, k)
		_, _, ticket := c.Get(h, cf.Metadata, k, nil)
		c.Fill(h, cf.Metadata, k, k, ticket)
		c.Mark(h)
		c.Done(h, cf.Metadata, k, nil, true, true)
	}
	if sets := c.shards[0].mask.Load() + 1; sets != cacheShards {
		t.Errorf("the cache has grown to %d sets", sets)
	}
}

// TestGrowingKeepsEntries: what a cache knows before it grows, it knows afterwards, large records and absent keys
// included.
func TestGrowingKeepsEntries(t *testing.T) {
	c := New(Size{Small: 1 << 20, SmallMax: 2 << 20, Large: LargeStep, LargeMax: 2 * LargeStep})
	type entry struct {
		is    Answer
		value string
	}
	ids := []cf.ID{cf.Default, cf.Metadata}
	name := func(i int) []byte { return binary.BigEndian.AppendUint64(nil, uint64(i)) }
	get := func(i int) entry {
		id := ids[i%2]
		v, is, _ := c.Get(c.Hash(id, name(i)), id, name(i), nil)
		return entry{is, string(v)}
	}
	const keys = cacheShards
	for i := range keys {
		id, k := ids[i%2], name(i)
		switch h := c.Hash(id, k); i % 8 {
		case 0, 1:
			c.FillAbsent(h, id, k, 0)
		case 2, 3:
			c.Fill(h, id, k, bytes.Repeat(k, 100), 0)
		default:
			c.Fill(h, id, k, k, 0)
		}
	}
	var before [keys]entry
	known := 0
	for i := range before {
		if before[i] = get(i); before[i].is != Unknown {
			known++
		}
	}
	if known < keys*9/10 {
		t.Fatalf("%d of %d keys are known", known, keys)
	}
	for i := range c.shards {
		if !c.grow(&c.shards[i], uint32(i)) {
			t.Fatalf("shard %d does not grow", i)
		}
		c.growLarge(&c.shards[i], uint32(i))
	}
	for i, want := range before {
		if got := get(i); got != want {
			t.Errorf("key %d of family %d: %d with %d bytes became %d with %d", i, ids[i%2], want.is, len(want.value),
				got.is, len(got.value))
		}
	}
}

// TestEmptied: of a cache that was emptied nothing is found again, whether a set is read, written, or grows first. The
// large slots serve the new records.
func TestEmptied(t *testing.T) {
	empty := map[string]func(*Cache){
		"a commit": func(c *Cache) { c.MarkAll(); c.DoneAll(true) },
		"Clear":    (*Cache).Clear,
	}
	name := func(i int) []byte { return binary.BigEndian.AppendUint64(nil, uint64(i)) }
	const keys = cacheShards
	for by, do := range empty {
		t.Run(by, func(t *testing.T) {
			c := New(Size{Small: 1 << 20, SmallMax: 2 << 20, Large: LargeStep, LargeMax: 2 * LargeStep})
			value := func(i int) []byte { return bytes.Repeat(name(i), 1+i%2*100) } // every second one is large
			fill := func() (held int) {
				for i := range keys {
					h := c.Hash(cf.Metadata, name(i))
					_, _, ticket := c.Get(h, cf.Metadata, name(i), nil)
					c.Fill(h, cf.Metadata, name(i), value(i), ticket)
				}
				for i := range keys {
					v, is, _ := c.Get(c.Hash(cf.Metadata, name(i)), cf.Metadata, name(i), nil)
					if is != Unknown && !bytes.Equal(v, value(i)) {
						t.Fatalf("key %d is %q", i, v)
					}
					if is == Present {
						held++
					}
				}
				return held
			}
			before := fill()
			do(c)
			for i := range cacheShards / 2 {
				if !c.grow(&c.shards[i], uint32(i)) {
					t.Fatalf("shard %d does not grow", i)
				}
				c.growLarge(&c.shards[i], uint32(i))
			}
			for i := range keys {
				h := c.Hash(cf.Metadata, name(i))
				if _, is := c.Head(h, cf.Metadata, name(i), make([]byte, 0, 8)); is != Unknown {
					t.Fatalf("key %d is known", i)
				}
				if _, is, _ := c.Get(h, cf.Metadata, name(i), nil); is != Unknown || c.SeemsToHold(h) {
					t.Fatalf("key %d is known", i)
				}
			}
			do(c)
			if after := fill(); after < before {
				t.Errorf("%d keys are held, %d before", after, before)
			}
		})
	}
}
