package server_test

import (
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"go.uber.org/zap"

	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/enginetest"
	"github.com/basaltdb/basalt/internal/fixture"
	"github.com/basaltdb/basalt/internal/require"
	"github.com/basaltdb/basalt/server"
	"github.com/basaltdb/basalt/server/command"
	"github.com/basaltdb/basalt/server/servertest"
)

// serveFixture serves a copy of the data directory that a Kvrocks wrote.
func serveFixture(t *testing.T) (*servertest.Harness, string) {
	t.Helper()
	dir := t.TempDir()
	fixture.Unpack(t, dir)
	db := enginetest.OpenPlain(t, engine.Options{Dir: dir + "/db"})
	s := server.New(servertest.Config(t, "requirepass", fixture.Password, "namespace."+fixture.Namespace,
		fixture.NamespaceToken),
		db, zap.NewNop())
	require.NoError(t, s.Start())
	t.Cleanup(func() { // the test may have closed both itself
		s.Close()
		db.Close()
	})
	return &servertest.Harness{Server: s, DB: db}, dir
}

// permitted are the recorded reads whose replies differ from Kvrocks's on purpose, with the reasons.
var permitted = map[string]string{
	"FUNCTION LIST":        "as Redis, with the engine and the functions",
	"STRLEN bitmap:sparse": "in Redis a bitmap is a string; Kvrocks replies with an error",
}

// known reports whether this version has the command.
func known(args []string) bool { return command.Lookup([]byte(args[0])) != nil }

// onStream reports whether a read is one of those that TestKvrocksStreams checks.
func onStream(args []string) bool {
	return slices.ContainsFunc(args, func(a string) bool { return strings.HasPrefix(a, "stream:") })
}

// wantFixture checks that the recorded reads get Kvrocks's replies, and returns the number of the reads checked. It
// leaves out the reads that have their own tests.
func wantFixture(c *servertest.Client) (checked int) {
	c.T.Helper()
	for _, r := range fixture.Reads(c.T) {
		if !known(r.Args) || r.Args[0] == "NAMESPACE" || r.Args[0] == "KEYS" || onStream(r.Args) ||
			permitted[strings.Join(r.Args, " ")] != "" {
			continue
		}
		want := string(r.Reply.AppendRESP2(nil))
		if got := c.Do(r.Args...); got != want && !sameNumbers(got, want) {
			c.T.Errorf("%q: %q, Kvrocks replied %q", r.Args, got, want)
		}
		checked++
	}
	return checked
}

// TestKvrocksDataDirectory runs the recorded reads on a data directory of Kvrocks and expects Kvrocks's replies. Then
// it writes to the directory, which RocksDB's ldb must be able to read afterwards.
func TestKvrocksDataDirectory(t *testing.T) {
	h, dir := serveFixture(t)
	c := h.Dial(t)
	checked := wantFixture(c)
	if checked < 50 {
		t.Errorf("only %d of the recorded reads were checked", checked)
	}
	c.Want("AUTH "+fixture.Password, "+OK\r\n")
	c.Want("HSET hash:small added 1", ":1\r\n")
	c.Want("ZADD zset:mixed 7 added", ":1\r\n")
	c.Want("LPUSH list:r added", ":6\r\n")
	c.Want("SET str:added v", "+OK\r\n")
	c.Want("DEL str:plain", ":1\r\n")
	h.Close()
	require.NoError(t, h.DB.Close())
	for _, args := range [][]string{
		{"list_column_families"},
		{"--column_family=metadata", "scan", "--hex"},
		{"--column_family=zset_score", "scan", "--hex"},
	} {
		out, err := exec.Command("ldb", append([]string{"--db=" + dir + "/db"}, args...)...).CombinedOutput()
		if err != nil {
			t.Errorf("ldb %s: %v\n%s", strings.Join(args, " "), err, out)
		}
		if len(args) > 1 && strings.Count(string(out), "0x") < 20 {
			t.Errorf("ldb %s printed %d bytes: %.300s", strings.Join(args, " "), len(out), out)
		}
	}
}

// sameNumbers compares two replies line by line. Two lines are also equal if they are the same number in two forms:
// this server prints doubles like Redis 7.2, 0.1, and Kvrocks prints 0.10000000000000001.
func sameNumbers(a, b string) bool {
	x, y := strings.Split(a, "\r\n"), strings.Split(b, "\r\n")
	if len(x) != len(y) {
		return false
	}
	for i := range x {
		if x[i] == y[i] || strings.HasPrefix(x[i], "$") && strings.HasPrefix(y[i], "$") {
			continue
		}
		f, err := strconv.ParseFloat(x[i], 64)
		g, err2 := strconv.ParseFloat(y[i], 64)
		if err != nil || err2 != nil || f != g {
			return false
		}
	}
	return true
}

// deliberate are the commands whose records have other values than Kvrocks's on purpose, with the reasons. The keys of
// the records are the same.
var deliberate = map[string]string{
	"XREADGROUP": "an entry is delivered at the present time, once, and counts as read; Kvrocks stores no time and no " +
		"count, and does not always count the reading",
	"XACK": "the record of the group has the count of XREADGROUP",
}

// unlogged are the commands that are written to the log for replicas only; the server of the test has none.
var unlogged = map[string]bool{"PUBLISH": true}

var streamValue = regexp.MustCompile(`(?m)(put stream .*) = .*$`)

// TestWriteBatchesAreKvrocks compares the write batch of each recorded command with Kvrocks's batch: both must have the
// same records in the same families in the same order, log data included. Versions are replaced by numbers, in the
// order of their first occurrence in the batch.
func TestWriteBatchesAreKvrocks(t *testing.T) {
	h := servertest.Start(t)
	c := h.Dial(t)
	rec := fixture.LoadReplication(t, fixture.PlainReplication)
	compared := 0
	for _, cmd := range rec.Commands {
		if !known(cmd.Args) || unlogged[strings.ToUpper(cmd.Args[0])] {
			continue
		}
		var ours, theirs fixture.Renderer
		from := h.DB.LatestSequence() + 1
		c.Do(cmd.Args...)
		var want, got []string
		for _, b := range cmd.Batches {
			lines, err := theirs.Lines(b.Rep)
			require.NoError(t, err)
			want = append(want, lines...)
		}
		for _, rep := range enginetest.LogFrom(t, h.DB, from) {
			lines, err := ours.Lines(rep)
			require.NoError(t, err)
			got = append(got, lines...)
		}
		w, g := normalise(want), normalise(got)
		if deliberate[strings.ToUpper(cmd.Args[0])] != "" {
			w, g = streamValue.ReplaceAllString(w, "$1"), streamValue.ReplaceAllString(g, "$1")
		}
		if w != g {
			t.Errorf("%q\nKvrocks wrote:\n%s\nwe write:\n%s", cmd.Args, w, g)
		}
		compared++
	}
	if compared < 20 {
		t.Errorf("only %d commands were compared", compared)
	}
}

// recentTime matches times near the time of the recording and near the present: the expiries that EXPIRE writes.
var recentTime = regexp.MustCompile(`\b1[789]\d{11}\b`)

// normalise joins the lines of a batch and replaces the times that depend on the clock.
func normalise(lines []string) string {
	return recentTime.ReplaceAllString(strings.Join(lines, "\n"), "TIME")
}
