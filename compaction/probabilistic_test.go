package compaction

import (
	"testing"

	"github.com/basaltdb/basalt/cf"
)

// Bloom filters, cuckoo filters and t-digests have records of size 0 that are alive, and their subkeys live as long as
// they do.
func TestProbabilisticTypes(t *testing.T) {
	const now = 100 * Grace
	user := cf.AppendNSKey(nil, cf.DefaultNamespace, []byte("k"), false)
	cuckoo := cf.CuckooMeta{Filters: 1, BaseCapacity: 100, BucketSize: 2, MaxIterations: 20, PageSize: 2048}
	digest, chain := cf.NewTDigestMeta(100, 610), cf.BloomMeta{Filters: 1, Expansion: 2, BaseCapacity: 100,
		ErrorRate: 0.01, Bytes: 128}
	for _, tt := range []struct {
		typ  cf.Type
		tail []byte
		subs [][]byte
	}{
		{cf.TypeBloom, chain.Append(nil), [][]byte{cf.AppendBloomSub(nil, 0)}},
		{cf.TypeCuckooFilter, cuckoo.Append(nil), [][]byte{cf.AppendCuckooSub(nil, 0, 3)}},
		{cf.TypeTDigest, digest.Append(nil), [][]byte{cf.AppendTDigestBufferSub(nil),
			cf.AppendTDigestCentroidSub(nil, 1.5, 3)}},
	} {
		record := func(version, expire uint64) []byte {
			m := cf.Meta{Type: tt.typ, Version: version, Expire: expire}
			return append(m.Append(nil), tt.tail...)
		}
		for _, expire := range []struct {
			at           uint64
			record, subs Verdict
		}{{0, Keep, Keep}, {now + 1, Keep, Keep}, {now - 1, Drop, Keep}, {now - 2*Grace, Drop, Drop}} {
			if got := MetadataVerdict(record(7, expire.at), now); got != expire.record {
				t.Errorf("%s that expires at %d: %s, want %s", tt.typ, expire.at, got, expire.record)
			}
			for _, sub := range tt.subs {
				key := append(cf.AppendSubkeyPrefix(nil, user, false, 7), sub...)
				if got := SubkeyVerdict(Lookup{Raw: record(7, expire.at), Found: true}, key, false, now); got != expire.subs {
					t.Errorf("subkey %x of a %s that expires at %d: %s, want %s", sub, tt.typ, expire.at, got, expire.subs)
				}
				if got := SubkeyVerdict(Lookup{Raw: record(8, expire.at), Found: true}, key, false, now); got != Drop {
					t.Errorf("subkey %x of an older %s: %s", sub, tt.typ, got)
				}
			}
		}
	}
}
