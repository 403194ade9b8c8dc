package engine

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

	"github.com/basaltdb/basalt/cf"
)

func TestBucketIsOneCacheLine(t *testing.T) {
	if n := unsafe.Sizeof(bucket{}); n != 64 {
		t.Errorf("a bucket takes %d bytes", n)
	}
}

// TestReadersOfOtherKeys: while a commit with many keys waits for the disk, everybody reads and locks other keys,
// however many.
func TestReadersOfOtherKeys(t *testing.T) {
	db := openForJobs(t)
	const written, others = 20_000, 20_000
	keys := make([][]byte, written)
	for i := range keys {
		keys[i] = fmt.Appendf(nil, "written%d", i)
	}
	writing, disk := make(chan struct{}), make(chan struct{})
	hook := func() error {
		close(writing)
		<-disk
		return nil
	}
	db.injected.Store(&hook)
	done := make(chan error)
	go func() {
		done <- db.Update("a", keys, func(tx *Tx) error {
			rec := tx.Fresh(keys[0], cf.TypeString)
			tx.SaveAppend(&rec, nil)
			return nil
		})
	}()
	<-writing
	tx := db.NewTx()
	tx.Begin("a")
	blocked := 0
	for i := range others {
		if !tx.TryRLock(fmt.Appendf(nil, "other%d", i)) {
			blocked++
		}
	}
	if tx.TryRLock(keys[1]) {
		t.Error("a key that is being written can be read")
	}
	tx.Release()
	if blocked > 0 {
		t.Errorf("%d of %d keys cannot be read while a commit with %d others waits for the disk", blocked, others, written)
	}
	close(disk)
	if err := <-done; err != nil {
		t.Error(err)
	}
	db.injected.Store(nil)
}

// TestLocksExclude has goroutines take sets of few locks in every way, all of them now and then: who writes is alone,
// and nobody waits for ever.
func TestLocksExclude(t *testing.T) {
	table := newLockTable()
	// Names of two buckets, so that transactions hold several locks of one.
	names := []uint64{1, 2, 3, 1 << (63 - bucketBits), 1<<(63-bucketBits) + 1, 1<<(63-bucketBits) + 2}
	var writers, readers [6]atomic.Int32
	check := func(v uint64, by int32) {
		i := slices.Index(names, v>>1)
		if v&1 == 0 {
			if w, r := writers[i].Add(by), readers[i].Load(); by > 0 && (w != 1 || r != 0) {
				t.Errorf("lock %d has %d writers and %d readers", i, w, r)
			}
		} else if readers[i].Add(by); by > 0 && writers[i].Load() != 0 {
			t.Errorf("lock %d has readers beside a writer", i)
		}
	}
	var wg sync.WaitGroup
	var upgraded atomic.Int32
	for g := range 8 {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(1, uint64(g)))
			set := lockSet{self: waiter{told: make(chan struct{}, 1)}}
			for round := range 3000 {
				if g == 0 && round%50 == 0 {
					table.lockAll()
					for i := range names {
						if writers[i].Load()+readers[i].Load() != 0 {
							t.Error("somebody has a lock beside one who has all")
						}
					}
					table.unlockAll()
				}
				for range 1 + r.IntN(4) {
					set.add(names[r.IntN(len(names))], r.IntN(3) == 0)
				}
				if err := set.acquire(table); err != nil {
					t.Error(err)
				}
				if v := names[r.IntN(len(names))]<<1 | r.Uint64N(2); !slices.Contains(set.held, v|1) && !slices.Contains(set.held, v&^1) {
					set.tryLock(table, v)
				}
				if i := slices.IndexFunc(set.held, func(v uint64) bool { return v&1 != 0 }); i >= 0 && r.IntN(2) == 0 {
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
				set.release(table)
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
	for i := range table.buckets {
		if b := &table.buckets[i]; !b.empty() || b.waiting.Load() != 0 || b.state != open {
			t.Errorf("bucket %d is not as in the beginning", i)
		}
	}
}

// TestReadersAndWritersTakeTurns: a writer waits for those who read when it comes, not for later ones; what reads wait
// for a writer goes before the next one.
func TestReadersAndWritersTakeTurns(t *testing.T) {
	table := newLockTable()
	const read, write = 1, 0
	b := table.bucket(read)
	var order []string
	var mu sync.Mutex
	var wg sync.WaitGroup
	n := 0
	queue := func(name string, v uint64) {
		wg.Go(func() {
			w := waiter{told: make(chan struct{}, 1)}
			table.lock(v, &w, false)
			mu.Lock()
			order = append(order, name)
			mu.Unlock()
			table.unlock(v)
		})
		for n++; int(b.waiting.Load()) != n; {
			runtime.Gosched()
		}
	}
	if !table.tryLock(read) {
		t.Fatal("a new lock is not free")
	}
	queue("writer 1", write)
	if table.tryLock(read) {
		t.Error("a reader overtakes a writer that waits")
	}
	queue("writer 2", write)
	queue("reader", read)
	table.unlock(read)
	wg.Wait()
	if got := fmt.Sprint(order); got != "[writer 1 reader writer 2]" {
		t.Errorf("the order is %s", got)
	}
}

// TestUpgrade: the only reader of a lock becomes its writer, before those who wait; beside another reader it does not,
// and both go on reading.
func TestUpgrade(t *testing.T) {
	table := newLockTable()
	const read, write = 3, 2
	first := lockSet{self: waiter{told: make(chan struct{}, 1)}}
	second := lockSet{self: waiter{told: make(chan struct{}, 1)}}
	if !first.tryLock(table, read) || !second.tryLock(table, read) {
		t.Fatal("two readers do not get a lock")
	}
	if first.tryUpgrade(table, 0) || second.tryUpgrade(table, 0) {
		t.Error("a reader becomes a writer beside another one")
	}
	if first.held[0] != read || table.bucket(read).find(read).held != 2 {
		t.Error("a reader that could not become a writer reads no longer")
	}
	second.release(table)
	b := table.bucket(read)
	var wg sync.WaitGroup
	waits := func(v uint64) chan struct{} {
		has, before := make(chan struct{}), b.waiting.Load()
		wg.Go(func() {
			w := waiter{told: make(chan struct{}, 1)}
			table.lock(v, &w, false)
			close(has)
			table.unlock(v)
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
		table.lockAll()
		table.unlockAll()
	}
	wg.Go(all)
	first.release(table)
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
	first.release(table)
	wg.Wait()
}

// TestUpgradeOfManyLocks: a transaction finds its locks, few or many, and how it holds them.
func TestUpgradeOfManyLocks(t *testing.T) {
	db := openForJobs(t)
	for _, n := range []int{3, fewLocks, 4 * fewLocks} {
		tx := db.NewTx()
		tx.Begin("a")
		key := func(i int) []byte { return fmt.Appendf(nil, "key%d", i) }
		for range 2 {
			for i := range n {
				if !tx.TryRLock(key(i)) || tx.Holds(key(i)) {
					t.Fatalf("%d: reading it is not granted, or counts as writing", i)
				}
			}
		}
		for i := 0; i < n; i += 2 {
			if !tx.TryLock(key(i)) {
				t.Errorf("%d: the only reader does not become a writer", i)
			}
		}
		if len(tx.locks.held) != n {
			t.Errorf("%d locks of %d keys", len(tx.locks.held), n)
		}
		locks := tx.AppendLocks(nil)
		for range 2 {
			for i := range n {
				if tx.Holds(key(i)) != (i%2 == 0) || !tx.TryRLock(key(i)) {
					t.Errorf("%d of %d: it is not held as it was asked for", i, n)
				}
			}
			tx.Release()
			tx.Begin("a")
			tx.AddLocks(locks)
			if err := tx.Acquire(); err != nil {
				t.Fatal(err)
			}
		}
		tx.Release()
	}
}
