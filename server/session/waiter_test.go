package session

import (
	"testing"
	"time"

	"github.com/basaltdb/basalt/server/command"
)

// TestRearm: a waiter tries again when its last try has said so. One that knew some of the keys only does not put it
// off.
func TestRearm(t *testing.T) {
	w := &waiter{}
	now := time.Now()
	near := func(what string, hours int) {
		t.Helper()
		if d := w.deadline().Sub(now.Add(time.Duration(hours) * time.Hour)); d < 0 || d > time.Hour/2 {
			t.Errorf("%s: the deadline is %v, want in %d hours", what, w.deadline(), hours)
		}
	}
	if sooner := w.rearm(true); sooner || !w.deadline().IsZero() {
		t.Errorf("%v %v, but the command never tries again", sooner, w.deadline())
	}
	for _, tt := range []struct {
		what          string
		again         int // hours
		alone, sooner bool
		deadline      int // hours
	}{
		{"first", 3, false, true, 3},
		{"later, of some keys", 5, false, false, 3},
		{"later, of all keys", 5, true, false, 5},
		{"sooner, of some keys", 2, false, true, 2},
		{"sooner, of all keys", 1, true, true, 1},
	} {
		w.wait.Again = time.Duration(tt.again) * time.Hour
		if got := w.rearm(tt.alone); got != tt.sooner {
			t.Errorf("%s: %v", tt.what, got)
		}
		near(tt.what, tt.deadline)
	}
	w.state, w.wait.Again = alone, 4*time.Hour
	if w.endAlone(command.ErrNotReady) {
		t.Error("the end of a try in vain is a reply")
	}
	near("tried alone", 4)
	w.until = now.Add(3 * time.Hour)
	near("timeout before", 3)
	w.until = now.Add(5 * time.Hour)
	near("timeout after", 4)
}
