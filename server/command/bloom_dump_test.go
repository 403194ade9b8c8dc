package command

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/enginetest"
)

// piece is a reply of BF.SCANDUMP or CF.SCANDUMP.
type piece struct {
	next int64
	data string
}

// scanDump returns all pieces of a filter; family is BF or CF.
func scanDump(t *testing.T, db *engine.DB, family, key string) (pieces []piece) {
	t.Helper()
	for at := int64(0); ; {
		reply := do(t, db, family+".SCANDUMP", key, strconv.FormatInt(at, 10))
		var p piece
		var n int
		if _, err := fmt.Sscanf(reply, "*2\r\n:%d\r\n$%d\r\n", &p.next, &n); err != nil {
			t.Fatalf("%.100q: %v", reply, err)
		}
		if p.next == 0 {
			if n != 0 {
				t.Fatalf("%d bytes at the end", n)
			}
			return pieces
		}
		p.data = reply[len(reply)-2-n : len(reply)-2]
		pieces = append(pieces, p)
		at = p.next
	}
}

func TestBloomDump(t *testing.T) {
	db := enginetest.Open(t)
	do(t, db, "BF.RESERVE", "small", "0.01", "10")
	for i := range 100 {
		do(t, db, "BF.ADD", "small", strconv.Itoa(i))
	}
	do(t, db, "BF.RESERVE", "empty", "0.001", "5", "NONSCALING")
	for _, tt := range []struct {
		key           string
		pieces        int
		present, gone []string
	}{
		{"small", 5, []string{"0", "50", "99"}, []string{"x", "y"}},
		{"empty", 2, nil, []string{"a"}},
	} {
		pieces := scanDump(t, db, "BF", tt.key)
		if len(pieces) != tt.pieces {
			t.Errorf("%s: %d pieces, want %d", tt.key, len(pieces), tt.pieces)
		}
		copied := tt.key + "-copy"
		for _, p := range pieces {
			if got := do(t, db, "BF.LOADCHUNK", copied, strconv.FormatInt(p.next, 10), p.data); got != "+OK\r\n" {
				t.Fatalf("%s: %q", tt.key, got)
			}
		}
		if a, b := do(t, db, "BF.INFO", tt.key), do(t, db, "BF.INFO", copied); a != b {
			t.Errorf("%s: %q, copy %q", tt.key, a, b)
		}
		items := append(append([]string{"BF.MEXISTS", copied}, tt.present...), tt.gone...)
		want := fmt.Sprintf("*%d\r\n%s%s", len(items)-2, strings.Repeat(":1\r\n", len(tt.present)),
			strings.Repeat(":0\r\n", len(tt.gone)))
		if got := do(t, db, items...); got != want {
			t.Errorf("%s: %q, want %q", tt.key, got, want)
		}
	}

	header := scanDump(t, db, "BF", "empty")[0].data
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"BF.SCANDUMP", "missing", "0"}, "-ERR not found\r\n"},
		{[]string{"BF.SCANDUMP", "empty", "x"}, "-ERR Second argument must be numeric\r\n"},
		{[]string{"BF.SCANDUMP", "empty", "-1"}, "-ERR invalid offset - no link found\r\n"},
		{[]string{"BF.SCANDUMP", "empty", "99999"}, "*2\r\n:0\r\n$0\r\n\r\n"},
		{[]string{"BF.LOADCHUNK", "new", "x", header}, "-ERR Second argument must be numeric\r\n"},
		{[]string{"BF.LOADCHUNK", "empty", "-1", header}, "-ERR received bad data\r\n"},
		{[]string{"BF.LOADCHUNK", "new", "33", header}, "-ERR not found\r\n"},
		{[]string{"BF.LOADCHUNK", "new", "1", "what"}, "-ERR received bad data\r\n"},
		{[]string{"BF.LOADCHUNK", "new", "1", header[:len(header)-1]}, "-ERR received bad data\r\n"},
		{[]string{"BF.LOADCHUNK", "empty", "1", header}, "-ERR received bad data\r\n"},
		{[]string{"BF.LOADCHUNK", "empty", "5", "1234567890"}, "-ERR received bad data\r\n"},
		{[]string{"BF.LOADCHUNK", "empty", "999999", "1234567890"}, "-ERR invalid offset - no link found\r\n"},
		{[]string{"BF.LOADCHUNK", "empty", "1001", strings.Repeat("x", 1000)},
			"-ERR invalid chunk - Too big for current filter\r\n"},
		{[]string{"EXISTS", "new"}, ":0\r\n"},
	} {
		if got := do(t, db, tt.args...); got != tt.want {
			t.Errorf("%.60q: %q, want %q", tt.args, got, tt.want)
		}
	}
}

// FuzzBloomLoad: BF.LOADCHUNK refuses invalid data, or creates a filter that can be queried and dumped.
func FuzzBloomLoad(f *testing.F) {
	f.Add(int64(1), []byte("basaltBF\x01"+strings.Repeat("\x00",
		7)+"\x05\x00\x01\x00\x02\x00\x00\x00\x05\x80\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x20\x00\x00\x00\x20"))
	f.Add(int64(5), []byte("abcd"))
	f.Fuzz(func(t *testing.T, next int64, data []byte) {
		db := enginetest.Open(t)
		do(t, db, "BF.ADD", "old", "item")
		for _, key := range []string{"new", "old"} {
			reply := do(t, db, "BF.LOADCHUNK", key, strconv.FormatInt(next, 10), string(data))
			if key == "old" || reply == "+OK\r\n" {
				if got := do(t, db, "BF.EXISTS", key, "item"); got[0] != ':' {
					t.Errorf("%q", got)
				}
				if n := len(scanDump(t, db, "BF", key)); n < 2 {
					t.Errorf("%d pieces", n)
				}
			}
		}
	})
}
