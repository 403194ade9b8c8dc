package checkpoint

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/enginetest"
	"github.com/basaltdb/basalt/internal/require"
)

func write(t *testing.T, db *engine.DB) {
	t.Helper()
	enginetest.Update(t, db, enginetest.Bytes("k"), func(tx *engine.Tx) error {
		tx.Put(cf.PubSub, []byte("k"), []byte("v"))
		return nil
	})
}

// TestSharing: replicas that connect soon get the same checkpoint, and later ones a newer one, unless a replica is
// fetching.
func TestSharing(t *testing.T) {
	db := enginetest.Open(t)
	write(t, db)
	dir := filepath.Join(t.TempDir(), "checkpoint")
	synctest.Test(t, func(t *testing.T) {
		f := New(db, zap.NewNop(), dir)
		list := func() time.Time {
			t.Helper()
			names, err := f.List(time.Minute)
			require.NoError(t, err)
			if len(names) < 3 || names[len(names)-1] != "CURRENT" || !slices.IsSorted(names[:len(names)-1]) {
				t.Errorf("%q", names)
			}
			return f.made
		}
		first := list()
		write(t, db)
		time.Sleep(time.Minute)
		if list() != first {
			t.Error("one that is young is not shared")
		}
		time.Sleep(31 * time.Second)
		second := list()
		if second == first {
			t.Error("an old one is shared")
		}
		require.NoError(t, f.Enter([]string{"CURRENT"}))
		time.Sleep(time.Hour)
		if list() != second {
			t.Error("one that somebody fetches is gone")
		}
		if _, deleted := f.Expire(time.Now()); deleted {
			t.Error("one that somebody fetches was deleted")
		}
		f.Leave()
		if next := f.Needs(); next != 3 {
			t.Errorf("its users need the log from %d on", next)
		}
		time.Sleep(time.Minute)
		if next, deleted := f.Expire(time.Now()); next != 3 || !deleted {
			t.Errorf("one that nobody fetches: %d, %t", next, deleted)
		}
		if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
			t.Error(err)
		}
	})
}

// TestWant: a replica does not get a shared checkpoint without writes that it has had, unless another one is fetching,
// and none from which the log does not go on.
func TestWant(t *testing.T) {
	db := enginetest.Open(t)
	write(t, db)
	dir := filepath.Join(t.TempDir(), "checkpoint")
	synctest.Test(t, func(t *testing.T) {
		f := New(db, zap.NewNop(), dir)
		list := func() uint64 {
			t.Helper()
			if _, err := f.List(time.Hour); err != nil {
				t.Fatal(err)
			}
			return f.seq
		}
		first := list()
		time.Sleep(time.Minute) // nobody is fetching any more
		write(t, db)
		f.Want(first)
		if got := list(); got != first {
			t.Errorf("one that has enough is not shared, but made for %d", got)
		}
		f.Want(first + 1)
		f.Want(first)
		if got := list(); got != first {
			t.Errorf("one that a replica is about to fetch is gone, there is one for %d", got)
		}
		require.NoError(t, f.Enter([]string{"CURRENT"}))
		time.Sleep(3 * time.Second)
		if got := list(); got != first {
			t.Errorf("one that a replica is fetching is gone, there is one for %d", got)
		}
		f.Leave()
		time.Sleep(3 * time.Second)
		if got := list(); got <= first {
			t.Errorf("one without writes that the replica has had is shared: %d", got)
		}
		second := f.made
		write(t, db)
		time.Sleep(time.Minute)
		f.Lacks(f.seq)
		if list(); f.made != second {
			t.Error("the second one is not shared")
		}
		require.NoError(t, f.Enter([]string{"CURRENT"}))
		f.Lacks(f.seq + 1)
		if list(); f.made == second {
			t.Error("one from which the log does not go on is shared")
		}
	})
}

// TestEnter: only files of the checkpoint can be fetched.
func TestEnter(t *testing.T) {
	f := New(enginetest.Open(t), zap.NewNop(), filepath.Join(t.TempDir(), "checkpoint"))
	if err := f.Enter([]string{"CURRENT"}); err != ErrNoFile {
		t.Errorf("without a checkpoint: %v", err)
	}
	if _, err := f.List(0); err != nil {
		t.Fatal(err)
	}
	if err := f.Enter([]string{"CURRENT", "../db/CURRENT"}); err != ErrNoFile {
		t.Error(err)
	}
	require.NoError(t, f.Enter([]string{"CURRENT"}))
	file, err := f.Open("CURRENT")
	require.NoError(t, err)
	defer file.Close()
	if b, err := io.ReadAll(file); err != nil || string(b[:9]) != "MANIFEST-" {
		t.Errorf("%q, %v", b, err)
	}
}
