package tracking

import (
	"bytes"
	"container/heap"
	"hash/maphash"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/server/command"
	"github.com/basaltdb/basalt/server/wire"
)

// Options are what a Table needs from the server.
type Options struct {
	// Observe makes the Table the observer of commits, nil ends that: engine.DB.Observe.
	Observe func(engine.Observer)
	// Slots reports whether metadata keys carry the cluster slot: engine.DB.Slots.
	Slots bool
	// Find finds the connection that messages are redirected to; ok is false when it is gone.
	Find func(id int64) (p Peer, ok bool)
}

// Table maps keys to the clients that have read them. Commits, flushes and the clock look up in it which clients to
// notify. It observes the database while clients track.
type Table struct {
	Options
	limit   atomic.Int64 // most keys, 0 = no limit
	tracked atomic.Int64
	items   atomic.Int64 // sum of the clients over all keys
	expires atomic.Int64 // keys in the heaps
	seed    maphash.Seed
	shards  [64]shard

	mu      sync.RWMutex
	clients map[*Client]struct{}
	bcast   []*Client // clients in broadcasting mode; replaced, never changed
}

var _ engine.Observer = (*Table)(nil)

// New makes a table for a database.
func New(o Options) *Table {
	return &Table{Options: o, seed: maphash.MakeSeed(), clients: map[*Client]struct{}{}}
}

// SetLimit sets how many keys are remembered, 0 = no limit. A dropped key counts as changed.
func (t *Table) SetLimit(keys int64) {
	t.limit.Store(keys)
	for i := range t.shards {
		s := &t.shards[i]
		for t.full() {
			s.mu.Lock()
			victim := t.evict(s, nil)
			s.mu.Unlock()
			if victim == nil {
				break
			}
			victim.tell(&nobody)
		}
	}
}

// full reports whether the table has more keys than the limit.
func (t *Table) full() bool {
	limit := t.limit.Load()
	return limit > 0 && t.tracked.Load() > limit
}

// Add begins tracking for a connection that is running commands. peer returns the view of the connection for other
// goroutines.
func (t *Table) Add(id int64, how command.Tracking, peer func() Peer) *Client {
	c := &Client{Tracking: how, id: id, find: t.Find, peer: peer, busy: true}
	t.mu.Lock()
	defer t.mu.Unlock()
	if how.Broadcast {
		t.bcast = append(t.bcast[:len(t.bcast):len(t.bcast)], c) // other goroutines iterate over the old slice
	}
	t.clients[c] = struct{}{}
	if len(t.clients) == 1 {
		t.Observe(t)
	}
	return c
}

// Remove ends the tracking of a client, and sends the messages held back; batch belongs to the connection's run, nil
// = no batch. The table drops its entries of the client when the keys change, or when more clients read the keys.
func (t *Table) Remove(c *Client, batch *wire.Batch) {
	c.Idle(batch)
	c.mu.Lock()
	c.peer = nil // the table must not keep the connection
	c.mu.Unlock()
	t.mu.Lock()
	defer t.mu.Unlock()
	if i := slices.Index(t.bcast, c); i >= 0 {
		t.bcast = slices.Concat(t.bcast[:i], t.bcast[i+1:])
	}
	delete(t.clients, c)
	if len(t.clients) == 0 {
		t.Observe(nil)
		t.clear()
	}
}

// Clients returns how many clients track keys.
func (t *Table) Clients() int {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return len(t.clients)
}

// Keys returns how many keys are remembered.
func (t *Table) Keys() int64 { return t.tracked.Load() }

// Items returns the sum of the remembered clients over all keys.
func (t *Table) Items() int64 { return t.items.Load() }

type shard struct {
	mu    sync.Mutex
	byKey map[string]*key // by metadata key
	heap  expiryHeap
}

// key is a key that a tracking client has read.
type key struct {
	nsKey   string
	name    string // user key
	clients []*Client
	expire  uint64 // ms since the epoch, 0 = never
	at      int    // index in the heap, -1 = not in the heap
}

// expiryHeap orders keys by their expiry.
type expiryHeap []*key

func (h expiryHeap) Len() int { return len(h) }

func (h expiryHeap) Less(i, j int) bool { return h[i].expire < h[j].expire }

func (h expiryHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].at, h[j].at = i, j
}

func (h *expiryHeap) Push(x any) {
	k := x.(*key)
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

func (t *Table) shard(nsKey []byte) *shard {
	return &t.shards[maphash.Bytes(t.seed, nsKey)%uint64(len(t.shards))]
}

// Prefixes returns the number of distinct prefixes of clients in broadcasting mode.
func (t *Table) Prefixes() int {
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

// Remember notes that a client is about to read a key. It is called with the key's lock held, or before the key is
// read. expire is when the key or the first of its fields expires, in ms since the epoch, 0 = never or unknown.
func (t *Table) Remember(c *Client, nsKey, name []byte, expire uint64) {
	s := t.shard(nsKey)
	s.mu.Lock()
	k := s.byKey[string(nsKey)]
	if k == nil {
		k = &key{nsKey: string(nsKey), name: string(name), at: -1}
		if s.byKey == nil {
			s.byKey = map[string]*key{}
		}
		s.byKey[k.nsKey] = k
		t.tracked.Add(1)
	}
	if slices.Contains(k.clients, c) {
		s.mu.Unlock()
		return
	}
	if n := len(k.clients); n == cap(k.clients) { // clients that have ended: else a key that nobody writes collects them
		k.clients = slices.DeleteFunc(k.clients, (*Client).ended)
		t.items.Add(int64(len(k.clients) - n))
	}
	k.clients = append(k.clients, c)
	t.items.Add(1)
	if expire != 0 && k.at < 0 {
		k.expire = expire
		heap.Push(&s.heap, k)
		t.expires.Add(1)
	}
	var victim *key
	if t.full() {
		victim = t.evict(s, k)
	}
	s.mu.Unlock()
	if victim != nil {
		victim.tell(&nobody)
	}
}

// evict drops any key of a shard and returns it, nil = the shard is empty. It drops last only if no other key is left.
// The shard's lock must be held.
func (t *Table) evict(s *shard, last *key) (victim *key) {
	for _, victim = range s.byKey {
		if victim != last {
			break
		}
	}
	if victim != nil {
		t.drop(s, victim)
	}
	return victim
}

// drop removes a key from the table; the shard's lock must be held.
func (t *Table) drop(s *shard, k *key) {
	delete(s.byKey, k.nsKey)
	t.tracked.Add(-1)
	t.items.Add(-int64(len(k.clients)))
	if k.at >= 0 {
		heap.Remove(&s.heap, k.at)
		t.expires.Add(-1)
	}
}

// clear empties the table when no client tracks any more. t.mu must be held, so that no client begins.
func (t *Table) clear() {
	for i := range t.shards {
		s := &t.shards[i]
		s.mu.Lock()
		for _, k := range s.byKey {
			t.drop(s, k)
		}
		s.mu.Unlock()
	}
}

// Committed is called by the engine after a commit, with the metadata keys of the written records. The locks are
// held.
func (t *Table) Committed(origin any, nsKeys [][]byte) {
	by := origins(origin)
	if t.tracked.Load() > 0 {
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
		p, ok := b.self()
		if !ok {
			continue
		}
		for _, prefix := range b.Prefixes { // a message for each prefix, with the keys in order, as in Redis
			var n notice
			for _, nsKey := range nsKeys {
				ns, key, err := cf.SplitNSKey(nsKey, t.Slots)
				if err == nil && string(ns) == p.Namespace && bytes.HasPrefix(key, []byte(prefix)) {
					n.keys = append(n.keys, string(key))
				}
			}
			if n.keys != nil {
				slices.Sort(n.keys)
				n.keys = slices.Compact(n.keys)
				b.notify(n, by)
			}
		}
	}
}

// Flushed is called by the engine when all keys in [begin, end) are deleted.
func (t *Table) Flushed(origin any, begin, end []byte) {
	by := origins(origin)
	// No key is left in the namespaces concerned. Keys that did not exist are forgotten with the others.
	affected := func(ns string) bool {
		prefix := cf.AppendNSPrefix(nil, ns)
		past, ok := cf.AppendSuccessor(nil, prefix)
		return bytes.Compare(prefix, end) < 0 && (!ok || bytes.Compare(begin, past) < 0)
	}
	for i := range t.shards {
		sh := &t.shards[i]
		sh.mu.Lock()
		for _, k := range sh.byKey {
			if ns, _, err := cf.SplitNSKey([]byte(k.nsKey), t.Slots); err == nil && affected(string(ns)) {
				t.drop(sh, k)
			}
		}
		sh.mu.Unlock()
	}
	t.mu.RLock()
	var all []*Client
	for c := range t.clients {
		if p, ok := c.self(); ok && affected(p.Namespace) {
			all = append(all, c)
		}
	}
	t.mu.RUnlock()
	for _, c := range all {
		c.notify(notice{}, by)
	}
}

// nobody is the origin of changes that no client has made.
var nobody Origin

// origins returns the client that has committed, from the transaction's Origin.
func origins(origin any) *Origin {
	if o, ok := origin.(*Origin); ok {
		return o
	}
	return &nobody
}

// tell sends the message for a key that was removed from the table.
func (k *key) tell(by *Origin) {
	n := notice{keys: []string{k.name}}
	for _, c := range k.clients {
		c.notify(n, by)
	}
}

// Expire sends messages for keys that have expired.
func (t *Table) Expire(now time.Time) {
	if t.expires.Load() == 0 {
		return
	}
	ms := uint64(now.UnixMilli())
	for i := range t.shards {
		sh := &t.shards[i]
		for {
			sh.mu.Lock()
			var k *key
			if len(sh.heap) > 0 && sh.heap[0].expire <= ms {
				k = sh.heap[0]
				t.drop(sh, k)
			}
			sh.mu.Unlock()
			if k == nil {
				break
			}
			k.tell(&nobody)
		}
	}
}
