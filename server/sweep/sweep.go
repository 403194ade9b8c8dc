// Package sweep deletes keys and fields of hashes when their time comes, while somebody wants to hear of it.
//
// Without it a key whose time has passed is not seen any more and leaves the disk with a compaction, but nobody is
// told. A pass over all records finds those that expire until some time after the next pass; commits add theirs. So
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
)

// Options say what to sweep and who hears of it.
type Options struct {
	DB  *engine.DB
	Log *zap.Logger
	// MayExpire returns nil, ErrPaused or ErrNotHere. It is called with the lock of a key held, and its answer holds until
	// the lock is given back.
	MayExpire func() error
	// PausedUntil returns the end of the present pause; ok is false when there is none.
	PausedUntil func() (end time.Time, ok bool)

	// KeyEnded hears that a key was deleted, and how it had ended. FieldsExpired hears that fields of a hash were deleted,
	// HashEmptied that the last field was and the hash with it. They are called when that is committed.
	KeyEnded      func(ns string, key []byte, how engine.Ended)
	FieldsExpired func(ns string, key []byte)
	HashEmptied   func(ns string, key []byte)
}

var (
	// ErrPaused says that nothing expires now: the key's time comes after the pause.
	ErrPaused = errors.New("nothing expires during a pause")
	// ErrNotHere says that nothing expires by itself: a master deletes the keys.
	ErrNotHere = errors.New("a replica deletes nothing by itself")
)

const (
	passEvery = 5 * time.Minute
	horizon   = 2 * passEvery
	maxKeys   = 1 << 20 // in memory; those beyond are found by a later pass
	retry     = time.Second
	rest      = 10 // times as long as a pass over the fields of a hash took, the hash is left alone
)

// Sweep is the sweep of a database. It runs while somebody wants to hear of keys or fields that expire.
type Sweep struct {
	Options

	wanted    atomic.Bool  // Want(true, ...)
	fields    atomic.Bool  // Want(..., true)
	listeners atomic.Int64 // those of Listen, who want to hear of keys and fields

	mu      sync.Mutex
	soon    expiries
	wake    chan struct{} // holds one when the sweep should look again
	running bool
	stopped bool
	hooked  bool // commits tell of keys that expire
	fresh   bool // they do so only since the last pass: one is due
	stop    chan struct{}
	done    sync.WaitGroup

	// resting has the hashes that the sweep passes by, and until when. It belongs to the sweep's goroutine.
	resting  map[expiry]time.Time // by expiry with at 0
	lastLine time.Time            // when an error was logged
}

// New returns a sweep that nobody wants yet.
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

// Want says whether keys or fields are to be deleted when they expire, and whether that goes for fields of hashes. It
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

// Listen notes that one more listener wants to hear of keys and fields, or that one does no more. When the last one has
// gone, the sweep goes on until a pass is due: listeners that come and go do not cost a pass each.
func (s *Sweep) Listen(on bool) {
	if !on {
		s.listeners.Add(-1)
		return
	}
	s.listeners.Add(1)
	s.begin()
}

// Wake lets the sweep look again: a pause has ended.
func (s *Sweep) Wake() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// Refresh lets the sweep look for all keys that expire: those that it has passed by with ErrNotHere may be its own now.
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

// begin begins the sweep, if it has not begun.
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

// end ends the sweep; its goroutine stays, asleep.
func (s *Sweep) end() {
	s.mu.Lock()
	s.DB.OnExpiry(nil)
	s.DB.OnFieldsExpired(nil)
	s.soon, s.hooked = nil, false
	s.mu.Unlock()
	if s.isWanted() { // since just now
		s.begin()
	}
}

// add notes a key that expires, if that is soon.
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

// pass finds all keys that expire until then. A key that a commit adds meanwhile may be there twice, which does no
// harm.
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

// failed logs an error, not more often than once a second.
func (s *Sweep) failed(what string, err error) {
	if now := time.Now(); now.Sub(s.lastLine) >= time.Second {
		s.lastLine = now
		s.Log.Error(what, zap.Error(err))
	}
}

// expireDue handles the keys that have expired, or have fields that have, and returns after which time the next one
// does.
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
		case err == ErrNotHere: // a pass finds the key when that has changed
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

// expire deletes a key if it has expired, or the fields of a hash that have. It returns when to look at the key
// again; the zero time = not before somebody writes it.
func (s *Sweep) expire(ns string, key []byte) (again time.Time, err error) {
	how, err := s.DB.DeleteExpired(ns, key, s.MayExpire, func(how engine.Ended) { s.KeyEnded(ns, key, how) })
	if err != nil || how != engine.NotEnded || !s.fields.Load() && s.listeners.Load() == 0 {
		return again, err
	}
	k := expiry{ns: ns, key: string(key)}
	if time.Now().Before(s.resting[k]) {
		return again, nil // it is in the list for the end of its rest
	}
	delete(s.resting, k)
	var next int64
	var took time.Duration
	left := true
	err = s.DB.Update(ns, [][]byte{key}, func(tx *engine.Tx) error {
		if err := s.MayExpire(); err != nil {
			return err
		}
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
	// The commit has put the hash into the list for the next field. But a pass goes over all fields: a hash of a million
	// fields that expire one by one must not cost all the time.
	if end := time.Now().Add(rest * took); next > 0 && time.UnixMilli(next).Before(end) {
		s.resting[k], again = end, end
	}
	return again, nil
}
