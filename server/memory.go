package server

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"runtime/pprof"
	"strings"
	"sync"
	"time"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/server/command"
)

// memoryUse is where the memory of the process is, in bytes.
type memoryUse struct {
	rss, peak int64 // resident
	heap      int64 // live objects of Go and garbage
	goTotal   int64 // all that Go has from the system, what it has given back left out
	db        engine.MemoryUse

	inputs, outputs int64 // buffers of clients
	clients         int64 // all that they take

	holders []holder
}

// A holder is one of those between whom the resident memory is divided; in INFO its field is used_memory_NAME.
type holder struct {
	name  string
	bytes int64
}

func (s *Server) memoryUse() (m memoryUse) {
	m.rss, m.peak = residentBytes()
	m.heap, m.goTotal = heapBytes()
	m.db = s.db.MemoryUse()
	for _, c := range s.services.Clients.List() {
		m.inputs += c.QueryBuf + c.QueryFree
		m.outputs += c.OutputBytes
		m.clients += c.TotalMem()
	}
	program := residentFiles()
	derived := s.db.Derived().Used()
	db := &m.db
	m.holders = []holder{
		{"block_cache", int64(db.BlockCache)},
		{"memtables", int64(db.Memtables)},
		{"memtables_free", int64(db.MemtableFree)},
		{"table_readers", int64(db.TableReaders)},
		{"record_cache", int64(db.RecordCache)},
		{"derived_state", derived},
		{"client_buffers", m.clients},
		{"go_other", max(m.goTotal-derived-m.clients, 0)},
		{"native_other", int64(max(db.Native, 0))},
		{"program", program},
	}
	// Of the free memory in malloc's arenas nobody knows how much the system has got back. It is not more than what else
	// the kernel has given.
	free := int64(db.NativeFree)
	m.holders = append(m.holders, holder{"allocator_free", max(min(free, m.rss-m.accounted()), 0)})
	return m
}

// accounted is the sum of all holders: the resident memory of the process, but for what no one knows of.
func (m *memoryUse) accounted() (sum int64) {
	for _, h := range m.holders {
		sum += h.bytes
	}
	return sum
}

// used is what INFO calls used_memory: what holds data.
func (m *memoryUse) used() int64 {
	return m.heap + int64(m.db.BlockCache+m.db.Memtables+m.db.RecordCache+m.db.TableReaders)
}

// memory is the memory of the process as commands see it.
type memory struct{ *Server }

// Stats is MEMORY STATS.
func (s memory) Stats() []command.MemoryStat {
	m := s.memoryUse()
	keys, _ := s.db.Count(cf.DefaultNamespace)
	n := func(name string, v int64) command.MemoryStat { return command.MemoryStat{Name: name, Value: v} }
	ratio := func(name string, part, whole int64) command.MemoryStat {
		return command.MemoryStat{Name: name, Ratio: float64(part) / float64(max(whole, 1))}
	}
	overhead := m.heap + int64(m.db.TableReaders)
	scripts := s.scripts.Memory()
	return []command.MemoryStat{
		n("peak.allocated", max(m.peak, m.used())),
		n("total.allocated", m.used()),
		n("startup.allocated", s.startupRSS),
		n("replication.backlog", 0),
		n("clients.slaves", 0),
		n("clients.normal", m.clients),
		n("cluster.links", 0),
		n("aof.buffer", 0),
		n("lua.caches", scripts.Scripts),
		n("functions.caches", scripts.Functions),
		n("go.heap", m.heap),
		n("go.total", m.goTotal),
		n("rocksdb.block-cache", int64(m.db.BlockCache)),
		n("rocksdb.memtables", int64(m.db.Memtables)),
		n("rocksdb.table-readers", int64(m.db.TableReaders)),
		n("record.cache", int64(m.db.RecordCache)),
		n("overhead.total", overhead),
		n("keys.count", keys),
		n("keys.bytes-per-key", int64(s.diskSize())/max(keys, 1)),
		n("dataset.bytes", max(m.used()-overhead, 0)),
		ratio("dataset.percentage", 100*max(m.used()-overhead, 0), m.used()),
		ratio("peak.percentage", 100*m.used(), max(m.peak, m.used())),
		n("allocator.allocated", m.used()),
		n("allocator.active", m.rss),
		n("allocator.resident", m.rss),
		ratio("fragmentation", m.rss, m.used()),
		n("fragmentation.bytes", m.rss-m.used()),
	}
}

// Report is MEMORY DOCTOR: where the memory is, and what to do when there is much of it in one place.
func (s memory) Report() string {
	m := s.memoryUse()
	var b strings.Builder
	fmt.Fprintf(&b, "Resident: %s, at most so far %s; budget %s.", human(m.rss), human(m.peak), human(int64(s.plan.Budget)))
	for _, h := range m.holders {
		fmt.Fprintf(&b, " %s %s,", strings.ReplaceAll(h.name, "_", " "), human(h.bytes))
	}
	fmt.Fprintf(&b, " together %s.\n", human(m.accounted()))
	advice := 0
	say := func(when bool, text string) {
		if when {
			advice++
			fmt.Fprintf(&b, "- %s\n", text)
		}
	}
	total := totalMemory()
	say(total > 0 && m.rss > total*8/10, "More than four fifths of the machine's memory are in use: lower memory-budget-mb, rocksdb.block_cache_size or rocksdb.write_buffer_size.")
	say(m.outputs > 64<<20, "Clients do not read their replies: CLIENT LIST shows which (omem); client-output-buffer-limit cuts them off earlier.")
	say(m.inputs > 64<<20, "Clients have long commands under way: CLIENT LIST shows which (qbuf).")
	say(m.goTotal > 4*m.heap+(256<<20), "Go has much more from the system than it uses, after a load that is over: MEMORY PURGE gives it back.")
	say(m.db.TableReaders > 1<<30, "Index and filter blocks lie outside the block cache: rocksdb.cache_index_and_filter_blocks bounds them.")
	if advice == 0 {
		b.WriteString("Nothing is out of the ordinary.\n")
	}
	return b.String()
}

// RuntimeStats is MEMORY MALLOC-STATS.
func (memory) RuntimeStats() string {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	var b strings.Builder
	for _, f := range []struct {
		name  string
		value uint64
	}{
		{"heap_alloc", m.HeapAlloc}, {"heap_sys", m.HeapSys}, {"heap_idle", m.HeapIdle}, {"heap_released", m.HeapReleased}, {"heap_objects", m.HeapObjects},
		{"stack_inuse", m.StackInuse}, {"sys", m.Sys}, {"total_alloc", m.TotalAlloc}, {"mallocs", m.Mallocs}, {"frees", m.Frees},
		{"gc_runs", uint64(m.NumGC)}, {"gc_pause_total_ns", m.PauseTotalNs}, {"goroutines", uint64(runtime.NumGoroutine())},
	} {
		fmt.Fprintf(&b, "%s:%d\r\n", f.name, f.value)
	}
	return b.String()
}

// Free is MEMORY PURGE.
func (memory) Free() { debug.FreeOSMemory() }

// heapRate is how many allocated bytes there are from one sample of the heap profile to the next: Go's default.
const heapRate = 512 << 10

var heapProfiling sync.Mutex

// SetHeapProfiling is KPROFILE MEMORY ENABLE and DISABLE, for the whole process.
func (memory) SetHeapProfiling(on bool) {
	heapProfiling.Lock()
	defer heapProfiling.Unlock()
	if on {
		runtime.MemProfileRate = heapRate
	} else {
		runtime.MemProfileRate = 0
	}
}

// HeapProfiling is KPROFILE MEMORY STATUS.
func (memory) HeapProfiling() bool {
	heapProfiling.Lock()
	defer heapProfiling.Unlock()
	return runtime.MemProfileRate > 0
}

// DumpHeapProfile is KPROFILE MEMORY DUMP: a file for go tool pprof in the directory.
func (memory) DumpHeapProfile(dir string) error {
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return engine.NewError("ERR", fmt.Sprintf("%q is not a directory", dir))
	}
	f, err := os.OpenFile(filepath.Join(dir, "heap-"+time.Now().Format("20060102-150405.000000")+".pprof"), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	runtime.GC() // so that the profile is up to date
	err = pprof.Lookup("heap").WriteTo(f, 0)
	if e := f.Close(); err == nil {
		err = e
	}
	return err
}

// Log writes a line to the log.
func (s *Server) Log(line string) { s.log.Info(line) }

// AllowDebugInScripts lets scripts call DEBUG PROTOCOL and DEBUG SLEEP, or not.
func (s *Server) AllowDebugInScripts(allow bool) { s.limits.debugInLua.Store(allow) }

// SetFull lets the server behave as if max-db-size were reached, or not, until the size is looked at again.
func (s *Server) SetFull(full bool) { s.limits.full.Store(full) }
