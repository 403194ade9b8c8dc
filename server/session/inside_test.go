package session

import (
	"testing"
	"time"
)

// The peak is the largest value of the present and the previous period.
func TestReplyPeak(t *testing.T) {
	var p replyPeak
	at := time.Duration(0)
	for i, step := range []struct {
		after   time.Duration
		n, want int
		changed bool
	}{
		{0, 10, 10, true},
		{time.Second, 5, 10, false},
		{replyPeriod, 7, 10, false}, // the second period
		{replyPeriod, 3, 7, true},   // the third
		{0, 20, 20, true},
		{2 * replyPeriod, 1, 1, true}, // nothing was sent in the previous period
		{time.Second, 0, 1, false},
	} {
		at += step.after
		if changed := p.note(step.n, at); changed != step.changed || p.get() != step.want {
			t.Errorf("step %d: %d (changed: %v), want %d (%v)", i, p.get(), changed, step.want, step.changed)
		}
	}
}
