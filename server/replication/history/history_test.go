package history

import (
	"encoding/binary"
	"testing"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine/batch"
)

// TestIDOf: a batch in the log of a replica may contain writes of two histories; each ends with its id.
func TestIDOf(t *testing.T) {
	const old, new = "AAAAAAAAAAAAAAAA", "BBBBBBBBBBBBBBBB"
	var b batch.Builder
	for _, id := range []string{old, old, new} { // 10 and 11, 12 and 13, 14 and 15
		b.Put(cf.Metadata, []byte("k"), []byte("v"))
		b.Put(cf.Default, []byte("k"), []byte("v"))
		b.LogData(cf.AppendLogReplicationID(nil, id))
	}
	rep := b.Bytes()
	binary.LittleEndian.PutUint64(rep, 10)
	for seq, want := range map[uint64]string{9: old, 10: old, 11: old, 12: old, 13: old, 14: new, 15: new} {
		if got := idOf(rep, seq); got != want {
			t.Errorf("%d: %q, want %q", seq, got, want)
		}
	}
}
