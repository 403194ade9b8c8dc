package engine_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/basaltdb/basalt/engine"
	enginekeys "github.com/basaltdb/basalt/engine/keys"
	"github.com/basaltdb/basalt/engine/str"
	"github.com/basaltdb/basalt/internal/require"
)

// TestSlotsFitTheDatabase: nothing in the files says whether keys carry the cluster slot, so the keys must.
func TestSlotsFitTheDatabase(t *testing.T) {
	open := func(dir string, slots bool) (*engine.DB, error) {
		return engine.Open(engine.Options{Dir: dir, Slots: slots})
	}
	for _, tt := range []struct {
		name     string
		slots    bool // of who writes
		keys     []string
		accepted bool // in the other form
		says     string
	}{
		{"no keys", false, nil, true, ""},
		{"no keys of a cluster", true, nil, true, ""},
		{"one key", false, []string{"a"}, false, "do not carry the cluster slot"},
		{"one key of a cluster, which may be a plain one by chance", true, []string{"a"}, true, ""},
		{"keys", false, []string{"a", "b", "c"}, false, "do not carry the cluster slot"},
		{"keys of a cluster", true, []string{"a", "{tag}b", "c"}, false, "they carry the cluster slot"},
		{"short keys", false, []string{"", "x"}, false, "do not carry the cluster slot"},
		// 0x3c87 is the slot of "a".
		{"a key that looks like one of a cluster, and others", false, []string{"\x3c\x87a", "\x3e"}, false,
			"do not carry the cluster slot"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir() + "/db"
			db, err := open(dir, tt.slots)
			require.NoError(t, err)
			for _, k := range tt.keys {
				require.NoError(t, db.Update(ns, keys(k), func(tx *engine.Tx) error {
					_, err := str.Set(tx, []byte(k), []byte("v"), str.SetOptions{})
					return err
				}))
			}
			require.NoError(t, db.Close())
			live := engine.LiveObjects()
			db, err = open(dir, !tt.slots)
			if err == nil {
				db.Close()
			}
			if (err == nil) != tt.accepted || err != nil && (!errors.Is(err, engine.ErrSlots) ||
				!strings.Contains(err.Error(), tt.says) || !strings.Contains(err.Error(), dir)) {
				t.Errorf("in the other form: %v", err)
			}
			if n := engine.LiveObjects(); n != live {
				t.Errorf("%d native objects were left open", n-live)
			}
			if db, err = open(dir, tt.slots); err != nil {
				t.Fatalf("in its own form: %v", err)
			}
			for _, k := range tt.keys {
				err := db.View(ns, keys(k), func(tx *engine.Tx) error {
					v, ok, err := str.Get(tx, []byte(k))
					if string(v) != "v" || !ok {
						t.Errorf("%q is %q, %v", k, v, ok)
					}
					return err
				})
				if err != nil {
					t.Error(err)
				}
			}
			if err := db.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// A start does not read large values to find the form of the keys: 16 strings of 512 MiB took 13 s.
func TestSlotsAreFoundWithoutLargeValues(t *testing.T) {
	dir := t.TempDir() + "/db"
	value := make([]byte, 1<<20+1<<16)
	rand.NewChaCha8([32]byte{}).Read(value)
	for range 4 { // each start makes a file of what the log has
		db, err := engine.Open(engine.Options{Dir: dir, Slots: true})
		require.NoError(t, err)
		for i := range 4 {
			storeString(t, db, ns, fmt.Sprint(db.LatestSequence(), i), value)
		}
		require.NoError(t, db.Close())
	}
	db, err := engine.Open(engine.Options{Dir: dir, Slots: true})
	require.NoError(t, err)
	if n := blocksWanted(db); n > 0 {
		t.Errorf("%d blocks were looked for", n)
	}
	require.NoError(t, db.Close())
	if _, err := engine.Open(engine.Options{Dir: dir}); !errors.Is(err, engine.ErrSlots) {
		t.Errorf("in the other form: %v", err)
	}
}

// Deleted keys say nothing about the form of those that will be written, though they are bounds of table files.
func TestSlotsOfDeletedKeys(t *testing.T) {
	stored := []string{"a", "m", "z"}
	for name, remove := range map[string]func(db *engine.DB) error{
		"all":       func(db *engine.DB) error { return db.FlushAll() },
		"namespace": func(db *engine.DB) error { return db.FlushNamespace(ns) },
		"one by one": func(db *engine.DB) error {
			return db.Update(ns, keys(stored...), func(tx *engine.Tx) error {
				_, err := enginekeys.Del(tx, keys(stored...)...)
				return err
			})
		},
	} {
		for _, slots := range []bool{false, true} {
			for _, starts := range []int{1, 2} { // with one start all records are in one file
				t.Run(fmt.Sprintf("%s, slots %v, starts %d", name, slots, starts), func(t *testing.T) {
					dir := t.TempDir() + "/db"
					open := func(slots bool) *engine.DB {
						db, err := engine.Open(engine.Options{Dir: dir, Slots: slots})
						require.NoError(t, err)
						return db
					}
					db := open(slots)
					for _, key := range stored {
						storeString(t, db, ns, key, []byte("v"))
					}
					if starts > 1 {
						require.NoError(t, db.Close())
						db = open(slots)
					}
					require.NoError(t, remove(db))
					require.NoError(t, db.Close())
					require.NoError(t, open(!slots).Close())
				})
			}
		}
	}
}
