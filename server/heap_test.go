package server_test

import (
	"bytes"
	"fmt"
	"runtime/debug"
	"runtime/metrics"
	"testing"
	"time"

	"github.com/basaltdb/basalt/server/servertest"
)

// TestLargeValuesLeaveNoMemory: when large values were written and read, the server returns the heap memory that they
// took to the system soon.
func TestLargeValuesLeaveNoMemory(t *testing.T) {
	// The allowed growth: the growth that triggers a cleanup, and the garbage of the start, which is freed before.
	const allowed = 136 << 20
	samples := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}, {Name: "/memory/classes/heap/objects:bytes"},
		{Name: "/memory/classes/heap/unused:bytes"}, {Name: "/memory/classes/heap/free:bytes"}}
	heap := func() (held, allocated uint64) {
		metrics.Read(samples)
		for _, s := range samples[1:] {
			held += s.Value.Uint64()
		}
		return held, samples[0].Value.Uint64()
	}
	debug.FreeOSMemory() // garbage of other tests would raise the size that the server measures at its start
	c := servertest.Start(t).Dial(t)
	c.Do("PING")
	before, begin := heap()
	value := bytes.Repeat([]byte("v"), 64<<20)
	for i := range 4 {
		key := fmt.Sprintf("large%d", i)
		c.Do("SET", key, string(value))
		c.Do("STRLEN", key)
		c.Do("GETRANGE", key, "0", "10000000")
	}
	value = nil
	grown, allocated := heap() // the server may have cleaned up already
	if allocated -= begin; allocated < 2*allowed {
		t.Fatalf("only %d bytes were allocated, too few for the test", allocated)
	}
	for end := time.Now().Add(servertest.Patience); ; time.Sleep(time.Millisecond) {
		held, _ := heap()
		if held-min(held, before) <= allowed {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("the heap has %d MiB; it had %d before the values and %d after them", held>>20, before>>20, grown>>20)
		}
	}
}
