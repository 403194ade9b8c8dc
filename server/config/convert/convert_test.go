package convert

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/basaltdb/basalt/internal/require"
	"github.com/basaltdb/basalt/server/config"
	"github.com/basaltdb/basalt/server/config/conffile"
	"github.com/basaltdb/basalt/server/config/setting"
)

// TestFile checks which settings of a file come out and which lines are left.
func TestFile(t *testing.T) {
	for _, tt := range []struct {
		name, text string
		want       string // the lines that are neither blank nor comments
		left       []string
	}{
		{"kvrocks.conf", "port 6666\nworkers 8\nrequirepass foo#bar\nslaveof 10.0.0.1 6666\n" +
			"rename-command KEYS \"\"\nnamespace.ns token\nrocksdb.block_size 8k\nuser al on >x ~*",
			`requirepass = "foo"|slaveof = "10.0.0.1 6666"|[rocksdb]|block_size = 8192|[namespace]|ns = "token"|` +
				`[rename-command]|KEYS = ""|[user]|al = "on >x ~*"`, nil},
		{"kvrocks.conf", "workers 16\nnosuch 1\nport many\ntimeout 5\n\"\ncodis-enabled no\nmasterauth 'x\nuser \"",
			"timeout = 5", []string{
				"line 1: workers 16: without effect: the Go scheduler serves all connections", "line 2: nosuch 1: unknown key",
				"line 3: port many: argument couldn't be parsed into an integer",
				"line 5: \": " + conffile.ErrIgnored.Error(),
				"line 6: codis-enabled no: a setting of another version of Kvrocks",
				"line 7: masterauth: malformed line: config line ends unexpectedly in quoted string",
				"line 8: user: wants the name of a user, then rules; quotes must be balanced"}},
		{"kvrocks.conf", "requirepass\nmasterauth \"\"\nlog-dir\nport '' # no\nslaveof # of none", `log-dir = ""`, []string{
			"line 1: requirepass: " + conffile.ErrIgnored.Error(), "line 4: port: " + conffile.ErrIgnored.Error(),
			"line 5: slaveof: " + conffile.ErrIgnored.Error()}},
		{"redis.conf", "requirepass\nmasterauth \"\"\nappendonly",
			`bind = "* -::*"|port = 6379|dir = "./"|redis-databases = 16`, []string{
				"line 1: requirepass: " + conffile.ErrNoValue.Error(), "line 3: appendonly: " + conffile.ErrNoValue.Error()}},
		{"kvrocks.conf", "bind 127.0.0.1\nunixsocket /s", `bind = "127.0.0.1"|unixsocket = "/s"`, nil},
		{"kvrocks.conf", "namespace.a secret\nworkers 8\nnamespace.b secret", "", []string{
			"line 1: namespace.a: requirepass empty wasn't allowed while the namespace exists",
			"line 3: namespace.b: the token is given to two namespaces"}},
		{"kvrocks.conf", "requirepass p\nnamespace.a p\nnamespace.b q", `requirepass = "p"|[namespace]|b = "q"`, []string{
			"line 2: namespace.a: requirepass is duplicated with namespace tokens"}},
		{"redis.conf", "requirepass foo#bar\nport 6379 # no comment",
			`bind = "* -::*"|port = 6379|requirepass = "foo#bar"|dir = "./"|redis-databases = 16`,
			[]string{"line 2: port 6379 # no comment: argument couldn't be parsed into an integer"}},
		{"my.conf", "save 3600 1\nbind 127.0.0.1 -::1\nmaxmemory 1gb\nmaxmemory-policy allkeys-lru\ndatabases 1\n" +
			"proto-max-bulk-len 2m\nloglevel verbose\nlogfile /var/log/redis/r.log\nappendonly yes\nappendfsync everysec\nhz " +
			"10\n" +
			"io-threads 4\ndir \"/a b\"\nport 7000\nclient-output-buffer-limit replica 1mb 0 0\nloadmodule a.so x\n" +
			"rename-command CONFIG \"\"\nreplicaof h 1\nmasteruser u\nmasterauth \"\\x61\"\nRENAME-command CONFIG x\n" +
			"masterauth \"\\xff\"",
			`bind = "127.0.0.1 -::1"|port = 7000|client-output-buffer-limit = "normal 268435456 67108864 60 slave 1048576 0 0 ` +
				`pubsub 33554432 8388608 60"|` +
				`proto-max-bulk-len = 2000000|masterauth = "a"|masteruser = "u"|dir = "/a b"|log-dir = "/var/log/redis"|` +
				`slaveof = "h 1"|[rename-command]|CONFIG = ""`, []string{
				"line 1: save 3600 1: every write is in the write-ahead log; bgsave-cron makes backups",
				"line 3: maxmemory 1073741824: " + config.ErrEviction.Error(), "line 4: maxmemory-policy allkeys-lru: " +
					config.ErrEviction.Error(),
				"line 10: appendfsync everysec: the log is synced before every reply (rocksdb.write_options.sync) or when the " +
					"system does it", "line 12: io-threads 4: without effect: a setting of Redis",
				"line 16: loadmodule a.so x: there are no modules; what Kvrocks builds in is built in",
				"line 21: RENAME-command: the command is renamed already", "line 22: masterauth: " + conffile.ErrUTF8.Error()}},
		{"my.conf", "appendonly yes\nappendfsync always\ncluster-enabled yes\nport 6379\nbind *\ndir /d",
			`bind = "*"|port = 6379|dir = "/d"|cluster-enabled = true|[rocksdb.write_options]|sync = true`, nil},
		{"redis.conf", "port 0\nunixsocket /s\nbind 10.0.0.1",
			`bind = ""|port = 0|unixsocket = "/s"|dir = "./"|redis-databases = 16`, nil},
		{"redis.conf", "port 0\nunixsocket /s\ntls-port 7", `bind = "* -::*"|port = 0|unixsocket = "/s"|dir = "./"|` +
			`tls-port = 7|redis-databases = 16`, nil},
		{"redis.conf", "", `bind = "* -::*"|port = 6379|dir = "./"|redis-databases = 16`, nil},
	} {
		r, err := File(tt.name, []byte(tt.text), "")
		if err != nil {
			t.Errorf("%q: %v", tt.text, err)
			continue
		}
		have := strings.Join(settingsOf(r.TOML), "|")
		var left []string
		for _, l := range r.Left {
			left = append(left, l.String())
		}
		if have != tt.want || strings.Join(left, "\n") != strings.Join(tt.left, "\n") {
			t.Errorf("%q:\n have %s\n want %s\n left %q\n want %q", tt.text, have, tt.want, left, tt.left)
		}
		path := write(t, "out.toml", string(r.TOML))
		if _, err := config.Load([]string{"-c", path}, nil); err != nil {
			t.Errorf("%q: %v", tt.text, err)
		}
	}
	if _, err := File("a.toml", nil, ""); err != ErrTOML {
		t.Errorf("a TOML file: %v", err)
	}
}

// settingsOf returns the lines of a TOML file that are neither blank nor comments.
func settingsOf(data []byte) (list []string) {
	for line := range strings.Lines(string(data)) {
		if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
			list = append(list, line)
		}
	}
	return list
}

// TestShipped converts Kvrocks's own file: the result means what the file means to the server.
func TestShipped(t *testing.T) {
	const file = "../testdata/kvrocks-2.10.conf"
	data := require.File(t, file)
	r, err := File(filepath.Base(file), data, "")
	if err != nil || len(r.Left) > 0 || r.Redis {
		t.Fatalf("%v, %v", r, err)
	}
	want, err := config.Load([]string{"-c", file}, nil)
	require.NoError(t, err)
	have, err := config.Load([]string{"-c", write(t, "out.toml", string(r.TOML))}, nil)
	require.NoError(t, err)
	for _, name := range setting.Names() {
		if have.Text(name) != want.Text(name) {
			t.Errorf("%s: %q, want %q", name, have.Text(name), want.Text(name))
		}
	}
}

// FuzzFile: no line stops a conversion, and the result loads.
func FuzzFile(f *testing.F) {
	f.Add("port 7000\nsave 1 2\nuser a on\nnamespace.x y\nbind \"*\" -::1", true)
	f.Add("rename-command A \"\"\nrequirepass 'x\ncompaction-checker-range 1-2", false)
	f.Fuzz(func(t *testing.T, text string, redis bool) {
		dialect := map[bool]string{true: "redis", false: "kvrocks"}[redis]
		if _, err := File("a.conf", []byte(text), dialect); err != nil { // it reads back what it has written
			t.Error(err)
		}
	})
}

// write makes a file in a new directory and returns its path.
func write(t testing.TB, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	require.NoError(t, os.WriteFile(path, []byte(text), 0o640))
	return path
}
