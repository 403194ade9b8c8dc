package slotdata

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/batch"
	"github.com/basaltdb/basalt/engine/enginetest"
	"github.com/basaltdb/basalt/engine/hash"
	"github.com/basaltdb/basalt/engine/keys"
	"github.com/basaltdb/basalt/engine/set"
	"github.com/basaltdb/basalt/engine/zset"
)

func open(t *testing.T) *engine.DB {
	return enginetest.OpenWith(t, engine.Options{Dir: t.TempDir() + "/db", Slots: true})
}

// update runs f with the key locked.
func update(t *testing.T, db *engine.DB, key string, f func(tx *engine.Tx, key []byte) error) {
	t.Helper()
	enginetest.Update(t, db, enginetest.Bytes(key), func(tx *engine.Tx) error { return f(tx, []byte(key)) })
}

func hset(field string) func(*engine.Tx, []byte) error {
	return func(tx *engine.Tx, key []byte) error {
		_, err := hash.Set(tx, key, enginetest.Bytes(field, "v"))
		return err
	}
}

func fill(t *testing.T, db *engine.DB) {
	update(t, db, "{foo}h", hset("a"))
	update(t, db, "{foo}h", hset("b"))
	update(t, db, "{foo}z", func(tx *engine.Tx, key []byte) error {
		_, _, err := zset.Add(tx, key, 0, []zset.Entry{{Member: []byte("m"), Score: 1}})
		return err
	})
	update(t, db, "{foo}gone", func(tx *engine.Tx, key []byte) error {
		_, err := set.Add(tx, key, enginetest.Bytes("x"))
		return err
	})
	update(t, db, "{foo}gone", func(tx *engine.Tx, key []byte) error {
		_, err := keys.Del(tx, key)
		return err
	})
	update(t, db, "{bar}h", hset("a"))
}

func slotOf(tag string) cf.SlotRange {
	s := cf.Slot([]byte(tag))
	return cf.SlotRange{First: s, Last: s}
}

// TestReader: the reader returns the keys of the slots with their elements. It leaves out dead keys, other slots and
// later writes.
func TestReader(t *testing.T) {
	db := open(t)
	fill(t, db)
	r := NewReader(db, time.Now().UnixMilli())
	defer r.Close()
	if r.Seq != db.LatestSequence() {
		t.Errorf("the snapshot is of %d", r.Seq)
	}
	update(t, db, "{foo}late", hset("a"))
	update(t, db, "{foo}h", hset("late"))
	var got []string
	err := r.Each(slotOf("foo"), func(k *Key) error {
		text := fmt.Sprintf("%s %s", k.Meta.Type, k.Name)
		err := r.Elements(k, func(e *Element) error {
			text += fmt.Sprintf(" %s", e.Sub)
			return nil
		})
		got = append(got, text)
		return err
	})
	if want := []string{"hash {foo}h a b", "zset {foo}z m"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("%q, %v; want %q", got, err, want)
	}
	for id, want := range map[cf.ID]int{cf.Default: 3, cf.ZSetScore: 1, cf.Stream: 0} {
		n := 0
		if err := r.Subkeys(id, slotOf("foo"), func(_, _ []byte) error { n++; return nil }); err != nil || n != want {
			t.Errorf("%s: %d records, want %d: %v", id, n, want, err)
		}
	}
	for key, there := range map[string]bool{"{foo}h": true, "{foo}gone": false, "{foo}late": false, "{bar}h": true} {
		k, err := r.Find(cf.AppendNSKey(nil, cf.DefaultNamespace, []byte(key), true))
		if err != nil || (k != nil) != there {
			t.Errorf("%s: %v, %v", key, k, err)
		}
	}
}

// TestChanges: a batch of the log yields the records of the slots; a flush is an error.
func TestChanges(t *testing.T) {
	key := func(k string) []byte { return cf.AppendNSKey(nil, cf.DefaultNamespace, []byte(k), true) }
	var b batch.Builder
	b.LogData(cf.AppendLogType(nil, cf.TypeString))
	b.Put(cf.Metadata, key("{foo}a"), []byte("1"))
	b.Put(cf.Metadata, key("{bar}a"), []byte("2"))
	b.Put(cf.Propagate, key("{foo}p"), []byte("3"))
	b.Delete(cf.Metadata, key("{foo}b"))
	lower, upper := engine.SlotBounds(cf.SlotRange{Last: cf.NumSlots - 1})
	b.DeleteRange(cf.Default, lower, upper)
	var c Changes
	c.Bounds(slotOf("foo"))
	read := func(skip int) (got []string, err error) {
		c.Rep, c.Skip = b.Bytes(), skip
		err = c.Each(func(rec *batch.Record) error {
			switch rec.Kind {
			case batch.LogData:
				got = append(got, "log")
			case batch.DeleteRange:
				if string(rec.Key) != string(c.lower) || string(rec.Value) != string(c.upper) {
					t.Errorf("a range from %x to %x", rec.Key, rec.Value)
				}
				got = append(got, "range")
			default:
				got = append(got, fmt.Sprintf("%s@%d", UserKey(rec.Key), c.Seq))
			}
			return nil
		})
		return got, err
	}
	for skip, want := range map[int]string{0: "log {foo}a@0 {foo}b@3 range", 1: "log {foo}b@3 range", 5: "log"} {
		if got, err := read(skip); err != nil || strings.Join(got, " ") != want {
			t.Errorf("without %d records: %q, %v; want %q", skip, got, err, want)
		}
	}
	b.DeleteRange(cf.Metadata, lower, upper)
	if _, err := read(0); err != ErrFlushed {
		t.Error(err)
	}
}
