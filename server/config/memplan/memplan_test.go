package memplan

import (
	"testing"
	"testing/fstest"
)

func TestDetect(t *testing.T) {
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
		if have := detect(c.root); have != c.want {
			t.Errorf("%s: %+v, not %+v", c.name, have, c.want)
		}
	}
	if m := Detect(); m.Bytes == 0 || m.Source == "" {
		t.Errorf("here: %+v", m)
	}
}

// TestPlanWithinBudget checks for all sizes of machines that what is chosen stays within the budget.
func TestPlanWithinBudget(t *testing.T) {
	const caches = 24 << 20 // of replies and geo cells
	for m := uint64(4 << 20); m < 1<<42; m += m / 7 {
		mem := Memory{m, "test"}
		for _, buffers := range []int{0, 1, 2, 4, 8} {
			p := New(mem, Settings{Buffers: buffers, Derived: int64(caches)})
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
			given := Settings{BlockCache: m / 16, Buffers: 4, Derived: int64(caches)}
			if p := New(mem, given); m >= 128<<20 && (p.OverBudget() || p.BlockCache != m/16 || p.AutoBlockCache) {
				t.Errorf("%d bytes, cache given: %s", m, p)
			}
			given = Settings{WriteBuffer: m / 256, Buffers: 4, Derived: int64(caches)}
			if p := New(mem, given); m >= 128<<20 && (p.OverBudget() || p.WriteBuffer != m/256 || p.AutoBuffer) {
				t.Errorf("%d bytes, buffer given: %s", m, p)
			}
			given = Settings{RowCache: m / 128, Buffers: 4, Derived: int64(caches)}
			if p := New(mem, given); m >= 256<<20 && p.OverBudget() {
				t.Errorf("%d bytes, row cache given: %s", m, p)
			}
			given = Settings{Budget: m / 2, Buffers: 4, Derived: int64(caches)}
			if p := New(mem, given); m >= 64<<20 && (p.OverBudget() || p.Budget != m/2 || p.Total() <= m/4) {
				t.Errorf("%d bytes, budget given: %s", m, p)
			}
		}
	}
}
