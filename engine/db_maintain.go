package engine

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine/rocks"
)

// Checkpoint makes a consistent copy of the database in a directory that must not exist. It makes hard links where the
// file system allows.
func (db *DB) Checkpoint(dir string) error {
	db.copying.Lock()
	defer db.copying.Unlock()
	return db.whileOpen(func() error { return db.rocks.Checkpoint(dir) })
}

// CompactNamespace compacts the records of a namespace in every family and waits; ns "" compacts everything.
func (db *DB) CompactNamespace(ns string) error {
	var start, stop []byte
	if ns != "" {
		start = cf.AppendNSPrefix(nil, ns)
		stop, _ = cf.AppendSuccessor(nil, start)
	}
	return db.whileOpen(func() error {
		for _, f := range db.rocks.Families() {
			if err := db.compact(f, start, stop); err != nil {
				return err
			}
		}
		return nil
	})
}

// CompactRange compacts [start, stop] of one family and waits; nil = no bound.
func (db *DB) CompactRange(id cf.ID, start, stop []byte) error {
	return db.compact(db.family(id), start, stop)
}

// compact serializes compactions: at its end a compaction may move files to another level, and when two compactions are
// at that point at the same time RocksDB fails one of them.
func (db *DB) compact(f *rocks.Family, start, stop []byte) error {
	db.compacting.Lock()
	defer db.compacting.Unlock()
	return db.rocks.CompactRange(f, start, stop)
}

// FlushMemtable writes the memtable of a family to a file and waits.
func (db *DB) FlushMemtable(id cf.ID) error { return db.rocks.Flush(db.family(id)) }

// SyncWAL waits until all writes so far are on the disk.
//
// After a failed write RocksDB must not be asked to sync that log: with assertions it aborts the process, without them
// it refuses all writes until a restart, also when the disk has space again. So no write may fail between the check of
// the last error, which is noted before the write returns, and the call.
func (db *DB) SyncWAL() error {
	db.logFails.Lock()
	defer db.logFails.Unlock()
	if err := db.writable(); err != nil {
		return err
	}
	if err := db.rocks.FlushWAL(true); err != nil {
		if errors.Is(err, ErrClosed) {
			return db.shutError()
		}
		return NewError("ERR", "the log was not synced: "+err.Error())
	}
	return nil
}

// ProfileThread begins to count and time what the calling goroutine's thread does in RocksDB; the goroutine must be
// locked to it (runtime.LockOSThread). stop ends it and returns RocksDB's perf context and I/O statistics as text,
// without the counters that are zero.
func ProfileThread() (stop func() (perf, io string)) {
	rocks.PerfStart()
	return rocks.PerfStop
}

// LatestSequence returns the sequence number of the newest write.
func (db *DB) LatestSequence() uint64 { return db.rocks.LatestSequence() }

// SetDBOption changes an option of RocksDB at run time.
func (db *DB) SetDBOption(key, value string) error {
	return db.exchange.settings.change("db."+key, func() error { return db.rocks.SetDBOption(key, value) })
}

// SetFamilyOption changes an option of all families at run time.
func (db *DB) SetFamilyOption(key, value string) error {
	return db.exchange.settings.change("family."+key, func() error {
		for _, f := range db.rocks.Families() {
			if err := db.rocks.SetFamilyOption(f, key, value); err != nil {
				return err
			}
		}
		return nil
	})
}

// SetRateLimit changes how many bytes a second flushes and compactions may write.
func (db *DB) SetRateLimit(bytesPerSecond int64) {
	db.exchange.settings.change("rate", func() error {
		db.rocks.SetRateLimit(bytesPerSecond)
		return nil
	})
}

// SetMaxBatchBytes changes how big a write batch may be; 0 = no limit.
func (db *DB) SetMaxBatchBytes(n int64) { db.maxBatchBytes.Store(n) }

// MaxBatchBytes returns how big a write batch may be; 0 = no limit.
func (db *DB) MaxBatchBytes() int64 { return db.maxBatchBytes.Load() }

// SetAsyncIO changes whether iterators prefetch asynchronously.
func (db *DB) SetAsyncIO(on bool) { db.asyncIO.Store(on) }

// FamilyProperty returns a RocksDB property of a family.
func (db *DB) FamilyProperty(id cf.ID, name string) string {
	return db.rocks.FamilyProperty(db.fam[id], name)
}

// FamilyIntProperty returns a numeric RocksDB property of a family.
func (db *DB) FamilyIntProperty(id cf.ID, name string) (uint64, bool) {
	return db.rocks.IntProperty(db.fam[id], name)
}

// Ticker returns a counter of RocksDB's statistics by its name without "rocksdb."; ok is false when it has none of that
// name.
func (db *DB) Ticker(name string) (n uint64, ok bool) { return db.rocks.Ticker(name) }

// Statistics returns RocksDB's statistics as text.
func (db *DB) Statistics() string { return db.rocks.Statistics() }

// CacheLookups returns how many look-ups of a family's blocks in the block cache have hit and missed since the database
// was opened. ok is false when they are not counted: see RocksOptions, or the family has a cache of its own.
func (db *DB) CacheLookups(id cf.ID) (hits, misses uint64, ok bool) {
	return db.rocks.CacheLookups(db.fam[id])
}

// CacheUsage returns how many bytes the block cache holds, how many of these are pinned, and how many it may hold.
func (db *DB) CacheUsage() (used, pinned, capacity int) { return db.rocks.CacheUsage() }

// DropBlockCache drops the blocks of RocksDB's block cache that no iterator uses.
func (db *DB) DropBlockCache() { db.rocks.DropCache() }

// ApproximateSize returns about how many bytes a range of a family takes on disk and in memtables.
func (db *DB) ApproximateSize(id cf.ID, lower, upper []byte) uint64 {
	return db.rocks.ApproximateSize(db.fam[id], lower, upper)
}

// DiskSize returns the bytes of all live table files.
func (db *DB) DiskSize() uint64 {
	var n uint64
	for _, f := range db.fam {
		if v, ok := db.rocks.IntProperty(f, "rocksdb.live-sst-files-size"); ok {
			n += v
		}
	}
	return n
}

// TableProperties are the properties of one table file.
type TableProperties = rocks.TableProperties

// TableProperties returns the properties of the table files of a family.
func (db *DB) TableProperties(id cf.ID) ([]TableProperties, error) {
	return db.rocks.TableProperties(db.fam[id])
}

// WAL reads the write-ahead log. The owner closes it.
type WAL struct {
	it   *rocks.WALIter
	next uint64 // sequence number at which the next batch must begin, or which it must hold
	read bool   // a batch was read: the next one begins with that number
}

// WAL opens the log at the batch that holds a sequence number; 0 is the beginning. A number that is not written yet is
// an error. One batch may hold the writes of several transactions, and so several log-data records.
func (db *DB) WAL(seq uint64) (*WAL, error) {
	it, err := db.rocks.WAL(seq)
	if err != nil {
		return nil, err
	}
	return &WAL{it: it, next: max(seq, 1)}, nil
}

// Next returns the next write batch (see package batch) and its sequence number; nil at the end. It fails with
// [ErrWALGap] where writes are missing: RocksDB itself skips the gap without an error.
func (w *WAL) Next() (rep []byte, seq uint64, err error) {
	rep, seq, err = w.it.Next()
	if err != nil || rep == nil {
		return nil, 0, err
	}
	if seq > w.next || w.read && seq != w.next {
		return nil, 0, fmt.Errorf("%w: sequence number %d is missing, the next one is %d", ErrWALGap, w.next, seq)
	}
	w.next, w.read = seq+uint64(binary.LittleEndian.Uint32(rep[8:])), true
	return rep, seq, nil
}

// Close closes the reader.
func (w *WAL) Close() { w.it.Close() }

// LiveObjects returns how many native objects are open in this process.
func LiveObjects() int64 { return rocks.LiveObjects() }

// RocksDB returns the version of the linked RocksDB, and whether it was built with assertions (docs/recovery.md).
func RocksDB() (version string, assertions bool) { return rocks.Version(), rocks.Assertions() }

// MaxResultBytes returns how many bytes a result may take that is made in memory.
func (db *DB) MaxResultBytes() int64 {
	if n := db.options.MaxResultBytes; n > 0 {
		return n
	}
	return math.MaxInt64
}
