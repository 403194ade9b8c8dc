package engine_test

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/compaction"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/enginetest"
	"github.com/basaltdb/basalt/internal/require"
)

// deletedKeys sums up what the collector counted as deleted in the files of a family.
func deletedKeys(t testing.TB, db *engine.DB, id cf.ID) (n int) {
	t.Helper()
	files, err := db.TableProperties(id)
	require.NoError(t, err)
	for _, f := range files {
		d, err := strconv.Atoi(string(f.DeletedKeys))
		require.NoError(t, err)
		n += d
	}
	return n
}

// putExpiring writes a hash with these expiries of its fields, in ms since the epoch, whatever the clock says.
func putExpiring(t testing.TB, db *engine.DB, key string, expiries []int64) {
	t.Helper()
	update(t, db, key, func(tx *engine.Tx, _ *engine.Record) {
		rec := tx.Fresh([]byte(key), cf.TypeHash)
		var ttl cf.HashTTL
		for i, e := range expiries {
			tx.Put(cf.Default, tx.Subkey(&rec, fmt.Append(nil, i)), cf.AppendHashValue(nil, uint64(e), []byte("v")))
			if e == 0 {
				ttl.Persist++
			} else {
				if ttl.Lower == 0 || uint64(e) < ttl.Lower {
					ttl.Lower = uint64(e)
				}
				ttl.Upper = max(ttl.Upper, uint64(e))
			}
		}
		rec.Size = uint64(len(expiries))
		rec.SetFieldsEnd(ttl.FieldsEnd())
		tx.Save(&rec, cf.AppendHashTail(nil, ttl))
	})
}

// TestCompactionOfExpiredFields holds the native side against the rules: fields go one by one, the hash with the
// last, and the collector counts as the rules say.
func TestCompactionOfExpiredFields(t *testing.T) {
	now := time.Now().UnixMilli()
	const hour = 3600_000
	for _, tt := range []struct {
		name                  string
		expiries              []int64
		fields, meta, deleted int // what is left; what the collector counts as deleted in the metadata
	}{
		{"none has expired", []int64{0, now + hour, now + 2*hour}, 3, 1, 0},
		{"one has, long ago", []int64{0, now - hour, now + hour}, 2, 1, 0},
		{"one has, within the grace", []int64{0, now - 60_000, now + hour}, 3, 1, 0},
		{"just beyond the grace", []int64{0, now - compaction.Grace - 1, now + hour}, 2, 1, 0},
		{"all that can", []int64{0, now - hour, now - hour}, 1, 1, 0},
		{"all", []int64{now - hour, now - hour}, 0, 0, 3},
		{"all, within the grace", []int64{now - 60_000, now - hour}, 1, 0, 3},
	} {
		for _, blobs := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, blobs %v", tt.name, blobs), func(t *testing.T) {
				o := engine.DefaultRocksOptions()
				o.DisableAutoCompactions = true
				o.EnableBlobFiles, o.MinBlobSize = blobs, 0
				db := enginetest.OpenWith(t, engine.Options{Dir: t.TempDir() + "/db", Rocks: o})
				putExpiring(t, db, "h", tt.expiries)
				for id := range cf.NumFamilies {
					require.NoError(t, db.FlushMemtable(id))
				}
				if got := deletedKeys(t, db, cf.Metadata); got != tt.deleted && !blobs { // it does not look into blobs
					t.Errorf("the collector counts %d deleted keys, want %d", got, tt.deleted)
				}
				compact(t, db)
				if got := records(t, db, cf.Default); got != tt.fields {
					t.Errorf("%d fields are left, want %d", got, tt.fields)
				}
				if got := records(t, db, cf.Metadata); got != tt.meta {
					t.Errorf("%d metadata records are left, want %d", got, tt.meta)
				}
			})
		}
	}
}

// TestCountOfExpiringHashes: DBSIZE counts a hash whose fields all expire until the last has.
func TestCountOfExpiringHashes(t *testing.T) {
	db := openQuiet(t)
	now := time.Now().UnixMilli()
	putExpiring(t, db, "certain", []int64{0, now - 1})
	putExpiring(t, db, "live", []int64{now - 1, now + 3600_000})
	putExpiring(t, db, "gone", []int64{now - 10_000, now - 5000})
	if n, _ := db.Count(ns); n != 2 {
		t.Errorf("%d keys, want 2", n)
	}
	putExpiring(t, db, "live", []int64{now - 10_000})
	if n, _ := db.Count(ns); n != 1 {
		t.Errorf("%d keys after one has lost its last field, want 1", n)
	}
	putExpiring(t, db, "live", []int64{0})
	putExpiring(t, db, "certain", []int64{now - 10_000})
	if n, _ := db.Count(ns); n != 1 {
		t.Errorf("%d keys after the two changed places, want 1", n)
	}
	update(t, db, "live", func(tx *engine.Tx, rec *engine.Record) { tx.Drop(rec) })
	if n, _ := db.Count(ns); n != 0 {
		t.Errorf("%d keys at the end", n)
	}
}
