package info

import (
	"encoding/json"
	"maps"
	"strings"
	"testing"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/enginetest"
	"github.com/basaltdb/basalt/engine/str"
	"github.com/basaltdb/basalt/internal/require"
	"github.com/basaltdb/basalt/server/command"
)

func everything(string) bool { return true }

// sample has a field of every kind in two sections, one of which two add to.
func sample() *Sections {
	var s Sections
	s.Register(Section{"First", func(w *Writer, ns string) {
		w.Text("text", `say "`+ns+`"`)
		w.Flag("flag", true)
		w.Gauge("gauge", None, -1)
		w.Counter("counter", Bytes, 1<<60+1)
	}}, Section{"Second", func(w *Writer, _ string) {
		w.Comment("for people")
		w.Float("float", None, 1.005)
		w.Float("share", Percent, 12.345)
		w.Percent("percent", 1, 3)
		w.Percent("of_nothing", 1, 0)
		w.Human("bytes", 1536)
	}}, Section{"First", func(w *Writer, _ string) {
		w.Of("of", "label", Gauge, None, 1)
		w.Record("cmdstat_a|b", "a|b", func(w *Writer) {
			w.Counter("calls", None, 2)
			w.Float("usec_per_call", Microseconds, 0.5)
		})
	}})
	return &s
}

func TestText(t *testing.T) {
	const first = "# First\r\ntext:say \"ns\"\r\nflag:1\r\ngauge:-1\r\ncounter:1152921504606846977\r\nof[label]:1\r\n" +
		"cmdstat_a|b:calls=2,usec_per_call=0.50\r\n"
	const second = "# Second\r\n# for people\r\nfloat:1.00\r\nshare:12.35%\r\npercent: 33%\r\nof_nothing: 0%\r\n" +
		"bytes:1536\r\nbytes_human:1.50K\r\n"
	s := sample()
	if got, want := s.Text(everything, "ns"), first+"\r\n"+second; got != want {
		t.Errorf("%q\nwant\n%q", got, want)
	}
	if got := s.Text(func(name string) bool { return name == "second" }, "ns"); got != second {
		t.Errorf("one section: %q", got)
	}
	if got := s.Text(func(string) bool { return false }, "ns"); got != "" {
		t.Errorf("no section: %q", got)
	}
}

func TestJSON(t *testing.T) {
	got := sample().JSON(everything, "ns")
	const want = `{"First":{"text":"say \"ns\"","flag":true,"gauge":-1,"counter":1152921504606846977,"of[label]":1,` +
		`"cmdstat_a|b":{"calls":2,"usec_per_call":0.50}},` +
		`"Second":{"float":1.00,"share":12.35,"percent":33,"of_nothing":0,"bytes":1536,"bytes_human":"1.50K"}}`
	if got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
	if !json.Valid([]byte(got)) {
		t.Error("it is not valid")
	}
	if got := sample().JSON(func(string) bool { return false }, "ns"); got != "{}" {
		t.Errorf("no section: %s", got)
	}
}

// An exporter sees families and labels, and the constants that no section writes.
func TestEach(t *testing.T) {
	var s Sections
	s.Register(Section{"Clients", func(w *Writer, _ string) {
		w.Gauge("cluster_connections", None, 7)
		w.Of("usage", "default", Gauge, Bytes, 1)
		w.Record("cmdstat_get", "get", func(*Writer) {})
		w.Record("db0", "0", func(*Writer) {})
	}})
	s.Each(everything, "", func(name string, fields []Field) {
		var got []string
		for _, f := range fields {
			got = append(got, f.Name+" "+f.Family+" "+f.Label)
			if f.Name == "cluster_connections" && f.Value() != 7 {
				t.Errorf("a constant replaces a value: %+v", f)
			}
		}
		const want = "cluster_connections  ,usage[default] usage default,cmdstat_get cmdstat get,db0 db " +
			"0,clients_in_timeout_table  "
		if strings.Join(got, ",") != want {
			t.Errorf("%q, want %q", got, want)
		}
	})
}

func TestHuman(t *testing.T) {
	for n, want := range map[int64]string{0: "0B", 1023: "1023B", 1024: "1.00K", 1536: "1.50K", 1 << 20: "1.00M",
		5 << 30: "5.00G", 3 << 40: "3.00T"} {
		if got := Human(n); got != want {
			t.Errorf("%d: %s, want %s", n, got, want)
		}
	}
}

func TestStallCounters(t *testing.T) {
	want := map[string]int64{"level0_file_limit_slowdown": 1, "level0_file_limit_slowdown_with_ongoing_compaction": 2,
		"pending_compaction_bytes_stop": 3}
	for _, text := range []string{"Stalls(count): 1 level0_slowdown, 2 level0_slowdown_with_compaction, " +
		"3 stop for pending_compaction_bytes, interval 0 total count",
		"Write Stall (count): cf-l0-file-count-limit-delays-with-ongoing-compaction: 2, l0-file-count-limit-delays: 1, " +
			"pending-compaction-bytes-stops: 3, total-delays: 7, interval: 0 total count"} {
		if got := stalls("Cumulative\n" + text + "\n\n"); !maps.Equal(got, want) {
			t.Errorf("%s: %v", text, got)
		}
	}
	// The line is there in the RocksDB that is linked.
	db := enginetest.Open(t)
	have := stalls(db.FamilyProperty(cf.Metadata, "rocksdb.cfstats-no-file-histogram"))
	for _, c := range stallCounters {
		if _, ok := have[c.field]; !ok {
			t.Errorf("RocksDB's statistics have no %q: %v", c.field, have)
		}
	}
}

// The sections about the database and the process have values.
func TestSectionsOfTheDatabase(t *testing.T) {
	db := enginetest.Open(t)
	require.NoError(t, db.Update(cf.DefaultNamespace, [][]byte{[]byte("k")}, func(tx *engine.Tx) error {
		_, err := str.Set(tx, []byte("k"), []byte("v"), str.SetOptions{})
		return err
	}))
	memory := &Memory{DB: db, Budget: 1 << 30, StartupRSS: 1 << 20, DiskSize: func() uint64 { return 50 },
		Clients: func() []command.ClientInfo { return []command.ClientInfo{{QueryBuf: 100}} },
		Scripts: func() (int64, int64) { return 11, 12 },
	}
	keys := &Keyspace{DB: db, Databases: func() int64 { return 0 }, DiskSize: memory.DiskSize,
		MaxSize: func() int64 { return 200 }}
	var s Sections
	s.Register(Section{"Memory", memory.Fields}, Section{"CPU", CPU}, Section{"Keyspace", keys.Fields},
		Section{"RocksDB", RocksDB{db}.Fields})
	values := map[string]Field{}
	s.Each(everything, cf.DefaultNamespace, func(_ string, fields []Field) {
		for _, f := range fields {
			values[f.Name] = f
		}
	})
	for _, name := range []string{"used_memory", "used_memory_rss", "memory_budget", "mem_clients_normal", "used_cpu_user",
		"used_memory_accounted", "total_system_memory", "disk_capacity", "sequence", "estimate_keys[metadata]"} {
		if f, ok := values[name]; !ok || f.Value() <= 0 {
			t.Errorf("%s: %+v", name, f)
		}
	}
	if f := values["db0"]; len(f.Parts) == 0 || f.Parts[0].Int != 1 {
		t.Errorf("db0: %+v", f)
	}
	if f := values["used_percent"]; f.Int != 25 {
		t.Errorf("used_percent: %+v", f)
	}
	stats := map[string]int64{}
	for _, st := range memory.Stats() {
		stats[st.Name] = st.Value
	}
	if stats["lua.caches"] != 11 || stats["functions.caches"] != 12 || stats["keys.count"] != 1 ||
		stats["keys.bytes-per-key"] != 50 {
		t.Errorf("MEMORY STATS: %v", stats)
	}
	if got := memory.Report(); !strings.Contains(got, "budget 1.00G") {
		t.Errorf("MEMORY DOCTOR: %s", got)
	}
}

func TestTickers(t *testing.T) {
	db := enginetest.Open(t)
	for _, x := range tickers {
		if _, ok := db.Ticker(x.name); !ok {
			t.Errorf("RocksDB has no %s", x.name)
		}
	}
}
