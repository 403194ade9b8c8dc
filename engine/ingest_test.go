package engine_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/batch"
	"github.com/basaltdb/basalt/engine/enginetest"
	"github.com/basaltdb/basalt/internal/ingeststep"
	"github.com/basaltdb/basalt/internal/require"
)

// slotRecords are batches with the records of n strings and a hash and a sorted set each, of a range of slots, as they
// are in another database.
func slotRecords(t testing.TB, r cf.SlotRange, n int) (batches [][]byte) {
	t.Helper()
	other := enginetest.OpenWith(t, engine.Options{Dir: t.TempDir() + "/db", Slots: true})
	enginetest.Update(t, other, nil, func(tx *engine.Tx) error {
		for i := range n {
			for _, typ := range []cf.Type{cf.TypeString, cf.TypeHash, cf.TypeZSet} {
				rec, err := tx.LoadHead(fmt.Appendf(nil, "%s%d", typ, i))
				if err != nil {
					return err
				}
				if i%2 == 0 {
					rec.Expire = uint64(tx.Now()) + 1e6
				}
				if rec.Type = typ; typ == cf.TypeString {
					tx.Save(&rec, []byte("value"))
					continue
				}
				rec.Size, rec.Version = 1, uint64(i+1)
				tx.Save(&rec, nil)
				tx.Put(cf.Default, append(tx.SubkeyPrefix(&rec), 'f'), []byte("12345678"))
				if typ == cf.TypeZSet {
					tx.Put(cf.ZSetScore, append(tx.SubkeyPrefix(&rec), "12345678f"...), nil)
				}
			}
		}
		return nil
	})
	lower, upper := engine.SlotBounds(r)
	var b batch.Builder
	enginetest.View(t, other, nil, func(tx *engine.Tx) error {
		for _, id := range []cf.ID{cf.Metadata, cf.Default, cf.ZSetScore} {
			it := tx.Iter(id, engine.IterOptions{Lower: lower, Upper: upper})
			for it.Next() {
				if b.Put(id, it.Key(), it.Value()); b.Count() == 100 {
					batches = append(batches, slices.Clone(b.Bytes()))
					b.Reset()
				}
			}
			it.Close()
		}
		return nil
	})
	return append(batches, slices.Clone(b.Bytes()))
}

// ingest brings batches into a database.
func ingest(t testing.TB, db *engine.DB, r cf.SlotRange, batches [][]byte) error {
	t.Helper()
	dir := filepath.Dir(db.Dir()) + "/ingest"
	g, err := db.NewIngest(dir, r)
	require.NoError(t, err)
	defer func() {
		if err := g.Close(); err != nil {
			t.Error(err)
		}
		if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
			t.Error("files stay:", err)
		}
	}()
	for _, b := range batches {
		if err := g.Add(b); err != nil {
			return err
		}
	}
	return g.Commit()
}

var ingestRange = cf.SlotRange{First: 5, Last: 12000}

// slotCount returns the number of records of slots.
func slotCount(t testing.TB, db *engine.DB, r cf.SlotRange) (n uint64) {
	t.Helper()
	lower, upper := engine.SlotBounds(r)
	enginetest.View(t, db, nil, func(tx *engine.Tx) error {
		for _, id := range []cf.ID{cf.Metadata, cf.Default, cf.ZSetScore, cf.Stream} {
			some, err := tx.Count(id, lower, upper)
			if err != nil {
				return err
			}
			n += some
		}
		return nil
	})
	return n
}

// setAway writes n strings of a slot outside the range, each by a write of its own.
func setAway(t testing.TB, db *engine.DB, n int) {
	t.Helper()
	for i := range n {
		key := fmt.Appendf(nil, "{a}%d", i) // slot 15495
		enginetest.Update(t, db, [][]byte{key}, func(tx *engine.Tx) error {
			rec, err := tx.LoadHead(key)
			rec.Type = cf.TypeString
			tx.Save(&rec, []byte("stays"))
			return err
		})
	}
}

// TestIngest: what was ingested is there for everybody, whatever was in memory of the keys before, beside the keys of
// other slots, and over the tombstones of an earlier try.
func TestIngest(t *testing.T) {
	live := engine.LiveObjects()
	t.Run("", func(t *testing.T) {
		db := openSlots(t)
		outside := cf.SlotRange{First: 12001, Last: cf.NumSlots - 1}
		key := []byte("string0")
		for i := 0; !ingestRange.Contains(cf.Slot(key)); i++ {
			key = fmt.Appendf(nil, "string%d", i)
		}
		setAway(t, db, 1)
		watch := db.NewWatch()
		defer watch.Close()
		enginetest.View(t, db, [][]byte{key}, func(tx *engine.Tx) error { return tx.Watch(watch, key) })
		batches := slotRecords(t, ingestRange, 300)
		for try := range 3 {
			require.NoError(t, db.DeleteSlots(ingestRange))
			for range 3 { // that it is not there gets into the caches
				if _, err := get(db, string(key)); err != nil {
					t.Fatal(err)
				}
			}
			before, _ := db.Count(cf.DefaultNamespace)
			if before != 1 {
				t.Errorf("%d keys before", before)
			}
			seq := db.LatestSequence()
			require.NoError(t, ingest(t, db, ingestRange, batches))
			if db.LatestSequence() != seq+1 {
				t.Errorf("sequence %d after %d", db.LatestSequence(), seq)
			}
			mustGet(t, db, string(key), "value")
			mustGet(t, db, "{a}0", "stays")
			if !watch.Dirty() {
				t.Error("a watch has not noticed")
			}
			n := uint64(0)
			for _, b := range batches {
				r, err := batch.NewReader(b)
				require.NoError(t, err)
				n += uint64(r.Count())
			}
			if got := slotCount(t, db, ingestRange); got != n {
				t.Errorf("try %d: %d records, want %d", try, got, n)
			}
			if got := slotCount(t, db, outside); got != 1 {
				t.Errorf("%d records of other slots", got)
			}
			keys, expires := db.Count(cf.DefaultNamespace)
			require.NoError(t, db.ScanKeys(cf.DefaultNamespace))
			db.WaitScans() // before the count is compared, and before the other database looks for open native objects
			if k, e := db.Count(cf.DefaultNamespace); k != keys || e != expires || keys < 300 || expires < 100 {
				t.Errorf("%d keys are counted, %d with an expiry; there are %d and %d", keys, expires, k, e)
			}
		}
	})
	if n := engine.LiveObjects(); n != live {
		t.Errorf("%d native objects stay", n-live)
	}
}

// TestIngestAfterReplace: what was collected for one database does not come into the next one.
func TestIngestAfterReplace(t *testing.T) {
	dir := t.TempDir()
	db := enginetest.OpenWith(t, engine.Options{Dir: dir + "/db", Slots: true})
	r := cf.SlotRange{First: 0, Last: cf.NumSlots - 1}
	g, err := db.NewIngest(dir+"/files", r)
	require.NoError(t, err)
	defer g.Close()
	other := enginetest.OpenPlain(t, engine.Options{Dir: dir + "/other", Slots: true})
	setStrings(t, other, "new", 2)
	require.NoError(t, other.Close())
	require.NoError(t, db.Replace(dir+"/other", nil))
	for _, rep := range slotRecords(t, r, 10) {
		require.NoError(t, g.Add(rep))
	}
	if err := g.Commit(); !errors.Is(err, engine.ErrIngestFlushed) {
		t.Errorf("the records come into the next database: %v", err)
	}
	wantCount(t, db, ns, 2, 0)
}

// TestIngestRefuses: nothing is ingested that does not belong into the range, or twice, or after a FLUSHALL.
func TestIngestRefuses(t *testing.T) {
	db := openSlots(t)
	batches := slotRecords(t, ingestRange, 50)
	make := func(f func(b *batch.Builder)) [][]byte {
		var b batch.Builder
		f(&b)
		return [][]byte{b.Bytes()}
	}
	m := cf.Meta{Type: cf.TypeString}
	str := m.Append(nil)
	for _, tt := range []struct {
		name    string
		batches [][]byte
		want    string
	}{
		{"nonsense", [][]byte{[]byte("nonsense")}, "invalid write batch"},
		{"a deletion", make(func(b *batch.Builder) { b.Delete(cf.Metadata, []byte("k")) }), "not accepted"},
		{"another slot", make(func(b *batch.Builder) {
			b.Put(cf.Metadata, cf.AppendNSKey(nil, cf.DefaultNamespace, []byte("a"), true), str)
		}), "not where it belongs"},
		{"a wrong slot", make(func(b *batch.Builder) {
			b.Put(cf.Metadata, append(engine.AppendSlotPrefix(nil, 7), 'a'), str)
		}), "not where it belongs"},
		{"another namespace", make(func(b *batch.Builder) {
			b.Put(cf.Metadata, cf.AppendNSKey(nil, "other", []byte("foo"), true), str)
		}), "not where it belongs"},
		{"another family", make(func(b *batch.Builder) { b.Put(cf.Propagate, []byte("k"), nil) }), "holds no keys of slots"},
		{"no metadata", make(func(b *batch.Builder) { b.Put(cf.Metadata, []byte("k"), nil) }), "corrupt"},
		{"twice", [][]byte{batches[0], batches[0]}, "twice"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			err := ingest(t, db, ingestRange, tt.batches)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v, want %q", err, tt.want)
			}
		})
	}
	setAway(t, db, 1) // a FLUSHALL of an empty database does nothing
	g, err := db.NewIngest(t.TempDir()+"/ingest", ingestRange)
	require.NoError(t, err)
	defer g.Close()
	for _, b := range batches {
		require.NoError(t, g.Add(b))
	}
	require.NoError(t, db.FlushAll())
	if err := g.Commit(); !errors.Is(err, engine.ErrIngestFlushed) {
		t.Errorf("after a FLUSHALL: %v", err)
	}
	if n := slotCount(t, db, ingestRange); n != 0 {
		t.Errorf("%d records were ingested", n)
	}
}

// TestIngestInLog: whoever reads the log cannot go past an ingestion unnoticed.
func TestIngestInLog(t *testing.T) {
	db := openSlots(t)
	setAway(t, db, 3)
	seq := db.LatestSequence()
	behind, follows := db.Log(1), db.Log(seq+1)
	defer behind.Close()
	defer follows.Close()
	require.NoError(t, ingest(t, db, ingestRange, slotRecords(t, ingestRange, 50)))
	for _, written := range []bool{false, true} {
		if written {
			setAway(t, db, 1)
		}
		if u, err := db.UpdatesAfter(seq, engine.UpdatesLimit{Batches: 10, Bytes: 1 << 20, Strict: true}); err == nil {
			t.Errorf("written %v: %d batches come after %d", written, len(u.Batches), seq)
		}
		if u, err := db.UpdatesAfter(0, engine.UpdatesLimit{Batches: 10, Bytes: 1 << 20}); err != nil || u.Last != seq {
			t.Errorf("written %v: the batches from the beginning go up to %d, %v", written, u.Last, err)
		}
		for name, log := range map[string]*engine.Log{"behind": behind, "follows": follows} {
			for {
				rep, _, err := log.Next()
				if rep == nil || err != nil {
					break
				}
			}
			if log.Sequence() != seq+1 {
				t.Errorf("written %v: a reader that is %s has come to %d", written, name, log.Sequence())
			}
		}
	}
	if u, err := db.UpdatesAfter(seq+1, engine.UpdatesLimit{Batches: 10, Bytes: 1 << 20, Strict: true}); err != nil ||
		len(u.Batches) == 0 {
		t.Errorf("the writes after it cannot be read: %v", err)
	}
}

// TestIngestKilled copies the database at each step, as kill -9 leaves it: the copy opens, with all that was ingested
// or nothing of it, and with all other writes.
func TestIngestKilled(t *testing.T) {
	batches := slotRecords(t, ingestRange, 50)
	const later = ingeststep.Step("later")
	for _, step := range []ingeststep.Step{ingeststep.Locked, ingeststep.Flushed, ingeststep.Moved, later} {
		t.Run(string(step), func(t *testing.T) {
			ro := engine.DefaultRocksOptions()
			ro.DisableAutoCompactions = true // the files are copied while the database is open
			db := enginetest.OpenWith(t, engine.Options{Dir: t.TempDir() + "/db", Slots: true, Rocks: ro})
			setAway(t, db, 20)
			kill := t.TempDir() + "/db"
			armed := false
			defer func(old func(ingeststep.Step)) { ingeststep.Reached = old }(ingeststep.Reached)
			ingeststep.Reached = func(s ingeststep.Step) {
				if s == step && armed {
					copyOpen(t, db.Dir(), kill)
				}
			}
			// Tombstones are in the memtable, and all writes in one log.
			require.NoError(t, ingest(t, db, ingestRange, batches))
			require.NoError(t, db.DeleteSlots(ingestRange))
			enginetest.Update(t, db, nil, func(tx *engine.Tx) error {
				tx.Put(cf.Propagate, []byte("k"), []byte("in the old log only"))
				return nil
			})
			seq := db.LatestSequence()
			armed = true
			require.NoError(t, ingest(t, db, ingestRange, batches))
			if step == later {
				setAway(t, db, 20)
				require.NoError(t, db.FlushMemtable(cf.Metadata))
				setAway(t, db, 20)
				copyOpen(t, db.Dir(), kill)
			}
			n, came := slotCount(t, db, ingestRange), step == ingeststep.Moved || step == later
			for try := range 2 {
				again := enginetest.OpenPlain(t, engine.Options{Dir: kill, Slots: true})
				want := uint64(0)
				if came {
					want = n
				}
				if got := slotCount(t, again, ingestRange); got != want {
					t.Errorf("%d records, want %d", got, want)
				}
				if again.LatestSequence() < seq {
					t.Errorf("sequence %d, was %d", again.LatestSequence(), seq)
				}
				if try == 0 { // the same once more
					setAway(t, again, 3)
					_, err := again.UpdatesAfter(seq, engine.UpdatesLimit{Batches: 10, Bytes: 1 << 20, Strict: true})
					if gap := err != nil; gap != came {
						t.Errorf("the log after %d: %v", seq, err)
					}
				}
				if err := again.Close(); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// copyOpen copies a database that is open. RocksDB may delete a file meanwhile that it does not need any more; then the
// copy begins anew. It may be called within an ingestion, which a Fatal would leave unfinished.
func copyOpen(t testing.TB, from, to string) {
	t.Helper()
	err := os.CopyFS(to, os.DirFS(from))
	for tries := 0; errors.Is(err, fs.ErrNotExist) && tries < 100; tries++ {
		if err = os.RemoveAll(to); err == nil {
			err = os.CopyFS(to, os.DirFS(from))
		}
	}
	if err != nil {
		t.Error(err)
	}
}
