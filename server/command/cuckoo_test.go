package command

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/basaltdb/basalt/engine/enginetest"
)

// cuckooInfo returns the reply of CF.INFO.
func cuckooInfo(header string, size, buckets, filters, items, deleted, bucket, expansion, iterations int) string {
	return fmt.Sprintf("%s\r\n+Size\r\n:%d\r\n+Number of buckets\r\n:%d\r\n+Number of filters\r\n:%d\r\n+Number of items "+
		"inserted\r\n:%d\r\n+Number of items deleted\r\n:%d\r\n+Bucket size\r\n:%d\r\n+Expansion rate\r\n:%d\r\n"+
		"+Max iterations\r\n:%d\r\n", header, size, buckets, filters, items, deleted, bucket, expansion, iterations)
}

func TestCuckoo(t *testing.T) {
	const wrongType = "-WRONGTYPE Operation against a key holding the wrong kind of value\r\n"
	const full = "-ERR Operation aborted: filter is full\r\n"
	const notFound = "-ERR not found\r\n"
	talk(t, []probabilistic{
		{"CF.ADD a x", ":1\r\n", ""}, // an integer in RESP3 too, as in Kvrocks
		{"CF.ADD a x", ":1\r\n", ""},
		{"CF.ADDNX a x", ":0\r\n", "#f\r\n"},
		{"CF.ADDNX a y", ":1\r\n", "#t\r\n"},
		{"CF.COUNT a x", ":2\r\n", ""},
		{"CF.EXISTS a x", ":1\r\n", "#t\r\n"},
		{"CF.EXISTS a z", ":0\r\n", "#f\r\n"},
		{"CF.MEXISTS a x y z", "*3\r\n:1\r\n:1\r\n:0\r\n", "*3\r\n#t\r\n#t\r\n#f\r\n"},
		{"CF.DEL a x", ":1\r\n", "#t\r\n"},
		{"CF.DEL a x", ":1\r\n", "#t\r\n"},
		{"CF.DEL a x", ":0\r\n", "#f\r\n"},
		{"CF.INFO a", cuckooInfo("*16", 2048, 1024, 1, 1, 2, 2, 1, 20), cuckooInfo("%8", 2048, 1024, 1, 1, 2, 2, 1, 20)},
		{"TYPE a", "+MBbloomCF\r\n", ""},
		{"OBJECT ENCODING a", "$3\r\nraw\r\n", ""},

		// Item c has two buckets of one fingerprint each.
		{"CF.RESERVE small 3 BUCKETSIZE 1 MAXITERATIONS 4 EXPANSION 0", "+OK\r\n", ""},
		{"CF.INSERT small ITEMS c c c", "*3\r\n:1\r\n:1\r\n:-1\r\n", "*3\r\n#t\r\n#t\r\n:-1\r\n"},
		{"CF.ADD small c", full, ""},
		{"CF.ADDNX small c", ":0\r\n", "#f\r\n"},
		{"CF.INSERTNX small ITEMS c c", "*2\r\n:0\r\n:0\r\n", ""},
		{"CF.INFO small", cuckooInfo("*16", 4, 4, 1, 2, 0, 1, 0, 4), cuckooInfo("%8", 4, 4, 1, 2, 0, 1, 0, 4)},
		{"cf.reserve grows 3 bucketsize 1 expansion 3", "+OK\r\n", ""},
		{"CF.INSERT grows ITEMS c c c c", "*4\r\n:1\r\n:1\r\n:1\r\n:1\r\n", "*4\r\n#t\r\n#t\r\n#t\r\n#t\r\n"},
		{"CF.INFO grows", cuckooInfo("*16", 20, 4, 2, 4, 0, 1, 4, 20), cuckooInfo("%8", 20, 4, 2, 4, 0, 1, 4, 20)},
		{"CF.COUNT grows c", ":4\r\n", ""},
		{"CF.INSERTNX new CAPACITY 5000 ITEMS a a", "*2\r\n:1\r\n:0\r\n", ""},
		{"CF.INFO new", cuckooInfo("*16", 8192, 4096, 1, 1, 0, 2, 1, 20), cuckooInfo("%8", 8192, 4096, 1, 1, 0, 2, 1, 20)},

		// A missing filter.
		{"CF.EXISTS none x", ":0\r\n", "#f\r\n"},
		{"CF.MEXISTS none x y", "*2\r\n:0\r\n:0\r\n", "*2\r\n#f\r\n#f\r\n"},
		{"CF.COUNT none x", ":0\r\n", ""},
		{"CF.DEL none x", notFound, ""},
		{"CF.INFO none", notFound, ""},
		{"CF.INSERT none NOCREATE ITEMS x", notFound, ""},
		{"EXISTS none", ":0\r\n", ""},

		// Errors.
		{"CF.RESERVE a 100", "-ERR Invalid argument: the key already exists\r\n", ""},
		{"CF.RESERVE a 1", "-ERR Invalid argument: capacity must be at least 2\r\n", ""},
		{"CF.RESERVE b x", "-ERR invalid capacity\r\n", ""},
		{"CF.RESERVE b -1", "-ERR invalid capacity\r\n", ""},
		{"CF.RESERVE b 0", "-ERR capacity must be larger than 0\r\n", ""},
		{"CF.RESERVE b 1", "-ERR Invalid argument: capacity must be at least 2\r\n", ""},
		{"CF.RESERVE b 18446744073709551615", "-ERR Invalid argument: capacity is too large\r\n", ""},
		{"CF.RESERVE b 10 BUCKETSIZE", "-ERR invalid bucket size\r\n", ""},
		{"CF.RESERVE b 10 BUCKETSIZE 256", "-ERR invalid bucket size\r\n", ""},
		{"CF.RESERVE b 10 BUCKETSIZE 0", "-ERR bucket size must be between 1 and 255\r\n", ""},
		{"CF.RESERVE b 10 MAXITERATIONS x", "-ERR invalid max iterations\r\n", ""},
		{"CF.RESERVE b 10 MAXITERATIONS 0", "-ERR max iterations must be larger than 0\r\n", ""},
		{"CF.RESERVE b 10 EXPANSION 65536", "-ERR invalid expansion factor\r\n", ""},
		{"CF.RESERVE b 10 EXPANSION 32769", "-ERR expansion must be between 0 and 32768\r\n", ""},
		{"CF.RESERVE b 10 WHAT 1", "-ERR syntax error\r\n", ""},
		{"CF.INSERT b CAPACITY x ITEMS a", "-ERR invalid capacity\r\n", ""},
		{"CF.INSERT b CAPACITY 10 a", "-ERR syntax error\r\n", ""},
		{"CF.INSERT b NOCREATE ITEMS", "-ERR num of items should be greater than 0\r\n", ""},
		{"CF.SCANDUMP b 0", notFound, ""},
		{"EXISTS b", ":0\r\n", ""},
		{"SET s v", "+OK\r\n", ""},
		{"CF.RESERVE s 10", wrongType, ""},
		{"CF.ADD s a", wrongType, ""},
		{"CF.EXISTS s a", wrongType, ""},
		{"CF.DEL s a", wrongType, ""},
		{"CF.INFO s", wrongType, ""},
		{"BF.ADD a x", wrongType, ""},

		// Commands that work on every type.
		{"COPY grows copy", ":1\r\n", ""},
		{"RENAME copy renamed", "+OK\r\n", ""},
		{"CF.COUNT renamed c", ":4\r\n", ""},
		{"PEXPIREAT renamed 1", ":1\r\n", ""},
		{"CF.COUNT renamed c", ":0\r\n", ""},
		{"CF.ADD renamed c", ":1\r\n", ""},
		{"CF.COUNT renamed c", ":1\r\n", ""},
		{"DEL renamed", ":1\r\n", ""},
		{"CF.EXISTS renamed c", ":0\r\n", "#f\r\n"},
	})
}

func TestCuckooDump(t *testing.T) {
	db := enginetest.Open(t)
	do(t, db, "CF.RESERVE", "c", "100", "EXPANSION", "2")
	for i := range 1000 {
		do(t, db, "CF.ADD", "c", strconv.Itoa(i))
	}
	pieces := scanDump(t, db, "CF", "c")
	for _, p := range pieces {
		if got := do(t, db, "CF.LOADCHUNK", "copy", strconv.FormatInt(p.next, 10), p.data); got != "+OK\r\n" {
			t.Fatal(got)
		}
	}
	if a, b := do(t, db, "CF.INFO", "c"), do(t, db, "CF.INFO", "copy"); a != b {
		t.Errorf("%q, copy %q", a, b)
	}
	for i := range 1000 {
		if got := do(t, db, "CF.EXISTS", "copy", strconv.Itoa(i)); got != ":1\r\n" {
			t.Errorf("%d is missing in the copy: %q", i, got)
		}
	}

	header := pieces[0].data
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"CF.SCANDUMP", "c", "x"}, "-ERR Invalid position\r\n"},
		{[]string{"CF.SCANDUMP", "c", "2"}, "*2\r\n:0\r\n$0\r\n\r\n"},
		{[]string{"CF.SCANDUMP", "c", "99999999"}, "*2\r\n:0\r\n$0\r\n\r\n"},
		{[]string{"CF.LOADCHUNK", "new", "x", header}, "-ERR Invalid position\r\n"},
		{[]string{"CF.LOADCHUNK", "new", "2", header}, "-ERR not found\r\n"},
		{[]string{"CF.LOADCHUNK", "c", "1", header}, "-ERR Invalid argument: the key already exists\r\n"},
		{[]string{"CF.LOADCHUNK", "new", "1", "what"}, "-ERR Invalid header\r\n"},
		{[]string{"CF.LOADCHUNK", "new", "1", header + "\x00"}, "-ERR Invalid header\r\n"},
		{[]string{"CF.LOADCHUNK", "new", "1", header[:len(header)-4] + "\xff\xff\xff\xff"}, "-ERR Invalid header\r\n"},
		{[]string{"CF.LOADCHUNK", "c", "2", "xy"}, "-ERR Invalid position\r\n"},
		{[]string{"CF.LOADCHUNK", "c", "4", "xy"}, "-ERR Invalid position\r\n"},
		{[]string{"CF.LOADCHUNK", "c", "3", "xy"}, "-ERR Couldn't load chunk!\r\n"},
		{[]string{"CF.LOADCHUNK", "c", "5", ""}, "-ERR Invalid position\r\n"},
		{[]string{"EXISTS", "new"}, ":0\r\n"},
	} {
		if got := do(t, db, tt.args...); got != tt.want {
			t.Errorf("%.60q: %q, want %q", tt.args, got, tt.want)
		}
	}
}

// FuzzCuckooLoad: CF.LOADCHUNK refuses invalid data, or creates a filter that can be used.
func FuzzCuckooLoad(f *testing.F) {
	f.Add(uint64(1), []byte("basaltCF\x01"+strings.Repeat("\x00", 7)+"\x05\x00\x01\x00\x01"+
		"\x00\x00\x00\x00\x00\x00\x04\x00\x02\x00\x14"+strings.Repeat("\x00", 8)+"\x00\x00\x08\x00"))
	f.Add(uint64(2049), []byte(strings.Repeat("\x01", 2048)))
	f.Fuzz(func(t *testing.T, next uint64, data []byte) {
		db := enginetest.Open(t)
		do(t, db, "CF.ADD", "old", "item")
		for _, key := range []string{"new", "old"} {
			reply := do(t, db, "CF.LOADCHUNK", key, strconv.FormatUint(next, 10), string(data))
			if key == "old" || reply == "+OK\r\n" {
				do(t, db, "CF.ADD", key, "item") // may be full
				for _, args := range []string{"CF.COUNT " + key + " item", "CF.DEL " + key + " item"} {
					if got := do(t, db, strings.Fields(args)...); got[0] != ':' {
						t.Errorf("%s: %q", args, got)
					}
				}
				if got := do(t, db, "CF.SCANDUMP", key, "0"); got[0] != '*' {
					t.Errorf("%q", got)
				}
			}
		}
	})
}
