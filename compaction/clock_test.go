package compaction

import (
	"testing"
	"time"
)

func TestClock(t *testing.T) {
	const begin, day = 1_000_000_000_000, 24 * 60 * 60 * 1000
	var c Clock
	for _, step := range []struct {
		what                 string
		system, steady, want int64 // behind begin
	}{
		{"the first time", 0, 1, 0},
		{"goes on", 1000, 1001, 1000},
		{"a small step", 61_000, 2001, 61_000},
		{"set back", 5000, 3001, 5000},
		{"set forward", 400*day + 6000, 4001, 6000},
		{"still", 400*day + 9000, 7001, 9000},
		{"set back again", 10_000, 8001, 10_000},
		{"after a long time without a call", day + 10_000, day + 8001, day + 10_000},
		{"set forward again", 9 * day, day + 9001, day + 11_000},
		{"for less than a day", 10*day - 1, 2*day + 9000, 2*day + 10_999},
		{"for a day", 10 * day, 2*day + 9001, 10 * day},
		{"goes on", 10*day + 5, 2*day + 9006, 10*day + 5},
	} {
		got := c.Now(begin+step.system, time.Duration(step.steady)*time.Millisecond)
		if got != begin+step.want {
			t.Errorf("%s: %d, want %d", step.what, got-begin, step.want)
		}
	}
}
