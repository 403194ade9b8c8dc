package engine

import (
	"fmt"
	"os"
	"runtime"
	"testing"
	"time"
)

// virtual returns how much address space the process has, in bytes.
func virtual(t *testing.T) int {
	t.Helper()
	b, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		t.Fatal(err)
	}
	var pages int
	if _, err := fmt.Sscan(string(b), &pages); err != nil {
		t.Fatal(err)
	}
	return pages * os.Getpagesize()
}

// TestLargeSlotsAreGivenBack: the slab of the large slots is not in Go's heap, and goes with the cache all the same.
func TestLargeSlotsAreGivenBack(t *testing.T) {
	const slab = 256 << 20 // address space only: nothing is written
	before := virtual(t)
	c := newRecordCache(128<<20, slab)
	if c.large.groups == 0 {
		t.Fatal("there are no large slots")
	}
	with := virtual(t)
	if with-before < slab*9/10 {
		t.Fatalf("the address space grew from %d to %d bytes, a slab has %d", before, with, slab)
	}
	runtime.KeepAlive(c)
	// The rest of the cache stays in Go's heap, and under the race detector there is more that belongs to it.
	for end := time.Now().Add(20 * time.Second); with-virtual(t) < slab*9/10; runtime.Gosched() {
		runtime.GC()
		if time.Now().After(end) {
			t.Fatalf("the address space shrank from %d to %d bytes only, a slab has %d", with, virtual(t), slab)
		}
	}
}
