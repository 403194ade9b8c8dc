package engine

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/internal/require"
)

// fillBulk opens a new database and puts n strings in a random order.
func fillBulk(t *testing.T, memory, n int, twice bool) (*DB, error) {
	t.Helper()
	db, err := Open(Options{Dir: filepath.Join(t.TempDir(), "db"), DisableWAL: true, RedisBitOrder: true})
	require.NoError(t, err)
	t.Cleanup(func() {
		if err := db.Close(); err != nil && !errors.Is(err, ErrClosed) {
			t.Error(err)
		}
	})
	tmp := filepath.Join(t.TempDir(), "tmp")
	b, err := db.NewBulk(tmp, memory)
	require.NoError(t, err)
	defer func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
		if _, err := os.Stat(tmp); !os.IsNotExist(err) {
			t.Error("files stay:", err)
		}
	}()
	r := rand.New(rand.NewPCG(1, 2))
	value := make([]byte, 100)
	for _, i := range r.Perm(n) {
		key := cf.AppendNSKey(nil, cf.DefaultNamespace, fmt.Appendf(nil, "key:%d", i), false)
		m := cf.Meta{Type: cf.TypeString}
		binary.BigEndian.PutUint64(value, uint64(i))
		if err := b.Put(cf.Metadata, key, append(m.Append(nil), value...)); err != nil {
			return db, err
		}
		b.Counted(cf.DefaultNamespace, 0)
		if twice && i == n/2 {
			if err := b.Put(cf.Metadata, key, append(m.Append(nil), value...)); err != nil {
				return db, err
			}
		}
	}
	return db, b.Finish(nil)
}

// TestBulk fills databases from memory and with runs on the disk, which need more files than one.
func TestBulk(t *testing.T) {
	for _, memory := range []int{64 << 20, 3 << 20} {
		const n = 30_000
		db, err := fillBulk(t, memory, n, false)
		require.NoError(t, err)
		if keys, _ := db.Count(cf.DefaultNamespace); keys != n {
			t.Errorf("%d keys", keys)
		}
		if db.LatestSequence() == 0 {
			t.Error("the database looks as if it were empty")
		}
		check := func(db *DB) {
			require.NoError(t, db.View(cf.DefaultNamespace, nil, func(tx *Tx) error {
				for i := range n {
					rec, err := tx.LoadAny(fmt.Appendf(nil, "key:%d", i))
					if err != nil || !rec.Exists || binary.BigEndian.Uint64(rec.Tail) != uint64(i) {
						return fmt.Errorf("key %d: %v, %v", i, rec.Exists, err)
					}
				}
				if redis, err := tx.RedisBitOrder(); !redis || err != nil {
					t.Error("order of bits:", redis, err)
				}
				return nil
			}))
		}
		check(db)
		dir := db.Dir()
		require.NoError(t, db.Close())
		again, err := Open(Options{Dir: dir})
		require.NoError(t, err)
		check(again)
		if keys, _ := again.Count(cf.DefaultNamespace); keys != n {
			t.Errorf("%d keys after opening", keys)
		}
		require.NoError(t, again.Close())
	}
	if n := LiveObjects(); n != 0 {
		t.Errorf("%d native objects are open", n)
	}
}

func TestBulkKeyTwice(t *testing.T) {
	for _, memory := range []int{64 << 20, 3 << 20} {
		db, err := fillBulk(t, memory, 15_000, true)
		if err == nil || !strings.Contains(err.Error(), "twice") {
			t.Error(err)
		}
		if keys, _ := db.Count(cf.DefaultNamespace); keys != 0 || db.LatestSequence() != 0 {
			t.Error("something is in the database")
		}
	}
}

func TestBulkRefuses(t *testing.T) {
	db, err := Open(Options{Dir: t.TempDir()})
	require.NoError(t, err)
	defer db.Close()
	if _, err := db.NewBulk(filepath.Join(t.TempDir(), "x"), 1<<20); err == nil {
		t.Error("a database with a log")
	}
}

// TestBulkCountsSoon: a key that expires within a minute does not count a millisecond after its expiry.
func TestBulkCountsSoon(t *testing.T) {
	db, err := Open(Options{Dir: filepath.Join(t.TempDir(), "db")})
	require.NoError(t, err)
	defer db.Close()
	keys := bulkCounts{}
	const now = 2_000_000_000_000
	const soon, later = now + 30_500, now + 3_600_500
	for _, end := range []uint64{soon, soon, later, 0, now - 5000} {
		keys.add("ns", end, now)
	}
	if n := keys["ns"].total(); n != 5 {
		t.Errorf("%d keys in all", n)
	}
	counter := db.counts.of("ns")
	counter.Reset(now)
	keys.apply(db, now)
	for _, tt := range []struct{ at, want int64 }{{now, 4}, {soon, 4}, {soon + 1, 2}, {later + 500, 1}} {
		if s := counter.State(tt.at, 0); s.Keys != tt.want || !s.Exact {
			t.Errorf("%d ms later: %+v, want %d", tt.at-now, s, tt.want)
		}
	}
}

// TestBulkCountsBounded: any number of expiries takes a table of a bounded size.
func TestBulkCountsBounded(t *testing.T) {
	keys := bulkCounts{}
	const n = 10 * soonMost
	for now := range int64(n) {
		keys.add("ns", uint64(now+1000), now)
	}
	if c := keys["ns"]; len(c.soon) > soonMost || len(c.ends) > n/1000+1 || c.total() != n {
		t.Errorf("%d milliseconds, %d seconds, %d keys", len(c.soon), len(c.ends), c.total())
	}
}
