package keys_test

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/enginetest"
	"github.com/basaltdb/basalt/engine/keys"
	"github.com/basaltdb/basalt/internal/require"
)

const (
	ns    = cf.DefaultNamespace
	never = 0
	later = math.MaxInt64 - 1
)

var list = enginetest.Bytes

// update runs f in a transaction that has the locks of the keys.
func update(t testing.TB, db *engine.DB, locked string, f func(tx *engine.Tx) error) {
	t.Helper()
	require.NoError(t, db.Update(ns, list(strings.Fields(locked)...), f))
}

// put writes a key of the given type, with the members as subkeys.
func put(t testing.TB, db *engine.DB, key string, typ cf.Type, expire int64, members ...string) {
	t.Helper()
	update(t, db, key, func(tx *engine.Tx) error {
		rec := tx.Fresh([]byte(key), typ)
		rec.Expire = uint64(expire)
		rec.Size = uint64(len(members))
		var tail []byte
		for i, m := range members {
			switch typ {
			case cf.TypeString, cf.TypeJSON:
				tail, rec.Size = []byte(m), 0
			case cf.TypeList:
				tx.Put(cf.Default, tx.SubkeyU64(&rec, cf.ListOrigin+uint64(i)), []byte(m))
				tail = cf.AppendListTail(nil, cf.ListOrigin, cf.ListOrigin+uint64(i)+1)
			case cf.TypeZSet:
				tx.Put(cf.Default, tx.Subkey(&rec, []byte(m)), cf.AppendDouble(nil, float64(i)))
				tx.Put(cf.ZSetScore, tx.ScoreKey(&rec, float64(i), []byte(m)), nil)
			case cf.TypeStream:
				tx.Put(cf.Stream, tx.SubkeyU64(&rec, uint64(i)), []byte(m))
				tail = []byte("last id and so on")
			default:
				tx.Put(cf.Default, tx.Subkey(&rec, []byte(m)), []byte("v"+m))
			}
		}
		tx.SaveAppend(&rec, tail)
		return nil
	})
}

// show returns everything that a key consists of: type, size, expiry, tail and the subkeys in each family.
func show(t testing.TB, db *engine.DB, key string) string { return showIn(t, db, ns, key) }

// showIn is show of a key in any namespace.
func showIn(t testing.TB, db *engine.DB, ns, key string) (text string) {
	t.Helper()
	require.NoError(t, db.View(ns, list(key), func(tx *engine.Tx) error {
		rec, err := tx.LoadAny([]byte(key))
		if err != nil || !rec.Exists {
			text = "-"
			return err
		}
		var b strings.Builder
		fmt.Fprintf(&b, "%s %d @%d narrow=%v %q", rec.Type, rec.Size, rec.Expire, rec.Narrow, rec.Tail)
		if !rec.Type.SingleRecord() {
			for _, id := range []cf.ID{cf.Default, cf.ZSetScore, cf.Stream} {
				it := tx.Iter(id, engine.IterOptions{Prefix: tx.SubkeyPrefix(&rec)})
				defer it.Close()
				for it.Next() {
					fmt.Fprintf(&b, "; %s %q=%q", id, it.Key(), it.Value())
				}
				if it.Err() != nil {
					return it.Err()
				}
			}
		}
		text = b.String()
		return nil
	}))
	return text
}

func TestDelAndExists(t *testing.T) {
	db := enginetest.Open(t)
	put(t, db, "a", cf.TypeString, never, "1")
	put(t, db, "h", cf.TypeHash, never, "f", "g")
	put(t, db, "expired", cf.TypeString, 1, "1")
	put(t, db, "emptied", cf.TypeSet, never)
	put(t, db, "empty stream", cf.TypeStream, never)
	update(t, db, "", func(tx *engine.Tx) error {
		n, err := keys.Exists(tx, list("a", "a", "h", "expired", "emptied", "empty stream", "missing")...)
		if n != 4 {
			t.Errorf("%d keys exist", n)
		}
		return err
	})
	update(t, db, "a h expired emptied missing", func(tx *engine.Tx) error {
		n, err := keys.Del(tx, list("a", "a", "expired", "h", "emptied", "missing")...)
		if n != 2 {
			t.Errorf("%d keys were deleted", n)
		}
		return err
	})
	put(t, db, "h", cf.TypeHash, never, "f")
	if got := show(t, db, "h"); strings.Contains(got, "vg") {
		t.Errorf("a field of the deleted hash is there again: %s", got)
	}
	if n, _ := db.Count(ns); n != 2 {
		t.Errorf("%d keys counted", n)
	}
}

func TestExpire(t *testing.T) {
	const early, late = int64(5e12), int64(6e12)
	db := enginetest.Open(t)
	for _, tt := range []struct {
		name   string
		before int64 // -1 = no key
		at     int64
		when   keys.Condition
		done   bool
		after  int64
	}{
		{"missing", -1, early, 0, false, -1},
		{"set", never, early, 0, true, early},
		{"change", late, early, 0, true, early},
		{"none", never, early, keys.IfNone, true, early},
		{"not none", late, early, keys.IfNone, false, late},
		{"some", late, early, keys.IfSome, true, early},
		{"not some", never, early, keys.IfSome, false, never},
		{"later", early, late, keys.IfLater, true, late},
		{"the same is not later", early, early, keys.IfLater, false, early},
		{"not later", late, early, keys.IfLater, false, late},
		{"never is later than all", never, late, keys.IfLater, false, never},
		{"earlier", late, early, keys.IfEarlier, true, early},
		{"not earlier", early, late, keys.IfEarlier, false, early},
		{"earlier than never", never, early, keys.IfEarlier, true, early},
		{"earlier, but there is none", never, early, keys.IfEarlier | keys.IfSome, false, never},
		{"passed", never, 1, 0, true, -1},
		{"before the epoch", late, -5, 0, true, -1},
		{"before the epoch is not later", late, -5, keys.IfLater, false, late},
		{"before the epoch is earlier", late, -5, keys.IfEarlier, true, -1},
		{"the last time", never, math.MaxInt64, 0, true, math.MaxInt64},
	} {
		for _, typ := range []cf.Type{cf.TypeString, cf.TypeHash, cf.TypeList, cf.TypeZSet} {
			update(t, db, "k", func(tx *engine.Tx) error { _, err := keys.Del(tx, []byte("k")); return err })
			if tt.before >= 0 {
				put(t, db, "k", typ, tt.before, "a", "b")
			}
			before := show(t, db, "k")
			update(t, db, "k", func(tx *engine.Tx) error {
				done, err := keys.Expire(tx, []byte("k"), tt.at, tt.when)
				if done != tt.done {
					t.Errorf("%s, %s: %v", tt.name, typ, done)
				}
				return err
			})
			want := "-"
			if tt.after >= 0 {
				want = strings.Replace(before, fmt.Sprintf("@%d ", tt.before), fmt.Sprintf("@%d ", tt.after), 1)
			}
			if got := show(t, db, "k"); got != want {
				t.Errorf("%s: %s, want %s", tt.name, got, want)
			}
		}
	}
}

func TestPersist(t *testing.T) {
	db := enginetest.Open(t)
	persist := func(key string, want bool) {
		t.Helper()
		update(t, db, key, func(tx *engine.Tx) error {
			done, err := keys.Persist(tx, []byte(key))
			if done != want {
				t.Errorf("%s: %v", key, done)
			}
			return err
		})
	}
	put(t, db, "k", cf.TypeSet, later, "a")
	persist("missing", false)
	persist("k", true)
	persist("k", false)
	if got := show(t, db, "k"); !strings.HasPrefix(got, "set 1 @0 ") {
		t.Error(got)
	}
}

// everyType puts one key of each type that has another way of being stored.
func everyType(t testing.TB, db *engine.DB) []string {
	put(t, db, "string", cf.TypeString, later, "value")
	put(t, db, "json", cf.TypeJSON, never, "\x00{}")
	put(t, db, "hash", cf.TypeHash, later, "f", "g", "")
	put(t, db, "list", cf.TypeList, never, "x", "y")
	put(t, db, "set", cf.TypeSet, never, "a", "b")
	put(t, db, "zset", cf.TypeZSet, later, "a", "b", "c")
	put(t, db, "bitmap", cf.TypeBitmap, never, "0", "1024")
	put(t, db, "stream", cf.TypeStream, never, "entry", "group")
	put(t, db, "bloom", cf.TypeBloom, never, "\x00\x00")
	return []string{"string", "json", "hash", "list", "set", "zset", "bitmap", "stream", "bloom"}
}

func TestRenameAndCopyEveryType(t *testing.T) {
	db := enginetest.Open(t)
	for _, key := range everyType(t, db) {
		want := show(t, db, key)
		update(t, db, key+" copy", func(tx *engine.Tx) error {
			_, err := keys.Copy(tx, []byte(key), []byte("copy"), true)
			return err
		})
		if got := show(t, db, "copy"); got != want {
			t.Errorf("copy of %s: %s, want %s", key, got, want)
		}
		if got := show(t, db, key); got != want {
			t.Errorf("%s after a copy: %s, want %s", key, got, want)
		}
		update(t, db, key+" renamed", func(tx *engine.Tx) error {
			_, err := keys.Rename(tx, []byte(key), []byte("renamed"), false)
			return err
		})
		if got := show(t, db, "renamed"); got != want {
			t.Errorf("%s renamed: %s, want %s", key, got, want)
		}
		if got := show(t, db, key); got != "-" {
			t.Errorf("%s after it was renamed: %s", key, got)
		}
	}
}

func TestRenameConditions(t *testing.T) {
	db := enginetest.Open(t)
	put(t, db, "a", cf.TypeString, never, "a")
	put(t, db, "b", cf.TypeString, never, "b")
	for _, tt := range []struct {
		from, to string
		keep     bool
		done     bool
		err      error
	}{
		{"missing", "x", false, false, keys.ErrNoSuchKey},
		{"missing", "x", true, false, keys.ErrNoSuchKey},
		{"missing", "missing", false, false, keys.ErrNoSuchKey},
		{"a", "a", false, true, nil},
		{"a", "a", true, false, nil},
		{"a", "b", true, false, nil},
		{"a", "c", true, true, nil},
		{"c", "b", false, true, nil},
	} {
		err := db.Update(ns, list(tt.from, tt.to), func(tx *engine.Tx) error {
			done, err := keys.Rename(tx, []byte(tt.from), []byte(tt.to), tt.keep)
			if done != tt.done {
				t.Errorf("%v: %v", tt, done)
			}
			return err
		})
		if !errors.Is(err, tt.err) {
			t.Errorf("%v: %v", tt, err)
		}
	}
	if got := show(t, db, "b"); !strings.HasSuffix(got, `"a"`) {
		t.Errorf("b is %s", got)
	}
	if n, _ := db.Count(ns); n != 1 {
		t.Errorf("%d keys counted", n)
	}
}

// TestCopyDoesNotResurrect: what was deleted from a key stays deleted when the key comes back under a name that
// it had before, for whose name the old subkeys still lie in the database.
func TestCopyDoesNotResurrect(t *testing.T) {
	db := enginetest.Open(t)
	drop := func(key, member string, score float64) {
		update(t, db, key, func(tx *engine.Tx) error {
			rec, err := tx.LoadAny([]byte(key))
			if rec.Type == cf.TypeZSet {
				tx.Delete(cf.ZSetScore, tx.ScoreKey(&rec, score, []byte(member)))
			}
			tx.Delete(cf.Default, tx.Subkey(&rec, []byte(member)))
			rec.Size--
			tx.Save(&rec, rec.Tail)
			return err
		})
	}
	for _, typ := range []cf.Type{cf.TypeHash, cf.TypeZSet} {
		put(t, db, "k", typ, never, "a", "b")
		update(t, db, "k copy", func(tx *engine.Tx) error {
			_, err := keys.Copy(tx, []byte("k"), []byte("copy"),
				true)
			return err
		})
		drop("k", "b", 1)
		want := show(t, db, "k")
		update(t, db, "k copy", func(tx *engine.Tx) error {
			_, err := keys.Copy(tx, []byte("k"), []byte("copy"),
				true)
			return err
		})
		if got := show(t, db, "copy"); got != want {
			t.Errorf("copied again: %s, want %s", got, want)
		}

		put(t, db, "k", typ, never, "a", "b")
		update(t, db, "k other", func(tx *engine.Tx) error {
			_, err := keys.Rename(tx, []byte("k"), []byte("other"),
				false)
			return err
		})
		drop("other", "b", 1)
		want = show(t, db, "other")
		update(t, db, "k other", func(tx *engine.Tx) error {
			_, err := keys.Rename(tx, []byte("other"), []byte("k"),
				false)
			return err
		})
		if got := show(t, db, "k"); got != want {
			t.Errorf("renamed and back: %s, want %s", got, want)
		}
	}
}

// TestBatches: the write batches are those of Kvrocks, log data included.
func TestBatches(t *testing.T) {
	db := enginetest.Open(t)
	put(t, db, "h", cf.TypeHash, never, "f")
	put(t, db, "z", cf.TypeZSet, never, "a", "b")
	put(t, db, "s", cf.TypeString, never, "v")
	for _, tt := range []struct {
		name string
		f    func(tx *engine.Tx) error
		want string
	}{
		{"expire", func(tx *engine.Tx) error { _, err := keys.Expire(tx, []byte("h"), later, 0); return err },
			"log 0 8, put metadata h"},
		{"persist", func(tx *engine.Tx) error { _, err := keys.Persist(tx, []byte("h")); return err },
			"log 0 8, put metadata h"},
		{"rename", func(tx *engine.Tx) error {
			_, err := keys.Rename(tx, []byte("s"), []byte("s3"), false)
			return err
		}, "log 1, delete metadata s, put metadata s3"},
		{"copy", func(tx *engine.Tx) error { _, err := keys.Copy(tx, []byte("h"), []byte("h2"), false); return err },
			"log 2, put metadata h2, put default h2 f"},
		{"copy of a sorted set", func(tx *engine.Tx) error {
			_, err := keys.Copy(tx, []byte("z"), []byte("z2"),
				false)
			return err
		},
			"log 5, put metadata z2, put default z2 a, put zset_score z2 \x80\x00\x00\x00\x00\x00\x00\x00a, put default z2 b, " +
				"put zset_score z2 \xbf\xf0\x00\x00\x00\x00\x00\x00b"},
		{"del", func(tx *engine.Tx) error { _, err := keys.Del(tx, list("x", "s3", "z")...); return err },
			"log 0, delete metadata s3, delete metadata z"},
		{"expire in the past", func(tx *engine.Tx) error { _, err := keys.Expire(tx, []byte("h"), 1, 0); return err },
			"log 0, delete metadata h"},
	} {
		seq := db.LatestSequence()
		update(t, db, "h h2 z z2 s s3 x", tt.f)
		if got := enginetest.LastBatch(t, db, seq+1); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
	seq := db.LatestSequence()
	update(t, db, "x", func(tx *engine.Tx) error { _, err := keys.Del(tx, []byte("x")); return err })
	if db.LatestSequence() != seq {
		t.Error("deleting nothing has written something")
	}
}
