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

// TestMemoryIsGivenBack: the memory of the records is not in Go's heap, and goes with the cache all the same.
func TestMemoryIsGivenBack(t *testing.T) {
	const most = 256 << 20 // address space only: little is written
	c := New(1<<20, most, nil)
	middle := uintptr(unsafe.Pointer(&c.memory.Bytes[most/2]))
	if !mapped(t, middle) {
		t.Fatal("there is no memory")
	}
	runtime.GC()
	if !mapped(t, middle) {
		t.Fatal("the memory of a cache that is in use is gone")
	}
	runtime.KeepAlive(c)
	for end := time.Now().Add(time.Minute); mapped(t, middle); runtime.Gosched() {
		runtime.GC()
		if time.Now().After(end) {
			t.Fatal("the memory is still there")
		}
	}
}
