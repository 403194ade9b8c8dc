package config

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/basaltdb/basalt/internal/require"
	"github.com/basaltdb/basalt/server/config/conffile"

	"github.com/basaltdb/basalt/compaction"
)

func TestLoadFormats(t *testing.T) {
	conf := `# a comment
port 7000
bind 127.0.0.1 ::1 # two
REQUIREPASS "a # \"secret\"\t"
rename-command KEYS ""
rename-command GET GET2
namespace.One token1
namespace.two 'token 2'
masterauth ""
rocksdb.write_options.sync yes
compact-cron 0 3 * * * 0 4 * * *
proto-max-bulk-len 1g
replicaof 10.0.0.1 6666
slowlog-dump-logfile-level info
`
	toml := `# a comment
port = 7000
bind = ["127.0.0.1",
  "::1"] # two
requirepass = "a # \"secret\"\t"
compact-cron = "0 3 * * * 0 4 * * *"
proto-max-bulk-len = "1g"
replicaof = '10.0.0.1 6666'
rocksdb.write_options.sync = true
[namespace]
One = "token1"
two = "token 2"
[rename-command]
KEYS = ""
GET = "GET2"
`
	for _, c := range []struct {
		name, text string
		warnings   int
	}{
		{"kvrocks.conf", conf, 1}, {"settings", conf, 1}, {"kvrocks.toml", toml, 0}, {"settings", toml, 0},
	} {
		path := write(t, c.name, c.text)
		check := func(cfg *Config, err error) {
			t.Helper()
			if err != nil {
				t.Errorf("%s: %v", c.name, err)
				return
			}
			if cfg.Port() != 7000 || !reflect.DeepEqual(cfg.Bind(), []string{"127.0.0.1", "::1"}) ||
				cfg.RequirePass() != "a # \"secret\"\t" || cfg.Int("proto-max-bulk-len") != 1<<30 ||
				!cfg.Bool("rocksdb.write_options.sync") || cfg.Text("compact-cron") != "0 3 * * * 0 4 * * *" {
				t.Errorf("%s: %v", c.name, cfg.Match(func(string) bool { return true }))
			}
			if want := map[string]string{"One": "token1", "two": "token 2"}; !reflect.DeepEqual(cfg.Namespaces(), want) {
				t.Errorf("%s: namespaces are %v", c.name, cfg.Namespaces())
			}
			if want := []Rename{{"KEYS", ""}, {"GET", "GET2"}}; !reflect.DeepEqual(cfg.Renames(), want) {
				t.Errorf("%s: renames are %q", c.name, cfg.Renames())
			}
			if host, port, ok := cfg.Master(); host != "10.0.0.1" || port != "6666" || !ok {
				t.Errorf("%s: master is %s %s %v", c.name, host, port, ok)
			}
			if len(cfg.Warnings()) != c.warnings {
				t.Errorf("%s: warnings are %q", c.name, cfg.Warnings())
			}
		}
		cfg, err := Load([]string{"-c", path}, nil)
		check(cfg, err)
		if err == nil && cfg.File() != path {
			t.Errorf("file is %q", cfg.File())
		}
		cfg, err = Load([]string{"--config", "-"}, strings.NewReader(c.text))
		check(cfg, err)
		if err == nil && cfg.File() != "" {
			t.Errorf("file of standard input is %q", cfg.File())
		}
	}
}

// A line of a kvrocks.conf without a value changes nothing, as in Kvrocks; the start says so.
func TestIgnoredLines(t *testing.T) {
	path := write(t, "kvrocks.conf", "port 7000\nrequirepass\nmasterauth ''\nport \"\"\nnosuch\n")
	cfg := load(t, "-c", path)
	want := []string{path + ":2: requirepass: " + conffile.ErrIgnored.Error(),
		path + ":4: port: " + conffile.ErrIgnored.Error(),
		path + ":5: nosuch: " + conffile.ErrIgnored.Error()}
	if !slices.Equal(cfg.Warnings(), want) || cfg.Port() != 7000 {
		t.Errorf("port %d, warnings %q", cfg.Port(), cfg.Warnings())
	}
}

func TestCommandLine(t *testing.T) {
	path := write(t, "kvrocks.conf", "port 7000\ntimeout 5\nrename-command A B\n")
	c := load(t, "--port", "7001", "-c", path, "--Dir", "/d", "--requirepass", "p", "--namespace.n", "t",
		"--rename-command", "C D")
	if c.Port() != 7001 || c.Int("timeout") != 5 || c.Dir() != "/d" || c.Namespaces()["n"] != "t" ||
		c.Text("rename-command") != "A B\nC D" {
		t.Errorf("%v", c.Match(func(string) bool { return true }))
	}
	t.Chdir("/")
	if c := load(t, "--dir", "data"); c.Dir() != "/data" {
		t.Errorf("dir is %q", c.Dir())
	}
	for want, args := range map[error][]string{
		ErrVersion: {"--port", "1", "-v"}, ErrHelp: {"-h", "--nonsense"},
	} {
		if _, err := Load(args, nil); err != want {
			t.Errorf("%q: %v", args, err)
		}
	}
	if _, err := Load([]string{"--version"}, nil); err != ErrVersion {
		t.Errorf("--version: %v", err)
	}
	if _, err := Load([]string{"--help"}, nil); err != ErrHelp {
		t.Errorf("--help: %v", err)
	}
}

// TestRenameError checks that an error in what only the server can check names the place too.
func TestRenameError(t *testing.T) {
	for name, text := range map[string]string{
		"a.conf": "port 1\nrename-command A B\n\nrename-command C D\n",
		"a.toml": "port = 1\n[rename-command]\n\nA = 'B'\nC = 'D'\n",
	} {
		path := write(t, name, text)
		c := load(t, "--rename-command", "E F\nG H", "-c", path, "--rename-command", "I ''")
		lines := map[string][2]int{"a.conf": {2, 4}, "a.toml": {4, 5}}[name]
		want := []string{fmt.Sprintf("%s:%d: rename-command: x", path, lines[0]),
			fmt.Sprintf("%s:%d: rename-command: x", path, lines[1]),
			"command line: --rename-command: x", "command line: --rename-command: x", "command line: --rename-command: x"}
		if r := c.Renames(); len(r) != len(want) || r[4] != (Rename{"I", ""}) {
			t.Fatalf("renames are %q", r)
		}
		for i := range want {
			if err := c.RenameError(i, errors.New("x")); err.Error() != want[i] {
				t.Errorf("%s, rename %d: %v, want %s", name, i, err, want[i])
			}
		}
	}
}

// TestByteOrderMark: a file that an editor of Windows has written is read as the one without its marks.
func TestByteOrderMark(t *testing.T) {
	for name, text := range map[string]string{
		"a.conf": "\uFEFFport 7001\r\nmaxclients 9\r\n",
		"a.toml": "\uFEFFport = 7001\r\nmaxclients = 9\r\n",
	} {
		c := load(t, "-c", write(t, name, text))
		if c.Int("port") != 7001 || c.Int("maxclients") != 9 {
			t.Errorf("%s: port %d, maxclients %d", name, c.Int("port"), c.Int("maxclients"))
		}
	}
}

func TestLoadErrors(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"a.conf", "\nport 70000\n", "a.conf:2: port: argument must be between 0 and 65535 inclusive"},
		{"a.conf", "prot 1", "a.conf:1: prot: unknown key"},
		{"a.conf", "include x", "a.conf:1: include: unknown key (a redis.conf? basalt convert-config a.conf translates it)"},
		{"a.conf", "save 60 1\ndatabases 16", "a.conf:2: databases: argument must be between 1 and 1 inclusive " +
			"(a redis.conf? basalt convert-config a.conf translates it)"},
		{"a.conf", "port 1\ndir \"x", "a.conf:2: malformed line: config line ends unexpectedly in quoted string"},
		{"a.conf", "dir 'x' y", "a.conf:1: malformed line: more than 2 item in config line"},
		{"a.conf", "daemonize maybe", "a.conf:1: daemonize: argument must be 'yes' or 'no'"},
		{"a.conf", "namespace.a t\nnamespace.b t\nrequirepass p",
			"a.conf:2: namespace.b: the token is given to two namespaces"},
		{"a.conf", "namespace.a t\nnamespace.a u\nrequirepass p", "a.conf:2: namespace.a: the namespace has two tokens"},
		{"a.conf", "namespace.a t",
			"configuration: requirepass: requirepass empty wasn't allowed while the namespace exists"},
		{"a.conf", "requirepass t\nnamespace.a t", "a.conf:1: requirepass: requirepass is duplicated with namespace tokens"},
		{"a.conf", "requirepass p\nmasterauth t\nnamespace.a t",
			"a.conf:1: requirepass: masterauth is duplicated with namespace tokens"},
		{"a.conf", "requirepass p\nnamespace.a t\ncluster-enabled yes",
			"a.conf:3: cluster-enabled: enabled cluster mode wasn't allowed while the namespace exists"},
		{"a.conf", "unixsocket /s\ncluster-enabled yes",
			"a.conf:2: cluster-enabled: cluster mode needs a TCP address to listen on: bind is empty"},
		{"a.conf", "unixsocket /s\nslaveof a 1",
			"a.conf:2: slaveof: a replica needs a TCP address to listen on: bind is empty"},
		{"a.conf", "compaction-checker-cron * * * * *\ncompaction-checker-range 1-2",
			"a.conf:2: compaction-checker-range: compaction-checker-range cannot be set while compaction-checker-cron is set"},
		{"a.conf", "a\x01b 1", "a.conf:1: a?b: unknown key"},
		{"a.conf", "\xff\xfep\x00o\x00", "a.conf: is UTF-16: save it as UTF-8"},
		{"a.conf", "\xfe\xff\x00p\x00o", "a.conf: is UTF-16: save it as UTF-8"},
		{"a.toml", "p\x00o\x00r\x00t\x00", "a.toml: is UTF-16: save it as UTF-8"},
		{"a.toml", "port = 1\nprot = 2", "a.toml:2: prot: unknown key"},
		{"a.toml", "rocksdb.tll = 2", "a.toml:1: rocksdb.tll: unknown key"},
		{"a.toml", "\n[rocksdb]\nblock_size = \"x\"", "a.toml:3: rocksdb.block_size: argument must be a memory value"},
		{"a.toml", "[rocksdb]\nblock_size = true",
			"a.toml:2: rocksdb.block_size: wants an integer or a string such as \"512m\""},
		{"a.toml", "[rocksdb]\nblock_size = 1.5",
			"a.toml:2: rocksdb.block_size: wants an integer or a string such as \"512m\""},
		{"a.toml", "[rocksdb]\nmax_open_files = true", "a.toml:2: rocksdb.max_open_files: wants an integer"},
		{"a.conf", "port 1\nrename-command KEYS", "a.conf:2: rename-command: Invalid rename-command format"},
		{"a.toml", "[rename-command]\nKEYS = \"a b\"", "a.toml:2: rename-command: Invalid rename-command format"},
		{"a.toml", "daemonize = 1", "a.toml:1: daemonize: wants true or false"},
		{"a.toml", "requirepass = 1", "a.toml:1: requirepass: wants a string"},
		{"a.toml", "bind = [1]", "a.toml:1: bind: wants strings in its array"},
		{"a.toml", "unixsocketperm = 777", "a.toml:1: unixsocketperm: write octal digits as a string: \"0777\""},
		{"a.toml", "proto-max-bulk-len = 1.5", "a.toml:1: proto-max-bulk-len: wants an integer or a string such as \"512m\""},
		{"a.toml", "port = 1\n\n[nonsense]", "a.toml:3: nonsense: unknown key"},
		{"a.toml", "[[rocksdb]]\nblock_size = 1", "a.toml:1: rocksdb: unknown key"},
		{"a.toml", "\nrocksdb = { block_size = 1 }", "a.toml:2: rocksdb: write this table under a heading of its own"},
		{"a.toml", "[namespace]\na = 1", "a.toml:2: namespace.a: wants a string"},
		{"a.toml", "port = 1\nport = 2", "a.toml:2: Key 'port' has already been defined."},
	} {
		path := write(t, c.name, c.text)
		_, err := Load([]string{"-c", path}, nil)
		if err == nil {
			t.Errorf("%q: no error", c.text)
			continue
		}
		have := strings.ReplaceAll(err.Error(), filepath.Dir(path)+"/", "")
		if have != c.want || strings.Contains(have, "\n") {
			t.Errorf("%q:\n have %s\n want %s", c.text, have, c.want)
		}
		if _, ok := errors.AsType[*conffile.Error](err); !ok {
			t.Errorf("%q: error is a %T", c.text, err)
		}
	}
	for want, args := range map[string][]string{
		"command line: --prot: unknown key":                                                                 {"--prot", "1"},
		"command line: --port: wants a value":                                                               {"--port"},
		"command line: --port: argument couldn't be parsed into an integer":                                 {"--port", "x"},
		"command line: -c: wants the name of a file":                                                        {"-c"},
		"command line: --x: neither an option nor a sub-command; basalt --help lists both, -c takes a file": {"--x"},
		"command line: x: neither an option nor a sub-command; basalt --help lists both, -c takes a file":   {"x"},
		"command line: -x: neither an option nor a sub-command; basalt --help lists both, -c takes a file":  {"-x", "1"},
		"/nonexistent/kvrocks.conf: no such file or directory": {"-c",
			"/nonexistent/kvrocks.conf"},
		"command line: bind: a replica needs a TCP address to listen on: bind is empty": nil,
		"command line: slaveof: a replica needs a TCP address to listen on: bind is empty": {"--unixsocket", "/s",
			"--slaveof", "a 1"},
		"command line: --namespace.a: the token must not be empty": {"--namespace.a", ""},
		"command line: --compact-cron: " + errCronText("1"):        {"--compact-cron", "1"},
	} {
		if args == nil {
			continue
		}
		if _, err := Load(args, nil); err == nil || err.Error() != want {
			t.Errorf("%q:\n have %v\n want %s", args, err, want)
		}
	}
}

func errCronText(cron string) string {
	_, err := compaction.ParseCron(cron)
	return err.Error()
}

// TestDerived checks the settings whose default depends on others.
func TestDerived(t *testing.T) {
	for _, c := range []struct {
		text string
		want map[string]string
	}{
		{"", map[string]string{"bind": "127.0.0.1", "log-dir": "stdout", "backup-dir": "/tmp/kvrocks/backup",
			"compaction-checker-cron": "* 0-7 * * *"}},
		{"dir /x\nlog-dir ''", map[string]string{"backup-dir": "/x/backup", "pidfile": "/x/kvrocks.pid", "log-dir": "/x"}},
		{"dir /x\nbackup-dir /b\npidfile /p\nlog-dir /l", map[string]string{"backup-dir": "/b", "pidfile": "/p",
			"log-dir": "/l"}},
		{"unixsocket /s", map[string]string{"bind": ""}},
		{"unixsocket /s\nbind ::1", map[string]string{"bind": "::1"}},
		{"bind ''", map[string]string{"bind": "127.0.0.1"}},
		{"compaction-checker-range 1-2", map[string]string{"compaction-checker-cron": "* 1-2 * * *",
			"compaction-checker-range": "1-2"}},
		{"compaction-checker-cron ''", map[string]string{"compaction-checker-cron": ""}},
		{"port", map[string]string{"port": "6666"}},
		{"slave-read-only no", map[string]string{"replica-read-only": "no"}},
	} {
		cfg, err := Load([]string{"-c", "-"}, strings.NewReader(c.text))
		if err != nil {
			t.Errorf("%q: %v", c.text, err)
			continue
		}
		for name, want := range c.want {
			if have, ok := cfg.Get(name); have != want || !ok {
				t.Errorf("%q: %s is %q, not %q", c.text, name, have, want)
			}
		}
	}
}

func TestPrepareDir(t *testing.T) {
	base := t.TempDir()
	file := write(t, "file", "")
	full := t.TempDir()
	require.NoError(t, os.WriteFile(full+"/f", nil, 0o600))
	for _, c := range []struct{ dir, err string }{
		{base + "/new", ""}, {full, ""}, {base, ""}, {base + "/a/b", "no such file or directory"}, {file,
			"is not a directory"},
	} {
		cfg := load(t, "--dir", c.dir)
		_, err := os.Stat(c.dir)
		existed := err == nil
		undo, err := cfg.PrepareDir()
		if c.err == "" {
			if info, statErr := os.Stat(c.dir); err != nil || statErr != nil || !info.IsDir() {
				t.Fatalf("%s: %v, %v", c.dir, err, statErr)
			}
			undo()
			if _, err := os.Stat(c.dir); (err == nil) != existed {
				t.Errorf("%s existed before: %v; after undo: %v", c.dir, existed, err)
			}
		} else if err == nil || err.Error() != "dir: "+c.dir+": "+c.err {
			t.Errorf("%s: error is %v", c.dir, err)
		}
	}
	for _, name := range []string{Importing, Restoring} {
		unfinished := t.TempDir()
		require.NoError(t, os.Mkdir(filepath.Join(unfinished, name), 0o700))
		cfg := load(t, "--dir", unfinished)
		if _, err := cfg.PrepareDir(); err == nil || !strings.Contains(err.Error(), "has not ended") {
			t.Errorf("%s: %v", name, err)
		}
		require.NoError(t, os.Mkdir(cfg.DBDir(), 0o700))
		if _, err := cfg.PrepareDir(); err != nil {
			t.Errorf("%s beside a database: %v", name, err)
		}
	}
	cfg := load(t, "--dir", base+"/used")
	undo, err := cfg.PrepareDir()
	if err == nil {
		err = os.WriteFile(base+"/used/f", nil, 0o600)
	}
	require.NoError(t, err)
	undo()
	if _, err := os.Stat(base + "/used/f"); err != nil {
		t.Errorf("undo has removed what came later: %v", err)
	}
	if os.Getuid() == 0 {
		return // root may write everywhere
	}
	require.NoError(t, os.Chmod(base, 0o500))
	cfg, _ = Load([]string{"--dir", base}, nil)
	if _, err := cfg.PrepareDir(); err == nil {
		t.Error("no error for a directory that is not writable")
	}
}
