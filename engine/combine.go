package engine

import (
	"sync"
)

// Many clients that write one key would each wait for the lock, and then for a commit of their own. Instead the
// one that holds the lock runs the jobs of those that wait for it in its own transaction, and one commit carries
// them all: flat combining (Hendler, Incze, Shavit, Tzafrir: Flat Combining and the Synchronization-Parallelism
// Tradeoff, 2010). Measured with 50 clients that write one hash, one command at a time: see the README.

// Job is what a transaction that waits for its lock wants to have done.
type Job interface {
	// RunIn does the work in a transaction in the same namespace that holds the locks that the job's own
	// transaction asked for. The transaction may have written already: what the job replies holds only when that
	// transaction is committed, even if the job itself writes nothing. It must neither commit nor release it.
	// It returns how many commands it has run.
	RunIn(tx *Tx) (commands int)
}

// waiter is a transaction in the queue of a stripe.
type waiter struct {
	job  Job
	ns   string
	next *waiter
	told chan struct{} // something has become of it: its job was done, or it is to take the lock itself
	done bool
	err  error
}

// jobQueue holds the transactions that wait for one stripe for writing and need no other.
type jobQueue struct {
	mu          sync.Mutex
	first, last *waiter
}

func (s *stripe) enqueue(w *waiter) {
	q := &s.queue
	q.mu.Lock()
	w.next = nil
	if q.last == nil {
		q.first = w
	} else {
		q.last.next = w
	}
	q.last = w
	s.queued.Add(1)
	q.mu.Unlock()
}

// dequeue takes out the first waiter that ok accepts; nil = there is none.
func (s *stripe) dequeue(ok func(*waiter) bool) *waiter {
	if s.queued.Load() == 0 {
		return nil
	}
	q := &s.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	var before *waiter
	for w := q.first; w != nil; before, w = w, w.next {
		if ok != nil && !ok(w) {
			continue
		}
		if before == nil {
			q.first = w.next
		} else {
			before.next = w.next
		}
		if q.last == w {
			q.last = before
		}
		w.next = nil
		s.queued.Add(-1)
		return w
	}
	return nil
}

// wake lets the first one in the queue take the lock by itself. Everybody who unlocks a stripe calls it, by release: one
// that has found the stripe locked is in the queue before the one that holds it looks there.
func (s *stripe) wake() {
	if s.queued.Load() == 0 {
		return
	}
	if w := s.dequeue(nil); w != nil {
		w.told <- struct{}{}
	}
}

// AcquireOr takes the locks as Acquire does. When the transaction needs only one, for writing, and another
// transaction holds it, that one may run the job with its own commit: then AcquireOr returns true and the error
// of that commit, and this transaction, which holds no locks, is to be released.
// Without having run it, the error is Acquire's.
func (tx *Tx) AcquireOr(job Job) (ran bool, err error) {
	s := tx.locks.single(tx.db.locks)
	if s == nil {
		return false, tx.Acquire()
	}
	if !s.TryLock() {
		w := &tx.own
		w.job, w.ns, w.done, w.err = job, tx.ns, false, nil
		s.enqueue(w)
		// The lock may have become free before we were in the queue: then nobody will look there.
		got := s.TryLock()
		if got && s.dequeue(func(q *waiter) bool { return q == w }) == nil {
			s.release(true)
			got = false
		}
		if !got {
			<-w.told
			if w.done {
				w.job = nil
				tx.locks.want = tx.locks.want[:0]
				return true, w.err
			}
			s.lock()
		}
		w.job = nil
	}
	tx.locks.held = append(tx.locks.held, tx.locks.want[0])
	tx.locks.want = tx.locks.want[:0]
	if err := tx.locks.admitted(tx.db.locks); err != nil {
		return false, err
	}
	tx.cacheOK = true
	return false, nil
}

// single returns the stripe if one stripe for writing is all that is wanted.
func (s *lockSet) single(t *lockTable) *stripe {
	if len(s.want) == 0 || len(s.held) > 0 {
		return nil
	}
	first := s.want[0]
	if first&1 != 0 {
		return nil
	}
	for _, v := range s.want[1:] {
		if v>>1 != first>>1 {
			return nil
		}
	}
	return &t.stripes[first>>1]
}

// guests are the transactions whose jobs ran in another one and that wait for its end.
type guests struct {
	list   []*waiter
	result error
}

var errNotCommitted = NewError("ERR", "the write was not committed")

// leave tells the guests what has become of their writes.
func (g *guests) leave() {
	for i, w := range g.list {
		w.done, w.err = true, g.result
		w.told <- struct{}{}
		g.list[i] = nil
	}
	g.list, g.result = g.list[:0], nil
}

// maxGuestCommands bounds how many commands a transaction runs for others, while its own client waits: a job that
// would begin beyond it is left to the next holder of the lock. Commands that write nothing, or the same record again
// and again, never make a transaction large.
const maxGuestCommands = 1024

// RunWaiting runs the jobs that wait for the only lock of the transaction, until there are none, or as many as
// one transaction may run, or full says that the transaction is large enough. Call it before Commit.
func (tx *Tx) RunWaiting(full func() bool) {
	if len(tx.locks.held) != 1 || tx.locks.held[0]&1 != 0 {
		return
	}
	s := &tx.db.locks.stripes[tx.locks.held[0]>>1]
	if s.queued.Load() == 0 {
		return
	}
	same := func(w *waiter) bool { return w.ns == tx.ns }
	for commands := 0; commands < maxGuestCommands && !full(); {
		w := s.dequeue(same)
		if w == nil {
			return
		}
		tx.guests.list = append(tx.guests.list, w)
		tx.guests.result = errNotCommitted // until it is
		commands += w.job.RunIn(tx)
	}
}
