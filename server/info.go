package server

import (
	"fmt"
	"maps"
	"math"
	"os"
	"runtime"
	"runtime/debug"
	gometrics "runtime/metrics"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/derived"
	"github.com/basaltdb/basalt/server/acl"
	"github.com/basaltdb/basalt/server/command"
	"github.com/basaltdb/basalt/server/metrics"
)

// KvrocksVersion is the version of Kvrocks whose data directory and commands this server has.
const KvrocksVersion = "2.10.0"

// A section of INFO. Names and fields are those of Kvrocks (section 5.6 of the compatibility notes), and those of
// Redis that monitoring looks for.
type section struct {
	name  string
	write func(s *Server, w *infoWriter, namespace string)
}

var sections = []section{
	{"Server", (*Server).infoServer},
	{"Clients", (*Server).infoClients},
	{"Memory", (*Server).infoMemory},
	{"Persistence", (*Server).infoPersistence},
	{"Stats", (*Server).infoStats},
	{"Replication", (*Server).infoReplication},
	{"CPU", (*Server).infoCPU},
	{"Modules", func(*Server, *infoWriter, string) {}},
	{"Commandstats", (*Server).infoCommands},
	{"Errorstats", (*Server).infoErrors},
	{"Latencystats", (*Server).infoLatencies},
	{"Cluster", (*Server).infoCluster},
	{"Keyspace", (*Server).infoKeyspace},
	{"RocksDB", (*Server).infoRocksDB},
}

// infoWriter collects lines "name:value".
type infoWriter struct{ strings.Builder }

func (w *infoWriter) field(name string, value any) { fmt.Fprintf(w, "%s:%v\r\n", name, value) }

// bytes writes a number of bytes, and the same for human eyes.
func (w *infoWriter) bytes(name string, n int64) {
	w.field(name, n)
	w.field(name+"_human", human(n))
}

// Text returns the text of INFO for the sections of which want is true.
func (s *Server) Text(want func(section string) bool, namespace string) string {
	var w infoWriter
	for _, sec := range sections {
		if !want(strings.ToLower(sec.name)) {
			continue
		}
		if w.Len() > 0 {
			w.WriteString("\r\n")
		}
		w.WriteString("# " + sec.name + "\r\n")
		sec.write(s, &w, namespace)
	}
	return w.String()
}

// vcsRevision is the commit that the binary was built from.
var vcsRevision = sync.OnceValue(func() string {
	if b, ok := debug.ReadBuildInfo(); ok {
		for _, kv := range b.Settings {
			if kv.Key == "vcs.revision" {
				return kv.Value[:min(8, len(kv.Value))]
			}
		}
	}
	return "00000000"
})

func (s *Server) infoServer(w *infoWriter, _ string) {
	up := int64(time.Since(s.started).Seconds())
	w.field("version", KvrocksVersion)
	w.field("kvrocks_version", KvrocksVersion)
	w.field("redis_version", command.RedisVersion)
	w.field("basalt_version", s.build)
	w.field("git_sha1", vcsRevision())
	w.field("kvrocks_git_sha1", vcsRevision())
	w.field("redis_git_sha1", vcsRevision())
	w.field("redis_git_dirty", 0)
	w.field("redis_mode", "standalone")
	w.field("kvrocks_mode", "standalone")
	w.field("os", osName())
	w.field("go_version", runtime.Version())
	version, assertions := engine.RocksDB()
	w.field("rocksdb_version", version)
	w.field("rocksdb_assertions", flag(assertions))
	w.field("arch_bits", strconv.IntSize)
	w.field("multiplexing_api", "go")
	w.field("process_id", os.Getpid())
	w.field("run_id", s.runID)
	w.field("tcp_port", s.port())
	w.field("server_time_usec", time.Now().UnixMicro())
	w.field("uptime_in_seconds", up)
	w.field("uptime_in_days", up/(24*3600))
	w.field("hz", int(time.Second/tick))
	w.field("configured_hz", int(time.Second/tick))
	w.field("lru_clock", 0)
	w.field("executable", executable())
	w.field("config_file", s.cfg.File())
	w.field("io_threads_active", 0)
	for i, line := range s.listeners.Describe() {
		w.field("listener"+strconv.Itoa(i), line)
	}
}

var executable = sync.OnceValue(func() string {
	path, err := os.Executable()
	if err != nil {
		return ""
	}
	return path
})

var osName = sync.OnceValue(func() string {
	var u syscall.Utsname
	if syscall.Uname(&u) != nil {
		return runtime.GOOS
	}
	text := func(field [65]int8) string {
		var b []byte
		for _, c := range field {
			if c == 0 {
				break
			}
			b = append(b, byte(c))
		}
		return string(b)
	}
	return text(u.Sysname) + " " + text(u.Release) + " " + text(u.Machine)
})

func (s *Server) infoClients(w *infoWriter, _ string) {
	w.field("maxclients", s.limits.clients.Load())
	w.field("connected_clients", s.clients())
	w.field("cluster_connections", 0)
	var in, out int64
	for _, c := range s.services.Clients.List() {
		in, out = max(in, c.QueryBuf), max(out, c.OutputBytes)
	}
	w.field("client_recent_max_input_buffer", in)
	w.field("client_recent_max_output_buffer", out)
	w.field("monitor_clients", s.monitors.len())
	w.field("blocked_clients", s.waiters.n.Load()+s.paused.Load())
	w.field("tracking_clients", s.tracker.clients.Load())
	w.field("clients_in_timeout_table", 0)
	keys, onNoKey := s.waiters.counts()
	w.field("total_blocking_keys", keys)
	w.field("total_blocking_keys_on_nokey", onNoKey)
}

// residentBytes returns the resident set size and its peak.
func residentBytes() (now, peak int64) {
	b, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, 0
	}
	kib := func(name string) int64 {
		_, rest, ok := strings.Cut(string(b), "\n"+name+":")
		f := strings.Fields(rest)
		if !ok || len(f) == 0 {
			return 0
		}
		n, _ := strconv.ParseInt(f[0], 10, 64)
		return n << 10
	}
	return kib("VmRSS"), kib("VmHWM")
}

// residentFiles returns what is resident of files: the program and the libraries.
func residentFiles() int64 {
	b, err := os.ReadFile("/proc/self/statm") // in pages: size, resident, of files, ...
	if f := strings.Fields(string(b)); err == nil && len(f) > 2 {
		n, _ := strconv.ParseInt(f[2], 10, 64)
		return n * int64(os.Getpagesize())
	}
	return 0
}

// heapBytes returns the objects of Go's heap and all that Go has from the system and has not given back.
func heapBytes() (objects, total int64) {
	m := []gometrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/memory/classes/total:bytes"},
		{Name: "/memory/classes/heap/released:bytes"}}
	gometrics.Read(m)
	return int64(m[0].Value.Uint64()), int64(m[1].Value.Uint64() - m[2].Value.Uint64())
}

func (s *Server) infoMemory(w *infoWriter, _ string) {
	m := s.memoryUse()
	used, peak, overhead := m.used(), max(m.peak, m.used()), m.heap+int64(m.db.TableReaders)
	data := max(used-overhead, 0)
	w.bytes("used_memory", used)
	w.bytes("used_memory_rss", m.rss)
	w.bytes("used_memory_peak", peak)
	w.field("used_memory_peak_perc", fmt.Sprintf("%.2f%%", 100*float64(used)/float64(max(peak, 1))))
	w.field("used_memory_overhead", overhead)
	w.field("used_memory_dataset", data)
	w.field("used_memory_dataset_perc", fmt.Sprintf("%.2f%%", 100*float64(data)/float64(max(used, 1))))
	w.field("allocator_allocated", used)
	w.field("allocator_active", m.rss)
	w.field("allocator_resident", m.rss)
	w.field("used_memory_go_heap", m.heap)
	w.field("used_memory_go_total", m.goTotal)
	for _, h := range m.holders {
		w.field("used_memory_"+h.name, h.bytes)
	}
	w.field("used_memory_accounted", m.accounted())
	w.bytes("memory_budget", int64(s.plan.Budget))
	w.field("used_memory_startup", s.startupRSS)
	w.bytes("total_system_memory", totalMemory())
	s.infoScripts(w)
	w.bytes("maxmemory", s.cfg.Int("maxmemory"))
	w.field("maxmemory_policy", s.cfg.Text("maxmemory-policy"))
	ratio := func(name string, part, whole int64) {
		w.field(name+"_ratio", fmt.Sprintf("%.2f", float64(part)/float64(max(whole, 1))))
		w.field(name+"_bytes", part-whole)
	}
	ratio("allocator_frag", m.rss, used)
	ratio("allocator_rss", m.rss, m.rss)
	ratio("rss_overhead", m.rss, m.rss)
	ratio("mem_fragmentation", m.rss, used)
	w.field("mem_not_counted_for_evict", 0)
	w.field("mem_replication_backlog", s.master.Stats().BacklogBytes)
	w.field("mem_total_replication_buffers", 0)
	w.field("mem_clients_slaves", 0)
	w.field("mem_clients_normal", m.clients)
	w.field("mem_cluster_links", 0)
	w.field("mem_aof_buffer", 0)
	w.field("mem_allocator", "libc")
	w.field("active_defrag_running", 0)
	w.field("lazyfree_pending_objects", 0)
	w.field("lazyfreed_objects", 0)
}

var totalMemory = sync.OnceValue(func() int64 {
	var i syscall.Sysinfo_t
	if syscall.Sysinfo(&i) != nil {
		return 0
	}
	return int64(i.Totalram) * int64(i.Unit)
})

func (s *Server) infoPersistence(w *infoWriter, _ string) {
	w.field("loading", 0)
	w.field("bgsave_in_progress", flag(s.work.saving.Load()))
	w.field("rdb_bgsave_in_progress", flag(s.work.saving.Load()))
	w.field("last_bgsave_time", s.work.lastSave.Load())
	status := "ok"
	if s.work.saveFailed.Load() {
		status = "err"
	}
	w.field("last_bgsave_status", status)
	w.field("last_bgsave_time_sec", s.work.saveTook.Load())
	w.field("rdb_last_save_time", s.work.lastSave.Load())
	w.field("rdb_last_bgsave_status", status)
	w.field("rdb_last_bgsave_time_sec", s.work.saveTook.Load())
	w.field("rdb_changes_since_last_save", 0) // every write is in the log
	w.field("aof_enabled", 0)
	w.field("aof_rewrite_in_progress", 0)
	w.field("aof_rewrite_scheduled", 0)
	w.field("aof_last_bgrewrite_status", "ok")
	w.field("aof_last_write_status", "ok")
	w.field("async_loading", 0)
	r := s.db.Recovery()
	w.field("recovery_tail_bytes", r.TailBytes)
	w.field("recovery_dropped_bytes", r.DroppedBytes)
	w.field("recovery_lost", r.Lost)
	w.field("corrupt_reads", r.CorruptReads)
}

func (s *Server) infoStats(w *infoWriter, _ string) {
	st := s.stats
	rates := st.Samples.Rates()
	w.field("total_connections_received", st.Connections.Load())
	w.field("total_commands_processed", st.Commands.Load())
	w.field("instantaneous_ops_per_sec", int64(rates[metrics.RateCommands]))
	w.field("total_net_input_bytes", st.NetIn.Load())
	w.field("total_net_output_bytes", st.NetOut.Load())
	w.field("instantaneous_input_kbps", fmt.Sprintf("%.2f", rates[metrics.RateNetIn]/1024))
	w.field("instantaneous_output_kbps", fmt.Sprintf("%.2f", rates[metrics.RateNetOut]/1024))
	w.field("rejected_connections", st.RejectedConns.Load())
	syncs := s.master.Stats()
	w.field("sync_full", syncs.SyncFull)
	w.field("sync_partial_ok", syncs.SyncPartialOK)
	w.field("sync_partial_err", syncs.SyncPartialErr)
	w.field("expired_keys", 0)
	w.field("evicted_keys", 0)
	w.field("keyspace_hits", s.db.Stats.Hits.Load())
	w.field("keyspace_misses", s.db.Stats.Misses.Load())
	denied := s.access.users.Log()
	w.field("acl_access_denied_auth", denied.Count(acl.DeniedAuth))
	w.field("acl_access_denied_cmd", denied.Count(acl.DeniedCommand))
	w.field("acl_access_denied_key", denied.Count(acl.DeniedKey))
	w.field("acl_access_denied_channel", denied.Count(acl.DeniedChannel))
	s.writeDerived(w)
	w.field("pubsub_channels", s.hub.Topics(command.Channel))
	w.field("pubsub_patterns", s.hub.Topics(command.Pattern))
	w.field("pubsubshard_channels", s.hub.Topics(command.ShardChannel))
	w.field("client_output_buffer_limit_disconnections", st.OutputLimit.Load())
	w.field("tracking_total_keys", s.tracker.keys.Load())
	w.field("tracking_total_items", s.tracker.items.Load())
	w.field("tracking_total_prefixes", s.tracker.prefixes())
	w.field("total_net_repl_input_bytes", 0)
	w.field("total_net_repl_output_bytes", 0)
	w.field("instantaneous_input_repl_kbps", "0.00")
	w.field("instantaneous_output_repl_kbps", "0.00")
	w.field("evicted_clients", 0)
	w.field("latest_fork_usec", 0)
	w.field("total_forks", 0)
	w.field("unexpected_error_replies", 0)
	w.field("total_error_replies", st.ErrorReplies.Load())
	w.field("total_protocol_errors", st.ProtocolErrors.Load())
	w.field("total_write_errors", st.WriteErrors.Load())
	w.field("total_write_batches", s.db.Stats.Commits.Load())
	w.field("total_write_transactions", s.db.Stats.GroupedTx.Load())
}

// writeDerived writes the numbers of derived state for INFO.
func (s *Server) writeDerived(w *infoWriter) {
	registry := s.db.Derived()
	all := registry.Stats()
	var sum derived.Stats
	for _, st := range all {
		sum.Hits += st.Hits
		sum.Misses += st.Misses
		sum.Evictions += st.Evictions
	}
	w.field("derived_state_bytes", registry.Used())
	w.field("derived_state_limit_bytes", registry.Limit())
	w.field("derived_state_hits", sum.Hits)
	w.field("derived_state_misses", sum.Misses)
	w.field("derived_state_evictions", sum.Evictions)
	for id, st := range all {
		w.field("derived_state_"+derived.ID(id).String(), fmt.Sprintf("entries=%d,bytes=%d,hits=%d,misses=%d,evictions=%d",
			st.Entries, st.Bytes, st.Hits, st.Misses, st.Evictions))
	}
}

func (s *Server) infoCPU(w *infoWriter, _ string) {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return
	}
	w.field("used_cpu_sys", fmt.Sprintf("%d.%06d", u.Stime.Sec, u.Stime.Usec))
	w.field("used_cpu_user", fmt.Sprintf("%d.%06d", u.Utime.Sec, u.Utime.Usec))
	w.field("used_cpu_sys_children", "0.000000")
	w.field("used_cpu_user_children", "0.000000")
}

func (s *Server) infoCommands(w *infoWriter, _ string) {
	for i := range command.NumSpecs() {
		n := s.stats.Command(i)
		if n.Calls == 0 && n.Rejected == 0 {
			continue
		}
		usec := float64(n.Took) / 1000
		text := fmt.Sprintf("calls=%d,usec=%.0f,usec_per_call=%.2f,rejected_calls=%d,failed_calls=%d",
			n.Calls, usec, usec/float64(max(1, n.Calls)), n.Rejected, n.Failed)
		w.field("cmdstat_"+command.ByID(i).FullName(), text)
	}
}

func (s *Server) infoErrors(w *infoWriter, _ string) {
	for _, e := range s.stats.Errors() {
		w.field("errorstat_"+e.Code, fmt.Sprintf("count=%d", e.Count))
	}
}

// infoLatencies is the section Latencystats of INFO.
func (s *Server) infoLatencies(w *infoWriter, _ string) {
	percentiles := s.percentiles()
	for i := range command.NumSpecs() {
		h := s.stats.Command(i).Latency
		if h == nil || len(percentiles) == 0 {
			continue
		}
		var b strings.Builder
		for j, p := range percentiles {
			if j > 0 {
				b.WriteByte(',')
			}
			b.WriteString("p" + formatPercentile(p) + "=" + formatMicroseconds(h.Percentile(p)))
		}
		w.field("latency_percentiles_usec_"+command.ByID(i).FullName(), b.String())
	}
}

func formatMicroseconds(d time.Duration) string {
	return trimFloat(float64(d)/1000, 3, false)
}

func formatPercentile(p float64) string { return trimFloat(p, 6, true) }

// trimFloat writes a number with digits after the point, without zeros at the end if trim.
func trimFloat(f float64, digits int, trim bool) string {
	if math.IsNaN(f) {
		return "0"
	}
	s := strconv.FormatFloat(f, 'f', digits, 64)
	if trim && strings.Contains(s, ".") {
		s = strings.TrimRight(strings.TrimRight(s, "0"), ".")
	}
	return s
}

func (s *Server) infoCluster(w *infoWriter, _ string) { w.field("cluster_enabled", 0) }

func (s *Server) infoKeyspace(w *infoWriter, namespace string) {
	s.infoDatabases(w, namespace)
	used := int64(s.diskSize())
	limit := s.cfg.Int("max-db-size") << 30
	w.field("sequence", s.db.LatestSequence())
	w.field("used_db_size", used)
	w.field("max_db_size", limit)
	w.field("used_percent", " "+percent(used, limit))
	capacity, usedDisk := diskUsage(s.db.Dir())
	w.field("disk_capacity", capacity)
	w.field("used_disk_size", usedDisk)
	w.field("used_disk_percent", " "+percent(usedDisk, capacity))
}

// infoDatabases writes a line for each database that has keys; without databases one for the namespace. Before it stands,
// as in Kvrocks, when the keys were counted, and behind it whether their number is exact.
func (s *Server) infoDatabases(w *infoWriter, namespace string) {
	names := map[int]string{0: namespace}
	if most := s.cfg.Databases(); most > 0 {
		clear(names)
		for _, ns := range s.db.Namespaces() {
			if n, ok := cf.NamespaceDatabase(ns); ok && int64(n) < most {
				names[n] = ns
			}
		}
	}
	numbers := slices.Sorted(maps.Keys(names))
	counts := make([]engine.KeyCount, len(numbers))
	all := engine.KeyCount{}
	all.Exact, all.Scanned = true, time.Now()
	for i, n := range numbers {
		c := s.db.KeyCount(names[n])
		counts[i] = c
		if !c.Exact && (all.Exact || c.Scanned.Before(all.Scanned)) {
			all.Scanned = c.Scanned
		}
		all.Exact = all.Exact && c.Exact
		all.Bound += c.Bound
		all.Unread += c.Unread
		all.Scanning = all.Scanning || c.Scanning
	}
	if all.Scanned.IsZero() {
		w.WriteString("# WARN: DBSIZE SCAN never performed yet\r\n")
	} else { // exact: as if they were counted now
		fmt.Fprintf(w, "# Last DBSIZE SCAN time: %s\r\n", all.Scanned.Format("Mon Jan _2 15:04:05 2006"))
	}
	for i, n := range numbers {
		if c := &counts[i]; c.Keys > 0 || s.cfg.Databases() == 0 {
			w.field("db"+strconv.Itoa(n), fmt.Sprintf("keys=%d,expires=%d,avg_ttl=0,expired=0", c.Keys, c.Expires))
		}
	}
	kind := "estimate"
	if all.Exact {
		kind = "exact"
	}
	w.field("key_count", kind)
	w.field("key_count_error_bound", all.Bound)
	w.field("key_scan_in_progress", flag(all.Scanning))
	w.field("key_scan_unread_keys", all.Unread)
}

// diskUsage returns the size of the file system of a directory and how much of it is in use.
func diskUsage(dir string) (capacity, used int64) {
	var st syscall.Statfs_t
	if syscall.Statfs(dir, &st) != nil {
		return 0, 0
	}
	capacity = int64(st.Blocks) * st.Bsize
	return capacity, capacity - int64(st.Bavail)*st.Bsize
}

func percent(part, whole int64) string {
	if whole <= 0 {
		return "0%"
	}
	return strconv.FormatInt(part*100/whole, 10) + "%"
}

func flag(b bool) int {
	if b {
		return 1
	}
	return 0
}

// human writes a number of bytes with a unit, as Redis does: 1.50M.
func human(n int64) string {
	if n < 1024 {
		return strconv.FormatInt(n, 10) + "B"
	}
	f := float64(n) / 1024
	units := "KMGTP"
	i := 0
	for ; f >= 1024 && i < len(units)-1; i++ {
		f /= 1024
	}
	return fmt.Sprintf("%.2f%c", f, units[i])
}
