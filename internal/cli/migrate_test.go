package cli

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/basaltdb/basalt/internal/migrate"
	"github.com/basaltdb/basalt/server/servertest"
)

// The exit code and the output of a comparison and of a migration.
func TestMigrateCommand(t *testing.T) {
	from, to := servertest.Start(t), servertest.Start(t)
	a, b := from.Dial(t), to.Dial(t)
	a.Want("SET k v", "+OK\r\n")
	b.Want("SET k w", "+OK\r\n")
	for _, tt := range []struct {
		flags       string
		code        int
		out, stderr string
	}{
		{"--compare-only", ExitPartial, "1 key compared, 1 differ, in", "the two differ"},
		{"", ExitError, "", "the target is not empty: --replace"},
		{"--compare-only --cutover", ExitUsage, "", "--compare-only compares, and nothing else"},
		{"--cutover --follow", ExitUsage, "", "exclude each other"},
		{"--replace", ExitOK, "1 key compared, 0 differ, in", ""},
		{"--cutover", ExitOK, "the cut-over is done: point the clients to " + to.Addr(), ""},
		{"--compare-only", ExitOK, "1 key compared, 0 differ, in", ""},
	} {
		args := append([]string{"migrate", "--from", from.Addr(), "--to", to.Addr()}, strings.Fields(tt.flags)...)
		code, out, stderr := run(t, args...)
		if code != tt.code || !strings.Contains(out, tt.out) || !strings.Contains(stderr, tt.stderr) ||
			(stderr == "") != (tt.stderr == "") {
			t.Errorf("%s: %d, %q, %q", tt.flags, code, out, stderr)
		}
	}
	b.Want("SET k w", "+OK\r\n")
	code, out, _ := run(t, "migrate", "--from", from.Addr(), "--to", to.Addr(), "--compare-only", "--json")
	var r migrate.Result
	if err := json.Unmarshal([]byte(out), &r); err != nil || code != ExitPartial ||
		r.Comparison.Differences[0].Key != "k" {
		t.Errorf("%d, %v, %s", code, err, out)
	}
	if code, _, stderr := run(t, "migrate", "--from", "nowhere", "--to", to.Addr()); code != ExitUsage {
		t.Errorf("%d, %q", code, stderr)
	}
}
