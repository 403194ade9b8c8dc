package engine

import (
	"bytes"
	"errors"
	"math/big"
	"time"

	"go.uber.org/zap"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine/keycount"
	"github.com/basaltdb/basalt/engine/rocks"
)

var ErrScanning = NewError("ERR", "scanning the db now")

// scanResult is the result of a scan besides the count.
type scanResult struct {
	at     time.Time // end of the scan; zero = Open has counted
	unread int64     // about how many keys it could not read
}

const (
	// scanMost is the max size in bytes of a metadata family that Open counts: about 50 ms. Without a file of counts a
	// small database is exact at once, and a large database starts without reading its data.
	scanMost = 16 << 20
	// maxNamespaces is the max number of namespaces that Open looks for, with one seek each.
	maxNamespaces = 4096
	// maxTombstones is the max number of tombstones that such a seek skips.
	maxTombstones = 10000
	// damageFirst is how many bytes of files a scan skips at a damaged block. Each failed attempt doubles the number.
	damageFirst = 32 << 10
	// scanRetry is the time until a scan tries again to take all locks, after a transaction has made it fail.
	scanRetry = 50 * time.Millisecond
)

var errTooLarge = errors.New("too many keys to count them")

// ScanKeys begins to count the keys of a namespace in the background. It works on a snapshot and also counts the
// writes since. All locks are held for a moment when the snapshot is taken, and again when the result takes effect.
func (db *DB) ScanKeys(ns string) error {
	c := &db.counts
	c.mu.Lock()
	defer c.mu.Unlock()
	if db.isClosing() {
		return ErrClosed
	}
	if c.scans[ns] > 0 {
		return ErrScanning
	}
	c.scans[ns]++
	db.work.Go(func() {
		defer db.scanEnded(ns)
		var s *keyScan
		if db.withAllLocks(func() { s = db.beginScan(ns) }) {
			s.run()
		}
	})
	return nil
}

// WaitScans waits until no keys are being counted.
func (db *DB) WaitScans() {
	c := &db.counts
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(c.scans) > 0 {
		c.idle.Wait()
	}
}

func (db *DB) scanEnded(ns string) {
	c := &db.counts
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.scans[ns]--; c.scans[ns] == 0 {
		delete(c.scans, ns)
	}
	if len(c.scans) == 0 {
		c.idle.Broadcast()
	}
}

// rescan counts a namespace again in the background, because of a commit of the caller, which holds all locks.
func (db *DB) rescan(ns string) {
	c := &db.counts
	c.mu.Lock()
	defer c.mu.Unlock()
	if db.isClosing() {
		return
	}
	s := db.beginScanOf(ns, c.byNS[ns])
	s.c.Doubt(s.c.State(time.Now().UnixMilli(), time.Since(c.origin)).Keys)
	c.scans[ns]++
	db.work.Go(func() {
		defer db.scanEnded(ns)
		s.run()
	})
}

// recountAll counts all namespaces again in the background. All locks must be held.
func (db *DB) recountAll() error {
	names, err := db.findNamespaces()
	for _, ns := range names {
		db.counts.of(ns)
		db.rescan(ns)
	}
	return err
}

// withAllLocks runs f while all locks are held. It reports false when the database closes.
func (db *DB) withAllLocks(f func()) bool {
	return db.exclusiveRetry(func(*Tx) error { f(); return nil }) == nil
}

// keyScan is a scan under way.
type keyScan struct {
	db    *DB
	ns    string
	c     *keycount.Counter
	fresh *keycount.Counter
	snap  *Snapshot
	began time.Time
}

// beginScan must be called with all locks held: later commits are not in the snapshot, and fresh counts them.
func (db *DB) beginScan(ns string) *keyScan { return db.beginScanOf(ns, db.counts.of(ns)) }

func (db *DB) beginScanOf(ns string, c *keycount.Counter) *keyScan {
	now := time.Now()
	return &keyScan{db: db, ns: ns, c: c, fresh: c.BeginScan(now.UnixMilli()), snap: db.NewSnapshot(), began: now}
}

func (s *keyScan) run() {
	db, now := s.db, s.began.UnixMilli()
	lower := cf.AppendNSPrefix(nil, s.ns)
	upper, _ := cf.AppendSuccessor(nil, lower)
	n := 0
	unread, err := db.scanRecords(s.snap, lower, upper, func(_ []byte, m *cf.Meta) bool {
		if n++; n&1023 == 0 && (db.ending() || !s.c.Scanning(s.fresh)) {
			return false
		}
		if countable(m) {
			s.fresh.Add(m.End(), 1, now)
		}
		return true
	})
	s.snap.Close()
	if db.ending() || !s.c.Scanning(s.fresh) {
		return // the keys are gone, or another scan has begun
	}
	s.fresh.Doubt(unread)
	if !db.withAllLocks(func() { s.c.EndScan(s.fresh, err != nil) }) {
		return
	}
	if err != nil {
		db.log.Error("counting the keys failed", zap.String("namespace", s.ns), zap.Error(err))
		return
	}
	ended := time.Now()
	db.counts.mu.Lock()
	db.counts.last[s.ns] = scanResult{at: ended, unread: unread}
	db.counts.mu.Unlock()
	db.log.Info("counted the keys", zap.String("namespace", s.ns), zap.Int("records", n),
		zap.Int64("unread", unread), zap.Duration("took", ended.Sub(s.began)))
}

// scanRecords calls f with the metadata records in [lower, upper) until f returns false; an empty upper is no bound. It
// skips damaged records, and files and blocks that cannot be read. unread is about how many keys these hold.
func (db *DB) scanRecords(snap *Snapshot, lower, upper []byte,
	f func(key []byte, m *cf.Meta) bool) (unread int64, err error) {
	if len(upper) == 0 {
		upper = append(metadataEnd, 0)
	}
	tx := db.NewTx()
	tx.Begin(cf.DefaultNamespace)
	defer tx.Release()
	var read, lost float64 // records, bytes
	at, jump := bytes.Clone(lower), uint64(damageFirst)
	for {
		it := tx.Iter(cf.Metadata, IterOptions{Lower: at, Upper: upper, ValueMax: cf.MaxHead, NoFill: true, Snapshot: snap})
		found := false
		for it.Next() {
			found = true
			read++
			at = append(at[:0], it.Key()...)
			if m, _, err := cf.DecodeMeta(it.Value()); err == nil && !f(at, &m) {
				it.Close()
				return 0, nil
			}
		}
		err := it.Err()
		it.Close()
		if err == nil {
			break
		}
		if db.ending() || errors.Is(err, ErrClosed) {
			return 0, ErrClosed
		}
		db.log.Error("keys cannot be read", zap.Binary("behind", at), zap.Error(err))
		if jump *= 2; found {
			jump = damageFirst
			at = append(at, 0)
		}
		next := behindDamage(db.rocks, db.family(cf.Metadata), at, upper, jump)
		lost += float64(db.ApproximateSize(cf.Metadata, at, next))
		if at = next; bytes.Equal(at, upper) {
			break
		}
	}
	if lost == 0 {
		return 0, nil
	}
	// The unread part is assumed to be like the rest.
	all := float64(db.ApproximateSize(cf.Metadata, lower, upper))
	return max(int64(lost*read/max(all-lost, 1)), 1), nil
}

// behindDamage returns a key between from and upper at which reading may go on: about n bytes behind from, or the
// beginning of the next file when RocksDB does not know of so many bytes, or upper.
func behindDamage(db *rocks.DB, family *rocks.Family, from, upper []byte, n uint64) []byte {
	size := func(to []byte) uint64 { return db.ApproximateSize(family, from, to) }
	if size(upper) > n {
		return bisect(from, upper, func(key []byte) bool { return size(key) > n })
	}
	next := upper
	for _, f := range db.LiveFiles() {
		between := bytes.Compare(f.SmallestKey, from) > 0 && bytes.Compare(f.SmallestKey, next) < 0
		if between && f.ColumnFamilyName == family.Name {
			next = f.SmallestKey
		}
	}
	return bytes.Clone(next)
}

// bisect returns approximately the first key for which is returns true. is must be true for hi and false for lo.
func bisect(lo, hi []byte, is func(key []byte) bool) []byte {
	width := max(len(lo), len(hi)) + 8
	number := func(key []byte) *big.Int {
		return new(big.Int).SetBytes(append(bytes.Clone(key), make([]byte, width-len(key))...))
	}
	a, b := number(lo), number(hi)
	for buf := make([]byte, width); ; {
		mid := new(big.Int).Add(a, b)
		if mid.Rsh(mid, 1); mid.Cmp(a) == 0 {
			return b.FillBytes(buf)
		}
		if is(mid.FillBytes(buf)) {
			b = mid
		} else {
			a = mid
		}
	}
}

// countSmall counts the keys of a database that is being opened, unless it is large.
func (db *DB) countSmall() error {
	var size uint64
	for _, p := range []string{"live-sst-files-size", "live-blob-file-size", "cur-size-all-mem-tables"} {
		n, _ := db.rocks.IntProperty(db.family(cf.Metadata), "rocksdb."+p)
		size += n
	}
	if size > scanMost {
		return errTooLarge
	}
	var c *keycount.Counter
	var last string
	now := time.Now().UnixMilli()
	unread, err := db.scanRecords(nil, nil, nil, func(key []byte, m *cf.Meta) bool {
		ns, _, err := cf.SplitNSKey(key, db.slots)
		if err != nil || !countable(m) {
			return true
		}
		if c == nil || last != string(ns) {
			last = string(ns)
			c = db.counts.of(last)
		}
		c.Add(m.End(), 1, now)
		return true
	})
	db.doubt(unread)
	return err
}

// doubt marks the counts of all namespaces as uncertain: Open could not read some keys, and their namespaces are
// unknown.
func (db *DB) doubt(unread int64) {
	if unread == 0 {
		return
	}
	db.counts.partial.Store(true)
	db.counts.of(cf.DefaultNamespace)
	for ns, c := range db.counts.byNS {
		c.Doubt(unread)
		db.counts.last[ns] = scanResult{unread: unread}
	}
}

// estimateKeys estimates the keys of a database that is being opened from what RocksDB knows of its files. Records of
// expired keys that are still stored count as keys.
//
// Most likely each delete covers one put beneath it. The number of all puts is an upper bound. The puts of the lowest
// level minus all deletes are a lower bound, unless ranges were deleted.
func (db *DB) estimateKeys() error {
	st, err := db.rocks.Stored(db.family(cf.Metadata))
	if err != nil {
		return err
	}
	most := int64(st.Puts)
	least := int64(st.LowestPuts) - int64(st.Deletes)
	if st.RangeDeletes > 0 {
		least = 0
	}
	least = max(least, 0)
	// A put above the lowest level is as likely a replacement as a new key.
	keys := max(most-int64(st.Deletes), 0)
	keys = min(max(keys, least), most)
	names, err := db.findNamespaces()
	if err != nil {
		return err
	}
	sizes := make([]float64, len(names))
	var all float64
	for i, ns := range names {
		lower := cf.AppendNSPrefix(nil, ns)
		upper, ok := cf.AppendSuccessor(nil, lower)
		if !ok {
			upper = append(metadataEnd, 0)
		}
		sizes[i] = float64(db.ApproximateSize(cf.Metadata, lower, upper))
		all += sizes[i]
	}
	for i, ns := range names {
		share := keys
		if len(names) > 1 { // by their sizes; the bounds are those of all keys
			share, least = int64(float64(keys)*sizes[i]/max(all, 1)), 0
		}
		db.counts.of(ns).Assume(share, max(most-share, share-least))
	}
	return nil
}

// findNamespaces returns the namespaces that have records.
func (db *DB) findNamespaces() (names []string, err error) {
	tx := db.NewTx()
	tx.Begin(cf.DefaultNamespace)
	defer tx.Release()
	var lower []byte
	for range maxNamespaces {
		it := tx.Iter(cf.Metadata, IterOptions{Lower: lower, KeysOnly: true, Limit: 1, MaxSkip: maxTombstones})
		if !it.Next() {
			err := it.Err()
			it.Close()
			if _, ok := errors.AsType[*rocks.Error](err); ok { // too many tombstones, or damage
				db.counts.partial.Store(true)
				db.log.Warn("not all namespaces are known; DBSIZE SCAN counts the keys of one", zap.Error(err))
				err = nil
			}
			return names, err
		}
		ns, _, err := cf.SplitNSKey(it.Key(), db.slots)
		if err != nil { // a key of no namespace
			lower = append(bytes.Clone(it.Key()), 0)
			it.Close()
			continue
		}
		names = append(names, string(ns))
		var ok bool
		lower, ok = cf.AppendSuccessor(nil, cf.AppendNSPrefix(nil, string(ns)))
		it.Close()
		if !ok {
			return names, nil
		}
	}
	db.counts.partial.Store(true)
	return names, nil
}
