package session_test

import (
	"strings"
	"testing"
	"time"

	"go.uber.org/zap/zapcore"

	"go.uber.org/zap"

	"github.com/basaltdb/basalt/server/scripts"
	"github.com/basaltdb/basalt/server/servertest"
)

const (
	busyScript   = "-BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.\r\n"
	busyFunction = "-BUSY Redis is busy running a script. You can only call FUNCTION KILL or SHUTDOWN NOSAVE.\r\n"
)

// Clients that need a lock of a slow script get BUSY, also clients that already wait for the lock when the script
// becomes slow. Other clients are served.
func TestBusy(t *testing.T) {
	for _, test := range []struct {
		name, busy, kill, killed string
		load, run                []string
	}{
		{"script", busyScript, "SCRIPT KILL", "-ERR Script killed by user with SCRIPT KILL...",
			[]string{"SCRIPT", "LOAD", endless}, []string{"EVAL", "redis.call('SET',KEYS[1],'x') " + endless, "1", "held"}},
		{"function", busyFunction, "FUNCTION KILL", "-ERR Script killed by user with FUNCTION KILL.",
			[]string{"FUNCTION", "LOAD",
				"#!lua name=l\nredis.register_function('f', function(keys) redis.call('SET',keys[1],'x') " + endless + " end)"},
			[]string{"FCALL", "f", "1", "held"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			h := servertest.StartApart(t, []string{"held", "free"}, "lua-time-limit", "600000")
			c, other := h.Dial(t), h.Dial(t)
			other.Want("MSET held 1 free 1", "+OK\r\n")
			if r := other.Do(test.load...); r[0] != '$' {
				t.Fatalf("%q", r)
			}
			c.Send(servertest.Encode(test.run...))
			servertest.Eventually(t, "the script runs", h.Sessions().Scripts.Active)
			commands := [][]string{
				{"SET", "held", "2"}, {"HGETALL", "held"}, {"MSET", "free", "1", "held", "2"}, {"MGET", "free", "held"},
				{"EVAL", "return 1", "1", "held"}, {"EVAL", "return redis.call('INCR','held')", "0"},
				{"EVAL_RO", "return redis.call('GET','held')", "0"}, {"BLPOP", "held", "0"}, {"WATCH", "held"},
				{"FLUSHALL"}, {"FUNCTION", "FLUSH"}, {"DEL", "held"}, {"CLIENT", "PAUSE", "60000", "WRITE"},
				{"APPLYBATCH", servertest.SetBatch("held", "2")},
			}
			var waiting []*servertest.Client
			for _, cmd := range commands {
				w := h.Dial(t)
				w.Send(servertest.Encode(cmd...))
				h.Arrived(t, w, len(servertest.Encode(cmd...)))
				waiting = append(waiting, w)
			}
			if h.Sessions().Scripts.Slow() {
				t.Error("a slow script before the limit")
			}
			other.Want("CONFIG SET busy-reply-threshold 1", "+OK\r\n")
			for i, w := range waiting {
				if r := w.Reply(); r != test.busy {
					t.Errorf("%v had waited: %q", commands[i], r)
				}
			}
			servertest.Eventually(t, "the slow script is logged", func() bool {
				return h.Logs.FilterMessage("a slow script is running").FilterLevelExact(zapcore.WarnLevel).Len() == 1
			})
			for i, w := range waiting {
				if r := w.Do(commands[i]...); r != test.busy {
					t.Errorf("%v: %q", commands[i], r)
				}
			}
			other.Want("SHUTDOWN", test.busy)
			// After a BUSY the pipeline continues, and commands on other keys run.
			other.Send(servertest.Pipeline("INCR free", "INCR held", "INCR free", "GET free", "GET held"))
			for i, want := range []string{":2\r\n", test.busy, ":3\r\n", "$1\r\n3\r\n", "$1\r\n1\r\n"} {
				if r := other.Reply(); r != want {
					t.Errorf("command %d of the pipeline: %q, want %q", i, r, want)
				}
			}
			// The same with commands whose fragments of bitmaps are prefetched in one batch.
			other.Send(servertest.Pipeline("GETBIT free 2", "GETBIT held 2", "GETBIT free 2"))
			for i, want := range []string{":1\r\n", test.busy, ":1\r\n"} {
				if r := other.Reply(); r != want {
					t.Errorf("GETBIT %d of the pipeline: %q, want %q", i, r, want)
				}
			}
			other.Want("EVAL return(redis.call('INCR',KEYS[1])) 1 free", ":4\r\n")
			other.Want("MULTI", "+OK\r\n")
			other.Want("INCR free", "+QUEUED\r\n")
			other.Want("INCR held", "+QUEUED\r\n")
			other.Want("EXEC", "-EXECABORT Transaction discarded because of: "+test.busy[1:])
			other.Want("GET free", "$1\r\n4\r\n")
			other.Want(test.kill, "+OK\r\n")
			if r := c.Reply(); !strings.HasPrefix(r, test.killed) {
				t.Errorf("%q", r)
			}
			other.Want("GET held", "$1\r\n1\r\n")
			other.Want("INCR held", ":2\r\n")
			other.Want("FLUSHALL", "+OK\r\n")
		})
	}
}

// A slow script or function that declares no keys may access any key: until it ends, every command gets BUSY, except
// the commands that end the script, and the commands that begin or leave a transaction.
func TestBusyWithoutKeys(t *testing.T) {
	const loop = "while true do redis.call('PING') end" // PING of the script itself is not refused
	for _, test := range []struct {
		name, busy, other, kill string
		run                     []string
	}{
		{"script", busyScript, "FUNCTION KILL", "SCRIPT KILL", []string{"EVAL", loop, "0"}},
		{"function", busyFunction, "SCRIPT KILL", "FUNCTION KILL", []string{"FCALL", "f", "0"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			h := servertest.Start(t, "lua-time-limit", "1")
			c, other := h.Dial(t), h.Dial(t)
			other.Do("FUNCTION", "LOAD", "#!lua name=l\nredis.register_function('f', function(keys) "+loop+" end)")
			c.Send(servertest.Encode(test.run...))
			servertest.Eventually(t, "the script is slow", h.Sessions().Scripts.Slow)
			for _, tt := range []struct{ command, want string }{
				{"PING", test.busy}, {"SET a 1", test.busy}, {"EVAL return(1) 1 a", test.busy},
				{"MULTI", "+OK\r\n"}, {"SET a 1", test.busy},
				{"EXEC", "-EXECABORT Transaction discarded because of: " + test.busy[1:]},
				{"WATCH a", "+OK\r\n"}, {"UNWATCH", "+OK\r\n"}, {"SHUTDOWN", test.busy}, {test.other, test.busy},
				{test.kill, "+OK\r\n"},
			} {
				other.Want(tt.command, tt.want)
			}
			c.Reply()
			other.Want("PING", "+PONG\r\n")
			other.Want("EXISTS a", ":0\r\n")
		})
	}
}

// A slow script that ends by itself commits: clients that got BUSY meanwhile then see its writes.
func TestSlowScriptCommits(t *testing.T) {
	h := servertest.StartApart(t, []string{"held", "looked", "end"}, "lua-time-limit", "1")
	c, other := h.Dial(t), h.Dial(t)
	c.Send(servertest.Encode("EVAL",
		"redis.call('SET',KEYS[1],'done') redis.call('EXISTS','end') redis.call('SET','looked','1') "+
			"repeat until redis.call('EXISTS','end')==1", "1", "held"))
	servertest.Eventually(t, "other clients get BUSY",
		func() bool { return other.Do("HGETALL", "held") == busyScript })
	if r := other.Do("GET", "held"); r != "$-1\r\n" {
		t.Errorf("seen before its commit: %q", r)
	}
	// The script has a read lock of the key end: other clients may read the key but not write it. A write before the
	// script has read the key would end the script.
	servertest.Eventually(t, "the script has read the key end",
		func() bool { return other.Do("HGETALL", "looked") == busyScript })
	other.Want("EXISTS end", ":0\r\n")
	other.Want("SET end 1", busyScript)
	other.Want("SCRIPT KILL", "+OK\r\n")
	c.Reply()
	other.Want("SET end 1", "+OK\r\n")
	if r := c.Do("EVAL", "redis.call('SET',KEYS[1],'done') local n=0 for i=1,3e6 do n=n+1 end return n", "1",
		"held"); r != ":3000000\r\n" {
		t.Errorf("%q", r)
	}
	other.Want("GET held", "$4\r\ndone\r\n")
	other.Want("APPEND held !", ":5\r\n")
}

// A slow script that runs in the transaction of another client does not delay the replies of that client, nor of the
// other clients that share the transaction.
func TestSlowCombinedScript(t *testing.T) {
	h := servertest.Start(t, "lua-time-limit", "600000") // no client gets BUSY
	first, second, third, admin := h.Dial(t), h.Dial(t), h.Dial(t), h.Dial(t)
	hold := "redis.call('INCR',KEYS[1]) " + endless
	first.Send(servertest.Encode("EVAL", hold, "1", "k"))
	servertest.Eventually(t, "the script runs", h.Sessions().Scripts.Active)
	second.Send(servertest.Encode("INCR", "k"))
	h.Arrived(t, second, len(servertest.Encode("INCR", "k")))
	third.Send(servertest.Pipeline("INCR k", "INCR k") + servertest.Encode("EVAL", hold, "1", "k"))
	h.Arrived(t, third, len(servertest.Pipeline("INCR k", "INCR k")+servertest.Encode("EVAL", hold, "1", "k")))
	admin.Want("SCRIPT KILL", "+OK\r\n")
	if r := first.Reply(); !strings.HasPrefix(r, busyMessage) {
		t.Errorf("%q", r)
	}
	if r := second.Reply(); r[0] != ':' {
		t.Errorf("%q", r)
	}
	for range 2 {
		if r := third.Reply(); r[0] != ':' {
			t.Errorf("%q", r)
		}
	}
	servertest.Eventually(t, "the other script runs", func() bool { return admin.Do("SCRIPT", "KILL") == "+OK\r\n" })
	if r := third.Reply(); !strings.HasPrefix(r, busyMessage) {
		t.Errorf("%q", r)
	}
	admin.Want("GET k", "$1\r\n3\r\n")
}

// When as many slow scripts run as can run at once, the next script gets BUSY: it must not wait with its keys locked.
func TestBusyWhenAllScriptsAreSlow(t *testing.T) {
	h := servertest.Start(t, "lua-time-limit", "1")
	s := h.Sessions()
	s.Scripts = scripts.Open(scripts.Options{DB: h.DB, Log: zap.NewNop(), States: 2,
		MemoryLimit: func() int64 { return 0 },
		TimeLimit:   func() time.Duration { return time.Millisecond }})
	s.Services.Scripts = s.Scripts
	a, b, c := h.Dial(t), h.Dial(t), h.Dial(t)
	a.Send(servertest.Encode("EVAL", endless, "1", "a"))
	b.Send(servertest.Encode("EVAL", endless, "1", "b"))
	servertest.Eventually(t, "another script gets BUSY",
		func() bool { return c.Do("EVAL", "return 1", "1", "k") == busyScript })
	c.Want("SET k 1", "+OK\r\n")
	c.Want("SCRIPT KILL", "+OK\r\n")
	a.Reply()
	b.Reply()
	c.Want("EVAL return(1) 1 k", ":1\r\n")
}

func TestShutdownWhileAScriptIsSlow(t *testing.T) {
	h := servertest.Start(t, "lua-time-limit", "1")
	c, other := h.Dial(t), h.Dial(t)
	c.Send(servertest.Encode("EVAL", endless, "1", "k"))
	servertest.Eventually(t, "the script is slow", h.Sessions().Scripts.Slow)
	other.Want("SHUTDOWN", busyScript)
	other.Send(servertest.Encode("SHUTDOWN", "NOSAVE"))
	other.Closed()
	<-h.ShutdownRequested()
}
