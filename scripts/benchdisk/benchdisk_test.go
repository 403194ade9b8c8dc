package main

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/basaltdb/basalt/internal/require"
	"github.com/basaltdb/basalt/scripts/internal/launch"
)

// TestEveryRow runs all rows that need no restart and no COMPACT once on a redis-server: that every request is valid
// and every reply passes its check is what is tested.
func TestEveryRow(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	srv, err := launch.Start(launch.Redis, t.TempDir())
	require.NoError(t, err)
	t.Cleanup(srv.Kill)
	const keys = 3000
	for _, s := range suites(keys, false) {
		s.data.prepare()
		dir := t.TempDir()
		b := &bench{
			server: &server{Server: srv, dir: dir},
			data:   s.data, duration: 3 * time.Millisecond,
		}
		for i, r := range s.rows {
			if r.kind == compacting || r.kind == restarted {
				continue
			}
			f, err := b.measure(t.Context(), r, uint64(i))
			if err != nil {
				t.Fatalf("%s %s: %v", s.data.name, r.name, err)
			}
			if f.Rate <= 0 || f.P50 <= 0 || f.P50 > f.P99 || f.P99 > f.P999 || f.Peak <= 0 {
				t.Errorf("%s %s: %+v", s.data.name, r.name, f)
			}
		}
	}
}

func TestKeysAreChosen(t *testing.T) {
	d := valuesOf("d", 100, 1000)
	d.prepare()
	r := rand.New(rand.NewPCG(1, 2))
	seen := map[uint32]bool{}
	for _, k := range d.order {
		seen[k] = true
	}
	if len(seen) != d.keys {
		t.Errorf("the order holds %d keys of %d", len(seen), d.keys)
	}
	for _, c := range []struct {
		name        string
		keys        choose
		least, most int // different ones among 100,000
	}{
		{"uniform", uniform, 1000, 1000}, {"hot", hot, 50, 50}, {"zipfian", zipfian, 900, 1000},
		{"fresh", fresh, 99_990, 100_000},
	} {
		got := map[int]int{}
		for range 100_000 {
			got[c.keys(d, r)]++
		}
		if len(got) < c.least || len(got) > c.most {
			t.Errorf("%s: %d different keys", c.name, len(got))
		}
	}
}

func TestRowsHaveNames(t *testing.T) {
	for _, quick := range []bool{false, true} {
		seen := map[string]bool{}
		for _, s := range suites(1000, quick) {
			if s.rows[0].kind != load {
				t.Errorf("%s is not loaded first", s.data.name)
			}
			for _, r := range s.rows {
				name := s.data.name + " " + r.name
				if seen[name] || !strings.HasSuffix(r.name, " P="+strconv.Itoa(r.pipeline)) {
					t.Errorf("a bad name: %s", name)
				}
				seen[name] = true
			}
		}
	}
	picked := pick(suites(1000, false), "large get uniform, HGETALL ZIPFIAN p=16")
	if len(picked) != 2 || len(picked[0].rows) != 3 || len(picked[1].rows) != 2 {
		t.Errorf("picked %+v", picked)
	}
	if all := pick(suites(1000, false), ""); len(all) != len(suites(1000, false)) {
		t.Errorf("%d suites are picked by nothing", len(all))
	}
}

func TestOwnGroup(t *testing.T) {
	const (
		v1 = "33 24 0:30 / /sys/fs/cgroup/memory rw shared:9 - cgroup cgroup rw,memory\n" +
			"34 24 0:31 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n"
		v2     = "35 24 0:32 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n"
		inside = "36 24 0:33 /docker/1 /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n"
	)
	for _, tt := range []struct{ name, mounts, own, want string }{
		{"v1", v1 + v2, "9:cpu:/x\n4:memory:/a/b\n0::/u\n", "/sys/fs/cgroup/memory/a/b"},
		{"v1 after v2", v2 + v1, "4:memory:/\n0::/u\n", "/sys/fs/cgroup/memory"},
		{"v2", v2, "0::/user.slice/x\n", "/sys/fs/cgroup/unified/user.slice/x"},
		{"in a container", inside, "4:memory:/docker/1/y\n", "/sys/fs/cgroup/memory/y"},
		{"none", "22 1 0:5 / /proc rw - proc proc rw\n", "0::/\n", ""},
	} {
		if got := ownGroup(tt.mounts, tt.own); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}

func TestCompactionInput(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dir, "db"), 0o755))
	const text = `2026/11/22-15:00:00.1 9 EVENT_LOG_v1 {"job": 3, "event": "flush_started", "input_data_size": 7}
2026/11/22-15:00:00.2 9 EVENT_LOG_v1 {"job": 4, "event": "compaction_started", "files_L0": [9, 8], ` +
		`"score": 1, "input_data_size": 1000, "oldest_snapshot_seqno": -1}
2026/11/22-15:00:00.3 9 EVENT_LOG_v1 {"job": 4, "event": "compaction_finished"}
`
	for _, name := range []string{"LOG", "LOG.old.1"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, "db", name), []byte(text), 0o644))
	}
	if got, err := compactionInput(dir); got != 2000 || err != nil {
		t.Errorf("%d, %v", got, err)
	}
}

func TestSecondsToSteady(t *testing.T) {
	for _, tt := range []struct {
		in   []int64
		want int
	}{
		{nil, 0}, {[]int64{5, 5}, 0}, {[]int64{10, 10, 10}, 1},
		{[]int64{10, 50, 89, 91, 100, 100, 100, 100, 100}, 4},
	} {
		if got := secondsToSteady(tt.in); got != tt.want {
			t.Errorf("%v: %d, want %d", tt.in, got, tt.want)
		}
	}
}

func TestReport(t *testing.T) {
	all := []suite{{valuesOf("large", 100, 10), []row{
		{name: "GET uniform P=16", bar: 1.2}, {name: "SET uniform P=16", bar: 1.2}, {name: "GET zipfian P=1"},
	}}}
	rep := &report{Disk: []diskRate{{16 << 10, connections, 200}}}
	set := figures{Rate: 50, P99: 1, ReadAll: 900, Compaction: 500}
	rep.add("basalt", all[0], []figures{{Rate: 130, P99: 2}, set, {Rate: 7}}, space{100, 120, 3})
	rep.add("kvrocks", all[0], []figures{{Rate: 100, P99: 1}, {Rate: 100, P99: 2}, {Rate: 7}}, space{100, 110, 3})
	rep.add("basalt", all[0], []figures{{Rate: 110, P99: 2}, set, {Rate: 7}}, space{100, 120, 3})
	var out bytes.Buffer
	rep.print(&out)
	holds := map[string]bool{}
	for _, b := range rep.Bars {
		holds[b.Name] = b.holds()
	}
	for name, want := range map[string]bool{
		"GET uniform P=16: throughput to Kvrocks":                    true, // 120, the median, to 100
		"GET uniform P=16: p99 to Kvrocks":                           false,
		"SET uniform P=16: throughput to Kvrocks":                    false,
		"SET uniform P=16: p99 to Kvrocks":                           true,
		"SET uniform P=16: bytes read a request beyond compactions":  false,
		"geometric mean of 2 rows":                                   false,
		"GET uniform P=16 to the disk's reads of 16 KiB at depth 50": true,
	} {
		if got, found := holds[name]; !found || got != want {
			t.Errorf("%s: holds %v, found %v", name, got, found)
		}
	}
	if n := strings.Count(out.String(), "MISSED"); len(holds) != 7 || n != 4 {
		t.Errorf("%d bars, %d missed\n%s", len(holds), n, out.String())
	}
	if _, err := json.Marshal(rep); err != nil {
		t.Error(err)
	}
}

// TestNoFiguresOfKvrocks: what was not measured is "-", and no bar that compares is there.
func TestNoFiguresOfKvrocks(t *testing.T) {
	all := suite{valuesOf("large", 100, 10), []row{{name: "GET uniform P=16", bar: 1.2}}}
	rep := &report{}
	rep.add("basalt", all, []figures{{Rate: 130, P99: 2}}, space{100, 120, 3})
	var out bytes.Buffer
	rep.print(&out)
	if len(rep.Bars) != 0 || !strings.Contains(out.String(), "130/-") {
		t.Errorf("%v\n%s", rep.Bars, out.String())
	}
}

func TestBytesFlag(t *testing.T) {
	for in, want := range map[string]int64{
		"512MiB": 512 * mib, "1GiB": 1024 * mib, "4096": 4096, "2KiB": 2048, "x": 0, "-1": 0, "1MB": 0,
	} {
		var b bytesFlag
		if err := b.Set(in); (err == nil) != (want > 0) || int64(b) != want {
			t.Errorf("%s: %d, %v", in, int64(b), err)
		}
	}
}
