// Package lock is a table of reader-writer locks that are named by hashes of keys, and the sets of locks that
// transactions take. It knows neither keys nor what they protect.
package lock

import (
	"hash/maphash"
	"sync"
	"sync/atomic"
)

// Table holds the locks of keys. The name of a key's lock is a hash of 63 bits of the key, so two keys practically
// never share a lock: no transaction waits for the commit, and its fsync, of a transaction that has locked other
// keys. A lock exists only while somebody holds it or waits for it. The first bits of its name choose its bucket.
//
// Locks are always taken in the order of their names, and a transaction takes all of its locks at once, so there is no
// deadlock.
type Table struct {
	seed    maphash.Seed
	failing failing
	spare   sync.Pool // of *keyLock
	buckets [numBuckets]bucket
	// epochs, one a bucket, stamp what is derived from keys and kept current by writers.
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
	job   any    // what the holder of the lock may do for it; nil = nothing
	scope string // of job
	next  *waiter
	told  chan struct{} // it has the lock, or its job was done
	done  bool          // its job was done, with the result err
	err   error
}

// Lock is a lock with the way in which it is wanted or held: name<<1, plus 0 for writing and 1 for reading.
type Lock uint64

// Of returns the lock of a name.
func Of(name uint64, write bool) Lock {
	if write {
		return Lock(name << 1)
	}
	return Lock(name<<1 | 1)
}

// Name returns the name, a number below 1<<63.
func (v Lock) Name() uint64 { return uint64(v) >> 1 }

// Write reports whether the lock is for writing.
func (v Lock) Write() bool { return v&1 == 0 }

// forWriting returns the same lock for writing.
func (v Lock) forWriting() Lock { return v &^ 1 }

// New makes a table in which no lock is held.
func New() *Table {
	return &Table{seed: maphash.MakeSeed(), spare: sync.Pool{New: func() any { return new(keyLock) }},
		drained: make(chan struct{}, 1)}
}

// Seed returns the seed of the hashes, for those who hash the same keys.
func (t *Table) Seed() maphash.Seed { return t.seed }

// Name returns the name of a key's lock.
func (t *Table) Name(key []byte) uint64 { return maphash.Bytes(t.seed, key) >> 1 }

func bucketOf(v Lock) uint64 { return uint64(v) >> (64 - bucketBits) }

// Epoch returns the epoch of the keys whose locks have a name. The package does not use it.
func (t *Table) Epoch(name uint64) *atomic.Uint64 { return &t.epochs[bucketOf(Of(name, true))] }

// Generation returns a number that grows whenever a lock of the name's bucket was held for writing, before it is given
// back.
func (t *Table) Generation(name uint64) uint64 { return t.bucket(Of(name, true)).generation.Load() }

// Waiting returns how many transactions wait for locks of the name's bucket.
func (t *Table) Waiting(name uint64) int { return int(t.bucket(Of(name, true)).waiting.Load()) }

// Idle reports whether no lock is held and nobody waits.
func (t *Table) Idle() bool {
	for i := range t.buckets {
		b := &t.buckets[i]
		b.mu.Lock()
		idle := b.empty() && b.waiting.Load() == 0 && b.state == open
		b.mu.Unlock()
		if !idle {
			return false
		}
	}
	return true
}

func (t *Table) bucket(v Lock) *bucket { return &t.buckets[bucketOf(v)] }

// find returns the lock of v, nil when nobody holds it. mu is held, here and in what follows.
func (b *bucket) find(v Lock) *keyLock {
	for l := &b.one; l != nil; l = l.next {
		if l.name == v.Name() && l.held != 0 {
			return l
		}
	}
	return nil
}

// take takes a lock if that is possible without waiting. Otherwise it returns the lock.
func (b *bucket) take(t *Table, v Lock) (taken bool, l *keyLock) {
	l = b.find(v)
	switch {
	case l == nil:
		if l = &b.one; l.held != 0 {
			l = t.spare.Get().(*keyLock)
			l.next, b.one.next = b.one.next, l
		}
		l.name = v.Name()
	case v.Write() || l.held < 0 || l.writers > 0: // writers would wait for ever if readers kept coming
		return false, l
	}
	l.hold(v.Write())
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
func (b *bucket) drop(t *Table, l *keyLock) {
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
func (t *Table) enter(v Lock, more bool) *bucket {
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
func (t *Table) lock(v Lock, w *waiter, more bool) {
	b := t.enter(v, more)
	taken, l := b.take(t, v)
	if !taken {
		w.write, w.done, w.err = v.Write(), false, nil
		b.enqueue(l, w)
	}
	b.mu.Unlock()
	if !taken {
		<-w.told
	}
}

// TryLock takes a lock if that is possible without waiting.
func (t *Table) TryLock(v Lock) bool {
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
func (t *Table) tryUpgrade(v Lock) bool {
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

// downgrade undoes tryUpgrade, before anything was written. Readers who have come meanwhile wait until Unlock.
func (t *Table) downgrade(v Lock) {
	b := t.bucket(v)
	b.mu.Lock()
	b.find(v).held = 1
	b.mu.Unlock()
}

// Unlock gives a lock back. It goes over to those who wait: from a writer to all readers, if there are any, and else to
// the first writer. So neither side waits for more than one turn of the other. handed says that it has gone to a writer
// for whom nobody else does the work.
func (t *Table) Unlock(v Lock) (handed bool) {
	b := t.bucket(v)
	b.mu.Lock()
	defer b.mu.Unlock()
	l := b.find(v)
	if v.Write() {
		b.generation.Add(1)
		l.held = 0
	} else if l.held--; l.held > 0 {
		return false
	}
	if l.first == nil {
		b.drop(t, l)
		return false
	}
	if v.Write() || l.writers == 0 {
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

// LockAll takes every lock for writing: for FLUSHALL and other changes of the whole keyspace.
func (t *Table) LockAll() {
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

// UnlockAll gives back what LockAll has taken.
func (t *Table) UnlockAll() {
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
