package derived_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/basaltdb/basalt/engine/derived"
)

// value is the state of a record: what the record holds.
type value struct {
	derived.Entry
	n int
}

const valueKind = derived.Nodes

func find(r *derived.Registry, key string, at uint64) *value {
	v, _ := r.FindAsOf(valueKind, r.Hash(valueKind, []byte(key)), []byte(key), at).(*value)
	return v
}

func put(r *derived.Registry, key string, at uint64, n int) bool {
	return r.PutAsOf(valueKind, r.Hash(valueKind, []byte(key)), []byte(key), at, &value{n: n}, 8)
}

func begin(r *derived.Registry, keys ...string) (hashes []uint64) {
	for _, key := range keys {
		h := r.Hash(valueKind, []byte(key))
		r.BeginChange(valueKind, h)
		hashes = append(hashes, h)
	}
	return hashes
}

// TestChanges: a state is kept only while nobody changes its record, and only readers of its time and later find it.
func TestChanges(t *testing.T) {
	r := derived.New(1 << 20)
	early := r.Now()
	if !put(r, "a", early, 1) || find(r, "a", early) == nil {
		t.Fatal("a state of a record that nobody changes is not kept")
	}
	changed := begin(r, "a")
	if find(r, "a", early) != nil || put(r, "a", r.Now(), 1) {
		t.Error("while a record changes, its state is kept")
	}
	if put(r, "b", r.Now(), 2); find(r, "b", r.Now()) == nil {
		t.Error("the change of one record concerns another one")
	}
	second := begin(r, "a")
	at := r.EndChanges(changed)
	if put(r, "a", at, 2) {
		t.Error("two transactions change the record, one of them has ended")
	}
	at = r.EndChanges(second)
	if put(r, "a", early, 1) {
		t.Error("the state of a reader from before the change is kept")
	}
	if !put(r, "a", at, 3) {
		t.Error("what was written is not kept")
	}
	if find(r, "a", early) != nil {
		t.Error("a reader from before the change finds what was written")
	}
	if v := find(r, "a", r.Now()); v == nil || v.n != 3 {
		t.Errorf("a later reader finds %v", v)
	}
	r.BeginChangeAll(valueKind)
	if find(r, "a", r.Now()) != nil || put(r, "b", r.Now(), 2) {
		t.Error("while all records change, states are kept")
	}
	r.EndChangeAll()
	if put(r, "b", at, 2) || !put(r, "b", r.Now(), 2) {
		t.Error("a state is not kept by its reader's time")
	}
}

// TestChangesOfOneKind: the end of all states of a kind leaves the other kinds.
func TestChangesOfOneKind(t *testing.T) {
	r := derived.New(1 << 20)
	other := derived.Kind[*value]{ID: derived.Bounds}
	other.Put(r, []byte("a"), 0, &value{n: 1}, 8)
	put(r, "a", r.Now(), 2)
	r.BeginChangeAll(valueKind)
	r.EndChangeAll()
	if find(r, "a", r.Now()) != nil || other.Find(r, []byte("a"), 0) == nil {
		t.Error("the wrong state was dropped")
	}
	if st := r.Stats(); st[derived.Nodes].Entries != 0 || st[derived.Bounds].Entries != 1 {
		t.Errorf("%+v", st)
	}
}

// TestReadersOfSnapshots: whatever readers of snapshots find is what their snapshot holds, while transactions change
// records, or fail to, and states are evicted.
func TestReadersOfSnapshots(t *testing.T) {
	const records, writers, readers = 40, 3, 3
	rounds := 3000
	if testing.Short() {
		rounds = 500
	}
	r := derived.New(8 << 10) // less than all records need
	name := func(i int) string { return fmt.Sprint("record", i) }
	start := map[int]int{}
	var db atomic.Pointer[map[int]int] // a snapshot is what it points to
	db.Store(&start)
	var committing sync.Mutex
	var locks [records]sync.Mutex
	change := func(g *rand.Rand) {
		i := g.IntN(records)
		locks[i].Lock()
		defer locks[i].Unlock()
		whole := g.IntN(50) == 0
		var hashes []uint64
		if whole {
			r.BeginChangeAll(valueKind)
		} else {
			hashes = begin(r, name(i))
		}
		n, committed := g.Int(), g.IntN(5) > 0
		if committed {
			committing.Lock()
			next := maps.Clone(*db.Load())
			next[i] = n
			db.Store(&next)
			committing.Unlock()
		}
		if whole {
			r.EndChangeAll()
		} else if at := r.EndChanges(hashes); committed {
			put(r, name(i), at, n)
		}
	}
	var hits atomic.Int64
	read := func(g *rand.Rand) {
		at := r.Now()
		snapshot := *db.Load()
		for range 10 {
			i := g.IntN(records)
			if v := find(r, name(i), at); v == nil {
				put(r, name(i), at, snapshot[i])
			} else if hits.Add(1); v.n != snapshot[i] {
				t.Errorf("record %d: %d is kept, the snapshot holds %d", i, v.n, snapshot[i])
			}
		}
	}
	var reading, writing sync.WaitGroup
	done := make(chan struct{})
	for w := range writers {
		writing.Go(func() {
			g := rand.New(rand.NewPCG(uint64(w), 1))
			for {
				select {
				case <-done:
					return
				default:
					change(g)
				}
			}
		})
	}
	for w := range readers {
		reading.Go(func() {
			g := rand.New(rand.NewPCG(uint64(w), 2))
			for range rounds {
				read(g)
			}
		})
	}
	reading.Wait()
	close(done)
	writing.Wait()
	t.Log(hits.Load(), "states were found")
	g := rand.New(rand.NewPCG(1, 3))
	for range 100 {
		read(g)
	}
	if hits.Load() == 0 {
		t.Error("nothing was kept")
	}
}
