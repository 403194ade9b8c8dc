package engine_test

import (
	"bytes"
	"errors"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/enginetest"
	"github.com/basaltdb/basalt/internal/require"
)

func openSlots(t *testing.T) *engine.DB {
	return enginetest.OpenWith(t, engine.Options{Dir: t.TempDir() + "/db", Slots: true})
}

// Deleting slots deletes all of them and nothing else, and DBSIZE knows.
func TestDeleteSlots(t *testing.T) {
	for _, n := range []int{10, 30_000} { // few are counted with all locks, many without
		db := openSlots(t)
		enginetest.Update(t, db, nil, func(tx *engine.Tx) error {
			for i := range n {
				name := fmt.Appendf(nil, "k%d", i)
				rec, err := tx.LoadHead(name)
				if err != nil {
					return err
				}
				rec.Type, rec.Size = cf.TypeHash, 1
				if i%10 == 0 {
					rec.Expire = uint64(tx.Now()) + 1e6
				}
				rec.Version = 7
				tx.Save(&rec, nil)
				tx.Put(cf.Default, append(tx.SubkeyPrefix(&rec), 'f'), []byte("v"))
			}
			return nil
		})
		r := cf.SlotRange{First: 100, Last: 8000}
		want := 0
		for i := range n {
			if !r.Contains(cf.Slot(fmt.Appendf(nil, "k%d", i))) {
				want++
			}
		}
		for range 2 {
			seq := db.LatestSequence()
			require.NoError(t, db.DeleteSlots(r))
			if got, _ := db.Count(cf.DefaultNamespace); got != int64(want) {
				t.Errorf("%d keys are counted, want %d of %d", got, want, n)
			}
			for _, id := range []cf.ID{cf.Metadata, cf.Default} {
				enginetest.View(t, db, nil, func(tx *engine.Tx) error {
					lower, upper := engine.SlotBounds(r)
					in, err := tx.Count(id, lower, upper)
					all, err2 := tx.Count(id, nil, []byte{0xff})
					if err != nil || err2 != nil || in != 0 || all != uint64(want) {
						t.Errorf("%s: %d records of the slots, %d of %d in all: %v %v", id, in, all, want, err, err2)
					}
					return nil
				})
			}
			if seq == db.LatestSequence() {
				break // there was nothing to delete
			}
		}
	}
}

// A reader of the log follows it through its end and through new files.
func TestLogIsFollowed(t *testing.T) {
	db := openSlots(t)
	set := func(i int) {
		enginetest.Update(t, db, nil, func(tx *engine.Tx) error {
			for j := range 3 {
				tx.Put(cf.Propagate, fmt.Appendf(nil, "%d %d", i, j), nil)
			}
			return nil
		})
	}
	set(0)
	l := db.Log(2) // within a batch
	defer l.Close()
	read := func(skip int) {
		t.Helper()
		rep, got, err := l.Next()
		if rep == nil || err != nil || got != skip || l.Sequence() != db.LatestSequence()+1 {
			t.Fatalf("%d bytes, skip %d, next %d of %d: %v", len(rep), got, l.Sequence(), db.LatestSequence(), err)
		}
		if rep, _, err := l.Next(); rep != nil || err != nil {
			t.Fatalf("behind the end there are %d bytes: %v", len(rep), err)
		}
	}
	read(1)
	for i := range 5 {
		set(i)
		read(0)
		if i%2 == 0 {
			if err := db.FlushMemtable(cf.Propagate); err != nil { // begins another log
				t.Fatal(err)
			}
		}
	}
}

// TestDeleteSlotsDuringReplace: a deletion that waits for its locks does not keep the database from being replaced, and
// deletes nothing in the next database.
func TestDeleteSlotsDuringReplace(t *testing.T) {
	enginetest.Deadline(t, time.Minute)
	dir := t.TempDir()
	db := enginetest.OpenWith(t, engine.Options{Dir: dir + "/db", Slots: true})
	setStrings(t, db, "old", 3)
	other := enginetest.OpenPlain(t, engine.Options{Dir: dir + "/other", Slots: true})
	setStrings(t, other, "new", 2)
	require.NoError(t, other.Close())
	deleted := make(chan error, 1)
	err := db.Replace(dir+"/other", func() bool { // no transaction gets a lock any more
		go func() { deleted <- db.DeleteSlots(cf.SlotRange{First: 0, Last: cf.NumSlots - 1}) }()
		stacks := make([]byte, 1<<20)
		for !bytes.Contains(stacks[:runtime.Stack(stacks, true)], []byte("exclusiveRetry")) {
			runtime.Gosched()
		}
		return true
	})
	require.NoError(t, err)
	if err := <-deleted; !errors.Is(err, engine.ErrLoading) {
		t.Error("the deletion ends with", err)
	}
	wantCount(t, db, ns, 2, 0)
	require.NoError(t, db.DeleteSlots(cf.SlotRange{First: 0, Last: cf.NumSlots - 1}))
	wantCount(t, db, ns, 0, 0)
}
