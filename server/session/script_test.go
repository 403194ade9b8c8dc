package session_test

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/enginetest"
	"github.com/basaltdb/basalt/internal/require"
	"github.com/basaltdb/basalt/server"
	"github.com/basaltdb/basalt/server/servertest"
	"github.com/basaltdb/basalt/server/session"
)

const (
	endless     = "while true do end"
	incrScript  = "return redis.call('INCR', KEYS[1])"
	busyMessage = "-ERR Script killed by user with SCRIPT KILL..."
)

func TestScriptsShareThePipeline(t *testing.T) {
	c := servertest.Start(t).Dial(t)
	c.Send(servertest.Encode("SET", "a", "5") + servertest.Encode("EVAL", incrScript, "1", "a") +
		servertest.Encode("INCR", "a") +
		servertest.Encode("EVAL", "return redis.call('GET','a')", "0") +
		servertest.Encode("EVAL", "redis.call('SET','b','1') error('x')", "0") + servertest.Encode("GET", "b"))
	var got []string
	for range 6 {
		got = append(got, c.Reply())
	}
	if want := []string{"+OK\r\n", ":6\r\n", ":7\r\n", "$1\r\n7\r\n"}; !equalStrings(got[:4], want) ||
		!strings.HasPrefix(got[4], "-ERR user_script:1: x script: ") || got[5] != "$1\r\n1\r\n" {
		t.Errorf("%q", got)
	}
}

func equalStrings(a, b []string) bool { return strings.Join(a, "\x00") == strings.Join(b, "\x00") }

// As in Redis 7.2, and unlike 7.0, scripts may call blocking commands, which do not wait then.
func TestScriptsDoNotBlock(t *testing.T) {
	c := servertest.Start(t).Dial(t)
	for _, tt := range []struct{ call, want string }{
		{"'BLPOP','x',0", "$-1\r\n"},
		{"'BRPOP','x','y',0", "$-1\r\n"},
		{"'BLMOVE','x','y','LEFT','LEFT',0", "$-1\r\n"},
		{"'BRPOPLPUSH','x','y',0", "$-1\r\n"},
		{"'BLMPOP',0,1,'x','LEFT'", "$-1\r\n"},
		{"'BZPOPMIN','x',0", "$-1\r\n"},
		{"'BZPOPMAX','x',0", "$-1\r\n"},
		{"'BZMPOP',0,1,'x','MIN'", "$-1\r\n"},
		{"'WAIT',1,0", ":0\r\n"},
		{"'RPUSH','x','a','b'", ":2\r\n"},
		{"'BLMOVE','x','y','LEFT','LEFT',0", "$1\r\na\r\n"},
		{"'BLPOP','y','x',0", "*2\r\n$1\r\ny\r\n$1\r\na\r\n"},
		{"'BLPOP','x',-1", "-ERR timeout is negative script: "},
		{"'XREAD','COUNT',1,'STREAMS','s',0", "$-1\r\n"},
		{"'XRead','BLOCK',0,'STREAMS','s','$'", "-ERR XRead command is not allowed with BLOCK option from scripts script: "},
		{"'XREADGROUP','GROUP','g','c','BLOCK',0,'STREAMS','s','>'",
			"-ERR XREADGROUP command is not allowed with BLOCK option from scripts script: "},
		{"'WAITAOF',0,0,0", "-ERR This Redis command is not allowed from script script: "},
	} {
		if got := c.Do("EVAL", "return redis.call("+tt.call+")", "0"); got != tt.want &&
			(tt.want[0] != '-' || !strings.HasPrefix(got, tt.want)) {
			t.Errorf("%s: %q, want %q", tt.call, got, tt.want)
		}
	}
}

// SORT BY a constant returns the members of a set in any order to a client, but sorted to a script. DESC reverses the
// order.
func TestScriptsGetSetsSorted(t *testing.T) {
	c := servertest.Start(t).Dial(t)
	c.Want("SADD s b c a", ":3\r\n")
	for _, tt := range []struct{ order, want string }{
		{"ASC", "*3\r\n$1\r\na\r\n$1\r\nb\r\n$1\r\nc\r\n"},
		{"DESC", "*3\r\n$1\r\nc\r\n$1\r\nb\r\n$1\r\na\r\n"},
	} {
		if got := c.Do("EVAL", "return redis.call('SORT',KEYS[1],'BY','nosort',ARGV[1])", "1", "s",
			tt.order); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.order, got, tt.want)
		}
	}
}

// Scripts that access the same undeclared keys in opposite order do not deadlock and lose no write, while transactions
// and read-only scripts use the keys, too.
func TestScriptsWithUndeclaredKeys(t *testing.T) {
	h := servertest.Start(t)
	const clients, each = 4, 150
	var wg sync.WaitGroup
	run := func(f func(c *servertest.Client, i int)) {
		for range clients {
			c := h.Dial(t)
			wg.Go(func() {
				for i := range each {
					f(c, i)
				}
			})
		}
	}
	move := func(from, to string) func(c *servertest.Client, i int) {
		script := fmt.Sprintf("redis.call('DECR','%s') redis.call('INCR','%s') return redis.call('INCR',KEYS[1])", from, to)
		return func(c *servertest.Client, i int) {
			if r := c.Do("EVAL", script, "1", "count"); r[0] != ':' {
				t.Errorf("%q", r)
			}
		}
	}
	run(move("x", "y"))
	run(move("y", "x"))
	run(func(c *servertest.Client, i int) {
		c.Do("MULTI")
		c.Do("DECR", "y")
		c.Do("EVAL", "return redis.call('INCR','x')", "0")
		if r := c.Do("EXEC"); !strings.HasPrefix(r, "*2\r\n:") {
			t.Errorf("%q", r)
		}
	})
	run(func(c *servertest.Client, i int) {
		if r := c.Do("EVAL_RO", "return (redis.call('GET','x') or 0)+(redis.call('GET','y') or 0)", "0"); r != ":0\r\n" {
			t.Errorf("a part of another script's writes was seen: %q", r)
		}
	})
	wg.Wait()
	c := h.Dial(t)
	c.Want("GET count", "$4\r\n1200\r\n")
	c.Want("EVAL_RO return(redis.call('GET','x')+redis.call('GET','y')) 0", ":0\r\n")
}

// A script that reads undeclared keys and then writes them runs once if no other client uses the keys.
func TestScriptsThatReadAndWriteRunOnce(t *testing.T) {
	session.BePatient(t) // on a busy host each script may take long
	h := servertest.Start(t)
	c := h.Dial(t)
	const script = `redis.log(redis.LOG_WARNING, 'it runs')
		for i = 1, 30 do redis.call('SET', 'k' .. i, (redis.call('GET', 'k' .. i) or 0) + 1) end`
	const scripts = 5
	for i := range scripts {
		switch i % 3 {
		case 0:
			c.Do("EVAL", script, "0")
		case 1: // in a segment
			c.Send(servertest.Encode("SET", "a", "b") + servertest.Encode("EVAL", script, "0"))
			c.Reply()
			c.Reply()
		case 2:
			c.Send(servertest.Encode("MULTI") + servertest.Encode("EVAL", script, "0") + servertest.Encode("EXEC"))
			c.Reply()
			c.Reply()
			c.Reply()
		}
	}
	c.Want("GET k30", "$1\r\n5\r\n")
	if n := h.Logs.FilterMessage("it runs").Len(); n != scripts {
		t.Errorf("%d scripts ran %d times", scripts, n)
	}
}

// Scripts add one to each of several undeclared keys, which they read and then write in any order, also in transactions
// and pipelines: no update is lost, each script sees equal values, and no script waits for ever.
func TestScriptsLoseNoUpdates(t *testing.T) {
	h := servertest.Start(t)
	const clients, each, keys = 6, 120, 5
	const script = `local seen
		for i, k in ipairs(ARGV) do
			local v = tonumber(redis.call('GET', k) or 0)
			if i == 1 then seen = v elseif v ~= seen then return redis.error_reply('PARTIAL writes seen') end
		end
		for i = #ARGV, 1, -1 do redis.call('SET', ARGV[i], seen + 1) end
		return seen`
	var wg sync.WaitGroup
	for n := range clients {
		c := h.Dial(t)
		wg.Go(func() {
			r := rand.New(rand.NewPCG(1, uint64(n)))
			for i := range each {
				args := []string{"EVAL", script, "0"}
				for _, k := range r.Perm(keys) {
					args = append(args, "k"+strconv.Itoa(k))
				}
				var reply string
				switch {
				case n == 0 && i%2 == 0:
					c.Send(servertest.Encode("MULTI") + servertest.Encode("SET", "other", "x") + servertest.Encode(args...) +
						servertest.Encode("EXEC"))
					for range 3 {
						c.Reply()
					}
					reply = strings.TrimPrefix(c.Reply(), "*2\r\n+OK\r\n")
				case n == 1 && i%2 == 0:
					c.Send(servertest.Encode("GET", "k1") + servertest.Encode("SET", "other", "x") + servertest.Encode(args...))
					c.Reply()
					c.Reply()
					reply = c.Reply()
				default:
					reply = c.Do(args...)
				}
				if reply[0] != ':' {
					t.Errorf("%q", reply)
				}
			}
		})
	}
	wg.Wait()
	c := h.Dial(t)
	for k := range keys {
		c.Want("GET k"+strconv.Itoa(k), fmt.Sprintf("$3\r\n%d\r\n", clients*each))
	}
}

func TestScriptKillUndoesTheScript(t *testing.T) {
	h := servertest.Start(t)
	c, other := h.Dial(t), h.Dial(t)
	other.Want("SCRIPT KILL", "-NOTBUSY No scripts in execution right now.\r\n")
	c.Want("SET a 1", "+OK\r\n")
	for _, body := range []string{endless, "while true do pcall(function() " + endless + " end) end",
		"while true do redis.call('GET','a') end",
		"while true do ('a'):rep(1000):find('.-.-.-.-.-b') end", "local co = coroutine.wrap(function() " + endless +
			" end) co()",
		"xpcall(function() " + endless + " end, function() " + endless + " end)"} {
		c.Send(servertest.Encode("INCR", "n") +
			servertest.Encode("EVAL",
				"redis.call('INCR', KEYS[1]) redis.call('SET', 'undeclared', '1') redis.call('PUBLISH','c','m') "+body, "1", "a"))
		servertest.Eventually(t, "the script was killed", func() bool { return other.Do("SCRIPT", "KILL") == "+OK\r\n" })
		if r := c.Reply(); r[0] != ':' {
			t.Errorf("%s: the command before it: %q", body, r)
		}
		if r := c.Reply(); !strings.HasPrefix(r, busyMessage) {
			t.Errorf("%s: %q", body, r)
		}
		c.Want("MGET a undeclared", "*2\r\n$1\r\n1\r\n$-1\r\n")
	}
	c.Want("GET n", "$1\r\n6\r\n")
}

func TestScriptMemoryLimit(t *testing.T) {
	h := servertest.Start(t, "lua-memory-limit-mb", "16") // a low limit, so that the scripts reach it soon
	c := h.Dial(t)
	for _, script := range []string{
		"redis.call('SET','k','1') local t={} for i=1,1e9 do t[i]={i} end",
		"redis.call('SET','k','1') local s='x' while true do s=s..s end",
		"redis.call('SET','k','1') local t={} while true do t[#t+1]=('x'):rep(1e6) end",
		"redis.call('SET','k','1') local t={} while true do t[#t+1]=string.format('%99s',#t)..#t end",
	} {
		if r := c.Do("EVAL", script, "1", "k"); !strings.Contains(r, "memory") {
			t.Errorf("%s: %q", script, r)
		}
	}
	c.Want("PING", "+PONG\r\n")
}

func TestStrictKeyAccessing(t *testing.T) {
	c := servertest.Start(t, "lua-strict-key-accessing", "yes").Dial(t)
	if r := c.Do("EVAL", "return redis.call('SET','b','1')", "1", "a"); !strings.HasPrefix(r,
		"-ERR Script attempted to access undeclared keys script: ") {
		t.Errorf("%q", r)
	}
	if r := c.Do("EVAL", "return redis.call('SET','a','1')", "1", "a"); r != "+OK\r\n" {
		t.Errorf("%q", r)
	}
	c.Want("CONFIG SET lua-strict-key-accessing no", "+OK\r\n")
	if r := c.Do("EVAL", "return redis.call('SET','b','1')", "1", "a"); r != "+OK\r\n" {
		t.Errorf("%q", r)
	}
}

func TestScriptsWakeWaiters(t *testing.T) {
	h := servertest.Start(t)
	for _, push := range [][]string{
		{"EVAL", "redis.call('RPUSH','l','x') return 1", "0"},
		{"EVAL", "redis.call('RPUSH',KEYS[1],'x') return 1", "1", "l"},
	} {
		waiting, c := h.Dial(t), h.Dial(t)
		waiting.Send(servertest.Encode("BLPOP", "l", "0"))
		servertest.Eventually(t, "the client waits", func() bool { return h.Sessions().Counts().Blocked == 1 })
		if r := c.Do(push...); r != ":1\r\n" {
			t.Fatalf("%q", r)
		}
		if r := waiting.Reply(); r != "*2\r\n$1\r\nl\r\n$1\r\nx\r\n" {
			t.Errorf("%q", r)
		}
		servertest.Eventually(t, "no client is blocked", func() bool { return h.Sessions().Counts().Blocked == 0 })
	}
}

func TestScriptPublishesAfterItsCommit(t *testing.T) {
	h := servertest.Start(t)
	sub, c := h.Dial(t), h.Dial(t)
	sub.Do("SUBSCRIBE", "c")
	if r := c.Do("EVAL", "redis.call('SET','a','1') return redis.call('PUBLISH','c','m')", "0"); r != ":1\r\n" {
		t.Errorf("%q", r)
	}
	if r := sub.Reply(); r != "*3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$1\r\nm\r\n" {
		t.Errorf("%q", r)
	}
}

func TestScriptsAndLibrariesPersist(t *testing.T) {
	dir := t.TempDir()
	run := func(f func(c *servertest.Client)) {
		db := enginetest.OpenPlain(t, engine.Options{Dir: dir})
		s := server.New(servertest.Config(t), db, nil)
		require.NoError(t, s.Start())
		f((&servertest.Harness{Server: s}).Dial(t))
		s.Close()
		db.Close()
	}
	const library = "#!lua name=lib\nredis.register_function('fn', function(k,a) return a[1] end)"
	run(func(c *servertest.Client) {
		c.Do("SCRIPT", "LOAD", "return 1")
		c.Do("EVAL", "return 2", "0")
		if r := c.Do("FUNCTION", "LOAD", library); r != "$3\r\nlib\r\n" {
			t.Errorf("%q", r)
		}
	})
	dump := ""
	run(func(c *servertest.Client) {
		c.Want("EVALSHA E0E1F9FABFC9D4800C877A703B823AC0578FF8DB 0", ":1\r\n")
		c.Want("EVALSHA 7f923f79fe76194c868d7e1d0820de36700eb649 0", "-NOSCRIPT No matching script. Please use EVAL.\r\n")
		c.Want("FCALL fn 0 x", "$1\r\nx\r\n")
		c.Want("SCRIPT FLUSH", "+OK\r\n")
		dump = c.Do("FUNCTION", "DUMP")
		c.Want("FUNCTION DELETE lib", "+OK\r\n")
	})
	run(func(c *servertest.Client) {
		c.Want("SCRIPT EXISTS e0e1f9fabfc9d4800c877a703b823ac0578ff8db", "*1\r\n:0\r\n")
		c.Want("FCALL fn 0 x", "-ERR Function not found\r\n")
		payload := dump[strings.Index(dump, "\n")+1 : len(dump)-2]
		for _, r := range [][2]string{{"", "+OK\r\n"}, {"APPEND", "-ERR Library lib already exists\r\n"},
			{"REPLACE", "+OK\r\n"}, {"FLUSH", "+OK\r\n"}} {
			args := []string{"FUNCTION", "RESTORE", payload}
			if r[0] != "" {
				args = append(args, r[0])
			}
			if got := c.Do(args...); got != r[1] {
				t.Errorf("RESTORE %s: %q", r[0], got)
			}
		}
		c.Want("FCALL FN 0 x", "$1\r\nx\r\n")
	})
	run(func(c *servertest.Client) { c.Want("FCALL fn 0 x", "$1\r\nx\r\n") })
}

func TestManyScriptsTakeBoundedMemory(t *testing.T) {
	h := servertest.Start(t)
	c := h.Dial(t)
	for i := range 3000 {
		if r := c.Do("EVAL", "return "+strconv.Itoa(i), "0"); r != ":"+strconv.Itoa(i)+"\r\n" {
			t.Fatalf("%q", r)
		}
	}
	if n := h.Sessions().Scripts.Memory().Cached; n > 1000 {
		t.Errorf("%d scripts are kept", n)
	}
}

func TestScriptStopsWithTheServer(t *testing.T) {
	h := servertest.Start(t)
	c := h.Dial(t)
	c.Send(servertest.Encode("EVAL", endless, "0"))
	servertest.Eventually(t, "the script runs", h.Sessions().Scripts.Active)
	done := make(chan struct{})
	go func() { h.Close(); close(done) }()
	select {
	case <-done:
	case <-time.After(servertest.Patience):
		t.Fatal("the server waits for the script")
	}
}

func TestFunctionKill(t *testing.T) {
	h := servertest.Start(t)
	c, other := h.Dial(t), h.Dial(t)
	c.Do("FUNCTION", "LOAD",
		"#!lua name=l\nredis.register_function('f', function(k) redis.call('SET',k[1],'1') "+endless+" end)")
	c.Send(servertest.Encode("FCALL", "f", "1", "a"))
	servertest.Eventually(t, "the function was killed", func() bool { return other.Do("FUNCTION", "KILL") == "+OK\r\n" })
	if r := c.Reply(); !strings.HasPrefix(r, "-ERR Script killed by user with FUNCTION KILL") {
		t.Errorf("%q", r)
	}
	c.Want("EXISTS a", ":0\r\n")
	if r := c.Do("FUNCTION", "LOAD", "#!lua name=m\n"+endless); !strings.HasPrefix(r,
		"-ERR Error registering functions: ERR ") || !strings.Contains(r, "timeout") {
		t.Errorf("%q", r)
	}
}

func TestScriptFlushesTheKeyspace(t *testing.T) {
	c := servertest.Start(t).Dial(t)
	c.Want("SET a 1", "+OK\r\n")
	if r := c.Do("EVAL",
		"redis.call('SET','b','1') redis.call('FLUSHALL') redis.call('SET','c','1') return redis.call('DBSIZE')",
		"0"); r != ":1\r\n" {
		t.Errorf("%q", r)
	}
	c.Want("MGET a b c", "*3\r\n$-1\r\n$-1\r\n$1\r\n1\r\n")
}

func BenchmarkEval(b *testing.B) {
	const body = " redis.call('SET', k, (redis.call('GET', k) or 0) + 1) end"
	var keys []string
	for i := range 15 {
		keys = append(keys, "key"+strconv.Itoa(i))
	}
	for _, script := range []struct {
		name string
		args []string
	}{
		{"one", []string{incrScript, "1", "k"}},
		{"declared", append([]string{"for i = 1, 15 do local k = KEYS[i]" + body, "15"}, keys...)},
		{"undeclared", []string{"for i = 1, 15 do local k = 'key' .. i" + body, "0"}},
	} {
		b.Run(script.name, func(b *testing.B) {
			c := servertest.Start(b).Dial(b)
			const depth = 16
			batch := strings.Repeat(servertest.Encode(append([]string{"EVAL"}, script.args...)...), depth)
			for b.Loop() {
				c.Send(batch)
				for range depth {
					c.Reply()
				}
			}
			b.ReportMetric(float64(b.N*depth)/b.Elapsed().Seconds(), "evals/s")
		})
	}
}

// What a replica without its master answers with slave-serve-stale-data no: clients look for another master after
// READONLY, so that comes first. A script runs only if it has the flag allow-stale.
func TestScriptsOnStaleReplica(t *testing.T) {
	const down = "-MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.\r\n"
	const readOnly = "-READONLY You can't write against a read only replica.\r\n"
	h := servertest.Start(t)
	c := h.Dial(t)
	limits := &h.Sessions().Limits
	limits.Stale.Store(true)
	for _, tt := range []struct{ script, writable, readOnly string }{
		{"return 1", down, down},
		{"return redis.call('SET', 'k', '1')", down, down},
		{"#!lua\nreturn 1", down, readOnly},
		{"#!lua flags=no-writes\nreturn 1", down, down},
		{"#!lua flags=allow-stale\nreturn 1", ":1\r\n", readOnly},
		{"#!lua flags=allow-stale,no-writes\nreturn 1", ":1\r\n", ":1\r\n"},
		{"#!lua flags=allow-stale,no-writes\nreturn redis.pcall('GET', 'k')",
			"-ERR Can not execute the command on a stale replica\r\n",
			"-ERR Can not execute the command on a stale replica\r\n"},
	} {
		limits.ReadOnly.Store(false)
		if got := c.Do("EVAL", tt.script, "0"); got != tt.writable {
			t.Errorf("%q: %q, want %q", tt.script, got, tt.writable)
		}
		limits.ReadOnly.Store(true)
		if got := c.Do("EVAL", tt.script, "0"); got != tt.readOnly {
			t.Errorf("%q on a read-only replica: %q, want %q", tt.script, got, tt.readOnly)
		}
	}
	c.Want("SET k 1", readOnly)
	c.Want("GET k", down)
	limits.ReadOnly.Store(false)
	c.Want("SET k 1", down)
}
