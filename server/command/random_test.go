package command

import (
	"runtime"
	"strings"
	"testing"

	"github.com/basaltdb/basalt/engine/enginetest"
)

// A request for more random elements than fit into a reply is refused before the elements are drawn, but only if the
// collection has an element.
func TestTooManyRandomElements(t *testing.T) {
	db := enginetest.Open(t)
	do(t, db, "SADD", "s", "m")
	do(t, db, "HSET", "h", "f", "v")
	do(t, db, "ZADD", "z", "1", "m")
	for _, tt := range []struct{ command, want string }{
		{"SRANDMEMBER s -9223372036854775807", "-ERR the reply would be too large\r\n"},
		{"SRANDMEMBER s -200000000", "-ERR the reply would be too large\r\n"},
		{"SRANDMEMBER missing -9223372036854775807", "*0\r\n"},
		{"SRANDMEMBER s 9223372036854775807", "*1\r\n$1\r\nm\r\n"},
		{"SRANDMEMBER s -2", "*2\r\n$1\r\nm\r\n$1\r\nm\r\n"},
		{"HRANDFIELD h -9223372036854775807", "-ERR the reply would be too large\r\n"},
		{"HRANDFIELD h -200000000 WITHVALUES", "-ERR the reply would be too large\r\n"},
		{"HRANDFIELD missing -9223372036854775807", "*0\r\n"},
		{"HRANDFIELD h 9223372036854775807", "*1\r\n$1\r\nf\r\n"},
		{"ZRANDMEMBER z -9223372036854775807", "-ERR the reply would be too large\r\n"},
		{"ZRANDMEMBER z -200000000 WITHSCORES", "-ERR the reply would be too large\r\n"},
		{"ZRANDMEMBER missing -9223372036854775807", "*0\r\n"},
		{"ZRANDMEMBER z 9223372036854775807", "*1\r\n$1\r\nm\r\n"},
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		got := do(t, db, strings.Fields(tt.command)...)
		runtime.ReadMemStats(&after)
		if got != tt.want {
			t.Errorf("%s: %.100q, want %q", tt.command, got, tt.want)
		}
		if took := after.TotalAlloc - before.TotalAlloc; took > 64<<20 {
			t.Errorf("%s: took %d MiB of memory", tt.command, took>>20)
		}
	}
}
