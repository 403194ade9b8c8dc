package engine

import (
	"errors"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine/keycount"
	"github.com/basaltdb/basalt/engine/reccache"
)

// Counting keys. DBSIZE costs nothing and needs no scan, by these rules:
//
//   - Every write of a metadata record goes through Tx.Save or Tx.Drop, and reports the record that it replaces to the
//     counter of its namespace. Most writers have read that record. For a blind write (SET), the transaction and
//     the caches are asked. If they cannot answer, package keycount estimates.
//   - If the whole database fits the block cache, a blind write reads the record instead, so the count stays exact.
//   - Keys with an expiry are counted by the time at which they expire: no event is needed at the expiry, and it does
//     not matter when (or whether) a compaction drops the record. Emptied collections do not count. A hash all of whose
//     fields expire counts as a key that expires with its last field.
//   - Close saves the counts in a file. Without the file (a crash, a directory of Kvrocks) the next Open counts a small
//     database, and estimates a large one from RocksDB's file properties. ScanKeys counts exactly, see countscan.go.

// counts holds the counters of all namespaces.
type counts struct {
	mu    sync.RWMutex
	byNS  map[string]*keycount.Counter
	scans map[string]int // scans that are wanted or under way
	last  map[string]scanResult
	idle  *sync.Cond // scans has become empty; of mu
	// partial: byNS may lack namespaces that have keys.
	partial atomic.Bool
	origin  time.Time // of the monotonic clock

	files atomic.Uint32 // changes of the set of files
	fits  atomic.Uint64 // see fitsCache
}

func (c *counts) init() {
	c.byNS = map[string]*keycount.Counter{}
	c.scans = map[string]int{}
	c.last = map[string]scanResult{}
	c.idle = sync.NewCond(&c.mu)
	c.origin = time.Now()
}

// countDelta is a change of a key count that the commit applies.
type countDelta struct {
	c    *keycount.Counter
	kind deltaKind
	n    int32
	end  uint64
	now  int64
	// a wrong guess, and the actual record
	guess, truth keycount.Record
}

type deltaKind uint8

const (
	keysAdded deltaKind = iota // n keys that expire at end
	keysGone                   // no key exists any more
	keyUnseen                  // a record was replaced unseen
	keyMissed                  // a guess was wrong
)

func (d *countDelta) apply() {
	switch d.kind {
	case keysAdded:
		d.c.Add(d.end, int(d.n), d.now)
	case keysGone:
		d.c.Reset(d.now)
	case keyUnseen:
		d.c.Unseen()
	case keyMissed:
		d.c.Missed(d.guess, d.truth)
	}
}

// applyCounts changes the key counts. All changes of a count of keys without an expiry are made in one step: DBSIZE
// must not see half of a RENAME.
func (tx *Tx) applyCounts() {
	var c *keycount.Counter
	plain := 0 // the change of c that is yet to be made
	flush := func() {
		if plain != 0 {
			c.Add(0, plain, tx.now)
			plain = 0
		}
	}
	for i := range tx.deltas {
		switch d := &tx.deltas[i]; {
		case d.kind == keysAdded && d.end == 0:
			if d.c != c {
				flush()
				c = d.c
			}
			plain += int(d.n)
		case d.kind == keysGone:
			flush()
			d.apply()
		default:
			d.apply()
		}
	}
	flush()
	tx.deltas = tx.deltas[:0]
}

// CountKeys returns the number of keys in the transaction's namespace as of its commit, and how many of them have an
// expiry.
func (tx *Tx) CountKeys() (keys, expires int64) {
	keys, expires = tx.db.Count(tx.ns)
	own := tx.db.counts.find(tx.ns)
	now := time.Now().UnixMilli()
	for i := range tx.deltas {
		switch d := &tx.deltas[i]; {
		case d.c != own:
		case d.kind == keysGone:
			keys, expires = 0, 0
		case d.kind == keysAdded && d.end != 0 && int64(min(d.end, math.MaxInt64)) < now:
			// Count has left the expired key out already.
		case d.kind == keysAdded:
			keys += int64(d.n)
			if d.end != 0 {
				expires += int64(d.n)
			}
		}
	}
	return max(keys, 0), max(expires, 0)
}

// count adds n keys to the key count, unless the record does not count.
func (tx *Tx) count(r keycount.Record, n int32) {
	if r.Exists {
		tx.deltas = append(tx.deltas, countDelta{c: tx.counter(), end: r.End, n: n, now: tx.now})
	}
}

// note records how a write of a metadata record changes the key count: old is the previous record, next the new one,
// nil for a delete.
func (tx *Tx) note(nsKey []byte, old cf.Meta, oldOK bool, next *cf.Meta) {
	tx.touched = append(tx.touched, touch{hash: tx.db.presence.Hash(nsKey), plain: plainKey(next)})
	was, is := counted(&old, oldOK), counted(next, next != nil)
	if was != is {
		tx.count(was, -1)
		tx.count(is, 1)
	}
}

// counted returns how the key count sees a record.
func counted(m *cf.Meta, ok bool) keycount.Record {
	if !ok || !countable(m) {
		return keycount.Record{}
	}
	return keycount.Record{Exists: true, End: m.End()}
}

func countable(m *cf.Meta) bool { return m.Size > 0 || m.Type.MayBeEmpty() }

// replace is note for a blind write: the transaction need not have read the previous record.
func (tx *Tx) replace(nsKey []byte, next *cf.Meta) {
	if tx.db.fresh {
		tx.note(nsKey, cf.Meta{}, false, next)
		return
	}
	old, ok, known := tx.peek(nsKey)
	if known {
		tx.note(nsKey, old, ok, next)
		return
	}
	tx.touched = append(tx.touched, touch{hash: tx.db.presence.Hash(nsKey), plain: plainKey(next)})
	c := tx.counter()
	tx.deltas = append(tx.deltas, countDelta{c: c, kind: keyUnseen})
	guess, is := c.Guess(tx.now), counted(next, next != nil)
	if rand.Uint32N(keycount.SampleEvery) == 0 {
		if m, ok, err := tx.head(nsKey); err == nil {
			truth := counted(&m, ok)
			if truth.End != 0 && truth.End < uint64(tx.now) {
				truth = keycount.Record{} // an expired record does not count
			}
			c.Learn(truth, tx.now)
			if truth != guess {
				tx.deltas = append(tx.deltas, countDelta{c: c, kind: keyMissed, guess: guess, truth: truth, now: tx.now})
				tx.count(guess, keycount.SampleEvery)
				tx.count(truth, -keycount.SampleEvery)
			}
		}
	}
	if guess != is {
		tx.count(guess, -1)
		tx.count(is, 1)
	}
}

// peek returns what the caches know of a metadata record. It asks RocksDB only if the whole database fits the block
// cache: otherwise it would ask the filters of all files, which took half of the CPU time of loading new keys. Of a key
// that is known to exist without an expiry, peek returns only that. known is false when the caches do not help. An
// unreadable record counts as missing: the result matters to the key count only.
func (tx *Tx) peek(nsKey []byte) (m cf.Meta, ok, known bool) {
	value, found, here := tx.overlaid(cf.Metadata, nsKey)
	if !here && tx.db.presence.Exists(nsKey) {
		return cf.Meta{Type: cf.TypeString}, true, true
	}
	var buf [cf.MaxHead]byte
	if !here {
		if c := tx.db.cache; c != nil {
			var is reccache.Answer
			value, is = c.Head(c.Hash(cf.Metadata, nsKey), cf.Metadata, nsKey, buf[:0])
			found, here = is == reccache.Present, is != reccache.Unknown
		}
	}
	if !here && tx.db.fitsCache() {
		if tx.usable() != nil {
			return m, false, true // no commit will follow
		}
		n, is, err := tx.db.rocks.GetHead(tx.db.family(cf.Metadata), nsKey, buf[:])
		value, found, here = buf[:min(n, len(buf))], is && err == nil, true
	}
	if !here || !found {
		return m, false, here
	}
	m, _, err := cf.DecodeMeta(value)
	return m, err == nil, true
}

// head reads the head of a metadata record that the transaction does not know. The overlay does not remember the head.
func (tx *Tx) head(nsKey []byte) (m cf.Meta, ok bool, err error) {
	if err := tx.usable(); err != nil {
		return m, false, err
	}
	var buf [cf.MaxHead]byte
	n, found, err := tx.db.rocks.GetHead(tx.db.family(cf.Metadata), nsKey, buf[:])
	if err != nil || !found {
		return m, false, err
	}
	m, _, err = cf.DecodeMeta(buf[:min(n, len(buf))])
	return m, err == nil, nil
}

// fitsCache reports whether all files together fit the block cache, with room for the decompressed data. Then every
// block is read from the disk at most once, and a blind write may read. The answer holds until the set of files
// changes: counts.fits has the answer in bit 0 and, above it, 1 + the number of changes before the answer. Writers that
// meet a change at the same time all compare the sizes: while one did, the others would have to guess.
func (db *DB) fitsCache() bool {
	c := &db.counts
	files := uint64(c.files.Load()) + 1
	if f := c.fits.Load(); f>>1 == files {
		return f&1 != 0
	}
	size := db.DiskSize()
	for _, fam := range db.fam {
		n, _ := db.rocks.IntProperty(fam, "rocksdb.live-blob-file-size")
		size += n
	}
	if _, _, capacity := db.rocks.CacheUsage(); size > uint64(capacity)/2 {
		c.fits.Store(files << 1)
		return false
	}
	c.fits.Store(files<<1 | 1)
	return true
}

// filesChanged makes fitsCache compare the sizes again.
func (c *counts) filesChanged() { c.files.Add(1) }

// find returns the counter of a namespace, nil when the namespace has never had a key.
func (c *counts) find(ns string) *keycount.Counter {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.byNS[ns]
}

// of returns the counter of a namespace, and creates it if necessary.
func (c *counts) of(ns string) *keycount.Counter {
	if x := c.find(ns); x != nil {
		return x
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	x := c.byNS[ns]
	if x == nil {
		x = keycount.New(time.Now().UnixMilli())
		c.byNS[ns] = x
	}
	return x
}

// KeyCount is what is known of the number of keys of a namespace.
type KeyCount struct {
	keycount.State
	Scanning bool      // a scan is wanted or under way
	Scanned  time.Time // end of the last scan by ScanKeys; zero = none
	// Unread is about how many keys the last scan, or the count of Open, could not read because of damaged files.
	Unread int64
}

// KeyCount returns the number of keys of a namespace that have not expired, and how reliable it is. It never waits.
func (db *DB) KeyCount(ns string) (k KeyCount) {
	c := &db.counts
	c.mu.RLock()
	counter, last, scans := c.byNS[ns], c.last[ns], c.scans[ns]
	c.mu.RUnlock()
	k.Scanning, k.Scanned, k.Unread = scans > 0, last.at, last.unread
	if counter == nil || db.isClosing() {
		k.Exact = !c.partial.Load()
		return k
	}
	k.State = counter.State(time.Now().UnixMilli(), time.Since(c.origin))
	return k
}

// Count returns how many keys of a namespace have not expired, and how many of these keys have an expiry. KeyCount says
// whether the count is exact.
func (db *DB) Count(ns string) (keys, expires int64) {
	k := db.KeyCount(ns)
	return k.Keys, k.Expires
}

// Namespaces returns the namespaces that have had keys since the start.
func (db *DB) Namespaces() []string {
	db.counts.mu.RLock()
	defer db.counts.mu.RUnlock()
	return slices.Collect(maps.Keys(db.counts.byNS))
}

// saveCounts writes the counts into the directory of the closed database, for the next Open.
func (db *DB) saveCounts(sequence uint64) {
	s, err := keycount.Identify(db.dir)
	if err == nil {
		s.Sequence, s.Counters = sequence, db.counts.byNS
		err = s.Write(db.dir)
	}
	if err != nil {
		db.log.Warn("the number of keys could not be saved; the next start estimates it", zap.Error(err))
	}
}

// savedCounts reads the counts that Close has saved, before the database is opened; nil when no valid counts exist.
func savedCounts(dir string, log *zap.Logger) *keycount.Saved {
	saved, err := keycount.Read(dir, time.Now().UnixMilli())
	if err != nil {
		log.Warn("the number of keys that was saved cannot be read", zap.Error(err))
	}
	if saved == nil {
		return nil
	}
	is, err := keycount.Identify(dir)
	if err != nil || saved.Identity != is.Identity || saved.Manifest != is.Manifest {
		return nil
	}
	return saved
}

// startCounts begins to count, before the first write.
func (db *DB) startCounts(saved *keycount.Saved) {
	if err := keycount.Remove(db.dir); err != nil {
		db.log.Warn("the file of key counts cannot be removed", zap.Error(err))
	}
	if saved != nil && saved.Sequence == db.LatestSequence() {
		db.counts.byNS = saved.Counters // no other user: the database is being opened
		return
	}
	err := db.countSmall()
	if errors.Is(err, errTooLarge) {
		err = db.estimateKeys()
	}
	if err != nil {
		db.counts.partial.Store(true)
		db.log.Error("the keys could not be counted; DBSIZE is too low until DBSIZE SCAN", zap.Error(err))
	}
}

// plainKey reports whether a record belongs in the presence cache.
func plainKey(m *cf.Meta) bool { return m != nil && m.End() == 0 && countable(m) }
