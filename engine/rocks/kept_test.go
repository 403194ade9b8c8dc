package rocks

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"runtime"
	"slices"
	"testing"

	"github.com/basaltdb/basalt/internal/require"
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
		res, err := d.MultiGet(nil, f, bytes.Repeat(key, many), slices.Repeat([]uint32{uint32(len(key))}, many), 0, nil)
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

// TestLongValues: a value that does not fit the caller's buffer is whole, alone and among others, in memory and on
// disk, and its head can be read without the rest.
func TestLongValues(t *testing.T) {
	d := openTest(t)
	f := d.Family(0)
	values := map[string][]byte{"a": []byte("short"), "b": nil, "c": bytes.Repeat([]byte("0123456789abcdef"), 1<<17),
		"e": bytes.Repeat([]byte("x"), 5000)}
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
				if err != nil || found != there || size != len(want) ||
					!bytes.Equal(head[:min(room, size)], want[:min(room, size)]) {
					t.Errorf("%s: head of %s in %d bytes: %d, %v, %v", where, name, room, size, found, err)
				}
				var held Held
				open := LiveObjects()
				got, found, err = d.GetHeld(f, []byte(name), append(make([]byte, 0, 1+room), '>'), &held)
				if err != nil || found != there || found && !bytes.Equal(got[1:], want[:min(room, len(want))]) ||
					(held.Size() > 0) != (len(want) > room) {
					t.Errorf("%s: %s held with room for %d: %d bytes of %d, %v, %v", where, name, room, len(got),
						held.Size(), found, err)
				}
				if n := held.Size(); n > 0 {
					part := make([]byte, n/2)
					if held.Copy(n-len(part), part); n != len(want) || !bytes.Equal(part, want[n-len(part):]) {
						t.Errorf("%s: the end of %s, of which %d bytes are held, is another", where, name, n)
					}
				}
				held.Close()
				held.Close()
				if n := LiveObjects(); n != open || held.Size() != 0 {
					t.Errorf("%s: %d values are held after Close", where, n-open)
				}
			}
		}
		for _, tt := range [][2]int{{0, 0}, {100, 0}, {4 << 20, 0}, {0, 1000}, {100, 3}, {4 << 20, 5000}} {
			room, most := tt[0], tt[1]
			res, err := d.MultiGet(nil, f, []byte("abcde"), []uint32{1, 1, 1, 1, 1}, most, make([]byte, room))
			require.NoError(t, err)
			for _, name := range names {
				want, there := values[name]
				n := binary.LittleEndian.Uint32(res)
				if res = res[4:]; !there {
					if n != Missing {
						t.Errorf("%s: %s of several with room for %d: %d bytes", where, name, room, n)
					}
					continue
				}
				if most > 0 && len(want) > most {
					want = want[:most]
				}
				if int(n) != len(values[name]) || !bytes.Equal(res[:len(want)], want) {
					t.Fatalf("%s: %s of several with room for %d: %d bytes, at most %d of each", where, name, room, n, most)
				}
				res = res[len(want):]
			}
		}
	}
	check("memtable")
	require.NoError(t, d.Flush(f))
	check("file")
}
