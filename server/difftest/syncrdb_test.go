package difftest

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/basaltdb/basalt/internal/require"
)

// TestSyncRDB: a redis-server that loads the copy which redis-cli --rdb gets has every key of basalt, of every type and
// form, after random histories too.
func TestSyncRDB(t *testing.T) {
	cli, err := exec.LookPath("redis-cli")
	if err != nil {
		t.Fatalf("redis-cli is needed to compare with; install it (Debian: redis-tools): %v", err)
	}
	basalt := startReplica(t)
	c := mustDial(t, basalt)
	fillMaster(t, c)
	c.must(t, "SETBIT", "bits", "20000001", "1") // in several parts
	long := bytes.Repeat([]byte("long"), 1<<10)
	for i := range 200 {
		s := fmt.Sprintf("%s%d", long, i)
		c.must(t, "RPUSH", "large list", s)
		c.must(t, "HSET", "large hash", s, s)
		c.must(t, "ZADD", "large zset", fmt.Sprint(i), s)
		c.must(t, "SADD", "large set", s)
		c.must(t, "XADD", "large stream", fmt.Sprintf("%d-1", i+1), "f", s)
	}
	c.must(t, "XGROUP", "CREATE", "large stream", "group", "5")
	c.must(t, "XREADGROUP", "GROUP", "group", "consumer", "COUNT", "7", "STREAMS", "large stream", ">")
	_, port, err := net.SplitHostPort(basalt.Addr())
	require.NoError(t, err)
	rounds := 5
	if testing.Short() {
		rounds = 2
	}
	for seed := range rounds {
		if seed > 0 {
			for _, history := range [][]command{randomCommands(uint64(seed), 1500), streamCommands(uint64(seed), 1500)} {
				if _, err := replies(basalt, 2, true, history); err != nil {
					t.Fatal(err)
				}
			}
		}
		dir := t.TempDir()
		file := filepath.Join(dir, "dump.rdb")
		out, err := exec.Command(cli, "-p", port, "--rdb", file).CombinedOutput()
		if err != nil {
			t.Fatalf("redis-cli: %v: %s", err, out)
		}
		if seed == 0 {
			sameForms(t, basalt.Addr(), file)
			out, err = exec.Command(cli, "-p", port, "--functions-rdb", filepath.Join(dir, "functions.rdb")).CombinedOutput()
			if err != nil {
				t.Fatalf("redis-cli: %v: %s", err, out)
			}
		}
		redis := startRedis(t, "--dir", dir)
		r := mustDial(t, redis)
		n := sameKeys(t, r, c)
		if t.Failed() {
			t.Fatalf("in round %d", seed)
		}
		if seed > 0 {
			continue
		}
		if n < 30 {
			t.Errorf("only %d keys", n)
		}
		if got := r.must(t, "FUNCTION", "LIST"); !bytes.Contains(got.raw, []byte("lib")) {
			t.Errorf("functions: %q", got.raw)
		}
		only := mustDial(t, startRedis(t, "--dir", dir, "--dbfilename", "functions.rdb"))
		if got := only.must(t, "FUNCTION", "LIST"); !bytes.Contains(got.raw, []byte("lib")) {
			t.Errorf("functions alone: %q", got.raw)
		}
		if got := string(only.must(t, "DBSIZE").raw); got != ":0\r\n" {
			t.Errorf("functions alone: %q keys", got)
		}
	}
}

// sameForms compares a file with the one that comes with its length. They differ in the time of their making, and in
// the checksum.
func sameForms(t *testing.T, addr, file string) {
	t.Helper()
	nc, err := net.Dial("tcp", addr)
	require.NoError(t, err)
	defer nc.Close()
	nc.SetDeadline(time.Now().Add(patience))
	io.WriteString(nc, "REPLCONF rdb-only 1\r\nSYNC\r\n")
	got, err := io.ReadAll(nc)
	require.NoError(t, err)
	want, err := os.ReadFile(file)
	require.NoError(t, err)
	got, ok := bytes.CutPrefix(got, []byte("+OK\r\n"))
	length, got, _ := bytes.Cut(bytes.TrimLeft(got, "\n"), []byte("\r\n"))
	const head, checksum = 100, 8
	if !ok || string(length) != fmt.Sprintf("$%d", len(want)) || len(got) != len(want) ||
		!bytes.Equal(got[head:len(got)-checksum], want[head:len(want)-checksum]) {
		t.Errorf("with its length: %q, %d bytes, want %d", length, len(got), len(want))
	}
}
