package server

import (
	"container/heap"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/hash"
	"github.com/basaltdb/basalt/server/command"
)

// notifier knows which events are wanted, and the keys that expire soon if somebody is to hear of that: those who want the
// events of expiry, and clients that track keys in broadcasting mode.
type notifier struct {
	trackers atomic.Int64 // clients that track keys in broadcasting mode
	mu       sync.Mutex
	soon     expiries
	wake     chan struct{} // there is an earlier expiry than before
	running  bool
	hooked   bool                 // commits tell of keys that expire
	fresh    bool                 // they do so only now: a pass is due
	rest     map[expiry]time.Time // of hashes, whose at is 0: until when the sweep passes them by; its own
}

// The sweep for expired keys and fields of hashes: a pass over all records finds those that expire until some time after the
// next pass; commits add theirs. So only keys that expire soon take memory.
const (
	sweepEvery   = 5 * time.Minute
	sweepAhead   = 2 * sweepEvery
	sweepAtMost  = 1 << 20 // keys in memory; those beyond are found by a later pass
	sweepRetries = time.Second
	sweepRest    = 10 // times as long as a pass over the fields of a hash took, it is left alone
)

// The events that the sweep brings about: of keys, and of fields of hashes, of which the last one takes the key with it.
const (
	sweptEvents = command.EventExpired | fieldEvents
	fieldEvents = command.EventHash | command.EventGeneric
)

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

// followEvents takes over notify-keyspace-events, and begins or ends the sweep.
func (s *Server) followEvents(text string) {
	classes, _ := command.ParseEvents(text)
	if classes&(command.EventKeyspace|command.EventKeyevent) == 0 {
		classes = 0
	}
	s.events.Store(uint32(classes))
	if !s.sweepWanted() {
		s.unhook()
	} else {
		s.beginSweep()
	}
}

// sweepWanted reports whether somebody is to hear of keys that expire.
func (s *Server) sweepWanted() bool {
	return command.EventClass(s.events.Load())&sweptEvents != 0 || s.notify.trackers.Load() > 0
}

// unhook ends the sweep.
func (s *Server) unhook() {
	n := &s.notify
	n.mu.Lock()
	s.db.OnExpiry(nil)
	s.db.OnFieldsExpired(nil)
	n.soon, n.hooked = nil, false
	n.mu.Unlock()
	if s.sweepWanted() { // since just now
		s.beginSweep()
	}
}

// beginSweep begins the sweep, if it has not begun.
func (s *Server) beginSweep() {
	n := &s.notify
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.hooked {
		return
	}
	n.hooked, n.fresh = true, true
	s.db.OnExpiry(func(ns string, key []byte, at int64) { n.add(ns, key, at) })
	s.db.OnFieldsExpired(func(ns string, key []byte) { s.publishEvent(ns, command.EventHash, "hexpired", key) })
	if !n.running {
		n.running = true
		n.wake = make(chan struct{}, 1)
		s.wg.Go(s.sweepExpired)
	}
	n.nudge()
}

// trackedBroadcasting notes that a client has begun to track keys in broadcasting mode, or has ended it. When the last one has, the
// sweep goes on until a pass is due: clients that come and go do not cost a pass each.
func (s *Server) trackedBroadcasting(on bool) {
	if !on {
		s.notify.trackers.Add(-1)
		return
	}
	s.notify.trackers.Add(1)
	s.beginSweep()
}

// nudge lets the sweep look again.
func (n *notifier) nudge() {
	select {
	case n.wake <- struct{}{}:
	default:
	}
}

// wakeSweep lets the sweep look again, if there is one.
func (n *notifier) wakeSweep() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.nudge()
}

func (n *notifier) add(ns string, key []byte, at int64) {
	if at > time.Now().Add(sweepAhead).UnixMilli() {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.soon) >= sweepAtMost {
		return
	}
	heap.Push(&n.soon, expiry{at, ns, string(key)})
	if n.soon[0].at == at {
		n.nudge()
	}
}

// sweepExpired deletes keys when they expire and publishes that.
func (s *Server) sweepExpired() {
	n := &s.notify
	var nextPass time.Time
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-s.stop:
			n.mu.Lock()
			n.running = false
			n.mu.Unlock()
			return
		case <-n.wake:
		case <-timer.C:
		}
		n.mu.Lock()
		hooked, fresh := n.hooked, n.fresh
		n.fresh = false
		n.mu.Unlock()
		if !hooked {
			timer.Reset(sweepEvery)
			continue
		}
		if now := time.Now(); fresh || !now.Before(nextPass) {
			if !s.sweepWanted() {
				s.unhook()
				timer.Reset(sweepEvery)
				continue
			}
			nextPass = now.Add(sweepEvery)
			s.findExpiring(now.Add(sweepAhead))
		}
		timer.Reset(min(time.Until(nextPass), s.expireDue()))
	}
}

// findExpiring adds all keys that expire until then; those that are there already come again, which does no harm.
func (s *Server) findExpiring(until time.Time) {
	s.notify.mu.Lock()
	s.notify.soon = nil
	s.notify.mu.Unlock()
	s.notify.rest = make(map[expiry]time.Time)
	err := s.db.EachExpiring(until.UnixMilli(), func(ns, key []byte, at int64) bool {
		s.notify.add(string(ns), key, at)
		return !s.closing.Load()
	})
	if err != nil && s.failures.allow(time.Second) {
		s.log.Error("looking for keys that expire failed", zap.Error(err))
	}
}

// expireDue handles the keys that have expired, or have fields that have, and returns after which time the next one does.
func (s *Server) expireDue() time.Duration {
	n := &s.notify
	for !s.closing.Load() {
		if p := s.presentPause(); p != nil {
			return time.Until(p.until)
		}
		n.mu.Lock()
		if len(n.soon) == 0 {
			n.mu.Unlock()
			return sweepEvery
		}
		// A key has expired when its time has passed.
		if wait := time.Until(time.UnixMilli(n.soon[0].at + 1)); wait > 0 {
			n.mu.Unlock()
			return wait
		}
		e := heap.Pop(&n.soon).(expiry)
		n.mu.Unlock()
		again, err := s.expireOne(e.ns, []byte(e.key))
		if err == errExpiryPaused {
			n.mu.Lock()
			heap.Push(&n.soon, e)
			n.mu.Unlock()
			continue
		}
		if err != nil {
			if s.failures.allow(time.Second) {
				s.log.Error("deleting an expired key failed", zap.Error(err))
			}
			again = time.Now().Add(sweepRetries)
		}
		if !again.IsZero() {
			n.add(e.ns, []byte(e.key), again.UnixMilli())
		}
	}
	return sweepEvery
}

var errReplicaExpires = errors.New("a replica deletes nothing by itself")

var errExpiryPaused = errors.New("nothing expires during CLIENT PAUSE")

// mayExpire returns an error when there is a pause, and on a replica. With a lock held its answer holds until that is given back.
func (s *Server) mayExpire() error {
	if s.db.IsReplica() {
		return errReplicaExpires
	}
	if s.isPaused() {
		return errExpiryPaused
	}
	return nil
}

// expireOne deletes a key if it has expired, or the fields of a hash that have, and publishes that. It returns when to
// look at the key again; the zero time = not before somebody writes it.
func (s *Server) expireOne(ns string, key []byte) (again time.Time, err error) {
	how, err := s.db.DeleteExpired(ns, key, s.mayExpire, func(how engine.Ended) {
		for _, e := range endEvents(how, key) {
			s.publishEvent(ns, e.Class, e.Name, key)
		}
	})
	if err != nil || how != engine.NotEnded || command.EventClass(s.events.Load())&fieldEvents == 0 && s.notify.trackers.Load() == 0 {
		return again, err
	}
	k := expiry{ns: ns, key: string(key)}
	if time.Now().Before(s.notify.rest[k]) {
		return again, nil // it is in the list for the end of its rest
	}
	delete(s.notify.rest, k)
	var next int64
	var took time.Duration
	left := true
	err = s.db.Update(ns, [][]byte{key}, func(tx *engine.Tx) error {
		if err := s.mayExpire(); err != nil {
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
		s.publishEvent(ns, command.EventGeneric, "del", key)
	}
	// The commit has put the hash into the list for the next field. But a pass goes over all fields: a hash of a million,
	// which expire one by one, is not to cost all the time.
	if end := time.Now().Add(sweepRest * took); next > 0 && time.UnixMilli(next).Before(end) {
		s.notify.rest[k], again = end, end
	}
	return again, nil
}
