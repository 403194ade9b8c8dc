package engine_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/enginetest"
	"github.com/basaltdb/basalt/internal/require"
)

type noJob struct{ t *testing.T }

func (j noJob) RunCombined(*engine.Tx) int {
	j.t.Error("the job was run")
	return 1
}

// keysApart returns n keys no two of which have one lock, as any two keys have in one of 16384 databases.
func keysApart(t *testing.T, db *engine.DB, ns string, n int) (apart [][]byte) {
	t.Helper()
	tx := db.NewTx()
	tx.Begin(ns)
	defer tx.Release()
	for i := 0; len(apart) < n; i++ {
		key := fmt.Appendf(nil, "key%d", i)
		if tx.Holds(key) { // for one of those before
			continue
		}
		if !tx.TryLock(key) {
			t.Fatalf("the lock of %s is not free", key)
		}
		apart = append(apart, key)
	}
	return apart
}

// Those who want what the transaction has locked, before or after it turns others away, get its error; what it holds
// for reading others may read.
func TestFailWaiters(t *testing.T) {
	db := enginetest.Open(t)
	busy := errors.New("busy")
	apart := keysApart(t, db, "ns", 3)
	written, read, other := apart[0], apart[1], apart[2]
	slow := db.NewTx()
	slow.Begin("ns")
	slow.AddLock(written, true)
	slow.AddLock(read, false)
	require.NoError(t, slow.Acquire())
	// want is how each way to take a lock ends.
	type way struct {
		name string
		take func() error
		want error
	}
	take := func(take func(tx *engine.Tx) error) func() error {
		return func() error {
			tx := db.NewTx()
			tx.Begin("ns")
			defer tx.Release()
			err := take(tx)
			if err == nil && tx.FailsWaiters() {
				t.Error("it turns others away")
			}
			return err
		}
	}
	update := func(key []byte) func() error {
		return func() error { return db.Update("ns", [][]byte{key}, func(*engine.Tx) error { return nil }) }
	}
	view := func(key []byte) func() error {
		return func() error { return db.View("ns", [][]byte{key}, func(*engine.Tx) error { return nil }) }
	}
	or := func(key []byte) func() error {
		return take(func(tx *engine.Tx) error {
			tx.AddLock(key, true)
			_, err := tx.AcquireOrCombine(noJob{t})
			return err
		})
	}
	ways := []way{
		{"write written", update(written), busy}, {"read written", view(written), busy}, {"queue for written",
			or(written), busy},
		{"write read", update(read), busy}, {"queue for read", or(read), busy},
		{"all", take((*engine.Tx).AcquireAll), busy}, {"barrier", db.Barrier, busy},
	}
	type result struct {
		way
		err error
	}
	results := make(chan result)
	for _, w := range ways {
		go func() { results <- result{w, w.take()} }()
	}
	slow.FailWaiters(busy)
	for range ways {
		if r := <-results; r.err != r.want {
			t.Errorf("%s, perhaps before: %v, want %v", r.name, r.err, r.want)
		}
	}
	ways = append(ways, way{"read read", view(read), nil}, way{"write other", update(other), nil},
		way{"queue for other", or(other), nil})
	for _, w := range ways {
		if err := w.take(); err != w.want {
			t.Errorf("%s: %v, want %v", w.name, err, w.want)
		}
	}
	try := db.NewTx()
	try.Begin("ns")
	if try.TryLock(written) || try.TryRLock(written) || try.TryLock(read) || !try.TryRLock(read) {
		t.Error("locks that can be had without waiting")
	}
	try.Release()
	// One reads beside the slow one: neither becomes a writer.
	try.Begin("ns")
	if !try.TryRLock(read) || try.TryLock(read) || try.Holds(read) || slow.TryLock(read) || slow.Holds(read) {
		t.Error("a reader becomes a writer beside another one")
	}
	try.Release()
	if !slow.TryLock(read) || !slow.Holds(read) {
		t.Error("the slow one does not become a writer of what it alone reads")
	}
	if err := view(read)(); err != busy {
		t.Errorf("reading what the slow one may write: %v", err)
	}
	ways = slices.DeleteFunc(ways, func(w way) bool { return w.name == "read read" })
	// What it takes later counts too.
	if !slow.TryLock(other) || !slow.Holds(other) {
		t.Fatal("it cannot take one more lock")
	}
	if err := view(other)(); err != busy {
		t.Errorf("a lock taken later: %v", err)
	}
	if db.Blocked() != busy || !slow.FailsWaiters() {
		t.Error("it turns nobody away")
	}
	slow.Put(0, []byte("x"), []byte("y"))
	require.NoError(t, slow.Commit())
	if err := view(written)(); err != busy {
		t.Errorf("after the commit: %v", err)
	}
	slow.Release()
	if db.Blocked() != nil || slow.FailsWaiters() {
		t.Error("it still turns others away")
	}
	for _, w := range ways {
		if err := w.take(); err != nil {
			t.Errorf("%s, at the end: %v", w.name, err)
		}
	}
	// The same with all locks, and without any.
	for _, all := range []bool{true, false} {
		slow.Begin("ns")
		if all {
			require.NoError(t, slow.AcquireAll())
		}
		slow.FailWaiters(busy)
		want := map[bool]error{true: busy}[all]
		if err := view(other)(); err != want {
			t.Errorf("all=%v: %v, want %v", all, err, want)
		}
		if err := db.Barrier(); err != busy {
			t.Errorf("all=%v: barrier: %v", all, err)
		}
		slow.Release()
		if err := update(other)(); err != nil {
			t.Error(err)
		}
	}
}
