package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/basaltdb/basalt/internal/require"
)

func TestConvertConfig(t *testing.T) {
	dir := t.TempDir()
	from, to := filepath.Join(dir, "redis.conf"), filepath.Join(dir, "kvrocks.toml")
	require.NoError(t, os.WriteFile(from, []byte("port 7000\nrequirepass p\nsave 60 1\n"), 0o600))
	code, out, stderr := run(t, "convert-config", from)
	if code != ExitPartial || !strings.Contains(out, "\nport = 7000\n") ||
		!strings.Contains(out, "# line 3: save 60 1: ") ||
		!strings.Contains(stderr, "1 setting of ") {
		t.Errorf("%d, %q, %q", code, out, stderr)
	}
	if code, rest, _ := run(t, "convert-config", from, "--to", to); code != ExitPartial || rest != "" {
		t.Errorf("%d, %q", code, rest)
	}
	if data, err := os.ReadFile(to); err != nil || string(data) != out {
		t.Errorf("%q, %v", data, err)
	}
	if at, err := os.Stat(to); err != nil || at.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", at, err)
	}
	if code, _, _ = run(t, "convert-config", from, "--to", to); code != ExitError {
		t.Errorf("over a file: %d", code)
	}
	if code, _, stderr = run(t, "convert-config", to); code != ExitError || !strings.Contains(stderr, "already") {
		t.Errorf("TOML: %d, %q", code, stderr)
	}
	if code, _, _ = run(t, "convert-config", from, "--from", "memcached"); code != ExitUsage {
		t.Errorf("--from: %d", code)
	}
	if code, _, _ = run(t, "convert-config", "../../server/config/testdata/kvrocks-2.10.conf"); code != ExitOK {
		t.Errorf("Kvrocks's file: %d", code)
	}
}
