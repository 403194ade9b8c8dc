package rocks

import (
	"bytes"
	"encoding/binary"
	"testing"
	"time"

	"github.com/basaltdb/basalt/engine/batch"
	"github.com/basaltdb/basalt/internal/require"
)

// TestSlabsComeBack fills many memtables, one after the other: the memory of those that were flushed must serve the
// next ones, and what is kept for them must stay within one write buffer and 16 MiB.
func TestSlabsComeBack(t *testing.T) {
	const buffer, slab = 8 << 20, 2 << 20
	o := memtableOptions(false)
	o.WriteBufferSize = buffer
	d, err := Open(t.TempDir()+"/db", []string{"default"}, o)
	require.NoError(t, err)
	key := func(i int) []byte { return binary.BigEndian.AppendUint32(nil, uint32(i)*2654435761) }
	// fill writes values of these sizes that come to about n bytes, flushes, and returns how many they were.
	fill := func(n int, size func(i int) int) (i int) {
		t.Helper()
		var b batch.Builder
		for ; n > 0; i++ {
			b.Reset()
			value := bytes.Repeat([]byte{byte(i)}, size(i))
			b.Put(0, key(i), value)
			if _, err := d.Write(b.Bytes(), DisableWAL); err != nil {
				t.Fatal(err)
			}
			n -= len(value) + 50
		}
		require.NoError(t, d.Flush(d.Family(0)))
		return i
	}
	most := 0
	for _, tt := range []struct {
		name string
		size func(int) int
	}{
		{"of 100 bytes", func(int) int { return 100 }},
		{"of all sizes up to 2 MiB", func(i int) int { return 1 << (i % 22) }},
		{"of more than a quarter of a slab", func(int) int { return 300 << 10 }},
	} {
		for round := range 3 {
			n := fill(6*buffer, tt.size)
			used, kept := SlabUsage()
			for end := time.Now().Add(time.Minute); used > slab && time.Now().Before(end); used, kept = SlabUsage() {
				time.Sleep(time.Millisecond) // RocksDB drops a memtable some time after its flush, and tells no one
			}
			if most = max(most, kept); used > slab || kept > buffer {
				t.Errorf("values %s, round %d: %d KiB of slabs in use after a flush, %d KiB kept", tt.name, round,
					used>>10, kept>>10)
			}
			for i := 0; i < n; i += 1 + n/1000 {
				v, found, err := d.Get(d.Family(0), key(i), nil)
				if err != nil || !found || !bytes.Equal(v, bytes.Repeat([]byte{byte(i)}, tt.size(i))) {
					t.Fatalf("values %s, round %d: value %d: %d bytes, found %v, %v", tt.name, round, i, len(v), found, err)
				}
			}
		}
	}
	if most < buffer/2 {
		t.Errorf("at most %d KiB were kept for the next memtables", most>>10)
	}
	d.Close(false)
	if used, kept := SlabUsage(); used != 0 || kept != 0 {
		t.Errorf("after the close of the last database: %d KiB of slabs in use, %d KiB kept", used>>10, kept>>10)
	}
}
