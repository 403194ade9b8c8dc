package engine

import (
	"github.com/basaltdb/basalt/engine/rocks"
	"github.com/basaltdb/basalt/engine/rocks/malloc"
)

// TrimMemory returns freed memory that the C library holds to the system, if it is much, and reports whether it did. It
// may take a tenth of a second for each GiB.
func TrimMemory() bool { return malloc.Trim() }

// MemoryUse is the use of the memory of a database outside Go's heap, in bytes.
type MemoryUse struct {
	BlockCache   int // charged to RocksDB's block cache, metadata of the entries included
	Memtables    int // entries, trees, filters and unused ends of their blocks; also of those that iterators pin
	MemtableFree int // blocks kept for the next memtables
	TableReaders int // index and filter blocks outside the block cache, estimated
	RecordCache  int // the used part of the record cache, in huge pages
	Native       int // all else that C and C++ have allocated in the process; negative where an estimate is too high
	NativeFree   int // freed memory in malloc's arenas; memory returned to the system counts too
}

// MemoryUse returns the memory use. It costs some system calls and a walk over malloc's free lists.
func (db *DB) MemoryUse() MemoryUse {
	var m MemoryUse
	m.BlockCache, _, _ = db.rocks.CacheUsage()
	m.Memtables = int(db.rocks.SumProperty("rocksdb.size-all-mem-tables"))
	m.TableReaders = int(db.rocks.SumProperty("rocksdb.estimate-table-readers-mem"))
	slabs, kept := rocks.SlabUsage()
	m.Memtables, m.MemtableFree = max(m.Memtables, slabs), kept
	if c := db.cache; c != nil {
		m.RecordCache = c.Resident()
	}
	used, free := malloc.Usage()
	m.Native = used - m.BlockCache - m.TableReaders - (m.Memtables - slabs)
	m.NativeFree = free
	return m
}
