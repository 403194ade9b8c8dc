package compaction

import (
	"fmt"
	"maps"
	"testing"

	"github.com/basaltdb/basalt/cf"
)

func TestCollector(t *testing.T) {
	type entry struct {
		t     EntryType
		key   string
		value []byte
	}
	puts := func(n int) (es []entry) {
		for i := range n {
			es = append(es, entry{EntryPut, fmt.Sprintf("k%02d", i), []byte("value")})
		}
		return es
	}
	deletes := func(n int) (es []entry) {
		for i := range n {
			es = append(es, entry{EntryDelete, fmt.Sprintf("m%02d", i), nil})
		}
		return es
	}
	hash := func(size uint64, expire int64) []byte {
		return record(cf.Meta{Type: cf.TypeHash, Size: size, Expire: uint64(expire)})
	}
	tests := []struct {
		name                 string
		metadata             bool
		entries              []entry
		total, deleted, a, z string
		needCompact          bool
	}{
		{"empty", false, nil, "0", "0", "", "", false},
		{"puts", false, puts(3), "3", "0", "k00", "k02", false},
		{"one key", false, puts(1), "1", "0", "k00", "k00", false},
		{"three of ten deleted", false, append(puts(7), deletes(3)...), "10", "3", "k00", "m02", false},
		{"four of ten deleted", false, append(puts(6), deletes(4)...), "10", "4", "k00", "m03", true},
		{"31 of 100 deleted", false, append(puts(69), deletes(31)...), "100", "31", "k00", "m30", true},
		{"only deletes", false, deletes(2), "2", "2", "m00", "m01", true},
		{"other deletes do not count", false, []entry{{EntrySingleDelete, "a", nil}, {EntryRangeDelete, "b", []byte("c")},
			{EntryDeleteWithTimestamp, "c", nil}, {EntryMerge, "d", nil}}, "4", "0", "a", "d", false},
		{"metadata in another family is a value", false, []entry{{EntryPut, "a", hash(10, 1)}}, "1", "0", "a", "a", false},
		{"live hash", true, []entry{{EntryPut, "a", hash(10, 0)}}, "11", "0", "a", "a", false},
		{"expired hash", true, []entry{{EntryPut, "a", hash(10, now-1)}}, "11", "11", "a", "a", true},
		{"expires now", true, []entry{{EntryPut, "a", hash(10, now)}}, "11", "0", "a", "a", false},
		{"emptied hash", true, []entry{{EntryPut, "a", hash(0, 0)}}, "1", "1", "a", "a", true},
		{"string", true, []entry{{EntryPut, "a", record(cf.Meta{Type: cf.TypeString}, 'v')}}, "1", "0", "a", "a", false},
		{"expired string", true, []entry{{EntryPut, "a", record(cf.Meta{Type: cf.TypeString, Expire: 1})}}, "1", "1",
			"a", "a", true},
		{"shortest record", true, []entry{{EntryPut, "a", record(cf.Meta{Type: cf.TypeString, Narrow: true,
			Expire: 1000})}}, "1", "1", "a", "a", true},
		{"narrow", true, []entry{{EntryPut, "a", record(cf.Meta{Type: cf.TypeSet, Narrow: true, Size: 5,
			Expire: 1000})}}, "6", "6", "a", "a", true},
		{"empty stream", true, []entry{{EntryPut, "a", record(cf.Meta{Type: cf.TypeStream})}}, "1", "0", "a", "a", false},
		{"undecodable", true, []entry{{EntryPut, "a", []byte{0x82, 0, 0, 0, 0, 0}}}, "1", "0", "a", "a", false},
		{"too short to look at", true, []entry{{EntryPut, "a", []byte{0x01, 0, 0, 0}}}, "1", "0", "a", "a", false},
		{"deleted metadata", true, []entry{{EntryPut, "a", hash(10, 0)}, {EntryDelete, "b", hash(10, 1)}}, "12", "1",
			"a", "b", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := Collector{IsMetadata: tt.metadata, Now: now}
			for _, e := range tt.entries {
				key := []byte(e.key)
				c.Add(e.t, key, e.value)
				clear(key) // the collector must not keep the caller's memory
			}
			want := map[string]string{"total_keys": tt.total, "deleted_keys": tt.deleted, "start_key": tt.a, "stop_key": tt.z}
			if got := c.Finish(); !maps.Equal(got, want) {
				t.Errorf("Finish\n got %v\nwant %v", got, want)
			}
			if got := c.NeedCompact(); got != tt.needCompact {
				t.Errorf("NeedCompact = %v", got)
			}
		})
	}
}
