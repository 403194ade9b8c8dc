package engine

import (
	"hash/maphash"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/basaltdb/basalt/cf"
)

// numStripes is the size of the pool of key locks.
const numStripes = 1 << 14

// stripe is one key lock, alone on its cache line so that neighbours do not slow each other down.
type stripe struct {
	sync.RWMutex
	waiting atomic.Int32 // writers that wait in the RWMutex
	queued  atomic.Int32 // transactions in the queue below
	queue   jobQueue
	// generation grows whenever the stripe was locked for writing; it is read and written with the lock held.
	generation uint64
}

func (s *stripe) lock() {
	if s.TryLock() {
		return
	}
	s.waiting.Add(1)
	s.Lock()
	s.waiting.Add(-1)
}

// release gives the lock back, for writing or for reading, and wakes one who waits in the queue. Nothing else may unlock
// a stripe: whoever had to queue because of this holder would never be told.
func (s *stripe) release(write bool) {
	if write {
		s.generation++
		s.Unlock()
	} else {
		s.RUnlock()
	}
	s.wake()
}

// lockTable is the pool of striped key locks. A key's stripe follows from the hash of its metadata key.
//
// Locks are always taken in the order of their indexes and a transaction takes all of its locks at once, so
// there is no deadlock.
type lockTable struct {
	seed     maphash.Seed
	refusals refusals
	stripes  [numStripes]stripe
	// epochs stamp what is derived from the keys of each stripe and kept current by writers, see derived.go.
	epochs [numStripes]atomic.Uint64
}

func newLockTable() *lockTable { return &lockTable{seed: maphash.MakeSeed()} }

func (t *lockTable) index(nsKey []byte) uint32 {
	return uint32(maphash.Bytes(t.seed, nsKey)) & (numStripes - 1)
}

// lockSet collects the stripes that a transaction needs: index<<1, plus 0 for writing and 1 for reading, so
// that after sorting the stronger side of a stripe comes first.
type lockSet struct {
	want []uint32
	held []uint32
	all  bool // every stripe is held for writing
	// pinned: they are not given back early.
	pinned bool
	// refusal: others are turned away, see TurnAway. The stripes are not locked then.
	refusal *refusal
}

func (s *lockSet) add(index uint32, write bool) {
	v := index << 1
	if !write {
		v |= 1
	}
	s.want = append(s.want, v)
}

// acquire takes everything that was added, in index order, each stripe once. With an error, that of a transaction that
// turns others away from one of the stripes, it holds none.
func (s *lockSet) acquire(t *lockTable) error {
	if len(s.want) > 1 {
		slices.Sort(s.want)
		for _, v := range s.want { // so that the misses of the processor's caches overlap
			t.stripes[v>>1].queued.Load()
		}
	}
	for i, v := range s.want {
		if i > 0 && s.want[i-1]>>1 == v>>1 {
			continue
		}
		if v&1 == 0 {
			t.stripes[v>>1].lock()
		} else {
			t.stripes[v>>1].RLock()
		}
		s.held = append(s.held, v)
	}
	s.want = s.want[:0]
	return s.admitted(t)
}

// admitted gives everything back if somebody turns others away from one of the stripes.
func (s *lockSet) admitted(t *lockTable) error {
	if t.refusals.n.Load() == 0 {
		return nil
	}
	err := t.refusals.find(nil, s.held...)
	if err != nil {
		s.release(t)
	}
	return err
}

// release gives the locks back. When a writer waits for one of them it lets that one run at once: the holder
// has replies to send and may have nothing more to do with the key, and a hot key must not wait for that.
func (s *lockSet) release(t *lockTable) {
	s.pinned = false
	if s.refusal != nil {
		t.withdraw(s.refusal)
		s.refusal, s.all, s.held = nil, false, s.held[:0]
		return
	}
	if s.all {
		s.all = false
		t.unlockAll()
		return
	}
	contended := false
	for i := len(s.held) - 1; i >= 0; i-- {
		v := s.held[i]
		if v&1 == 0 {
			l := &t.stripes[v>>1]
			contended = contended || l.waiting.Load() > 0
			l.release(true)
		} else {
			t.stripes[v>>1].release(false)
		}
	}
	s.held = s.held[:0]
	if contended {
		runtime.Gosched()
	}
}

// writes reports whether the set holds a lock for writing.
func (s *lockSet) writes() bool {
	if s.all {
		return true
	}
	for _, v := range s.held {
		if v&1 == 0 {
			return true
		}
	}
	return false
}

// lockAll takes every stripe for writing: for FLUSHALL and other changes of the whole keyspace.
func (t *lockTable) lockAll() {
	for i := range t.stripes {
		t.stripes[i].Lock()
	}
}

func (t *lockTable) unlockAll() {
	for i := range t.stripes {
		t.stripes[i].release(true)
	}
}

// Holds reports whether the transaction has the lock of a key for writing.
func (tx *Tx) Holds(userKey []byte) bool {
	tx.keyBuf = cf.AppendNSKey(tx.keyBuf[:0], tx.ns, userKey, tx.db.slots)
	return tx.locks.holds(tx.db.locks.index(tx.keyBuf))
}

func (s *lockSet) holds(index uint32) bool {
	return s.all || slices.Contains(s.held, index<<1)
}

// Generation returns a number that changes whenever somebody may have written the key, of which the transaction holds
// the lock.
func (tx *Tx) Generation(userKey []byte) uint64 {
	tx.keyBuf = cf.AppendNSKey(tx.keyBuf[:0], tx.ns, userKey, tx.db.slots)
	return tx.db.locks.stripes[tx.db.locks.index(tx.keyBuf)].generation
}

// ReadGeneration is Generation for what is to be kept of a key beyond the transaction. ok is false when the transaction holds the
// lock for writing, as it may have changed the key and may yet fail, or has given it back.
func (tx *Tx) ReadGeneration(userKey []byte) (generation uint64, ok bool) {
	if !tx.cacheOK || tx.Holds(userKey) {
		return 0, false
	}
	return tx.Generation(userKey), true
}
