package maintenance

import (
	"runtime/debug"
	"testing"
	"time"
)

// TestHeapReturn: when the heap is cleaned up.
func TestHeapReturn(t *testing.T) {
	cleaned := 0
	debug.FreeOSMemory()
	h := newHeapReturn()
	h.clean = func() { cleaned++; debug.FreeOSMemory() }
	h.tick()
	h.tick()
	if cleaned > 0 {
		t.Fatal("a heap that has not grown is cleaned up")
	}
	use := make([]byte, 2*maxReturning)
	h.tick()
	if cleaned > 0 {
		t.Fatal("it is cleaned up while much is being allocated")
	}
	// What other tests have left behind may still allocate, so that a look finds no quiet.
	lookUntil := func(n int) {
		for end := time.Now().Add(time.Minute); cleaned < n && time.Now().Before(end); {
			h.tick()
		}
	}
	lookUntil(1)
	if cleaned != 1 {
		t.Fatalf("cleaned up %d times after it has grown", cleaned)
	}
	before, _ := h.read()
	use[0] = 1 // in use until here
	lookUntil(2)
	if after, _ := h.read(); before-min(before, after) < maxReturning {
		t.Errorf("what was in use when it was cleaned up stays: %d MiB, then %d", before>>20, after>>20)
	}
	settled := cleaned
	for range 4 * lastWait {
		h.tick()
	}
	if cleaned != settled {
		t.Errorf("cleaned up %d times for nothing", cleaned-settled)
	}

	use = make([]byte, 2*maxReturning)
	for range 4 * lastWait {
		h.tick()
	}
	often := cleaned
	for range 4 * lastWait {
		h.tick()
	}
	if cleaned != often || often-settled > 12 {
		t.Errorf("a heap that has grown for good is cleaned up %d and %d times", often-settled, cleaned-often)
	}
	use[0] = 1
}

// TestHeapReturnFromTheStart: a heap that has grown before the first tick is cleaned up, too.
func TestHeapReturnFromTheStart(t *testing.T) {
	debug.FreeOSMemory()
	cleaned := false
	h := newHeapReturn()
	h.clean = func() { cleaned = true; debug.FreeOSMemory() }
	use := make([]byte, 2*maxReturning)
	for end := time.Now().Add(time.Minute); !cleaned && time.Now().Before(end); {
		h.tick()
	}
	if !cleaned {
		t.Error("what came before the first tick stays")
	}
	use[0] = 1
}

// TestHeapReturnWhenIdle: a server that becomes idle is cleaned up once, however little its heap has grown.
func TestHeapReturnWhenIdle(t *testing.T) {
	h := newHeapReturn()
	h.clean = debug.FreeOSMemory
	lookUntil := func(done func() bool) {
		t.Helper()
		for end := time.Now().Add(time.Minute); !done(); h.tick() {
			if time.Now().After(end) {
				t.Fatal("it is not cleaned up")
			}
		}
	}
	lookUntil(func() bool { return h.cleaned > 0 }) // what the start of the program has allocated
	for range 3 {
		cleaned := 0
		h.clean = func() { cleaned++; debug.FreeOSMemory() }
		held, _ := h.read()
		garbage = make([]byte, max(2*minReturning, held))
		garbage = nil
		h.tick()
		if cleaned > 0 {
			t.Fatal("it is cleaned up while it is busy")
		}
		lookUntil(func() bool { return cleaned > 0 })
		for range 4 * idleTicks {
			h.tick()
		}
		if cleaned != 1 {
			t.Fatalf("an idle server is cleaned up %d times", cleaned)
		}
	}
}

var garbage []byte
