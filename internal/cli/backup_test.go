package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/enginetest"
	"github.com/basaltdb/basalt/engine/str"
	"github.com/basaltdb/basalt/internal/require"
)

// dataDir makes a data directory whose key has a value.
func dataDir(t *testing.T, dir, value string) {
	t.Helper()
	db := enginetest.OpenPlain(t, engine.Options{Dir: filepath.Join(dir, "db")})
	defer db.Close()
	require.NoError(t, db.Update(cf.DefaultNamespace, [][]byte{[]byte("key")}, func(tx *engine.Tx) error {
		_, err := str.Set(tx, []byte("key"), []byte(value), str.SetOptions{})
		return err
	}))
}

func valueIn(t *testing.T, dir string) (value string) {
	t.Helper()
	db := enginetest.OpenPlain(t, engine.Options{Dir: filepath.Join(dir, "db")})
	defer db.Close()
	require.NoError(t, db.View(cf.DefaultNamespace, [][]byte{[]byte("key")}, func(tx *engine.Tx) error {
		v, _, err := str.Get(tx, []byte("key"))
		value = string(v)
		return err
	}))
	return value
}

// TestBackupCommands makes, lists, verifies, restores and prunes backups, and damages one.
func TestBackupCommands(t *testing.T) {
	base := t.TempDir()
	data, repo := filepath.Join(base, "data"), filepath.Join(base, "repo")
	ok := func(args ...string) string {
		t.Helper()
		code, out, stderr := run(t, args...)
		if code != ExitOK || stderr != "" {
			t.Fatalf("%q: %d, %q", args, code, stderr)
		}
		return out
	}
	dataDir(t, data, "first")
	out := ok("backup", "--from", data, "--to", repo)
	output := regexp.MustCompile(`^backup (\S+)\n\d+ files with .*, of which \d+ with .* are new, in .*\n$`)
	m := output.FindStringSubmatch(out)
	if m == nil {
		t.Fatalf("%q", out)
	}
	first := m[1]
	dataDir(t, data, "second")
	var made struct {
		ID       string `json:"id"`
		Sequence uint64 `json:"sequence"`
		NewFiles int    `json:"new_files"`
	}
	if err := json.Unmarshal([]byte(ok("backup", "--from", data, "--to", repo, "--json")), &made); err != nil ||
		made.Sequence == 0 || made.NewFiles == 0 {
		t.Errorf("%+v, %v", made, err)
	}
	if out := ok("backup", "list", repo); strings.Count(out, "\n") != 3 || !strings.Contains(out, first) ||
		!strings.Contains(out, data) {
		t.Errorf("%q", out)
	}
	var list struct {
		Backups []struct{ ID string }
		Spans   []any
	}
	if err := json.Unmarshal([]byte(ok("backup", "list", "--json", repo)), &list); err != nil || len(list.Backups) != 2 ||
		list.Backups[1].ID != made.ID || list.Spans == nil {
		t.Errorf("%+v, %v", list, err)
	}
	if out := ok("backup", "verify", repo); !strings.HasPrefix(out, "2 backups, ") {
		t.Errorf("%q", out)
	}
	if out := ok("backup", "flushes", repo); out != "" {
		t.Errorf("%q", out)
	}
	ok("restore", "--from", repo, "--to", base+"/newest")
	if v := valueIn(t, base+"/newest"); v != "second" {
		t.Errorf("the newest backup has %q", v)
	}
	ok("restore", "--from", repo, "--to", base+"/first", "--at", first, "--json")
	if v := valueIn(t, base+"/first"); v != "first" {
		t.Errorf("the first backup has %q", v)
	}
	later := time.Now().Add(time.Hour).Format(time.RFC3339)
	if code, out, stderr := run(t, "restore", "--from", repo, "--to", base+"/later", "--at", later); code != ExitPartial ||
		!strings.HasPrefix(out, "restored the state of ") || !strings.Contains(stderr, "there is nothing later than ") {
		t.Errorf("a time in the future: %d, %q, %q", code, out, stderr)
	}
	out = ok("backup", "prune", repo, "--keep-last", "1")
	if !strings.HasPrefix(out, "kept: 1 backup\nremoved: 1 backup, ") {
		t.Errorf("%q", out)
	}
	damageTable(t, repo)
	for _, args := range [][]string{{"backup", "verify", repo}, {"restore", "--from", repo, "--to", base + "/damaged"}} {
		if code, out, stderr := run(t, args...); code != ExitDamage ||
			!strings.Contains(out+stderr, " is not what was stored") {
			t.Errorf("%q: %d, %q, %q", args, code, out, stderr)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if code, _, stderr := runWith(ctx, "backup", "--from", data, "--to", repo); code != ExitInterrupted {
		t.Errorf("interrupted: %d, %q", code, stderr)
	}
}

// A time in whole seconds is the end of that second for a restore, as seconds are what people know.
func TestParseEnd(t *testing.T) {
	for _, tt := range []struct{ in, want string }{
		{"2026-01-31T23:59:59Z", "2026-01-31T23:59:59.999Z"},
		{"2026-01-31T23:59:59.5Z", "2026-01-31T23:59:59.500Z"},
		{"2026-01-31T23:59:59.000+01:00", "2026-01-31T22:59:59.000Z"},
	} {
		if have, err := parseEnd(tt.in); err != nil || have.UTC().Format(exactTime) != tt.want {
			t.Errorf("%s: %v, %v, want %s", tt.in, have, err, tt.want)
		}
	}
	local, err := parseEnd("2026-01-31 23:59:59")
	if want := time.Date(2026, 1, 31, 23, 59, 59, 999e6, time.Local); err != nil || !local.Equal(want) {
		t.Errorf("%v, %v, want %v", local, err, want)
	}
	if _, err := parseEnd("soon"); err == nil {
		t.Error("soon is a time")
	}
}

func TestRangeText(t *testing.T) {
	for _, tt := range []struct{ from, to, want string }{
		{"", strings.Repeat("\xff", 255), "all keys"},
		{"\x0b__namespace", "\x0b__namespacf", "all keys of database 0"},
		{"\x02ns", "\x02nt", `all keys of namespace "ns"`},
		{"\x02nsa", "\x02nsb", `keys "\x02nsa" to "\x02nsb"`},
		{"\x02ns", "\x02nx", `keys "\x02ns" to "\x02nx"`},
	} {
		if have := rangeText([]byte(tt.from), []byte(tt.to)); have != tt.want {
			t.Errorf("%q to %q: %s, want %s", tt.from, tt.to, have, tt.want)
		}
	}
}

// damageTable flips a bit in a file of the repository.
func damageTable(t *testing.T, repo string) {
	t.Helper()
	files, err := filepath.Glob(repo + "/files/*/*")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, f := range files {
		if b, err := os.ReadFile(f); err == nil && len(b) > 100 {
			b[len(b)/2] ^= 1
			os.WriteFile(f, b, 0o600)
			return
		}
	}
	t.Fatal(files)
}

func TestBackupUsage(t *testing.T) {
	dir, redis := t.TempDir(), unknowing(t)
	for _, tt := range []struct {
		args   []string
		code   int
		stderr string
	}{
		{[]string{"backup"}, ExitUsage, `required flag(s) "from", "to" not set`},
		{[]string{"backup", "lsit"}, ExitUsage, `unknown command "lsit"`},
		{[]string{"backup", "--from", dir + "/none", "--to", dir}, ExitError, "no such directory, and not HOST:PORT"},
		{[]string{"backup", "--from", dir, "--to", dir + "/r"}, ExitError, "there is no database in it"},
		{[]string{"backup", "--from", dir, "--to", dir + "/r", "--follow"}, ExitUsage, "--follow wants the HOST:PORT"},
		{[]string{"backup", "--from", "127.0.0.1:1", "--to", dir + "/r"}, ExitError, "connection refused"},
		{[]string{"backup", "--from", redis, "--to", dir + "/r"}, ExitError, redis + " is neither basalt nor Kvrocks: "},
		{[]string{"backup", "list", dir + "/none"}, ExitError, "no such file or directory"},
		{[]string{"backup", "list", t.TempDir()}, ExitError, "holds no backups"},
		{[]string{"backup", "list", "ftp://x/y"}, ExitError, "not a directory and not s3://BUCKET/PREFIX"},
		{[]string{"backup", "prune", dir + "/r"}, ExitUsage, "--keep-last or --keep-daily must be given"},
		{[]string{"restore", "--from", dir + "/r", "--to", dir + "/t", "--at", "yesterday"}, ExitUsage,
			`"yesterday" is no time`},
		{[]string{"restore", "--from", dir + "/r", "--to", dir + "/t"}, ExitError, "there is no such backup"},
	} {
		code, _, stderr := run(t, tt.args...)
		if code != tt.code || !strings.Contains(stderr, tt.stderr) || strings.Count(stderr, "\n") != 1 {
			t.Errorf("%q: %d, %q", tt.args, code, stderr)
		}
	}
}

// unknowing starts a server that knows no command but INFO, and returns its address.
func unknowing(t *testing.T) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			nc, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer nc.Close()
				for b := make([]byte, 4096); ; {
					n, err := nc.Read(b)
					if err != nil {
						return
					}
					reply := "-ERR unknown command 'x', with args beginning with: \r\n"
					if bytes.Contains(b[:n], []byte("INFO")) {
						reply = "$22\r\nmaster_repl_offset:0\r\n\r\n"
					}
					nc.Write([]byte(reply))
				}
			}()
		}
	}()
	return l.Addr().String()
}
