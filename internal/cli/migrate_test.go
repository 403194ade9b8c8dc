package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/basaltdb/basalt/internal/migrate"
	"github.com/basaltdb/basalt/internal/require"
	"github.com/basaltdb/basalt/internal/testcert"
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
		{"--compare-only --cutover", ExitUsage, "", "--compare-only excludes the flags of a migration"},
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

// Passwords stand in files, and servers with TLS get certificates; the other commands that reach a server take them in
// the same way.
func TestCertificates(t *testing.T) {
	ca := testcert.New(t)
	cert, key := ca.Issue("server")
	start := func(password string) *servertest.Harness {
		return servertest.StartOnPorts(t, func() []string {
			return []string{"tls-port", servertest.FreePort(t), "tls-cert-file", cert, "tls-key-file", key,
				"tls-ca-cert-file", ca.File, "tls-auth-clients", "yes", "tls-replication", "yes", "requirepass", password}
		})
	}
	from, to := start("secret of from"), start("secret of to")
	dir := t.TempDir()
	password := func(name string) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte("secret of "+name+"\n"), 0o600))
		return path
	}
	flags := []string{"--cacert", ca.File, "--cert", cert, "--key", key}
	migrate := append([]string{"migrate", "--from", "rediss://" + from.Addr(), "--to", "rediss://" + to.Addr(),
		"--from-password-file", password("from"), "--to-password-file", password("to")}, flags...)
	file := filepath.Join(dir, "file")
	require.NoError(t, os.WriteFile(file, []byte("SET k v\r\n"), 0o600))
	one := append([]string{"--password-file", password("from")}, flags...)
	for _, tt := range []struct {
		args []string
		code int
		want string // in what is printed
	}{
		{append([]string{"import", file, "--to", from.Addr()}, one...), ExitOK, ""},
		{append([]string{"export", "--from", from.Addr(), "--format", "jsonl", "--to", "-"}, one...), ExitOK, `"v"`},
		{migrate, ExitOK, "1 key compared, 0 differ"},
		{slices.Concat(migrate, []string{"--compare-only", "--cacert", file}), ExitError,
			"--cacert: " + file + " contains no certificate"},
		{slices.Concat(migrate, []string{"--compare-only", "--cert", ""}), ExitUsage,
			"--cert and --key must be given together"},
		{slices.Concat(migrate, []string{"--to-password-file", "missing"}), ExitError, "--to-password-file: open missing"},
		{append([]string{"migrate", "--from", from.Addr(), "--to", to.Addr()}, flags...), ExitUsage, "rediss://"},
	} {
		code, out, stderr := run(t, tt.args...)
		if code != tt.code || !strings.Contains(out+stderr, tt.want) {
			t.Errorf("%q: %d, %q, %q", tt.args, code, out, stderr)
		}
	}
}
