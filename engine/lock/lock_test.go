package lock

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"
)

func newSet() *Set {
	s := new(Set)
	s.Init()
	return s
}

func TestBucketIsOneCacheLine(t *testing.T) {
	if n := unsafe.Sizeof(bucket{}); n != 64 {
		t.Errorf("a bucket takes %d bytes", n)
	}
}

// TestTryEach: groups are taken in their order, each whole or not at all, until one has a lock that is not free.
func TestTryEach(t *testing.T) {
	w := func(name uint64) Lock { return Of(name, true) }
	r := func(name uint64) Lock { return Of(name, false) }
	// Another transaction writes 8 and reads 9.
	for _, tt := range []struct {
		name   string
		groups [][]Lock
		taken  int
		held   []Lock
	}{
		{"all are free", [][]Lock{{w(2)}, {w(1), r(3)}}, 2, []Lock{w(1), w(2), r(3)}},
		{"a group without locks", [][]Lock{{}, {w(1)}}, 2, []Lock{w(1)}},
		{"the same lock again", [][]Lock{{w(1)}, {w(1)}, {r(1)}}, 3, []Lock{w(1)}},
		{"first read, then written", [][]Lock{{r(1)}, {w(1)}}, 2, []Lock{w(1)}},
		{"twice in a group", [][]Lock{{r(3), w(1), r(1), w(1), r(3)}}, 1, []Lock{w(1), r(3)}},
		{"read twice, then written", [][]Lock{{r(1)}, {r(1)}, {w(1)}}, 2, []Lock{r(1), r(1)}},
		{"the first is not free", [][]Lock{{w(1), w(8)}, {w(2)}}, 0, nil},
		{"the second is not free", [][]Lock{{w(1)}, {w(2), r(8)}, {w(3)}}, 1, []Lock{w(1)}},
		{"readers share", [][]Lock{{r(9)}, {w(9)}}, 1, []Lock{r(9)}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			table, other, set := New(), newSet(), newSet()
			other.Add(w(8), r(9))
			other.Acquire(table)
			if n := set.TryEach(table, tt.groups); n != tt.taken || !slices.Equal(set.held, tt.held) {
				t.Errorf("TryEach = %d and holds %v, want %d and %v", n, set.held, tt.taken, tt.held)
			}
			set.Release(table)
			other.Release(table)
			if !table.Idle() {
				t.Error("a lock is still held")
			}
		})
	}
}

// TestLocksExclude has goroutines take sets of few locks in every way, all of them now and then: who writes is alone,
// and nobody waits for ever.
func TestLocksExclude(t *testing.T) {
	table := New()
	// Names of two buckets, so that transactions hold several locks of one.
	names := []uint64{1, 2, 3, 1 << (63 - bucketBits), 1<<(63-bucketBits) + 1, 1<<(63-bucketBits) + 2}
	var writers, readers [6]atomic.Int32
	check := func(v Lock, by int32) {
		i := slices.Index(names, v.Name())
		if v.Write() {
			if w, r := writers[i].Add(by), readers[i].Load(); by > 0 && (w != 1 || r != 0) {
				t.Errorf("lock %d has %d writers and %d readers", i, w, r)
			}
		} else if readers[i].Add(by); by > 0 && writers[i].Load() != 0 {
			t.Errorf("lock %d has readers beside a writer", i)
		}
	}
	var wg sync.WaitGroup
	var upgraded, refused atomic.Int32
	for g := range 8 {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(1, uint64(g)))
			set := newSet()
			for round := range 3000 {
				if g == 0 && round%50 == 0 {
					table.LockAll()
					for i := range names {
						if writers[i].Load()+readers[i].Load() != 0 {
							t.Error("somebody has a lock beside one who has all")
						}
					}
					table.UnlockAll()
				}
				if round%4 == 2 {
					groups := make([][]Lock, 3)
					for range 4 {
						i := r.IntN(len(groups))
						groups[i] = append(groups[i], Of(names[r.IntN(len(names))], r.IntN(3) == 0))
					}
					n := set.TryEach(table, groups)
					for _, v := range slices.Concat(groups[:n]...) {
						if i := set.find(v.Name()); i < 0 || v.Write() && !set.held[i].Write() {
							t.Errorf("%d groups are taken, and lock %d is not held: %v", n, v.Name(), set.held)
						}
					}
					// Locks for reading may be held twice, so they are checked once.
					held := slices.CompactFunc(slices.Clone(set.held), func(a, b Lock) bool { return a.Name() == b.Name() })
					for _, v := range held {
						check(v, 1)
					}
					runtime.Gosched()
					for _, v := range held {
						check(v, -1)
					}
					set.Release(table)
					continue
				}
				for range 1 + r.IntN(4) {
					set.Add(Of(names[r.IntN(len(names))], r.IntN(3) == 0))
				}
				if round%4 == 1 {
					if !set.TryAcquire(table) {
						if refused.Add(1); set.Any() {
							t.Error("TryAcquire has failed, and the set holds locks")
						}
						continue
					}
				} else if err := set.Acquire(table); err != nil {
					t.Error(err)
				}
				if v := Of(names[r.IntN(len(names))], r.IntN(2) == 0); !slices.Contains(set.held, v|1) &&
					!slices.Contains(set.held, v&^1) {
					set.tryLock(table, v)
				}
				if i := slices.IndexFunc(set.held, func(v Lock) bool { return !v.Write() }); i >= 0 && r.IntN(2) == 0 {
					// A reader may become a writer, but not beside another one; readers go on reading meanwhile.
					v := set.held[i]
					check(v, 1)
					runtime.Gosched()
					check(v, -1)
					if set.tryUpgrade(table, i) {
						upgraded.Add(1)
					}
				}
				for _, v := range set.held {
					check(v, 1)
				}
				runtime.Gosched()
				for _, v := range set.held {
					check(v, -1)
				}
				set.Release(table)
			}
		})
	}
	ended := make(chan struct{})
	go func() { wg.Wait(); close(ended) }()
	select {
	case <-ended:
	case <-time.After(2 * time.Minute):
		t.Fatal("somebody waits for ever")
	}
	if upgraded.Load() == 0 {
		t.Error("no lock for reading has become one for writing")
	}
	if refused.Load() == 0 {
		t.Error("TryAcquire has never failed")
	}
	if !table.Idle() {
		t.Error("the table is not as in the beginning")
	}
}

// TestReadersAndWritersTakeTurns: a writer waits for those who read when it comes, not for later ones; what reads wait
// for a writer goes before the next one.
func TestReadersAndWritersTakeTurns(t *testing.T) {
	table := New()
	const read, write Lock = 1, 0
	b := table.bucket(read)
	var order []string
	var mu sync.Mutex
	var wg sync.WaitGroup
	n := 0
	queue := func(name string, v Lock) {
		wg.Go(func() {
			w := waiter{told: make(chan struct{}, 1)}
			table.lock(v, &w, false)
			mu.Lock()
			order = append(order, name)
			mu.Unlock()
			table.Unlock(v)
		})
		for n++; int(b.waiting.Load()) != n; {
			runtime.Gosched()
		}
	}
	if !table.TryLock(read) {
		t.Fatal("a new lock is not free")
	}
	queue("writer 1", write)
	if table.TryLock(read) {
		t.Error("a reader overtakes a writer that waits")
	}
	queue("writer 2", write)
	queue("reader", read)
	table.Unlock(read)
	wg.Wait()
	if got := fmt.Sprint(order); got != "[writer 1 reader writer 2]" {
		t.Errorf("the order is %s", got)
	}
}

// TestUpgrade: the only reader of a lock becomes its writer, before those who wait; beside another reader it does not,
// and both go on reading.
func TestUpgrade(t *testing.T) {
	table := New()
	const read, write Lock = 3, 2
	first := newSet()
	second := newSet()
	if !first.tryLock(table, read) || !second.tryLock(table, read) {
		t.Fatal("two readers do not get a lock")
	}
	if first.tryUpgrade(table, 0) || second.tryUpgrade(table, 0) {
		t.Error("a reader becomes a writer beside another one")
	}
	if first.held[0] != read || table.bucket(read).find(read).held != 2 {
		t.Error("a reader that could not become a writer reads no longer")
	}
	second.Release(table)
	b := table.bucket(read)
	var wg sync.WaitGroup
	waits := func(v Lock) chan struct{} {
		has, before := make(chan struct{}), b.waiting.Load()
		wg.Go(func() {
			w := waiter{told: make(chan struct{}, 1)}
			table.lock(v, &w, false)
			close(has)
			table.Unlock(v)
		})
		for b.waiting.Load() == before {
			runtime.Gosched()
		}
		return has
	}
	writer, reader := waits(write), waits(read)
	generation := b.generation.Load()
	if !first.tryUpgrade(table, 0) || first.held[0] != write {
		t.Fatal("the only reader does not become a writer while others wait")
	}
	if second.tryLock(table, read) {
		t.Error("somebody reads beside the writer")
	}
	select {
	case <-writer:
		t.Error("somebody writes beside the writer")
	case <-reader:
		t.Error("somebody reads beside the writer")
	default:
	}
	all := func() {
		table.LockAll()
		table.UnlockAll()
	}
	wg.Go(all)
	first.Release(table)
	if b.generation.Load() == generation {
		t.Error("nobody learns that the key may have been written")
	}
	wg.Wait()
	// One who waits for all locks waits for the reader that becomes a writer.
	if !first.tryLock(table, read) {
		t.Fatal("the lock is not free")
	}
	wg.Go(all)
	for closed := false; !closed; runtime.Gosched() {
		b.mu.Lock()
		closed = b.state == closing
		b.mu.Unlock()
	}
	if !first.tryUpgrade(table, 0) {
		t.Error("the only reader does not become a writer while somebody waits for all locks")
	}
	first.Release(table)
	wg.Wait()
}
