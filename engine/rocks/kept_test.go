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

// TestLongValues: a value that does not fit the caller's buffer is whole, alone and among others, in memory and on disk,
// and its head can be read without the rest.
func TestLongValues(t *testing.T) {
	d := openTest(t)
	f := d.Family(0)
	values := map[string][]byte{"a": []byte("short"), "b": nil, "c": bytes.Repeat([]byte("0123456789abcdef"), 1<<17), "e": bytes.Repeat([]byte("x"), 5000)}
	for key, value := range values {
		put(t, d, 0, []byte(key), value)
	}
	names := []string{"a", "b", "c", "d", "e"} // there is no d
	check := func(where string) {
		t.Helper()
		for _, name := range names {
			for _, room := range []int{0, 10, 1 << 12, 4 << 20} {
				dst := append(make([]byte, 0, 1+room), '>')
				got, found, err := d.Get(f, []byte(name), dst)
				want, there := values[name]
				if err != nil || found != there || found && !bytes.Equal(got, append([]byte(">"), want...)) {
					t.Errorf("%s: %s with room for %d: %d bytes, %v, %v", where, name, room, len(got), found, err)
				}
				head := make([]byte, room)
				size, found, err := d.GetHead(f, []byte(name), head)
				if err != nil || found != there || size != len(want) || !bytes.Equal(head[:min(room, size)], want[:min(room, size)]) {
					t.Errorf("%s: head of %s in %d bytes: %d, %v, %v", where, name, room, size, found, err)
				}
			}
		}
		for _, room := range []int{0, 100, 4 << 20} {
			res, err := d.MultiGet(f, []byte("abcde"), []uint32{1, 1, 1, 1, 1}, make([]byte, room))
			if err != nil {
				t.Fatal(err)
			}
			for _, name := range names {
				want, there := values[name]
				n := binary.LittleEndian.Uint32(res)
				if res = res[4:]; !there {
					if n != Missing {
						t.Errorf("%s: %s of several with room for %d: %d bytes", where, name, room, n)
					}
					continue
				}
				if int(n) != len(want) || !bytes.Equal(res[:n], want) {
					t.Fatalf("%s: %s of several with room for %d: %d bytes", where, name, room, n)
				}
				res = res[n:]
			}
		}
	}
	check("memtable")
	if err := d.Flush(f); err != nil {
		t.Fatal(err)
	}
	check("file")
}
