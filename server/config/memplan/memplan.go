// Package memplan finds out how much memory a process may use, and divides it.
package memplan

import (
	"fmt"
	"io/fs"
	"math"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
)

// Memory is the memory that a process may use.
type Memory struct {
	Bytes  uint64
	Source string // what sets the limit: "physical memory", "cgroup v2 limit", "cgroup v1 limit"
}

// fallbackMemory is assumed when the system reports no size.
const fallbackMemory = 1 << 30

// Detect returns the smaller of the physical memory and the limit of the control group.
func Detect() Memory { return detect(os.DirFS("/")) }

func detect(root fs.FS) Memory {
	m := Memory{fallbackMemory, "no known limit"}
	if total, ok := physicalMemory(root); ok {
		m = Memory{total, "physical memory"}
	}
	groups, _ := fs.ReadFile(root, "proc/self/cgroup")
	for line := range strings.Lines(string(groups)) {
		// Lines are hierarchy:controllers:path; version 2 has one line, 0::path.
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) != 3 {
			continue
		}
		switch {
		case parts[0] == "0" && parts[1] == "":
			m.limit(root, "cgroup v2 limit", "sys/fs/cgroup", parts[2], "memory.max", "memory.high")
		case slices.Contains(strings.Split(parts[1], ","), "memory"):
			m.limit(root, "cgroup v1 limit", "sys/fs/cgroup/memory", parts[2], "memory.limit_in_bytes")
		}
	}
	return m
}

// limit lowers m to the limits of a control group and of all its parents. In a container the path may be the host's
// path, and then only the mount point itself exists.
func (m *Memory) limit(root fs.FS, source, mount, group string, files ...string) {
	for dir := path.Clean("/" + group); ; dir = path.Dir(dir) {
		for _, file := range files {
			text, err := fs.ReadFile(root, path.Join(mount, dir, file))
			if err != nil {
				continue
			}
			// Version 2 writes "max" for no limit, version 1 a number near 2^63.
			n, err := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 64)
			if err == nil && n > 0 && n < m.Bytes {
				m.Bytes, m.Source = n, source
			}
		}
		if dir == "/" {
			return
		}
	}
}

func physicalMemory(root fs.FS) (uint64, bool) {
	text, _ := fs.ReadFile(root, "proc/meminfo")
	for line := range strings.Lines(string(text)) {
		words := strings.Fields(line)
		if len(words) < 2 || words[0] != "MemTotal:" {
			continue
		}
		kib, err := strconv.ParseUint(words[1], 10, 64)
		return kib << 10, err == nil && kib > 0 && kib < math.MaxUint64>>10
	}
	return 0, false
}

// writtenFamilies is the number of column families that fill write buffers: metadata, default, zset_score and
// stream. The others hold a few records.
const writtenFamilies = 4

const (
	biggestWriteBuffer  = 64 << 20 // Kvrocks's default
	smallestWriteBuffer = 64 << 10 // RocksDB's lower bound
	smallestBlockCache  = 8 << 20
)

// Plan is the plan of how memory is divided. All sizes are in bytes.
type Plan struct {
	Memory         Memory
	Budget         uint64 // total of all parts
	BudgetGiven    bool   // by the settings; else it is a quarter of the memory
	Program        uint64 // threads, table readers, buffers of compactions
	GoHeap         uint64 // state derived from collections, clients, and garbage
	Derived        uint64 // state derived from collections
	BlockCache     uint64 // RocksDB's block cache and the cache of records
	WriteBuffer    uint64 // one write buffer
	WriteBuffers   uint64 // all of them: WriteBuffer * max_write_buffer_number * families
	RowCache       uint64
	AutoBlockCache bool // chosen here, not by the settings
	AutoBuffer     bool
}

// Total is the most memory that all parts take together, as long as clients do not need more of Go's heap than
// planned.
func (p Plan) Total() uint64 {
	return p.Program + p.GoHeap + withHoles(p.BlockCache) + p.WriteBuffers + p.RowCache
}

// withHoles adds malloc's fragmentation for a cache of so many bytes whose blocks come and go.
func withHoles(n uint64) uint64 { return n + n/10 }

// OverBudget reports whether the sizes exceed the budget. Only sizes given by the settings can exceed it.
func (p Plan) OverBudget() bool { return p.Total() > p.Budget }

// GoLimit is the soft limit of Go's memory: the rest of the memory, less an eighth, when all other parts take what is
// planned. Beyond the limit Go collects garbage more and more often.
//
// GoLimit is above GoHeap: large values in flight and slow readers may need more than planned, and the server should
// neither fail nor slow down while memory is free. Sizes given by the settings may leave no memory for Go, but they
// are rarely all in use at once: Go gets at least a quarter of the memory in any case. A server of 50 clients in 256
// MiB that had 16 MiB for Go collected garbage all the time, and made 50,600 instead of 73,600 SETs a second.
func (p Plan) GoLimit() int64 {
	left := p.Memory.Bytes - p.Memory.Bytes/8
	left -= min(left, p.Total()-p.GoHeap)
	return int64(min(max(left, p.GoHeap, p.Memory.Bytes/4, 16<<20), math.MaxInt64))
}

// Batch is the max size of one write batch: a sixth of what Go may use, by default a ninth of the memory. While a batch
// grows, Go holds up to two copies and a half of it; when it is committed, the memtable holds another.
func (p Plan) Batch() int64 { return p.GoLimit() / 6 }

// GoGarbage is the size of Go's heap up to which garbage may accumulate freely: at least an eighth of the memory.
func (p Plan) GoGarbage() uint64 { return max(p.GoHeap, p.Memory.Bytes/8) }

// String is the plan in one line, for the log.
func (p Plan) String() string {
	by := func(auto bool) string {
		if auto {
			return "chosen"
		}
		return "configured"
	}
	s := fmt.Sprintf("block cache %d MiB (%s), write buffers %d x %d KiB (%s), Go heap %d MiB, budget %d MiB (%s) of %d "+
		"MiB %s",
		p.BlockCache>>20, by(p.AutoBlockCache), p.WriteBuffers/p.WriteBuffer, p.WriteBuffer>>10, by(p.AutoBuffer),
		p.GoHeap>>20, p.Budget>>20, by(!p.BudgetGiven), p.Memory.Bytes>>20, p.Memory.Source)
	if p.OverBudget() {
		s += ": more than the budget"
	}
	return s
}

// Settings are the settings about memory, in bytes; 0 = not set.
type Settings struct {
	Budget, BlockCache, WriteBuffer, RowCache uint64
	Derived                                   int64 // state derived from collections; negative = none
	Buffers                                   int   // max_write_buffer_number
}

// New chooses the sizes that the settings leave open. The chosen and the given sizes together stay within the
// budget, unless the given sizes leave too little.
func New(m Memory, given Settings) Plan {
	p := Plan{Memory: m, Budget: given.Budget, BudgetGiven: given.Budget > 0,
		BlockCache: given.BlockCache, WriteBuffer: given.WriteBuffer, RowCache: given.RowCache,
		AutoBlockCache: given.BlockCache == 0, AutoBuffer: given.WriteBuffer == 0}
	if !p.BudgetGiven {
		p.Budget = m.Bytes / 4
	}
	p.Program = min(p.Budget/4, 32<<20)
	switch {
	case given.Derived > 0:
		p.Derived = uint64(given.Derived)
	case given.Derived == 0:
		p.Derived = p.Budget / 32
	}
	p.GoHeap = min(p.Budget/8, 128<<20) + min(p.Budget/8, p.Derived)
	left := p.Budget - p.Program - p.GoHeap
	left -= min(left, p.RowCache)
	count := uint64(max(given.Buffers, 2)) * writtenFamilies // RocksDB uses at least 2
	if p.AutoBuffer {
		// A third of the budget, or the rest that a given block cache leaves; but at least an eighth, because with
		// tiny buffers compactions would never end.
		share := max(min(p.Budget/3, left-min(left, withHoles(p.BlockCache))), p.Budget/8) / count
		unit := uint64(smallestWriteBuffer)
		if share > 1<<20 {
			unit = 1 << 20
		}
		p.WriteBuffer = max(min(share/unit*unit, biggestWriteBuffer), smallestWriteBuffer)
	}
	p.WriteBuffers = p.WriteBuffer * count
	if p.AutoBlockCache {
		left -= min(left, p.WriteBuffers)
		p.BlockCache = max((left-left/11)>>20<<20, min(smallestBlockCache, p.Budget/8))
	}
	return p
}
