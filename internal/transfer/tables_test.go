package transfer

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/basaltdb/basalt/internal/crc64"
	"github.com/basaltdb/basalt/internal/require"
	"github.com/basaltdb/basalt/server/rdb"
)

// byTables makes imports of this test go by table files, in chunks of a few hundred kilobytes.
func byTables(t *testing.T) {
	t.Helper()
	old := tablesFrom
	tablesFrom = 0
	t.Cleanup(func() { tablesFrom = old })
}

const tablesMemory = 3 << 20

// manyKeys writes an RDB file with n keys of several types in two databases. Values have the round in them.
func manyKeys(t *testing.T, path string, n int, round string) {
	t.Helper()
	b := []byte("REDIS0012")
	for db := range uint64(2) {
		b = rdb.AppendSelect(b, db)
		for i := range n / 2 {
			v := &rdb.Value{Kind: rdb.String, String: fmt.Appendf(nil, "%s %d %s", round, i, strings.Repeat("x", 100))}
			two := [][]byte{fmt.Append(nil, "a", round), fmt.Append(nil, "b", i)}
			kinds := []rdb.Kind{rdb.String, rdb.Hash, rdb.ZSet, rdb.List, rdb.Set}
			switch kind := kinds[(i+len(round))%len(kinds)]; kind {
			case rdb.String:
			case rdb.ZSet:
				v = &rdb.Value{Kind: kind, Elems: two, Scores: []float64{1, float64(i)}}
			default:
				v = &rdb.Value{Kind: kind, Elems: two}
			}
			body, _ := rdb.AppendValue(nil, v)
			expire := int64(0)
			if i%3 == 0 {
				expire = far
			}
			b = rdb.AppendKey(b, fmt.Append(nil, "key", i), body, expire)
		}
	}
	b = append(b, 0xff)
	b = binary.LittleEndian.AppendUint64(b, crc64.Update(0, b))
	require.NoError(t, os.WriteFile(path, b, 0o600))
}

// serveDBs is serve with two databases.
func serveDBs(t *testing.T) (*Address, *local) { return serve(t, "--redis-databases", "2") }

// must returns the reply of a command.
func (l *local) must(t *testing.T, args ...string) string {
	t.Helper()
	r, err := l.Conn.Do(args...)
	if err != nil {
		t.Fatal(args, err)
	}
	if r.Kind == ':' {
		return fmt.Sprint(r.Int)
	}
	return string(r.Text)
}

// tookTables reports whether a server has taken table files.
func tookTables(t *testing.T, l *local) bool {
	t.Helper()
	for line := range strings.Lines(l.must(t, "INFO", "commandstats")) {
		if strings.HasPrefix(line, "cmdstat__ingest:") && strings.Contains(line, "failed_calls=0") {
			return true
		}
	}
	return false
}

// sizes returns what DBSIZE says of both databases once the keys have been counted.
func sizes(t *testing.T, l *local) (list []string) {
	t.Helper()
	l.db.WaitScans()
	for _, db := range []string{"0", "1"} {
		l.must(t, "SELECT", db)
		list = append(list, l.must(t, "DBSIZE"))
	}
	l.must(t, "SELECT", "0")
	return list
}

// TestTables imports into a server that takes table files and into one that does not: both hold the same keys, over
// others that they had, and count them right.
func TestTables(t *testing.T) {
	byTables(t)
	dir := t.TempDir()
	files := []string{filepath.Join(dir, "1.rdb"), filepath.Join(dir, "other.rdb"), filepath.Join(dir, "samples.rdb")}
	manyKeys(t, files[0], 4_000, "1")
	manyKeys(t, files[1], 6_000, "other")
	sampleFile(t, files[2], false, "")
	fast, l := serveDBs(t)
	slow, s := serveDBs(t)
	s.must(t, "CONFIG", "SET", "notify-keyspace-events", "KEA")
	for _, x := range []*local{l, s} {
		for _, command := range []string{"SET hash v", "RPUSH string a b", "SADD key1 a b c", "ZADD zset 1 other",
			"SET stays v"} {
			x.must(t, strings.Fields(command)...)
		}
	}
	for _, file := range files {
		for _, to := range []*Address{fast, slow} {
			r := mustImport(t, ImportOptions{Path: file, DB: -1, Server: to, Verify: true, Memory: tablesMemory})
			if r.Verified != r.Keys {
				t.Errorf("%s: %d keys, %d verified", file, r.Keys, r.Verified)
			}
		}
	}
	if !tookTables(t, l) || tookTables(t, s) {
		t.Error("table files: ", tookTables(t, l), tookTables(t, s))
	}
	want := export(t, ExportOptions{Server: slow, Format: "jsonl"})
	if got := export(t, ExportOptions{Server: fast, Format: "jsonl"}); sorted(got) != sorted(want) {
		t.Error("by table files something else is there:", difference(sorted(got), sorted(want)))
	}
	if got, want := fmt.Sprint(sizes(t, l)), fmt.Sprint(sizes(t, s)); got != want {
		t.Errorf("by table files DBSIZE is %s, not %s", got, want)
	}
	if l.must(t, "GET", "stays") != "v" {
		t.Error("another key is gone")
	}
}

// TestTablesEnd stops imports by table files in several ways: going on, they bring all keys.
func TestTablesEnd(t *testing.T) {
	byTables(t)
	path := filepath.Join(t.TempDir(), "1.rdb")
	const n = 24_000
	manyKeys(t, path, n, "1")
	half := fmt.Sprintf("[%d %d]", n/2, n/2)
	for name, stop := range map[string]struct {
		do func(t *testing.T, l *local, cancel func())
		// again: the import ends, and is called again. Otherwise it goes on by commands.
		again bool
	}{
		"interrupted": {func(_ *testing.T, _ *local, cancel func()) { cancel() }, true},
		"cut off":     {func(t *testing.T, l *local, _ func()) { l.must(t, "CLIENT", "KILL", "SKIPME", "yes") }, true},
		"refused": {func(t *testing.T, l *local, _ func()) {
			l.must(t, "CONFIG", "SET", "notify-keyspace-events", "K$")
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			to, l := serveDBs(t)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			read, stopped := int64(0), false
			o := ImportOptions{Path: path, DB: -1, Server: to, Memory: tablesMemory, Verify: true}
			o.Progress = func(_ string, b, size int64) {
				if read += b; read > size/4*3 && !stopped {
					stopped = true
					stop.do(t, l, cancel)
				}
			}
			r, err := Import(ctx, o)
			if !stopped || stop.again != (err != nil) {
				t.Fatal(stopped, err)
			}
			if err == nil && (r.Keys != n || r.Verified != n || r.Differ.Count > 0) {
				t.Errorf("%+v", r)
			}
			if stop.again {
				if name == "interrupted" && (!errors.Is(err, context.Canceled) || len(r.Warnings) > 0) {
					t.Error(err, r.Warnings)
				}
				o.Progress = nil
				if r = mustImport(t, o); r.Resumed == 0 || r.Keys == n || r.Verified != n {
					t.Errorf("it began anew: %+v", r)
				}
			}
			if got := fmt.Sprint(sizes(t, l)); got != half {
				t.Errorf("DBSIZE %s, want %s", got, half)
			}
		})
	}
}

// TestStdinByCommands imports the standard input into a server that takes table files: it cannot be read again if they
// are refused, so it goes by commands.
func TestStdinByCommands(t *testing.T) {
	byTables(t)
	path := filepath.Join(t.TempDir(), "1.rdb")
	const n = 2_000
	manyKeys(t, path, n, "1")
	f, err := os.Open(path)
	require.NoError(t, err)
	defer f.Close()
	to, l := serveDBs(t)
	r := mustImport(t, ImportOptions{Path: "-", Stdin: f, DB: -1, Server: to, Memory: tablesMemory})
	if r.Keys != n || tookTables(t, l) {
		t.Errorf("%d keys, by table files: %v", r.Keys, tookTables(t, l))
	}
	if got, want := fmt.Sprint(sizes(t, l)), fmt.Sprintf("[%d %d]", n/2, n/2); got != want {
		t.Errorf("DBSIZE %s, want %s", got, want)
	}
}
