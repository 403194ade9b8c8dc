package engine_test

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/enginetest"
)

// TestUpdatesAfter reads a log of five batches with three records each.
func TestUpdatesAfter(t *testing.T) {
	db := enginetest.Open(t)
	const perBatch = 3
	for i := range 5 {
		setHash(t, db, fmt.Sprint("k", i), "a", "b")
	}
	latest := db.LatestSequence()
	if latest != 5*perBatch {
		t.Fatalf("the latest sequence number is %d", latest)
	}
	for _, tt := range []struct {
		name    string
		after   uint64
		limit   engine.UpdatesLimit
		batches int
		last    uint64
		err     string
	}{
		{"all", 0, engine.UpdatesLimit{Batches: 100, Bytes: 1 << 20}, 5, 15, ""},
		{"strict", 0, engine.UpdatesLimit{Batches: 100, Bytes: 1 << 20, Strict: true}, 5, 15, ""},
		{"some", 0, engine.UpdatesLimit{Batches: 2, Bytes: 1 << 20}, 2, 6, ""},
		{"from the end of a batch", 6, engine.UpdatesLimit{Batches: 2, Bytes: 1 << 20, Strict: true}, 2, 12, ""},
		{"from within a batch", 7, engine.UpdatesLimit{Batches: 1, Bytes: 1 << 20}, 1, 9, ""},
		{"from within a batch, strict", 7, engine.UpdatesLimit{Batches: 1, Bytes: 1 << 20, Strict: true}, 0, 0,
			"mismatched sequence number, expected 8 but got 7"},
		{"nothing new", 15, engine.UpdatesLimit{Batches: 1, Bytes: 1 << 20, Strict: true}, 0, 15, ""},
		{"not written yet", 16, engine.UpdatesLimit{Batches: 1, Bytes: 1 << 20}, 0, 0, "next sequence is out of range"},
		{"the greatest number", math.MaxUint64, engine.UpdatesLimit{Batches: 1, Bytes: 1 << 20}, 0, 0,
			"next sequence is out of range"},
		{"few bytes", 0, engine.UpdatesLimit{Batches: 100, Bytes: 1}, 1, 3, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			u, err := db.UpdatesAfter(tt.after, tt.limit)
			if tt.err != "" {
				if err == nil || err.Error() != tt.err {
					t.Errorf("%v, want %q", err, tt.err)
				}
				return
			}
			if err != nil || len(u.Batches) != tt.batches || u.Last != tt.last || u.Latest != latest {
				t.Errorf("%d batches up to %d of %d, %v; want %d up to %d of %d", len(u.Batches), u.Last, u.Latest,
					err, tt.batches, tt.last, latest)
			}
		})
	}
}

// TestUpdatesOfAPurgedLog: what is gone is passed over, unless that is an error.
func TestUpdatesOfAPurgedLog(t *testing.T) {
	o := engine.DefaultRocksOptions()
	o.WALTTLSeconds, o.WALSizeLimitMB = 0, 0 // files go as soon as they are not needed
	db := enginetest.OpenWith(t, engine.Options{Dir: t.TempDir() + "/db", Rocks: o})
	for i := range 20 {
		setHash(t, db, fmt.Sprint("k", i), "f")
		if i == 9 {
			purgeLog(t, db)
		}
	}
	limit := engine.UpdatesLimit{Batches: 100, Bytes: 1 << 20}
	u, err := db.UpdatesAfter(3, limit)
	if err != nil || len(u.Batches) != 10 || u.Last != 40 {
		t.Errorf("%d batches up to %d, %v", len(u.Batches), u.Last, err)
	}
	limit.Strict = true
	if _, err := db.UpdatesAfter(4, limit); err == nil ||
		err.Error() != "mismatched sequence number, expected 5 but got 21" {
		t.Errorf("strict: %v", err)
	}
}

// TestUpdatesWithoutLog: when nothing goes to the log there is nothing to be read, and that is an error.
func TestUpdatesWithoutLog(t *testing.T) {
	db := enginetest.OpenWith(t, engine.Options{Dir: t.TempDir() + "/db", DisableWAL: true})
	setHash(t, db, "k", "f")
	if _, err := db.UpdatesAfter(0, engine.UpdatesLimit{Batches: 1, Bytes: 1}); err == nil ||
		!strings.Contains(err.Error(), "iterator is not valid") {
		t.Errorf("%v", err)
	}
}
