package server_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/basaltdb/basalt/internal/require"
	"github.com/basaltdb/basalt/server/servertest"
)

// number returns the integer of a reply.
func number(t *testing.T, reply string) int64 {
	t.Helper()
	n, err := strconv.ParseInt(strings.TrimSpace(strings.TrimPrefix(reply, ":")), 10, 64)
	if err != nil || reply[0] != ':' {
		t.Fatalf("not an integer: %q", reply)
	}
	return n
}

func TestMemoryAndDiskUsage(t *testing.T) {
	h := servertest.Start(t)
	c := h.Dial(t)
	c.Do("SET", "s", strings.Repeat("x", 10_000))
	var p strings.Builder
	for i := range 1000 {
		p.WriteString(servertest.Pipeline(fmt.Sprintf("HSET h field%04d 0123456789", i),
			fmt.Sprintf("ZADD z %d member%04d", i, i), fmt.Sprintf("SETBIT b %d 1", i*8192)))
	}
	c.Send(p.String())
	for range 3000 {
		c.Reply()
	}
	for key, size := range map[string]int64{"s": 10_000, "h": 1000 * 19, "z": 1000 * 2 * 18, "b": 1_000_000 / 1000} {
		for _, cmd := range []string{"MEMORY USAGE " + key, "MEMORY USAGE " + key + " SAMPLES 0", "DISK USAGE " + key} {
			if n := number(t, c.Do(strings.Fields(cmd)...)); n < size/2 || n > size*20+1_000_000/2 {
				t.Errorf("%s: %d bytes, the data alone has %d", cmd, n, size)
			}
		}
	}
	c.Want("DISK USAGE missing", "$-1\r\n")
	c.Want("DISK FREE s", "-ERR Unknown operation\r\n")
	if got := c.Do("MEMORY", "STATS"); !strings.Contains(got, "$10\r\nkeys.count\r\n:4\r\n") ||
		!strings.Contains(got, "rocksdb.block-cache") {
		t.Errorf("%q", got)
	}
	c.Do("HELLO", "3")
	if got := c.Do("MEMORY",
		"STATS"); !regexp.MustCompile(`(?s)^%\d+\r\n.*fragmentation\r\n,[\d.]+\r\n`).MatchString(got) {
		t.Errorf("%q", got)
	}
	for _, cmd := range []string{"DOCTOR", "MALLOC-STATS"} {
		if got := c.Do("MEMORY", cmd); !strings.HasPrefix(got, "=") {
			t.Errorf("%s: %q", cmd, got)
		}
	}
	c.Want("MEMORY PURGE", "+OK\r\n")
}

func TestHeapProfiling(t *testing.T) {
	h := servertest.Start(t)
	c := h.Dial(t)
	was := h.Sessions().Services.Memory.HeapProfiling()
	t.Cleanup(func() { h.Sessions().Services.Memory.SetHeapProfiling(was) })
	c.Want("KPROFILE MEMORY ENABLE", "+OK\r\n")
	c.Want("KPROFILE memory STATUS", "+enabled\r\n")
	dir := filepath.Join(h.Config().Dir(), "profiles")
	require.NoError(t, os.Mkdir(dir, 0o755))
	c.Want("KPROFILE MEMORY DUMP "+dir, "+OK\r\n")
	if files, _ := filepath.Glob(filepath.Join(dir, "heap-*.pprof")); len(files) != 1 {
		t.Errorf("files %v", files)
	} else if info, err := os.Stat(files[0]); err != nil || info.Size() == 0 || info.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", info, err)
	}
	c.Want("KPROFILE MEMORY DISABLE", "+OK\r\n")
	c.Want("KPROFILE MEMORY STATUS", "+disabled\r\n")
	for cmd, want := range map[string]string{
		"KPROFILE CPU ENABLE":          "-ERR only supports MEMORY subcommand\r\n",
		"KPROFILE MEMORY WHAT":         "-ERR MEMORY subcommand must be one of ENABLE, DISABLE, STATUS, DUMP\r\n",
		"KPROFILE MEMORY DUMP":         "-ERR wrong number of arguments for 'kprofile' command\r\n",
		"KPROFILE MEMORY STATUS x":     "-ERR wrong number of arguments for 'kprofile' command\r\n",
		"KPROFILE MEMORY":              "-ERR wrong number of arguments for 'kprofile' command\r\n",
		"KPROFILE MEMORY DUMP /no/dir": "-ERR \"/no/dir\" is not a directory\r\n",
	} {
		c.Want(cmd, want)
	}
}

// The digest depends on the data only, not on the commands that have written it.
func TestDebugDigest(t *testing.T) {
	digest := func(commands ...string) (all, value string) {
		c := servertest.Start(t).Dial(t)
		for _, cmd := range commands {
			c.Do(strings.Fields(cmd)...)
		}
		return c.Do("DEBUG", "DIGEST"), c.Do("DEBUG", "DIGEST-VALUE", "l", "h", "missing")
	}
	all, values := digest("RPUSH l a b c", "HSET h f 1 g 2", "SET s v", "ZADD z 1 m", "DEBUG RELOAD")
	again, valuesAgain := digest("SET s x", "LPUSH l b a", "ZADD z 2 m", "HSET h g x", "RPUSH l c", "HSET h g 2 f 1",
		"ZADD z 1 m", "SET s v")
	if all != again || values != valuesAgain {
		t.Errorf("%q and %q, %q and %q", all, again, values, valuesAgain)
	}
	if !regexp.MustCompile(`^\+[0-9a-f]{40}\r\n$`).MatchString(all) ||
		!strings.HasSuffix(values, "+"+strings.Repeat("0", 40)+"\r\n") {
		t.Errorf("%q %q", all, values)
	}
	seen := map[string]bool{all: true}
	for _, change := range []string{"HSET h f 2", "RPUSH l c", "RENAME s t", "EXPIRE s 100", "SADD new x", "DEL z"} {
		got, _ := digest("RPUSH l a b c", "HSET h f 1 g 2", "SET s v", "ZADD z 1 m", change)
		if seen[got] {
			t.Errorf("%s does not change the digest, or changes it like another command", change)
		}
		seen[got] = true
	}
}

// TestDebugInTransactions: a DEBUG command that takes locks neither waits for the locks of its transaction nor releases
// them.
func TestDebugInTransactions(t *testing.T) {
	c := servertest.Start(t).Dial(t)
	c.Want("MULTI", "+OK\r\n")
	for _, queued := range []string{"SET key:1 v", "DEBUG SDSLEN key:1", "DEBUG POPULATE 3", "GET key:1"} {
		c.Want(queued, "+QUEUED\r\n")
	}
	c.Want("EXEC",
		"*4\r\n+OK\r\n+key_sds_len:5, key_sds_avail:0, key_zmalloc: 5, val_sds_len:1, val_sds_avail:0, val_zmalloc: 1\r\n"+
			"-ERR DEBUG POPULATE isn't allowed in transactions\r\n$1\r\nv\r\n")
	c.Want("DEBUG POPULATE 3", "+OK\r\n")
	c.Want("MGET key:0 key:1", "*2\r\n$7\r\nvalue:0\r\n$1\r\nv\r\n")
}

func TestDebug(t *testing.T) {
	h := servertest.Start(t)
	c := h.Dial(t)
	for _, line := range []struct{ command, want string }{
		{"DEBUG PANIC", "-ERR DEBUG PANIC is refused: it would end or damage the server\r\n"},
		{"DEBUG segfault", "-ERR DEBUG SEGFAULT is refused: it would end or damage the server\r\n"},
		{"DEBUG NOSUCH", "-ERR unknown subcommand or wrong number of arguments for 'NOSUCH'. Try DEBUG HELP.\r\n"},
		{"DEBUG STRINGMATCH-LEN a*c abc", ":1\r\n"},
		{"DEBUG STRINGMATCH-LEN a*c abd", ":0\r\n"},
		{"DEBUG DBSIZE-LIMIT 1", "+OK\r\n"},
		{"SET k v", "-ERR write command not allowed when reached max-db-size.\r\n"},
		{"GET k", "$-1\r\n"},
		{"DEL k", ":0\r\n"},
		{"DEBUG DBSIZE-LIMIT 0", "+OK\r\n"},
		{"SET k v", "+OK\r\n"},
		{"DEBUG DBSIZE-LIMIT 2", "-ERR syntax error\r\n"},
		{"DEBUG RELOAD", "+OK\r\n"},
		{"DEBUG RELOAD NOSAVE NOFLUSH MERGE", "+OK\r\n"},
		{"GET k", "$1\r\nv\r\n"},
		{"DEBUG HTSTATS-KEY k full", "$42\r\nNo stats available for empty dictionaries\n\r\n"},
		{"EVAL return{redis.pcall('DEBUG','PROTOCOL','true')} 0",
			"*1\r\n-ERR This Redis command is not allowed from script\r\n"},
		{"DEBUG SET-DISABLE-DENY-SCRIPTS 1", "+OK\r\n"},
		{"EVAL return{redis.pcall('DEBUG','PROTOCOL','true')} 0", "*1\r\n:1\r\n"},
		{"EVAL redis.setresp(3)return{redis.call('DEBUG','PROTOCOL','attrib')} 0",
			"*1\r\n$39\r\nSome real reply following the attribute\r\n"},
		// The clock stands still in a script.
		{"EVAL redis.call('SET','t','v','PX','1')redis.call('DEBUG','SLEEP','0.01')return(redis.call('EXISTS','t')) 0",
			":1\r\n"},
		{"EVAL return{redis.pcall('DEBUG','RELOAD').err} 0",
			"*1\r\n$49\r\nERR This Redis command is not allowed from script\r\n"},
		{"DEBUG SET-DISABLE-DENY-SCRIPTS 0", "+OK\r\n"},
		{"EVAL return{redis.pcall('DEBUG','PROTOCOL','true').err} 0",
			"*1\r\n$49\r\nERR This Redis command is not allowed from script\r\n"},
		{"DEBUG SDSLEN k",
			"+key_sds_len:1, key_sds_avail:0, key_zmalloc: 1, val_sds_len:1, val_sds_avail:0, val_zmalloc: 1\r\n"},
	} {
		c.Want(line.command, line.want)
	}
	// TIME stands still in EXEC and in scripts.
	c.Want("MULTI", "+OK\r\n")
	for _, command := range []string{"TIME", "DEBUG SLEEP 0.01", "TIME"} {
		c.Want(command, "+QUEUED\r\n")
	}
	if before, after, _ := strings.Cut(c.Do("EXEC"), "+OK\r\n"); before != "*3\r\n"+after {
		t.Errorf("TIME in EXEC: %q, later %q", before, after)
	}
	c.Want("DEBUG SET-DISABLE-DENY-SCRIPTS 1", "+OK\r\n")
	if got := c.Do("EVAL",
		"local t=redis.call('TIME') redis.call('DEBUG','SLEEP','0.01') local u=redis.call('TIME') return t[1]==u[1] and "+
			"t[2]==u[2]", "0"); got != ":1\r\n" {
		t.Errorf("TIME in a script: %q", got)
	}
	if got := c.Do("DEBUG", "OBJECT", "k"); !strings.Contains(got, " encoding:embstr serializedlength:") ||
		!strings.Contains(got, " type:string ") {
		t.Errorf("%q", got)
	}
	c.Want("DEBUG LOG hello", "+OK\r\n")
	if h.Logs.FilterMessage("DEBUG LOG: hello").Len() != 1 {
		t.Error("the line is not in the log")
	}
	c.Do("HELLO", "3")
	c.Send(servertest.Pipeline("DEBUG PROTOCOL attrib"))
	for _, part := range []string{"|1\r\n", "$14\r\nkey-popularity\r\n", "*2\r\n$7\r\nkey:123\r\n:90\r\n",
		"$39\r\nSome real reply following the attribute\r\n"} {
		if got := c.Reply(); got != part {
			t.Errorf("%q, want %q", got, part)
		}
	}
	c.Send(servertest.Pipeline("DEBUG PROTOCOL push"))
	for _, part := range []string{">2\r\n$16\r\nserver-cpu-usage\r\n:42\r\n",
		"$40\r\nSome real reply following the push reply\r\n"} {
		if got := c.Reply(); got != part {
			t.Errorf("%q, want %q", got, part)
		}
	}
	c.Do("HELLO", "2")
	c.Want("DEBUG PROTOCOL push", "-ERR RESP2 is not supported by this command\r\n")
}

// WAITAOF 1 syncs the log.
func TestWaitAOFSyncs(t *testing.T) {
	h := servertest.Start(t)
	c := h.Dial(t)
	synced := func() int { return h.Ticker(t, "rocksdb.wal.synced") }
	c.Want("SET k v", "+OK\r\n")
	before := synced()
	c.Want("WAITAOF 0 0 0", "*2\r\n:0\r\n:0\r\n")
	if synced() != before {
		t.Error("WAITAOF 0 has synced the log")
	}
	c.Want("WAITAOF 1 0 0", "*2\r\n:1\r\n:0\r\n")
	if synced() == before {
		t.Error("WAITAOF 1 has not synced the log")
	}
}

// The container commands that Redis does not have reply to HELP like those of Redis.
func TestHelpOfContainers(t *testing.T) {
	c := servertest.Start(t).Dial(t)
	for command, first := range map[string]string{
		"DISK HELP":       "DISK <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
		"PERFLOG HELP":    "PERFLOG <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
		"SST HELP":        "SST <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
		"JSON.DEBUG HELP": "MEMORY <key> [path]",
	} {
		if got := c.Do(strings.Fields(command)...); got[0] != '*' || !strings.Contains(got, first) {
			t.Errorf("%s: %.200q", command, got)
		}
	}
}

func TestScriptsHaveNoDebugger(t *testing.T) {
	c := servertest.Start(t).Dial(t)
	c.Want("SCRIPT DEBUG yes", "-ERR there is no debugger for scripts\r\n")
	c.Want("SCRIPT DEBUG no", "+OK\r\n")
}

// TestHeapProfileElsewhere: a heap profile in a directory outside of dir requires enable-protected-configs, like the
// paths of protected settings, also when a symbolic link leads to the directory.
func TestHeapProfileElsewhere(t *testing.T) {
	for mode, allowed := range map[string]bool{"no": false, "local": true, "yes": true} {
		h := servertest.Start(t, "enable-protected-configs", mode)
		c := h.Dial(t)
		elsewhere := t.TempDir()
		link := filepath.Join(h.Config().Dir(), "link")
		require.NoError(t, os.Symlink(elsewhere, link))
		for _, dir := range []string{elsewhere, link} {
			got := c.Do("KPROFILE", "MEMORY", "DUMP", dir)
			if allowed != (got == "+OK\r\n") || !allowed && !strings.Contains(got, "is not in dir") {
				t.Errorf("%s, %s: %q", mode, dir, got)
			}
		}
		far := h.Sessions().Services.Memory.DumpHeapProfile(elsewhere, false)
		if (far == nil) != (mode == "yes") {
			t.Errorf("%s, from another host: %v", mode, far)
		}
	}
}
