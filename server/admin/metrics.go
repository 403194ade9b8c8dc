package admin

import (
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/basaltdb/basalt/server/info"
)

// Source provides the values of /metrics. Several goroutines may call its methods.
type Source interface {
	// Sections calls f with the fields of each section of INFO.
	Sections(f func(section string, fields []info.Field))
	// Latencies calls f with the measured calls of each command.
	Latencies(f func(Latency))
	// Series calls f with values that INFO does not have.
	Series(f func(Series))
	// Vitals returns the values that the console plots. It is called every few seconds.
	Vitals() Vitals
}

// Series is a number with labels. All series of a name have the same labels and help.
type Series struct {
	Name    string // without the prefix basalt_
	Help    string
	Counter bool
	Labels  []string // names and values, alternating
	Value   float64
}

// Vitals are the counters and gauges that the console plots.
type Vitals struct {
	Commands, NetIn, NetOut, Clients, Memory   int64
	CacheHits, CacheMisses, Flushed, Compacted int64 // of the block cache; bytes
}

// Latency describes the durations of the calls of one command.
type Latency struct {
	Command string
	Calls   uint64
	Seconds float64 // total of all calls
	// Buckets maps a bound in seconds to the number of calls up to it. All commands have the same bounds.
	Buckets map[float64]uint64
}

// collector turns the fields of INFO into metrics. The name of a metric is basalt_ followed by that of the field; the
// name of a counter ends in _total, and a unit is part of the name:
//
//	total_commands_processed:5            basalt_commands_processed_total 5
//	used_memory:1024                      basalt_used_memory_bytes 1024
//	cmdstat_get:calls=3,usec=6            basalt_cmdstat_calls_total{command="get"} 3
//	                                      basalt_cmdstat_usec_total{command="get"} 6
//	estimate_keys[default]:7              basalt_estimate_keys{family="default"} 7
//
// Texts are not metrics, except for states, which are 1 or 0, and a few that become labels of basalt_info.
type collector struct{ source Source }

// Describe describes nothing: the fields depend on the server's state.
func (c *collector) Describe(chan<- *prometheus.Desc) {}

func (c *collector) Collect(to chan<- prometheus.Metric) {
	s := series{to: to, seen: map[string]bool{}, keys: map[string]string{}, about: prometheus.Labels{}}
	c.source.Sections(func(section string, fields []info.Field) {
		for i := range fields {
			s.add(section, &fields[i])
		}
	})
	s.send("basalt_info", "What runs: always 1.", prometheus.GaugeValue, 1, s.about)
	c.source.Series(s.series)
	c.source.Latencies(func(l Latency) {
		desc := prometheus.NewDesc("basalt_command_duration_seconds", "How long calls of commands take.",
			[]string{"command"}, nil)
		if m, err := prometheus.NewConstHistogram(desc, l.Calls, l.Seconds, l.Buckets, l.Command); err == nil {
			to <- m
		}
	})
}

// about maps the texts of INFO to labels of basalt_info.
var about = map[string]string{
	"basalt_version": "version", "redis_version": "redis_version", "rocksdb_version": "rocksdb_version",
	"go_version": "go_version", "role": "role", "run_id": "run_id", "os": "os", "arch_bits": "arch_bits",
}

// states maps texts of INFO that describe health to metrics, which are 1 for the healthy text and 0 otherwise.
var states = map[string]struct{ metric, well string }{
	"master_link_status":     {"basalt_master_link_up", "up"},
	"rdb_last_bgsave_status": {"basalt_rdb_last_bgsave_ok", "ok"},
	"aof_last_write_status":  {"basalt_aof_last_write_ok", "ok"},
}

// labels maps a family of repeated fields to the name of its label; the default is "name".
var labels = map[string]string{"cmdstat": "command", "latency_percentiles_usec": "command", "errorstat": "error",
	"db": "db", "derived_state": "kind"}

// left are fields that do not become metrics: other metrics have the same value in Prometheus's units, or with better
// labels.
var left = map[string]bool{"arch_bits": true, "uptime_in_days": true, "slave": true}

// series sends the metrics of one collection, each once: a field may appear in two sections.
type series struct {
	to    chan<- prometheus.Metric
	seen  map[string]bool
	keys  map[string]string // the label of each metric, by its name: all series of a name have the same
	about prometheus.Labels
}

func (s *series) add(section string, f *info.Field) {
	name, label := f.Name, prometheus.Labels{}
	if left[f.Name] || left[f.Family] {
		return
	}
	if f.Label != "" {
		name = f.Family
		key := labels[f.Family]
		switch {
		case key != "":
		case strings.EqualFold(section, "rocksdb"):
			key = "family"
		default:
			key = "name"
		}
		label[key] = f.Label
	}
	switch f.Kind {
	case info.Record:
		for i := range f.Parts {
			part := f.Parts[i]
			part.Name = name + "_" + part.Name
			s.number(section, &part, part.Name, label)
		}
	case info.Text:
		if key, ok := about[f.Name]; ok {
			s.about[key] = f.Text
		}
		if state, ok := states[f.Name]; ok {
			value := 0.0
			if f.Text == state.well {
				value = 1
			}
			s.send(state.metric, "INFO "+strings.ToLower(section)+": 1 when "+f.Name+" is "+state.well+", else 0.",
				prometheus.GaugeValue, value, nil)
		}
	default:
		s.number(section, f, name, label)
	}
}

// number sends a field that has a number.
func (s *series) number(section string, f *info.Field, name string, label prometheus.Labels) {
	kind := prometheus.GaugeValue
	value := f.Value()
	switch f.Kind {
	case info.Text, info.Comment, info.Record:
		return
	case info.Counter:
		kind = prometheus.CounterValue
		name = strings.TrimPrefix(name, "total_")
	}
	switch f.Unit {
	case info.Bytes:
		name = ended(name, "_bytes")
	case info.Seconds:
		name = ended(strings.TrimSuffix(name, "_sec"), "_seconds")
	case info.PerSec:
		name = ended(strings.TrimSuffix(name, "_per_sec"), "_per_second")
	case info.Microseconds:
		name, value = ended(strings.TrimSuffix(name, "_usec"), "_seconds"), value/1e6
	case info.UnixTime:
		name = ended(name, "_timestamp_seconds")
	case info.KiBPerSec:
		name, value = ended(strings.TrimSuffix(name, "_kbps"), "_bytes_per_second"), value*1024
	}
	if kind == prometheus.CounterValue {
		name = ended(name, "_total")
	}
	s.send("basalt_"+clean(name), "INFO "+strings.ToLower(section)+": "+f.Name, kind, value, label)
}

func (s *series) send(name, help string, kind prometheus.ValueType, value float64, label prometheus.Labels) {
	var id, key string
	for k, v := range label {
		id, key = id+"\x00"+v, k
	}
	if k, ok := s.keys[name]; ok && k != key { // derived_state_bytes, for one, exists in sum and for each kind
		base, counter := strings.CutSuffix(name, "_total")
		if name = base + "_by_" + key; counter {
			name += "_total"
		}
	}
	s.keys[name] = key
	id = name + id
	if s.seen[id] {
		return
	}
	s.seen[id] = true
	names, values := make([]string, 0, len(label)), make([]string, 0, len(label))
	for k, v := range label {
		names, values = append(names, k), append(values, strings.ToValidUTF8(v, "?"))
	}
	// The text of help must be the same for all series of a name, whatever their labels.
	if i := strings.LastIndexByte(help, ':'); len(label) > 0 && i >= 0 {
		help = help[:i] + ": " + strings.TrimPrefix(name, "basalt_")
	}
	if m, err := prometheus.NewConstMetric(prometheus.NewDesc(name, help, names, nil), kind, value,
		values...); err == nil {
		s.to <- m
	}
}

// series sends a number with labels.
func (s *series) series(x Series) {
	kind := prometheus.GaugeValue
	if x.Counter {
		kind = prometheus.CounterValue
	}
	var names, values []string
	for i := 0; i+1 < len(x.Labels); i += 2 {
		names, values = append(names, x.Labels[i]), append(values, strings.ToValidUTF8(x.Labels[i+1], "?"))
	}
	name := "basalt_" + x.Name
	id := name + "\x00" + strings.Join(values, "\x00")
	if s.seen[id] { // two names that differ in bytes that are no text
		return
	}
	s.seen[id] = true
	if m, err := prometheus.NewConstMetric(prometheus.NewDesc(name, x.Help, names, nil), kind, x.Value,
		values...); err == nil {
		s.to <- m
	}
}

// ended returns a name that ends so.
func ended(name, end string) string {
	if strings.HasSuffix(name, end) {
		return name
	}
	return name + end
}

// clean makes a name one of Prometheus's: letters, digits and underscores.
func clean(name string) string {
	return strings.Map(func(r rune) rune {
		if r == '_' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' {
			return r
		}
		return '_'
	}, name)
}
