package operators

import (
	"cmp"
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/server/admin"
	"github.com/basaltdb/basalt/server/command"
	"github.com/basaltdb/basalt/server/info"
	"github.com/basaltdb/basalt/server/metrics"
)

// source is an [admin.Source]: what /metrics and the console show.
type source struct{ *Options }

// Sections are those of INFO, with keys of the default namespace, and one more of RocksDB.
func (a source) Sections(f func(section string, fields []info.Field)) {
	// Percentiles follow from the histograms, which are there too.
	want := func(section string) bool { return section != "latencystats" && section != "modules" }
	a.Info.Each(want, cf.DefaultNamespace, f)
	var w info.Writer
	admin.RocksDB(a.DB, &w)
	f("RocksDB", w.Fields())
}

// Latencies are those of the commands that were called.
func (a source) Latencies(f func(admin.Latency)) {
	for i := range command.NumSpecs() {
		n := a.Sessions.Stats.Command(i)
		if n.Latency == nil {
			continue
		}
		counts, calls := n.Latency.Buckets()
		l := admin.Latency{Command: command.ByID(i).FullName(), Calls: calls, Seconds: n.Took.Seconds(),
			Buckets: make(map[float64]uint64, len(counts))}
		for j, n := range counts {
			l.Buckets[metrics.Bounds[j]] = n
		}
		f(l)
	}
}

func (a source) Vitals() (v admin.Vitals) {
	st := a.Sessions.Stats
	v.Commands, v.NetIn, v.NetOut = st.Commands.Load(), st.NetIn.Load(), st.NetOut.Load()
	v.Clients = int64(a.Sessions.Clients())
	v.Memory, _ = info.ResidentBytes()
	v.CacheHits, v.CacheMisses = admin.BlockCache(a.DB)
	v.Flushed, v.Compacted = admin.Written(a.DB)
	return v
}

func (a source) Series(f func(admin.Series)) {
	ready := admin.Series{Name: "ready", Help: "1 when /readyz says that the server is ready, else 0."}
	if a.ready() == nil {
		ready.Value = 1
	}
	f(ready)
	admin.Levels(a.DB, f)
	a.namespaces(f)
	a.replicas(f)
	a.cluster(f)
}

// maxSeriesNamespaces bounds how many namespaces have series of their own.
const maxSeriesNamespaces = 100

// namespaces are the keys of each namespace. Those with the most keys come first; the databases of redis-databases are
// in INFO.
func (a source) namespaces(f func(admin.Series)) {
	if a.Config.Databases() > 0 {
		return
	}
	type namespace struct {
		name string
		engine.KeyCount
	}
	var all []namespace
	for _, ns := range a.DB.Namespaces() {
		all = append(all, namespace{ns, a.DB.KeyCount(ns)})
	}
	f(admin.Series{Name: "namespaces", Help: "Namespaces that have had keys since the start.", Value: float64(len(all))})
	slices.SortFunc(all, func(x, y namespace) int {
		return cmp.Or(cmp.Compare(y.Keys, x.Keys), cmp.Compare(x.name, y.name))
	})
	for _, ns := range all[:min(len(all), maxSeriesNamespaces)] {
		labels := []string{"namespace", ns.name}
		f(admin.Series{Name: "namespace_keys", Help: "Keys of a namespace.", Labels: labels, Value: float64(ns.Keys)})
		f(admin.Series{Name: "namespace_expires", Help: "Keys of a namespace that will expire.", Labels: labels,
			Value: float64(ns.Expires)})
		f(admin.Series{Name: "namespace_expired_keys_total", Help: "Keys of a namespace that have expired.", Counter: true,
			Labels: labels, Value: float64(max(ns.Expired, 0))})
	}
}

// replicas are how far each connected replica is behind.
func (a source) replicas(f func(admin.Series)) {
	latest := a.DB.LatestSequence()
	for _, r := range a.Master.Replicas() {
		labels := []string{"replica", r.Remote}
		if r.Port != 0 {
			labels[1] = net.JoinHostPort(r.IP, strconv.Itoa(r.Port))
		}
		f(admin.Series{Name: "replica_offset", Help: "Sequence number that a replica has.", Labels: labels,
			Value: float64(r.Offset)})
		f(admin.Series{Name: "replica_lag", Help: "Writes by which a replica is behind, in sequence numbers.",
			Labels: labels, Value: float64(latest - min(latest, r.Offset))})
		if r.Acks {
			f(admin.Series{Name: "replica_ack_age_seconds", Help: "Time since a replica's last acknowledgement.",
				Labels: labels, Value: r.Age.Seconds()})
		}
	}
}

// cluster are the numbers of CLUSTER INFO, and the slots of this node.
func (a source) cluster(f func(admin.Series)) {
	if a.Cluster == nil {
		return
	}
	gauge := func(name, help string, n float64) { f(admin.Series{Name: name, Help: help, Value: n}) }
	flag := map[bool]float64{true: 1}
	text, err := a.Cluster.Info()
	gauge("cluster_ok", "1 when the node knows its cluster.", flag[err == nil])
	migrating, importing := false, false
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		value = strings.TrimSpace(value)
		switch n, err := strconv.ParseFloat(value, 64); {
		case err == nil && strings.HasPrefix(name, "cluster_"):
			gauge(name, "CLUSTER INFO: "+name+".", n)
		case name == "migrating_state":
			migrating = value == "start"
		case name == "import_state":
			importing = value == "start"
		}
	}
	gauge("cluster_migrating", "1 while slots move from this node to another one.", flag[migrating])
	gauge("cluster_importing", "1 while slots move from another node to this one.", flag[importing])
	own, t := 0, a.Cluster.Topology()
	for slot := range uint16(cf.NumSlots) {
		if t.Owns(slot) {
			own++
		}
	}
	gauge("cluster_own_slots", "Slots of this node.", float64(own))
}
