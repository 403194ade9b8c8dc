package server

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
)

// tracker is the table of who has read what, for client tracking. Commits, flushes and the clock find in it whom to tell.
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

func (h expiryHeap) Len() int { return len(h) }

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

// expiryOf returns when a key expires or the first of its fields, 0 = never or unknown.
func expiryOf(tx *engine.Tx, key []byte) uint64 {
	const most = 128 // fields to look at whenever a client reads one of them
	rec, err := tx.Look(key)
	if err != nil || !rec.Exists {
		return 0
	}
	return tx.NextEnd(&rec, most)
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

// Committed hears of a commit from the engine: the metadata keys of what was written. The locks are held.
func (s *Shared) Committed(origin any, nsKeys [][]byte) {
	by, _ := origin.(*run)
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
		for _, prefix := range b.Prefixes { // a message for each, its keys in order, as from Redis
			var n notice
			for _, nsKey := range nsKeys {
				ns, key, err := cf.SplitNSKey(nsKey, s.db.Slots())
				if err == nil && string(ns) == own && bytes.HasPrefix(key, []byte(prefix)) {
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

// Flushed hears from the engine that all keys in [begin, end) are gone.
func (s *Shared) Flushed(origin any, begin, end []byte) {
	by, _ := origin.(*run)
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
func (s *Shared) expireTracked(now time.Time) {
	t := &s.tracker
	if t.expires.Load() == 0 || s.isPaused() {
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
