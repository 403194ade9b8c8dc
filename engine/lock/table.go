// Package lock is a table of reader-writer locks that are named by hashes of keys, and the sets of locks that
// transactions take. It knows neither the keys nor the data that the locks protect.
package lock

import (
	"hash/maphash"
	"sync"
	"sync/atomic"
)

// Table holds the locks of keys. The name of a key's lock is a 63-bit hash of the key, so two keys practically never
// share a lock: no transaction waits for the commit, and its fsync, of a transaction that has locked other keys. A lock
// exists only while a transaction holds it or waits for it. The first bits of its name choose its bucket.
//
// Locks are always taken in the order of their names, and a transaction takes all of its locks at once, so deadlocks
// cannot occur.
type Table struct {
	seed    maphash.Seed
	failing failing
	spare   sync.Pool // of *keyLock
	buckets [numBuckets]bucket
	// epochs, one for each bucket, stamp the state that is derived from keys and kept current by writers.
	epochs [numBuckets]atomic.Uint64

	exclusive sync.Mutex    // held by the transaction that has or takes all locks
	reopened  chan struct{} // closed when that transaction releases them
	drained   chan struct{} // wakes that transaction when the bucket that it waits for is empty
}

const (
	bucketBits = 14
	numBuckets = 1 << bucketBits
)

// bucket holds the locks whose names begin with its index. It takes one CPU cache line, the first lock included.
type bucket struct {
	mu sync.Mutex // of all fields but those of package atomic
	// generation grows whenever a lock of the bucket was held for writing, before that lock is released.
	generation atomic.Uint64
	waiting    atomic.Int32 // waiters in the queues of the locks
	state      bucketState
	// one is the first lock. It may be unused (held by no transaction) while the locks that follow it are in use.
	one keyLock
}

type bucketState uint32

const (
	open    bucketState = iota
	closing             // LockAll waits for the last holder; new transactions wait for t.reopened
	shut                // LockAll holds it
)

// keyLock is a lock that a transaction holds, and for which others may wait.
type keyLock struct {
	name        uint64
	held        int32 // number of readers; -1 = held by a writer
	writers     int32 // number of writers in the queue
	first, last *waiter
	next        *keyLock // in the bucket
}

// waiter is a transaction in the queue of a lock.
type waiter struct {
	write bool
	job   any    // what the lock's holder may do for the waiter; nil = nothing
	scope string // of the job
	next  *waiter
	told  chan struct{} // the waiter has the lock, or its job was done
	done  bool          // its job was done, with the result err
	err   error
}

// Lock is a lock and the mode in which it is wanted or held: name<<1, plus 0 for writing and 1 for reading.
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

// Seed returns the seed of the hashes, for callers that hash the same keys.
func (t *Table) Seed() maphash.Seed { return t.seed }

// Name returns the name of a key's lock.
func (t *Table) Name(key []byte) uint64 { return maphash.Bytes(t.seed, key) >> 1 }

func bucketOf(v Lock) uint64 { return uint64(v) >> (64 - bucketBits) }

// Epoch returns the epoch of the bucket that a name belongs to. This package does not use the epoch.
func (t *Table) Epoch(name uint64) *atomic.Uint64 { return &t.epochs[bucketOf(Of(name, true))] }

// Generation returns a number that grows whenever a lock of the name's bucket was held for writing, before that lock is
// released.
func (t *Table) Generation(name uint64) uint64 { return t.bucket(Of(name, true)).generation.Load() }

// Waiting returns how many transactions wait for locks in the name's bucket.
func (t *Table) Waiting(name uint64) int { return int(t.bucket(Of(name, true)).waiting.Load()) }

func (t *Table) bucket(v Lock) *bucket { return &t.buckets[bucketOf(v)] }

// find returns the lock of v, nil when no transaction holds it. mu must be held, here and in the functions below.
func (b *bucket) find(v Lock) *keyLock {
	for l := &b.one; l != nil; l = l.next {
		if l.name == v.Name() && l.held != 0 {
			return l
		}
	}
	return nil
}

// take takes a lock if that is possible without waiting. Otherwise it returns the keyLock.
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

// drop removes a lock that no transaction holds any more.
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

// dequeue removes the first waiter that ok accepts from the queue of a lock and returns it; nil = no such waiter.
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

// enter locks the bucket of v, and waits while the bucket is closing or closed. more says that the caller holds a lock
// of the bucket already: LockAll waits for that caller, so it may enter a closing bucket.
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

// lock takes a lock. It waits in the lock's queue as w. If w has a job the holder of the lock may do it: then w.done is
// set, and the lock is not taken. lock reports whether the lock was free, so that it did not wait. See enter for more.
func (t *Table) lock(v Lock, w *waiter, more bool) (free bool) {
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
	return taken
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

// tryUpgrade turns a lock that the caller holds for reading into a lock for writing, if no other transaction reads. The
// waiters continue to wait. v is the lock for writing.
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

// downgrade undoes tryUpgrade, before any write. Readers that have come meanwhile wait until Unlock.
func (t *Table) downgrade(v Lock) {
	b := t.bucket(v)
	b.mu.Lock()
	b.find(v).held = 1
	b.mu.Unlock()
}

// Unlock releases a lock and hands it to the waiters: from a writer to all waiting readers, if any, otherwise to the
// first waiting writer. So neither side waits for more than one turn of the other. handed says that the lock was handed
// to a writer whose job no other transaction can do.
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
	handed = w.job == nil // read first: w is not ours afterwards
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

// UnlockAll releases what LockAll has taken.
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
