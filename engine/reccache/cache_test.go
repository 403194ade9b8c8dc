package reccache

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"testing"
	"unsafe"

	"github.com/basaltdb/basalt/cf"
)

func name(i int) []byte { return binary.BigEndian.AppendUint64(nil, uint64(i)) }

// read gets a key as a command does, and fills it in with the value if the cache does not know it.
func read(c *Cache, i int, value []byte) (v []byte, is Answer) {
	k := name(i)
	h := c.Hash(cf.Metadata, k)
	v, is, ticket := c.Get(h, cf.Metadata, k, nil)
	if is == Unknown {
		c.Fill(h, cf.Metadata, k, value, ticket)
	}
	return v, is
}

// peek gets a key without a trace.
func peek(c *Cache, i int) Answer {
	_, is := c.Head(c.Hash(cf.Metadata, name(i)), cf.Metadata, name(i), nil)
	return is
}

// check walks over the records of all segments: each entry must belong to one of them, in the set of its hash, and no
// two to the same one.
func check(t *testing.T, c *Cache) {
	t.Helper()
	for n := range c.shards {
		sh := &c.shards[n]
		owners := map[uint32]int{} // of the record at each position
		walk := func(seg segment, from, to int) {
			for at := from; at < to; {
				pos := seg.from + uint32(at/recordUnit)
				owners[pos] = 0
				r := c.record(pos)
				if r.size() == 0 || r.size() < r.needs() {
					t.Fatalf("shard %d: a record of %d bytes, which needs %d", n, r.size(), r.needs())
				}
				if at += r.size(); at > to {
					t.Fatalf("shard %d: a record ends at %d, the records at %d", n, at, to)
				}
			}
		}
		for i, seg := range sh.log.segments {
			if i != sh.log.current {
				walk(seg, 0, seg.n)
				continue
			}
			walk(seg, 0, sh.log.head)
			walk(seg, sh.log.oldest, sh.log.end)
		}
		for i := uint32(n); i <= sh.mask.Load(); i += uint32(len(c.shards)) {
			s := &c.sets[i]
			for w, tg := range s.tags {
				if tg == 0 || s.epoch != sh.epoch {
					continue
				}
				before, ok := owners[s.at[w]]
				if owners[s.at[w]]++; !ok || before > 0 {
					t.Fatalf("shard %d: an entry for a record that is not there or has an entry", n)
				}
				if h := c.record(s.at[w]).hash(); tag(h) != tg || uint32(sh.index(h)) != i {
					t.Fatalf("shard %d: the entry of another record", n)
				}
			}
		}
	}
}

// A set and a shard are as long as a CPU cache line and two, so that neighbours do not share one.
func TestSizes(t *testing.T) {
	if set, shard := unsafe.Sizeof(cacheSet{}), unsafe.Sizeof(cacheShard{}); set != 64 || shard != 128 {
		t.Errorf("a set has %d bytes, a shard %d", set, shard)
	}
}

// TestCacheHoldsWhatFits: keys share the sets and the segments unevenly, and yet nearly all of so many as fill half of
// the memory are found again.
func TestCacheHoldsWhatFits(t *testing.T) {
	for _, size := range []int{8, 100, 1000} {
		c := New(4<<20, 0, nil)
		value := func(i int) []byte { return bytes.Repeat(name(i), size/8) }
		keys := min(len(c.memory.Bytes)/recordSize(8, size)/2, len(c.sets)*cacheWays/2)
		for i := range keys {
			if v, is := read(c, i, value(i)); is != Unknown {
				t.Fatalf("key %d is there before it was put in: %q", i, v)
			}
		}
		held := 0
		for i := range keys {
			k := name(i)
			if v, is, _ := c.Get(c.Hash(cf.Metadata, k), cf.Metadata, k, nil); is == Present {
				if held++; !bytes.Equal(v, value(i)) {
					t.Fatalf("key %d has the value %x", i, v)
				}
			}
			if _, is, _ := c.Get(c.Hash(cf.Default, k), cf.Default, k, nil); is != Unknown {
				t.Fatalf("key %d is found in another family", i)
			}
		}
		if held < keys*9/10 {
			t.Errorf("%d of %d keys with values of %d bytes are there", held, keys, size)
		}
		check(t, c)
	}
}

// TestCacheGrows reads many more records, small and large, than the new cache has room for. In the end it holds nearly
// all of them, each with its value, and is not bigger than it may be.
func TestCacheGrows(t *testing.T) {
	const small, large, most = 40000, 4000, 16 << 20
	told := 0
	c := New(1<<20, most, func() { told++ })
	value := func(i int) []byte {
		if i < large {
			return bytes.Repeat(name(i), 100)
		}
		return name(i)
	}
	for round := 1; ; round++ {
		missed := 0
		for i := range small + large {
			v, is := read(c, i, value(i))
			if is == Unknown {
				missed++
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
	check(t, c)
	before := c.Grown()
	if before == 0 || told != before>>20 {
		t.Errorf("the cache has grown by %d bytes and has said so %d times", before, told)
	}
	for i := range 400000 {
		read(c, i+small+large, bytes.Repeat(name(i), 20))
	}
	check(t, c)
	if n := int(c.taken.Load()) * segmentBytes; n > most || n < most*9/10 || c.Resident() > most+most/8 {
		t.Errorf("the cache has grown to %d bytes, %d are resident", n, c.Resident())
	}
}

// TestCacheWaitsWithGrowing: a set that a commit has marked stays where it is until the commit is over, and a reader's
// ticket that is older than a mark is refused in the new set as in the old one.
func TestCacheWaitsWithGrowing(t *testing.T) {
	c := New(1<<20, 16<<20, nil)
	// A key whose set moves when its shard grows.
	i := 0
	for c.Hash(cf.Metadata, name(i))>>1&uint64(c.shards[0].mask.Load()+1) == 0 {
		i++
	}
	k := name(i)
	h := c.Hash(cf.Metadata, k)
	sh := c.shard(h)
	for range 4 {
		c.takeSegment(sh)
	}
	_, _, old := c.Get(h, cf.Metadata, k, nil) // a reader's ticket, and then a commit
	c.Mark(h)
	if c.growSets(sh) {
		t.Fatal("a shard grew under a commit")
	}
	c.Done(h, cf.Metadata, k, nil, true, true)
	_, _, young := c.Get(h, cf.Metadata, k, nil)
	if !c.growSets(sh) {
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
	for c.growSets(sh) {
	}
	if sets := int(sh.mask.Load()+1) / len(c.shards); sets*setBytes/2 >= len(sh.log.segments)*segmentSize {
		t.Errorf("the shard has %d sets for %d segments", sets, len(sh.log.segments))
	}
}

// TestCacheKeepsWhatIsUsed: a record that is read again and again stays, whatever passes through its shard and its set.
func TestCacheKeepsWhatIsUsed(t *testing.T) {
	for _, of := range []string{"shard", "set"} {
		c := New(1<<20, 0, nil)
		hot := c.Hash(cf.Metadata, name(0))
		kept, reads := 0, 0
		for i := 1; reads < 10000; i++ {
			h := c.Hash(cf.Metadata, name(i))
			if sh := c.shard(hot); c.shard(h) != sh || of == "set" && sh.index(h) != sh.index(hot) {
				continue
			}
			read(c, i, bytes.Repeat(name(i), 10))
			reads++
			if _, is := read(c, 0, []byte("value")); is == Present {
				kept++
			}
		}
		if kept < reads*9/10 {
			t.Errorf("%s: it was there in %d of %d reads", of, kept, reads)
		}
		check(t, c)
	}
}

// TestCacheRemembersWhatIsAbsent: a delete, and a read that found nothing, leave an entry that says so.
func TestCacheRemembersWhatIsAbsent(t *testing.T) {
	c := New(1<<20, 0, nil)
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

	long := string(bytes.Repeat(key, 200))
	c.Fill(h, cf.Default, key, []byte(long), young)
	answer(Present, long)
	commit("", true, true)
	answer(Absent, "")
	commit("shorter", false, true)
	answer(Present, "shorter")
	commit(long, false, true)
	answer(Present, long)
	commit(string(bytes.Repeat(key, 10000)), false, true) // too long for the cache
	answer(Unknown, "")
	check(t, c)
}

// TestAbsentDisplacesNothingUsed: a flood of look-ups of keys that do not exist leaves the records in place that were
// used since. Neither that flood nor one of records that are soon deleted makes the cache grow.
func TestAbsentDisplacesNothingUsed(t *testing.T) {
	c := New(1<<20, 16<<20, nil)
	const records = 2000
	var used []int
	for range 2 {
		used = used[:0]
		for i := range records {
			if _, is := read(c, i, []byte("value")); is == Present {
				used = append(used, i)
			}
		}
	}
	if len(used) < records*9/10 {
		t.Fatalf("%d of %d records are there", len(used), records)
	}
	for i := range 100 * records {
		k := name(records + i)
		h := c.Hash(cf.Metadata, k)
		_, _, ticket := c.Get(h, cf.Metadata, k, nil)
		c.FillAbsent(h, cf.Metadata, k, ticket)
	}
	for _, i := range used {
		if is := peek(c, i); is != Present {
			t.Errorf("record %d was displaced: %d", i, is)
		}
	}
	for i := range 100 * records { // as many records as fit, again and again, each of which is deleted
		k := name(records + i)
		h := c.Hash(cf.Metadata, k)
		_, _, ticket := c.Get(h, cf.Metadata, k, nil)
		c.Fill(h, cf.Metadata, k, k, ticket)
		c.Mark(h)
		c.Done(h, cf.Metadata, k, nil, true, true)
	}
	if n := c.Grown(); n > 0 {
		t.Errorf("the cache has grown by %d bytes", n)
	}
	check(t, c)
}

// TestWritesTakeOnlyWhatThereIs: writes fill the memory that the cache has, and do not let it grow. Large records are
// cached only if they were read.
func TestWritesTakeOnlyWhatThereIs(t *testing.T) {
	c := New(1<<20, 16<<20, nil)
	write := func(i int, value []byte) {
		h := c.Hash(cf.Metadata, name(i))
		c.Mark(h)
		c.Done(h, cf.Metadata, name(i), value, false, true)
	}
	held := 0
	for i := range 100000 {
		write(i, bytes.Repeat(name(i), 10))
	}
	for i := range 100000 {
		if peek(c, i) == Present {
			held++
		}
	}
	if n := recordSize(8, 80) * held; n < 1<<19 || c.Grown() > 0 {
		t.Errorf("%d bytes of records are held, the cache has grown by %d", n, c.Grown())
	}
	long := bytes.Repeat(name(7), 100)
	read(c, -1, long)
	write(-1, append(long, 'x'))
	write(-2, long)
	if v, is := read(c, -1, nil); is != Present || len(v) != len(long)+1 {
		t.Errorf("a large record that was read is %d after a write", is)
	}
	if is := peek(c, -2); is != Unknown {
		t.Errorf("a large record that nobody has read is %d", is)
	}
	check(t, c)
}

// TestEmptied: of a cache that was emptied nothing is found again, whether a set is read, written, or grows first. The
// memory serves the new records.
func TestEmptied(t *testing.T) {
	empty := map[string]func(*Cache){
		"a commit": func(c *Cache) { c.MarkAll(); c.DoneAll(true) },
		"Clear":    (*Cache).Clear,
	}
	const keys = 1000
	for by, do := range empty {
		t.Run(by, func(t *testing.T) {
			c := New(1<<20, 16<<20, nil)
			value := func(i int) []byte { return bytes.Repeat(name(i), 1+i%2*100) } // every second one is large
			fill := func() (held int) {
				for i := range keys {
					read(c, i, value(i))
				}
				for i := range keys {
					if v, is := read(c, i, value(i)); is == Present {
						if held++; !bytes.Equal(v, value(i)) {
							t.Fatalf("key %d is %q", i, v)
						}
					}
				}
				return held
			}
			before := fill()
			do(c)
			for i := range c.shards {
				sh := &c.shards[i]
				for range 3 {
					c.takeSegment(sh)
				}
				if i%2 == 0 && !c.growSets(sh) {
					t.Fatalf("shard %d does not grow", i)
				}
			}
			check(t, c)
			for i := range keys {
				h := c.Hash(cf.Metadata, name(i))
				if peek(c, i) != Unknown || c.SeemsToHold(h) {
					t.Fatalf("key %d is known", i)
				}
			}
			do(c)
			if after := fill(); after < before {
				t.Errorf("%d keys are held, %d before", after, before)
			}
			check(t, c)
		})
	}
}

// TestCacheAgainstModel does at random what readers and commits do, and compares each answer with a map that has all
// records: the cache may have forgotten a key, but never knows it wrongly.
func TestCacheAgainstModel(t *testing.T) {
	for seed := range uint64(8) {
		rng := rand.New(rand.NewPCG(seed, 1))
		c := New(1<<20, []int{0, 4 << 20}[seed%2], nil)
		model := map[int][]byte{}
		keys := 1 << (4 + 2*seed)
		for n := range 100000 {
			i := rng.IntN(keys)
			if rng.IntN(2) == 0 {
				i = rng.IntN(keys/8 + 1) // some are used more
			}
			k := name(i)
			h := c.Hash(cf.Metadata, k)
			switch op := rng.IntN(100); {
			case op < 60:
				v, is, ticket := c.Get(h, cf.Metadata, k, nil)
				want, there := model[i]
				if is == Present && (!there || !bytes.Equal(v, want)) || is == Absent && there {
					t.Fatalf("seed %d, step %d: key %d is %d %.10x, not %.10x", seed, n, i, is, v, want)
				}
				if is == Unknown && there {
					c.Fill(h, cf.Metadata, k, want, ticket)
				} else if is == Unknown {
					c.FillAbsent(h, cf.Metadata, k, ticket)
				}
			case op < 99:
				_, _, stale := c.Get(h, cf.Metadata, k, nil)
				before, was := model[i]
				value := bytes.Repeat([]byte{byte(n)}, []int{0, 8, 100, 250, 1000, 4000, 16340, 20000}[rng.IntN(8)]+rng.IntN(20))
				deleted, ok := op < 70, op%10 > 0
				c.Mark(h)
				c.Done(h, cf.Metadata, k, value, deleted, ok)
				switch {
				case ok && deleted:
					delete(model, i)
				case ok:
					model[i] = value
				}
				if was { // what was read before the commit comes too late
					c.Fill(h, cf.Metadata, k, before, stale)
				} else {
					c.FillAbsent(h, cf.Metadata, k, stale)
				}
			case rng.IntN(1000) == 0:
				c.Clear()
			}
		}
		check(t, c)
	}
}
