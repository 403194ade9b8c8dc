package server

import (
	"container/heap"
	"errors"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/hash"
	"github.com/basaltdb/basalt/server/command"
	"github.com/basaltdb/basalt/server/pubsub"
)

// Keyspace events are messages about what commands have done to keys: see notify-keyspace-events. They are published
// when the commit has succeeded. With the setting empty they cost one atomic load for a command that writes.

// change collects what a command's events depend on, before and after it runs.
type change struct {
	command.Change
	on     bool
	misses [][]byte       // keys that it looks up and that are not there
	ended  []engine.Ended // of Keys: those that have expired, and that nobody has noticed before
	// otherNS is the namespace of Other, and otherEnded what ended is of Keys.
	otherNS    string
	otherEnded engine.Ended
	refs       []command.KeyRef
}

// forget ends the watching of the command: it has done nothing, or its events were kept.
func (ch *change) forget() { ch.on, ch.misses = false, ch.misses[:0] }

// watchChange notes which of the command's keys exist before it runs.
func (c *run) watchChange(f *frame, r *request) {
	ch := &f.change
	ch.forget()
	f.ctx.Told = nil
	classes := command.EventClass(c.srv.notify.classes.Load())
	if classes == 0 || c.srv.hub.Len() == 0 || r.spec.Flags&(command.Write|command.ReadOnly) == 0 || r.spec.Flags&command.Script != 0 {
		return
	}
	ch.on = r.spec.Flags&command.Write != 0
	if !ch.on && classes&command.EventMiss == 0 {
		return
	}
	ch.refs = r.spec.AppendKeys(ch.refs[:0], r.args)
	if classes&command.EventMiss != 0 {
		ch.misses = command.AppendLookups(ch.misses, r.spec, r.args, ch.refs)
		ch.misses = slices.DeleteFunc(ch.misses, func(key []byte) bool {
			rec, err := c.tx.Look(key)
			return err != nil || rec.Exists
		})
	}
	if !ch.on {
		return
	}
	ch.Spec, ch.Args = r.spec, r.args
	ch.Keys, ch.Told = ch.Keys[:0], ch.Told[:0]
	for _, k := range ch.refs {
		if k.Write {
			ch.Keys = append(ch.Keys, r.args[k.Arg])
		}
	}
	ch.Was = command.Exists(c.tx, ch.Keys, ch.Was[:0])
	ch.ended = ch.ended[:0]
	for _, key := range ch.Keys {
		how, _ := c.tx.Ended(key) // an error is the command's to meet
		ch.ended = append(ch.ended, how)
	}
	ch.Other, ch.otherEnded = nil, engine.NotEnded
	if r.spec.Foreign != nil {
		if ns, arg, ok := r.spec.Foreign(&c.srv.services, c.sess, c.tx.Namespace(), r.args); ok {
			ch.Other, ch.otherNS = r.args[arg], ns
			ch.otherEnded = c.endedIn(ns, ch.Other)
		}
	}
	f.ctx.Told = &ch.Told
}

// endedIn returns how a key of a namespace has ended. An error is the command's to meet.
func (c *run) endedIn(ns string, key []byte) (how engine.Ended) {
	c.tx.InNamespace(ns, func() (err error) {
		how, err = c.tx.Ended(key)
		return err
	})
	return how
}

// noteEnded keeps the events of those keys that had expired and that the command has replaced: the sweep will not find
// them any more.
func (c *run) noteEnded(ch *change) {
	if how := ch.otherEnded; how != engine.NotEnded && c.endedIn(ch.otherNS, ch.Other) == engine.NotEnded {
		for _, e := range endEvents(how, ch.Other) {
			c.noteEvent(ch.otherNS, e)
		}
		ch.otherEnded = engine.NotEnded
	}
	for i, how := range ch.ended {
		if how == engine.NotEnded {
			continue
		}
		if now, err := c.tx.Ended(ch.Keys[i]); err != nil || now != engine.NotEnded {
			continue
		}
		for _, e := range endEvents(how, ch.Keys[i]) {
			c.noteEvent(c.tx.Namespace(), e)
		}
		ch.ended[i] = engine.NotEnded
	}
}

// endEvents are the events of a key that has ended by itself.
func endEvents(how engine.Ended, key []byte) []command.KeyEvent {
	if how == engine.FieldsExpired {
		return []command.KeyEvent{{Class: command.EventHash, Name: "hexpired", Key: key}, {Class: command.EventGeneric, Name: "del", Key: key}}
	}
	return []command.KeyEvent{{Class: command.EventExpired, Name: "expired", Key: key}}
}

// noteRun keeps the events of the command that has run until the commit: those of the keys that it has missed and, if
// it has written, what it has done.
func (c *run) noteRun(f *frame, err error, wrote bool) {
	ch := &f.change
	if ch.on && err == nil && wrote {
		c.noteEnded(ch)
	}
	if len(ch.misses) > 0 && lookedUp(err) {
		for _, key := range ch.misses {
			c.noteEvent(c.tx.Namespace(), command.KeyEvent{Class: command.EventMiss, Name: "keymiss", Key: key})
		}
	}
	if ch.on && err == nil && (wrote || f.ctx.Same) {
		c.noteEvents(ch)
	}
	ch.forget()
}

// lookedUp reports whether a command with this error has got as far as looking up its keys.
func lookedUp(err error) bool {
	var e *engine.Error
	return err == nil || err == command.ErrNoSuchKey || errors.As(err, &e) && e.Code != "ERR"
}

// noteEvents keeps the events of the command, which has written, until the commit.
func (c *run) noteEvents(ch *change) {
	if !ch.on || len(ch.Keys) == 0 {
		return
	}
	ch.Is = command.Exists(c.tx, ch.Keys, ch.Is[:0])
	ns := c.tx.Namespace()
	for _, e := range ch.Events() {
		if e.Other {
			c.noteEvent(ch.otherNS, e)
		} else {
			c.noteEvent(ns, e)
		}
	}
}

// noteEvent keeps an event in a namespace of this connection's transaction.
func (c *run) noteEvent(ns string, e command.KeyEvent) {
	classes := command.EventClass(c.srv.notify.classes.Load())
	if classes&e.Class == 0 || c.srv.hub.Len() == 0 {
		return
	}
	c.deferred = c.srv.appendEvent(c.deferred, classes, ns, e)
}

// appendEvent appends the messages of an event.
func (s *Server) appendEvent(messages []pubsub.Message, classes command.EventClass, ns string, e command.KeyEvent) []pubsub.Message {
	db := s.databaseName(ns)
	if classes&command.EventKeyspace != 0 {
		messages = append(messages, pubsub.Message{Channel: []byte("__keyspace@" + db + "__:" + string(e.Key)), Payload: []byte(e.Name)})
	}
	if classes&command.EventKeyevent != 0 {
		messages = append(messages, pubsub.Message{Channel: []byte("__keyevent@" + db + "__:" + e.Name), Payload: append([]byte(nil), e.Key...)})
	}
	return messages
}

// databaseName is what stands for Redis's number of a database: the number if there are databases; else 0 for the
// default namespace and the name of any other.
func (s *Server) databaseName(ns string) string {
	if ns == cf.DefaultNamespace {
		return "0"
	}
	if s.cfg.Databases() > 0 {
		if n, ok := cf.NamespaceDatabase(ns); ok {
			return strconv.Itoa(n)
		}
	}
	return ns
}

// notifier knows which events are wanted, and the keys that expire soon if somebody is to hear of that: those who want the
// events of expiry, and clients that track keys in broadcasting mode.
type notifier struct {
	classes  atomic.Uint32 // command.EventClass
	trackers atomic.Int64  // clients that track keys in broadcasting mode
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
	s.notify.classes.Store(uint32(classes))
	if !s.sweepWanted() {
		s.unhook()
	} else {
		s.beginSweep()
	}
}

// sweepWanted reports whether somebody is to hear of keys that expire.
func (s *Server) sweepWanted() bool {
	return command.EventClass(s.notify.classes.Load())&sweptEvents != 0 || s.notify.trackers.Load() > 0
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

// broadcasting notes that a client has begun to track keys in broadcasting mode, or has ended it. When the last one has, the
// sweep goes on until a pass is due: clients that come and go do not cost a pass each.
func (s *Server) broadcasting(on bool) {
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

var errExpiryPaused = errors.New("nothing expires during CLIENT PAUSE")

// mayExpire returns an error when there is a pause. With a lock held its answer holds until that is given back.
func (s *Server) mayExpire() error {
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
	if err != nil || how != engine.NotEnded || command.EventClass(s.notify.classes.Load())&fieldEvents == 0 && s.notify.trackers.Load() == 0 {
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

// publishEvent publishes an event that no command has brought about.
func (s *Server) publishEvent(ns string, class command.EventClass, name string, key []byte) {
	classes := command.EventClass(s.notify.classes.Load())
	if classes&class == 0 || s.hub.Len() == 0 {
		return
	}
	for _, m := range s.appendEvent(nil, classes, ns, command.KeyEvent{Class: class, Name: name, Key: key}) {
		s.hub.Publish(m, nil, nil)
	}
}
