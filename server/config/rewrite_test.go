package config

import (
	"fmt"
	"maps"
	"math/rand"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/basaltdb/basalt/internal/require"
	"github.com/basaltdb/basalt/server/config/conffile"
	"github.com/basaltdb/basalt/server/config/setting"
)

func readBack(t testing.TB, c *Config) string {
	t.Helper()
	data := require.File(t, c.File())
	return string(data)
}

func TestRewriteConf(t *testing.T) {
	path := write(t, "kvrocks.conf", `# head
port 6666
  timeout   5   # seconds
port 7000 # the last one counts

maxclients 10000 # stays
slave-priority 9
requirepass "p"# why
slowlog-max-len # how many
slowlog-log-slower-than '5'  # when
tls-cert-file /c # goes
rename-command KEYS K
namespace.gone tg
namespace.kept 'tk'
namespace.new-token t1
log-level
replication-group-sync yes
dir /x`)
	c := load(t, "-c", path, "--tcp-backlog", "7")
	require.NoError(t, c.Set("timeout", "6", "masterauth", "m \"#", "requirepass", "p2", "compaction-checker-cron", "",
		"slowlog-max-len", "7", "slowlog-log-slower-than", "8", "tls-cert-file", ""))
	for _, err := range []error{c.SetMaster("h 1"), c.DeleteNamespace("gone"), c.SetNamespace("new-token", "t2"),
		c.AddNamespace("added", "ta")} {
		require.NoError(t, err)
	}
	require.NoError(t, c.Rewrite())
	want := `# head
port 7000
  timeout   6   # seconds
# the last one counts

maxclients 10000 # stays
slave-priority 9
requirepass p2# why
slowlog-max-len 7 # how many
slowlog-log-slower-than 8  # when
# goes
rename-command KEYS K
namespace.kept 'tk'
log-level info
replication-group-sync yes
dir /x
tcp-backlog 7
masterauth "m \"#"
slaveof "h 1"
compaction-checker-cron ""
namespace.new-token t2
namespace.added ta
`
	if have := readBack(t, c); have != want {
		t.Errorf("have:\n%s\nwant:\n%s", have, want)
	}
	if info, _ := os.Stat(path); info.Mode().Perm() != 0o640 {
		t.Errorf("mode is now %v", info.Mode())
	}
	if _, err := os.Stat(path + ".tmp"); err == nil {
		t.Error("the temporary file is left")
	}
	// With namespaces in the database the file has none.
	require.NoError(t, c.Set("repl-namespace-enabled", "yes"))
	require.NoError(t, c.Rewrite())
	if have := readBack(t, c); strings.Contains(have, "namespace.") ||
		!strings.Contains(have, "repl-namespace-enabled yes") {
		t.Errorf("have:\n%s", have)
	}
}

func TestRewriteTOML(t *testing.T) {
	path := write(t, "kvrocks.toml", `# head
port = 7000 # stays
bind = ["127.0.0.1",
  "::1"] # two
requirepass = 'p' # secret
tls-protocols = [ "TLSv1.2" ]
proto-max-bulk-len = "512m"

[rocksdb] # engine
block_size = 0x1000
write_options.sync = true

# names
[namespace]
gone = "tg" # goes
kept = 'tk'
"new token" = "t1"

[rename-command]
KEYS = "K"`)
	c := load(t, "-c", path, "--bind", "10.0.0.1 10.0.0.2")
	if err := c.Set("timeout", "6", "requirepass", "p\"2", "tls-protocols", "TLSv1.2 TLSv1.3", "slave-read-only", "no",
		"rocksdb.write_buffer_size", "8", "rocksdb.write_options.write_batch_max_bytes", "5", "rocksdb.read_options.async_io",
		"no"); err != nil {
		t.Fatal(err)
	}
	for _, err := range []error{c.DeleteNamespace("gone"), c.SetNamespace("new token", "t2"),
		c.AddNamespace("a.b", "ta")} {
		require.NoError(t, err)
	}
	require.NoError(t, c.Rewrite())
	want := `# head
port = 7000 # stays
bind = ["10.0.0.1", "10.0.0.2"] # two
requirepass = "p\"2" # secret
tls-protocols = ["TLSv1.2", "TLSv1.3"]
proto-max-bulk-len = "512m"
timeout = 6
slave-read-only = false

[rocksdb] # engine
block_size = 0x1000
write_options.sync = true
write_buffer_size = 8
write_options.write_batch_max_bytes = 5

# names
[namespace]
kept = 'tk'
"new token" = "t2"
"a.b" = "ta"

[rename-command]
KEYS = "K"

[rocksdb.read_options]
async_io = false
`
	if have := readBack(t, c); have != want {
		t.Errorf("have:\n%s\nwant:\n%s", have, want)
	}
}

// TestRewriteTOMLPlaces checks where a key is added that the file has not.
func TestRewriteTOMLPlaces(t *testing.T) {
	for _, c := range []struct{ file, set, text, want string }{
		{"", "timeout", "6", "timeout = 6\n"},
		{"", "rocksdb.write_buffer_size", "8", "\n[rocksdb]\nwrite_buffer_size = 8\n"},
		{"# only a comment", "timeout", "6", "timeout = 6\n# only a comment\n"},
		{"[rocksdb]\n", "timeout", "6", "timeout = 6\n[rocksdb]\n"},
		{"[rocksdb]", "rocksdb.write_buffer_size", "8", "[rocksdb]\nwrite_buffer_size = 8\n"},
		{"rocksdb.block_size = 1\n# x\n", "rocksdb.write_buffer_size", "8",
			"rocksdb.block_size = 1\nrocksdb.write_buffer_size = 8\n# x\n"},
		{"[rocksdb.write_options]\nsync = true\n", "rocksdb.write_buffer_size", "8",
			"[rocksdb.write_options]\nsync = true\n\n[rocksdb]\nwrite_buffer_size = 8\n"},
		{"[rocksdb]\n[rocksdb.write_options]\n[rocksdb.read_options]\n", "rocksdb.write_options.write_batch_max_bytes", "8",
			"[rocksdb]\n[rocksdb.write_options]\nwrite_batch_max_bytes = 8\n[rocksdb.read_options]\n"},
		{"[rocksdb]\r\nblock_size = 1\r\n", "rocksdb.write_buffer_size", "8",
			"[rocksdb]\r\nblock_size = 1\r\nwrite_buffer_size = 8\n"},
		{"masterauth = '''\n# x\n[y]\n'''\n", "timeout", "6", "masterauth = '''\n# x\n[y]\n'''\ntimeout = 6\n"},
		{"masterauth = \"\"\"a\"\"\"\"\" # x\n", "timeout", "6", "masterauth = \"\"\"a\"\"\"\"\" # x\ntimeout = 6\n"},
		{"bind = [ # [\n '::1', # ]\n] # x\n", "timeout", "6", "bind = [ # [\n '::1', # ]\n] # x\ntimeout = 6\n"},
		{"timeout=5#x\n", "timeout", "6", "timeout=6#x\n"},
		{"\"timeout\" = 5\n", "timeout", "6", "\"timeout\" = 6\n"},
		{"replica-read-only = true\n", "slave-read-only", "no", "replica-read-only = false\n"},
	} {
		cfg, err := Load([]string{"-c", write(t, "a.toml", c.file)}, nil)
		if err != nil {
			t.Errorf("%q: %v", c.file, err)
			continue
		}
		require.NoError(t, cfg.Set(c.set, c.text))
		if err := cfg.Rewrite(); err != nil {
			t.Errorf("%q: %v", c.file, err)
			continue
		}
		if have := readBack(t, cfg); have != c.want {
			t.Errorf("%q with %s %s:\n have %q\n want %q", c.file, c.set, c.text, have, c.want)
		}
	}
}

func TestRewriteErrors(t *testing.T) {
	if err := Default().Rewrite(); err != ErrNoFile {
		t.Errorf("without a file: %v", err)
	}
	for _, c := range []struct{ file, set, text, want string }{
		{"a.toml", "masterauth", "\xff", "Rewriting config file: cannot be written to a TOML file: it is not valid UTF-8"},
	} {
		cfg := load(t, "-c", write(t, c.file, ""))
		require.NoError(t, cfg.Set(c.set, c.text))
		if err := cfg.Rewrite(); err == nil || err.Error() != c.want {
			t.Errorf("%s: error is %v", c.set, err)
		}
		if text := readBack(t, cfg); text != "" {
			t.Errorf("the file is now %q", text)
		}
	}
	cfg := load(t, "-c", write(t, "a.conf", "requirepass p"))
	if err := cfg.AddNamespace("a b", "t"); err == nil || readBack(t, cfg) != "requirepass p" ||
		len(cfg.Namespaces()) != 0 {
		t.Errorf("a namespace that the grammar cannot hold: %v", err)
	}
}

// TestRewriteThroughLink checks that a link to a file stays one, and that a file that is gone comes back.
func TestRewriteThroughLink(t *testing.T) {
	path := write(t, "real.conf", "port 1\n")
	link := filepath.Join(t.TempDir(), "link.conf")
	require.NoError(t, os.Symlink(path, link))
	c := load(t, "-c", link, "--port", "2")
	require.NoError(t, c.Rewrite())
	if info, _ := os.Lstat(link); info.Mode()&os.ModeSymlink == 0 {
		t.Error("the link has become a file")
	}
	if text, _ := os.ReadFile(path); string(text) != "port 2\n" {
		t.Errorf("the file is %q", text)
	}
	require.NoError(t, os.Remove(link))
	require.NoError(t, c.Rewrite())
	if text := readBack(t, c); text != "port 2\n" {
		t.Errorf("the file is %q", text)
	}
}

// randomText makes a value for a setting.
func randomText(r *rand.Rand, s *setting.Setting) string {
	switch s.Kind {
	case setting.Bool:
		return []string{"yes", "no"}[r.Intn(2)]
	case setting.Int, setting.Bytes:
		lo, hi := s.Min, s.Max
		if span := uint64(hi) - uint64(lo); span > 0 {
			lo += int64(r.Uint64() % span)
		}
		return strconv.FormatInt(lo, 10)
	case setting.Octal:
		return strconv.FormatInt(1+r.Int63n(0o7777), 8)
	case setting.Enum:
		return s.Names[r.Intn(len(s.Names))]
	case setting.Limits:
		return fmt.Sprintf("pubsub %dkb %d 3", r.Intn(1000), r.Intn(1000))
	}
	switch {
	case strings.HasSuffix(s.Name, "-cron"):
		return []string{"", "*/5 * * * *", "* 1-2,4 * * 0"}[r.Intn(3)]
	case s.Check != nil: // slaveof, compaction-checker-range
		return s.Default
	}
	const alphabet = "ab \t\r\n\v\f\b\\\"'#=[]ü.,x"
	letters := []rune(alphabet)
	var b strings.Builder
	for range r.Intn(6) {
		b.WriteRune(letters[r.Intn(len(letters))])
	}
	return b.String()
}

// TestRewriteThenLoad writes random settings over random files of both formats and reads them back.
func TestRewriteThenLoad(t *testing.T) {
	r := rand.New(rand.NewSource(1))
	for round := range 100 {
		name := []string{"a.conf", "a.toml"}[round%2]
		f := []conffile.Format{conffile.Conf, conffile.TOML}[round%2]
		random := func() *state {
			st := Default().state.Load().clone()
			for i, s := range setting.Table {
				if s.Kind == setting.Multi || s.Redis || r.Intn(3) > 0 {
					continue
				}
				v, err := s.Parse(st.values[i].Text, randomText(r, s))
				if err != nil {
					t.Fatalf("%s: %v", s.Name, err)
				}
				st.set(i, v)
			}
			st.set(clusterEnabled, setting.Value{Text: "no"})
			st.set(redisDatabases, setting.Value{Text: "0"})
			pass, _ := setting.Table[requirePass].Parse("", "the password")
			st.set(requirePass, pass)
			for range r.Intn(4) {
				st.tokens[fmt.Sprintf("n%d.x", r.Intn(9))] = fmt.Sprintf("token %d", r.Intn(1e9))
			}
			return st
		}
		var data []byte
		for step := range 3 {
			st := random()
			content := (&Config{}).content(st)
			var err error
			if data, err = f.Rewrite(data, content); err != nil {
				t.Fatal(err)
			}
			c, err := Load([]string{"-c", write(t, name, string(data))}, nil)
			if err != nil {
				t.Fatalf("round %d step %d: %v\n%s", round, step, err, data)
			}
			have := c.state.Load()
			for i, s := range setting.Table {
				if have.values[i] != st.values[i] {
					t.Fatalf("%s: %q became %q in\n%s", s.Name, st.values[i].Text, have.values[i].Text, data)
				}
			}
			if want := content.Tokens; !maps.Equal(have.tokens, want) {
				t.Fatalf("namespaces %v became %v in\n%s", want, have.tokens, data)
			}
		}
	}
}
