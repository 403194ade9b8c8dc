package rocks

import (
	"fmt"
	"testing"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine/batch"
	"github.com/basaltdb/basalt/internal/require"
)

// TestCollector writes a file for each case and reads the properties that the collector has given it.
func TestCollector(t *testing.T) {
	const none, past, future = 0, 1000, 1 << 43 // expiries in milliseconds since the epoch
	put := func(key string, value []byte) func(b *batch.Builder) {
		return func(b *batch.Builder) { b.Put(cf.Default, []byte(key), value) }
	}
	puts := func(n int) (list []func(*batch.Builder)) {
		for i := range n {
			list = append(list, put(fmt.Sprintf("k%02d", i), []byte("value")))
		}
		return list
	}
	remove := func(key string) func(b *batch.Builder) {
		return func(b *batch.Builder) { b.Delete(cf.Default, []byte(key)) }
	}
	removes := func(n int) (list []func(*batch.Builder)) {
		for i := range n {
			list = append(list, remove(fmt.Sprintf("m%02d", i)))
		}
		return list
	}
	record := func(m cf.Meta, tail ...byte) []byte { return append(m.Append(nil), tail...) }
	hash := func(size, expire uint64) []byte {
		return record(cf.Meta{Type: cf.TypeHash, Size: size, Expire: expire})
	}
	fields := func(size uint64, ttl cf.HashTTL) []byte {
		return cf.AppendHashTail(record(cf.Meta{Type: cf.TypeHash, Version: 7, Size: size}), ttl)
	}
	type writes = []func(*batch.Builder)
	for _, tt := range []struct {
		name                 string
		metadata             bool
		writes               writes
		total, deleted, a, z string
		marked               bool
	}{
		{"puts", false, puts(3), "3", "0", "k00", "k02", false},
		{"one key", false, puts(1), "1", "0", "k00", "k00", false},
		{"three of ten deleted", false, append(puts(7), removes(3)...), "10", "3", "k00", "m02", false},
		{"four of ten deleted", false, append(puts(6), removes(4)...), "10", "4", "k00", "m03", true},
		{"31 of 100 deleted", false, append(puts(69), removes(31)...), "100", "31", "k00", "m30", true},
		{"only deletes", false, removes(2), "2", "2", "m00", "m01", true},
		{"other deletes do not count", false, writes{
			func(b *batch.Builder) { b.SingleDelete(cf.Default, []byte("a")) },
			func(b *batch.Builder) { b.DeleteRange(cf.Default, []byte("b"), []byte("c")) },
		}, "2", "0", "a", "b", false},
		{"metadata in another family is a value", false, writes{put("a", hash(10, past))}, "1", "0", "a", "a", false},
		{"live hash", true, writes{put("a", hash(10, none))}, "11", "0", "a", "a", false},
		{"expired hash", true, writes{put("a", hash(10, past))}, "11", "11", "a", "a", true},
		{"expires later", true, writes{put("a", hash(10, future))}, "11", "0", "a", "a", false},
		{"emptied hash", true, writes{put("a", hash(0, none))}, "1", "1", "a", "a", true},
		{"string", true, writes{put("a", record(cf.Meta{Type: cf.TypeString}, 'v'))}, "1", "0", "a", "a", false},
		{"expired string", true, writes{put("a", record(cf.Meta{Type: cf.TypeString, Expire: past}))}, "1", "1",
			"a", "a", true},
		{"shortest record", true, writes{put("a", record(cf.Meta{Type: cf.TypeString, Narrow: true, Expire: past}))},
			"1", "1", "a", "a", true},
		{"narrow", true, writes{put("a", record(cf.Meta{Type: cf.TypeSet, Narrow: true, Size: 5, Expire: past}))},
			"6", "6", "a", "a", true},
		{"empty stream", true, writes{put("a", record(cf.Meta{Type: cf.TypeStream}))}, "1", "0", "a", "a", false},
		{"undecodable", true, writes{put("a", []byte{0x82, 0, 0, 0, 0, 0})}, "1", "0", "a", "a", false},
		{"too short to look at", true, writes{put("a", []byte{0x01, 0, 0, 0})}, "1", "0", "a", "a", false},
		{"deleted metadata", true, writes{put("a", hash(10, none)), remove("b")}, "12", "1", "a", "b", false},
		{"a field without an expiry", true, writes{put("a", fields(3, cf.HashTTL{Persist: 1, Lower: 1, Upper: 1}))},
			"4", "0", "a", "a", false},
		{"the last field expires later", true, writes{put("a", fields(3, cf.HashTTL{Lower: 1, Upper: future}))},
			"4", "0", "a", "a", false},
		{"the last field has expired", true, writes{put("a", fields(3, cf.HashTTL{Lower: 1, Upper: past}))},
			"4", "4", "a", "a", true},
		{"a tail of the future", true, writes{put("a", append(hash(3, none), 2))}, "4", "0", "a", "a", false},
		{"a tail that is too long", true, writes{put("a", append(fields(3, cf.HashTTL{Lower: 1, Upper: 1}), 0))},
			"4", "0", "a", "a", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			kind := Subkeys
			if tt.metadata {
				kind = Meta
			}
			d := blocksDB(t, func(o *Options) { o.Families[0].Kind, o.DisableAutoCompactions = kind, true })
			var b batch.Builder
			b.Reset()
			for _, write := range tt.writes {
				write(&b)
			}
			_, err := d.Write(b.Bytes(), 0)
			require.NoError(t, err)
			f := d.Family(int(cf.Default))
			require.NoError(t, d.Flush(f))
			files, err := d.TableProperties(f)
			if err != nil || len(files) != 1 {
				t.Fatalf("%d files, %v", len(files), err)
			}
			if p := files[0]; string(p.TotalKeys) != tt.total || string(p.DeletedKeys) != tt.deleted ||
				string(p.StartKey) != tt.a || string(p.StopKey) != tt.z {
				t.Errorf("%s of %s deleted, from %q to %q; want %s of %s, from %q to %q", p.DeletedKeys, p.TotalKeys,
					p.StartKey, p.StopKey, tt.deleted, tt.total, tt.a, tt.z)
			}
			// A single file needs no compaction unless the collector has marked it.
			if pending, ok := d.IntProperty(f, "rocksdb.compaction-pending"); !ok || pending == 1 != tt.marked {
				t.Errorf("marked for compaction: %d, want %v", pending, tt.marked)
			}
		})
	}
}
