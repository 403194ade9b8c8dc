package server_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/basaltdb/basalt/internal/require"
	"github.com/basaltdb/basalt/server/servertest"
)

// get requests a page of the admin listener.
func get(h *servertest.Harness, t *testing.T, path, user, password string) (status int, body string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), "GET", "http://"+h.Admin().Addr().String()+path, nil)
	require.NoError(t, err)
	if user+password != "" {
		r.SetBasicAuth(user, password)
	}
	resp, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return resp.StatusCode, string(b)
}

// TestMetricsOfAServer: after some commands, /metrics of a master, a replica and a node of a cluster together have all
// metrics that the dashboard and the alert rules in scripts/metrics name, and each series once.
func TestMetricsOfAServer(t *testing.T) {
	h := servertest.Start(t, "admin-listen", "127.0.0.1:0", "admin-cache-by-family", "yes")
	c := h.Dial(t)
	for _, args := range [][]string{{"SET", "k", "v"}, {"GET", "k"}, {"HSET", "h", "f", "v"}, {"LPUSH", "k", "x"},
		{"FLUSHMEMTABLE"}, {"GET", "nothing"}} {
		c.Send(servertest.Encode(args...))
		c.Reply()
	}
	status, body := get(h, t, "/metrics", "", "")
	if status != 200 {
		t.Fatalf("%d\n%s", status, body)
	}
	seen := map[string]bool{}
	for line := range strings.Lines(body) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		series := line[:strings.LastIndexByte(line, ' ')]
		if seen[series] {
			t.Errorf("the series %s occurs twice", series)
		}
		name, _, _ := strings.Cut(series, "{")
		seen[series], seen[name] = true, true
	}
	for _, series := range []string{`basalt_cmdstat_calls_total{command="set"}`,
		`basalt_errorstat_count_total{error="WRONGTYPE"}`,
		`basalt_db_keys{db="0"}`, `basalt_rocksdb_level_files{family="metadata",level="0"}`,
		`basalt_namespace_keys{namespace="__namespace"} 2`, `basalt_info{`, "basalt_ready",
		`basalt_rocksdb_block_cache_hits_total{family="metadata"}`,
		`basalt_command_duration_seconds_count{command="hset"}`} {
		if !strings.Contains(body, series) {
			t.Errorf("no series %s", series)
		}
	}
	// Metrics of replicas only.
	r := servertest.Start(t, "admin-listen", "127.0.0.1:0")
	rc := r.Dial(t)
	rc.Send(servertest.Pipeline(replicaOf(r, h)))
	rc.Reply()
	caughtUp(t, r, h)
	servertest.Eventually(t, "the link is up", func() bool {
		_, replica := get(r, t, "/metrics", "", "")
		return strings.Contains(replica, "\nbasalt_master_link_up 1\n")
	})
	seen["basalt_master_link_up"] = true
	// Metrics of masters only, and of clusters.
	replicas := 0
	servertest.Eventually(t, "the replica is up to date", func() bool {
		_, master := get(h, t, "/metrics", "", "")
		replicas = strings.Count(master, `basalt_replica_lag{replica="127.0.0.1:`)
		return strings.Contains(master, `basalt_replica_lag{replica="`+r.Addr()+`"} 0`)
	})
	if replicas != 1 {
		t.Errorf("%d replicas", replicas)
	}
	seen["basalt_replica_lag"] = true
	node := servertest.Start(t, "admin-listen", "127.0.0.1:0", "cluster-enabled", "yes")
	nc := node.Dial(t)
	id := strings.Repeat("a", 40)
	if _, lonely := get(node, t, "/metrics", "", ""); !strings.Contains(lonely, "\nbasalt_cluster_ok 0\n") {
		t.Error("basalt_cluster_ok of a node without a topology is not 0")
	}
	nc.Want("CLUSTERX SETNODEID "+id, "+OK\r\n")
	nc.Send(servertest.Encode("CLUSTERX", "SETNODES", id+" 127.0.0.1 "+node.Addr()[len("127.0.0.1:"):]+" master - 0-99",
		"1"))
	nc.Reply()
	_, clustered := get(node, t, "/metrics", "", "")
	for _, line := range []string{"basalt_cluster_ok 1", "basalt_cluster_own_slots 100",
		"basalt_cluster_slots_assigned 100",
		"basalt_cluster_known_nodes 1", "basalt_cluster_migrating 0"} {
		if !strings.Contains(clustered, "\n"+line+"\n") {
			t.Errorf("a node of a cluster has no line %s", line)
		}
		name, _, _ := strings.Cut(line, " ")
		seen[name] = true
	}
	promtool(t, body, "check", "metrics")
	promtool(t, "", "check", "rules", "../scripts/metrics/alerts.yml")
	n := 0
	for _, file := range []string{"grafana.json", "alerts.yml"} {
		text := require.File(t, "../scripts/metrics/"+file)
		if strings.HasSuffix(file, ".json") && !json.Valid(text) {
			t.Errorf("%s is not JSON", file)
		}
		for _, name := range regexp.MustCompile(`\b(basalt|go)_[a-z0-9_]+`).FindAllString(string(text), -1) {
			if n++; !seen[name] {
				t.Errorf("%s names %s, which does not exist", file, name)
			}
		}
	}
	if n < 30 {
		t.Errorf("the dashboard and the alert rules name only %d metrics", n)
	}
	if t.Failed() {
		t.Log(body)
	}
}

// promtool runs Prometheus's tool, if it is installed, with metrics as its input. It must find no problem.
func promtool(t *testing.T, metrics string, args ...string) {
	t.Helper()
	path, err := exec.LookPath("promtool")
	if err != nil {
		t.Log("promtool is not installed")
		return
	}
	cmd := exec.CommandContext(t.Context(), path, args...)
	cmd.Stdin = strings.NewReader(metrics)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("promtool %q: %v\n%s", args, err, out)
	}
}

// TestNamespaceSeries: only the namespaces with the most keys have series of their own.
func TestNamespaceSeries(t *testing.T) {
	h := servertest.Start(t, "admin-listen", "127.0.0.1:0", "requirepass", "p", "repl-namespace-enabled", "yes")
	c := h.Dial(t)
	c.Want("AUTH p", "+OK\r\n")
	const namespaces = 120
	for i := range namespaces {
		c.Want(fmt.Sprintf("NAMESPACE ADD n%d t%d", i, i), "+OK\r\n")
		d := h.Dial(t)
		d.Want(fmt.Sprintf("AUTH t%d", i), "+OK\r\n")
		d.Want("SET k v", "+OK\r\n")
		if i == namespaces-1 {
			d.Want("SET l v EX 1000", "+OK\r\n")
		}
	}
	_, body := get(h, t, "/metrics", "", "")
	if n := strings.Count(body, "\nbasalt_namespace_keys{"); n != 100 {
		t.Errorf("%d namespaces have series", n)
	}
	for _, line := range []string{`basalt_namespace_keys{namespace="n119"} 2`,
		`basalt_namespace_expires{namespace="n119"} 1`} {
		if !strings.Contains(body, "\n"+line+"\n") {
			t.Errorf("no line %s", line)
		}
	}
}

// TestAdminDoor: /readyz follows the server's state, and profiles require an administrator's password if the default
// user has one.
func TestAdminDoor(t *testing.T) {
	h := servertest.Start(t, "admin-listen", "127.0.0.1:0")
	want := func(path, user, password string, status int) {
		t.Helper()
		if got, body := get(h, t, path, user, password); got != status {
			t.Errorf("%s as %q: %d %s, want %d", path, user, got, body, status)
		}
	}
	want("/healthz", "", "", 200)
	want("/readyz", "", "", 200)
	want("/debug/pprof/goroutine", "", "", 200) // no password is set
	c := h.Dial(t)
	c.Send(servertest.Encode("ACL", "SETUSER", "reader", "on", ">r", "+get", "~*"))
	c.Reply()
	c.Send(servertest.Encode("CONFIG", "SET", "requirepass", "secret"))
	c.Reply()
	want("/debug/pprof/goroutine", "", "", 401)
	want("/debug/pprof/goroutine", "reader", "r", 401)
	want("/debug/pprof/goroutine", "", "wrong", 401)
	want("/debug/pprof/goroutine", "", "secret", 200)
	want("/debug/pprof/goroutine", "default", "secret", 200)
	if got := c.Do("ACL", "LOG", "1"); !strings.Contains(got, "/debug/pprof") ||
		!strings.Contains(got, "addr=127.0.0.1:") {
		t.Errorf("ACL LOG after a wrong password: %q", got)
	}
	want("/metrics", "", "", 200)
	h.Sessions().Limits.Full.Store(true)
	want("/readyz", "", "", 503)
	want("/healthz", "", "", 200)
}

// The server does not start if the address of admin-listen is in use.
func TestAdminListenInUse(t *testing.T) {
	h := servertest.Start(t, "admin-listen", "127.0.0.1:0")
	_, err := servertest.TryStart(t, "admin-listen", h.Admin().Addr().String())
	if err == nil || !strings.HasPrefix(err.Error(), "admin-listen: ") {
		t.Error(err)
	}
}
