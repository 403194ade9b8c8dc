package reccache

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/basaltdb/basalt/internal/require"
)

// mapped reports whether there is memory at an address.
func mapped(t *testing.T, at uintptr) bool {
	t.Helper()
	maps := require.File(t, "/proc/self/maps")
	for line := range strings.Lines(string(maps)) {
		var from, to uintptr
		if _, err := fmt.Sscanf(line, "%x-%x ", &from, &to); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		if from <= at && at < to {
			return true
		}
	}
	return false
}

// TestLargeSlotsAreGivenBack: the slab of the large slots is not in Go's heap, and goes with the cache all the same.
func TestLargeSlotsAreGivenBack(t *testing.T) {
	const slab = 256 << 20 // address space only: nothing is written
	c := New(Size{Small: 1 << 20, SmallMax: 128 << 20, Large: LargeStep, LargeMax: slab})
	if c.large.groups == 0 {
		t.Fatal("there are no large slots")
	}
	middle := uintptr(unsafe.Pointer(&c.large.slab.Bytes[slab/2]))
	if !mapped(t, middle) {
		t.Fatal("there is no slab")
	}
	runtime.GC()
	if !mapped(t, middle) {
		t.Fatal("the slab of a cache that is in use is gone")
	}
	runtime.KeepAlive(c)
	for end := time.Now().Add(time.Minute); mapped(t, middle); runtime.Gosched() {
		runtime.GC()
		if time.Now().After(end) {
			t.Fatal("the slab is still there")
		}
	}
}
