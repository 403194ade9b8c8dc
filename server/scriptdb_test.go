package server

import (
	"testing"
)

// A script that needs a lock of another database which somebody holds is undone and waits for it, as for an undeclared
// key of its own database.
func TestScriptsLockKeysOfOtherDatabases(t *testing.T) {
	for _, tt := range []struct{ name, script string }{
		{"MOVE", "redis.call('INCR','n') return redis.call('MOVE',KEYS[1],3)"},
		{"COPY", "redis.call('INCR','n') return redis.call('COPY',KEYS[1],'held','DB',3)"},
		{"SELECT", "redis.call('INCR','n') local v=redis.call('GET',KEYS[1]) redis.call('SELECT',3) redis.call('SET','held',v) return 1"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := startApart(t, []string{"held", "n", "3:held"}, "redis-databases", "16")
			holder, c, admin := h.dial(t), h.dial(t), h.dial(t)
			admin.want("SET held moved", "+OK\r\n")
			holder.want("SELECT 3", "+OK\r\n")
			holder.send(encode("EVAL", "redis.call('SET',KEYS[1],'x') "+endless, "1", "held"))
			eventually(t, "the lock is held", h.scripts.Active)
			c.send(encode("EVAL", tt.script, "1", "held"))
			eventually(t, "the script was tried", func() bool {
				fields, _ := parseInfo(t, admin.do("INFO", "latencystats"))
				return fields["latency_percentiles_usec_incr"] != ""
			})
			admin.want("SCRIPT KILL", "+OK\r\n")
			holder.reply()
			if r := c.reply(); r != ":1\r\n" {
				t.Errorf("%q", r)
			}
			admin.want("GET n", "$1\r\n1\r\n")
			admin.want("SELECT 3", "+OK\r\n")
			admin.want("GET held", "$5\r\nmoved\r\n")
		})
	}
}

// Scripts wake those who wait for keys of other databases.
func TestScriptsWakeWaitersOfOtherDatabases(t *testing.T) {
	for _, tt := range []struct{ name, script string }{
		{"MOVE", "redis.call('RPUSH','l','x') return redis.call('MOVE','l',3)"},
		{"COPY", "redis.call('RPUSH','o','x') return redis.call('COPY','o','l','DB',3)"},
		{"SELECT", "redis.call('SELECT',3) return redis.call('RPUSH','l','x')"},
		{"SELECT twice", "redis.call('SELECT',3) redis.call('RPUSH','l','x') redis.call('SELECT',0) return 1"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := start(t, "redis-databases", "16")
			waiting, here, c := h.dial(t), h.dial(t), h.dial(t)
			waiting.want("SELECT 3", "+OK\r\n")
			waiting.send(encode("BLPOP", "l", "0"))
			here.send(encode("BLPOP", "other", "0"))
			eventually(t, "the clients wait", func() bool { return h.waiters.n.Load() == 2 })
			if r := c.do("EVAL", tt.script, "0"); r != ":1\r\n" {
				t.Fatalf("%q", r)
			}
			if r := waiting.reply(); r != "*2\r\n$1\r\nl\r\n$1\r\nx\r\n" {
				t.Errorf("%q", r)
			}
			c.want("SELECT 3", "+OK\r\n")
			c.want("EXISTS l", ":0\r\n")
		})
	}
}
