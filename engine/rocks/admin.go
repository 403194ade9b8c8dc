package rocks

// #include <stdlib.h>
// #include "shim/shim.h"
import "C"

import (
	"encoding/binary"
	"strings"
	"unsafe"

	"github.com/linxGnu/grocksdb"
)

// Ticker returns one of RocksDB's statistics counters by its name without "rocksdb.", such as "wal.bytes"
// (TickersNameMap in monitoring/statistics.cc). ok is false when this version of RocksDB has none of that name, or the
// database is closed.
func (d *DB) Ticker(name string) (n uint64, ok bool) {
	full := []byte("rocksdb." + name)
	var count C.uint64_t
	d.use(func() { ok = C.bk_ticker(raw(d.opts), bytesPtr(full), C.size_t(len(full)), &count) != 0 })
	return uint64(count), ok
}

// Statistics returns all statistics as RocksDB prints them.
func (d *DB) Statistics() (text string) {
	d.use(func() { text = d.opts.GetStatisticsString() })
	return text
}

// FamilyProperty returns a property of one family.
func (d *DB) FamilyProperty(f *Family, name string) (text string) {
	d.use(func() { text = d.db.GetPropertyCF(name, f.h) })
	return text
}

// MapProperty returns a property of one family that is a map; it is empty when RocksDB does not know it.
func (d *DB) MapProperty(f *Family, name string) map[string]string {
	if !d.enter() {
		return nil
	}
	defer d.leave()
	b := []byte(name)
	var n C.size_t
	p := C.bk_map_property(d.ptr, f.ptr, bytesPtr(b), C.size_t(len(b)), &n)
	if p == nil {
		return nil
	}
	text := C.GoStringN(p, C.int(n))
	C.free(unsafe.Pointer(p))
	entries := map[string]string{}
	for line := range strings.Lines(text) {
		if key, value, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "="); ok {
			entries[key] = value
		}
	}
	return entries
}

// IntProperty returns a numeric property of one family.
func (d *DB) IntProperty(f *Family, name string) (n uint64, ok bool) {
	d.use(func() { n, ok = d.db.GetIntPropertyCF(name, f.h) })
	return n, ok
}

// SumProperty returns the sum of a numeric property over all families.
func (d *DB) SumProperty(name string) (sum uint64) {
	d.use(func() {
		for _, f := range d.Families() {
			n, _ := d.db.GetIntPropertyCF(name, f.h)
			sum += n
		}
	})
	return sum
}

// CacheUsage returns the bytes in the shared block cache, the bytes that are pinned there, and how many it may hold.
func (d *DB) CacheUsage() (used, pinned, capacity int) {
	d.use(func() {
		if c := d.cache; c != nil {
			used, pinned, capacity = int(C.bk_cache_usage(c)), int(C.bk_cache_pinned(c)), int(C.bk_cache_capacity(c))
		}
	})
	return used, pinned, capacity
}

// ShrinkCache makes the shared block cache smaller than the options say, by so many bytes.
func (d *DB) ShrinkCache(by int) {
	d.cacheGiven.Store(int64(by))
	d.use(func() {
		if d.cache != nil {
			C.bk_cache_set_capacity(d.cache, C.size_t(max(d.cacheSize-by, 1)))
		}
	})
}

// CacheLookups returns how many look-ups of a family's blocks in the shared block cache have hit and missed since the
// database was opened. ok is false when they are not counted, or the database is closed.
func (d *DB) CacheLookups(f *Family) (hits, misses uint64, ok bool) {
	var h, m C.uint64_t
	d.use(func() { ok = C.bk_family_lookups(raw(f.opts), &h, &m) != 0 })
	return uint64(h), uint64(m), ok
}

// DropCache drops the unpinned blocks of the shared block cache.
func (d *DB) DropCache() {
	d.use(func() {
		if d.cache != nil {
			C.bk_cache_drop(d.cache)
		}
	})
}

// SetDBOption changes an option of the running database.
func (d *DB) SetDBOption(key, value string) error {
	return d.withStrings(key, value, func(k, v *C.char, err **C.char) { C.bk_set_db_option(d.ptr, k, v, err) })
}

// SetFamilyOption changes an option of one family.
func (d *DB) SetFamilyOption(f *Family, key, value string) error {
	return d.withStrings(key, value, func(k, v *C.char, err **C.char) { C.bk_set_cf_option(d.ptr, f.ptr, k, v, err) })
}

func (d *DB) withStrings(key, value string, call func(k, v *C.char, err **C.char)) error {
	k, v := C.CString(key), C.CString(value)
	defer C.free(unsafe.Pointer(k))
	defer C.free(unsafe.Pointer(v))
	return d.do(func() error {
		var cerr *C.char
		call(k, v, &cerr)
		return takeErr(cerr)
	})
}

// SetRateLimit changes the max write rate of flushes and compactions, in bytes a second.
func (d *DB) SetRateLimit(bytesPerSecond int64) {
	d.use(func() { C.bk_options_set_rate(raw(d.opts), C.int64_t(bytesPerSecond)) })
}

// Resume tries to make the database writable again after a background error.
func (d *DB) Resume() error {
	return d.do(func() error {
		var cerr *C.char
		C.bk_resume(d.ptr, &cerr)
		return takeErr(cerr)
	})
}

// CompactRange compacts [start, stop] of a family; nil = no bound.
func (d *DB) CompactRange(f *Family, start, stop []byte) error {
	if !d.enter() {
		return ErrClosed
	}
	defer d.leave()
	var cerr *C.char
	C.bk_compact_range(d.ptr, f.ptr, bytesPtr(start), C.size_t(len(start)), bytesPtr(stop), C.size_t(len(stop)), &cerr)
	err := takeErr(cerr)
	if err != nil && d.gate.closed.Load() {
		return ErrClosed // instead of the error that manual compactions are paused
	}
	return err
}

// CompactFiles compacts table files of a family, named as in TableProperties, together with the overlapping files of
// the given level, into files of about fileSize bytes in that level. It returns false if a file is gone or is being
// compacted.
func (d *DB) CompactFiles(f *Family, names []string, level int, fileSize uint64) (done bool, err error) {
	if !d.enter() {
		return false, ErrClosed
	}
	defer d.leave()
	all := []byte(strings.Join(names, "\n"))
	var cerr *C.char
	n := C.bk_compact_files(d.ptr, f.ptr, bytesPtr(all), C.size_t(len(all)), C.int(level), C.uint64_t(fileSize), &cerr)
	err = takeErr(cerr)
	if err != nil && d.gate.closed.Load() {
		return false, ErrClosed // instead of the error that manual compactions are paused
	}
	return n == 1, err
}

// CancelCompactions cancels running calls of CompactRange, waits for their end, and makes later calls fail.
func (d *DB) CancelCompactions() { d.use(func() { C.bk_cancel_compactions(d.ptr) }) }

// CancelBackground ends flushes and compactions, and calls that wait for these. The database can only be closed then.
func (d *DB) CancelBackground() { d.use(func() { C.bk_cancel_background(d.ptr) }) }

// Flush flushes the memtables of a family to a file and waits for the end of the flush.
func (d *DB) Flush(f *Family) error {
	o := grocksdb.NewDefaultFlushOptions()
	defer o.Destroy()
	return d.do(func() error { return d.db.FlushCF(f.h, o) })
}

// FlushWAL writes the WAL buffer to the file, and with sync syncs the file.
func (d *DB) FlushWAL(sync bool) error { return d.do(func() error { return d.db.FlushWAL(sync) }) }

// LatestSequence returns the sequence number of the newest write.
func (d *DB) LatestSequence() uint64 {
	if !d.enter() {
		return 0
	}
	defer d.leave()
	return d.db.GetLatestSequenceNumber()
}

// Checkpoint makes a consistent copy in dir, which must not exist. Table files are hard links where the file system
// supports them.
func (d *DB) Checkpoint(dir string) error {
	return d.do(func() error {
		c, err := d.db.NewCheckpoint()
		if err != nil {
			return err
		}
		defer c.Destroy()
		return c.CreateCheckpoint(dir, 0)
	})
}

// ApproximateSize returns RocksDB's estimate of how many bytes of files and memtables a key range occupies.
func (d *DB) ApproximateSize(f *Family, lower, upper []byte) (n uint64) {
	d.use(func() {
		n = uint64(C.bk_approximate_size(d.ptr, f.ptr, bytesPtr(lower), C.size_t(len(lower)), bytesPtr(upper),
			C.size_t(len(upper))))
	})
	return n
}

// ApproximateParts estimates how many bytes of files and memtables each of len(sizes) adjacent ranges occupies, and
// stores the results in sizes. Range i begins at the key head · at[i] and ends where the next one begins. at has one
// element more than sizes: the last range ends at head · the last element of at, or if that is 256, at end, which must
// come after all keys that begin with head. ApproximateParts returns false on an error.
func (d *DB) ApproximateParts(f *Family, head, end []byte, at []uint16, sizes []uint64) bool {
	if len(sizes) == 0 || len(at) != len(sizes)+1 || !d.enter() {
		return false
	}
	defer d.leave()
	return C.bk_approximate_parts(d.ptr, f.ptr, bytesPtr(head), C.size_t(len(head)), bytesPtr(end), C.size_t(len(end)),
		(*C.uint16_t)(unsafe.SliceData(at)), C.int(len(sizes)), (*C.uint64_t)(unsafe.SliceData(sizes))) != 0
}

// LiveFiles returns the table files of the database.
func (d *DB) LiveFiles() (files []grocksdb.LiveFileMetadata) {
	d.use(func() { files = d.db.GetLiveFilesMetaData() })
	return files
}

// TableProperties are the properties of one table file.
type TableProperties struct {
	File              string
	CreationTime      uint64 // seconds since the epoch, 0 = unknown
	TotalKeys         []byte // written by the collector (see compaction.PropTotalKeys); nil if missing
	DeletedKeys       []byte
	StartKey, StopKey []byte
	Expiries          []byte // see compaction.ParseExpiries
	RawBytes          uint64 // size of keys and values before compression
	Level             int
}

// TableProperties returns the properties of all table files of a family.
func (d *DB) TableProperties(f *Family) ([]TableProperties, error) {
	if !d.enter() {
		return nil, ErrClosed
	}
	defer d.leave()
	var n C.size_t
	var cerr *C.char
	p := C.bk_table_properties(d.ptr, f.ptr, &n, &cerr)
	if p == nil {
		return nil, takeErr(cerr)
	}
	b := C.GoBytes(unsafe.Pointer(p), C.int(n))
	C.free(unsafe.Pointer(p))
	str := func() []byte {
		l := binary.LittleEndian.Uint32(b)
		b = b[4:]
		if l == 1<<32-1 {
			return nil
		}
		s := b[:l:l]
		b = b[l:]
		return s
	}
	var files []TableProperties
	for len(b) > 0 {
		var t TableProperties
		t.File = string(str())
		t.CreationTime = binary.LittleEndian.Uint64(b)
		t.RawBytes = binary.LittleEndian.Uint64(b[8:])
		t.Level = int(binary.LittleEndian.Uint32(b[16:]))
		b = b[20:]
		t.TotalKeys, t.DeletedKeys, t.StartKey, t.StopKey = str(), str(), str(), str()
		t.Expiries = str()
		files = append(files, t)
	}
	return files, nil
}

// Stored holds the number of entries that a family stores, old versions of keys included.
type Stored struct {
	Puts, Deletes uint64 // in files and memtables
	RangeDeletes  uint64 // in files
	// LowestPuts is the number of puts in the lowest level with files, except level 0. A key occurs there at most once.
	LowestPuts uint64
}

// Stored counts the entries of a family from the properties of its files. It reads no data.
func (d *DB) Stored(f *Family) (s Stored, err error) {
	if !d.enter() {
		return s, ErrClosed
	}
	defer d.leave()
	var out [4]C.uint64_t
	var cerr *C.char
	if C.bk_stored(d.ptr, f.ptr, &out[0], &cerr) == 0 {
		return s, takeErr(cerr)
	}
	return Stored{uint64(out[0]), uint64(out[1]), uint64(out[2]), uint64(out[3])}, nil
}

// DeletesAt returns how many deletes and range deletes, of whatever keys, the files of a family hold whose key ranges
// contain the key. It reads no data.
func (d *DB) DeletesAt(f *Family, key []byte) (uint64, error) {
	if !d.enter() {
		return 0, ErrClosed
	}
	defer d.leave()
	var cerr *C.char
	n := C.bk_deletes_at(d.ptr, f.ptr, bytesPtr(key), C.size_t(len(key)), &cerr)
	return uint64(n), takeErr(cerr)
}

// WALIter reads the write batches of the WAL. The caller must close it.
type WALIter struct {
	d  *DB
	it *grocksdb.WalIterator
}

// WAL returns an iterator that starts with the batch that contains the sequence number.
func (d *DB) WAL(seq uint64) (*WALIter, error) {
	if !d.enter() {
		return nil, ErrClosed
	}
	it, err := d.db.GetUpdatesSince(seq)
	if err != nil {
		d.leave()
		return nil, err
	}
	live.Add(1)
	return &WALIter{d: d, it: it}, nil
}

// Next returns the next batch in RocksDB's format and the sequence number of its first record; nil at the end.
func (w *WALIter) Next() (rep []byte, seq uint64, err error) {
	if w.it == nil {
		return nil, 0, ErrClosed
	}
	if !w.it.Valid() {
		return nil, 0, w.it.Err()
	}
	wb, seq := w.it.GetBatch()
	rep = append([]byte(nil), wb.Data()...)
	wb.Destroy()
	binary.LittleEndian.PutUint64(rep, seq)
	w.it.Next()
	return rep, seq, nil
}

// More continues after Next has returned nil, with later writes if any exist yet. After an error, continuing needs a
// new iterator (for example because RocksDB has begun another log).
func (w *WALIter) More() error {
	if w.it == nil {
		return ErrClosed
	}
	if !w.it.Valid() && w.it.Err() == nil {
		w.it.Next()
	}
	return w.it.Err()
}

// Close frees the iterator. Repeated calls are allowed.
func (w *WALIter) Close() {
	if w.it == nil {
		return
	}
	w.it.Destroy()
	w.it = nil
	live.Add(-1)
	w.d.leave()
}
