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
	"github.com/basaltdb/basalt/internal/fixture"
	"github.com/basaltdb/basalt/server"
	"github.com/basaltdb/basalt/server/command"
	"github.com/basaltdb/basalt/server/servertest"
)

// serveFixture serves a copy of the data directory that a Kvrocks wrote.
func serveFixture(t *testing.T) (*servertest.Harness, string) {
	t.Helper()
	dir := t.TempDir()
	fixture.Unpack(t, dir)
	db, err := engine.Open(engine.Options{Dir: dir + "/db"})
	if err != nil {
		t.Fatal(err)
	}
	s := server.New(servertest.Config(t, "requirepass", fixture.Password, "namespace."+fixture.Namespace,
		fixture.NamespaceToken),
		db, zap.NewNop())
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // the test may have closed both itself
		s.Close()
		db.Close()
	})
	return &servertest.Harness{Server: s, DB: db}, dir
}

// permitted are the recorded reads that we answer otherwise on purpose.
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

// wantFixture checks that the recorded reads get the replies that Kvrocks gave, and returns how many. Left out are
// those that have a test of their own.
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

// TestKvrocksDataDirectory answers the recorded reads on Kvrocks's own data directory as Kvrocks did, writes to
// it, and lets RocksDB's ldb read it afterwards.
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
	if err := h.DB.Close(); err != nil {
		t.Fatal(err)
	}
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

// sameNumbers compares two replies line by line, where a line may also be the same number in another form: we print
// doubles as Redis 7.2 does, 0.1, and not as Kvrocks does, 0.10000000000000001.
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

// deliberate are the commands whose records have other values on purpose; their keys are Kvrocks's.
var deliberate = map[string]string{
	"XREADGROUP": "an entry is delivered at the present time, once, and counts as read; Kvrocks notes no time, no count " +
		"and not always the reading",
	"XACK": "what XREADGROUP has counted is still there",
}

// unlogged are the commands that Kvrocks writes to the log for its replicas only; here there are none.
var unlogged = map[string]bool{"PUBLISH": true}

var streamValue = regexp.MustCompile(`(?m)(put stream .*) = .*$`)

// TestWriteBatchesAreKvrocks compares the write batch of each recorded command with the one that Kvrocks made:
// the same records in the same families in the same order, log data included. Versions are numbered by their
// first appearance in the batch.
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
			if err != nil {
				t.Fatal(err)
			}
			want = append(want, lines...)
		}
		for _, rep := range batchesSince(t, h.DB, from) {
			lines, err := ours.Lines(rep)
			if err != nil {
				t.Fatal(err)
			}
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

// recentTime matches times near the recording's and near now: those of EXPIRE.
var recentTime = regexp.MustCompile(`\b1[789]\d{11}\b`)

// normalise joins the lines of a batch without what depends on the clock.
func normalise(lines []string) string {
	return recentTime.ReplaceAllString(strings.Join(lines, "\n"), "TIME")
}

func batchesSince(t *testing.T, db *engine.DB, from uint64) [][]byte {
	t.Helper()
	if db.LatestSequence() < from {
		return nil
	}
	w, err := db.WAL(from)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	var all [][]byte
	for {
		rep, _, err := w.Next()
		if err != nil {
			t.Fatal(err)
		}
		if rep == nil {
			return all
		}
		all = append(all, rep)
	}
}
