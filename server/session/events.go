package session

import (
	"errors"
	"slices"
	"strconv"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/server/command"
	"github.com/basaltdb/basalt/server/pubsub"
)

// Keyspace events are messages about what commands have done to keys: see notify-keyspace-events. They are published
// after the commit has succeeded. With an empty setting they cost a command that writes one atomic load.

// change collects what a command's events depend on, before and after it runs.
type change struct {
	command.Change
	on     bool
	misses [][]byte       // missing keys that the command looks up
	ended  []engine.Ended // how each of Keys has expired, if its end was not noticed before
	// otherNS is the namespace of Other; otherEnded is how Other has expired, like ended.
	otherNS    string
	otherEnded engine.Ended
	refs       []command.KeyRef
}

// forget drops the state of the command: it has done nothing, or its events were noted.
func (ch *change) forget() { ch.on, ch.misses = false, ch.misses[:0] }

// watchChange notes which of the command's keys exist before it runs.
func (c *run) watchChange(f *frame, r *request) {
	ch := &f.change
	ch.forget()
	f.ctx.Events = nil
	classes := command.EventClass(c.srv.events.Load())
	if classes == 0 || c.srv.Hub.Len() == 0 || r.spec.Flags&(command.Write|command.ReadOnly) == 0 ||
		r.spec.Flags&command.Script != 0 {
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
			rec, err := c.tx.LoadHead(key)
			return err != nil || rec.Exists
		})
	}
	if !ch.on {
		return
	}
	ch.Spec, ch.Args = r.spec, r.args
	ch.Keys, ch.Extra = ch.Keys[:0], ch.Extra[:0]
	for _, k := range ch.refs {
		if k.Write {
			ch.Keys = append(ch.Keys, r.args[k.Arg])
		}
	}
	ch.Was = command.Exists(c.tx, ch.Keys, ch.Was[:0])
	ch.ended = ch.ended[:0]
	for _, key := range ch.Keys {
		how, _ := c.tx.Ended(key) // the command gets the same error and replies with it
		ch.ended = append(ch.ended, how)
	}
	ch.Other, ch.otherEnded = nil, engine.NotEnded
	if r.spec.OtherNamespace != nil {
		if ns, arg, ok := r.spec.OtherNamespace(&c.srv.Services, c.sess, c.tx.Namespace(), r.args); ok {
			ch.Other, ch.otherNS = r.args[arg], ns
			ch.otherEnded = c.endedIn(ns, ch.Other)
		}
	}
	f.ctx.Events = &ch.Extra
}

// endedIn returns how a key of a namespace has ended. It ignores errors: the command gets the same error and replies
// with it.
func (c *run) endedIn(ns string, key []byte) (how engine.Ended) {
	c.tx.InNamespace(ns, func() (err error) {
		how, err = c.tx.Ended(key)
		return err
	})
	return how
}

// noteEnded notes the events of keys that had expired and that the command has replaced: the sweep will not find
// these keys any more.
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

func endEvents(how engine.Ended, key []byte) []command.KeyEvent {
	if how == engine.FieldsExpired {
		return []command.KeyEvent{{Class: command.EventHash, Name: "hexpired", Key: key},
			{Class: command.EventGeneric, Name: "del", Key: key}}
	}
	return []command.KeyEvent{{Class: command.EventExpired, Name: "expired", Key: key}}
}

// noteRun keeps the events of the finished command until the commit: the events of missing keys and, if the command
// has written, the events of its changes.
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
	if ch.on && err == nil && (wrote || f.ctx.Rewrote) {
		c.noteEvents(ch)
	}
	ch.forget()
}

// lookedUp reports whether a command that failed with this error had looked up its keys.
func lookedUp(err error) bool {
	var e *engine.Error
	return err == nil || err == command.ErrNoSuchKey || errors.As(err, &e) && e.Code != "ERR"
}

// noteEvents keeps the events of a command that has written until the commit.
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
	classes := command.EventClass(c.srv.events.Load())
	if classes&e.Class == 0 || c.srv.Hub.Len() == 0 {
		return
	}
	c.deferred = c.srv.appendEvent(c.deferred, classes, ns, e)
}

func (s *Shared) appendEvent(messages []pubsub.Message, classes command.EventClass, ns string,
	e command.KeyEvent) []pubsub.Message {
	db := s.databaseName(ns)
	if classes&command.EventKeyspace != 0 {
		messages = append(messages, pubsub.Message{Channel: []byte("__keyspace@" + db + "__:" + string(e.Key)),
			Payload: []byte(e.Name)})
	}
	if classes&command.EventKeyevent != 0 {
		messages = append(messages, pubsub.Message{Channel: []byte("__keyevent@" + db + "__:" + e.Name),
			Payload: append([]byte(nil), e.Key...)})
	}
	return messages
}

// databaseName returns the text that stands for Redis's database number: the number if databases are configured; else 0
// for the default namespace, and the namespace's name for any other.
func (s *Shared) databaseName(ns string) string {
	if ns == cf.DefaultNamespace {
		return "0"
	}
	if s.Databases() > 0 {
		if n, ok := cf.NamespaceDatabase(ns); ok {
			return strconv.Itoa(n)
		}
	}
	return ns
}

// SetEvents applies the setting notify-keyspace-events.
func (s *Shared) SetEvents(classes command.EventClass) { s.events.Store(uint32(classes)) }

// KeyEnded publishes the events of a key that has expired.
func (s *Shared) KeyEnded(ns string, key []byte, how engine.Ended) {
	for _, e := range endEvents(how, key) {
		s.publishEvent(ns, e.Class, e.Name, key)
	}
}

// FieldsExpired publishes that some fields of a hash have expired.
func (s *Shared) FieldsExpired(ns string, key []byte) {
	s.publishEvent(ns, command.EventHash, "hexpired", key)
}

// HashEmptied publishes that the expired fields were the last ones of the hash.
func (s *Shared) HashEmptied(ns string, key []byte) {
	s.publishEvent(ns, command.EventGeneric, "del", key)
}

// publishEvent publishes an event that no command has caused.
func (s *Shared) publishEvent(ns string, class command.EventClass, name string, key []byte) {
	classes := command.EventClass(s.events.Load())
	if classes&class == 0 || s.Hub.Len() == 0 {
		return
	}
	for _, m := range s.appendEvent(nil, classes, ns, command.KeyEvent{Class: class, Name: name, Key: key}) {
		s.Hub.Publish(m, nil, nil)
	}
}
