package server

import (
	"bytes"
	"fmt"
	"testing"
)

// TestLargeValuesLeaveNoMemory: what the heap has taken for large values that were written and read, it gives back as
// soon as it is looked at in a quiet moment.
func TestLargeValuesLeaveNoMemory(t *testing.T) {
	s := start(t)
	c := s.dial(t)
	c.do("PING")
	var heap heapReturn
	heap.look()
	before := heap.base
	value := bytes.Repeat([]byte("v"), 64<<20)
	for i := range 4 {
		key := fmt.Sprintf("large%d", i)
		c.do("SET", key, string(value))
		c.do("STRLEN", key)
		c.do("GETRANGE", key, "0", "10000000")
	}
	value = nil
	grown, _ := heap.read()
	if grown-before < worthReturning {
		t.Fatalf("the heap has grown by %d bytes only: the test shows nothing", grown-before)
	}
	heap.look() // not quiet since the last one
	heap.look()
	if held, _ := heap.read(); held-min(held, before) > worthReturning {
		t.Errorf("%d MiB are held, %d before the values, %d after them", held>>20, before>>20, grown>>20)
	}
}

// TestHeapReturn: when the heap is cleaned up.
func TestHeapReturn(t *testing.T) {
	cleaned := 0
	h := heapReturn{clean: func() { cleaned++ }}
	h.look()
	h.look()
	if cleaned > 0 {
		t.Fatal("a heap that has not grown is cleaned up")
	}
	use := make([]byte, worthReturning+1<<20)
	h.look()
	if cleaned > 0 {
		t.Fatal("it is cleaned up while much is being allocated")
	}
	h.look()
	if cleaned != 1 {
		t.Fatalf("cleaned up %d times after it has grown", cleaned)
	}
	h.look()
	h.look()
	if cleaned != 1 {
		t.Fatalf("cleaned up %d times: what is in use is taken for garbage", cleaned)
	}
	use[0] = 1
}
