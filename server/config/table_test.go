package config

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/basaltdb/basalt/internal/require"
	"github.com/basaltdb/basalt/server/config/conffile"
	"github.com/basaltdb/basalt/server/config/setting"
)

var update = flag.Bool("update", false, "write kvrocks.toml from the table")

const shippedTOML = "../../kvrocks.toml"

// tomlDefaults are the values in kvrocks.toml that are not the default.
var tomlDefaults = map[string]string{"dir": "./data"}

// template writes kvrocks.toml from the table.
func template(t *testing.T) []byte {
	t.Helper()
	var b bytes.Buffer
	b.WriteString(`# Settings of basalt, all with their defaults except dir. Start with: basalt -c kvrocks.toml
# CONFIG SET changes a setting at run time, CONFIG REWRITE writes it back here;
# those marked (fixed) are only read at start.
`)
	for _, g := range setting.Groups {
		var body bytes.Buffer
		for i := range g.Settings {
			s := &g.Settings[i]
			if s.Kind == setting.Multi {
				continue
			}
			text := s.Default
			if other, ok := tomlDefaults[s.Name]; ok {
				text = other
			}
			v, err := s.Parse("", text)
			if err != nil {
				t.Fatalf("default of %s: %v", s.Name, err)
			}
			written, err := conffile.TOMLValue(s, v, false)
			require.NoError(t, err)
			comment := s.Comment
			if s.Inert != "" {
				comment += " Without effect: " + s.Inert + "."
			}
			if !s.Dynamic {
				comment += " (fixed)"
			}
			key := s.Name[strings.LastIndexByte(s.Name, '.')+1:]
			fmt.Fprintf(&body, "# %s\n%s = %s\n", comment, key, written)
		}
		if strings.HasPrefix(g.Title, "[") {
			fmt.Fprintf(&b, "\n%s\n%s", g.Title, body.Bytes())
		} else {
			fmt.Fprintf(&b, "\n### %s\n\n%s", g.Title, body.Bytes())
		}
	}
	b.WriteString(`
# Namespaces: name = "token". They need a requirepass.
[namespace]

# ` + setting.Table[renameCommand].Comment + ` (fixed)
[rename-command]

# Users of the ACL: name = "rules" as in ACL SETUSER. CONFIG REWRITE keeps them here. Not together with aclfile.
[user]
`)
	return b.Bytes()
}

// TestShippedTOML holds kvrocks.toml against the table; with -update it writes the file.
func TestShippedTOML(t *testing.T) {
	want := template(t)
	if *update {
		require.NoError(t, os.WriteFile(shippedTOML, want, 0o644))
	}
	have := require.File(t, shippedTOML)
	if !bytes.Equal(have, want) {
		t.Errorf("kvrocks.toml is not what the table says; run: go test ./server/config -run TestShippedTOML -update")
	}
	entries, err := conffile.TOML.Entries(have)
	require.NoError(t, err)
	seen := map[string]bool{}
	for _, e := range entries {
		s, _, ok := setting.Find(e.Key)
		if !ok || s.Name != e.Key {
			t.Errorf("line %d: %s is not in the table", e.Line, e.Key)
			continue
		}
		seen[e.Key] = true
		want := s.Default
		if other, ok := tomlDefaults[e.Key]; ok {
			want = other
		}
		if v, err := s.Parse("", e.Text); err != nil || v.Text != want {
			t.Errorf("%s is %q (%v), not %q", e.Key, v.Text, err, want)
		}
	}
	for _, s := range setting.Table {
		if !seen[s.Name] && s.Kind != setting.Multi && !s.Redis {
			t.Errorf("%s is missing", s.Name)
		}
	}
	c := load(t, "-c", shippedTOML)
	if c.Dir() != "./data" || c.DBDir() != "data/db" || len(c.Warnings()) > 0 {
		t.Errorf("dir %q, database %q, warnings %q", c.Dir(), c.DBDir(), c.Warnings())
	}
}

// TestDefaultsOfKvrocks holds the defaults against what a server with Kvrocks's own kvrocks.conf has.
func TestDefaultsOfKvrocks(t *testing.T) {
	c := load(t, "-c", "testdata/kvrocks-2.10.conf")
	different := map[string]string{
		"rocksdb.block_cache_size": "4096", "rocksdb.block_size": "16384", "rocksdb.write_buffer_size": "64",
	}
	def := Default()
	for _, s := range setting.Table {
		have, want := c.Text(s.Name), def.Text(s.Name)
		if other, ok := different[s.Name]; ok {
			want = other
		}
		if have != want {
			t.Errorf("%s: %q in the file of Kvrocks, %q here", s.Name, have, want)
		}
	}
	if len(c.Warnings()) > 0 {
		t.Errorf("warnings: %q", c.Warnings())
	}
}

// TestLimitsKeepOtherClasses checks that a limit for one class leaves the others.
func TestLimitsKeepOtherClasses(t *testing.T) {
	c := Default()
	require.NoError(t, c.Set("client-output-buffer-limit", "pubsub 1mb 0 0"))
	want := "normal 268435456 67108864 60 slave 268435456 67108864 60 pubsub 1048576 0 0"
	if have := c.Text("client-output-buffer-limit"); have != want {
		t.Errorf("%s", have)
	}
	if c.Int("client-output-buffer-limit") != 256<<20 ||
		c.OutputLimits(setting.ClassPubSub) != (setting.BufferLimit{Hard: 1 << 20}) ||
		c.OutputLimits(setting.ClassReplica) != (setting.BufferLimit{Hard: 256 << 20, Soft: 64 << 20, Seconds: 60}) {
		t.Errorf("limits: %v, %v", c.Int("client-output-buffer-limit"), c.OutputLimits(setting.ClassPubSub))
	}
}

// load loads a configuration from arguments.
func load(t testing.TB, args ...string) *Config {
	t.Helper()
	c, err := Load(args, nil)
	require.NoError(t, err)
	return c
}

// write makes a file in a new directory and returns its path.
func write(t testing.TB, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	require.NoError(t, os.WriteFile(path, []byte(text), 0o640))
	return path
}
