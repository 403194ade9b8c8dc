package engine_test

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/enginetest"
	"github.com/basaltdb/basalt/engine/keycount"
	enginekeys "github.com/basaltdb/basalt/engine/keys"
	"github.com/basaltdb/basalt/internal/require"
)

// wantCount checks what DBSIZE would say of a namespace.
func wantCount(t testing.TB, db *engine.DB, ns string, keys, expires int) {
	t.Helper()
	if k, e := db.Count(ns); int(k) != keys || int(e) != expires {
		t.Errorf("namespace %q: %d keys, %d with an expiry, want %d and %d", ns, k, e, keys, expires)
	}
}

// scanCount counts the live keys of a namespace record by record.
func scanCount(t testing.TB, db *engine.DB, ns string) (keys, expires int) {
	t.Helper()
	tx := db.NewTx()
	tx.Begin(ns)
	defer tx.Release()
	it := tx.Iter(cf.Metadata, engine.IterOptions{Prefix: cf.AppendNSPrefix(nil, ns)})
	defer it.Close()
	for it.Next() {
		m, _, err := cf.DecodeMeta(it.Value())
		require.NoError(t, err)
		if m.Live(time.Now().UnixMilli()) {
			keys++
			if m.End() != 0 {
				expires++
			}
		}
	}
	if it.Err() != nil {
		t.Fatal(it.Err())
	}
	return keys, expires
}

// step is one change of the key "k" in a table of changes; want is the count after it.
type step struct {
	name          string
	do            func(tx *engine.Tx, rec *engine.Record)
	keys, expires int
}

func TestCountFollowsEveryWrite(t *testing.T) {
	hour := uint64(time.Now().Add(time.Hour).UnixMilli())
	year := uint64(time.Now().Add(365 * 24 * time.Hour).UnixMilli())
	past := uint64(time.Now().Add(-time.Hour).UnixMilli())
	str := func(expire uint64) func(tx *engine.Tx, rec *engine.Record) {
		return func(tx *engine.Tx, _ *engine.Record) {
			s := tx.Fresh([]byte("k"), cf.TypeString)
			s.Expire = expire
			tx.SaveAppend(&s, []byte("v"))
		}
	}
	hash := func(size, expire uint64) func(tx *engine.Tx, rec *engine.Record) {
		return func(tx *engine.Tx, _ *engine.Record) {
			h := tx.Fresh([]byte("k"), cf.TypeHash)
			h.Size, h.Expire = size, expire
			tx.Save(&h, nil)
		}
	}
	expire := func(at uint64) func(tx *engine.Tx, rec *engine.Record) {
		return func(tx *engine.Tx, rec *engine.Record) { rec.Expire = at; tx.SaveAppend(rec, rec.Tail) }
	}
	drop := func(tx *engine.Tx, rec *engine.Record) { tx.Drop(rec) }
	steps := []step{
		{"delete what is not there", drop, 0, 0},
		{"a string", str(0), 1, 0},
		{"overwritten", str(0), 1, 0},
		{"overwritten with an expiry in the seconds' window", str(hour), 1, 1},
		{"another expiry, in the minutes' window", expire(year), 1, 1},
		{"and back", expire(hour), 1, 1},
		{"persisted", expire(0), 1, 0},
		{"expiry", expire(year), 1, 1},
		{"overwritten by a hash without", hash(2, 0), 1, 0},
		{"emptied", hash(0, 0), 0, 0},
		{"an emptied one deleted", drop, 0, 0},
		{"filled", hash(1, hour), 1, 1},
		{"emptied with an expiry", hash(0, hour), 0, 0},
		{"filled again", hash(1, hour), 1, 1},
		{"an expiry that has passed", expire(past), 0, 0},
		{"an expired one overwritten", str(0), 1, 0},
		{"deleted", drop, 0, 0},
		{"written with a past expiry", str(past), 0, 0},
		{"deleted after it expired", drop, 0, 0},
		{"written and deleted in one transaction", func(tx *engine.Tx, rec *engine.Record) {
			str(0)(tx, rec)
			r, _ := tx.LoadAny([]byte("k"))
			tx.Drop(&r)
		}, 0, 0},
		{"several saves in one transaction", func(tx *engine.Tx, rec *engine.Record) {
			hash(1, 0)(tx, rec)
			hash(0, 0)(tx, rec)
			str(year)(tx, rec)
			hash(3, hour)(tx, rec)
		}, 1, 1},
		{"rolled back to a savepoint", func(tx *engine.Tx, rec *engine.Record) {
			m := tx.Savepoint()
			tx.Drop(rec)
			other := tx.Fresh([]byte("other"), cf.TypeString)
			tx.SaveAppend(&other, nil)
			if err := tx.Rollback(m); err != nil {
				t.Error(err)
			}
		}, 1, 1},
		{"an empty stream is a key", func(tx *engine.Tx, _ *engine.Record) {
			s := tx.Fresh([]byte("k"), cf.TypeStream)
			tx.Save(&s, nil)
		}, 1, 0},
	}
	db := enginetest.Open(t)
	for _, s := range steps {
		update(t, db, "k", s.do)
		if k, e := db.Count(ns); int(k) != s.keys || int(e) != s.expires {
			t.Fatalf("%s: %d keys, %d with an expiry, want %d, %d", s.name, k, e, s.keys, s.expires)
		}
	}
	no := errors.New("no")
	for name, f := range map[string]func() error{
		"an error of the command": func() error {
			return db.Update(ns, keys("k"), func(tx *engine.Tx) error {
				rec, err := tx.LoadAny([]byte("k"))
				tx.Drop(&rec)
				return cmp.Or(err, no)
			})
		},
		"an error of the commit": func() error {
			db.InjectWriteError(no)
			defer db.InjectWriteError(nil)
			return db.Update(ns, keys("k"), func(tx *engine.Tx) error {
				rec, err := tx.LoadAny([]byte("k"))
				tx.Drop(&rec)
				return err
			})
		},
	} {
		if err := f(); !errors.Is(err, no) {
			t.Errorf("%s: %v", name, err)
		}
		wantCount(t, db, ns, 1, 0)
	}
}

// TestCountForgetsTheExpired: keys stop to count when their time comes, to the millisecond in the last minute,
// although nothing is written or compacted; also when the expiry was read at the start.
func TestCountForgetsTheExpired(t *testing.T) {
	for life := 250 * time.Millisecond; !forgetsTheExpired(t, life); life *= 2 {
		if t.Failed() {
			return
		}
		t.Logf("the machine is too slow to see keys of %v alive", life)
	}
}

// forgetsTheExpired is the test with keys that live so long. It reports whether they were seen before they expired.
func forgetsTheExpired(t *testing.T, life time.Duration) bool {
	dir := t.TempDir() + "/db"
	db := enginetest.OpenPlain(t, engine.Options{Dir: dir})
	setString(t, db, "stays", 0)
	setString(t, db, "an hour", uint64(time.Now().Add(time.Hour).UnixMilli()))
	soon := time.Now().Add(life)
	for i := range 10 {
		setString(t, db, fmt.Sprint("soon", i), uint64(soon.UnixMilli()))
	}
	k, e := db.Count(ns)
	inTime := time.Now().Before(soon)
	if inTime && (k != 12 || e != 11) {
		t.Errorf("%d keys, %d with an expiry, want 12 and 11", k, e)
	}
	require.NoError(t, db.Close())
	db = enginetest.OpenWith(t, engine.Options{Dir: dir})
	later := time.Now().Add(life)
	setString(t, db, "later", uint64(later.UnixMilli()))
	for range 3 { // again and again: a look must not change the count
		k, _ := db.Count(ns)
		if !time.Now().Before(soon) {
			inTime = false
		} else if k != 13 {
			t.Errorf("%d keys before the expiry, want 13", k)
		}
	}
	time.Sleep(time.Until(soon.Add(2 * time.Millisecond))) // the event awaited is the clock
	if k, _ := db.Count(ns); !time.Now().Before(later) {
		inTime = false
	} else if k != 3 {
		t.Errorf("%d keys after the first expiry, want 3", k)
	}
	time.Sleep(time.Until(later.Add(2 * time.Millisecond)))
	wantCount(t, db, ns, 2, 1)
	setString(t, db, "soon1", 0) // an expired record is overwritten
	wantCount(t, db, ns, 3, 1)
	compact(t, db)
	wantCount(t, db, ns, 3, 1)
	return inTime
}

// TestCountOverwritesTheExpired: a key that had expired shortly before the start, and so was never counted, is not
// taken off the count when it is written again.
func TestCountOverwritesTheExpired(t *testing.T) {
	dir := t.TempDir() + "/db"
	db := enginetest.OpenPlain(t, engine.Options{Dir: dir})
	setString(t, db, "an hour", uint64(time.Now().Add(time.Hour).UnixMilli()))
	// Counters go by the second: the expiry, the start and the write are to be in one.
	expiry := time.Now().Truncate(time.Second).Add(time.Second)
	setString(t, db, "key", uint64(expiry.UnixMilli()))
	setString(t, db, "other", uint64(expiry.UnixMilli()))
	time.Sleep(time.Until(expiry.Add(2 * time.Millisecond))) // the event awaited is the clock
	require.NoError(t, db.Close())
	db = enginetest.OpenWith(t, engine.Options{Dir: dir})
	wantCount(t, db, ns, 1, 1)
	setString(t, db, "key", 0)
	wantCount(t, db, ns, 2, 1)
}

// TestCountInTransactionOverTheExpired: the count inside of a transaction is that after its commit, also when the
// transaction replaces a key that has expired, and when one of its own keys has.
func TestCountInTransactionOverTheExpired(t *testing.T) {
	db := enginetest.Open(t)
	past := uint64(time.Now().Add(-time.Second).UnixMilli())
	setString(t, db, "other", 0)
	setString(t, db, "key", past)
	wantCount(t, db, ns, 1, 0)
	require.NoError(t, db.Update(ns, keys("key", "short"), func(tx *engine.Tx) error {
		for _, k := range []struct {
			name   string
			expire uint64
		}{{"key", 0}, {"short", past}} {
			s := tx.Fresh([]byte(k.name), cf.TypeString)
			s.Expire = k.expire
			tx.SaveAppend(&s, []byte("v"))
			if n, expires := tx.CountKeys(); n != 2 || expires != 0 {
				t.Errorf("after %s: %d keys in the transaction, %d with an expiry; want 2 and 0", k.name, n, expires)
			}
		}
		return nil
	}))
	wantCount(t, db, ns, 2, 0)
}

// TestCountOfRenames: a count beside a transaction that moves keys is never that of a half of it.
func TestCountOfRenames(t *testing.T) {
	db := enginetest.Open(t)
	const n = 2000
	var all [][]byte
	for i := range 2 * n {
		all = append(all, fmt.Appendf(nil, "key%d", i))
	}
	for _, k := range all[:n] {
		setString(t, db, string(k), 0)
	}
	done := make(chan error)
	go func() {
		from, to := all[:n], all[n:]
		for range 20 {
			if err := db.Update(ns, all, func(tx *engine.Tx) error {
				for i := range from {
					if ok, err := enginekeys.Rename(tx, from[i], to[i], false); !ok || err != nil {
						return fmt.Errorf("%v %w", ok, err)
					}
				}
				return nil
			}); err != nil {
				done <- err
			}
			from, to = to, from
		}
		close(done)
	}()
	for {
		select {
		case err := <-done:
			if err != nil {
				t.Error(err)
			}
			return
		default:
		}
		if keys, _ := db.Count(ns); keys != n {
			t.Fatalf("%d keys, want %d", keys, n)
		}
	}
}

func setString(t testing.TB, db *engine.DB, key string, expire uint64) {
	t.Helper()
	require.NoError(t, db.Update(ns, keys(key), func(tx *engine.Tx) error {
		s := tx.Fresh([]byte(key), cf.TypeString)
		s.Expire = expire
		tx.SaveAppend(&s, []byte("v"))
		return nil
	}))
}

// TestCountConcurrently has writers of all kinds in three namespaces, two of which share a prefix, with flushes
// in between. When they are done the count is that of a scan; after a restart, too.
func TestCountConcurrently(t *testing.T) {
	dir := t.TempDir() + "/db"
	db := enginetest.OpenPlain(t, engine.Options{Dir: dir})
	namespaces := []string{ns, "n", "n1"}
	var wg sync.WaitGroup
	for w := range 12 {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(w), 1))
			for i := range 600 {
				n := namespaces[rng.IntN(len(namespaces))]
				if i%200 == 100 && w < 3 {
					var err error
					if w == 0 {
						err = db.FlushAll()
					} else {
						err = db.FlushNamespace(n)
					}
					if err != nil {
						t.Error(err)
					}
					continue
				}
				a, b := fmt.Sprint("k", rng.IntN(60)), fmt.Sprint("k", rng.IntN(60))
				if err := db.Update(n, keys(a, b), func(tx *engine.Tx) error {
					for _, k := range []string{a, b} {
						if err := randomWrite(tx, k, rng); err != nil {
							return err
						}
					}
					return nil
				}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	total := 0
	check := func(when string) {
		for _, n := range namespaces {
			wantKeys, wantExpires := scanCount(t, db, n)
			k, e := db.Count(n)
			for { // a key may have expired between the scan and the count
				again, expires := scanCount(t, db, n)
				if again == wantKeys && expires == wantExpires {
					break
				}
				wantKeys, wantExpires = again, expires
				k, e = db.Count(n)
			}
			if int(k) != wantKeys || int(e) != wantExpires {
				t.Errorf("%s: namespace %q: %d keys, %d with an expiry, a scan finds %d, %d", when, n, k, e, wantKeys, wantExpires)
			}
			total += wantKeys
		}
	}
	check("after the writers")
	if total == 0 {
		t.Error("no keys are left to count")
	}
	if got := db.Namespaces(); !slices.Contains(got, "n1") {
		t.Errorf("namespaces %q", got)
	}
	require.NoError(t, db.Close())
	db = enginetest.OpenWith(t, engine.Options{Dir: dir})
	check("after a restart")
	wantCount(t, db, "nobody", 0, 0)
	require.NoError(t, db.FlushNamespace("n"))
	check("after a flush of n")
	wantCount(t, db, "n", 0, 0)
	if k, _ := db.Count("n1"); k == 0 {
		t.Error("the flush of n took the keys of n1")
	}
}

// randomWrite writes, expires or deletes a key, in several steps at times.
func randomWrite(tx *engine.Tx, key string, rng *rand.Rand) error {
	for range 1 + rng.IntN(3) {
		rec, err := tx.LoadAny([]byte(key))
		if err != nil {
			return err
		}
		// Expiries are at least half a minute ahead: none passes while the test counts.
		expire := uint64(tx.Now() + []int64{0, 30_000, 120_000, 90 * 24 * 3600_000}[rng.IntN(4)])
		switch rng.IntN(6) {
		case 0:
			if rec.Exists {
				tx.Drop(&rec)
			}
		case 1:
			if rec.Exists {
				rec.Expire = expire
				tx.SaveAppend(&rec, rec.Tail)
			}
		case 2:
			if rec.Exists {
				rec.Expire = 0
				tx.SaveAppend(&rec, rec.Tail)
			}
		case 3:
			h := tx.Fresh([]byte(key), cf.TypeHash)
			h.Size = uint64(rng.IntN(2))
			tx.Save(&h, nil)
		default:
			s := tx.Fresh([]byte(key), cf.TypeString)
			tx.SaveAppend(&s, []byte("v"))
		}
	}
	return nil
}

// TestCountWhileFilesChange: the count of a database that fits the block cache stays exact when blind writers meet a
// change of its files at the same time.
func TestCountWhileFilesChange(t *testing.T) {
	db := enginetest.Open(t)
	const writers, rounds = 4, 1000
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for i := range rounds {
				key := fmt.Sprintf("k%d-%d", w, i)
				db.FilesChanged()
				if err := db.Update(ns, keys(key), func(tx *engine.Tx) error {
					s := tx.Fresh([]byte(key), cf.TypeString)
					tx.SaveAppend(&s, nil)
					return nil
				}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if k := db.KeyCount(ns); !k.Exact || k.Keys != writers*rounds {
		t.Errorf("%d keys, exact %v, want %d", k.Keys, k.Exact, writers*rounds)
	}
}

// TestCountOfOldRecords counts what another server has written: records in the 32-bit form, emptied
// collections, a record that cannot be read.
func TestCountOfOldRecords(t *testing.T) {
	dir := t.TempDir() + "/db"
	db := enginetest.OpenPlain(t, engine.Options{Dir: dir})
	hour := uint64(time.Now().Add(time.Hour).Unix()) * 1000
	require.NoError(t, db.Update(ns, nil, func(tx *engine.Tx) error {
		for i, m := range []cf.Meta{
			{Type: cf.TypeString, Narrow: true}, {Type: cf.TypeString, Narrow: true,
				Expire: hour}, {Type: cf.TypeString, Narrow: true, Expire: 1000},
			{Type: cf.TypeSet, Narrow: true, Size: 3, Version: 1}, {Type: cf.TypeSet, Narrow: true,
				Version: 1}, {Type: cf.TypeSet, Size: 1, Version: 1, Expire: hour},
		} {
			tx.Put(cf.Metadata, tx.NSKey(fmt.Append(nil, "k", i)), m.Append(nil))
		}
		tx.Put(cf.Metadata, tx.NSKey([]byte("short")), []byte{0x80})
		return nil
	}))
	require.NoError(t, db.Close())
	if err := keycount.Remove(dir); err != nil { // the other server does not write it
		t.Fatal(err)
	}
	db = enginetest.OpenWith(t, engine.Options{Dir: dir})
	wantCount(t, db, ns, 4, 2)
	setString(t, db, "k4", 0)    // an emptied set
	setString(t, db, "k2", 0)    // an expired string
	setString(t, db, "short", 0) // an unreadable record
	wantCount(t, db, ns, 7, 2)
}
