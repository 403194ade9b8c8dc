package command

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/enginetest"
	"github.com/basaltdb/basalt/internal/require"
)

// probabilistic is a command, split at blanks, with its reply in RESP2, and its reply in RESP3 where it differs.
type probabilistic struct{ args, want, want3 string }

// talk runs a script in each protocol, each time on a new database.
func talk(t *testing.T, script []probabilistic) {
	t.Helper()
	for _, proto := range []int{2, 3} {
		db := enginetest.Open(t)
		for _, x := range script {
			want := x.want
			if proto == 3 && x.want3 != "" {
				want = x.want3
			}
			if got := doProto(t, db, proto, strings.Fields(x.args)...); got != want {
				t.Errorf("RESP%d %s: %q, want %q", proto, x.args, got, want)
			}
		}
	}
}

// bloomInfo returns the reply of BF.INFO.
func bloomInfo(header string, capacity, size, filters, items int, expansion string) string {
	return fmt.Sprintf("%s\r\n+Capacity\r\n:%d\r\n+Size\r\n:%d\r\n+Number of filters\r\n:%d\r\n+Number of items "+
		"inserted\r\n:%d\r\n+Expansion rate\r\n%s\r\n",
		header, capacity, size, filters, items, expansion)
}

func TestBloom(t *testing.T) {
	const wrongType = "-WRONGTYPE Operation against a key holding the wrong kind of value\r\n"
	const full = "-ERR nonscaling filter is full\r\n"
	talk(t, []probabilistic{
		// Recorded commands with Kvrocks's replies to BF.INFO.
		{"BF.RESERVE bloom:reserved 0.01 100 EXPANSION 2", "+OK\r\n", ""},
		{"BF.MADD bloom:reserved a b c d e", "*5\r\n:1\r\n:1\r\n:1\r\n:1\r\n:1\r\n", "*5\r\n#t\r\n#t\r\n#t\r\n#t\r\n#t\r\n"},
		{"BF.ADD bloom:default item1", ":1\r\n", "#t\r\n"},
		{"BF.ADD bloom:default item2", ":1\r\n", "#t\r\n"},
		{"BF.RESERVE bloom:nonscaling 0.001 50 NONSCALING", "+OK\r\n", ""},
		{"BF.INSERT bloom:insert CAPACITY 300 ERROR 0.01 ITEMS i1 i2 i3", "*3\r\n:1\r\n:1\r\n:1\r\n",
			"*3\r\n#t\r\n#t\r\n#t\r\n"},
		{"BF.RESERVE bloom:scaled 0.1 5 EXPANSION 2", "+OK\r\n", ""},
		{"BF.MADD bloom:scaled 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20", "*20\r\n" +
			strings.Repeat(":1\r\n", 20), "*20\r\n" + strings.Repeat("#t\r\n", 20)},
		{"BF.INFO bloom:reserved", bloomInfo("*10", 100, 128, 1, 5, ":2"), bloomInfo("%5", 100, 128, 1, 5, ":2")},
		{"BF.INFO bloom:default", bloomInfo("*10", 100, 128, 1, 2, ":2"), bloomInfo("%5", 100, 128, 1, 2, ":2")},
		{"BF.INFO bloom:nonscaling", bloomInfo("*10", 50, 128, 1, 0, "$-1"), bloomInfo("%5", 50, 128, 1, 0, "_")},
		{"BF.INFO bloom:insert", bloomInfo("*10", 300, 512, 1, 3, ":2"), bloomInfo("%5", 300, 512, 1, 3, ":2")},
		{"BF.INFO bloom:scaled", bloomInfo("*10", 35, 96, 3, 20, ":2"), bloomInfo("%5", 35, 96, 3, 20, ":2")},
		{"BF.MEXISTS bloom:reserved a e zzz", "*3\r\n:1\r\n:1\r\n:0\r\n", "*3\r\n#t\r\n#t\r\n#f\r\n"},

		{"TYPE bloom:default", "+MBbloom--\r\n", ""},
		{"BF.ADD bloom:default item1", ":0\r\n", "#f\r\n"},
		{"bf.exists bloom:default item1", ":1\r\n", "#t\r\n"},
		{"BF.EXISTS bloom:default item3", ":0\r\n", "#f\r\n"},
		{"BF.EXISTS missing a", ":0\r\n", "#f\r\n"},
		{"BF.MEXISTS missing a b", "*2\r\n:0\r\n:0\r\n", "*2\r\n#f\r\n#f\r\n"},
		{"BF.CARD bloom:default", ":2\r\n", ""},
		{"BF.CARD missing", ":0\r\n", ""},
		{"BF.INFO bloom:scaled capacity", ":35\r\n", ""},
		{"BF.INFO bloom:scaled Size", ":96\r\n", ""},
		{"BF.INFO bloom:scaled FILTERS", ":3\r\n", ""},
		{"BF.INFO bloom:scaled ITEMS", ":20\r\n", ""},
		{"BF.INFO bloom:scaled EXPANSION", ":2\r\n", ""},
		{"BF.INFO bloom:nonscaling EXPANSION", "$-1\r\n", "_\r\n"},
		{"BF.INFO bloom:scaled WHAT", "-ERR Invalid info argument\r\n", ""},
		{"BF.INFO bloom:scaled SIZE ITEMS", "-ERR wrong number of arguments for 'bf.info' command\r\n", ""},
		{"BF.INFO missing", "-ERR key is not found\r\n", ""},

		{"BF.RESERVE small 0.0001 2 nonscaling", "+OK\r\n", ""},
		{"BF.MADD small a a b c a", "*5\r\n:1\r\n:0\r\n:1\r\n" + full + ":0\r\n", "*5\r\n#t\r\n#f\r\n#t\r\n" + full +
			"#f\r\n"},
		{"BF.ADD small d", full, ""},
		{"BF.ADD small b", ":0\r\n", "#f\r\n"},
		{"BF.RESERVE small 0.01 100", "-ERR item exists\r\n", ""},

		{"BF.INSERT new NOCREATE ITEMS a", "-ERR key is not found\r\n", ""},
		{"BF.INSERT new EXPANSION 4 capacity 10 ITEMS a ITEMS", "*2\r\n:1\r\n:1\r\n", "*2\r\n#t\r\n#t\r\n"},
		{"BF.INFO new EXPANSION", ":4\r\n", ""},
		{"BF.INSERT new NOCREATE CAPACITY 1 ITEMS a b", "*2\r\n:0\r\n:1\r\n", "*2\r\n#f\r\n#t\r\n"},
		{"BF.INSERT new2 NONSCALING ITEMS a", "*1\r\n:1\r\n", "*1\r\n#t\r\n"},
		{"BF.INFO new2 EXPANSION", "$-1\r\n", "_\r\n"},
		{"BF.INSERT x NOCREATE NONSCALING", "-ERR syntax error\r\n", ""},
		{"BF.INSERT x NOCREATE ITEMS", "-ERR num of items should be greater than 0\r\n", ""},
		{"BF.INSERT x WHAT ITEMS a", "-ERR syntax error\r\n", ""},
		{"BF.INSERT x CAPACITY 0 ITEMS a", "-ERR capacity should be larger than 0\r\n", ""},
		{"BF.INSERT x CAPACITY -1 ITEMS a", "-ERR Bad capacity\r\n", ""},
		{"BF.INSERT x NOCREATE CAPACITY", "-ERR Bad capacity\r\n", ""},
		{"BF.INSERT x NOCREATE ERROR", "-ERR Bad error rate\r\n", ""},
		{"BF.INSERT x NOCREATE EXPANSION", "-ERR Bad expansion\r\n", ""},
		{"BF.INSERT x ERROR 1 ITEMS a", "-ERR error rate should be between 0 and 1\r\n", ""},
		{"BF.INSERT x ERROR x ITEMS a", "-ERR Bad error rate\r\n", ""},
		{"BF.INSERT x EXPANSION 0 ITEMS a", "-ERR expansion should be greater or equal to 1\r\n", ""},
		{"BF.INSERT x EXPANSION 65536 ITEMS a", "-ERR Bad expansion\r\n", ""},
		{"BF.INSERT x EXPANSION 2 NONSCALING ITEMS a", "-ERR nonscaling filters cannot expand\r\n", ""},
		{"EXISTS x", ":0\r\n", ""},

		{"BF.RESERVE x 0 100", "-ERR error rate should be between 0 and 1\r\n", ""},
		{"BF.RESERVE x 1 100", "-ERR error rate should be between 0 and 1\r\n", ""},
		{"BF.RESERVE x inf 100", "-ERR error rate should be between 0 and 1\r\n", ""},
		{"BF.RESERVE x nan 100", "-ERR Bad error rate\r\n", ""},
		{"BF.RESERVE x 0.1 4294967296", "-ERR Bad capacity\r\n", ""},
		{"BF.RESERVE x 0.1 0", "-ERR capacity should be larger than 0\r\n", ""},
		{"BF.RESERVE x 0.1 1 EXPANSION x", "-ERR Bad expansion\r\n", ""},
		{"BF.RESERVE x 0.1 1 NONSCALING EXPANSION 1", "-ERR nonscaling filters cannot expand\r\n", ""},
		{"BF.RESERVE x 0.1 1 WHAT", "-ERR syntax error\r\n", ""},
		{"BF.RESERVE x 0.1", "-ERR wrong number of arguments for 'bf.reserve' command\r\n", ""},
		{"BF.ADD x", "-ERR wrong number of arguments for 'bf.add' command\r\n", ""},
		{"BF.ADD x a b", "-ERR wrong number of arguments for 'bf.add' command\r\n", ""},

		{"SET s v", "+OK\r\n", ""},
		{"BF.RESERVE s 0.1 1", wrongType, ""},
		{"BF.ADD s a", wrongType, ""},
		{"BF.MADD s a", wrongType, ""},
		{"BF.INSERT s ITEMS a", wrongType, ""},
		{"BF.EXISTS s a", wrongType, ""},
		{"BF.MEXISTS s a", wrongType, ""},
		{"BF.INFO s", wrongType, ""},
		{"BF.CARD s", wrongType, ""},
		{"LLEN bloom:default", wrongType, ""},

		// Commands that work on every type.
		{"COPY bloom:scaled copy", ":1\r\n", ""},
		{"RENAME copy renamed", "+OK\r\n", ""},
		{"BF.INFO renamed", bloomInfo("*10", 35, 96, 3, 20, ":2"), bloomInfo("%5", 35, 96, 3, 20, ":2")},
		{"BF.MEXISTS renamed 1 20 none", "*3\r\n:1\r\n:1\r\n:0\r\n", "*3\r\n#t\r\n#t\r\n#f\r\n"},
		{"DEL renamed", ":1\r\n", ""},
		{"BF.CARD renamed", ":0\r\n", ""},
		{"BF.ADD renamed 1", ":1\r\n", "#t\r\n"},
		{"OBJECT ENCODING renamed", "$3\r\nraw\r\n", ""},
		{"PEXPIREAT renamed 1", ":1\r\n", ""},
		{"BF.EXISTS renamed 1", ":0\r\n", "#f\r\n"},
	})
}

// The error for a corrupt key names the key.
func TestBloomCorrupt(t *testing.T) {
	db := enginetest.Open(t)
	key := []byte("broken")
	do(t, db, "BF.ADD", "broken", "a")
	require.NoError(t, db.Update(cf.DefaultNamespace, [][]byte{key}, func(tx *engine.Tx) error {
		rec, err := tx.Load(key, cf.TypeBloom)
		if err != nil || !rec.Exists {
			return errors.New("there is no filter")
		}
		tx.Put(cf.Default, tx.Subkey(&rec, cf.AppendBloomSub(nil, 0)), []byte("short"))
		return nil
	}))
	for _, args := range []string{"BF.ADD broken b", "BF.MADD broken b c", "BF.EXISTS broken a"} {
		if got, want := do(t, db,
			strings.Fields(args)...), "-ERR key \"broken\": corrupt record: filter 0 of 5 bytes\r\n"; got != want {
			t.Errorf("%s: %q, want %q", args, got, want)
		}
	}
}
