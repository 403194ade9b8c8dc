package session

import (
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/server/command"
	"github.com/basaltdb/basalt/server/tracking"
	"github.com/basaltdb/basalt/server/wire"
)

// Track switches tracking on, or changes its options. CLIENT TRACKING has refused to change the mode.
func (c *run) Track(how command.Tracking) {
	old := c.track
	if old != nil && !how.Broadcast {
		old.Change(how)
		return
	}
	if how.Broadcast {
		c.srv.Broadcasting(true)
	}
	c.track = c.srv.Tracker.Add(c.sess.ID, how, c.conn.trackingPeer)
	c.info.track.Store(c.track)
	if old != nil { // after Add, so that no change in between is missed
		c.endTrack(old, &c.batch)
	}
}

// Untrack switches tracking off.
func (c *run) Untrack() { c.untrack(&c.batch) }

// untrack is Untrack with the batch of the connection's run; nil = the connection has no run.
func (c *conn) untrack(batch *wire.Batch) {
	if old := c.track; old != nil {
		c.track = nil
		c.info.track.Store(nil)
		c.endTrack(old, batch)
	}
}

// endTrack ends the tracking by a client that the connection has replaced.
func (c *conn) endTrack(old *tracking.Client, batch *wire.Batch) {
	c.srv.Tracker.Remove(old, batch)
	if old.Broadcast {
		c.srv.Broadcasting(false)
	}
}

// Tracked returns the tracking options of the connection, nil = tracking is off, and whether the connection that
// messages are redirected to is gone.
func (c *conn) Tracked() (how *command.Tracking, broken bool) {
	if c.track == nil {
		return nil, false
	}
	return &c.track.Tracking, c.track.Broken()
}

// SetCaching is CLIENT CACHING for the next command.
func (c *conn) SetCaching(yes bool) { c.track.SetCaching(yes) }

// Caching returns the answer of CLIENT CACHING for the next command: 1 = yes, -1 = no, 0 = not given.
func (c *conn) Caching() int {
	if c.track == nil {
		return 0
	}
	return c.track.Caching()
}

// trackingPeer returns the view of the connection for other goroutines. Any goroutine may call it.
func (c *conn) trackingPeer() tracking.Peer {
	v := c.info.view.Load()
	return tracking.Peer{Out: c.wire, Proto: v.proto, Namespace: v.namespace, Subscribed: v.subs != [3]int{}}
}

// trackingPeer finds a connection to which messages are redirected.
func (s *Shared) trackingPeer(id int64) (p tracking.Peer, ok bool) {
	c := s.byID(id)
	if c == nil || c.info.leaving.Load() {
		return tracking.Peer{}, false
	}
	return c.trackingPeer(), true
}

// rememberReads adds the keys that a command is about to read to the tracking table.
func (c *run) rememberReads(r *request) {
	if !c.track.Remembers(r.spec.Flags) {
		return
	}
	c.keys = r.spec.AppendKeys(c.keys[:0], r.args)
	for _, k := range c.keys {
		key := r.args[k.Arg]
		c.srv.Tracker.Remember(c.track, c.tx.NSKey(key), key, expiryOf(c.tx, key))
	}
}

// expiryOf returns when a key or the first of its fields expires, 0 = never or unknown.
func expiryOf(tx *engine.Tx, key []byte) uint64 {
	const maxFields = 128 // number of fields to check whenever a client reads one of them
	rec, err := tx.LoadHead(key)
	if err != nil || !rec.Exists {
		return 0
	}
	return tx.NextEnd(&rec, maxFields)
}

// endCaching is called when a command has run or was refused. CLIENT CACHING applies to one command or transaction
// only, and is reset here.
func (c *run) endCaching(r *request) {
	if c.inTx() || c.multi != nil {
		return
	}
	if s := r.spec; s == nil || s.Name != "client" && (s.Parent == nil || s.Parent.Name != "client") {
		c.track.Ran()
	}
}
