package session

import (
	"testing"
	"time"
)

// TestWriteFailures: the beginning and the end of a series of failed writes are logged, and errors of another kind.
func TestWriteFailures(t *testing.T) {
	var f writeFailures
	now := time.Now()
	fails := func(text string, sequence uint64, want bool) {
		t.Helper()
		if got := f.failed(text, now, sequence); got != want {
			t.Errorf("%q is logged: %v", text, got)
		}
	}
	ends := func(sequence uint64, want int64, wantTook time.Duration) {
		t.Helper()
		if n, took := f.ended(now, func() uint64 { return sequence }); n != want || took != wantTook {
			t.Errorf("ended after %d failures and %v, want %d and %v", n, took, want, wantTook)
		}
	}
	ends(5, 0, 0)
	fails("full", 5, true)
	for range 30 {
		now = now.Add(time.Second)
		fails("full", 5, false)
		ends(5, 0, 0)
	}
	fails("broken", 5, true)
	fails("full", 5, false) // within the same second
	now = now.Add(time.Minute)
	ends(5, 0, 0) // nothing was written meanwhile
	ends(6, 33, 30*time.Second)
	ends(7, 0, 0)
	fails("full", 7, true)
	now = now.Add(time.Second / 2)
	fails("full", 8, false) // the writes of others succeed
	ends(9, 0, 0)
	now = now.Add(time.Second)
	ends(9, 2, time.Second/2)
}
