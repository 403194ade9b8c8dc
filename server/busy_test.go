package server

import (
	"strings"
	"testing"

	"go.uber.org/zap/zapcore"
)

const (
	busyScript   = "-BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.\r\n"
	busyFunction = "-BUSY Redis is busy running a script. You can only call FUNCTION KILL or SHUTDOWN NOSAVE.\r\n"
)

// arrived waits until the server has read everything that the client has sent so far.
func (h *harness) arrived(t testing.TB, c *client, bytes int) {
	t.Helper()
	eventually(t, "the command has arrived", func() bool {
		h.mu.Lock()
		defer h.mu.Unlock()
		for _, x := range h.conns {
			if x.wire.RemoteAddr().String() == c.LocalAddr().String() {
				return x.info.netIn.Load() >= int64(bytes)
			}
		}
		return false
	})
}

// Clients that need what a slow script has locked get BUSY, those that wait already when it becomes slow too; others
// go on.
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
			h := startApart(t, []string{"held", "free"}, "lua-time-limit", "600000")
			c, other := h.dial(t), h.dial(t)
			other.want("MSET held 1 free 1", "+OK\r\n")
			if r := other.do(test.load...); r[0] != '$' {
				t.Fatalf("%q", r)
			}
			c.send(encode(test.run...))
			eventually(t, "the script runs", h.scripts.Active)
			commands := [][]string{
				{"SET", "held", "2"}, {"HGETALL", "held"}, {"MSET", "free", "1", "held", "2"}, {"MGET", "free", "held"},
				{"EVAL", "return 1", "1", "held"}, {"EVAL", "return redis.call('INCR','held')", "0"},
				{"EVAL_RO", "return redis.call('GET','held')", "0"}, {"BLPOP", "held", "0"}, {"WATCH", "held"},
				{"FLUSHALL"}, {"FUNCTION", "FLUSH"}, {"DEL", "held"}, {"CLIENT", "PAUSE", "60000", "WRITE"},
				{"APPLYBATCH", setBatch("held", "2")},
			}
			var waiting []*client
			for _, cmd := range commands {
				w := h.dial(t)
				w.send(encode(cmd...))
				h.arrived(t, w, len(encode(cmd...)))
				waiting = append(waiting, w)
			}
			if h.scripts.Slow() {
				t.Error("a slow script before the limit")
			}
			other.want("CONFIG SET busy-reply-threshold 1", "+OK\r\n")
			for i, w := range waiting {
				if r := w.reply(); r != test.busy {
					t.Errorf("%v had waited: %q", commands[i], r)
				}
			}
			eventually(t, "it is logged", func() bool {
				return h.logs.FilterMessage("a slow script is running").FilterLevelExact(zapcore.WarnLevel).Len() == 1
			})
			for i, w := range waiting {
				if r := w.do(commands[i]...); r != test.busy {
					t.Errorf("%v: %q", commands[i], r)
				}
			}
			other.want("SHUTDOWN", test.busy)
			// A pipeline goes on after it; what needs other keys is done.
			other.send(pipeline("INCR free", "INCR held", "INCR free", "GET free", "GET held"))
			for i, want := range []string{":2\r\n", test.busy, ":3\r\n", "$1\r\n3\r\n", "$1\r\n1\r\n"} {
				if r := other.reply(); r != want {
					t.Errorf("command %d of the pipeline: %q, want %q", i, r, want)
				}
			}
			other.send(pipeline("GETBIT free 2", "GETBIT held 2", "GETBIT free 2")) // whose fragments are read in one batch
			for i, want := range []string{":1\r\n", test.busy, ":1\r\n"} {
				if r := other.reply(); r != want {
					t.Errorf("GETBIT %d of the pipeline: %q, want %q", i, r, want)
				}
			}
			other.want("EVAL return(redis.call('INCR',KEYS[1])) 1 free", ":4\r\n")
			other.want("MULTI", "+OK\r\n")
			other.want("INCR free", "+QUEUED\r\n")
			other.want("INCR held", "+QUEUED\r\n")
			other.want("EXEC", "-EXECABORT Transaction discarded because of: "+test.busy[1:])
			other.want("GET free", "$1\r\n4\r\n")
			other.want(test.kill, "+OK\r\n")
			if r := c.reply(); !strings.HasPrefix(r, test.killed) {
				t.Errorf("%q", r)
			}
			other.want("GET held", "$1\r\n1\r\n")
			other.want("INCR held", ":2\r\n")
			other.want("FLUSHALL", "+OK\r\n")
		})
	}
}

// A slow script or function that declared no keys may touch any: every client gets BUSY until it ends, but for the
// commands with which it can be ended and those that begin and leave a transaction.
func TestBusyWithoutKeys(t *testing.T) {
	const loop = "while true do redis.call('PING') end" // the script itself is not refused
	for _, test := range []struct {
		name, busy, other, kill string
		run                     []string
	}{
		{"script", busyScript, "FUNCTION KILL", "SCRIPT KILL", []string{"EVAL", loop, "0"}},
		{"function", busyFunction, "SCRIPT KILL", "FUNCTION KILL", []string{"FCALL", "f", "0"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			h := start(t, "lua-time-limit", "1")
			c, other := h.dial(t), h.dial(t)
			other.do("FUNCTION", "LOAD", "#!lua name=l\nredis.register_function('f', function(keys) "+loop+" end)")
			c.send(encode(test.run...))
			eventually(t, "the script is slow", h.scripts.Slow)
			for _, tt := range []struct{ command, want string }{
				{"PING", test.busy}, {"SET a 1", test.busy}, {"EVAL return(1) 1 a", test.busy},
				{"MULTI", "+OK\r\n"}, {"SET a 1", test.busy},
				{"EXEC", "-EXECABORT Transaction discarded because of: " + test.busy[1:]},
				{"WATCH a", "+OK\r\n"}, {"UNWATCH", "+OK\r\n"}, {"SHUTDOWN", test.busy}, {test.other, test.busy},
				{test.kill, "+OK\r\n"},
			} {
				other.want(tt.command, tt.want)
			}
			c.reply()
			other.want("PING", "+PONG\r\n")
			other.want("EXISTS a", ":0\r\n")
		})
	}
}

// A script that is slow and ends by itself commits; whoever was turned away meanwhile finds what it has written.
func TestSlowScriptCommits(t *testing.T) {
	h := startApart(t, []string{"held", "looked", "end"}, "lua-time-limit", "1")
	c, other := h.dial(t), h.dial(t)
	c.send(encode("EVAL", "redis.call('SET',KEYS[1],'done') redis.call('EXISTS','end') redis.call('SET','looked','1') "+
		"repeat until redis.call('EXISTS','end')==1", "1", "held"))
	eventually(t, "the script turns others away", func() bool { return other.do("HGETALL", "held") == busyScript })
	if r := other.do("GET", "held"); r != "$-1\r\n" {
		t.Errorf("seen before its commit: %q", r)
	}
	// The script reads what it has not locked for writing, so others may read that but not write it. A write that comes
	// before the script has looked would end it.
	eventually(t, "the script has looked", func() bool { return other.do("HGETALL", "looked") == busyScript })
	other.want("EXISTS end", ":0\r\n")
	other.want("SET end 1", busyScript)
	other.want("SCRIPT KILL", "+OK\r\n")
	c.reply()
	other.want("SET end 1", "+OK\r\n")
	if r := c.do("EVAL", "redis.call('SET',KEYS[1],'done') local n=0 for i=1,3e6 do n=n+1 end return n", "1",
		"held"); r != ":3000000\r\n" {
		t.Errorf("%q", r)
	}
	other.want("GET held", "$4\r\ndone\r\n")
	other.want("APPEND held !", ":5\r\n")
}

// A script that runs in the transaction of another client does not hold up that client's reply, nor the replies of
// those who share it.
func TestSlowGuest(t *testing.T) {
	h := start(t, "lua-time-limit", "600000") // nobody is to be turned away
	first, second, third, admin := h.dial(t), h.dial(t), h.dial(t), h.dial(t)
	hold := "redis.call('INCR',KEYS[1]) " + endless
	first.send(encode("EVAL", hold, "1", "k"))
	eventually(t, "the script runs", h.scripts.Active)
	second.send(encode("INCR", "k"))
	h.arrived(t, second, len(encode("INCR", "k")))
	third.send(pipeline("INCR k", "INCR k") + encode("EVAL", hold, "1", "k"))
	h.arrived(t, third, len(pipeline("INCR k", "INCR k")+encode("EVAL", hold, "1", "k")))
	admin.want("SCRIPT KILL", "+OK\r\n")
	if r := first.reply(); !strings.HasPrefix(r, busyMessage) {
		t.Errorf("%q", r)
	}
	if r := second.reply(); r[0] != ':' {
		t.Errorf("%q", r)
	}
	for range 2 {
		if r := third.reply(); r[0] != ':' {
			t.Errorf("%q", r)
		}
	}
	eventually(t, "the other script runs", func() bool { return admin.do("SCRIPT", "KILL") == "+OK\r\n" })
	if r := third.reply(); !strings.HasPrefix(r, busyMessage) {
		t.Errorf("%q", r)
	}
	admin.want("GET k", "$1\r\n3\r\n")
}

// When all the scripts that can run at once are slow, one more is not made to wait with its keys locked.
func TestBusyWhenAllScriptsAreSlow(t *testing.T) {
	h := start(t, "lua-time-limit", "1")
	h.openScripts(2)
	a, b, c := h.dial(t), h.dial(t), h.dial(t)
	a.send(encode("EVAL", endless, "1", "a"))
	b.send(encode("EVAL", endless, "1", "b"))
	eventually(t, "another script is turned away", func() bool { return c.do("EVAL", "return 1", "1", "k") == busyScript })
	c.want("SET k 1", "+OK\r\n")
	c.want("SCRIPT KILL", "+OK\r\n")
	a.reply()
	b.reply()
	c.want("EVAL return(1) 1 k", ":1\r\n")
}

func TestShutdownWhileAScriptIsSlow(t *testing.T) {
	h := start(t, "lua-time-limit", "1")
	c, other := h.dial(t), h.dial(t)
	c.send(encode("EVAL", endless, "1", "k"))
	eventually(t, "it is slow", h.scripts.Slow)
	other.want("SHUTDOWN", busyScript)
	other.send(encode("SHUTDOWN", "NOSAVE"))
	other.closed()
	<-h.ShutdownRequested()
}
