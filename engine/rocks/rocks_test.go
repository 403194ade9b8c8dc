package rocks

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/linxGnu/grocksdb"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine/batch"
)

func put(t testing.TB, d *DB, family cf.ID, key, value []byte) {
	t.Helper()
	var b batch.Builder
	b.Reset()
	b.Put(family, key, value)
	if _, err := d.Write(b.Bytes(), 0); err != nil {
		t.Fatal(err)
	}
}

func openTest(t testing.TB) *DB {
	t.Helper()
	before := LiveObjects()
	d := scoreDB(t, t.TempDir()+"/db", true)
	t.Cleanup(func() {
		d.Close(false)
		if n := LiveObjects(); n != before {
			t.Errorf("%d native objects were left open", n-before)
		}
	})
	return d
}

// TestGetGrowsItsBuffer reads values around and far beyond the room that the caller has.
func TestGetGrowsItsBuffer(t *testing.T) {
	d := openTest(t)
	f := d.Family(0)
	for _, n := range []int{0, 1, 15, 16, 17, 1000, 1 << 20} {
		value := bytes.Repeat([]byte{byte(n)}, n)
		put(t, d, 0, []byte("k"), value)
		for _, room := range []int{0, 16, 4096} {
			dst := append(make([]byte, 0, 3+room), "old"...)
			got, found, err := d.Get(f, []byte("k"), dst)
			if err != nil || !found || !bytes.Equal(got, append([]byte("old"), value...)) {
				t.Errorf("a value of %d bytes into room for %d: %d bytes, %v, %v", n, room, len(got), found, err)
			}
		}
	}
	if got, found, err := d.Get(f, []byte("none"), []byte("old")); found || err != nil || string(got) != "old" {
		t.Errorf("a missing key: %q, %v, %v", got, found, err)
	}
	if _, found, err := d.Get(f, nil, nil); found || err != nil {
		t.Errorf("the empty key: %v, %v", found, err)
	}
}

func TestMultiGetGrowsItsBuffer(t *testing.T) {
	d := openTest(t)
	for _, n := range []int{0, 10, 5000} {
		var keys []byte
		var lens []uint32
		want := 0
		for i := range 20 {
			key := fmt.Appendf(nil, "k%d-%d", n, i)
			keys = append(keys, key...)
			lens = append(lens, uint32(len(key)))
			want += 4
			if i%3 > 0 {
				put(t, d, 0, key, bytes.Repeat([]byte{byte(i)}, n+i))
				want += n + i
			}
		}
		res, err := d.MultiGet(nil, d.Family(0), keys, lens, 0, make([]byte, 0, 64))
		if err != nil || len(res) != want {
			t.Fatalf("%d bytes, %v, want %d", len(res), err, want)
		}
		for i := range 20 {
			l := uint32(res[0]) | uint32(res[1])<<8 | uint32(res[2])<<16 | uint32(res[3])<<24
			res = res[4:]
			if (l == Missing) != (i%3 == 0) {
				t.Fatalf("key %d: length %x", i, l)
			}
			if l != Missing {
				if int(l) != n+i || !bytes.Equal(res[:l], bytes.Repeat([]byte{byte(i)}, n+i)) {
					t.Fatalf("key %d has %d bytes", i, l)
				}
				res = res[l:]
			}
		}
	}
}

// TestIterChunks reads ranges that need several chunks, entries that fit into no buffer, and skips within and
// beyond a chunk.
func TestIterChunks(t *testing.T) {
	d := openTest(t)
	f := d.Family(0)
	const n = 500
	value := func(i int) []byte {
		size := i
		if i%100 == 50 {
			size = 200 << 10
		}
		return bytes.Repeat([]byte{byte(i)}, size)
	}
	for i := range n {
		put(t, d, 0, fmt.Appendf(nil, "k%03d", i), value(i))
	}
	for _, limit := range []int{0, 1, 10, 40} {
		for _, skip := range []int{0, 1, 7, 49, 50, 300, n - 1, n, n + 10} {
			for _, flags := range []IterFlags{0, Reverse, KeysOnly, NoFill | AsyncIO} {
				it := d.NewIter(f, &Range{Flags: flags, Limit: limit, Skip: uint64(skip), Strip: 1}, make([]byte, 0, 100))
				i := skip
				for ; it.Next(); i++ {
					at := i
					if flags&Reverse != 0 {
						at = n - 1 - i
					}
					want := value(at)
					if flags&KeysOnly != 0 {
						want = nil
					}
					if string(it.Key()) != fmt.Sprintf("%03d", at) || !bytes.Equal(it.Value(), want) {
						t.Fatalf("limit %d skip %d flags %d: entry %d is %s with %d bytes", limit, skip, flags, i,
							it.Key(), len(it.Value()))
					}
					if i == skip+3 {
						i += int(it.Skip(20))
					}
				}
				if it.Err() != nil || i < n || skip <= n && i != n {
					t.Errorf("limit %d skip %d flags %d: ended at entry %d, %v", limit, skip, flags, i, it.Err())
				}
				it.Close()
			}
		}
	}
	it := d.NewIter(f, &Range{ValueMax: 10}, nil)
	for it.Next() {
		if len(it.Value()) > 10 {
			t.Fatalf("%s: %d bytes of the value", it.Key(), len(it.Value()))
		}
	}
	it.Close()
	it = d.NewIter(f, &Range{}, nil)
	it.Next()
	it.Close() // before the end
	it.Close()
	if it.Next() {
		t.Error("a closed iterator has a next entry")
	}
}

func TestCountAndSnapshot(t *testing.T) {
	d := openTest(t)
	f := d.Family(0)
	for i := range 100 {
		put(t, d, 0, fmt.Appendf(nil, "k%02d", i), nil)
	}
	snap := d.NewSnapshot()
	defer snap.Close()
	var b batch.Builder
	b.Reset()
	b.DeleteRange(0, []byte("k50"), []byte("k60"))
	if _, err := d.Write(b.Bytes(), Sync); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		snap         *Snapshot
		lower, upper string
		max          uint64
		want         uint64
	}{
		{nil, "", "", 0, 90}, {snap, "", "", 0, 100}, {nil, "k45", "k65", 0, 10}, {snap, "k45", "k65", 0, 20},
		{nil, "k45", "k65", 7, 7}, {nil, "k65", "k45", 0, 0}, {nil, "k99", "", 0, 1}, {nil, "", "k01", 0, 1}, {nil,
			"", "a", 0, 0},
	} {
		for _, reverse := range []bool{false, true} {
			if n, err := d.Count(f, tt.snap, []byte(tt.lower), []byte(tt.upper), tt.max, reverse); err != nil || n != tt.want {
				t.Errorf("Count(%q, %q, max %d, reverse %v) = %d, %v, want %d", tt.lower, tt.upper, tt.max, reverse,
					n, err, tt.want)
			}
		}
	}
}

// TestErrorsHaveText: a batch that RocksDB refuses is an error with its code.
func TestErrorsHaveText(t *testing.T) {
	var b batch.Builder
	b.Reset()
	b.Put(0, []byte("k"), []byte("v"))
	good := bytes.Clone(b.Bytes())
	b.Put(9, []byte("k"), []byte("v")) // there is no such family
	for name, rep := range map[string][]byte{
		"an unknown family": b.Bytes(),
		"a wrong count":     append(bytes.Clone(good[:8]), append([]byte{9}, good[9:]...)...),
		"cut off":           good[:len(good)-1],
		"no header":         good[:5],
	} {
		t.Run(name, func(t *testing.T) {
			d := openTest(t) // such an error stops the database
			var e *Error
			if _, err := d.Write(rep, 0); !errors.As(err, &e) || e.Text == "" {
				t.Errorf("%#v", err)
			}
		})
	}
}

// TestFailedOpenLeavesNothingOpen opens what cannot be opened.
func TestFailedOpenLeavesNothingOpen(t *testing.T) {
	dir := t.TempDir() + "/db"
	d := scoreDB(t, dir, true)
	before := LiveObjects()
	opt := &Options{BlockCacheSize: 1 << 20, BlockSize: 4096, MaxOpenFiles: -1, RateLimitBytes: 1 << 40,
		RowCacheSize: 1 << 20}
	for name, open := range map[string]func() (*DB, error){
		"in use":              func() (*DB, error) { return Open(dir, []string{"default", "zset_score"}, opt) },
		"a directory missing": func() (*DB, error) { return Open(dir+"/a/b/c", []string{"default"}, opt) },
		"a family twice":      func() (*DB, error) { return Open(dir+"2", []string{"default", "a", "b", "a"}, opt) },
	} {
		if d, err := open(); err == nil {
			d.Close(false)
			t.Errorf("%s: it was opened", name)
		}
		if n := LiveObjects(); n != before {
			t.Errorf("%s: %d native objects were left open", name, n-before)
		}
	}
	d.Close(false)
	if _, err := Open(dir, []string{"default"}, opt); err == nil || !strings.Contains(err.Error(), "zset_score") {
		t.Errorf("opened without one of its families: %v", err)
	}
	o := grocksdb.NewDefaultOptions()
	defer o.Destroy()
	if names, err := grocksdb.ListColumnFamilies(o, dir); err != nil || fmt.Sprint(names) != "[default zset_score]" {
		t.Errorf("families %v, %v", names, err)
	}
}
