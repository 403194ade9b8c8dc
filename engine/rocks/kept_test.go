package rocks

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"runtime"
	"slices"
	"testing"
)

// TestBuffersOfReads: after a large value a thread gives its buffer back; that of a small one is used again.
func TestBuffersOfReads(t *testing.T) {
	d := openTest(t)
	f := d.Family(0)
	sizes := []int{100, 60 << 10, 1000 << 10, 5 << 20}
	for _, size := range sizes { // they stay in the memtable, from which RocksDB copies
		put(t, d, 0, fmt.Append(nil, size), bytes.Repeat([]byte("v"), size))
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	const limit = 1<<20 + 4<<10 // for one value and for a batch, and what small strings have of their own
	for _, size := range sizes {
		key := fmt.Append(nil, size)
		value, found, err := d.Get(f, key, nil)
		if err != nil || !found || len(value) != size {
			t.Fatalf("%d: %d bytes, %v, %v", size, len(value), found, err)
		}
		if n := keptByThread(); n > 2*limit || size < 1<<20 && n < size {
			t.Errorf("%d bytes are kept after a value of %d", n, size)
		}
		const many = 16
		res, err := d.MultiGet(f, bytes.Repeat(key, many), slices.Repeat([]uint32{uint32(len(key))}, many), nil)
		if err != nil || len(res) != many*(4+size) || binary.LittleEndian.Uint32(res) != uint32(size) {
			t.Fatalf("%d in a batch: %d bytes, %v", size, len(res), err)
		}
		if n := keptByThread(); n > 2*limit {
			t.Errorf("%d bytes are kept after a batch of values of %d", n, size)
		}
	}
	if _, found, err := d.Get(f, []byte("missing"), nil); found || err != nil {
		t.Errorf("missing: %v, %v", found, err)
	}
	if n := keptByThread(); n > 2*limit {
		t.Errorf("%d bytes are kept at the end", n)
	}
}
