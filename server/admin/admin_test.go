package admin

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"go.uber.org/zap"

	"github.com/basaltdb/basalt/engine/enginetest"
	"github.com/basaltdb/basalt/server/info"
)

// source has one field of each kind and unit.
type source struct{}

func (source) Sections(f func(string, []info.Field)) {
	var w info.Writer
	w.Text("redis_version", "7.2.0")
	w.Text("os", "a \"quoted\" name")
	w.Text("master_link_status", "down")
	w.Text("rdb_last_bgsave_status", "ok")
	w.Gauge("uptime_in_seconds", info.Seconds, 12)
	f("Server", w.Fields())
	w = info.Writer{}
	w.Counter("total_commands_processed", info.None, 5)
	w.Gauge("used_memory", info.Bytes, 1024)
	w.Gauge("used_memory", info.Bytes, 2048) // a field that stands in two sections counts once
	w.Counter("latency_usec", info.Microseconds, 2_500_000)
	w.Flag("loading", true)
	w.Float("instantaneous_input_kbps", info.KiBPerSec, 1.5)
	w.Gauge("get_per_sec", info.PerSec, 6)
	w.Gauge("uptime_in_days", info.None, 7)
	w.Record("slave0", "0", func(w *info.Writer) { w.Gauge("lag", info.None, 1) })
	w.Comment("a line for people")
	w.Of("estimate_keys", "default", info.Gauge, info.None, 7)
	w.Gauge("kept_bytes", info.Bytes, 9)
	w.Record("kept_ranks", "ranks", func(w *info.Writer) { w.Gauge("bytes", info.Bytes, 8) })
	w.Record("cmdstat_get", "get", func(w *info.Writer) {
		w.Counter("calls", info.None, 3)
		w.Counter("usec", info.Microseconds, 6)
	})
	w.Record("cmdstat_set", "set", func(w *info.Writer) { w.Counter("calls", info.None, 4) })
	w.Record("errorstat_bad\xff", "bad\xff", func(w *info.Writer) { w.Counter("count", info.None, 1) })
	f("RocksDB", w.Fields())
}

func (source) Latencies(f func(Latency)) {
	f(Latency{Command: "get", Calls: 3, Seconds: 0.5, Buckets: map[float64]uint64{0.1: 2, 0.3: 3}})
}

func (source) Series(f func(Series)) {
	f(Series{Name: "level_files", Help: "Files.", Labels: []string{"family", "default", "level", "0"}, Value: 2})
	f(Series{Name: "level_files", Help: "Files.", Labels: []string{"family", "default", "level", "1"}, Value: 3})
	for _, ns := range []string{"a\xff", "a\xfe"} { // the same text
		f(Series{Name: "namespace_expired_total", Help: "Keys.", Counter: true, Labels: []string{"namespace", ns}, Value: 4})
	}
	f(Series{Name: "namespaces", Help: "Namespaces.", Value: 2})
}

func (source) Vitals() Vitals { return Vitals{} }

func options() Options {
	return Options{Source: source{}, Log: zap.NewNop(), Ready: func() error { return nil },
		Administrator: func(user, password, _ string) bool { return user == "ada" && password == "secret" }}
}

// get returns the status and the body of an answer.
func get(t *testing.T, h http.Handler, path, user, password string) (int, string) {
	t.Helper()
	r := httptest.NewRequest("GET", path, nil)
	if user != "" {
		r.SetBasicAuth(user, password)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Code, w.Body.String()
}

func TestMetrics(t *testing.T) {
	status, body := get(t, handler(options(), nil), "/metrics", "", "")
	if status != 200 {
		t.Fatal(status, body)
	}
	for _, line := range []string{
		"# TYPE basalt_commands_processed_total counter",
		"basalt_commands_processed_total 5",
		"basalt_used_memory_bytes 1024",
		"basalt_latency_seconds_total 2.5",
		"basalt_uptime_in_seconds 12",
		"basalt_loading 1",
		"basalt_master_link_up 0",
		"basalt_rdb_last_bgsave_ok 1",
		"basalt_instantaneous_input_bytes_per_second 1536",
		`basalt_estimate_keys{family="default"} 7`,
		`basalt_cmdstat_calls_total{command="get"} 3`,
		`basalt_cmdstat_calls_total{command="set"} 4`,
		`basalt_cmdstat_seconds_total{command="get"} 6e-06`,
		"basalt_kept_bytes 9",
		`basalt_kept_bytes_by_family{family="ranks"} 8`,
		`basalt_errorstat_count_total{error="bad?"} 1`,
		`basalt_command_duration_seconds_bucket{command="get",le="0.1"} 2`,
		`basalt_command_duration_seconds_count{command="get"} 3`,
		`basalt_level_files{family="default",level="0"} 2`,
		`basalt_level_files{family="default",level="1"} 3`,
		`basalt_namespace_expired_total{namespace="a?"} 4`,
		"basalt_namespaces 2",
		"basalt_get_per_second 6",
		`basalt_info{os="a \"quoted\" name",redis_version="7.2.0"} 1`,
		"# TYPE go_goroutines gauge",
	} {
		if !strings.Contains(body, line+"\n") {
			t.Errorf("no line %s", line)
		}
	}
	for _, name := range []string{"uptime_in_days", "slave"} { // others say the same
		if strings.Contains(body, name) {
			t.Errorf("there is a metric of %s", name)
		}
	}
	if t.Failed() {
		t.Log(body)
	}
}

func TestReadiness(t *testing.T) {
	o := options()
	for _, c := range []struct {
		err    error
		path   string
		status int
		body   string
	}{
		{nil, "/readyz", 200, "ready\n"},
		{errors.New("the disk is full"), "/readyz", 503, "the disk is full\n"},
		{errors.New("the disk is full"), "/healthz", 200, "ok\n"},
	} {
		o.Ready = func() error { return c.err }
		if status, body := get(t, handler(o, nil), c.path, "", ""); status != c.status || body != c.body {
			t.Errorf("%s with %v: %d %q", c.path, c.err, status, body)
		}
	}
}

func TestProfilesAreForAdministrators(t *testing.T) {
	h := handler(options(), nil)
	for _, c := range []struct {
		user, password string
		status         int
	}{{"", "", 401}, {"ada", "wrong", 401}, {"eve", "secret", 401}, {"ada", "secret", 200}} {
		if status, _ := get(t, h, "/debug/pprof/goroutine", c.user, c.password); status != c.status {
			t.Errorf("%s %s: %d, want %d", c.user, c.password, status, c.status)
		}
	}
}

func TestOnlyGet(t *testing.T) {
	h := handler(options(), nil)
	for _, path := range []string{"/metrics", "/healthz", "/readyz", "/debug/pprof/"} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest("POST", path, strings.NewReader("x")))
		if w.Code != http.StatusMethodNotAllowed {
			t.Errorf("POST %s: %d", path, w.Code)
		}
	}
	if status, _ := get(t, h, "/etc/passwd", "", ""); status != 404 {
		t.Error(status)
	}
}

func TestTickers(t *testing.T) {
	db := enginetest.Open(t)
	names := []string{tickCacheMiss, tickCacheHit, tickCompaction, tickFlush}
	for _, x := range tickers {
		names = append(names, x.name)
	}
	for _, name := range names {
		if _, ok := db.Ticker(name); !ok {
			t.Errorf("RocksDB has no %s", name)
		}
	}
}
