package command

import (
	"strings"
	"testing"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/enginetest"
	"github.com/basaltdb/basalt/internal/require"
)

// TestEveryType makes a key of each type and runs the commands that work on every type.
func TestEveryType(t *testing.T) {
	db := enginetest.Open(t)
	types := []struct {
		typ            cf.Type
		name, encoding string // Kvrocks's name of the type, and the encoding that Redis or its module returns
		tail           []byte
	}{
		{cf.TypeString, "string", "embstr", []byte("text")},
		{cf.TypeHash, "hash", "listpack", nil},
		{cf.TypeList, "list", "listpack", cf.AppendListTail(nil, 1<<63, 1<<63+1)},
		{cf.TypeSet, "set", "listpack", nil},
		{cf.TypeZSet, "zset", "listpack", nil},
		{cf.TypeBitmap, "bitmap", "raw", nil},
		{cf.TypeSortedInt, "sortedint", "intset", nil},
		{cf.TypeStream, "stream", "stream", make([]byte, 100)},
		{cf.TypeBloom, "MBbloom--", "raw", make([]byte, 100)},
		{cf.TypeJSON, "ReJSON-RL", "raw", []byte("\x00{}")},
		{cf.TypeHyperLogLog, "hyperloglog", "raw", cf.AppendHLLTail(nil, cf.HLLDense)},
		{cf.TypeTDigest, "TDIS-TYPE", "raw", make([]byte, 80)},
		{cf.TypeCuckooFilter, "MBbloomCF", "raw", make([]byte, 27)},
	}
	for _, tt := range types {
		key := "k:" + tt.name
		require.NoError(t, db.Update(cf.DefaultNamespace, [][]byte{[]byte(key)}, func(tx *engine.Tx) error {
			rec := tx.Fresh([]byte(key), tt.typ)
			if !tt.typ.SingleRecord() {
				rec.Size = 1
				tx.Put(cf.Default, tx.Subkey(&rec, []byte("sub")), cf.AppendDouble(nil, 1)) // the score of a member
			}
			tx.Save(&rec, tt.tail)
			return nil
		}))
	}
	for _, tt := range types {
		key := "k:" + tt.name
		bulk := bulkReply(key)
		dump := do(t, db, "OBJECT", "DUMP", key)
		if want := bulkReply("type") + bulkReply(tt.name); !strings.Contains(dump, want) {
			t.Errorf("OBJECT DUMP %s: %q", key, dump)
		}
		for _, c := range []struct {
			line, want string
		}{
			{"TYPE " + key, "+" + tt.name + "\r\n"},
			{"OBJECT ENCODING " + key, bulkReply(tt.encoding)},
			{"OBJECT REFCOUNT " + key, ":1\r\n"},
			{"SCAN 0 COUNT 100 TYPE " + tt.name, "*2\r\n$1\r\n0\r\n*1\r\n" + bulk},
			{"SCAN 0 COUNT 100 TYPE " + strings.ToUpper(tt.name), "*2\r\n$1\r\n0\r\n*1\r\n" + bulk},
			{"EXISTS " + key, ":1\r\n"},
			{"PEXPIREAT " + key + " 99999999999999", ":1\r\n"},
			{"PEXPIRETIME " + key, ":99999999999999\r\n"},
			{"PERSIST " + key, ":1\r\n"},
			{"TTL " + key, ":-1\r\n"},
			{"RENAME " + key + " renamed", "+OK\r\n"},
			{"TYPE renamed", "+" + tt.name + "\r\n"},
			{"TYPE " + key, "+none\r\n"},
			{"RENAME renamed " + key, "+OK\r\n"},
			{"COPY " + key + " copy", ":1\r\n"},
			{"TYPE copy", "+" + tt.name + "\r\n"},
			{"DEL copy " + key, ":2\r\n"},
			{"TYPE " + key, "+none\r\n"},
			{"OBJECT DUMP " + key, "*0\r\n"},
		} {
			if got := do(t, db, strings.Fields(c.line)...); got != c.want {
				t.Errorf("%s: %q, want %q", c.line, got, c.want)
			}
		}
	}
}
