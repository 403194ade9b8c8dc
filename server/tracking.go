package server

import (
	"slices"
	"sync"

	"github.com/basaltdb/basalt/server/command"
	"github.com/basaltdb/basalt/server/resp"
	"github.com/basaltdb/basalt/server/wire"
)

// Tracking (CLIENT TRACKING) tells clients which of the keys that they have read have changed.
//
// A key is remembered before it is read, so a commit that the reader has not seen finds it in the table. Messages for
// a client whose commands run wait until their replies are on the way: a client never gets the old value after the
// message that it is old. Messages come from commits, from flushes, from the expiry of a key, and from the table's
// limit.

// tracking is what one connection has switched on. mu protects what others use.
type tracking struct {
	command.Tracking
	conn    *conn
	caching int // of CLIENT CACHING for the next command: 1 = yes, -1 = no, 0 = not said

	mu      sync.Mutex
	off     bool
	busy    bool     // commands of the connection run
	pending []notice // meanwhile
	broken  bool     // the connection that the messages go to is gone
}

// notice is one message: keys, or everything when they are nil.
type notice struct{ keys []string }

// Track switches tracking on, or changes how it is done.
func (c *run) Track(how command.Tracking) {
	t := &c.srv.tracker
	c.Untrack()
	c.track = &tracking{Tracking: how, conn: c.conn, busy: true}
	c.info.track.Store(c.track)
	if how.Broadcast {
		c.srv.broadcasting(true)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if how.Broadcast {
		t.bcast = append(t.bcast[:len(t.bcast):len(t.bcast)], c.track) // others go through the old slice
	}
	if t.clients.Add(1) == 1 {
		c.srv.db.Observe(c.srv)
	}
}

// Untrack switches tracking off. What the table has of the client is dropped when the keys change.
func (c *run) Untrack() { c.untrack(c) }

// untrack is Untrack by the run of the connection; nil = it has ended.
func (c *conn) untrack(by *run) {
	old := c.track
	if old == nil {
		return
	}
	t := &c.srv.tracker
	c.track = nil
	c.info.track.Store(nil)
	old.idle(by)
	old.mu.Lock()
	old.off, old.conn = true, nil // the table must not keep the connection
	old.mu.Unlock()
	if old.Broadcast {
		c.srv.broadcasting(false)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if i := slices.Index(t.bcast, old); i >= 0 {
		t.bcast = slices.Concat(t.bcast[:i], t.bcast[i+1:])
	}
	if t.clients.Add(-1) == 0 {
		c.srv.db.Observe(nil)
		t.clear()
	}
}

// Tracked returns how the connection tracks, nil = it does not, and whether the connection that the messages should
// go to is gone.
func (c *conn) Tracked() (how *command.Tracking, broken bool) {
	if c.track == nil {
		return nil, false
	}
	c.track.mu.Lock()
	defer c.track.mu.Unlock()
	return &c.track.Tracking, c.track.broken
}

// letters returns what CLIENT LIST shows of it.
func (t *tracking) letters() string {
	s := "t"
	t.mu.Lock()
	if t.broken {
		s += "R"
	}
	t.mu.Unlock()
	if t.Broadcast {
		s += "B"
	}
	return s
}

// SetCaching is CLIENT CACHING for the next command.
func (c *conn) SetCaching(yes bool) {
	c.track.caching = -1
	if yes {
		c.track.caching = 1
	}
}

// Caching returns what CLIENT CACHING has said of the next command: 1 = yes, -1 = no, 0 = nothing.
func (c *conn) Caching() int {
	if c.track == nil {
		return 0
	}
	return c.track.caching
}

// begin holds messages back while commands run.
func (t *tracking) begin() {
	t.mu.Lock()
	t.busy = true
	t.mu.Unlock()
}

// idle sends what was held back: the replies are on the way.
func (t *tracking) idle(c *run) {
	t.mu.Lock()
	t.busy = false
	pending := t.pending
	t.pending = nil
	t.mu.Unlock()
	for _, n := range pending {
		t.deliver(n, c)
	}
}

// remember notes the keys that a command is about to read. For a script its commands do that.
func (t *tracking) remember(c *run, r *request) {
	if t.Broadcast || r.spec.Flags&command.ReadOnly == 0 || r.spec.Flags&(command.PubSub|command.Script) != 0 || t.OptIn && t.caching <= 0 || t.OptOut && t.caching < 0 {
		return
	}
	c.keys = r.spec.AppendKeys(c.keys[:0], r.args)
	for _, k := range c.keys {
		nsKey := c.tx.NSKey(r.args[k.Arg])
		c.srv.tracker.add(t, nsKey, r.args[k.Arg], expiryOf(c.tx, r.args[k.Arg]))
	}
}

// ran notes that a command has run or was refused: what CLIENT CACHING has said was of this one, or of the transaction.
func (t *tracking) ran(c *run, r *request) {
	if c.inTx() || c.multi != nil {
		return
	}
	if s := r.spec; s == nil || s.Name != "client" && (s.Parent == nil || s.Parent.Name != "client") {
		t.caching = 0
	}
}

// tell sends the message of a key that was taken out of the table. by is the connection that has changed it, if any.
func (k *trackedKey) tell(by *run) {
	n := notice{keys: []string{k.key}}
	for _, t := range k.clients {
		if !t.Broadcast {
			t.notify(n, by)
		}
	}
}

// notify sends a message now, or when the connection's replies are on the way.
func (t *tracking) notify(n notice, by *run) {
	t.mu.Lock()
	if t.off || t.NoLoop && by != nil && by.conn == t.conn && n.keys != nil { // a flush is told to the one who has sent it, too
		t.mu.Unlock()
		return
	}
	if t.busy {
		t.pending = append(t.pending, n)
		t.mu.Unlock()
		return
	}
	t.mu.Unlock()
	t.deliver(n, by)
}

// deliver puts a message into the outbox of the connection, or of the one that it is redirected to. by, if any, kicks
// the outbox when its run ends.
func (t *tracking) deliver(n notice, by *run) {
	t.mu.Lock()
	own := t.conn
	t.mu.Unlock()
	if own == nil {
		return
	}
	to := own
	if t.Redirect != 0 {
		if to = own.srv.byID(t.Redirect); to == nil {
			t.mu.Lock()
			t.broken = true
			t.mu.Unlock()
			if view := own.info.view.Load(); view.proto == 3 { // told each time, as in Redis
				w := resp.Writer{Proto: 3}
				w.Push(2)
				w.BulkString("tracking-redir-broken")
				w.Int(t.Redirect)
				own.post(w.Bytes(), by)
			}
			return
		}
	}
	view := to.info.view.Load()
	w := resp.Writer{Proto: view.proto}
	switch {
	case view.proto == 3:
		w.Push(2)
		w.BulkString("invalidate")
	case t.Redirect != 0 && view.subs != [3]int{}:
		w.Array(3)
		w.BulkString("message")
		w.BulkString(command.InvalidateChannel)
	default:
		return // RESP2 has no place for it
	}
	if n.keys == nil {
		w.Null()
	} else {
		w.Array(len(n.keys))
		for _, k := range n.keys {
			w.BulkString(k)
		}
	}
	to.post(w.Bytes(), by)
}

// post puts a message into the outbox; by sends it when its run ends, or it is sent at once.
func (c *conn) post(b []byte, by *run) {
	var batch *wire.Batch
	if by != nil {
		batch = &by.batch
	}
	batch.Post(c.wire, b)
}

// namespace returns the namespace that the connection is in.
func (t *tracking) namespace() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.conn == nil {
		return ""
	}
	return t.conn.info.view.Load().namespace
}

func (s *Shared) byID(id int64) *conn {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.conns[id]
}
