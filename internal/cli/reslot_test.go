package cli

import (
	"os"
	"strings"
	"testing"

	"github.com/basaltdb/basalt/internal/fixture"
)

func TestReslot(t *testing.T) {
	dir := t.TempDir()
	fixture.Unpack(t, dir)
	to := t.TempDir()
	code, out, stderr := run(t, "reslot", dir, to)
	if code != ExitError || !strings.Contains(stderr, "other namespaces") {
		t.Errorf("%d, %q, %q", code, out, stderr)
	}
	code, out, stderr = run(t, "reslot", "--namespace", "__namespace", dir, to)
	if code != ExitOK || stderr != "" || !strings.Contains(out, " compared, ") {
		t.Errorf("%d, %q, %q", code, out, stderr)
	}
	if _, err := os.Stat(to + "/db/CURRENT"); err != nil {
		t.Error(err)
	}
	code, out, stderr = run(t, "reslot", "--plain", to, t.TempDir())
	if code != ExitOK || stderr != "" {
		t.Errorf("%d, %q, %q", code, out, stderr)
	}
	if code, _, _ = run(t, "reslot", "--on", "--merge", dir, to); code != ExitUsage {
		t.Errorf("%d", code)
	}
}
