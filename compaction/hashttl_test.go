package compaction

import (
	"testing"

	"github.com/basaltdb/basalt/cf"
)

// expiring encodes the metadata record of a hash whose fields may expire.
func expiring(size uint64, t cf.HashTTL) []byte {
	return cf.AppendHashTail((&cf.Meta{Type: cf.TypeHash, Version: 7, Size: size}).Append(nil), t)
}

func TestExpiredFields(t *testing.T) {
	nsKey := cf.AppendNSKey(nil, "ns", []byte("h"), false)
	key := append(cf.AppendSubkeyPrefix(nil, nsKey, false, 7), "field"...)
	field := func(expire int64) []byte { return cf.AppendHashValue(nil, uint64(expire), []byte("value")) }
	plain := record(cf.Meta{Type: cf.TypeHash, Version: 7, Size: 2})
	some := expiring(2, cf.HashTTL{Persist: 1, Lower: 1, Upper: 1})
	all := expiring(2, cf.HashTTL{Lower: 1, Upper: uint64(now - 1)})
	for _, tt := range []struct {
		name        string
		meta, value []byte
		want        Verdict
	}{
		{"without an expiry", some, field(0), Keep},
		{"later", some, field(now + 1), Keep},
		{"within the grace", some, field(now - Grace), Keep},
		{"beyond the grace", some, field(now - Grace - 1), Drop},
		{"long ago", some, field(1), Drop},
		{"farthest", some, field(-1), Keep},
		{"cut short", some, field(1)[:7], Keep},
		{"empty", some, nil, Keep},
		{"all expired, long ago", all, field(1), Drop},
		{"all expired, within the grace", all, field(now - 1), Keep},
		{"a plain hash with a value that looks so", plain, field(1), Keep},
		{"a mode of the future", append(record(cf.Meta{Type: cf.TypeHash, Version: 7, Size: 2}), 2), field(1), Keep},
		{"an incomplete tail", some[:len(some)-1], field(1), Keep},
		{"another version", cf.AppendHashTail((&cf.Meta{Type: cf.TypeHash, Version: 8, Size: 1}).Append(nil),
			cf.HashTTL{Persist: 1}), field(0), Drop},
		{"a set with such a tail", cf.AppendHashTail((&cf.Meta{Type: cf.TypeSet, Version: 7, Size: 1}).Append(nil),
			cf.HashTTL{Persist: 1}), field(1), Keep},
	} {
		r := &rules{Metadata: metadata{string(nsKey): string(tt.meta)}, Now: func() int64 { return now }}
		if got := r.judge(cf.Default, key, tt.value); got != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
	r := &rules{Metadata: metadata{string(nsKey): string(some)}, Now: func() int64 { return Grace - 1 }}
	if got := r.judge(cf.Default, key, field(1)); got != Keep {
		t.Errorf("clock near the epoch: %v", got)
	}
	if v := SubkeyVerdict(Lookup{Raw: some, Found: true}, key, false, now); v != CheckField ||
		v.String() != "check field" {
		t.Errorf("without the value: %v", v)
	}
}

func TestHashEndsWithItsLastField(t *testing.T) {
	for _, tt := range []struct {
		name string
		raw  []byte
		want Verdict
	}{
		{"a field without an expiry", expiring(3, cf.HashTTL{Persist: 1, Lower: 1, Upper: 1}), Keep},
		{"the last expires now", expiring(3, cf.HashTTL{Lower: 1, Upper: uint64(now)}), Keep},
		{"the last has expired", expiring(3, cf.HashTTL{Lower: 1, Upper: uint64(now - 1)}), Drop},
		{"a mode of the future", append(record(cf.Meta{Type: cf.TypeHash, Size: 3}), 2), Keep},
		{"a tail that is too long", append(expiring(3, cf.HashTTL{Lower: 1, Upper: 1}), 0), Keep},
	} {
		if got, err := JudgeMetadata(tt.raw, now); got != tt.want || err != nil {
			t.Errorf("%s: %v, %v", tt.name, got, err)
		}
	}
}
