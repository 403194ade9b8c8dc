package difftest

import (
	"slices"
	"strings"
	"testing"
)

// notInInfo are the fields of Redis's INFO that have no meaning here, by the beginnings of their names.
var notInInfo = map[string]string{
	"redis_build_id": "of the C build", "monotonic_clock": "of the C build", "atomicvar_api": "of the C build",
	"gcc_version":        "of the C build",
	"process_supervised": "the log says when the server is ready",
	"current_":           "no process is forked to save", "rdb_current_": "no process is forked to save",
	"rdb_last_cow_size":         "no process is forked to save",
	"rdb_last_load_":            "no RDB file is loaded",
	"aof_last_rewrite_time_sec": "no AOF is rewritten", "aof_current_rewrite_time_sec": "no AOF is rewritten",
	"aof_rewrites": "no AOF is rewritten", "aof_last_cow_size": "no AOF is rewritten", "module_fork": "no modules",
	"expired_stale_perc": "no cycle looks for expired keys", "expired_time_cap": "no cycle looks for expired keys",
	"expire_cycle": "no cycle looks for expired keys", "total_eviction": "nothing is evicted",
	"migrate_cached": "no MIGRATE", "slave_expires": "no writable replicas", "active_defrag_": "no defragmentation",
	"total_active_defrag": "no defragmentation", "dump_payload": "payloads are always checked",
	"io_threaded":  "no I/O threads",
	"reply_buffer": "buffers are pooled", "used_cpu_sys_main": "no main thread", "used_cpu_user_main": "no main thread",
	"eventloop_": "no event loop", "instantaneous_eventloop_": "no event loop", "cmdstat_": "depends on what was called",
	"errorstat_": "depends on what was called", "latency_percentiles": "depends on what was called",
}

// TestInfoFields compares the names of the fields of INFO, section by section.
func TestInfoFields(t *testing.T) {
	redis, basalt := infoSections(t, startRedis(t)), infoSections(t, startBasalt(t))
	for section, fields := range redis {
		have, ok := basalt[section]
		if !ok {
			t.Errorf("no section %s", section)
			continue
		}
	fields:
		for _, f := range fields {
			for known := range notInInfo {
				if strings.HasPrefix(f, known) {
					if slices.Contains(have, f) && known == f {
						t.Errorf("%s: %s is there after all", section, f)
					}
					continue fields
				}
			}
			if !slices.Contains(have, f) {
				t.Errorf("%s: no field %s", section, f)
			}
		}
	}
	if len(redis) < 12 {
		t.Errorf("only %d sections", len(redis))
	}
}

func infoSections(t *testing.T, srv target) map[string][]string {
	r := ask(t, srv, "INFO", "everything")
	sections, name := map[string][]string{}, ""
	for _, line := range strings.Split(string(r.text), "\r\n") {
		if title, ok := strings.CutPrefix(line, "# "); ok && !strings.Contains(title, ":") {
			name = strings.ToLower(title)
			sections[name] = nil
		} else if field, _, ok := strings.Cut(line, ":"); ok && !strings.HasPrefix(line, "#") {
			sections[name] = append(sections[name], field)
		}
	}
	return sections
}

// TestMemoryStatsFields compares the names of the fields of MEMORY STATS: a client with types for the reply needs all.
func TestMemoryStatsFields(t *testing.T) {
	have := memoryStats(t, startBasalt(t))
	for _, f := range memoryStats(t, startRedis(t)) {
		if !slices.Contains(have, f) {
			t.Errorf("no field %s", f)
		}
	}
}

func memoryStats(t *testing.T, srv target) (fields []string) {
	r := ask(t, srv, "MEMORY", "STATS")
	if len(r.elems) < 40 {
		t.Fatalf("MEMORY STATS: %q", r.raw)
	}
	for i := 0; i < len(r.elems); i += 2 {
		fields = append(fields, string(r.elems[i].text))
	}
	return fields
}
