package difftest

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// savedKey is a key of an RDB file with the commands that show what it holds.
type savedKey struct {
	name  string
	reads []string
}

// renamed puts a name in the place of the key k.
func renamed(args []string, name string) []string {
	args = slices.Clone(args)
	for i := range args {
		if i > 0 && args[i] == "k" {
			args[i] = name
		}
	}
	return args
}

// TestRDBLoad lets redis-server write files with keys of every type and form, and compares every key after RDB LOAD.
func TestRDBLoad(t *testing.T) {
	for _, variant := range []struct {
		name  string
		setup []string
	}{
		{"as it is", nil},
		{"plain forms", []string{"CONFIG SET rdbcompression no", "CONFIG SET hash-max-listpack-entries 0",
			"CONFIG SET zset-max-listpack-entries 0", "CONFIG SET set-max-intset-entries 0",
			"CONFIG SET list-max-listpack-size 1", "DEBUG QUICKLIST-PACKED-THRESHOLD 100B",
			"CONFIG SET maxmemory-policy allkeys-lfu"}},
		{"no checksum, times of access", []string{"CONFIG SET maxmemory-policy allkeys-lru", "CONFIG SET maxmemory 1gb"}},
	} {
		t.Run(variant.name, func(t *testing.T) {
			options := []string{"--list-max-listpack-size", "-2"}
			if strings.HasPrefix(variant.name, "no checksum") {
				options = append(options, "--rdbchecksum", "no")
			}
			redis, basalt := startRedis(t, options...), startBasalt(t)
			from, onto := mustDial(t, redis), mustDial(t, basalt)
			for _, line := range variant.setup {
				from.must(t, words(line)...)
			}
			from.must(t, "FUNCTION", "LOAD", "#!lua name=lib\nredis.register_function('f', function() return 'result' end)")
			var keys []savedKey
			for n, d := range dumpedKeys() {
				name := fmt.Sprintf("key:%d:%s", n, d.name)
				for _, args := range d.make {
					from.must(t, renamed(args, name)...)
				}
				k := savedKey{name: name, reads: append(slices.Clone(d.reads), "PEXPIRETIME k")}
				if n%3 == 0 {
					from.must(t, "PEXPIREAT", name, fmt.Sprint(4102444800000+n))
				}
				keys = append(keys, k)
			}
			from.must(t, "SELECT", "5")
			from.must(t, "SET", "five", "of database 5")
			from.must(t, "SAVE")
			from.must(t, "SELECT", "0")
			path := filepath.Join(string(from.must(t, "CONFIG", "GET", "dir").elems[1].text), "dump.rdb")

			onto.must(t, "SET", keys[0].name, "replaced")
			onto.must(t, "RDB", "LOAD", path)
			for _, c := range []*client{from, onto} {
				if got, want := c.must(t, "DBSIZE"), fmt.Sprintf(":%d\r\n", len(keys)); string(got.raw) != want {
					t.Errorf("DBSIZE: %q, want %q", got.raw, want)
				}
			}
			for _, k := range keys {
				var commands []command
				for _, line := range k.reads {
					commands = append(commands, newCommand(k.name, renamed(words(line), k.name)...))
				}
				if strings.HasPrefix(k.reads[0], "X") {
					diffStreams(t, k.name, redis, basalt, 2, false, commands)
				} else {
					diffTo(t, k.name, redis, basalt, 2, false, commands)
				}
			}
			if got := onto.must(t, "FCALL", "f", "0"); string(got.text) != "result" {
				t.Errorf("the function: %q", got.raw)
			}
			onto.must(t, "SELECT", "9")
			onto.must(t, "RDB", "LOAD", path, "NX", "DB", "5")
			if got := onto.must(t, "GET", "five"); string(got.text) != "of database 5" {
				t.Errorf("database 5: %q", got.raw)
			}
			if got := onto.must(t, "DBSIZE"); string(got.raw) != ":1\r\n" {
				t.Errorf("database 5: %q keys", got.raw)
			}
		})
	}
}

func mustDial(t testing.TB, to target) *client {
	t.Helper()
	c := connect(t, to.Addr(), 2)
	t.Cleanup(func() { c.close() })
	return c
}
