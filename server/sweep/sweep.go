// Package sweep deletes keys and hash fields when they expire, while their expiry events are wanted.
//
// Without the sweep an expired key is invisible and a compaction removes it from disk, but no event is published. A
// pass over all records finds the keys that expire before some time after the next pass; commits add further keys. So
// only keys that expire soon take memory.
package sweep

import (
	"container/heap"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/hash"
	"github.com/basaltdb/basalt/engine/search"
)

// Options say what to sweep, and which functions are called for it.
type Options struct {
	DB      *engine.DB
	Log     *zap.Logger
	Indexes *search.Registry // the search indexes, whose entries follow the keys; nil = none exist
	// MayExpire returns nil, ErrPaused or ErrNotHere. It is called with the lock of a key held, and its answer stays
	// true until the lock is released.
	MayExpire func() error
	// PausedUntil returns the end of the present pause; ok is false when there is no pause.
	PausedUntil func() (end time.Time, ok bool)

	// KeyEnded is called after a key was deleted, with how it had ended. FieldsExpired is called after fields of a
	// hash were deleted, HashEmptied after the last field and with it the hash was deleted. All are called after the
	// commit.
	KeyEnded      func(ns string, key []byte, how engine.Ended)
	FieldsExpired func(ns string, key []byte)
	HashEmptied   func(ns string, key []byte)
}

var (
	// ErrPaused says that nothing expires now: the key is deleted after the pause.
	ErrPaused = errors.New("keys do not expire during a pause")
	// ErrNotHere says that the server deletes no expired keys: its master does.
	ErrNotHere = errors.New("a replica does not delete expired keys: its master does")
)

const (
	passEvery = 5 * time.Minute
	horizon   = 2 * passEvery
	maxKeys   = 1 << 20 // in memory; a later pass finds the keys beyond
	retry     = time.Second
	rest      = 10 // a hash is skipped for rest times the duration of the last pass over its fields
)

// Sweep is the sweep of a database. It runs while events of expiring keys or fields are wanted.
type Sweep struct {
	Options

	wanted    atomic.Bool  // Want(true, ...)
	fields    atomic.Bool  // Want(..., true)
	listeners atomic.Int64 // listeners of Listen, which want events of keys and fields

	mu      sync.Mutex
	soon    expiries
	wake    chan struct{} // holds one value when the sweep should check again
	running bool
	stopped bool
	hooked  bool // commits report keys that expire
	fresh   bool // hooked only since the last pass: another pass is due
	stop    chan struct{}
	done    sync.WaitGroup

	// resting has the hashes that the sweep skips, and until when. Only the sweep's goroutine uses it.
	resting  map[expiry]time.Time // by expiry with at 0
	lastLine time.Time            // when an error was logged
}

// New returns a sweep that does not run yet.
func New(o Options) *Sweep {
	return &Sweep{Options: o, wake: make(chan struct{}, 1), stop: make(chan struct{}), resting: map[expiry]time.Time{}}
}

// expiry is a key that expires soon.
type expiry struct {
	at      int64 // ms
	ns, key string
}

type expiries []expiry

func (e expiries) Len() int           { return len(e) }
func (e expiries) Less(i, j int) bool { return e[i].at < e[j].at }
func (e expiries) Swap(i, j int)      { e[i], e[j] = e[j], e[i] }
func (e *expiries) Push(x any)        { *e = append(*e, x.(expiry)) }
func (e *expiries) Pop() any {
	old := *e
	x := old[len(old)-1]
	old[len(old)-1] = expiry{}
	*e = old[:len(old)-1]
	return x
}

// Want says whether the sweep must delete keys when they expire, and whether it must delete hash fields too. It
// begins or ends the sweep at once, unless there are listeners.
func (s *Sweep) Want(any, fields bool) {
	s.fields.Store(fields)
	s.wanted.Store(any || fields)
	if s.isWanted() {
		s.begin()
	} else {
		s.end()
	}
}

// Listen adds or removes a listener, which wants events of keys and fields. After the last listener is removed, the
// sweep continues until a pass is due: so listeners that come and go do not cost a pass each.
func (s *Sweep) Listen(on bool) {
	if !on {
		s.listeners.Add(-1)
		return
	}
	s.listeners.Add(1)
	s.begin()
}

// Wake makes the sweep check again: a pause has ended.
func (s *Sweep) Wake() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// Refresh makes the sweep search for all keys that expire: it may now delete keys that it has skipped because of
// ErrNotHere.
func (s *Sweep) Refresh() {
	s.mu.Lock()
	s.fresh = true
	s.mu.Unlock()
	s.Wake()
}

// Stop ends the sweep for good and returns at once. Wait waits for its end.
func (s *Sweep) Stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.stopped {
		s.stopped = true
		close(s.stop)
	}
}

// Wait waits for the end of the sweep, after Stop.
func (s *Sweep) Wait() { s.done.Wait() }

// Len returns how many keys are known to expire soon.
func (s *Sweep) Len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.soon)
}

func (s *Sweep) isWanted() bool { return s.wanted.Load() || s.listeners.Load() > 0 }

// begin starts the sweep, if it is not running.
func (s *Sweep) begin() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.hooked || s.stopped {
		return
	}
	s.hooked, s.fresh = true, true
	s.DB.OnExpiry(s.add)
	s.DB.OnFieldsExpired(s.FieldsExpired)
	if !s.running {
		s.running = true
		s.done.Go(s.run)
	}
	s.Wake()
}

// end stops the sweep; its goroutine sleeps.
func (s *Sweep) end() {
	s.mu.Lock()
	s.DB.OnExpiry(nil)
	s.DB.OnFieldsExpired(nil)
	s.soon, s.hooked = nil, false
	s.mu.Unlock()
	if s.isWanted() { // may have changed since the check above
		s.begin()
	}
}

// add notes a key, if it expires soon.
func (s *Sweep) add(ns string, key []byte, at int64) {
	if at > time.Now().Add(horizon).UnixMilli() {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.soon) < maxKeys {
		s.push(expiry{at, ns, string(key)})
	}
}

// push notes a key. mu must be held.
func (s *Sweep) push(e expiry) {
	heap.Push(&s.soon, e)
	if s.soon[0].at == e.at {
		s.Wake()
	}
}

func (s *Sweep) closing() bool {
	select {
	case <-s.stop:
		return true
	default:
		return false
	}
}

func (s *Sweep) run() {
	var nextPass time.Time
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-s.stop:
			return
		case <-s.wake:
		case <-timer.C:
		}
		s.mu.Lock()
		hooked, fresh := s.hooked, s.fresh
		s.fresh = false
		s.mu.Unlock()
		if !hooked {
			timer.Reset(passEvery)
			continue
		}
		if now := time.Now(); fresh || !now.Before(nextPass) {
			if !s.isWanted() {
				s.end()
				timer.Reset(passEvery)
				continue
			}
			nextPass = now.Add(passEvery)
			s.pass(now.Add(horizon))
		}
		timer.Reset(min(time.Until(nextPass), s.expireDue()))
	}
}

// pass finds all keys that expire before a time. A key that a commit adds meanwhile may be listed twice, which does
// no harm.
func (s *Sweep) pass(until time.Time) {
	s.mu.Lock()
	s.soon = nil
	s.mu.Unlock()
	clear(s.resting)
	err := s.DB.EachExpiring(until.UnixMilli(), func(ns, key []byte, at int64) bool {
		s.add(string(ns), key, at)
		return !s.closing()
	})
	if err != nil {
		s.failed("looking for keys that expire failed", err)
	}
}

// failed logs an error, at most once a second.
func (s *Sweep) failed(what string, err error) {
	if now := time.Now(); now.Sub(s.lastLine) >= time.Second {
		s.lastLine = now
		s.Log.Error(what, zap.Error(err))
	}
}

// expireDue handles the keys that have expired, or have expired fields, and returns the time until the next expiry.
func (s *Sweep) expireDue() time.Duration {
	for !s.closing() {
		if end, ok := s.PausedUntil(); ok {
			return time.Until(end)
		}
		s.mu.Lock()
		if len(s.soon) == 0 {
			s.mu.Unlock()
			return passEvery
		}
		// A key has expired when its time has passed.
		if wait := time.Until(time.UnixMilli(s.soon[0].at + 1)); wait > 0 {
			s.mu.Unlock()
			return wait
		}
		e := heap.Pop(&s.soon).(expiry)
		s.mu.Unlock()
		again, err := s.expire(e.ns, []byte(e.key))
		switch {
		case err == ErrPaused:
			s.mu.Lock()
			s.push(e)
			s.mu.Unlock()
			continue
		case err == ErrNotHere: // a later pass finds the key when this has changed
			continue
		case err != nil:
			s.failed("deleting an expired key failed", err)
			again = time.Now().Add(retry)
		}
		if !again.IsZero() {
			s.add(e.ns, []byte(e.key), again.UnixMilli())
		}
	}
	return passEvery
}

// expire deletes a key if it has expired, or the expired fields of a hash. It returns when to check the key again;
// the zero time = not before it is written.
func (s *Sweep) expire(ns string, key []byte) (again time.Time, err error) {
	if s.Indexes.Any() {
		// In a transaction of its own: a writer that comes before the next one gives the expired key all entries anew.
		if err := s.update(ns, key, func(*engine.Tx) error { return nil }); err != nil {
			return again, err
		}
	}
	how, err := s.DB.DeleteExpired(ns, key, s.MayExpire, func(how engine.Ended) { s.KeyEnded(ns, key, how) })
	if err != nil || how != engine.NotEnded || !s.fields.Load() && s.listeners.Load() == 0 {
		return again, err
	}
	k := expiry{ns: ns, key: string(key)}
	if time.Now().Before(s.resting[k]) {
		return again, nil // the hash is in the list for the end of its rest
	}
	delete(s.resting, k)
	var next int64
	var took time.Duration
	left := true
	err = s.update(ns, key, func(tx *engine.Tx) error {
		begin := time.Now()
		next, left, err = hash.DeleteExpired(tx, key)
		took = time.Since(begin)
		return err
	})
	if err != nil {
		return again, err
	}
	if !left {
		s.HashEmptied(ns, key)
	}
	// The commit has put the hash into the list for the next field. But a pass goes over all fields: a hash of a
	// million fields that expire one by one must not take all the CPU time.
	if end := time.Now().Add(rest * took); next > 0 && time.UnixMilli(next).Before(end) {
		s.resting[k], again = end, end
	}
	return again, nil
}

// update runs f in a transaction that has the lock of a key, unless keys do not expire now. The entries that the search
// indexes have of the key follow, also where only the time has changed them.
func (s *Sweep) update(ns string, key []byte, f func(tx *engine.Tx) error) error {
	keys := [][]byte{key}
	keys = append(keys, s.Indexes.GraphLocks(ns, keys)...)
	return s.DB.Update(ns, keys, func(tx *engine.Tx) error {
		if err := s.MayExpire(); err != nil {
			return err
		}
		var indexed search.Watch
		if err := s.Indexes.Before(tx, &indexed, key); err != nil {
			return err
		}
		if err := f(tx); err != nil {
			return err
		}
		return indexed.After(tx)
	})
}
