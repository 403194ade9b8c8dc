package config

import (
	"reflect"
	"strings"
	"testing"
	"testing/fstest"
)

func TestDetectMemory(t *testing.T) {
	files := func(pairs ...string) fstest.MapFS {
		m := fstest.MapFS{}
		for i := 0; i < len(pairs); i += 2 {
			m[pairs[i]] = &fstest.MapFile{Data: []byte(pairs[i+1])}
		}
		return m
	}
	const meminfo = "MemTotal:        8388608 kB\nMemFree:          100 kB\n"
	for _, c := range []struct {
		name string
		root fstest.MapFS
		want Memory
	}{
		{"nothing", files(), Memory{1 << 30, "no known limit"}},
		{"physical", files("proc/meminfo", meminfo), Memory{8 << 30, "physical memory"}},
		{"broken", files("proc/meminfo", "MemTotal: x kB\n", "proc/self/cgroup", "0::\n1\n"),
			Memory{1 << 30, "no known limit"}},
		{"v2", files("proc/meminfo", meminfo, "proc/self/cgroup", "0::/a/b\n",
			"sys/fs/cgroup/a/b/memory.max", "2147483648\n"), Memory{2 << 30, "cgroup v2 limit"}},
		{"v2, limit of a parent", files("proc/meminfo", meminfo, "proc/self/cgroup", "0::/a/b\n",
			"sys/fs/cgroup/a/b/memory.max", "max\n", "sys/fs/cgroup/a/memory.max", "1073741824\n"), Memory{1 << 30,
			"cgroup v2 limit"}},
		{"v2 in a container", files("proc/meminfo", meminfo, "proc/self/cgroup", "0::/host/path\n",
			"sys/fs/cgroup/memory.max", "1073741824\n"), Memory{1 << 30, "cgroup v2 limit"}},
		{"v2, high", files("proc/meminfo", meminfo, "proc/self/cgroup", "0::/\n",
			"sys/fs/cgroup/memory.max", "max\n", "sys/fs/cgroup/memory.high", "536870912\n"), Memory{512 << 20,
			"cgroup v2 limit"}},
		{"v2 above what there is", files("proc/meminfo", meminfo, "proc/self/cgroup", "0::/\n",
			"sys/fs/cgroup/memory.max", "17179869184\n"), Memory{8 << 30, "physical memory"}},
		{"v1", files("proc/meminfo", meminfo, "proc/self/cgroup", "5:cpu,cpuacct:/x\n4:memory:/docker/1\n0::/\n",
			"sys/fs/cgroup/memory/docker/1/memory.limit_in_bytes", "3221225472\n"), Memory{3 << 30, "cgroup v1 limit"}},
		{"v1 without limit", files("proc/meminfo", meminfo, "proc/self/cgroup", "4:memory:/\n",
			"sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n"), Memory{8 << 30, "physical memory"}},
	} {
		if have := detectMemory(c.root); have != c.want {
			t.Errorf("%s: %+v, not %+v", c.name, have, c.want)
		}
	}
	if m := DetectMemory(); m.Bytes == 0 || m.Source == "" {
		t.Errorf("here: %+v", m)
	}
}

// TestPlanWithinBudget checks for all sizes of machines that what is chosen stays within the budget.
func TestPlanWithinBudget(t *testing.T) {
	const caches = 24 << 20 // of replies and geo cells
	for m := uint64(4 << 20); m < 1<<42; m += m / 7 {
		mem := Memory{m, "test"}
		for _, buffers := range []int{0, 1, 2, 4, 8} {
			p := PlanMemory(mem, MemorySettings{Buffers: buffers, Derived: int64(caches)})
			if m >= 64<<20 && (p.OverBudget() || p.Budget > m/4) {
				t.Errorf("%d bytes, %d buffers: %s", m, buffers, p)
			}
			if p.WriteBuffer < 64<<10 || p.WriteBuffer > 64<<20 || p.BlockCache == 0 || p.WriteBuffers%p.WriteBuffer != 0 {
				t.Errorf("%d bytes, %d buffers: %+v", m, buffers, p)
			}
			// Most of a big budget is used, most of that for what was read.
			if m >= 32<<30 && buffers == 4 && (p.Total() < p.Budget*9/10 || p.BlockCache < p.Budget*6/10) {
				t.Errorf("%d bytes: %s uses only %d", m, p, p.Total())
			}
			if limit := p.GoLimit(); limit < 16<<20 || m >= 256<<20 &&
				(uint64(limit)+p.Total()-p.GoHeap > m-m/8 || uint64(limit) < m/4) {
				t.Errorf("%d bytes: a limit of %d bytes for Go", m, limit)
			}
			// With one of the sizes given, the others take what is left.
			given := MemorySettings{BlockCache: m / 16, Buffers: 4, Derived: int64(caches)}
			if p := PlanMemory(mem, given); m >= 128<<20 && (p.OverBudget() || p.BlockCache != m/16 || p.AutoBlockCache) {
				t.Errorf("%d bytes, cache given: %s", m, p)
			}
			given = MemorySettings{WriteBuffer: m / 256, Buffers: 4, Derived: int64(caches)}
			if p := PlanMemory(mem, given); m >= 128<<20 && (p.OverBudget() || p.WriteBuffer != m/256 || p.AutoBuffer) {
				t.Errorf("%d bytes, buffer given: %s", m, p)
			}
			given = MemorySettings{RowCache: m / 128, Buffers: 4, Derived: int64(caches)}
			if p := PlanMemory(mem, given); m >= 256<<20 && p.OverBudget() {
				t.Errorf("%d bytes, row cache given: %s", m, p)
			}
			given = MemorySettings{Budget: m / 2, Buffers: 4, Derived: int64(caches)}
			if p := PlanMemory(mem, given); m >= 64<<20 && (p.OverBudget() || p.Budget != m/2 || p.Total() <= m/4) {
				t.Errorf("%d bytes, budget given: %s", m, p)
			}
		}
	}
}

func TestMemoryPlan(t *testing.T) {
	for _, c := range []struct {
		memory uint64
		args   []string
		want   string
	}{
		{16 << 30, nil, "block cache 2530 MiB (chosen), write buffers 16 x 65536 KiB (chosen), Go heap 256 MiB, " +
			"budget 4096 MiB (chosen) of 16384 MiB test"},
		{4 << 30, nil, "block cache 450 MiB (chosen), write buffers 16 x 21504 KiB (chosen), Go heap 160 MiB, " +
			"budget 1024 MiB (chosen) of 4096 MiB test"},
		{256 << 20, nil, "block cache 20 MiB (chosen), write buffers 16 x 1024 KiB (chosen), Go heap 10 MiB, " +
			"budget 64 MiB (chosen) of 256 MiB test"},
		{64 << 20, nil, "block cache 4 MiB (chosen), write buffers 16 x 320 KiB (chosen), Go heap 2 MiB, " +
			"budget 16 MiB (chosen) of 64 MiB test"},
		{16 << 30, []string{"--memory-budget-mb", "8192"},
			"block cache 6138 MiB (chosen), write buffers 16 x 65536 KiB (chosen), Go heap 384 MiB, " +
				"budget 8192 MiB (configured) of 16384 MiB test"},
		{16 << 30, []string{"--rocksdb.block_cache_size", "2048", "--rocksdb.write_buffer_size", "32"},
			"block cache 2048 MiB (configured), write buffers 16 x 32768 KiB (configured), Go heap 256 MiB, " +
				"budget 4096 MiB (chosen) of 16384 MiB test"},
		{2 << 30, []string{"--rocksdb.block_cache_size", "4096", "--rocksdb.write_buffer_size", "64"},
			"block cache 4096 MiB (configured), write buffers 16 x 65536 KiB (configured), Go heap 80 MiB, " +
				"budget 512 MiB (chosen) of 2048 MiB test: more than the budget"},
		{16 << 30, []string{"--rocksdb.subkey_block_cache_size", "100", "--rocksdb.metadata_block_cache_size", "20",
			"--rocksdb.max_write_buffer_number", "2"},
			"block cache 120 MiB (configured), write buffers 8 x 65536 KiB (chosen), Go heap 256 MiB, " +
				"budget 4096 MiB (chosen) of 16384 MiB test"},
	} {
		cfg, err := Load(c.args, nil)
		if err != nil {
			t.Fatal(err)
		}
		if have := cfg.memoryPlan(Memory{c.memory, "test"}).String(); have != c.want {
			t.Errorf("%d %q:\n have %s\n want %s", c.memory, c.args, have, c.want)
		}
	}
}

func TestOptionChange(t *testing.T) {
	c := Default()
	if err := c.Set("rocksdb.enable_blob_files", "yes", "rocksdb.write_buffer_size", "8",
		"rocksdb.compression_start_level", "3"); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]OptionChange{
		"rocksdb.max_open_files":                     {"max_open_files", "8096", true},
		"rocksdb.max_total_wal_size":                 {"max_total_wal_size", "536870912", true},
		"rocksdb.write_buffer_size":                  {"write_buffer_size", "8388608", false},
		"rocksdb.enable_blob_files":                  {"enable_blob_files", "true", false},
		"rocksdb.disable_auto_compactions":           {"disable_auto_compactions", "false", false},
		"rocksdb.blob_garbage_collection_age_cutoff": {"blob_garbage_collection_age_cutoff", "0.25", false},
		"rocksdb.compression": {"compression_per_level",
			"kNoCompression:kNoCompression:kNoCompression" + strings.Repeat(":kSnappyCompression", 4), false},
	} {
		if have, ok := c.OptionChange(name); have != want || !ok {
			t.Errorf("%s: %+v %v", name, have, ok)
		}
	}
	for _, name := range []string{"timeout", "rocksdb.read_options.async_io", "nonsense",
		"rocksdb.write_options.write_batch_max_bytes"} {
		if have, ok := c.OptionChange(name); ok {
			t.Errorf("%s: %+v", name, have)
		}
	}
	var dynamic []string
	for _, s := range table {
		if strings.HasPrefix(s.Name, "rocksdb.") && s.Dynamic {
			if _, ok := c.OptionChange(s.Name); ok {
				dynamic = append(dynamic, s.Name)
			}
		}
	}
	if have := RocksDBChanges(); !reflect.DeepEqual(have, dynamic) {
		t.Errorf("changes are %q, not %q", have, dynamic)
	}
}
