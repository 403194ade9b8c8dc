package report

import (
	"strconv"
	"strings"
	"time"

	"github.com/basaltdb/basalt/server/info"
	"github.com/basaltdb/basalt/server/replication/replica"
)

// infoReplication writes the fields of Kvrocks and of Redis, in Redis's order. Offsets are sequence numbers; a lag is
// the number of missing writes.
func (r *Report) infoReplication(w *info.Writer, _ string) {
	latest := r.DB.LatestSequence()
	number := func(name string, n int64) { w.Gauge(name, info.None, n) }
	if _, _, replica := r.Config.Master(); replica {
		r.infoMaster(w)
	} else {
		w.Text("role", "master")
	}
	replicas := r.Master.Replicas()
	number("connected_slaves", int64(len(replicas)))
	if r.Config.Int("min-replicas-to-write") > 0 && r.Config.Int("min-replicas-max-lag") > 0 {
		number("min_slaves_good_slaves", int64(r.Master.GoodReplicas()))
	}
	for i, o := range replicas {
		label := strconv.Itoa(i)
		w.Record("slave"+label, label, func(w *info.Writer) {
			w.Text("ip", o.IP)
			w.Gauge("port", info.None, int64(o.Port))
			w.Text("state", "online")
			w.Gauge("offset", info.None, int64(o.Offset))
			w.Gauge("lag", info.None, int64(latest-min(latest, o.Offset)))
		})
	}
	w.Text("master_failover_state", r.Master.FailoverState())
	w.Text("master_replid", r.RunID)
	w.Text("master_replid2", strings.Repeat("0", len(r.RunID)))
	number("master_repl_offset", int64(latest))
	number("second_repl_offset", -1)
	st := r.Master.Stats()
	w.Flag("repl_backlog_active", len(replicas) > 0)
	w.Gauge("repl_backlog_size", info.Bytes, r.Config.Int("repl-backlog-size"))
	number("repl_backlog_first_byte_offset", int64(st.BacklogFirst))
	w.Gauge("repl_backlog_histlen", info.Bytes, st.BacklogBytes)
}

// infoMaster writes the fields of INFO about the master.
func (r *Report) infoMaster(w *info.Writer) {
	host, port, _ := r.Config.Master()
	st, _ := r.Replica.Status()
	up := st.State == replica.Connected && !st.LastIO.IsZero()
	lastIO := int64(-1)
	if !st.LastIO.IsZero() {
		lastIO = int64(time.Since(st.LastIO) / time.Second)
	}
	number := func(name string, n int64) { w.Gauge(name, info.None, n) }
	w.Text("role", "slave")
	w.Text("master_host", host)
	n, _ := strconv.ParseInt(port, 10, 64)
	number("master_port", n)
	w.Text("master_link_status", map[bool]string{true: "up", false: "down"}[up])
	w.Text("master_sync_unrecoverable_error", "no")
	w.Flag("master_sync_in_progress", st.State.Syncing())
	w.Gauge("master_last_io_seconds_ago", info.Seconds, lastIO)
	number("slave_read_repl_offset", st.Offset)
	number("slave_repl_offset", st.Offset)
	if !up {
		w.Gauge("master_link_down_since_seconds", info.Seconds, int64(max(time.Since(st.DownSince), 0)/time.Second))
		w.Text("master_link_state", st.State.String())
		w.Text("master_link_error", st.Err)
	}
	if p := st.Sync; st.State.Syncing() {
		w.Gauge("master_sync_total_bytes", info.Bytes, p.Bytes)
		w.Gauge("master_sync_read_bytes", info.Bytes, p.BytesDone)
		w.Gauge("master_sync_left_bytes", info.Bytes, max(p.Bytes-p.BytesDone, 0))
		number("master_sync_total_files", int64(p.Files))
		number("master_sync_read_files", int64(p.FilesDone))
		w.Gauge("master_sync_bytes_per_second", info.Bytes, p.Rate)
		w.Gauge("master_sync_left_seconds", info.Seconds, int64(p.Left/time.Second))
	}
	w.Counter("slave_full_syncs", info.None, st.FullSyncs)
	number("slave_priority", r.Config.Int("slave-priority"))
	w.Flag("slave_read_only", r.Config.Bool("slave-read-only"))
	w.Flag("replica_announced", true)
}
