package server

import (
	"bytes"
	"container/heap"
	"hash/maphash"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/server/command"
	"github.com/basaltdb/basalt/server/resp"
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

// tracker is the table of who has read what.
type tracker struct {
	limit   atomic.Int64 // tracking-table-max-keys, 0 = none
	clients atomic.Int64
	keys    atomic.Int64
	items   atomic.Int64 // clients of all keys
	expires atomic.Int64 // keys in the heaps
	seed    maphash.Seed
	shards  [64]trackShard

	mu    sync.RWMutex
	bcast []*tracking // clients in broadcasting mode; replaced, never changed
}

type trackShard struct {
	mu    sync.Mutex
	byKey map[string]*trackedKey // by metadata key
	heap  expiryHeap
}

// trackedKey is a key that somebody has read.
type trackedKey struct {
	nsKey   string
	key     string // as the user names it
	clients []*tracking
	expire  uint64 // ms since the epoch, 0 = never
	at      int    // index in the heap, -1 = not there
}

// expiryHeap orders keys by their expiry.
type expiryHeap []*trackedKey

func (h expiryHeap) Len() int           { return len(h) }
func (h expiryHeap) Less(i, j int) bool { return h[i].expire < h[j].expire }
func (h expiryHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].at, h[j].at = i, j
}
func (h *expiryHeap) Push(x any) {
	k := x.(*trackedKey)
	k.at = len(*h)
	*h = append(*h, k)
}
func (h *expiryHeap) Pop() any {
	old := *h
	k := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	k.at = -1
	return k
}

func (t *tracker) shard(nsKey []byte) *trackShard {
	return &t.shards[maphash.Bytes(t.seed, nsKey)%uint64(len(t.shards))]
}

// Track switches tracking on, or changes how it is done.
func (c *conn) Track(how command.Tracking) {
	t := &c.srv.tracker
	c.Untrack()
	c.track = &tracking{Tracking: how, conn: c, busy: true}
	c.info.track.Store(c.track)
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
func (c *conn) Untrack() {
	old := c.track
	if old == nil {
		return
	}
	t := &c.srv.tracker
	c.track = nil
	c.info.track.Store(nil)
	old.idle(c)
	old.mu.Lock()
	old.off, old.conn = true, nil // the table must not keep the connection
	old.mu.Unlock()
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

// prefixes returns how many different prefixes clients have in broadcasting mode.
func (t *tracker) prefixes() int {
	t.mu.RLock()
	defer t.mu.RUnlock()
	all := map[string]bool{}
	for _, b := range t.bcast {
		for _, p := range b.Prefixes {
			all[p] = true
		}
	}
	return len(all)
}

// begin holds messages back while commands run.
func (t *tracking) begin() {
	t.mu.Lock()
	t.busy = true
	t.mu.Unlock()
}

// idle sends what was held back: the replies are on the way.
func (t *tracking) idle(c *conn) {
	t.mu.Lock()
	t.busy = false
	pending := t.pending
	t.pending = nil
	t.mu.Unlock()
	for _, n := range pending {
		t.deliver(n, c)
	}
}

// remember notes the keys that a command is about to read.
func (t *tracking) remember(c *conn, r *request) {
	if t.Broadcast || r.spec.Flags&command.ReadOnly == 0 || r.spec.Flags&command.PubSub != 0 || t.OptIn && t.caching <= 0 || t.OptOut && t.caching < 0 {
		return
	}
	c.keys = r.spec.AppendKeys(c.keys[:0], r.args)
	for _, k := range c.keys {
		nsKey := c.tx.NSKey(r.args[k.Arg])
		c.srv.tracker.add(t, nsKey, r.args[k.Arg], expiryOf(c.tx, nsKey))
	}
}

// ran notes that a command has run: what CLIENT CACHING has said was of this one, or of the transaction.
func (t *tracking) ran(c *conn, r *request) {
	if !c.inTx && c.multi == nil && (r.spec.Parent == nil || r.spec.Parent.Name != "client") {
		t.caching = 0
	}
}

// expiryOf returns when a key expires, 0 = never or unknown.
func expiryOf(tx *engine.Tx, nsKey []byte) uint64 {
	value, found, err := tx.Get(cf.Metadata, nsKey)
	if err != nil || !found {
		return 0
	}
	m, _, err := cf.DecodeMeta(value)
	if err != nil {
		return 0
	}
	return m.Expire
}

func (t *tracker) add(who *tracking, nsKey, key []byte, expire uint64) {
	s := t.shard(nsKey)
	s.mu.Lock()
	k := s.byKey[string(nsKey)]
	if k == nil {
		k = &trackedKey{nsKey: string(nsKey), key: string(key), at: -1}
		if s.byKey == nil {
			s.byKey = map[string]*trackedKey{}
		}
		s.byKey[k.nsKey] = k
		t.keys.Add(1)
	}
	for _, x := range k.clients {
		if x == who {
			s.mu.Unlock()
			return
		}
	}
	k.clients = append(k.clients, who)
	t.items.Add(1)
	if expire != 0 && k.at < 0 {
		k.expire = expire
		heap.Push(&s.heap, k)
		t.expires.Add(1)
	}
	var victim *trackedKey
	if limit := t.limit.Load(); limit > 0 && t.keys.Load() > limit {
		for _, victim = range s.byKey {
			if victim != k {
				break
			}
		}
		if victim == k && len(s.byKey) > 1 {
			victim = nil
		}
		if victim != nil {
			t.drop(s, victim)
		}
	}
	s.mu.Unlock()
	if victim != nil {
		victim.tell(nil)
	}
}

// drop takes a key out of the table; the shard's lock is held.
func (t *tracker) drop(s *trackShard, k *trackedKey) {
	delete(s.byKey, k.nsKey)
	t.keys.Add(-1)
	t.items.Add(-int64(len(k.clients)))
	if k.at >= 0 {
		heap.Remove(&s.heap, k.at)
		t.expires.Add(-1)
	}
}

// clear empties the table: nobody tracks any more, and t.mu is held, so that nobody begins.
func (t *tracker) clear() {
	for i := range t.shards {
		s := &t.shards[i]
		s.mu.Lock()
		for _, k := range s.byKey {
			t.drop(s, k)
		}
		s.mu.Unlock()
	}
}

// tell sends the message of a key that was taken out of the table. by is the connection that has changed it, if any.
func (k *trackedKey) tell(by *conn) {
	n := notice{keys: []string{k.key}}
	for _, t := range k.clients {
		if !t.Broadcast {
			t.notify(n, by)
		}
	}
}

// notify sends a message now, or when the connection's replies are on the way.
func (t *tracking) notify(n notice, by *conn) {
	t.mu.Lock()
	if t.off || t.NoLoop && by != nil && by == t.conn {
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
func (t *tracking) deliver(n notice, by *conn) {
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
			told := t.broken
			t.broken = true
			t.mu.Unlock()
			if view := own.info.view.Load(); !told && view.proto == 3 {
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
func (c *conn) post(b []byte, by *conn) {
	if c.box.add(b) == noKick {
		return
	}
	if by != nil && by.workspace != nil {
		by.kicks = append(by.kicks, c.box)
	} else {
		c.box.kick()
	}
}

// Committed hears of a commit from the engine: the metadata keys of what was written. The locks are held.
func (s *Server) Committed(origin any, nsKeys [][]byte) {
	by, _ := origin.(*conn)
	t := &s.tracker
	if t.keys.Load() > 0 {
		for _, nsKey := range nsKeys {
			sh := t.shard(nsKey)
			sh.mu.Lock()
			k := sh.byKey[string(nsKey)]
			if k != nil {
				t.drop(sh, k)
			}
			sh.mu.Unlock()
			if k != nil {
				k.tell(by)
			}
		}
	}
	t.mu.RLock()
	bcast := t.bcast
	t.mu.RUnlock()
	for _, b := range bcast {
		own := b.namespace()
		var n notice
		for _, nsKey := range nsKeys {
			ns, key, err := cf.SplitNSKey(nsKey, s.db.Slots())
			if err == nil && string(ns) == own && b.wants(string(key)) {
				n.keys = append(n.keys, string(key))
			}
		}
		if n.keys != nil {
			b.notify(n, by)
		}
	}
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

// wants reports whether a key has one of the prefixes of a client in broadcasting mode.
func (t *tracking) wants(key string) bool {
	for _, p := range t.Prefixes {
		if strings.HasPrefix(key, p) {
			return true
		}
	}
	return false
}

// Flushed hears from the engine that all keys in [begin, end) are gone.
func (s *Server) Flushed(origin any, begin, end []byte) {
	by, _ := origin.(*conn)
	t := &s.tracker
	// In the namespaces that it concerns no key is left, and those that did not exist are forgotten with the others.
	affected := func(ns string) bool {
		prefix := cf.AppendNSPrefix(nil, ns)
		past, ok := cf.AppendSuccessor(nil, prefix)
		return bytes.Compare(prefix, end) < 0 && (!ok || bytes.Compare(begin, past) < 0)
	}
	for i := range t.shards {
		sh := &t.shards[i]
		sh.mu.Lock()
		for _, k := range sh.byKey {
			if ns, _, err := cf.SplitNSKey([]byte(k.nsKey), s.db.Slots()); err == nil && affected(string(ns)) {
				t.drop(sh, k)
			}
		}
		sh.mu.Unlock()
	}
	s.mu.Lock()
	var all []*tracking
	for _, c := range s.conns {
		if tr := c.info.track.Load(); tr != nil && affected(tr.namespace()) {
			all = append(all, tr)
		}
	}
	s.mu.Unlock()
	for _, tr := range all {
		tr.notify(notice{}, by)
	}
}

// expireTracked tells of keys that have expired.
func (s *Server) expireTracked(now time.Time) {
	t := &s.tracker
	if t.expires.Load() == 0 {
		return
	}
	ms := uint64(now.UnixMilli())
	for i := range t.shards {
		sh := &t.shards[i]
		for {
			sh.mu.Lock()
			var k *trackedKey
			if len(sh.heap) > 0 && sh.heap[0].expire <= ms {
				k = sh.heap[0]
				t.drop(sh, k)
			}
			sh.mu.Unlock()
			if k == nil {
				break
			}
			k.tell(nil)
		}
	}
}

func (s *Server) byID(id int64) *conn {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.conns[id]
}
