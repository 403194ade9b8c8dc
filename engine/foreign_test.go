package engine_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/batch"
	"github.com/basaltdb/basalt/engine/enginetest"
	"github.com/basaltdb/basalt/internal/require"
)

// apply commits a batch of another server.
func apply(db *engine.DB, rep []byte) error {
	b, err := db.CheckBatch(rep)
	if err != nil {
		return err
	}
	tx := db.NewTx()
	tx.Begin(ns)
	defer tx.Release()
	if err := tx.AcquireFor(b); err != nil {
		return err
	}
	if err := tx.Apply(b); err != nil {
		return err
	}
	if got := tx.Namespace(); got != ns {
		return fmt.Errorf("the transaction is left in namespace %q", got)
	}
	return tx.Commit()
}

func mustApply(t testing.TB, db *engine.DB, build func(b *batch.Builder)) {
	t.Helper()
	var b batch.Builder
	build(&b)
	require.NoError(t, apply(db, b.Bytes()))
}

// nsKey is the metadata key of a user key.
func nsKey(ns, key string) []byte { return cf.AppendNSKey(nil, ns, []byte(key), false) }

// stringRecord is the metadata record of a string.
func stringRecord(value string, expire uint64) []byte {
	m := cf.Meta{Type: cf.TypeString, Expire: expire}
	return append(m.Append(nil), value...)
}

// subkey is the key of an element of a collection.
func subkey(key string, version uint64, sub string) []byte {
	return append(cf.AppendSubkeyPrefix(nil, nsKey(ns, key), false, version), sub...)
}

// TestCheckBatchRefuses: what RocksDB would choke on, or what would be a record that nobody can read, is told before
// anything is written.
func TestCheckBatchRefuses(t *testing.T) {
	build := func(f func(b *batch.Builder)) []byte {
		var b batch.Builder
		f(&b)
		return b.Bytes()
	}
	key := nsKey(ns, "k")
	good := build(func(b *batch.Builder) { b.Put(cf.Metadata, key, stringRecord("v", 0)) })
	count := func(rep []byte, n uint32) []byte {
		rep = bytes.Clone(rep)
		binary.LittleEndian.PutUint32(rep[8:], n)
		return rep
	}
	raw := func(records string) []byte { return count(append(make([]byte, batch.HeaderLen), records...), 1) }
	tests := []struct {
		name string
		rep  []byte
		want string // "" = it is sound
	}{
		{"sound", good, ""},
		{"empty", make([]byte, batch.HeaderLen), ""},
		{"log data only", build(func(b *batch.Builder) { b.LogData([]byte("1")) }), ""},
		{"noop", append(bytes.Clone(good), 0x0d), ""},
		{"nothing", nil, "shorter than its header"},
		{"no whole header", good[:11], "shorter than its header"},
		{"cut off", good[:len(good)-1], "runs over the end"},
		{"too few records", count(good, 2), "1 instead of 2"},
		{"too many records", count(good, 0), "1 instead of 0"},
		{"unknown tag", raw("\x7f"), "unknown record tag"},
		{"merge", raw("\x02\x01k\x01v"), "merge at byte 12: a record of this kind is not accepted"},
		{"blob index", raw("\x11\x01k\x01v"), "blob index at byte 12"},
		{"wide columns", raw("\x16\x01k\x01v"), "wide columns at byte 12"},
		{"two-phase commit", raw("\x09" + string(good[batch.HeaderLen:]) + "\x0a\x01t"), "begin prepare at byte 12"},
		{"unknown family", build(func(b *batch.Builder) { b.Put(cf.Index+1, key, nil) }),
			"put at byte 12: there is no column family 8"},
		{"delete in an unknown family", build(func(b *batch.Builder) { b.Delete(1<<31, key) }),
			"there is no column family 2147483648"},
		{"range of an unknown family", build(func(b *batch.Builder) { b.DeleteRange(9, key, key) }),
			"there is no column family 9"},
		{"range that ends before it begins", build(func(b *batch.Builder) {
			b.DeleteRange(cf.Metadata, []byte("b"),
				[]byte("a"))
		}), "comes before its beginning"},
		{"empty range", build(func(b *batch.Builder) { b.DeleteRange(cf.Metadata, key, key) }), ""},
		{"metadata key without its namespace", build(func(b *batch.Builder) {
			b.Put(cf.Metadata, []byte("\x09ns"),
				stringRecord("v", 0))
		}), "shorter than its namespace"},
		{"empty metadata key", build(func(b *batch.Builder) { b.Delete(cf.Metadata, nil) }), "empty metadata key"},
		{"short metadata record", build(func(b *batch.Builder) { b.Put(cf.Metadata, key, []byte{0x81, 0}) }),
			"metadata record of 2 bytes"},
		{"empty metadata record", build(func(b *batch.Builder) { b.Put(cf.Metadata, key, nil) }), "empty metadata record"},
		{"short subkey", build(func(b *batch.Builder) { b.Put(cf.Default, key, nil) }), "shorter than its"},
		{"subkey of a stream without a version", build(func(b *batch.Builder) {
			b.Delete(cf.Stream,
				subkey("k", 1, "")[:len(subkey("k", 1, ""))-1])
		}), "shorter than its user key"},
		{"score key without a score", build(func(b *batch.Builder) {
			b.Put(cf.ZSetScore, subkey("k", 1, "1234567"),
				nil)
		}), "without a score"},
		{"score key", build(func(b *batch.Builder) { b.Put(cf.ZSetScore, subkey("k", 1, "12345678"), nil) }), ""},
		{"namespaces that cannot be read", build(func(b *batch.Builder) {
			b.Put(cf.Propagate,
				[]byte(cf.PropagateNamespaces), []byte("{"))
		}), "namespaces: "},
		{"unknown type", build(func(b *batch.Builder) {
			b.Put(cf.Metadata, key,
				(&cf.Meta{Type: 15, Size: 1}).Append(nil))
		}), ""},
	}
	db := enginetest.Open(t)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := apply(db, tt.rep)
			switch {
			case tt.want == "" && err != nil:
				t.Errorf("refused: %v", err)
			case tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want) ||
				!strings.HasPrefix(err.Error(), "invalid write batch: ")):
				t.Errorf("%v, want %q", err, tt.want)
			}
		})
	}
	before := db.LatestSequence()
	setString(t, db, "still writable", 0)
	if db.LatestSequence() != before+1 {
		t.Error("the database writes no more")
	}
	db.SetMaxBatchBytes(int64(len(good) - 1))
	if err := apply(db, good); err != engine.ErrBatchSize {
		t.Errorf("beyond the length of a batch: %v", err)
	}
}

// TestCheckBatchBounds: a batch of very many records or range deletes would take memory or time without bound.
func TestCheckBatchBounds(t *testing.T) {
	db := enginetest.Open(t)
	var b batch.Builder
	for i := range 1<<22 + 1 {
		b.Delete(cf.PubSub, nil)
		if i == 0 {
			continue
		}
		if i == 1<<14 {
			ranges := bytes.Clone(b.Bytes())
			var all batch.Builder
			for range 1<<14 + 1 {
				all.DeleteRange(cf.Search, nil, nil)
			}
			ranges = append(ranges, all.Bytes()[batch.HeaderLen:]...)
			binary.LittleEndian.PutUint32(ranges[8:], uint32(b.Count()+all.Count()))
			if _, err := db.CheckBatch(ranges); err == nil || !strings.Contains(err.Error(), "too many range deletes") {
				t.Errorf("many range deletes: %v", err)
			}
		}
	}
	if _, err := db.CheckBatch(b.Bytes()); err == nil || !strings.Contains(err.Error(), "more than 4194304 records") {
		t.Errorf("many records: %v", err)
	}
}

// TestCheckBatchSlots: with slots in its keys, a database takes no keys without them.
func TestCheckBatchSlots(t *testing.T) {
	db := enginetest.OpenWith(t, engine.Options{Dir: t.TempDir() + "/db", Slots: true})
	for _, tt := range []struct {
		key  []byte
		want string
	}{
		{cf.AppendNSKey(nil, ns, []byte("key"), true), ""},
		{cf.AppendNSKey(nil, ns, []byte("key"), false), "is said to be of slot"},
		{cf.AppendNSPrefix(nil, ns), "shorter than its namespace"},
	} {
		var b batch.Builder
		b.Put(cf.Metadata, tt.key, stringRecord("v", 0))
		if err := apply(db, b.Bytes()); (err == nil) != (tt.want == "") || err != nil &&
			!strings.Contains(err.Error(), tt.want) {
			t.Errorf("%q: %v, want %q", tt.key, err, tt.want)
		}
	}
	wantCount(t, db, ns, 1, 0)
}

// content returns all records of a database but those of another family than cf knows.
func content(t testing.TB, db *engine.DB) map[string]string {
	t.Helper()
	all := map[string]string{}
	tx := db.NewTx()
	tx.Begin(ns)
	defer tx.Release()
	for id := range cf.NumFamilies {
		it := tx.Iter(id, engine.IterOptions{})
		for it.Next() {
			all[id.String()+" "+string(it.Key())] = string(it.Value())
		}
		it.Close()
		if it.Err() != nil {
			t.Fatal(it.Err())
		}
	}
	return all
}

// wantScanned compares the count of keys with that of a scan.
func wantScanned(t testing.TB, db *engine.DB, when string, namespaces ...string) {
	t.Helper()
	for _, n := range namespaces {
		wantKeys, wantExpires := scanCount(t, db, n)
		for {
			k, e := db.Count(n)
			again, expires := scanCount(t, db, n)
			if again == wantKeys && expires == wantExpires {
				if int(k) != again || int(e) != expires {
					t.Errorf("%s: namespace %q: %d keys, %d with an expiry, a scan finds %d, %d", when, n, k, e, again, expires)
				}
				break
			}
			wantKeys, wantExpires = again, expires // a key has expired meanwhile
		}
	}
}

// TestApplyFollowsAnotherServer makes random changes of one database and applies the batches of its log to another one,
// whose caches hold what was there before. Both hold the same records then, count the same keys, and reads find what is
// in RocksDB.
func TestApplyFollowsAnotherServer(t *testing.T) {
	for seed := range uint64(4) {
		rng := rand.New(rand.NewPCG(seed, 3))
		from, to := enginetest.Open(t), enginetest.Open(t)
		namespaces := []string{ns, "n", "n1"}
		for i := range 300 {
			n := namespaces[rng.IntN(len(namespaces))]
			a, b := fmt.Sprint("k", rng.IntN(30)), fmt.Sprint("k", rng.IntN(30))
			batches := enginetest.Batches(t, from, func() {
				var err error
				switch p := rng.IntN(100); {
				case p == 0:
					err = from.FlushAll()
				case p < 3:
					err = from.FlushNamespace(n)
				default:
					err = from.Update(n, keys(a, b), func(tx *engine.Tx) error {
						for _, k := range []string{a, b} {
							if err := randomWrite(tx, k, rng); err != nil {
								return err
							}
						}
						return nil
					})
				}
				require.NoError(t, err)
			})
			known(t, to, n, a, b)
			for _, rep := range batches {
				if err := apply(to, rep); err != nil {
					t.Fatalf("%q: %v", rep, err)
				}
			}
			known(t, to, n, a, b)
			if i%50 == 49 {
				wantScanned(t, to, fmt.Sprintf("seed %d, after %d", seed, i), namespaces...)
			}
			if f, g := from.LatestSequence(), to.LatestSequence(); f != g {
				t.Fatalf("the sequence numbers are %d and %d", f, g)
			}
		}
		want, got := content(t, from), content(t, to)
		if len(want) != len(got) {
			t.Errorf("seed %d: %d records, want %d", seed, len(got), len(want))
		}
		for k, v := range want {
			if got[k] != v {
				t.Errorf("seed %d: %q is %q, want %q", seed, k, got[k], v)
			}
		}
	}
}

// known reads keys so that they get into the caches, and checks that those agree with an iterator.
func known(t *testing.T, db *engine.DB, ns string, userKeys ...string) {
	t.Helper()
	require.NoError(t, db.View(ns, keys(userKeys...), func(tx *engine.Tx) error {
		for _, k := range userKeys {
			key := nsKey(ns, k)
			value, found, err := tx.Get(cf.Metadata, key)
			if err != nil {
				return err
			}
			it := tx.Iter(cf.Metadata, engine.IterOptions{Lower: key, Upper: append(bytes.Clone(key), 0)})
			there := it.Next()
			if there != found || there && !bytes.Equal(it.Value(), value) {
				t.Errorf("%q in %q: a read finds %q, an iterator %q", k, ns, value, it.Value())
			}
			it.Close()
		}
		return nil
	}))
}

// TestApplyRangeOfManyKeys: a range delete of so many keys that they are not counted one by one, of part of one
// namespace and all of another.
func TestApplyRangeOfManyKeys(t *testing.T) {
	db := enginetest.Open(t)
	hour := uint64(time.Now().Add(time.Hour).UnixMilli())
	const many = 12000
	mustApply(t, db, func(b *batch.Builder) {
		for i := range many {
			b.Put(cf.Metadata, nsKey("a", fmt.Sprintf("%05d", i)), stringRecord("v", 0))
			b.Put(cf.Metadata, nsKey("b", fmt.Sprintf("%05d", i)), stringRecord("v", hour*uint64(i%2)))
		}
		b.Put(cf.Metadata, nsKey("c", "k"), stringRecord("v", 0))
	})
	wantCount(t, db, "a", many, 0)
	wantCount(t, db, "b", many, many/2)
	known(t, db, "b", "00099", "00100")
	mustApply(t, db, func(b *batch.Builder) {
		b.Put(cf.Metadata, nsKey("a", "00200"), stringRecord("overwritten", 0))
		b.DeleteRange(cf.Metadata, nsKey("a", "00100"), nsKey("b", "00100"))
		b.Put(cf.Metadata, nsKey("a", "new"), stringRecord("v", hour))
		b.Delete(cf.Metadata, nsKey("b", "00101"))
	})
	db.WaitScans()
	wantCount(t, db, "a", 101, 1)
	wantCount(t, db, "b", many-101, many/2-51)
	wantCount(t, db, "c", 1, 0)
	mustApply(t, db, func(b *batch.Builder) { // one that was there before is a new key
		b.Put(cf.Metadata, nsKey("a", "00500"), stringRecord("v", 0))
	})
	wantCount(t, db, "a", 102, 1)
	known(t, db, "b", "00099", "00100", "00101")
	wantScanned(t, db, "at the end", "a", "b", "c")
	setString(t, db, "more", 0)
	mustApply(t, db, func(b *batch.Builder) { b.DeleteRange(cf.Metadata, nsKey(ns, ""), nsKey(ns, "z")) })
	wantCount(t, db, ns, 0, 0)
	setString(t, db, "more", 0) // few keys are counted one by one
	wantCount(t, db, ns, 1, 0)
}

// TestApplyIsHeardOf: WATCH and those who observe commits learn of the keys of a batch, whatever family its records
// are of.
func TestApplyIsHeardOf(t *testing.T) {
	db := enginetest.Open(t)
	tests := []struct {
		name    string
		build   func(b *batch.Builder)
		changed string // the key that has; "*" = all, as far as anybody knows
	}{
		{"metadata", func(b *batch.Builder) { b.Put(cf.Metadata, nsKey(ns, "a"), stringRecord("v", 0)) }, "a"},
		{"deleted", func(b *batch.Builder) { b.Delete(cf.Metadata, nsKey(ns, "b")) }, "b"},
		{"single delete", func(b *batch.Builder) { b.SingleDelete(cf.Metadata, nsKey(ns, "b")) }, "b"},
		{"element", func(b *batch.Builder) { b.Put(cf.Default, subkey("a", 1, "f"), nil) }, "a"},
		{"score", func(b *batch.Builder) { b.Delete(cf.ZSetScore, subkey("b", 1, "12345678")) }, "b"},
		{"entry", func(b *batch.Builder) { b.Put(cf.Stream, subkey("a", 1, "f"), nil) }, "a"},
		{"range of one key's entries", func(b *batch.Builder) {
			b.DeleteRange(cf.Stream, subkey("a", 1, "a"),
				subkey("a", 1, "f"))
		}, "a"},
		{"range of several keys' entries", func(b *batch.Builder) {
			b.DeleteRange(cf.Stream, subkey("a", 1, "a"),
				subkey("c", 1, "f"))
		}, "*"},
		{"range of keys", func(b *batch.Builder) { b.DeleteRange(cf.Metadata, nsKey(ns, "a"), nsKey(ns, "b")) }, "*"},
		{"no key's", func(b *batch.Builder) {
			b.Put(cf.PubSub, []byte("a"), []byte("m"))
			b.Put(cf.Search,
				[]byte("a"), nil)
		}, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			watches := map[string]*engine.Watch{}
			for _, k := range []string{"a", "b"} {
				setString(t, db, k, 0)
				w := db.NewWatch()
				defer w.Close()
				require.NoError(t, db.View(ns, keys(k), func(tx *engine.Tx) error { return tx.Watch(w, []byte(k)) }))
				watches[k] = w
			}
			var r recorder
			db.Observe(&r)
			mustApply(t, db, tt.build)
			db.Observe(nil)
			for k, w := range watches {
				want := tt.changed == k || tt.changed == "*" && (k == "a" || tt.name != "range of keys")
				if got := w.Changed(time.Now().UnixMilli()); got != want {
					t.Errorf("%s has changed: %v, want %v", k, got, want)
				}
			}
			heard := strings.Join(r.keys, "")
			if r.flushes > 0 {
				heard += "*"
			}
			if heard != tt.changed {
				t.Errorf("heard of %q, want %q", heard, tt.changed)
			}
		})
	}
}

// TestSingleDeleteIsADelete: a single delete of what was written twice would bring the older value back.
func TestSingleDeleteIsADelete(t *testing.T) {
	db := enginetest.Open(t)
	setString(t, db, "k", 0)
	setString(t, db, "k", 0)
	mustApply(t, db, func(b *batch.Builder) { b.SingleDelete(cf.Metadata, nsKey(ns, "k")) })
	compact(t, db)
	wantCount(t, db, ns, 0, 0)
	if n := records(t, db, cf.Metadata); n != 0 {
		t.Errorf("%d records are left", n)
	}
}

// TestYieldingCommits mixes commits that let others go first with those of a group.
func TestYieldingCommits(t *testing.T) {
	db := enginetest.Open(t)
	var wg sync.WaitGroup
	const writers, rounds = 8, 50
	for w := range writers {
		wg.Go(func() {
			for i := range rounds {
				key := fmt.Sprintf("k%d-%d", w, i)
				if err := db.Update(ns, keys(key), func(tx *engine.Tx) error {
					if w%2 == 0 {
						tx.YieldToOthers()
					}
					s := tx.Fresh([]byte(key), cf.TypeString)
					tx.SaveAppend(&s, []byte("v"))
					return nil
				}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	wantCount(t, db, ns, writers*rounds, 0)
	puts, _, err := readWAL(t, db, 1)
	if err != nil || len(puts) != writers*rounds {
		t.Errorf("%d writes in the log, %v", len(puts), err)
	}
	db.InjectWriteError(engine.NewError("ERR", "no space"))
	err = db.Update(ns, keys("k"), func(tx *engine.Tx) error {
		tx.YieldToOthers()
		s := tx.Fresh([]byte("k"), cf.TypeString)
		tx.SaveAppend(&s, nil)
		return nil
	})
	if err == nil {
		t.Error("a failed write is no error")
	}
	db.InjectWriteError(nil)
	wantCount(t, db, ns, writers*rounds, 0)
}

// FuzzCheckBatch: what is found sound can be applied, and the database goes on with the right counts; the rest is an
// error for the client.
func FuzzCheckBatch(f *testing.F) {
	var b batch.Builder
	add := func() {
		f.Add(bytes.Clone(b.Bytes()))
		b.Reset()
	}
	b.LogData([]byte("2"))
	b.Put(cf.Default, subkey("h", 1, "f"), []byte("v"))
	h := cf.Meta{Type: cf.TypeHash, Version: 1, Size: 1}
	b.Put(cf.Metadata, nsKey(ns, "h"), h.Append(nil))
	add()
	b.Put(cf.Metadata, nsKey(ns, "s"), stringRecord("v", 1<<43))
	b.DeleteRange(cf.Metadata, nsKey(ns, ""), nsKey(ns, "z"))
	b.Delete(cf.Metadata, nsKey("other", "s"))
	b.SingleDelete(cf.ZSetScore, subkey("z", 1, "12345678m"))
	add()
	b.DeleteRange(cf.Stream, subkey("a", 1, "a"), subkey("b", 1, "f"))
	b.Put(cf.Propagate, []byte(cf.PropagateNamespaces), []byte(`{"t":"n"}`))
	b.Put(cf.PubSub, nil, nil)
	add()
	f.Add([]byte("\x04\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x03\x01\x31\x05" +
		"\x01\x0d\x0b__namespacea\x06\x01\x00\x00\x00\x00\x31"))
	db := enginetest.Open(f)
	f.Fuzz(func(t *testing.T, rep []byte) {
		if err := apply(db, rep); err != nil {
			if !strings.HasPrefix(err.Error(), "invalid write batch: ") {
				t.Fatal(err)
			}
			return
		}
		if err := putHash(db, "mine", "f"); err != nil {
			t.Fatalf("the database does not go on: %v", err)
		}
		wantScanned(t, db, "afterwards", ns, "other")
	})
}

// TestLocksOfSearchRecords: a batch that changes a graph keeps out clients that change it, and a definition of an index
// keeps out all that write.
func TestLocksOfSearchRecords(t *testing.T) {
	db := enginetest.Open(t)
	field := cf.AppendSearchField(nil, ns, cf.SearchFieldData, []byte("i"), []byte("f"))
	definition := cf.AppendSearchPrefix(nil, ns, cf.SearchIndexMeta, []byte("i"))
	graph, other := engine.GraphLock(ns, []byte("i")), []byte("other")
	for _, tt := range []struct {
		name       string
		build      func(b *batch.Builder)
		graph, all bool
	}{
		{"node", func(b *batch.Builder) { b.Put(cf.Search, cf.AppendSearchNode(field, 0, []byte("k")), nil) }, true, false},
		{"edge", func(b *batch.Builder) {
			b.Delete(cf.Search, cf.AppendSearchEdge(field, 1, []byte("k"), []byte("l")))
		}, true, false},
		{"tag", func(b *batch.Builder) {
			b.Put(cf.Search, cf.AppendSearchTag(field, []byte("tag"), []byte("k")), nil)
		}, false, false},
		{"definition", func(b *batch.Builder) { b.Put(cf.Search, definition, nil) }, true, true},
		{"entries dropped", func(b *batch.Builder) {
			b.DeleteRange(cf.Search, graph, append(bytes.Clone(graph), 0xff))
		}, true, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var rep batch.Builder
			tt.build(&rep)
			b, err := db.CheckBatch(rep.Bytes())
			require.NoError(t, err)
			tx := db.NewTx()
			tx.Begin(ns)
			defer tx.Release()
			require.NoError(t, tx.AcquireFor(b))
			if got := tx.Holds(graph); got != tt.graph {
				t.Errorf("the lock of the graph is held: %v", got)
			}
			if got := tx.Holds(other); got != tt.all {
				t.Errorf("the lock of another key is held: %v", got)
			}
		})
	}
}
