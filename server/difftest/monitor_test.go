package difftest

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/basaltdb/basalt/internal/require"
)

// monitored is what two clients send while a third one has sent MONITOR: quoting, secrets, commands that are refused,
// that wait, that a script calls, that are queued, and those that are not shown.
const monitored = `
SET k "a\x00\xff\"'\\\n\r\t\a\b\x0b\x7f{} é"
GET
NOSUCH a b
AUTH x
AUTH low pw
GET k
SET k v
ECHO x
AUTH default ""
HELLO 2 AUTH default "" SETNAME foo
HELLO 9
ACL SETUSER other on >secret
ACL DELUSER other
ACL WHOAMI
ACL CAT
CONFIG SET requirepass ""
CONFIG GET timeout
CLIENT ID
CLIENT LIST ID 99999
CLIENT SETNAME foo
CLIENT NO-EVICT ON
CLIENT NO-EVICT OFF
CLIENT UNBLOCK 99999
CLIENT TRACKING OFF
SLOWLOG LEN
LATENCY LATEST
MEMORY USAGE missing
OBJECT ENCODING k
COMMAND COUNT
DEBUG SLEEP 0
INFO server
DBSIZE
KEYS nomatch*
SELECT 3
SET k v
SELECT 0
MULTI
SET a 1
GET
EXEC
MULTI
SET a 1
INCR a
EXEC
MULTI
DISCARD
WATCH a
UNWATCH
EVAL "redis.call('set','x','1') redis.pcall('nosuch') return redis.pcall('get')" 1 x
EVALSHA ffffffffffffffffffffffffffffffffffffffff 0
SCRIPT LOAD "return 1"
SCRIPT EXISTS ff
SCRIPT FLUSH
FUNCTION LOAD "#!lua name=l1\nredis.register_function('f1', function(k,a) return redis.call('get', k[1]) end)"
FCALL f1 1 k
FUNCTION DELETE l1
PUBLISH c x
PING
TIME
ROLE
BLPOP nolist 0.01
RESTORE r 0 "abc"
RESET
`

// TestMonitor compares the lines of MONITOR.
func TestMonitor(t *testing.T) {
	var all [2][]string
	for i, to := range []target{startRedis(t), startBasalt(t, "redis-databases", "16")} {
		for _, proto := range []int{2, 3} {
			m := connect(t, to.Addr(), proto)
			c := connect(t, to.Addr(), 2)
			send := func(c *client, line string) {
				words, err := splitLine(line)
				require.NoError(t, err)
				if _, err := c.do(words...); err != nil {
					t.Fatalf("%s: %v", line, err)
				}
			}
			send(c, "ACL SETUSER low on >pw ~* &* +get +auth")
			send(m, "MONITOR")
			for _, line := range strings.Split(strings.TrimSpace(monitored), "\n") {
				send(c, line)
			}
			send(c, "ECHO end")
			for {
				r, err := readReply(m.in)
				require.NoError(t, err)
				line := strings.ReplaceAll(string(r.raw), c.conn.LocalAddr().String(), "client")
				at := monitorTime.FindStringIndex(line)
				if at == nil {
					t.Fatalf("no line of MONITOR: %q", line)
				}
				if line = line[at[1]:]; strings.Contains(line, `"end"`) {
					break
				}
				all[i] = append(all[i], line)
			}
			m.close()
			c.close()
		}
	}
	for n := range max(len(all[0]), len(all[1])) {
		if n >= len(all[0]) || n >= len(all[1]) || all[0][n] != all[1][n] {
			t.Fatalf("from line %d on:\nredis  %q\nbasalt %q", n, all[0][n:min(n+5, len(all[0]))],
				all[1][n:min(n+5, len(all[1]))])
		}
	}
	if !slices.Contains(all[0], "[0 lua] \"set\" \"x\" \"1\"\r\n") {
		t.Errorf("what the script calls is missing in %q", all[0])
	}
}

var monitorTime = regexp.MustCompile(`^\+\d+\.\d{6} `)

// TestMonitoring compares what a client may do that has sent MONITOR.
func TestMonitoring(t *testing.T) {
	redis, basalt := startRedis(t), startBasalt(t)
	for _, in := range []string{
		"MONITOR\r\nMONITOR\r\nGET k\r\n",
		"MONITOR\r\nSET k v\r\nPUBLISH c x\r\nEVAL \"return 1\" 0\r\n",
		"MULTI\r\nMONITOR\r\nEXEC\r\nPING\r\n",
		"MONITOR x\r\nEVAL \"return redis.pcall('monitor')\" 0\r\nPING\r\n",
		"MONITOR\r\nRESET\r\nGET k\r\n",
	} {
		compareExchange(t, redis, basalt, in)
	}
}
