package command

import (
	"testing"

	"github.com/basaltdb/basalt/engine/enginetest"
)

// XLEN with an id counts the entries on one side of it, as in Kvrocks.
func TestXLenBesideID(t *testing.T) {
	db := enginetest.Open(t)
	for _, id := range []string{"5-0", "6-0", "7-1", "8-0", "10-0"} {
		do(t, db, "XADD", "s", id, "f", "v")
	}
	do(t, db, "XDEL", "s", "8-0")
	for _, tt := range []struct{ id, after, before string }{
		{"3", ":4\r\n", ":0\r\n"}, {"5-0", ":3\r\n", ":0\r\n"}, {"6-0", ":2\r\n", ":1\r\n"}, {"7", ":2\r\n",
			":2\r\n"}, {"7-1", ":1\r\n", ":2\r\n"},
		{"8-0", ":1\r\n", ":3\r\n"}, {"10-0", ":0\r\n", ":3\r\n"}, {"18446744073709551615-18446744073709551615",
			":0\r\n", ":4\r\n"},
	} {
		for _, c := range []struct {
			args []string
			want string
		}{{[]string{"XLEN", "s", tt.id}, tt.after}, {[]string{"XLEN", "s", tt.id, "+"},
			tt.after}, {[]string{"XLEN", "s", tt.id, "-"}, tt.before}} {
			if got := do(t, db, c.args...); got != c.want {
				t.Errorf("%q: %q, want %q", c.args, got, c.want)
			}
		}
	}
	do(t, db, "DEL", "s")
	if got := do(t, db, "XLEN", "s", "1", "-"); got != ":0\r\n" {
		t.Errorf("XLEN of a deleted stream: %q", got)
	}
}
