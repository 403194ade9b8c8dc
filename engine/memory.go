package engine

import (
	"github.com/basaltdb/basalt/engine/rocks"
	"github.com/basaltdb/basalt/engine/rocks/malloc"
)

// TrimMemory gives back to the system what the C library holds of freed memory, if it is much, and reports whether it
// has. It may take a tenth of a second for each GiB.
func TrimMemory() bool { return malloc.Trim() }

// MemoryUse is where the memory of a database is that is not in Go's heap, in bytes.
type MemoryUse struct {
	BlockCache   int // charged to RocksDB's block cache, metadata of the entries included
	Memtables    int // entries, trees, filters and unused ends of their blocks; of those that iterators hold too
	MemtableFree int // blocks that are kept for the next memtables
	TableReaders int // index and filter blocks outside the block cache, estimated
	RecordCache  int // what is used of the caches of records, in huge pages
	Native       int // all else that C and C++ have allocated in the process; negative where an estimate is too high
	NativeFree   int // freed memory in malloc's arenas; what was given back to the system counts too
}

// MemoryUse returns where the memory is. It costs some system calls and a walk over malloc's free lists.
func (db *DB) MemoryUse() MemoryUse {
	var m MemoryUse
	m.BlockCache, _ = db.rocks.CacheUsage()
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
