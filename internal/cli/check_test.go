package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/basaltdb/basalt/engine/offline"
	"github.com/basaltdb/basalt/internal/fixture"
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
	if err != nil {
		t.Fatal(err)
	}
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
