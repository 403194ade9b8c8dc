package engine

import (
	"fmt"
	"testing"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/internal/require"
)

// TestReadersOfOtherKeys: while a commit with many keys waits for the disk, everybody reads and locks other keys,
// however many.
func TestReadersOfOtherKeys(t *testing.T) {
	db := openForJobs(t)
	const written, others = 20_000, 20_000
	keys := make([][]byte, written)
	for i := range keys {
		keys[i] = fmt.Appendf(nil, "written%d", i)
	}
	writing, disk := make(chan struct{}), make(chan struct{})
	hook := func() error {
		close(writing)
		<-disk
		return nil
	}
	db.injected.Store(&hook)
	done := make(chan error)
	go func() {
		done <- db.Update("a", keys, func(tx *Tx) error {
			rec := tx.Fresh(keys[0], cf.TypeString)
			tx.SaveAppend(&rec, nil)
			return nil
		})
	}()
	<-writing
	tx := db.NewTx()
	tx.Begin("a")
	blocked := 0
	for i := range others {
		if !tx.TryRLock(fmt.Appendf(nil, "other%d", i)) {
			blocked++
		}
	}
	if tx.TryRLock(keys[1]) {
		t.Error("a key that is being written can be read")
	}
	tx.Release()
	if blocked > 0 {
		t.Errorf("%d of %d keys cannot be read while a commit with %d others waits for the disk", blocked, others, written)
	}
	close(disk)
	if err := <-done; err != nil {
		t.Error(err)
	}
	db.injected.Store(nil)
}

// TestUpgradeOfManyLocks: a transaction finds its locks, few or many, and how it holds them.
func TestUpgradeOfManyLocks(t *testing.T) {
	db := openForJobs(t)
	for _, n := range []int{3, 32, 128} {
		tx := db.NewTx()
		tx.Begin("a")
		key := func(i int) []byte { return fmt.Appendf(nil, "key%d", i) }
		for range 2 {
			for i := range n {
				if !tx.TryRLock(key(i)) || tx.Holds(key(i)) {
					t.Fatalf("%d: reading it is not granted, or counts as writing", i)
				}
			}
		}
		for i := 0; i < n; i += 2 {
			if !tx.TryLock(key(i)) {
				t.Errorf("%d: the only reader does not become a writer", i)
			}
		}
		if len(tx.locks.Held()) != n {
			t.Errorf("%d locks of %d keys", len(tx.locks.Held()), n)
		}
		locks := tx.AppendLocks(nil)
		for range 2 {
			for i := range n {
				if tx.Holds(key(i)) != (i%2 == 0) || !tx.TryRLock(key(i)) {
					t.Errorf("%d of %d: it is not held as it was asked for", i, n)
				}
			}
			tx.Release()
			tx.Begin("a")
			tx.AddLocks(locks)
			require.NoError(t, tx.Acquire())
		}
		for range 2 { // more, behind those that it has waited for
			for i := n; i < 3*n; i++ {
				if !tx.TryLock(key(i)) {
					t.Errorf("%d more than %d: it is not granted", i, n)
				}
			}
		}
		for i := range 3 * n {
			if tx.Holds(key(i)) != (i >= n || i%2 == 0) {
				t.Errorf("%d of %d: it is not held as it was asked for", i, n)
			}
		}
		if len(tx.locks.Held()) != 3*n {
			t.Errorf("%d locks of %d keys", len(tx.locks.Held()), 3*n)
		}
		tx.Release()
	}
}
