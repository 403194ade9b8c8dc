package session

import (
	"testing"
	"time"
)

// TestTurn: replies wait while other clients make use of it, and ever more rarely while they do not.
func TestTurn(t *testing.T) {
	type phase struct {
		took    time.Duration // of each wait
		others  bool          // others ran meanwhile
		replies int
		waits   int // of these replies
	}
	for _, c := range []struct {
		name   string
		phases []phase
	}{
		{"others run", []phase{{longTurn, true, 1000, 1000}}},
		{"nobody else runs", []phase{{0, false, 1, 1}, {0, false, 2, 1}, {0, false, 4, 1}, {0, false, 8, 1}}},
		{"nor later", []phase{{0, false, 63, 6}, {0, false, 64, 1}, {0, false, 64, 1}}},
		{"others take long", []phase{{longTurn + 1, true, 64, 1}, {longTurn + 1, true, 316, 1}}},
		{"very often", []phase{{longTurn + 1, true, 1 << 20, 259}}},
		{"and no longer", []phase{{longTurn + 1, true, 64, 1}, {longTurn, true, 100, 100}}},
		{"others run again", []phase{{0, false, 3, 2}, {0, true, 3, 0}, {0, true, 100, 100}}},
	} {
		var own turn
		for i, p := range c.phases {
			waits := 0
			for range p.replies {
				if own.due() {
					waits++
					own.waited(p.took, p.others)
				}
			}
			if waits != p.waits {
				t.Errorf("%s: %d of %d replies of phase %d wait, not %d", c.name, waits, p.replies, i, p.waits)
			}
		}
	}
}
