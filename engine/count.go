package engine

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/basaltdb/basalt/cf"
)

// Counting keys. DBSIZE is exact and costs nothing, without a scan, by these rules:
//
//   - Every write of a metadata record goes through Tx.Save or Tx.Drop, which know the record that was there
//     before. So the number of keys without an expiry is a counter that changes with the commit.
//   - Keys with an expiry are counted by the time at which they expire. When that time has passed, the count of
//     the time no longer adds to the sum. No one needs to notice the expiry, and it does not matter when (or
//     whether) a compaction drops the record.
//
// The times are kept to the millisecond for expiries within a minute from now, to the second within 64 days
// after the start of the process, to the minute beyond that; so a key may be counted up to a second (a minute)
// after its expiry. Emptied collections do not count. A hash all of whose fields expire counts as a key that expires
// with the last of them.
//
// At the start one scan of the metadata family in the background counts what is there; a caller that asks
// before it is done waits for it.
type counter struct {
	plain atomic.Int64
	mu    sync.Mutex
	exact map[int64]int32        // by millisecond
	secs  map[int64]*[256]uint32 // by second >> 8
	mins  map[int64]*[256]uint32 // by minute >> 8
	ttl   int64                  // sum of all buckets that have not passed
	upTo  int64                  // seconds up to here have passed and are gone from secs
	near  int64                  // seconds from here on are in mins
}

const (
	exactWindow = 60 * 1000 // milliseconds
	nearWindow  = 64 * 24 * 3600
)

func newCounter(now int64) *counter {
	return &counter{exact: map[int64]int32{}, secs: map[int64]*[256]uint32{}, mins: map[int64]*[256]uint32{},
		upTo: now/1000 - 1, near: now/1000 + nearWindow}
}

// add counts n (1 or -1) keys that expire at a time (ms, 0 = never).
func (c *counter) add(expire uint64, n int, now int64) {
	if expire == 0 {
		c.plain.Add(int64(n))
		return
	}
	ms := int64(min(expire, 1<<62))
	c.mu.Lock()
	defer c.mu.Unlock()
	if ms/1000 <= c.upTo {
		return // passed: it does not count, whether it comes or goes
	}
	if have := c.exact[ms]; n > 0 && ms-now < exactWindow || n < 0 && have > 0 {
		if have += int32(n); have == 0 {
			delete(c.exact, ms)
		} else {
			c.exact[ms] = have
		}
		c.ttl += int64(n)
		return
	}
	m, at := c.secs, ms/1000
	if at >= c.near {
		m, at = c.mins, at/60
	}
	page := m[at>>8]
	if page == nil {
		page = new([256]uint32)
		m[at>>8] = page
	}
	page[at&255] += uint32(n)
	c.ttl += int64(n)
}

// total returns how many keys have not expired, and how many of them have an expiry.
func (c *counter) total(now int64) (keys, expires int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for ; c.upTo < now/1000-1; c.upTo++ {
		sec := c.upTo + 1
		if page := c.secs[sec>>8]; page != nil {
			c.ttl -= int64(int32(page[sec&255]))
			page[sec&255] = 0
			if sec&255 == 255 {
				delete(c.secs, sec>>8)
			}
		}
		if sec%60 == 59 {
			if page := c.mins[sec/60>>8]; page != nil {
				c.ttl -= int64(int32(page[sec/60&255]))
				page[sec/60&255] = 0
				if sec/60&255 == 255 {
					delete(c.mins, sec/60>>8)
				}
			}
		}
	}
	expires = c.ttl
	for ms, n := range c.exact {
		if ms/1000 <= c.upTo {
			c.ttl -= int64(n)
			expires -= int64(n)
			delete(c.exact, ms)
		} else if ms < now {
			expires -= int64(n)
		}
	}
	return c.plain.Load() + expires, expires
}

// countDelta is a change of a key count that takes effect with the commit.
type countDelta struct {
	c      *counter
	expire uint64
	n      int
	now    int64
	reset  bool // all keys are gone
}

func (d countDelta) apply() {
	if d.reset {
		d.c.reset(d.now)
		return
	}
	d.c.add(d.expire, d.n, d.now)
}

// CountKeys returns how many keys there will be in the transaction's namespace after its commit, and how many of them
// have an expiry.
func (tx *Tx) CountKeys() (keys, expires int64) {
	keys, expires = tx.db.Count(tx.ns)
	own := tx.db.counts.find(tx.ns)
	for _, d := range tx.deltas {
		switch {
		case d.c != own:
		case d.reset:
			keys, expires = 0, 0
		default:
			keys += int64(d.n)
			if d.expire != 0 {
				expires += int64(d.n)
			}
		}
	}
	return keys, expires
}

// note records how a write of a metadata record changes the key count: old is what was there, next what is
// written, nil for a delete.
func (tx *Tx) note(nsKey []byte, old cf.Meta, oldOK bool, next *cf.Meta) {
	tx.touched = append(tx.touched, touch{hash: tx.db.known.hash(nsKey), plain: plainKey(next)})
	was := oldOK && countable(&old)
	is := next != nil && countable(next)
	if was && is && old.End() == next.End() || !was && !is {
		return
	}
	if was {
		tx.deltas = append(tx.deltas, countDelta{c: tx.counter(), expire: old.End(), n: -1, now: tx.now})
	}
	if is {
		tx.deltas = append(tx.deltas, countDelta{c: tx.counter(), expire: next.End(), n: 1, now: tx.now})
	}
}

func countable(m *cf.Meta) bool { return m.Size > 0 || m.Type.MayBeEmpty() }

// counts holds the counters of all namespaces.
type counts struct {
	mu    sync.RWMutex
	byNS  map[string]*counter
	ready chan struct{}
}

// find returns the counter of a namespace, nil when it has never had a key.
func (c *counts) find(ns string) *counter {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.byNS[ns]
}

// of returns the counter of a namespace.
func (c *counts) of(ns string) *counter {
	if x := c.find(ns); x != nil {
		return x
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	x := c.byNS[ns]
	if x == nil {
		x = newCounter(time.Now().UnixMilli())
		c.byNS[ns] = x
	}
	return x
}

// Count returns how many keys of a namespace have not expired, and how many of those have an expiry. It waits
// for the first count after Open.
func (db *DB) Count(ns string) (keys, expires int64) {
	select {
	case <-db.counts.ready:
	case <-db.closing:
		return 0, 0
	}
	c := db.counts.find(ns)
	if c == nil {
		return 0, 0
	}
	return c.total(time.Now().UnixMilli())
}

// CountNow is the number of keys that Count returns, when the first count is over.
func (db *DB) CountNow(ns string) (keys int64, ok bool) {
	select {
	case <-db.counts.ready:
		keys, _ = db.Count(ns)
		return keys, true
	default:
		return 0, false
	}
}

// Namespaces returns the namespaces that have had keys since the start.
func (db *DB) Namespaces() []string {
	db.counts.mu.RLock()
	defer db.counts.mu.RUnlock()
	var all []string
	for ns := range db.counts.byNS {
		all = append(all, ns)
	}
	return all
}

// countAll counts the keys of a snapshot that was taken before the first write of this process, and now (ms) before
// that.
//
// Keys that have expired in the present second count, as add sees it, until that second has passed: a write of one
// takes it off the count.
func (db *DB) countAll(snap *Snapshot, now int64) {
	defer close(db.counts.ready)
	defer snap.Close()
	tx := db.NewTx()
	tx.Begin("")
	defer tx.Release()
	it := tx.Iter(cf.Metadata, IterOptions{ValueMax: cf.MaxHead, NoFill: true, Snapshot: snap})
	defer it.Close()
	var c *counter
	var last string
	for n := 0; it.Next(); n++ {
		if n&1023 == 0 && db.isClosing() {
			return
		}
		ns, _, err := cf.SplitNSKey(it.Key(), db.slots)
		if err != nil {
			continue
		}
		m, _, err := cf.DecodeMeta(it.Value())
		if err != nil || !countable(&m) || m.End() != 0 && int64(m.End()/1000) < now/1000 {
			continue
		}
		if c == nil || last != string(ns) {
			last = string(ns)
			c = db.counts.of(last)
		}
		c.add(m.End(), 1, now)
	}
	if err := it.Err(); err != nil && !db.isClosing() {
		db.log.Error("counting the keys failed; DBSIZE is too low until the next start: " + err.Error())
	}
}
