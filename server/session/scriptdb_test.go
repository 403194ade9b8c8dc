package session_test

import (
	"testing"

	"github.com/basaltdb/basalt/server/servertest"
)

// A script that needs the lock of a key in another database is undone and waits for the lock if another client holds
// it, as for an undeclared key of its own database.
func TestScriptsLockKeysOfOtherDatabases(t *testing.T) {
	for _, tt := range []struct{ name, script string }{
		{"MOVE", "redis.call('INCR','n') return redis.call('MOVE',KEYS[1],3)"},
		{"COPY", "redis.call('INCR','n') return redis.call('COPY',KEYS[1],'held','DB',3)"},
		{"SELECT",
			"redis.call('INCR','n') local v=redis.call('GET',KEYS[1]) redis.call('SELECT',3) redis.call('SET','held',v) " +
				"return 1"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := servertest.StartApart(t, []string{"held", "n", "3:held"}, "redis-databases", "16")
			holder, c, admin := h.Dial(t), h.Dial(t), h.Dial(t)
			admin.Want("SET held moved", "+OK\r\n")
			holder.Want("SELECT 3", "+OK\r\n")
			holder.Send(servertest.Encode("EVAL", "redis.call('SET',KEYS[1],'x') "+endless, "1", "held"))
			servertest.Eventually(t, "the lock is held", h.Sessions().Scripts.Active)
			c.Send(servertest.Encode("EVAL", tt.script, "1", "held"))
			servertest.Eventually(t, "the script was tried", func() bool {
				fields, _ := servertest.ParseInfo(t, admin.Do("INFO", "latencystats"))
				return fields["latency_percentiles_usec_incr"] != ""
			})
			admin.Want("SCRIPT KILL", "+OK\r\n")
			holder.Reply()
			if r := c.Reply(); r != ":1\r\n" {
				t.Errorf("%q", r)
			}
			admin.Want("GET n", "$1\r\n1\r\n")
			admin.Want("SELECT 3", "+OK\r\n")
			admin.Want("GET held", "$5\r\nmoved\r\n")
		})
	}
}

// Scripts serve clients that are blocked on keys of other databases.
func TestScriptsWakeWaitersOfOtherDatabases(t *testing.T) {
	for _, tt := range []struct{ name, script string }{
		{"MOVE", "redis.call('RPUSH','l','x') return redis.call('MOVE','l',3)"},
		{"COPY", "redis.call('RPUSH','o','x') return redis.call('COPY','o','l','DB',3)"},
		{"SELECT", "redis.call('SELECT',3) return redis.call('RPUSH','l','x')"},
		{"SELECT twice", "redis.call('SELECT',3) redis.call('RPUSH','l','x') redis.call('SELECT',0) return 1"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := servertest.Start(t, "redis-databases", "16")
			waiting, here, c := h.Dial(t), h.Dial(t), h.Dial(t)
			waiting.Want("SELECT 3", "+OK\r\n")
			waiting.Send(servertest.Encode("BLPOP", "l", "0"))
			here.Send(servertest.Encode("BLPOP", "other", "0"))
			servertest.Eventually(t, "the clients wait", func() bool { return h.Sessions().Counts().Blocked == 2 })
			if r := c.Do("EVAL", tt.script, "0"); r != ":1\r\n" {
				t.Fatalf("%q", r)
			}
			if r := waiting.Reply(); r != "*2\r\n$1\r\nl\r\n$1\r\nx\r\n" {
				t.Errorf("%q", r)
			}
			c.Want("SELECT 3", "+OK\r\n")
			c.Want("EXISTS l", ":0\r\n")
		})
	}
}
