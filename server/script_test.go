package server

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/basaltdb/basalt/engine"
)

const (
	endless     = "while true do end"
	incrScript  = "return redis.call('INCR', KEYS[1])"
	busyMessage = "-ERR Script killed by user with SCRIPT KILL..."
)

func TestScriptsShareThePipeline(t *testing.T) {
	c := start(t).dial(t)
	c.send(encode("SET", "a", "5") + encode("EVAL", incrScript, "1", "a") + encode("INCR", "a") +
		encode("EVAL", "return redis.call('GET','a')", "0") +
		encode("EVAL", "redis.call('SET','b','1') error('x')", "0") + encode("GET", "b"))
	var got []string
	for range 6 {
		got = append(got, c.reply())
	}
	if want := []string{"+OK\r\n", ":6\r\n", ":7\r\n", "$1\r\n7\r\n"}; !equalStrings(got[:4], want) ||
		!strings.HasPrefix(got[4], "-ERR user_script:1: x script: ") || got[5] != "$1\r\n1\r\n" {
		t.Errorf("%q", got)
	}
}

func equalStrings(a, b []string) bool { return strings.Join(a, "\x00") == strings.Join(b, "\x00") }

// As in Redis 7.2, and unlike 7.0, commands that block may be called by scripts, where they do not wait.
func TestScriptsDoNotBlock(t *testing.T) {
	c := start(t).dial(t)
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
		if got := c.do("EVAL", "return redis.call("+tt.call+")", "0"); got != tt.want &&
			(tt.want[0] != '-' || !strings.HasPrefix(got, tt.want)) {
			t.Errorf("%s: %q, want %q", tt.call, got, tt.want)
		}
	}
}

// SORT BY a constant leaves a set in any order for a client, but a script gets the same one each time, which DESC turns
// around.
func TestScriptsGetSetsSorted(t *testing.T) {
	c := start(t).dial(t)
	c.want("SADD s b c a", ":3\r\n")
	for _, tt := range []struct{ order, want string }{
		{"ASC", "*3\r\n$1\r\na\r\n$1\r\nb\r\n$1\r\nc\r\n"},
		{"DESC", "*3\r\n$1\r\nc\r\n$1\r\nb\r\n$1\r\na\r\n"},
	} {
		if got := c.do("EVAL", "return redis.call('SORT',KEYS[1],'BY','nosort',ARGV[1])", "1", "s",
			tt.order); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.order, got, tt.want)
		}
	}
}

// Scripts that touch the same undeclared keys in opposite order neither wait for each other for ever nor lose anything;
// MULTI, plain commands and readers take part.
func TestScriptsWithUndeclaredKeys(t *testing.T) {
	h := start(t)
	const clients, each = 4, 150
	var wg sync.WaitGroup
	run := func(f func(c *client, i int)) {
		for range clients {
			c := h.dial(t)
			wg.Go(func() {
				for i := range each {
					f(c, i)
				}
			})
		}
	}
	move := func(from, to string) func(c *client, i int) {
		script := fmt.Sprintf("redis.call('DECR','%s') redis.call('INCR','%s') return redis.call('INCR',KEYS[1])", from, to)
		return func(c *client, i int) {
			if r := c.do("EVAL", script, "1", "count"); r[0] != ':' {
				t.Errorf("%q", r)
			}
		}
	}
	run(move("x", "y"))
	run(move("y", "x"))
	run(func(c *client, i int) {
		c.do("MULTI")
		c.do("DECR", "y")
		c.do("EVAL", "return redis.call('INCR','x')", "0")
		if r := c.do("EXEC"); !strings.HasPrefix(r, "*2\r\n:") {
			t.Errorf("%q", r)
		}
	})
	run(func(c *client, i int) {
		if r := c.do("EVAL_RO", "return (redis.call('GET','x') or 0)+(redis.call('GET','y') or 0)", "0"); r != ":0\r\n" {
			t.Errorf("half a script was seen: %q", r)
		}
	})
	wg.Wait()
	c := h.dial(t)
	c.want("GET count", "$4\r\n1200\r\n")
	c.want("EVAL_RO return(redis.call('GET','x')+redis.call('GET','y')) 0", ":0\r\n")
}

// A script that reads undeclared keys and then writes them runs once, when nobody else uses them.
func TestScriptsThatReadAndWriteRunOnce(t *testing.T) {
	h := start(t)
	c := h.dial(t)
	const script = `redis.log(redis.LOG_WARNING, 'it runs')
		for i = 1, 30 do redis.call('SET', 'k' .. i, (redis.call('GET', 'k' .. i) or 0) + 1) end`
	const scripts = 5
	for i := range scripts {
		switch i % 3 {
		case 0:
			c.do("EVAL", script, "0")
		case 1: // in a segment
			c.send(encode("SET", "a", "b") + encode("EVAL", script, "0"))
			c.reply()
			c.reply()
		case 2:
			c.send(encode("MULTI") + encode("EVAL", script, "0") + encode("EXEC"))
			c.reply()
			c.reply()
			c.reply()
		}
	}
	c.want("GET k30", "$1\r\n5\r\n")
	if n := h.logs.FilterMessage("it runs").Len(); n != scripts {
		t.Errorf("%d scripts ran %d times", scripts, n)
	}
}

// Scripts add one to the same undeclared keys, which they read and then write, in any order, beside transactions and
// plain commands: nothing is lost, each sees all keys as they are together, and nobody waits for ever.
func TestScriptsLoseNoUpdates(t *testing.T) {
	h := start(t)
	const clients, each, keys = 6, 120, 5
	const script = `local seen
		for i, k in ipairs(ARGV) do
			local v = tonumber(redis.call('GET', k) or 0)
			if i == 1 then seen = v elseif v ~= seen then return redis.error_reply('HALF seen') end
		end
		for i = #ARGV, 1, -1 do redis.call('SET', ARGV[i], seen + 1) end
		return seen`
	var wg sync.WaitGroup
	for n := range clients {
		c := h.dial(t)
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
					c.send(encode("MULTI") + encode("SET", "other", "x") + encode(args...) + encode("EXEC"))
					for range 3 {
						c.reply()
					}
					reply = strings.TrimPrefix(c.reply(), "*2\r\n+OK\r\n")
				case n == 1 && i%2 == 0:
					c.send(encode("GET", "k1") + encode("SET", "other", "x") + encode(args...))
					c.reply()
					c.reply()
					reply = c.reply()
				default:
					reply = c.do(args...)
				}
				if reply[0] != ':' {
					t.Errorf("%q", reply)
				}
			}
		})
	}
	wg.Wait()
	c := h.dial(t)
	for k := range keys {
		c.want("GET k"+strconv.Itoa(k), fmt.Sprintf("$3\r\n%d\r\n", clients*each))
	}
}

func TestScriptKillUndoesTheScript(t *testing.T) {
	h := start(t)
	c, other := h.dial(t), h.dial(t)
	other.want("SCRIPT KILL", "-NOTBUSY No scripts in execution right now.\r\n")
	c.want("SET a 1", "+OK\r\n")
	for _, body := range []string{endless, "while true do pcall(function() " + endless + " end) end",
		"while true do redis.call('GET','a') end",
		"while true do ('a'):rep(1000):find('.-.-.-.-.-b') end", "local co = coroutine.wrap(function() " + endless +
			" end) co()",
		"xpcall(function() " + endless + " end, function() " + endless + " end)"} {
		c.send(encode("INCR", "n") +
			encode("EVAL", "redis.call('INCR', KEYS[1]) redis.call('SET', 'undeclared', '1') redis.call('PUBLISH','c','m') "+body, "1", "a"))
		eventually(t, "the script was killed", func() bool { return other.do("SCRIPT", "KILL") == "+OK\r\n" })
		if r := c.reply(); r[0] != ':' {
			t.Errorf("%s: the command before it: %q", body, r)
		}
		if r := c.reply(); !strings.HasPrefix(r, busyMessage) {
			t.Errorf("%s: %q", body, r)
		}
		c.want("MGET a undeclared", "*2\r\n$1\r\n1\r\n$-1\r\n")
	}
	c.want("GET n", "$1\r\n6\r\n")
}

func TestScriptMemoryLimit(t *testing.T) {
	h := start(t, "lua-memory-limit-mb", "16") // little, so that little has to be done until it is reached
	c := h.dial(t)
	for _, script := range []string{
		"redis.call('SET','k','1') local t={} for i=1,1e9 do t[i]={i} end",
		"redis.call('SET','k','1') local s='x' while true do s=s..s end",
		"redis.call('SET','k','1') local t={} while true do t[#t+1]=('x'):rep(1e6) end",
		"redis.call('SET','k','1') local t={} while true do t[#t+1]=string.format('%99s',#t)..#t end",
	} {
		if r := c.do("EVAL", script, "1", "k"); !strings.Contains(r, "memory") {
			t.Errorf("%s: %q", script, r)
		}
	}
	c.want("PING", "+PONG\r\n")
}

func TestStrictKeyAccessing(t *testing.T) {
	c := start(t, "lua-strict-key-accessing", "yes").dial(t)
	if r := c.do("EVAL", "return redis.call('SET','b','1')", "1", "a"); !strings.HasPrefix(r,
		"-ERR Script attempted to access undeclared keys script: ") {
		t.Errorf("%q", r)
	}
	if r := c.do("EVAL", "return redis.call('SET','a','1')", "1", "a"); r != "+OK\r\n" {
		t.Errorf("%q", r)
	}
	c.want("CONFIG SET lua-strict-key-accessing no", "+OK\r\n")
	if r := c.do("EVAL", "return redis.call('SET','b','1')", "1", "a"); r != "+OK\r\n" {
		t.Errorf("%q", r)
	}
}

func TestScriptsWakeWaiters(t *testing.T) {
	h := start(t)
	for _, push := range [][]string{
		{"EVAL", "redis.call('RPUSH','l','x') return 1", "0"},
		{"EVAL", "redis.call('RPUSH',KEYS[1],'x') return 1", "1", "l"},
	} {
		waiting, c := h.dial(t), h.dial(t)
		waiting.send(encode("BLPOP", "l", "0"))
		eventually(t, "the client waits", func() bool { return h.waiters.n.Load() == 1 })
		if r := c.do(push...); r != ":1\r\n" {
			t.Fatalf("%q", r)
		}
		if r := waiting.reply(); r != "*2\r\n$1\r\nl\r\n$1\r\nx\r\n" {
			t.Errorf("%q", r)
		}
		eventually(t, "nobody waits", func() bool { return h.waiters.n.Load() == 0 })
	}
}

func TestScriptPublishesAfterItsCommit(t *testing.T) {
	h := start(t)
	sub, c := h.dial(t), h.dial(t)
	sub.do("SUBSCRIBE", "c")
	if r := c.do("EVAL", "redis.call('SET','a','1') return redis.call('PUBLISH','c','m')", "0"); r != ":1\r\n" {
		t.Errorf("%q", r)
	}
	if r := sub.reply(); r != "*3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$1\r\nm\r\n" {
		t.Errorf("%q", r)
	}
}

func TestScriptsAndLibrariesPersist(t *testing.T) {
	dir := t.TempDir()
	run := func(f func(c *client)) {
		db, err := engine.Open(engine.Options{Dir: dir})
		if err != nil {
			t.Fatal(err)
		}
		s := New(testConfig(t), db, nil)
		if err := s.Start(); err != nil {
			t.Fatal(err)
		}
		f((&harness{Server: s}).dial(t))
		s.Close()
		db.Close()
	}
	const library = "#!lua name=lib\nredis.register_function('fn', function(k,a) return a[1] end)"
	run(func(c *client) {
		c.do("SCRIPT", "LOAD", "return 1")
		c.do("EVAL", "return 2", "0")
		if r := c.do("FUNCTION", "LOAD", library); r != "$3\r\nlib\r\n" {
			t.Errorf("%q", r)
		}
	})
	dump := ""
	run(func(c *client) {
		c.want("EVALSHA E0E1F9FABFC9D4800C877A703B823AC0578FF8DB 0", ":1\r\n")
		c.want("EVALSHA 7f923f79fe76194c868d7e1d0820de36700eb649 0", "-NOSCRIPT No matching script. Please use EVAL.\r\n")
		c.want("FCALL fn 0 x", "$1\r\nx\r\n")
		c.want("SCRIPT FLUSH", "+OK\r\n")
		dump = c.do("FUNCTION", "DUMP")
		c.want("FUNCTION DELETE lib", "+OK\r\n")
	})
	run(func(c *client) {
		c.want("SCRIPT EXISTS e0e1f9fabfc9d4800c877a703b823ac0578ff8db", "*1\r\n:0\r\n")
		c.want("FCALL fn 0 x", "-ERR Function not found\r\n")
		payload := dump[strings.Index(dump, "\n")+1 : len(dump)-2]
		for _, r := range [][2]string{{"", "+OK\r\n"}, {"APPEND", "-ERR Library lib already exists\r\n"},
			{"REPLACE", "+OK\r\n"}, {"FLUSH", "+OK\r\n"}} {
			args := []string{"FUNCTION", "RESTORE", payload}
			if r[0] != "" {
				args = append(args, r[0])
			}
			if got := c.do(args...); got != r[1] {
				t.Errorf("RESTORE %s: %q", r[0], got)
			}
		}
		c.want("FCALL FN 0 x", "$1\r\nx\r\n")
	})
	run(func(c *client) { c.want("FCALL fn 0 x", "$1\r\nx\r\n") })
}

func TestManyScriptsTakeBoundedMemory(t *testing.T) {
	h := start(t)
	c := h.dial(t)
	for i := range 3000 {
		if r := c.do("EVAL", "return "+strconv.Itoa(i), "0"); r != ":"+strconv.Itoa(i)+"\r\n" {
			t.Fatalf("%q", r)
		}
	}
	if n := h.scripts.Memory().Cached; n > 1000 {
		t.Errorf("%d scripts are kept", n)
	}
}

func TestScriptStopsWithTheServer(t *testing.T) {
	h := start(t)
	c := h.dial(t)
	c.send(encode("EVAL", endless, "0"))
	eventually(t, "the script runs", h.scripts.Active)
	done := make(chan struct{})
	go func() { h.Close(); close(done) }()
	select {
	case <-done:
	case <-time.After(patience):
		t.Fatal("the server waits for the script")
	}
}

func TestFunctionKill(t *testing.T) {
	h := start(t)
	c, other := h.dial(t), h.dial(t)
	c.do("FUNCTION", "LOAD",
		"#!lua name=l\nredis.register_function('f', function(k) redis.call('SET',k[1],'1') "+endless+" end)")
	c.send(encode("FCALL", "f", "1", "a"))
	eventually(t, "the function was killed", func() bool { return other.do("FUNCTION", "KILL") == "+OK\r\n" })
	if r := c.reply(); !strings.HasPrefix(r, "-ERR Script killed by user with FUNCTION KILL") {
		t.Errorf("%q", r)
	}
	c.want("EXISTS a", ":0\r\n")
	if r := c.do("FUNCTION", "LOAD", "#!lua name=m\n"+endless); !strings.HasPrefix(r,
		"-ERR Error registering functions: ERR ") || !strings.Contains(r, "timeout") {
		t.Errorf("%q", r)
	}
}

func TestScriptFlushesTheKeyspace(t *testing.T) {
	c := start(t).dial(t)
	c.want("SET a 1", "+OK\r\n")
	if r := c.do("EVAL", "redis.call('SET','b','1') redis.call('FLUSHALL') redis.call('SET','c','1') return redis.call('DBSIZE')", "0"); r != ":1\r\n" {
		t.Errorf("%q", r)
	}
	c.want("MGET a b c", "*3\r\n$-1\r\n$-1\r\n$1\r\n1\r\n")
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
			c := start(b).dial(b)
			const depth = 16
			batch := strings.Repeat(encode(append([]string{"EVAL"}, script.args...)...), depth)
			for b.Loop() {
				c.send(batch)
				for range depth {
					c.reply()
				}
			}
			b.ReportMetric(float64(b.N*depth)/b.Elapsed().Seconds(), "evals/s")
		})
	}
}
