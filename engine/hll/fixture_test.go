package hll

import (
	"strconv"
	"testing"

	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/enginetest"
	"github.com/basaltdb/basalt/internal/fixture"
)

// TestRecordedCounts estimates the HyperLogLogs of Kvrocks's own data directory as Kvrocks did.
func TestRecordedCounts(t *testing.T) {
	dir := t.TempDir()
	fixture.Unpack(t, dir)
	db := enginetest.OpenWith(t, engine.Options{Dir: dir + "/db"})
	checked := 0
	for _, r := range fixture.Reads(t) {
		if r.Args[0] != "PFCOUNT" {
			continue
		}
		checked++
		keys := raw(r.Args[1:]...)
		view(t, db, keys, func(tx *engine.Tx) error {
			n, err := Count(tx, keys...)
			if strconv.FormatUint(n, 10) != r.Reply.Text {
				t.Errorf("%q: %d, Kvrocks replied %s", r.Args, n, r.Reply.Text)
			}
			return err
		})
	}
	if checked != 2 {
		t.Errorf("%d recorded counts", checked)
	}
}
