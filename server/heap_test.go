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

// TestLargeValuesLeaveNoMemory: what the heap has taken for large values that were written and read, it gives back in
// the next quiet moment.
func TestLargeValuesLeaveNoMemory(t *testing.T) {
	const little = 136 << 20 // the growth that causes a cleaning, and garbage of the start that was collected before
	samples := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}, {Name: "/memory/classes/heap/objects:bytes"},
		{Name: "/memory/classes/heap/unused:bytes"}, {Name: "/memory/classes/heap/free:bytes"}}
	heap := func() (held, allocated uint64) {
		metrics.Read(samples)
		for _, s := range samples[1:] {
			held += s.Value.Uint64()
		}
		return held, samples[0].Value.Uint64()
	}
	debug.FreeOSMemory() // garbage of other tests would raise what the server takes as its base
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
	if allocated -= begin; allocated < 2*little {
		t.Fatalf("%d bytes were allocated: the test shows nothing", allocated)
	}
	for end := time.Now().Add(servertest.Patience); ; time.Sleep(time.Millisecond) {
		held, _ := heap()
		if held-min(held, before) <= little {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%d MiB are held, %d before the values, %d after them", held>>20, before>>20, grown>>20)
		}
	}
}
