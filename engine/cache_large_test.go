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
		t.Skip(err)
	}
	var pages int
	if _, err := fmt.Sscan(string(b), &pages); err != nil {
		t.Fatal(err)
	}
	return pages * os.Getpagesize()
}

// TestLargeSlotsAreGivenBack: the slab of the large slots is not in Go's heap, and goes with the cache all the same.
func TestLargeSlotsAreGivenBack(t *testing.T) {
	const slab = 1 << 30 // address space only: nothing is written
	before := virtual(t)
	c := newRecordCache(128<<20, slab)
	if c.large.groups == 0 {
		t.Skip("the system has no memory for it")
	}
	if with := virtual(t); with-before < slab*9/10 {
		t.Fatalf("the address space grew from %d to %d bytes, a slab has %d", before, with, slab)
	}
	runtime.KeepAlive(c)
	for end := time.Now().Add(20 * time.Second); virtual(t)-before > slab/2; runtime.Gosched() {
		runtime.GC()
		if time.Now().After(end) {
			t.Fatalf("the address space grew from %d to %d bytes and stays so", before, virtual(t))
		}
	}
}
