// Package enginetest opens temporary databases for tests and has helpers for the tests of all data types.
package enginetest

import (
	"bytes"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/batch"
	"github.com/basaltdb/basalt/internal/require"
)

// Open opens a database in a temporary directory and closes it at the end of the test. The test fails if native objects
// are left open.
func Open(t testing.TB) *engine.DB {
	t.Helper()
	return OpenWith(t, engine.Options{Dir: t.TempDir() + "/db"})
}

// OpenWith is Open with options.
func OpenWith(t testing.TB, o engine.Options) *engine.DB {
	t.Helper()
	before := engine.LiveObjects()
	t.Cleanup(func() {
		// Fewer are no leak: another database of the test, which stays open, had an iterator for a moment.
		if n := engine.LiveObjects(); n > before {
			t.Errorf("%d native objects were left open", n-before)
		}
	})
	return OpenPlain(t, o)
}

// OpenPlain is OpenWith without the look for native objects, which other databases may hold meanwhile. The test may
// close the database itself.
func OpenPlain(t testing.TB, o engine.Options) *engine.DB {
	t.Helper()
	db, err := engine.Open(o)
	require.NoError(t, err)
	t.Cleanup(func() {
		if err := db.Close(); err != nil && !errors.Is(err, engine.ErrClosed) {
			t.Errorf("close: %v", err)
		}
	})
	return db
}

// Update runs f in a transaction of the default namespace that holds the locks of the keys for writing, and commits it.
func Update(t testing.TB, db *engine.DB, keys [][]byte, f func(tx *engine.Tx) error) {
	t.Helper()
	require.NoError(t, db.Update(cf.DefaultNamespace, keys, f))
}

// View runs f in a transaction of the default namespace that holds the locks of the keys for reading.
func View(t testing.TB, db *engine.DB, keys [][]byte, f func(tx *engine.Tx) error) {
	t.Helper()
	require.NoError(t, db.View(cf.DefaultNamespace, keys, f))
}

// Bytes converts words to byte slices.
func Bytes(words ...string) [][]byte {
	list := make([][]byte, len(words))
	for i, w := range words {
		list[i] = []byte(w)
	}
	return list
}

// Deadline ends the whole test process, with the stacks of all goroutines, when the test has not ended after d. It is
// for tests that wait for native code, which cannot be cancelled. It must be called before Open, so that closing the
// database counts too. Time during which the process or the host is stopped does not count.
func Deadline(t testing.TB, d time.Duration) {
	t.Helper()
	const ticks = 60
	ended := make(chan struct{})
	t.Cleanup(func() { close(ended) })
	go func() {
		tick := time.NewTicker(d / ticks)
		defer tick.Stop()
		for range ticks { // after such a stop the channel holds only one tick
			select {
			case <-tick.C:
			case <-ended:
				return
			}
		}
		debug.SetTraceback("all")
		panic(fmt.Sprintf("%s has not ended after %s", t.Name(), d))
	}()
}

// Batches returns the write batches that f writes to the log. No one else may write meanwhile.
func Batches(t testing.TB, db *engine.DB, f func()) [][]byte {
	t.Helper()
	before := db.LatestSequence()
	f()
	return LogFrom(t, db, before+1)
}

// LogFrom returns the write batches in the log from a sequence number on.
func LogFrom(t testing.TB, db *engine.DB, seq uint64) (batches [][]byte) {
	t.Helper()
	if db.LatestSequence() < seq {
		return nil
	}
	wal, err := db.WAL(seq)
	require.NoError(t, err)
	defer wal.Close()
	for {
		rep, _, err := wal.Next()
		require.NoError(t, err)
		if rep == nil {
			return batches
		}
		batches = append(batches, bytes.Clone(rep))
	}
}

// Records returns the records of write batches, whose memory they share.
func Records(t testing.TB, batches ...[]byte) (records []batch.Record) {
	t.Helper()
	for _, rep := range batches {
		r, err := batch.NewReader(rep)
		require.NoError(t, err)
		for rec, ok := r.Next(); ok; rec, ok = r.Next() {
			records = append(records, rec)
		}
		require.NoError(t, r.Err())
	}
	return records
}

// Show describes write batches.
type Show = func(t testing.TB, batches [][]byte) []string

// Each returns a Show with a line for each record.
func Each(line func(t testing.TB, rec *batch.Record) string) Show {
	return func(t testing.TB, batches [][]byte) (lines []string) {
		t.Helper()
		for _, rec := range Records(t, batches...) {
			lines = append(lines, line(t, &rec))
		}
		return lines
	}
}

// WantBatches checks what f writes to the log, after before has made the data, nil = none: the lines that show makes of
// the batches. Both hold the locks of the keys.
func WantBatches(t testing.TB, db *engine.DB, keys [][]byte, before, f func(tx *engine.Tx) error, show Show,
	want []string) {
	t.Helper()
	if before != nil {
		Update(t, db, keys, before)
	}
	if got := show(t, Batches(t, db, func() { Update(t, db, keys, f) })); !slices.Equal(got, want) {
		t.Errorf("records\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// LastBatch describes the batch in the log that begins with a sequence number: its records, separated by commas,
//
//	log DATA
//	put metadata KEY
//	delete FAMILY KEY SUBKEY
func LastBatch(t testing.TB, db *engine.DB, seq uint64) string {
	t.Helper()
	batches := LogFrom(t, db, seq)
	if len(batches) == 0 {
		t.Fatal("no batch")
	}
	var records []string
	for _, rec := range Records(t, batches[0]) {
		switch {
		case rec.Kind == batch.LogData:
			records = append(records, fmt.Sprintf("log %s", rec.Value))
		case rec.Family == cf.Metadata:
			_, key, err := cf.SplitNSKey(rec.Key, false)
			require.NoError(t, err)
			records = append(records, fmt.Sprintf("%s metadata %s", rec.Kind, key))
		default:
			s, err := cf.ParseSubkey(rec.Key, false)
			require.NoError(t, err)
			records = append(records, fmt.Sprintf("%s %s %s %s", rec.Kind, rec.Family, s.UserKey, s.Sub))
		}
	}
	return strings.Join(records, ", ")
}

// NoAllocs fails the test when each call of f allocates.
func NoAllocs(t testing.TB, name string, f func() error) {
	t.Helper()
	var err error
	got := testing.AllocsPerRun(200, func() {
		if e := f(); e != nil {
			err = e
		}
	})
	require.NoError(t, err)
	if got > 0 { // the rare growth of a buffer vanishes in the average
		t.Errorf("%s: %v allocations", name, got)
	}
}
