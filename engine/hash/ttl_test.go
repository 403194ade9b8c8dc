package hash_test

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/enginetest"
	"github.com/basaltdb/basalt/engine/hash"
)

// future is a time ahead of the clock: tests move a transaction's time there and on from there.
func future() int64 { return time.Now().UnixMilli() + 3600_000 }

// expireAt sets the expiry of fields.
func expireAt(key []byte, at int64, fields ...string) func(tx *engine.Tx) error {
	return func(tx *engine.Tx) error { _, err := hash.Expire(tx, key, raw(fields...), at, hash.Always); return err }
}

func setAll(key []byte, pairs ...string) func(tx *engine.Tx) error {
	return func(tx *engine.Tx) error { _, err := hash.Set(tx, key, raw(pairs...)); return err }
}

// atTime runs f at a time.
func atTime(now int64, f func(tx *engine.Tx) error) func(tx *engine.Tx) error {
	return func(tx *engine.Tx) error { tx.Tick(now); return f(tx) }
}

// TestTTLBatches compares the records of writes to a hash whose fields may expire with those of Kvrocks's later
// versions, in their order. The first expiry writes the whole hash; Kvrocks has no such step.
func TestTTLBatches(t *testing.T) {
	key := []byte("h")
	const at = int64(1) << 45 // far in the future
	const log = `log data "2 13 1"`
	value := func(field string, expire int64, v string) string {
		return `put default ` + fmt.Sprintf("%q", field) + ` = ` + strconv.Quote(string(cf.AppendHashValue(nil,
			uint64(expire), []byte(v))))
	}
	meta := func(size int, persist uint64, lower, upper int64) string {
		return fmt.Sprintf(`put metadata = hash size %d `, size) + strconv.Quote(string(cf.AppendHashTail(nil,
			cf.HashTTL{Persist: persist, Lower: uint64(lower), Upper: uint64(upper)})))
	}
	both := func(fs ...func(tx *engine.Tx) error) func(tx *engine.Tx) error {
		return func(tx *engine.Tx) error {
			for _, f := range fs {
				if err := f(tx); err != nil {
					return err
				}
			}
			return nil
		}
	}
	setEx := func(do hash.TTLAction, at int64, when hash.FieldCondition, pairs ...string) func(tx *engine.Tx) error {
		return func(tx *engine.Tx) error {
			_, err := hash.SetEx(tx, key, raw(pairs...), hash.TTL{Do: do, At: at}, when)
			return err
		}
	}
	getEx := func(do hash.TTLAction, at int64, fields ...string) func(tx *engine.Tx) error {
		return func(tx *engine.Tx) error {
			_, err := hash.GetEx(tx, key, raw(fields...), hash.TTL{Do: do, At: at}, func([]byte, bool) {})
			return err
		}
	}
	// f expires, g does not.
	mixed := both(setAll(key, "f", "1", "g", "2"), expireAt(key, at, "f"))
	for _, c := range []struct {
		name   string
		before func(tx *engine.Tx) error
		f      func(tx *engine.Tx) error
		want   []string
	}{
		{"the first expiry", setAll(key, "f", "1", "g", "2"), expireAt(key, at, "f"),
			[]string{log, value("f", 0, "1"), value("g", 0, "2"), value("f", at, "1"), meta(2, 1, at, at)}},
		{"another", mixed, expireAt(key, at+5, "g"), []string{log, value("g", at+5, "2"), meta(2, 0, at, at+5)}},
		{"several", mixed, expireAt(key, at+5, "g", "f", "x"), []string{log, value("g", at+5, "2"),
			value("f", at+5, "1"), meta(2, 0, at+5, at+5)}},
		{"the same again", mixed, expireAt(key, at, "f"), []string{log, value("f", at, "1"), meta(2, 1, at, at)}},
		{"no such field", mixed, expireAt(key, at, "x"), nil},
		{"no such field of a plain hash", setAll(key, "f", "1"), expireAt(key, at, "x"), nil},
		{"a time that has passed", mixed, expireAt(key, 1, "f"), []string{log, `delete default "f"`, meta(1, 1, 0, 0)}},
		{"a time that has passed, of a plain hash", setAll(key, "f", "1", "g", "2"), expireAt(key, 1, "f"),
			[]string{`log data "2"`, `delete default "f"`, `put metadata = hash size 1 ""`}},
		{"the last field", both(setAll(key, "f", "1"), expireAt(key, at, "f")), expireAt(key, 1, "f"),
			[]string{log, `delete default "f"`, meta(0, 0, 0, 0)}},
		{"persist", mixed, func(tx *engine.Tx) error { _, err := hash.Persist(tx, key, raw("f", "g", "x")); return err },
			[]string{log, value("f", 0, "1"), meta(2, 2, 0, 0)}},
		{"set loses the expiry", mixed, setAll(key, "f", "3"), []string{log, value("f", 0, "3"), meta(2, 2, 0, 0)}},
		{"set the same value loses the expiry", mixed, setAll(key, "f", "1"),
			[]string{log, value("f", 0, "1"), meta(2, 2, 0, 0)}},
		{"set a field without an expiry", mixed, setAll(key, "g", "3"), []string{log, value("g", 0, "3")}},
		{"set to the same", mixed, setAll(key, "g", "2"), nil},
		{"set new fields, the last one first", mixed, setAll(key, "x", "8", "y", "9"),
			[]string{log, value("y", 0, "9"), value("x", 0, "8"), meta(4, 3, at, at)}},
		{"increment keeps the expiry", mixed, func(tx *engine.Tx) error {
			_, err := hash.IncrBy(tx, key, []byte("f"), 4)
			return err
		}, []string{log, value("f", at, "5")}},
		{"increment by a float keeps the expiry", mixed, func(tx *engine.Tx) error {
			_, err := hash.IncrByFloat(tx, key, []byte("f"), []byte("0.5"))
			return err
		},
			[]string{log, value("f", at, "1.5")}},
		{"increment of an expired field", mixed, atTime(at+1, func(tx *engine.Tx) error {
			_, err := hash.IncrBy(tx, key, []byte("f"), 4)
			return err
		}),
			[]string{log, value("f", 0, "4"), meta(2, 2, 0, 0)}},
		{"delete", mixed, func(tx *engine.Tx) error { _, err := hash.Delete(tx, key, raw("f", "x", "g")); return err },
			[]string{log, `delete default "f"`, `delete default "g"`, meta(0, 0, 0, 0)}},
		{"delete of an expired field", mixed, atTime(at+1, func(tx *engine.Tx) error {
			_, err := hash.Delete(tx, key, raw("f"))
			return err
		}),
			[]string{log, `delete default "f"`, meta(1, 1, 0, 0)}},
		{"set with an expiry, no such key", nil, setEx(hash.SetTTL, at, hash.AnyField, "f", "1", "g", "2", "f", "3"),
			[]string{log, value("g", at, "2"), value("f", at, "3"), meta(2, 0, at, at)}},
		{"set with an expiry, a plain hash", setAll(key, "a", "1"), setEx(hash.SetTTL, at, hash.AnyField, "f", "1"),
			[]string{log, value("a", 0, "1"), value("f", at, "1"), meta(2, 1, at, at)}},
		{"set without one, no such key: plain", nil, setEx(hash.NoTTL, 0, hash.NewOnly, "f", "1"),
			[]string{`log data "2"`, `put default "f" = "1"`, `put metadata = hash size 1 ""`}},
		{"set without one, a plain hash", setAll(key, "a", "1"), setEx(hash.KeepTTL, 0, hash.AnyField, "a", "2"),
			[]string{`log data "2"`, `put default "a" = "2"`}},
		{"set and keep", mixed, setEx(hash.KeepTTL, 0, hash.AnyField, "f", "8", "g", "9"),
			[]string{log, value("f", at, "8"), value("g", 0, "9")}},
		{"set and discard", mixed, setEx(hash.NoTTL, 0, hash.AnyField, "f", "8"),
			[]string{log, value("f", 0, "8"), meta(2, 2, 0, 0)}},
		{"set if new, but it is not", mixed, setEx(hash.SetTTL, at, hash.NewOnly, "f", "8"), nil},
		{"set if old, but it is not", mixed, setEx(hash.SetTTL, at, hash.OldOnly, "f", "8", "x", "9"), nil},
		{"set with a time that has passed", mixed, setEx(hash.SetTTL, 1, hash.AnyField, "f", "8", "x", "9"),
			[]string{log, `delete default "f"`, meta(1, 1, 0, 0)}},
		{"the same, the last fields", mixed, setEx(hash.SetTTL, 1, hash.AnyField, "f", "8", "g", "9"),
			[]string{log, `delete default "f"`, `delete default "g"`, `delete metadata ` + ns + `/"h"`}},
		{"get with an expiry", mixed, getEx(hash.SetTTL, at+5, "f", "g", "x"),
			[]string{log, value("f", at+5, "1"), value("g", at+5, "2"), meta(2, 0, at+5, at+5)}},
		{"get with the same expiry", mixed, getEx(hash.SetTTL, at, "f"), nil},
		{"get and persist", mixed, getEx(hash.DropTTL, 0, "f", "g"), []string{log, value("f", 0, "1"), meta(2, 2, 0, 0)}},
		{"get", mixed, getEx(hash.NoTTL, 0, "f", "g"), nil},
		{"get of an expired field", mixed, atTime(at+1, getEx(hash.NoTTL, 0, "f")),
			[]string{log, `delete default "f"`, meta(1, 1, 0, 0)}},
		{"get of nothing with an expiry, a plain hash", setAll(key, "a", "1"), getEx(hash.SetTTL, at, "x"), nil},
		{"get and delete", mixed, func(tx *engine.Tx) error {
			return hash.GetDelete(tx, key, raw("f", "f", "x"),
				func([]byte, bool) {})
		},
			[]string{log, `delete default "f"`, meta(1, 1, 0, 0)}},
		{"get and delete, a plain hash", setAll(key, "a", "1"), func(tx *engine.Tx) error {
			return hash.GetDelete(tx,
				key, raw("a"), func([]byte, bool) {})
		},
			[]string{`log data "2"`, `delete default "a"`, `put metadata = hash size 0 ""`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			enginetest.WantBatches(t, enginetest.Open(t), [][]byte{key}, c.before, c.f, show, c.want)
		})
	}
}

// TestConversion: the first expiry keeps every field and moves the hash to a new version; taking it off again does
// not bring the plain form back, a new hash under the key has it.
func TestConversion(t *testing.T) {
	for _, n := range []int{1, 17, 3000} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			db := enginetest.Open(t)
			key := []byte("h")
			var pairs []string
			for i := range n {
				pairs = append(pairs, fmt.Sprintf("f%04d", i), fmt.Sprintf("value %d", i))
			}
			update(t, db, key, setAll(key, pairs...))
			record := func() (rec engine.Record) {
				view(t, db, key, func(tx *engine.Tx) (err error) {
					rec, err = tx.LoadAny(key)
					rec.Tail = slices.Clone(rec.Tail)
					return err
				})
				return rec
			}
			first := record()
			update(t, db, key, expireAt(key, future(), "f0000"))
			second := record()
			if len(second.Tail) == 0 || second.Version <= first.Version || second.Size != uint64(n) {
				t.Fatalf("from %+v to %+v", first.Meta, second.Meta)
			}
			same := func(tx *engine.Tx) error {
				got, err := all(tx, key)
				if !slices.Equal(got, pairs) {
					t.Errorf("%d fields, want %d", len(got)/2, n)
				}
				return err
			}
			view(t, db, key, same)
			update(t, db, key, func(tx *engine.Tx) error { _, err := hash.Persist(tx, key, raw("f0000")); return err })
			view(t, db, key, same)
			if third := record(); third.Version != second.Version || len(third.Tail) == 0 {
				t.Errorf("after the expiry was taken off: %+v", third)
			}
			update(t, db, key, func(tx *engine.Tx) error {
				rec, err := tx.LoadAny(key)
				tx.Drop(&rec)
				return errors.Join(err, setAll(key, "a", "1")(tx))
			})
			if last := record(); len(last.Tail) != 0 {
				t.Error("a new hash is not plain")
			}
		})
	}
}

// TestTTLOfBigHash looks at hashes that are sampled and that writers do not tidy up.
func TestTTLOfBigHash(t *testing.T) {
	db := enginetest.Open(t)
	key := []byte("h")
	const n = 1000
	now := future()
	var pairs, early []string
	for i := range n {
		f := fmt.Sprintf("f%04d", i)
		pairs = append(pairs, f, "v")
		if i%100 != 0 {
			early = append(early, f)
		}
	}
	lens := func(now int64, want uint64) {
		t.Helper()
		view(t, db, key, atTime(now, func(tx *engine.Tx) error {
			got, err := hash.Len(tx, key)
			if got != want {
				t.Errorf("at %d: %d fields, want %d", now, got, want)
			}
			return err
		}))
	}
	update(t, db, key, setAll(key, pairs...))
	update(t, db, key, expireAt(key, now+10, early...))
	update(t, db, key, expireAt(key, now+20, "f0100", "f0200"))
	lens(now+10, n)
	lens(now+11, n-uint64(len(early)))
	lens(now+21, n-uint64(len(early))-2)
	for _, at := range []int64{now, now + 11, now + 21} {
		live := map[int64]int{now: n, now + 11: 10, now + 21: 8}[at]
		for _, count := range []int{1, 3, 9, 500, 2000} {
			view(t, db, key, atTime(at, func(tx *engine.Tx) error {
				seen, drawn := map[string]bool{}, 0
				err := hash.RandomDistinct(tx, key, uint64(count), true, func(f, v []byte) bool {
					seen[string(f)] = true
					drawn++
					return string(v) == "v"
				})
				if len(seen) != drawn || drawn != min(count, live) {
					t.Errorf("%d of %d: %d drawn, %d different", count, live, drawn, len(seen))
				}
				drawn = 0
				err2 := hash.Random(tx, key, uint64(count), true, func(f, v []byte) bool {
					if at > now && !strings.HasSuffix(string(f), "00") {
						t.Errorf("an expired field is drawn: %s", f)
					}
					drawn++
					return true
				})
				if drawn != count {
					t.Errorf("%d drawn, want %d", drawn, count)
				}
				return errors.Join(err, err2)
			}))
		}
	}
	// All expire now. The bound is that of the field that would have lived longest.
	update(t, db, key, expireAt(key, now+30, "f0000", "f0300", "f0400", "f0500", "f0600", "f0700", "f0800", "f0900"))
	lens(now+31, 0)
	view(t, db, key, atTime(now+31, func(tx *engine.Tx) error {
		rec, err := tx.LoadAny(key)
		if rec.Exists {
			t.Error("the key exists although all fields have expired")
		}
		return err
	}))
}

// TestLastFieldExpires: the key disappears with its last field, and what is put under it then is new.
func TestLastFieldExpires(t *testing.T) {
	now := future()
	for _, c := range []struct {
		name string
		f    func(key []byte) []func(tx *engine.Tx) error
		end  int64
	}{
		{"one field", func(key []byte) []func(tx *engine.Tx) error {
			return []func(tx *engine.Tx) error{setAll(key, "f", "v"), expireAt(key, now+5, "f")}
		}, now + 5},
		{"shortened", func(key []byte) []func(tx *engine.Tx) error {
			return []func(tx *engine.Tx) error{setAll(key, "f", "v"), expireAt(key, now+500, "f"), expireAt(key, now+5, "f")}
		}, now + 5},
		{"the longest is shortened", func(key []byte) []func(tx *engine.Tx) error {
			return []func(tx *engine.Tx) error{setAll(key, "f", "v", "g", "v"), expireAt(key, now+5, "g"),
				expireAt(key, now+500, "f"), expireAt(key, now+3, "f")}
		}, now + 5},
		{"the longest is deleted", func(key []byte) []func(tx *engine.Tx) error {
			return []func(tx *engine.Tx) error{setAll(key, "f", "v", "g", "v"), expireAt(key, now+5, "g"),
				expireAt(key, now+500, "f"),
				func(tx *engine.Tx) error { _, err := hash.Delete(tx, key, raw("f")); return err }}
		}, now + 5},
		{"the one without an expiry is deleted", func(key []byte) []func(tx *engine.Tx) error {
			return []func(tx *engine.Tx) error{setAll(key, "f", "v", "g", "v", "h", "v"), expireAt(key, now+5, "g"),
				expireAt(key, now+500, "f"), setAll(key, "f", "w"), expireAt(key, now+4, "f"),
				func(tx *engine.Tx) error { _, err := hash.Delete(tx, key, raw("h")); return err }}
		}, now + 5},
	} {
		t.Run(c.name, func(t *testing.T) {
			db := enginetest.Open(t)
			key := []byte("h")
			for _, f := range c.f(key) {
				update(t, db, key, atTime(now, f))
			}
			// The key has an expiry of its own, which a new key must not take over.
			update(t, db, key, func(tx *engine.Tx) error {
				rec, err := tx.LoadAny(key)
				rec.Expire = uint64(now + 100_000)
				tx.SaveAppend(&rec, rec.Tail)
				return err
			})
			exists := func(at int64) (rec engine.Record) {
				view(t, db, key, atTime(at, func(tx *engine.Tx) (err error) { rec, err = tx.LoadAny(key); return err }))
				return rec
			}
			if old := exists(c.end); !old.Exists {
				t.Fatal("the key is gone while its last field is there")
			}
			if exists(c.end + 1).Exists {
				t.Fatal("the key is there although its last field has expired")
			}
			update(t, db, key, atTime(c.end+1, setAll(key, "new", "v")))
			if rec := exists(c.end + 1); !rec.Exists || rec.Expire != 0 || rec.Size != 1 || len(rec.Tail) != 0 {
				t.Errorf("a new hash: %+v", rec)
			}
		})
	}
}

// TestTTLCorrupt damages records. Every function must return an error that names the key, and none may panic.
func TestTTLCorrupt(t *testing.T) {
	key := []byte("the key")
	db := enginetest.Open(t)
	good := cf.HashTTL{Persist: 1, Lower: uint64(future()), Upper: uint64(future())}
	for _, c := range []struct {
		name  string
		tail  []byte
		value []byte // of the field a
		size  uint64
	}{
		{"mode 0", []byte{0}, cf.AppendHashValue(nil, 0, nil), 2},
		{"a mode of the future", append([]byte{2}, make([]byte, 24)...), cf.AppendHashValue(nil, 0, nil), 2},
		{"a short tail", cf.AppendHashTail(nil, good)[:20], cf.AppendHashValue(nil, 0, nil), 2},
		{"a long tail", append(cf.AppendHashTail(nil, good), 0), cf.AppendHashValue(nil, 0, nil), 2},
		{"a short value", cf.AppendHashTail(nil, good), []byte("short"), 2},
	} {
		for name := range ttlCalls(key) {
			update(t, db, key, func(tx *engine.Tx) error {
				rec := tx.Fresh(key, cf.TypeHash)
				rec.Size = c.size
				tx.Put(cf.Default, tx.Subkey(&rec, []byte("a")), c.value)
				tx.Put(cf.Default, tx.Subkey(&rec, []byte("b")), c.value)
				tx.Save(&rec, c.tail)
				return nil
			})
			err := db.Update(ns, [][]byte{key}, ttlCalls(key)[name])
			if c.name == "a short value" && (name == "Len") { // it need not look
				continue
			}
			if !errors.Is(err, cf.ErrCorrupt) || !strings.Contains(err.Error(), `key "the key"`) {
				t.Errorf("%s, %s: %v", c.name, name, err)
			}
		}
	}
	// Numbers that contradict the fields.
	for _, c := range []struct {
		name string
		size uint64
		ttl  cf.HashTTL
		call string
	}{
		{"more without an expiry than fields", 1, cf.HashTTL{Persist: 2}, "Len"},
		{"none without an expiry", 1, cf.HashTTL{Lower: 1, Upper: 1 << 60}, "Delete"},
		{"too few fields", 1, cf.HashTTL{Persist: 1}, "Each"},
		{"too many fields", 3, cf.HashTTL{Persist: 3}, "Each"},
	} {
		update(t, db, key, func(tx *engine.Tx) error {
			rec := tx.Fresh(key, cf.TypeHash)
			rec.Size = c.size
			tx.Put(cf.Default, tx.Subkey(&rec, []byte("a")), cf.AppendHashValue(nil, 0, nil))
			tx.Put(cf.Default, tx.Subkey(&rec, []byte("b")), cf.AppendHashValue(nil, 0, nil))
			tx.Save(&rec, cf.AppendHashTail(nil, c.ttl))
			return nil
		})
		err := db.Update(ns, [][]byte{key}, ttlCalls(key)[c.call])
		if !errors.Is(err, cf.ErrCorrupt) || !strings.Contains(err.Error(), `key "the key"`) {
			t.Errorf("%s, %s: %v", c.name, c.call, err)
		}
	}
}

// ttlCalls are the calls that read or write the fields a and b of a hash.
func ttlCalls(key []byte) map[string]func(tx *engine.Tx) error {
	at := future() + 1000
	ab := raw("a", "b")
	none := func(_, _ []byte) {}
	draw := func(_, _ []byte) bool { return true }
	get := func([]byte, bool) {}
	return map[string]func(tx *engine.Tx) error{
		"Len":         func(tx *engine.Tx) error { _, err := hash.Len(tx, key); return err },
		"Get":         func(tx *engine.Tx) error { _, _, err := hash.Get(tx, key, ab[0]); return err },
		"GetMany":     func(tx *engine.Tx) error { _, err := hash.GetMany(tx, key, ab); return err },
		"Set":         setAll(key, "a", "1"),
		"SetMissing":  func(tx *engine.Tx) error { _, err := hash.SetMissing(tx, key, raw("a", "1", "b", "2")); return err },
		"Delete":      func(tx *engine.Tx) error { _, err := hash.Delete(tx, key, ab[:1]); return err },
		"IncrBy":      func(tx *engine.Tx) error { _, err := hash.IncrBy(tx, key, ab[0], 1); return err },
		"IncrByFloat": func(tx *engine.Tx) error { _, err := hash.IncrByFloat(tx, key, ab[0], []byte("1")); return err },
		"Each":        func(tx *engine.Tx) error { return hash.Each(tx, key, false, func(uint64) {}, none) },
		"RangeByLex": func(tx *engine.Tx) error {
			return hash.RangeByLex(tx, key, hash.LexRange{Min: hash.LexBound{Inf: true},
				Max: hash.LexBound{Inf: true}, Limit: -1}, none)
		},
		"Random":         func(tx *engine.Tx) error { return hash.Random(tx, key, 1, false, draw) },
		"RandomDistinct": func(tx *engine.Tx) error { return hash.RandomDistinct(tx, key, 5, false, draw) },
		"Expire":         expireAt(key, at, "a"),
		"Persist":        func(tx *engine.Tx) error { _, err := hash.Persist(tx, key, ab); return err },
		"ExpireTimes":    func(tx *engine.Tx) error { _, err := hash.ExpireTimes(tx, key, ab); return err },
		"SetEx": func(tx *engine.Tx) error {
			_, err := hash.SetEx(tx, key, raw("a", "1"), hash.TTL{Do: hash.SetTTL, At: at}, hash.AnyField)
			return err
		},
		"GetEx":     func(tx *engine.Tx) error { _, err := hash.GetEx(tx, key, ab, hash.TTL{}, get); return err },
		"GetDelete": func(tx *engine.Tx) error { return hash.GetDelete(tx, key, ab, get) },
	}
}

// TestTTLConcurrent lets clients write to one hash, expiries that pass meanwhile included, delete it and make it
// anew, while others count and read it, the count without a lock.
func TestTTLConcurrent(t *testing.T) {
	db := enginetest.Open(t)
	key := []byte("h")
	const always = 20 // fields that are in every state of the hash
	var pairs []string
	for i := range always {
		pairs = append(pairs, fmt.Sprintf("always:%d", i), "v")
	}
	update(t, db, key, setAll(key, pairs...))
	var writing, reading sync.WaitGroup
	done := make(chan struct{})
	fail := func(err error) bool {
		if err != nil {
			t.Error(err)
		}
		return err != nil
	}
	for w := range 3 {
		writing.Go(func() {
			for i := range 200 {
				own := fmt.Sprintf("%d:%d", w, i)
				err := db.Update(ns, [][]byte{key}, func(tx *engine.Tx) error {
					if w == 0 && i%50 == 49 { // from the plain form again
						rec, err := tx.LoadAny(key)
						if err != nil {
							return err
						}
						tx.Drop(&rec)
						return setAll(key, pairs...)(tx)
					}
					ttl := hash.TTL{Do: hash.SetTTL, At: tx.Now() + int64(1+i%4)}
					_, err := hash.SetEx(tx, key, raw(own, "v"), ttl, hash.AnyField)
					return err
				})
				if fail(err) {
					return
				}
			}
		})
	}
	for r := range 3 {
		reading.Go(func() {
			tx := db.NewTx()
			for {
				select {
				case <-done:
					return
				default:
				}
				var err error
				if r == 0 {
					tx.Begin(ns)
					var n uint64
					if n, err = hash.Len(tx, key); err == nil && n < always {
						err = fmt.Errorf("%d fields, at least %d are always there", n, always)
					}
					tx.Release()
				} else {
					err = db.View(ns, [][]byte{key}, func(tx *engine.Tx) error {
						kv, err := all(tx, key)
						if err == nil && len(kv)/2 < always {
							err = fmt.Errorf("%d fields, at least %d are always there", len(kv)/2, always)
						}
						return err
					})
				}
				if fail(err) {
					return
				}
			}
		})
	}
	writing.Wait()
	close(done)
	reading.Wait()
}
