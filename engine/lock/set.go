package lock

import (
	"runtime"
	"slices"
)

// Set collects the locks that a transaction wants, and those that it holds. In the order of locks, the lock for writing
// comes before the lock for reading of the same name. One goroutine uses a set.
type Set struct {
	want []Lock
	held []Lock
	// sorted is how many elements of held are in order: the locks that Acquire has taken. index finds the others by
	// name, see find.
	sorted int
	index  map[uint64]int
	all    bool // every lock is held for writing
	// pinned: ReleaseReads does not release the locks.
	pinned bool
	// failure is set after FailWaiters. The locks themselves are free then.
	failure *failure
	// self stands for the transaction in the queue of a lock.
	self waiter
	// combined are the waiters whose jobs this transaction has taken over. They wait for its end.
	combined []*waiter
}

// Init prepares a new set.
func (s *Set) Init() { s.self.told = make(chan struct{}, 1) }

// Add requests locks, which Acquire takes.
func (s *Set) Add(locks ...Lock) { s.want = append(s.want, locks...) }

// Forget drops the requested locks.
func (s *Set) Forget() { s.want = s.want[:0] }

// Held returns the locks that the set holds, unless it holds all locks. The result is valid until the set changes.
func (s *Set) Held() []Lock { return s.held }

// All reports whether the set holds every lock.
func (s *Set) All() bool { return s.all }

// Any reports whether the set holds a lock.
func (s *Set) Any() bool { return s.all || len(s.held) > 0 }

// Pin makes ReleaseReads do nothing until Release.
func (s *Set) Pin() { s.pinned = true }

// Acquire takes the requested locks in order, each once. If it returns an error, see [Set.FailWaiters], the set holds
// no lock.
func (s *Set) Acquire(t *Table) error {
	if len(s.want) > 1 {
		slices.Sort(s.want)
		for _, v := range s.want { // so that CPU cache misses overlap
			t.bucket(v).waiting.Load()
		}
	}
	for _, v := range s.want {
		n := len(s.held)
		if n > 0 && s.held[n-1].Name() == v.Name() {
			continue
		}
		t.lock(v, &s.self, n > 0 && bucketOf(s.held[n-1]) == bucketOf(v))
		s.held = append(s.held, v)
	}
	s.want = s.want[:0]
	s.sorted = len(s.held)
	return s.admitted(t)
}

// TryAcquire takes the requested locks if that is possible without waiting. Otherwise the set holds no lock.
func (s *Set) TryAcquire(t *Table) bool {
	slices.Sort(s.want)
	for _, v := range s.want {
		if n := len(s.held); n > 0 && s.held[n-1].Name() == v.Name() {
			continue
		}
		if !t.TryLock(v) {
			s.want = s.want[:0]
			s.Release(t)
			return false
		}
		s.held = append(s.held, v)
	}
	s.want = s.want[:0]
	s.sorted = len(s.held)
	return s.admitted(t) == nil
}

// TryEach takes locks without waiting, one group after the other, until a group has a lock that is not free. Of that
// group the set takes no lock. TryEach returns how many groups it has taken. It sorts the groups.
func (s *Set) TryEach(t *Table, groups [][]Lock) int {
	for _, g := range groups { // so that CPU cache misses overlap
		for _, v := range g {
			t.bucket(v).waiting.Load()
		}
	}
	n := 0
	for n < len(groups) && s.tryGroup(t, groups[n]) {
		n++
	}
	slices.Sort(s.held)
	s.sorted = len(s.held)
	return n
}

// tryGroup takes all locks of a group or none. A lock for reading that the set has become one for writing by a group
// that fails later stays so.
func (s *Set) tryGroup(t *Table, group []Lock) bool {
	had := len(s.held)
	slices.Sort(group)
	for i, v := range group {
		if i > 0 && group[i-1].Name() == v.Name() {
			continue // a search in held for each of many keys that are given twice would take seconds
		}
		if t.TryLock(v) {
			s.held = append(s.held, v)
			if !t.Fails(v) {
				continue
			}
		} else if i := slices.IndexFunc(s.held, func(o Lock) bool { return o.Name() == v.Name() }); i >= 0 &&
			(!v.Write() || s.held[i].Write() || s.tryUpgrade(t, i)) {
			continue
		}
		for _, v := range s.held[had:] {
			t.Unlock(v)
		}
		s.held = s.held[:had]
		return false
	}
	return true
}

// admitted releases everything if a transaction that has called FailWaiters has one of the locks.
func (s *Set) admitted(t *Table) error {
	if t.failing.n.Load() == 0 {
		return nil
	}
	err := t.failing.find(nil, s.held...)
	if err != nil {
		s.Release(t)
	}
	return err
}

// Release releases the locks. A writer that gets one of them runs at once: the releasing goroutine has replies to send
// and may have nothing more to do with the key, and a hot key must not wait for that.
func (s *Set) Release(t *Table) {
	s.pinned, s.sorted = false, 0
	if len(s.index) > keptIndex {
		s.index = nil
	}
	clear(s.index)
	if s.failure != nil {
		t.withdraw(s.failure)
		s.failure, s.all, s.held = nil, false, s.held[:0]
		return
	}
	if s.all {
		s.all = false
		t.UnlockAll()
		return
	}
	handed := false
	for i := len(s.held) - 1; i >= 0; i-- {
		if t.Unlock(s.held[i]) {
			handed = true
		}
	}
	s.held = s.held[:0]
	if handed {
		runtime.Gosched()
	}
}

// AcquireAll takes every lock for writing, in place of the requested locks. The error is as that of Acquire.
func (s *Set) AcquireAll(t *Table) error {
	s.want = s.want[:0]
	t.LockAll()
	if err := t.Failing(); err != nil {
		t.UnlockAll()
		return err
	}
	s.all = true
	return nil
}

// ReleaseReads releases the locks if all of them are for reading and the set is not pinned. It reports whether it did.
func (s *Set) ReleaseReads(t *Table) bool {
	if len(s.held) == 0 || s.pinned || s.writes() {
		return false
	}
	s.Release(t)
	return true
}

// writes reports whether the set holds a lock for writing.
func (s *Set) writes() bool {
	return s.all || slices.ContainsFunc(s.held, Lock.Write)
}

// Writes reports whether the set holds the lock of a name for writing.
func (s *Set) Writes(name uint64) bool {
	if s.all {
		return true
	}
	i := s.find(name)
	return i >= 0 && s.held[i].Write()
}

// keptIndex: an index of more locks is not reused by the next transaction.
const keptIndex = 1024

// find returns the index in held of the lock with a name, -1 = not held. A script may take many locks, one by one.
func (s *Set) find(name uint64) int {
	i, _ := slices.BinarySearch(s.held[:s.sorted], Of(name, true))
	if i < s.sorted && s.held[i].Name() == name {
		return i
	}
	later := s.held[s.sorted:]
	if s.index == nil && len(later) > 0 {
		s.index = map[uint64]int{}
	}
	for i := len(s.index); i < len(later); i++ {
		s.index[later[i].Name()] = s.sorted + i
	}
	if i, ok := s.index[name]; ok {
		return i
	}
	return -1
}

// TryLock takes one more lock if that is possible without waiting, and reports whether the set has it. (Waiting could
// deadlock, because locks are taken in one order.) A lock that the set holds for reading becomes a lock for writing if
// no other transaction reads.
func (s *Set) TryLock(t *Table, v Lock) bool {
	if s.all {
		return true
	}
	i := s.find(v.Name())
	switch {
	case i >= 0 && v.Write() && !s.held[i].Write():
		return s.tryUpgrade(t, i)
	case i >= 0:
		return true
	}
	return s.tryLock(t, v)
}
