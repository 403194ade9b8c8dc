package report

import (
	"math"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/derived"
	"github.com/basaltdb/basalt/server/acl"
	"github.com/basaltdb/basalt/server/command"
	"github.com/basaltdb/basalt/server/info"
	"github.com/basaltdb/basalt/server/maintenance"
	"github.com/basaltdb/basalt/server/metrics"
)

func (r *Report) infoServer(w *info.Writer, _ string) {
	up := int64(time.Since(r.Started).Seconds())
	w.Text("version", KvrocksVersion)
	w.Text("kvrocks_version", KvrocksVersion)
	w.Text("redis_version", command.RedisVersion)
	w.Text("basalt_version", r.Build())
	w.Text("git_sha1", info.Revision())
	w.Text("kvrocks_git_sha1", info.Revision())
	w.Text("redis_git_sha1", info.Revision())
	mode := "standalone"
	if r.Cluster != nil {
		mode = "cluster"
	}
	w.Text("redis_mode", mode)
	w.Text("kvrocks_mode", mode)
	w.Text("os", info.OS())
	w.Text("go_version", runtime.Version())
	version, assertions := engine.RocksDB()
	w.Text("rocksdb_version", version)
	w.Flag("rocksdb_assertions", assertions)
	w.Gauge("arch_bits", info.None, strconv.IntSize)
	w.Gauge("process_id", info.None, int64(os.Getpid()))
	w.Text("run_id", r.RunID)
	w.Gauge("tcp_port", info.None, int64(r.Port()))
	w.Gauge("server_time_usec", info.Microseconds, time.Now().UnixMicro())
	w.Counter("uptime_in_seconds", info.Seconds, up)
	w.Counter("uptime_in_days", info.None, up/(24*3600))
	w.Gauge("hz", info.None, int64(time.Second/maintenance.Tick))
	w.Gauge("configured_hz", info.None, int64(time.Second/maintenance.Tick))
	w.Text("executable", info.Executable())
	w.Text("config_file", r.Config.File())
	for i, line := range r.Listeners() {
		w.Text("listener"+strconv.Itoa(i), line)
	}
}

func (r *Report) infoClients(w *info.Writer, _ string) {
	count := func(name string, n int) { w.Gauge(name, info.None, int64(n)) }
	w.Gauge("maxclients", info.None, r.MaxClients())
	clients := r.Sessions.Counts()
	count("connected_clients", clients.Clients)
	var in, out int64
	subscribed, watching := 0, 0
	for _, c := range r.Sessions.Services.Clients.List() {
		if c.Sub+c.PSub+c.SSub > 0 {
			subscribed++
		}
		if c.Watch > 0 {
			watching++
		}
		in, out = max(in, c.QueryBuf), max(out, c.OutputBytes)
	}
	w.Gauge("client_recent_max_input_buffer", info.Bytes, in)
	w.Gauge("client_recent_max_output_buffer", info.Bytes, out)
	count("monitor_clients", clients.Monitors)
	count("watching_clients", watching)
	count("total_watched_keys", r.DB.WatchedKeys())
	count("pubsub_clients", subscribed)
	count("blocked_clients", clients.Blocked+clients.Paused)
	w.Gauge("tracking_clients", info.None, int64(r.Sessions.Tracker.Clients()))
	count("total_blocking_keys", clients.Keys)
	count("total_blocking_keys_on_nokey", clients.NoKey)
}

// infoMemory writes the fields of the Memory section about settings, replication and scripts.
func (r *Report) infoMemory(w *info.Writer, _ string) {
	w.Gauge("mem_replication_backlog", info.Bytes, r.Master.Stats().BacklogBytes)
	w.Human("maxmemory", r.Config.Int("maxmemory"))
	w.Text("maxmemory_policy", r.Config.Text("maxmemory-policy"))
	m := r.Sessions.Scripts.Memory()
	bytes := func(name string, n int64) { w.Gauge(name, info.Bytes, n) }
	count := func(name string, n int) { w.Gauge(name, info.None, int64(n)) }
	w.Human("used_memory_lua", m.Machines)
	bytes("used_memory_vm_eval", m.Machines)
	bytes("used_memory_scripts_eval", m.Scripts)
	count("number_of_cached_scripts", m.Cached)
	count("number_of_functions", m.Named)
	count("number_of_libraries", m.Libraries)
	bytes("used_memory_vm_functions", m.Residents) // the other functions share the virtual machines of scripts
	w.Human("used_memory_vm_total", m.Machines+m.Residents)
	bytes("used_memory_functions", m.Functions)
	w.Human("used_memory_scripts", m.Scripts+m.Functions)
}

func (r *Report) infoPersistence(w *info.Writer, _ string) {
	work, status := r.Work.Status(), "ok"
	if work.SaveFailed {
		status = "err"
	}
	w.Flag("bgsave_in_progress", work.Saving)
	w.Flag("rdb_bgsave_in_progress", work.Saving)
	w.Gauge("last_bgsave_time", info.UnixTime, work.LastSave.Unix())
	w.Text("last_bgsave_status", status)
	w.Gauge("last_bgsave_time_sec", info.Seconds, int64(work.SaveTook.Seconds()))
	w.Counter("rdb_saves", info.None, work.Saves)
	w.Gauge("rdb_last_save_time", info.UnixTime, work.LastSave.Unix())
	w.Text("rdb_last_bgsave_status", status)
	w.Gauge("rdb_last_bgsave_time_sec", info.Seconds, int64(work.SaveTook.Seconds()))
	now := int64(-1)
	if work.Saving {
		now = int64(time.Since(work.SaveBegan).Seconds())
	}
	w.Gauge("rdb_current_bgsave_time_sec", info.Seconds, now)
	writes, cause := "ok", r.DB.BackgroundError()
	if cause != nil {
		writes = "err"
	} else {
		cause = r.DB.CompactionError()
	}
	w.Text("aof_last_write_status", writes)
	text := ""
	if cause != nil {
		text = cause.Error()
	}
	w.Text("background_error", text)
	rec := r.DB.Recovery()
	w.Gauge("recovery_tail_bytes", info.Bytes, rec.TailBytes)
	w.Gauge("recovery_dropped_bytes", info.Bytes, rec.DroppedBytes)
	w.Text("recovery_lost", rec.Lost)
	w.Counter("corrupt_reads", info.None, rec.CorruptReads)
}

func (r *Report) infoStats(w *info.Writer, _ string) {
	st := r.Sessions.Stats
	rates := st.Samples.Rates()
	count := func(name string, n int64) { w.Counter(name, info.None, n) }
	gauge := func(name string, n int) { w.Gauge(name, info.None, int64(n)) }
	count("total_connections_received", st.Connections.Load())
	count("total_commands_processed", st.Commands.Load())
	w.Gauge("instantaneous_ops_per_sec", info.PerSec, int64(rates[metrics.RateCommands]))
	w.Counter("total_net_input_bytes", info.Bytes, st.NetIn.Load())
	w.Counter("total_net_output_bytes", info.Bytes, st.NetOut.Load())
	w.Float("instantaneous_input_kbps", info.KiBPerSec, rates[metrics.RateNetIn]/1024)
	w.Float("instantaneous_output_kbps", info.KiBPerSec, rates[metrics.RateNetOut]/1024)
	w.Counter("total_net_repl_input_bytes", info.Bytes, r.Replica.Received())
	w.Counter("total_net_repl_output_bytes", info.Bytes, r.Master.Sent())
	w.Float("instantaneous_input_repl_kbps", info.KiBPerSec, rates[metrics.RateReplIn]/1024)
	w.Float("instantaneous_output_repl_kbps", info.KiBPerSec, rates[metrics.RateReplOut]/1024)
	count("total_reads_processed", st.Reads.Load())
	count("total_writes_processed", st.Writes.Load())
	count("rejected_connections", st.RejectedConns.Load())
	syncs := r.Master.Stats()
	count("sync_full", syncs.SyncFull)
	count("sync_partial_ok", syncs.SyncPartialOK)
	count("sync_partial_err", syncs.SyncPartialErr)
	count("expired_keys", max(r.DB.ExpiredKeys()-r.expiredBefore.Load(), 0))
	count("expired_subkeys", r.DB.Stats.ExpiredFields.Load())
	count("keyspace_hits", r.DB.Stats.Hits.Load())
	count("keyspace_misses", r.DB.Stats.Misses.Load())
	denied := r.Auth.ACL().Log()
	count("acl_access_denied_auth", int64(denied.Count(acl.DeniedAuth)))
	count("acl_access_denied_cmd", int64(denied.Count(acl.DeniedCommand)))
	count("acl_access_denied_key", int64(denied.Count(acl.DeniedKey)))
	count("acl_access_denied_tls_cert", int64(denied.Count(acl.DeniedCertificate)))
	count("acl_access_denied_channel", int64(denied.Count(acl.DeniedChannel)))
	count("evicted_scripts", r.Sessions.Scripts.Memory().Evicted)
	r.infoDerived(w)
	gauge("pubsub_channels", r.Sessions.Hub.Topics(command.Channel))
	gauge("pubsub_patterns", r.Sessions.Hub.Topics(command.Pattern))
	gauge("pubsubshard_channels", r.Sessions.Hub.Topics(command.ShardChannel))
	count("client_query_buffer_limit_disconnections", st.QueryLimit.Load())
	count("client_output_buffer_limit_disconnections", st.OutputLimit.Load())
	w.Gauge("tracking_total_keys", info.None, r.Sessions.Tracker.Keys())
	w.Gauge("tracking_total_items", info.None, r.Sessions.Tracker.Items())
	gauge("tracking_total_prefixes", r.Sessions.Tracker.Prefixes())
	count("total_error_replies", st.ErrorReplies.Load())
	count("total_protocol_errors", st.ProtocolErrors.Load())
	count("total_write_errors", st.WriteErrors.Load())
	count("total_write_batches", int64(r.DB.Stats.Commits.Load()))
	count("total_write_transactions", int64(r.DB.Stats.GroupedTx.Load()))
}

func (r *Report) infoDerived(w *info.Writer) {
	registry := r.DB.Derived()
	all := registry.Stats()
	var sum derived.Stats
	for _, st := range all {
		sum.Hits += st.Hits
		sum.Misses += st.Misses
		sum.Evictions += st.Evictions
	}
	w.Gauge("derived_state_bytes", info.Bytes, registry.Used())
	w.Gauge("derived_state_limit_bytes", info.Bytes, registry.Limit())
	hits, misses := r.DB.RecordCacheLookups()
	w.Counter("record_cache_hits", info.None, int64(hits))
	w.Counter("record_cache_misses", info.None, int64(misses))
	w.Counter("derived_state_hits", info.None, sum.Hits)
	w.Counter("derived_state_misses", info.None, sum.Misses)
	w.Counter("derived_state_evictions", info.None, sum.Evictions)
	for id, st := range all {
		kind := derived.ID(id).String()
		w.Record("derived_state_"+kind, kind, func(w *info.Writer) {
			w.Gauge("entries", info.None, st.Entries)
			w.Gauge("bytes", info.Bytes, st.Bytes)
			w.Counter("hits", info.None, st.Hits)
			w.Counter("misses", info.None, st.Misses)
			w.Counter("evictions", info.None, st.Evictions)
		})
	}
}

func (r *Report) infoCommands(w *info.Writer, _ string) {
	for i := range command.NumSpecs() {
		n := r.Sessions.Stats.Command(i)
		if n.Calls == 0 && n.Rejected == 0 {
			continue
		}
		usec, name := float64(n.Took)/1000, command.ByID(i).FullName()
		w.Record("cmdstat_"+name, name, func(w *info.Writer) {
			w.Counter("calls", info.None, n.Calls)
			w.Counter("usec", info.Microseconds, int64(math.RoundToEven(usec)))
			w.Float("usec_per_call", info.Microseconds, usec/float64(max(1, n.Calls)))
			w.Counter("rejected_calls", info.None, n.Rejected)
			w.Counter("failed_calls", info.None, n.Failed)
		})
	}
}

func (r *Report) infoErrors(w *info.Writer, _ string) {
	for _, e := range r.Sessions.Stats.Errors() {
		w.Record("errorstat_"+e.Code, e.Code, func(w *info.Writer) { w.Counter("count", info.None, e.Count) })
	}
}

// infoLatencies writes the Latencystats section.
func (r *Report) infoLatencies(w *info.Writer, _ string) {
	percentiles := r.percentiles()
	for i := range command.NumSpecs() {
		h := r.Sessions.Stats.Command(i).Latency
		if h == nil || len(percentiles) == 0 {
			continue
		}
		name := command.ByID(i).FullName()
		w.Record("latency_percentiles_usec_"+name, name, func(w *info.Writer) {
			for _, p := range percentiles {
				percent := strings.TrimRight(strings.TrimRight(strconv.FormatFloat(p, 'f', 6, 64), "0"), ".")
				w.Add(info.Field{Name: "p" + percent, Kind: info.Gauge, Unit: info.Microseconds,
					Float: float64(h.Percentile(p)) / 1000, Decimals: 3})
			}
		})
	}
}

func (r *Report) infoCluster(w *info.Writer, _ string) { w.Flag("cluster_enabled", r.Cluster != nil) }

// rated are the tickers of RocksDB of which INFO shows how fast they move, with the names of the fields.
var rated = [...]struct {
	ticker string
	rate   int
	name   string
}{
	{"number.keys.written", metrics.RatePuts, "put_per_sec"}, {tickKeysRead, metrics.RateGets, "get_per_sec"},
	{"number.db.seek", metrics.RateSeeks, "seek_per_sec"}, {"number.db.next", metrics.RateNexts, "next_per_sec"},
	{"number.db.prev", metrics.RatePrevs, "prev_per_sec"},
}

const (
	tickKeysRead         = "number.keys.read" // by Get
	tickKeysReadTogether = "number.multiget.keys.read"
)

// rateTicker returns the value of a ticker that is sampled.
func (r *Report) rateTicker(name string) int64 {
	n, _ := r.DB.Ticker(name)
	if name == tickKeysRead {
		more, _ := r.DB.Ticker(tickKeysReadTogether)
		n += more
	}
	return int64(n)
}

// infoRocksDB writes the fields of the RocksDB section that the server itself counts.
func (r *Report) infoRocksDB(w *info.Writer, _ string) {
	rates := r.Sessions.Stats.Samples.Rates()
	for _, t := range rated {
		w.Gauge(t.name, info.PerSec, int64(rates[t.rate]))
	}
	yesNo := func(name string, is bool) {
		text := "no"
		if is {
			text = "yes"
		}
		w.Text(name, text)
	}
	work := r.Work.Status()
	yesNo("is_bgsaving", work.Saving)
	yesNo("is_compacting", work.Compacting)
}

// percentiles parses latency-tracking-info-percentiles; CONFIG has refused invalid numbers.
func (r *Report) percentiles() []float64 {
	var ps []float64
	for w := range strings.FieldsSeq(r.Config.Text("latency-tracking-info-percentiles")) {
		if p, err := strconv.ParseFloat(w, 64); err == nil {
			ps = append(ps, p)
		}
	}
	return ps
}

// Sample samples the counters whose rates INFO shows.
func (r *Report) Sample(now time.Time) {
	x := metrics.Sample{At: now}
	x.Counts[metrics.RateCommands] = r.Sessions.Stats.Commands.Load()
	x.Counts[metrics.RateNetIn], x.Counts[metrics.RateNetOut] = r.Sessions.Stats.NetIn.Load(),
		r.Sessions.Stats.NetOut.Load()
	x.Counts[metrics.RateReplIn], x.Counts[metrics.RateReplOut] = r.Replica.Received(), r.Master.Sent()
	for _, t := range rated {
		x.Counts[t.rate] = r.rateTicker(t.ticker)
	}
	r.Sessions.Stats.Samples.Add(x)
}
