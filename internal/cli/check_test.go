package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/basaltdb/basalt/engine/offline"
	"github.com/basaltdb/basalt/internal/fixture"
	"github.com/basaltdb/basalt/internal/require"
)

func TestCheck(t *testing.T) {
	dir := t.TempDir()
	fixture.Unpack(t, dir)
	if err := os.CopyFS(dir+"/checkpoint", os.DirFS(dir+"/db")); err != nil { // as a replica's copy leaves it
		t.Fatal(err)
	}
	for _, arg := range []string{dir, dir + "/db"} {
		code, out, stderr := run(t, "check", arg)
		if code != ExitOK || stderr != "" || !strings.HasSuffix(out, "nothing is wrong\n") ||
			!strings.Contains(out, "\n  zset              11 keys, 41 members\n") {
			t.Errorf("%d, %q, %q", code, out, stderr)
		}
	}
	tables, _ := filepath.Glob(dir + "/db/*.sst")
	f, err := os.OpenFile(tables[0], os.O_RDWR, 0)
	require.NoError(t, err)
	f.WriteAt([]byte("flipped"), 100)
	f.Close()
	code, out, stderr := run(t, "check", dir)
	if code != ExitDamage || !strings.HasPrefix(out, "damaged-file: "+filepath.Base(tables[0])+": ") ||
		!strings.HasPrefix(stderr, "basalt check: ") || !strings.HasSuffix(stderr, " in "+dir+"/db\n") {
		t.Errorf("%d, %q, %q", code, out, stderr)
	}
	code, out, _ = run(t, "check", "--json", dir)
	var r offline.Report
	if err := json.Unmarshal([]byte(out), &r); code != ExitDamage || err != nil || r.Found[offline.BadFile] != 1 {
		t.Errorf("%d, %v, %s", code, err, out)
	}
	if code, _, stderr = run(t, "check", t.TempDir()); code != ExitError || !strings.Contains(stderr, "no database") {
		t.Errorf("%d, %q", code, stderr)
	}
}

// Without CURRENT a check says what is missing, a repair changes nothing, and the advice helps.
func TestCheckWithoutCurrent(t *testing.T) {
	dir := t.TempDir()
	fixture.Unpack(t, dir)
	if err := os.CopyFS(dir+"/checkpoint", os.DirFS(dir+"/db")); err != nil { // which is not what is asked for
		t.Fatal(err)
	}
	current, err := os.ReadFile(dir + "/db/CURRENT")
	if err != nil || os.Remove(dir+"/db/CURRENT") != nil {
		t.Fatal(err)
	}
	advice := "CURRENT, which names the MANIFEST, is missing in " + dir + "/db; restore the directory from a backup or, " +
		"if nothing else is missing, put " + strings.TrimSpace(string(current)) + " and a newline into a new CURRENT"
	for _, arg := range []string{dir, dir + "/db"} {
		code, out, stderr := run(t, "check", arg)
		if code != ExitDamage || !strings.Contains(out, advice) || !strings.HasSuffix(stderr, " in "+dir+"/db\n") {
			t.Errorf("%d, %q, %q", code, out, stderr)
		}
		code, out, stderr = run(t, "check", "--repair", arg)
		if _, err := os.Stat(dir + "/db/CURRENT"); code == ExitOK || !strings.Contains(out+stderr, advice) || err == nil {
			t.Errorf("a repair: %d, %q, %q, %v", code, out, stderr, err)
		}
	}
	if code, _, stderr := run(t, "inspect", dir); code != ExitError || !strings.Contains(stderr, advice) {
		t.Errorf("inspect: %d, %q", code, stderr)
	}
	require.NoError(t, os.WriteFile(dir+"/db/CURRENT", current, 0o644))
	if code, out, stderr := run(t, "check", dir); code != ExitOK {
		t.Errorf("%d, %q, %q", code, out, stderr)
	}
}
