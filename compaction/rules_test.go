package compaction

import (
	"errors"
	"testing"

	"github.com/basaltdb/basalt/cf"
)

const now = int64(1_700_000_000_000)

// record encodes a metadata record followed by tail.
func record(m cf.Meta, tail ...byte) []byte { return append(m.Append(nil), tail...) }

func TestMetadataVerdict(t *testing.T) {
	tests := []struct {
		name  string
		value []byte
		now   int64
		want  Verdict
	}{
		{"string without expiry", record(cf.Meta{Type: cf.TypeString}, 'v'), now, Keep},
		{"empty string", record(cf.Meta{Type: cf.TypeString}), now, Keep},
		{"expiry is now", record(cf.Meta{Type: cf.TypeString, Expire: uint64(now)}), now, Keep},
		{"expired 1 ms ago", record(cf.Meta{Type: cf.TypeString, Expire: uint64(now - 1)}), now, Drop},
		{"expires in 1 ms", record(cf.Meta{Type: cf.TypeHash, Size: 1, Expire: uint64(now + 1)}), now, Keep},
		{"expired hash, no grace", record(cf.Meta{Type: cf.TypeHash, Size: 1, Expire: uint64(now - 1)}), now, Drop},
		{"farthest expiry", record(cf.Meta{Type: cf.TypeHash, Size: 1, Expire: 1<<64 - 1}), now, Keep},
		{"narrow, expired", record(cf.Meta{Type: cf.TypeSet, Narrow: true, Size: 3, Expire: uint64(now - 1000)}), now, Drop},
		{"narrow, expiry is now", record(cf.Meta{Type: cf.TypeSet, Narrow: true, Size: 3, Expire: uint64(now)}), now, Keep},
		{"narrow, 1 ms after", record(cf.Meta{Type: cf.TypeSet, Narrow: true, Size: 3, Expire: uint64(now)}), now + 1, Drop},
		{"narrow string", record(cf.Meta{Type: cf.TypeString, Narrow: true}), now, Keep},
		{"emptied hash", record(cf.Meta{Type: cf.TypeHash}), now, Drop},
		{"emptied narrow hash", record(cf.Meta{Type: cf.TypeHash, Narrow: true}), now, Drop},
		{"emptied list", record(cf.Meta{Type: cf.TypeList}), now, Drop},
		{"emptied set", record(cf.Meta{Type: cf.TypeSet}), now, Drop},
		{"emptied zset", record(cf.Meta{Type: cf.TypeZSet}), now, Drop},
		{"empty bitmap", record(cf.Meta{Type: cf.TypeBitmap}), now, Drop},
		{"emptied sortedint", record(cf.Meta{Type: cf.TypeSortedInt}), now, Drop},
		{"type none, size 0", record(cf.Meta{Type: cf.TypeNone}), now, Drop},
		{"empty stream", record(cf.Meta{Type: cf.TypeStream}), now, Keep},
		{"empty bloom filter", record(cf.Meta{Type: cf.TypeBloom}), now, Keep},
		{"empty JSON", record(cf.Meta{Type: cf.TypeJSON}), now, Keep},
		{"HyperLogLog", record(cf.Meta{Type: cf.TypeHyperLogLog}), now, Keep},
		{"expired stream", record(cf.Meta{Type: cf.TypeStream, Expire: 1}), now, Drop},
		{"type of the future, size 0", record(cf.Meta{Type: 13}), now, Keep},
		{"type of the future, expired", record(cf.Meta{Type: 15, Size: 1, Expire: 1}), now, Keep},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := JudgeMetadata(tt.value, tt.now)
			if got != tt.want || err != nil {
				t.Errorf("JudgeMetadata = %v, %v, want %v", got, err, tt.want)
			}
			if got := MetadataVerdict(tt.value, tt.now); got != tt.want {
				t.Errorf("MetadataVerdict = %v, want %v", got, tt.want)
			}
			if Settled(tt.value) && tt.want != Keep {
				t.Error("Settled, but it is dropped")
			}
		})
	}
}

func TestSettled(t *testing.T) {
	tests := []struct {
		name  string
		value []byte
		want  bool
	}{
		{"string", record(cf.Meta{Type: cf.TypeString}, 'v'), true},
		{"narrow string", record(cf.Meta{Type: cf.TypeString, Narrow: true}), true},
		{"JSON", record(cf.Meta{Type: cf.TypeJSON}, 0, '1'), true},
		{"set", record(cf.Meta{Type: cf.TypeSet, Size: 1}), true},
		{"narrow list", record(cf.Meta{Type: cf.TypeList, Narrow: true, Size: 1}, make([]byte, 16)...), true},
		{"hash", record(cf.Meta{Type: cf.TypeHash, Size: 1}), true},
		{"hash with more behind: its fields may expire", record(cf.Meta{Type: cf.TypeHash, Size: 1},
			make([]byte, 25)...), false},
		{"string with an expiry", record(cf.Meta{Type: cf.TypeString, Expire: 1 << 60}), false},
		{"narrow set with an expiry", record(cf.Meta{Type: cf.TypeSet, Narrow: true, Size: 1, Expire: 5000}), false},
		{"empty set", record(cf.Meta{Type: cf.TypeSet}), false},
		{"empty stream, which is kept", record(cf.Meta{Type: cf.TypeStream}, make([]byte, 8)...), false},
		{"corrupt", record(cf.Meta{Type: cf.TypeSet, Size: 1})[:20], false},
		{"nothing", nil, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := Settled(tt.value); got != tt.want {
				t.Errorf("Settled = %v, want %v", got, tt.want)
			}
		})
	}
}

func TestMetadataVerdictKeepsCorrupt(t *testing.T) {
	whole := record(cf.Meta{Type: cf.TypeHash, Expire: 1})
	for n := range whole {
		v, err := JudgeMetadata(whole[:n], now)
		if v != Keep || !errors.Is(err, cf.ErrCorrupt) {
			t.Errorf("%d bytes: %v, %v", n, v, err)
		}
	}
}

func TestSubkeyVerdict(t *testing.T) {
	const version = 42
	nsKey := cf.AppendNSKey(nil, cf.DefaultNamespace, []byte("key"), false)
	key := append(cf.AppendSubkeyPrefix(nil, nsKey, false, version), "field"...)
	found := func(m cf.Meta, tail ...byte) Lookup { return Lookup{Raw: record(m, tail...), Found: true} }
	hash := cf.Meta{Type: cf.TypeHash, Version: version, Size: 1}
	expiring := func(at int64) cf.Meta {
		m := hash
		m.Expire = uint64(at)
		return m
	}
	tests := []struct {
		name   string
		lookup Lookup
		key    []byte
		now    int64
		want   Verdict
	}{
		{"live", found(hash), key, now, Keep},
		{"no metadata", Lookup{}, key, now, Drop},
		{"read failed", Lookup{Err: errors.New("I/O error")}, key, now, Keep},
		{"read failed but something came", Lookup{Err: errors.New("I/O error"), Found: true,
			Raw: record(cf.Meta{Type: cf.TypeString})}, key, now, Keep},
		{"corrupt metadata", Lookup{Raw: []byte{0x82, 0}, Found: true}, key, now, Keep},
		{"empty metadata", Lookup{Found: true}, key, now, Keep},
		{"overwritten by a string", found(cf.Meta{Type: cf.TypeString}, 'v'), key, now, Drop},
		{"overwritten by JSON", found(cf.Meta{Type: cf.TypeJSON}, 0), key, now, Drop},
		{"older version", found(cf.Meta{Type: cf.TypeHash, Version: version - 1, Size: 1}), key, now, Drop},
		{"newer version", found(cf.Meta{Type: cf.TypeHash, Version: version + 1, Size: 1}), key, now, Drop},
		{"another type of the same version", found(cf.Meta{Type: cf.TypeSet, Version: version, Size: 1}), key, now, Keep},
		{"emptied", found(cf.Meta{Type: cf.TypeHash, Version: version}), key, now, Drop},
		{"emptied, expiry in the future", found(cf.Meta{Type: cf.TypeHash, Version: version, Expire: 1 << 50}), key,
			now, Drop},
		{"empty stream", found(cf.Meta{Type: cf.TypeStream, Version: version}), key, now, Keep},
		{"empty stream, other version", found(cf.Meta{Type: cf.TypeStream, Version: 1}), key, now, Drop},
		{"expired just now", found(expiring(now - 1)), key, now, Keep},
		{"expired the grace ago", found(expiring(now - Grace)), key, now, Keep},
		{"expired the grace and 1 ms ago", found(expiring(now - Grace - 1)), key, now, Drop},
		{"narrow, expired the grace ago", found(cf.Meta{Type: cf.TypeHash, Narrow: true, Version: version, Size: 1,
			Expire: uint64(now - Grace)}), key, now, Keep},
		{"narrow, expired longer ago", found(cf.Meta{Type: cf.TypeHash, Narrow: true, Version: version, Size: 1,
			Expire: uint64(now - Grace - 1000)}), key, now, Drop},
		{"clock near the epoch", found(expiring(5)), key, Grace - 1, Keep},
		{"bitmap", found(cf.Meta{Type: cf.TypeBitmap, Version: version, Size: 1}), key, now, CheckValue},
		{"bitmap of another version", found(cf.Meta{Type: cf.TypeBitmap, Version: 1, Size: 1}), key, now, Drop},
		{"time series", found(cf.Meta{Type: cf.TypeTimeSeries, Version: version}), key, now, CheckSeries},
		{"time series of another version", found(cf.Meta{Type: cf.TypeTimeSeries, Version: 1}), key, now, Drop},
		{"type of the future", found(cf.Meta{Type: 15, Version: 1}), key, now, Keep},
		{"key without version", Lookup{}, key[:len(nsKey)+4], now, Keep},
		{"empty key", Lookup{}, nil, now, Keep},
		{"prefix only", found(cf.Meta{Type: cf.TypeHash, Version: 1, Size: 1}), key[:len(key)-len("field")], now, Drop},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := SubkeyVerdict(tt.lookup, tt.key, false, tt.now); got != tt.want {
				t.Errorf("SubkeyVerdict = %v, want %v", got, tt.want)
			}
		})
	}
}

// metadata is a metadataLookup in memory. The value "fail" makes a read fail.
type metadata map[string]string

func (m metadata) Lookup(nsKey []byte) ([]byte, bool, error) {
	v, ok := m[string(nsKey)]
	if v == "fail" {
		return nil, false, errors.New("I/O error")
	}
	return []byte(v), ok, nil
}

func TestRules(t *testing.T) {
	for _, slots := range []bool{false, true} {
		nsKey := func(k string) []byte { return cf.AppendNSKey(nil, "ns", []byte(k), slots) }
		sub := func(k, s string) []byte {
			return append(cf.AppendSubkeyPrefix(nil, nsKey(k), slots, 7), s...)
		}
		md := metadata{
			string(nsKey("h")):    string(record(cf.Meta{Type: cf.TypeHash, Version: 7, Size: 1})),
			string(nsKey("bm")):   string(record(cf.Meta{Type: cf.TypeBitmap, Version: 7, Size: 1})),
			string(nsKey("str")):  string(record(cf.Meta{Type: cf.TypeString})),
			string(nsKey("fail")): "fail",
			string(nsKey("late")): string(record(cf.Meta{Type: cf.TypeHash, Size: 1, Expire: uint64(now - 1)})),
			string(nsKey("old")):  string(record(cf.Meta{Type: cf.TypeHash, Size: 1, Expire: uint64(now - Grace - 1)})),
		}
		entry := func(field string, data func(dst []byte) []byte) []byte {
			return data(cf.AppendSearchField(nil, "ns", cf.SearchFieldData, []byte("i"), []byte(field)))
		}
		tag := func(field, key string) []byte {
			return entry(field, func(b []byte) []byte { return cf.AppendSearchTag(b, []byte("t"), []byte(key)) })
		}
		fields := metadata{}
		for name, typ := range map[string]cf.SearchFieldType{"t": cf.SearchTag, "n": cf.SearchNumeric, "v": cf.SearchVector} {
			field := cf.SearchField{Type: typ}
			fields[string(cf.AppendSearchField(nil, "ns", cf.SearchFieldMeta, []byte("i"), []byte(name)))] =
				string(field.Append(nil))
		}
		r := &rules{Metadata: md, Search: fields, Slots: slots, Now: func() int64 { return now }}
		tests := []struct {
			name  string
			id    cf.ID
			key   []byte
			value []byte
			want  Verdict
		}{
			{"live subkey", cf.Default, sub("h", "f"), []byte("v"), Keep},
			{"live score", cf.ZSetScore, sub("h", "f"), nil, Keep},
			{"live entry", cf.Stream, sub("h", "f"), nil, Keep},
			{"orphan subkey", cf.Default, sub("gone", "f"), nil, Drop},
			{"orphan score", cf.ZSetScore, sub("gone", "f"), nil, Drop},
			{"orphan entry", cf.Stream, sub("gone", "f"), nil, Drop},
			{"overwritten", cf.Default, sub("str", "f"), nil, Drop},
			{"look-up fails", cf.Default, sub("fail", "f"), nil, Keep},
			{"malformed", cf.Default, []byte{200}, nil, Keep},
			{"zero fragment", cf.Default, sub("bm", "0"), make([]byte, 10), Drop},
			{"empty fragment", cf.Default, sub("bm", "0"), nil, Drop},
			{"last bit of a fragment", cf.Default, sub("bm", "0"), append(make([]byte, 1023), 0x80), Keep},
			{"live metadata", cf.Metadata, nsKey("h"), []byte(md[string(nsKey("h"))]), Keep},
			{"dead metadata", cf.Metadata, nsKey("h"), record(cf.Meta{Type: cf.TypeHash}), Drop},
			{"message", cf.PubSub, []byte("chan"), []byte("m"), Drop},
			{"script flush", cf.Propagate, []byte("script"), []byte("x"), Drop},
			{"longer key", cf.Propagate, []byte("scripts"), nil, Keep},
			{"shorter key", cf.Propagate, []byte("scrip"), nil, Keep},
			{"case", cf.Propagate, []byte("SCRIPT"), nil, Keep},
			{"function", cf.Propagate, []byte("lua_f_0123"), nil, Keep},
			{"a malformed entry", cf.Search, []byte{0, 0}, nil, Keep},
			{"the definition of an index", cf.Search, cf.AppendSearchPrefix(nil, "ns", cf.SearchIndexMeta, []byte("i")), nil,
				Keep},
			{"a tag", cf.Search, tag("t", "h"), nil, Keep},
			{"a tag of a key that has just expired", cf.Search, tag("t", "late"), nil, Keep},
			{"a tag of a key that expired long ago", cf.Search, tag("t", "old"), nil, Drop},
			{"a tag of no key", cf.Search, tag("t", "gone"), nil, Drop},
			{"a tag of no field", cf.Search, tag("none", "h"), nil, Drop},
			{"a tag whose key cannot be read", cf.Search, tag("t", "fail"), nil, Keep},
			{"a number of no key", cf.Search,
				entry("n", func(b []byte) []byte { return cf.AppendSearchNumeric(b, 1, []byte("gone")) }), nil, Drop},
			{"a node of no key", cf.Search,
				entry("v", func(b []byte) []byte { return cf.AppendSearchNode(b, 0, []byte("gone")) }), nil, Keep},
			{"unknown family", cf.NumFamilies, sub("gone", "f"), nil, Keep},
		}
		for _, tt := range tests {
			if got := r.judge(tt.id, tt.key, tt.value); got != tt.want {
				t.Errorf("slots %v, %s: %v, want %v", slots, tt.name, got, tt.want)
			}
		}
	}
}

// FuzzVerdicts: arbitrary bytes neither panic nor lead to a drop of what cannot be decoded.
func FuzzVerdicts(f *testing.F) {
	key := append(cf.AppendSubkeyPrefix(nil, cf.AppendNSKey(nil, "ns", []byte("k"), false), false, 7), 'f')
	f.Add(record(cf.Meta{Type: cf.TypeHash, Version: 7, Size: 1}), key, false, now)
	f.Add(record(cf.Meta{Type: cf.TypeBitmap, Narrow: true, Version: 7, Size: 1, Expire: 1000}), key, true, now)
	f.Fuzz(func(t *testing.T, raw, key []byte, slots bool, now int64) {
		_, _, metaErr := cf.DecodeMeta(raw)
		if v := MetadataVerdict(raw, now); metaErr != nil && v != Keep {
			t.Errorf("undecodable metadata: %v", v)
		}
		_, keyErr := cf.ParseSubkey(key, slots)
		if v := SubkeyVerdict(Lookup{Raw: raw, Found: true}, key, slots, now); (metaErr != nil || keyErr != nil) &&
			v != Keep {
			t.Errorf("undecodable metadata or key: %v", v)
		}
		if v := SubkeyVerdict(Lookup{}, key, slots, now); (v == Drop) != (keyErr == nil) {
			t.Errorf("no metadata, key error %v: %v", keyErr, v)
		}
	})
}

func TestVerdictNames(t *testing.T) {
	for v, want := range map[Verdict]string{Keep: "keep", Drop: "drop", CheckValue: "check value", 9: "unknown"} {
		if v.String() != want {
			t.Errorf("%d: %q", v, v)
		}
	}
}
