package cli

import (
	"maps"
	"os"
	"strings"
	"sync"
	"testing"

	"go.uber.org/zap"

	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/internal/fixture"
	"github.com/basaltdb/basalt/internal/require"
	"github.com/basaltdb/basalt/server"
	"github.com/basaltdb/basalt/server/options"
	"github.com/basaltdb/basalt/server/servertest"
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

// serve serves a data directory until stop.
func serve(t *testing.T, dir string, settings ...string) (c *servertest.Client, stop func()) {
	t.Helper()
	cfg := servertest.Config(t, append([]string{"dir", dir}, settings...)...)
	db, err := engine.Open(options.Engine(cfg, cfg.MemoryPlan(), zap.NewNop()))
	require.NoError(t, err)
	h := &servertest.Harness{Server: server.New(cfg, db, zap.NewNop()), DB: db}
	stop = sync.OnceFunc(func() {
		h.Close()
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(stop)
	require.NoError(t, h.Start())
	return h.Dial(t), stop
}

// shard is what a node of the tests has: values of several types, and a library that all nodes have.
func shard(name string) (commands [][]string, reads map[string]string) {
	for _, line := range []string{"SET K v", "RPUSH K:l a b", "SADD K:s a", "HSET K:h f v", "ZADD K:z 1.5 m",
		"XADD K:x 1-1 f v",
		"XGROUP CREATE K:x g 0", "JSON.SET K:j $ [1]", "SIADD K:si 7", "SETBIT K:b 7 1", "PFADD K:p a b", "BF.ADD K:bf a",
		"PEXPIREAT K:l 4102444800000"} {
		commands = append(commands, strings.Fields(strings.ReplaceAll(line, "K", name)))
	}
	commands = append(commands, []string{"FUNCTION", "LOAD", "REPLACE", "#!lua name=lib\nredis.register_function('f', " +
		"function() return 7 end)"})
	reads = map[string]string{}
	for line, want := range map[string]string{
		"GET K": "$1\r\nv\r\n", "LRANGE K:l 0 -1": "*2\r\n$1\r\na\r\n$1\r\nb\r\n", "SISMEMBER K:s a": ":1\r\n",
		"HGET K:h f": "$1\r\nv\r\n", "ZSCORE K:z m": "$3\r\n1.5\r\n", "XLEN K:x": ":1\r\n", "JSON.GET K:j": "$3\r\n[1]\r\n",
		"SICARD K:si": ":1\r\n", "GETBIT K:b 7": ":1\r\n", "PFCOUNT K:p": ":2\r\n", "BF.EXISTS K:bf a": ":1\r\n",
		"PEXPIRETIME K:l": ":4102444800000\r\n", "FCALL f 1 K": ":7\r\n",
	} {
		reads[strings.ReplaceAll(line, "K", name)] = want
	}
	return commands, reads
}

// Two servers are converted and serve as nodes of a cluster, and what they have then becomes one server again.
func TestReslotServes(t *testing.T) {
	back := t.TempDir()
	all := map[string]string{}
	for i, name := range []string{"one", "two"} {
		commands, reads := shard(name)
		var stream strings.Builder
		for _, args := range commands {
			stream.WriteString(servertest.Encode(args...))
		}
		file, plain, node := t.TempDir()+"/commands", t.TempDir()+"/plain", t.TempDir()
		require.NoError(t, os.WriteFile(file, []byte(stream.String()), 0o600))
		want := func(step string, args ...string) {
			t.Helper()
			if code, out, stderr := run(t, args...); code != ExitOK || stderr != "" {
				t.Fatalf("%s of %s: %d, %q, %q", step, name, code, out, stderr)
			}
		}
		want("import", "import", file, "--to", plain)
		want("reslot", "reslot", plain, node)
		c, stop := serve(t, node, "cluster-enabled", "yes")
		id := strings.Repeat("a", 40)
		c.Want("CLUSTERX SETNODEID "+id, "+OK\r\n")
		if got := c.Do("CLUSTERX", "SETNODES", id+" 127.0.0.1 7000 master - 0-16383", "1"); got != "+OK\r\n" {
			t.Fatal(got)
		}
		for command, reply := range reads {
			c.Want(command, reply)
		}
		c.Want("SET new:"+name+" v", "+OK\r\n")
		stop()
		reads["GET new:"+name] = "$1\r\nv\r\n"
		maps.Copy(all, reads)
		args := []string{"reslot", "--plain", node, back}
		if i > 0 {
			args = append(args, "--merge")
		}
		want("the way back", args...)
		code, _, stderr := run(t, "reslot", "--plain", "--merge", node, back)
		if code != ExitError || !strings.Contains(stderr, "has the key") {
			t.Errorf("a node came twice: %d, %q", code, stderr)
		}
	}
	c, _ := serve(t, back)
	for command, reply := range all {
		c.Want(command, reply)
	}
	c.Want("DBSIZE", ":24\r\n")
}
