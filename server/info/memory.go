package info

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

// Memory reports how the memory of the process is used, and implements MEMORY. Its fields must be set before use.
type Memory struct {
	DB *engine.DB
	// Clients returns the connections.
	Clients func() []command.ClientInfo
	// Scripts returns the approximate size in bytes of cached scripts and of function libraries.
	Scripts func() (scripts, functions int64)
	// DiskSize returns the size of the database on disk, in bytes.
	DiskSize func() uint64
	// Budget is the planned max memory of the process in bytes; StartupRSS is its memory before the first client.
	Budget, StartupRSS int64
	// Dir is where clients may write profiles; Anywhere reports whether a client on this host, or on another one, may
	// name any directory.
	Dir      string
	Anywhere func(local bool) bool
}

// memoryUse is a breakdown of the memory of the process, in bytes.
type memoryUse struct {
	rss, peak int64 // resident
	heap      int64 // Go objects, live or not yet collected
	goTotal   int64 // Go's memory from the system, without what was returned
	db        engine.MemoryUse

	inputs, outputs int64 // client buffers
	clients         int64 // total of clients

	holders []holder
}

// holder is one part of the resident memory; its field in INFO is used_memory_NAME.
type holder struct {
	name  string
	bytes int64
}

func (s *Memory) use() (m memoryUse) {
	m.rss, m.peak = ResidentBytes()
	m.heap, m.goTotal = heapBytes()
	m.db = s.DB.MemoryUse()
	for _, c := range s.Clients() {
		m.inputs += c.QueryBuf + c.QueryFree
		m.outputs += c.OutputBytes
		m.clients += c.TotalMem()
	}
	program := residentFiles()
	derived := s.DB.Derived().Used()
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
	// How much of the free memory in malloc's arenas was returned to the system is unknown. What is still held is at
	// most the resident memory that the other holders do not account for.
	free := int64(db.NativeFree)
	m.holders = append(m.holders, holder{"allocator_free", max(min(free, m.rss-m.accounted()), 0)})
	return m
}

// accounted returns the sum of all holders: the resident memory, except for an unexplained rest.
func (m *memoryUse) accounted() (sum int64) {
	for _, h := range m.holders {
		sum += h.bytes
	}
	return sum
}

// used returns INFO's used_memory: the memory that holds data.
func (m *memoryUse) used() int64 {
	return m.heap + int64(m.db.BlockCache+m.db.Memtables+m.db.RecordCache+m.db.TableReaders)
}

// Fields writes the Memory section.
func (s *Memory) Fields(w *Writer, _ string) {
	m := s.use()
	used, peak, overhead := m.used(), max(m.peak, m.used()), m.heap+int64(m.db.TableReaders)
	data := max(used-overhead, 0)
	bytes := func(name string, n int64) { w.Gauge(name, Bytes, n) }
	percent := func(name string, part, whole int64) {
		w.Float(name, Percent, 100*float64(part)/float64(max(whole, 1)))
	}
	w.Human("used_memory", used)
	w.Human("used_memory_rss", m.rss)
	w.Human("used_memory_peak", peak)
	percent("used_memory_peak_perc", used, peak)
	bytes("used_memory_overhead", overhead)
	bytes("used_memory_dataset", data)
	percent("used_memory_dataset_perc", data, used)
	bytes("allocator_allocated", used)
	bytes("allocator_active", m.rss)
	bytes("allocator_resident", m.rss)
	bytes("used_memory_go_heap", m.heap)
	bytes("used_memory_go_total", m.goTotal)
	for _, h := range m.holders {
		bytes("used_memory_"+h.name, h.bytes)
	}
	bytes("used_memory_accounted", m.accounted())
	w.Human("memory_budget", s.Budget)
	bytes("used_memory_startup", s.StartupRSS)
	w.Human("total_system_memory", totalMemory())
	ratio := func(name string, part, whole int64) {
		w.Float(name+"_ratio", None, float64(part)/float64(max(whole, 1)))
		bytes(name+"_bytes", part-whole)
	}
	ratio("allocator_frag", m.rss, used)
	ratio("allocator_rss", m.rss, m.rss)
	ratio("rss_overhead", m.rss, m.rss)
	ratio("mem_fragmentation", m.rss, used)
	bytes("mem_clients_normal", m.clients)
}

// Stats implements MEMORY STATS.
func (s *Memory) Stats() []command.MemoryStat {
	m := s.use()
	keys, _ := s.DB.Count(cf.DefaultNamespace)
	n := func(name string, v int64) command.MemoryStat { return command.MemoryStat{Name: name, Value: v} }
	ratio := func(name string, part, whole int64) command.MemoryStat {
		return command.MemoryStat{Name: name, Ratio: float64(part) / float64(max(whole, 1))}
	}
	overhead := m.heap + int64(m.db.TableReaders)
	scripts, functions := s.Scripts()
	return []command.MemoryStat{
		n("peak.allocated", max(m.peak, m.used())),
		n("total.allocated", m.used()),
		n("startup.allocated", s.StartupRSS),
		n("replication.backlog", 0),
		n("clients.slaves", 0),
		n("clients.normal", m.clients),
		n("cluster.links", 0),
		n("aof.buffer", 0),
		n("lua.caches", scripts),
		n("functions.caches", functions),
		n("go.heap", m.heap),
		n("go.total", m.goTotal),
		n("rocksdb.block-cache", int64(m.db.BlockCache)),
		n("rocksdb.memtables", int64(m.db.Memtables)),
		n("rocksdb.table-readers", int64(m.db.TableReaders)),
		n("record.cache", int64(m.db.RecordCache)),
		n("overhead.total", overhead),
		n("keys.count", keys),
		n("keys.bytes-per-key", int64(s.DiskSize())/max(keys, 1)),
		n("dataset.bytes", max(m.used()-overhead, 0)),
		ratio("dataset.percentage", 100*max(m.used()-overhead, 0), m.used()),
		ratio("peak.percentage", 100*m.used(), max(m.peak, m.used())),
		n("allocator.allocated", m.used()),
		n("allocator.active", m.rss),
		n("allocator.resident", m.rss),
		ratio("allocator-fragmentation.ratio", m.rss, m.used()),
		n("allocator-fragmentation.bytes", m.rss-m.used()),
		ratio("allocator-rss.ratio", m.rss, m.rss),
		n("allocator-rss.bytes", 0),
		ratio("rss-overhead.ratio", m.rss, m.rss),
		n("rss-overhead.bytes", 0),
		ratio("fragmentation", m.rss, m.used()),
		n("fragmentation.bytes", m.rss-m.used()),
	}
}

// Report implements MEMORY DOCTOR: how the memory is used, and advice when one part is large.
func (s *Memory) Report() string {
	m := s.use()
	var b strings.Builder
	fmt.Fprintf(&b, "Resident: %s, at most so far %s; budget %s.", Human(m.rss), Human(m.peak), Human(s.Budget))
	for _, h := range m.holders {
		fmt.Fprintf(&b, " %s %s,", strings.ReplaceAll(h.name, "_", " "), Human(h.bytes))
	}
	fmt.Fprintf(&b, " together %s.\n", Human(m.accounted()))
	advice := 0
	say := func(when bool, text string) {
		if when {
			advice++
			fmt.Fprintf(&b, "- %s\n", text)
		}
	}
	total := totalMemory()
	say(total > 0 && m.rss > total*8/10,
		"More than four fifths of the machine's memory are in use: lower memory-budget-mb, rocksdb.block_cache_size or "+
			"rocksdb.write_buffer_size.")
	say(m.outputs > 64<<20,
		"Clients do not read their replies: CLIENT LIST shows which (omem); client-output-buffer-limit cuts them off "+
			"earlier.")
	say(m.inputs > 64<<20, "Clients have long commands under way: CLIENT LIST shows which (qbuf).")
	say(m.goTotal > 4*m.heap+(256<<20),
		"Go has much more from the system than it uses, after a load that is over: MEMORY PURGE gives it back.")
	say(m.db.TableReaders > 1<<30,
		"Index and filter blocks lie outside the block cache: rocksdb.cache_index_and_filter_blocks bounds them.")
	if advice == 0 {
		b.WriteString("Nothing is out of the ordinary.\n")
	}
	return b.String()
}

// RuntimeStats implements MEMORY MALLOC-STATS.
func (*Memory) RuntimeStats() string {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	var b strings.Builder
	for _, f := range []struct {
		name  string
		value uint64
	}{
		{"heap_alloc", m.HeapAlloc}, {"heap_sys", m.HeapSys}, {"heap_idle", m.HeapIdle}, {"heap_released",
			m.HeapReleased}, {"heap_objects", m.HeapObjects},
		{"stack_inuse", m.StackInuse}, {"sys", m.Sys}, {"total_alloc", m.TotalAlloc}, {"mallocs",
			m.Mallocs}, {"frees", m.Frees},
		{"gc_runs", uint64(m.NumGC)}, {"gc_pause_total_ns", m.PauseTotalNs}, {"goroutines", uint64(runtime.NumGoroutine())},
	} {
		fmt.Fprintf(&b, "%s:%d\r\n", f.name, f.value)
	}
	return b.String()
}

// Free implements MEMORY PURGE.
func (*Memory) Free() { debug.FreeOSMemory() }

// heapRate is the number of allocated bytes between two samples of the heap profile: Go's default.
const heapRate = 512 << 10

var heapProfiling sync.Mutex

// SetHeapProfiling implements KPROFILE MEMORY ENABLE and DISABLE, for the whole process.
func (*Memory) SetHeapProfiling(on bool) {
	heapProfiling.Lock()
	defer heapProfiling.Unlock()
	if on {
		runtime.MemProfileRate = heapRate
	} else {
		runtime.MemProfileRate = 0
	}
}

// HeapProfiling implements KPROFILE MEMORY STATUS.
func (*Memory) HeapProfiling() bool {
	heapProfiling.Lock()
	defer heapProfiling.Unlock()
	return runtime.MemProfileRate > 0
}

// DumpHeapProfile implements KPROFILE MEMORY DUMP: it writes a file for go tool pprof to the directory. local says
// that the client is on this host.
func (s *Memory) DumpHeapProfile(dir string, local bool) error {
	real, err := filepath.EvalSymlinks(dir)
	if err == nil {
		var info os.FileInfo
		if info, err = os.Stat(real); err == nil && !info.IsDir() {
			err = os.ErrInvalid
		}
	}
	if err != nil {
		return engine.NewError("ERR", fmt.Sprintf("%q is not a directory", dir))
	}
	if !within(real, s.Dir) && !s.Anywhere(local) {
		return engine.NewError("ERR", fmt.Sprintf(
			"%q is not in dir (%s), and enable-protected-configs does not let this client write elsewhere", dir, s.Dir))
	}
	f, err := os.OpenFile(filepath.Join(dir, "heap-"+time.Now().Format("20060102-150405.000000")+".pprof"),
		os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	runtime.GC() // updates the profile
	err = pprof.Lookup("heap").WriteTo(f, 0)
	if e := f.Close(); err == nil {
		err = e
	}
	return err
}

// within reports whether a path without symbolic links is a directory or lies in it.
func within(path, dir string) bool {
	real, err := filepath.EvalSymlinks(dir)
	if err == nil {
		real, err = filepath.Abs(real)
	}
	if err == nil {
		path, err = filepath.Abs(path)
	}
	if err != nil {
		return false
	}
	rel, err := filepath.Rel(real, path)
	return err == nil && filepath.IsLocal(rel)
}
