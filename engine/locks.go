package engine

import (
	"hash/maphash"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/basaltdb/basalt/cf"
)

// lockTable holds the locks of keys. The name of a key's lock is a hash of 63 bits of its metadata key, so that two keys
// as good as never have one lock: nobody waits for the commit, and its fsync, of one who has locked another key. A lock
// exists only while somebody holds it. It is found in a bucket that the first bits of its name choose.
//
// Locks are always taken in the order of their names and a transaction takes all of its locks at once, so there is no
// deadlock.
//
// In v, as everywhere here and in lockSet, a lock stands with the way in which it is held: name<<1, plus 0 for writing
// and 1 for reading.
type lockTable struct {
	seed     maphash.Seed
	refusals refusals
	spare    sync.Pool // of *keyLock
	buckets  [numBuckets]bucket
	// epochs, one a bucket, stamp what is derived from keys and kept current by writers, see derived.go.
	epochs [numBuckets]atomic.Uint64

	exclusive sync.Mutex    // held by the one who has or takes all locks
	reopened  chan struct{} // closed when that one gives them back
	drained   chan struct{} // tells that one that the bucket that it waits for is empty
}

const (
	bucketBits = 14
	numBuckets = 1 << bucketBits
)

// bucket holds the locks whose names begin with its index. It takes one line of the CPU's cache, with the first lock.
type bucket struct {
	mu sync.Mutex // of all fields but those of package atomic
	// generation grows whenever one of the locks was held for writing, before it is given back.
	generation atomic.Uint64
	waiting    atomic.Int32 // waiters in the queues of the locks
	state      bucketState
	// one is the first of the locks. It is not in use when nobody holds it; those behind it are.
	one keyLock
}

type bucketState uint32

const (
	open    bucketState = iota
	closing             // who wants all locks waits for the last holder; new ones wait for t.reopened
	shut                // held as a whole
)

// keyLock is a lock that somebody holds, and perhaps others wait for.
type keyLock struct {
	name        uint64
	held        int32 // by so many readers; -1 = by a writer
	writers     int32 // in the queue
	first, last *waiter
	next        *keyLock // in the bucket
}

// waiter is a transaction in the queue of a lock.
type waiter struct {
	write bool
	job   Job    // what another one may do for it, nil = nothing
	ns    string // of job
	next  *waiter
	told  chan struct{} // it has the lock, or its job was done
	done  bool          // its job was done, with the result err
	err   error
}

func newLockTable() *lockTable {
	return &lockTable{seed: maphash.MakeSeed(), spare: sync.Pool{New: func() any { return new(keyLock) }}, drained: make(chan struct{}, 1)}
}

// name returns the name of the lock of a metadata key.
func (t *lockTable) name(nsKey []byte) uint64 { return maphash.Bytes(t.seed, nsKey) >> 1 }

func bucketOf(v uint64) uint64 { return v >> (64 - bucketBits) }

// epoch returns the epoch of the keys whose locks have a name.
func (t *lockTable) epoch(name uint64) *atomic.Uint64 { return &t.epochs[bucketOf(name<<1)] }

func (t *lockTable) bucket(v uint64) *bucket { return &t.buckets[bucketOf(v)] }

// find returns the lock of v, nil when nobody holds it. mu is held, here and in what follows.
func (b *bucket) find(v uint64) *keyLock {
	for l := &b.one; l != nil; l = l.next {
		if l.name == v>>1 && l.held != 0 {
			return l
		}
	}
	return nil
}

// take takes a lock if that is possible without waiting. Otherwise it returns the lock.
func (b *bucket) take(t *lockTable, v uint64) (taken bool, l *keyLock) {
	l = b.find(v)
	switch {
	case l == nil:
		if l = &b.one; l.held != 0 {
			l = t.spare.Get().(*keyLock)
			l.next, b.one.next = b.one.next, l
		}
		l.name = v >> 1
	case v&1 == 0 || l.held < 0 || l.writers > 0: // writers would wait for ever if readers kept coming
		return false, l
	}
	l.hold(v&1 == 0)
	return true, l
}

func (l *keyLock) hold(write bool) {
	if write {
		l.held = -1
	} else {
		l.held++
	}
}

// drop takes out a lock that nobody holds any more.
func (b *bucket) drop(t *lockTable, l *keyLock) {
	if l != &b.one {
		before := &b.one
		for before.next != l {
			before = before.next
		}
		before.next, l.next = l.next, nil
		t.spare.Put(l)
	}
	if b.state == closing && b.empty() {
		t.drained <- struct{}{}
	}
}

func (b *bucket) empty() bool { return b.one.held == 0 && b.one.next == nil }

// enqueue appends a waiter to the queue of a lock.
func (b *bucket) enqueue(l *keyLock, w *waiter) {
	w.next = nil
	if l.last == nil {
		l.first = w
	} else {
		l.last.next = w
	}
	l.last = w
	if w.write {
		l.writers++
	}
	b.waiting.Add(1)
}

// dequeue takes the first waiter that ok accepts out of the queue of a lock; nil = there is none.
func (b *bucket) dequeue(l *keyLock, ok func(*waiter) bool) *waiter {
	var before *waiter
	for w := l.first; w != nil; before, w = w, w.next {
		if !ok(w) {
			continue
		}
		if before == nil {
			l.first = w.next
		} else {
			before.next = w.next
		}
		if l.last == w {
			l.last = before
		}
		w.next = nil
		if w.write {
			l.writers--
		}
		b.waiting.Add(-1)
		return w
	}
	return nil
}

func (w *waiter) writes() bool { return w.write }

// admitReaders gives a free lock to all readers in its queue.
func (b *bucket) admitReaders(l *keyLock) {
	w := l.first
	l.first, l.last = nil, nil
	for w != nil {
		next := w.next
		w.next = nil
		switch {
		case !w.write:
			l.held++
			b.waiting.Add(-1)
			w.told <- struct{}{}
		case l.last == nil:
			l.first, l.last = w, w
		default:
			l.last.next, l.last = w, w
		}
		w = next
	}
}

// enter locks the bucket of v, when it is not being closed; more says that one of its locks is held by the caller, for
// whom the one that closes it waits.
func (t *lockTable) enter(v uint64, more bool) *bucket {
	b := t.bucket(v)
	for {
		b.mu.Lock()
		if b.state == open || more && b.state == closing {
			return b
		}
		reopened := t.reopened
		b.mu.Unlock()
		<-reopened
	}
}

// lock takes a lock. It waits in its queue as w, where others may do its job if it has one: then w.done is set, and the
// lock is not taken. See enter for more.
func (t *lockTable) lock(v uint64, w *waiter, more bool) {
	b := t.enter(v, more)
	taken, l := b.take(t, v)
	if !taken {
		w.write, w.done, w.err = v&1 == 0, false, nil
		b.enqueue(l, w)
	}
	b.mu.Unlock()
	if !taken {
		<-w.told
	}
}

// tryLock takes a lock if that is possible without waiting.
func (t *lockTable) tryLock(v uint64) bool {
	b := t.bucket(v)
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.state != open {
		return false
	}
	taken, _ := b.take(t, v)
	return taken
}

// tryUpgrade makes a lock that the caller holds for reading one for writing, if nobody else reads. Those who wait go on
// waiting. v is the lock for writing.
func (t *lockTable) tryUpgrade(v uint64) bool {
	b := t.bucket(v)
	b.mu.Lock()
	defer b.mu.Unlock()
	l := b.find(v)
	if l.held != 1 {
		return false
	}
	l.held = -1
	return true
}

// downgrade undoes tryUpgrade, before anything was written. Readers who have come meanwhile wait until unlock.
func (t *lockTable) downgrade(v uint64) {
	b := t.bucket(v)
	b.mu.Lock()
	b.find(v).held = 1
	b.mu.Unlock()
}

// unlock gives a lock back. It goes over to those who wait: from a writer to all readers, if there are any, and else to
// the first writer. So neither side waits for more than one turn of the other. handed says that it has gone to a writer
// for whom nobody else does the work.
func (t *lockTable) unlock(v uint64) (handed bool) {
	b := t.bucket(v)
	b.mu.Lock()
	defer b.mu.Unlock()
	l := b.find(v)
	if v&1 == 0 {
		b.generation.Add(1)
		l.held = 0
	} else if l.held--; l.held > 0 {
		return false
	}
	if l.first == nil {
		b.drop(t, l)
		return false
	}
	if v&1 == 0 || l.writers == 0 {
		if b.admitReaders(l); l.held > 0 {
			return false
		}
	}
	w := b.dequeue(l, (*waiter).writes)
	l.held = -1
	handed = w.job == nil // asked first: w is not ours afterwards
	w.told <- struct{}{}
	return handed
}

// lockAll takes every lock for writing: for FLUSHALL and other changes of the whole keyspace.
func (t *lockTable) lockAll() {
	t.exclusive.Lock()
	t.reopened = make(chan struct{})
	for i := range t.buckets {
		b := &t.buckets[i]
		b.mu.Lock()
		if !b.empty() {
			b.state = closing
			b.mu.Unlock()
			<-t.drained
			b.mu.Lock()
		}
		b.state = shut
		b.mu.Unlock()
	}
}

func (t *lockTable) unlockAll() {
	for i := range t.buckets {
		b := &t.buckets[i]
		b.mu.Lock()
		b.generation.Add(1)
		b.state = open
		b.mu.Unlock()
	}
	close(t.reopened)
	t.exclusive.Unlock()
}

// lockSet collects the locks that a transaction needs, and those that it has. In their order the stronger side of a lock
// comes first.
type lockSet struct {
	want []uint64
	held []uint64
	// index finds those in held that it has by name, once there are many, see find.
	index map[uint64]int
	all   bool // every lock is held for writing
	// pinned: they are not given back early.
	pinned bool
	// refusal: others are turned away, see TurnAway. The locks are free then.
	refusal *refusal
	// self is the transaction in the queue of a lock.
	self waiter
}

func (s *lockSet) add(name uint64, write bool) { s.want = append(s.want, lockValue(name, write)) }

// lockValue is a lock with the way in which it is held, see lockTable.
func lockValue(name uint64, write bool) uint64 {
	if write {
		return name << 1
	}
	return name<<1 | 1
}

// acquire takes everything that was added, in order, each lock once. With an error, that of a transaction that turns
// others away from one of the locks, it holds none.
func (s *lockSet) acquire(t *lockTable) error {
	if len(s.want) > 1 {
		slices.Sort(s.want)
		for _, v := range s.want { // so that the misses of the processor's caches overlap
			t.bucket(v).waiting.Load()
		}
	}
	for _, v := range s.want {
		n := len(s.held)
		if n > 0 && s.held[n-1]>>1 == v>>1 {
			continue
		}
		t.lock(v, &s.self, n > 0 && bucketOf(s.held[n-1]) == bucketOf(v))
		s.held = append(s.held, v)
	}
	s.want = s.want[:0]
	return s.admitted(t)
}

// admitted gives everything back if somebody turns others away from one of the locks.
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

// release gives the locks back. A writer to whom one of them has gone runs at once: the holder has replies to send and
// may have nothing more to do with the key, and a hot key must not wait for that.
func (s *lockSet) release(t *lockTable) {
	s.pinned, s.index = false, nil
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
	handed := false
	for i := len(s.held) - 1; i >= 0; i-- {
		if t.unlock(s.held[i]) {
			handed = true
		}
	}
	s.held = s.held[:0]
	if handed {
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

// Holds reports whether the transaction has the lock of a key for writing.
func (tx *Tx) Holds(userKey []byte) bool {
	tx.keyBuf = cf.AppendNSKey(tx.keyBuf[:0], tx.ns, userKey, tx.db.slots)
	return tx.locks.holds(tx.db.locks.name(tx.keyBuf))
}

func (s *lockSet) holds(name uint64) bool {
	if s.all {
		return true
	}
	i := s.find(name)
	return i >= 0 && s.held[i]&1 == 0
}

// fewLocks: so many are searched one after the other.
const fewLocks = 32

// find returns where in held the lock with a name is, -1 = nowhere. A script may take many locks, one by one.
func (s *lockSet) find(name uint64) int {
	if len(s.held) <= fewLocks {
		return slices.IndexFunc(s.held, func(v uint64) bool { return v>>1 == name })
	}
	if s.index == nil {
		s.index = map[uint64]int{}
	}
	for i := len(s.index); i < len(s.held); i++ {
		s.index[s.held[i]>>1] = i
	}
	if i, ok := s.index[name]; ok {
		return i
	}
	return -1
}

// Generation returns a number that changes whenever somebody may have written the key, of which the transaction holds
// the lock. It may change at any time because of other keys.
func (tx *Tx) Generation(userKey []byte) uint64 {
	tx.keyBuf = cf.AppendNSKey(tx.keyBuf[:0], tx.ns, userKey, tx.db.slots)
	return tx.db.locks.bucket(tx.db.locks.name(tx.keyBuf) << 1).generation.Load()
}

// ReadGeneration is Generation for what is to be kept of a key beyond the transaction. ok is false when the transaction
// holds the lock for writing, as it may have changed the key and may yet fail, or has given it back.
func (tx *Tx) ReadGeneration(userKey []byte) (generation uint64, ok bool) {
	if !tx.cacheOK || tx.Holds(userKey) {
		return 0, false
	}
	return tx.Generation(userKey), true
}
