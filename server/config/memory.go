package config

import (
	"fmt"
	"io/fs"
	"math"
	"os"
	"path"
	"strconv"
	"strings"
)

// Memory is what a process may use.
type Memory struct {
	Bytes  uint64
	Source string // what sets the limit: "physical memory", "cgroup v2 limit", "cgroup v1 limit"
}

// fallbackMemory is assumed when the system tells nothing.
const fallbackMemory = 1 << 30

// DetectMemory returns the smaller of the physical memory and the limit of the control group.
func DetectMemory() Memory { return detectMemory(os.DirFS("/")) }

func detectMemory(root fs.FS) Memory {
	m := Memory{fallbackMemory, "no known limit"}
	if total, ok := physicalMemory(root); ok {
		m = Memory{total, "physical memory"}
	}
	groups, _ := fs.ReadFile(root, "proc/self/cgroup")
	for line := range strings.Lines(string(groups)) {
		// Lines are hierarchy:controllers:path; of version 2 there is one, 0::path.
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) != 3 {
			continue
		}
		switch {
		case parts[0] == "0" && parts[1] == "":
			m.limit(root, "cgroup v2 limit", "sys/fs/cgroup", parts[2], "memory.max", "memory.high")
		case hasWord(parts[1], "memory"):
			m.limit(root, "cgroup v1 limit", "sys/fs/cgroup/memory", parts[2], "memory.limit_in_bytes")
		}
	}
	return m
}

func hasWord(list, word string) bool {
	for w := range strings.SplitSeq(list, ",") {
		if w == word {
			return true
		}
	}
	return false
}

// limit lowers m to the limits of a control group and of all above it. In a container the path may be that of the
// host, and then only the mount point itself is there.
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

// MemoryPlan is how much memory RocksDB gets.
type MemoryPlan struct {
	Memory         Memory
	BlockCache     uint64 // bytes
	WriteBuffer    uint64 // bytes of one write buffer
	WriteBuffers   uint64 // bytes of all of them: WriteBuffer * max_write_buffer_number * families
	RowCache       uint64 // bytes
	AutoBlockCache bool   // chosen here and not by the settings
	AutoBuffer     bool
}

// Budget is the memory that defaults may use: half of what there is.
func (p MemoryPlan) Budget() uint64 { return p.Memory.Bytes / 2 }

// OverBudget reports whether the sizes are above the budget. Only sizes that the settings give can be.
func (p MemoryPlan) OverBudget() bool {
	return p.BlockCache+p.WriteBuffers+p.RowCache > p.Budget()
}

// String is the plan in one line, for the log.
func (p MemoryPlan) String() string {
	by := func(auto bool) string {
		if auto {
			return "chosen"
		}
		return "configured"
	}
	s := fmt.Sprintf("block cache %d MiB (%s), write buffers %d x %d KiB (%s), of %d MiB %s",
		p.BlockCache>>20, by(p.AutoBlockCache), p.WriteBuffers/p.WriteBuffer, p.WriteBuffer>>10, by(p.AutoBuffer),
		p.Memory.Bytes>>20, p.Memory.Source)
	if p.OverBudget() {
		s += ": more than half of it"
	}
	return s
}

// AutoMemory chooses the sizes that are 0 in the settings. All sizes are in bytes; buffers is
// max_write_buffer_number. What is chosen stays, together with what is given, below half of the memory unless what
// is given leaves nothing.
func AutoMemory(m Memory, blockCache, writeBuffer, rowCache uint64, buffers int) MemoryPlan {
	p := MemoryPlan{Memory: m, BlockCache: blockCache, WriteBuffer: writeBuffer, RowCache: rowCache,
		AutoBlockCache: blockCache == 0, AutoBuffer: writeBuffer == 0}
	count := uint64(max(buffers, 2)) * writtenFamilies // RocksDB takes 2 where less is given
	left := p.Budget() - min(p.Budget(), rowCache)
	if p.AutoBuffer {
		// A quarter of the budget, or what a given block cache leaves of it.
		share := min(p.Budget()/4, left-min(left, blockCache)) / count
		p.WriteBuffer = biggestWriteBuffer
		for p.WriteBuffer > share && p.WriteBuffer > smallestWriteBuffer {
			p.WriteBuffer /= 2
		}
	}
	p.WriteBuffers = p.WriteBuffer * count
	if p.AutoBlockCache {
		left -= min(left, p.WriteBuffers)
		p.BlockCache = max(left>>20<<20, min(smallestBlockCache, m.Bytes/8))
	}
	return p
}

// MemoryPlan chooses the sizes of these settings on this machine.
func (c *Config) MemoryPlan() MemoryPlan { return c.memoryPlan(DetectMemory()) }

func (c *Config) memoryPlan(m Memory) MemoryPlan {
	mib := func(name string) uint64 { return uint64(c.Int("rocksdb."+name)) << 20 }
	cache := mib("block_cache_size")
	if cache == 0 {
		cache = mib("subkey_block_cache_size") + mib("metadata_block_cache_size")
	}
	return AutoMemory(m, cache, mib("write_buffer_size"), mib("row_cache_size"), int(c.Int("rocksdb.max_write_buffer_number")))
}
