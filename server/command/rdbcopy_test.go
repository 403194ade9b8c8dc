package command

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/enginetest"
	"github.com/basaltdb/basalt/internal/require"
	"github.com/basaltdb/basalt/server/rdb"
)

// copied writes a copy of a database and reads the file.
func copied(t *testing.T, db *engine.DB, o RDBCopy) (items []*rdb.Item, done RDBCopied) {
	t.Helper()
	var file bytes.Buffer
	done, err := o.Write(context.Background(), db, &file)
	require.NoError(t, err)
	f, err := rdb.NewFile(bytes.NewReader(file.Bytes()), int64(file.Len()), 1<<30)
	require.NoError(t, err)
	for {
		i, err := f.Next()
		if err == io.EOF {
			return items, done
		}
		require.NoError(t, err)
		items = append(items, i)
	}
}

// fillLarge makes keys of all types, small ones and some of several parts.
func fillLarge(t *testing.T, db *engine.DB) {
	t.Helper()
	const n = 5000
	args := map[string][]string{"RPUSH": nil, "SADD": nil, "HSET": nil, "ZADD": nil}
	for i := range n {
		s := fmt.Sprintf("element-%020d", i)
		args["RPUSH"] = append(args["RPUSH"], s)
		args["SADD"] = append(args["SADD"], s)
		args["HSET"] = append(args["HSET"], s, s)
		args["ZADD"] = append(args["ZADD"], fmt.Sprint(float64(i)/4), s)
		do(t, db, "XADD", "large XADD", fmt.Sprintf("%d-1", i+1), "field", s)
	}
	for name, list := range args {
		do(t, db, append([]string{name, "large " + name}, list...)...)
		do(t, db, append([]string{name, "small " + name}, list[:4]...)...)
	}
	do(t, db, "XADD", "small XADD", "1-1", "field", "value")
	do(t, db, "XDEL", "large XADD", "7-1")
	do(t, db, "XGROUP", "CREATE", "large XADD", "group", "5-1")
	do(t, db, "XREADGROUP", "GROUP", "group", "consumer", "COUNT", "3", "STREAMS", "large XADD", ">")
	do(t, db, "SET", "small SET", "12")
	do(t, db, "SET", "large SET", strings.Repeat("value", 100_000))
	do(t, db, "RPUSH", "large element", "a", strings.Repeat("value", 100_000), "b")
	do(t, db, "SETBIT", "small SETBIT", "77", "1")
	do(t, db, "SETBIT", "large SETBIT", fmt.Sprint(5*8*bitmapPart/2), "1")
	do(t, db, "PFADD", "small PFADD", "a", "b")
}

// TestRDBCopy: every value of the file is what DUMP shows, with its expiry; keys of other namespaces are not in it.
func TestRDBCopy(t *testing.T) {
	db := enginetest.Open(t)
	fillLarge(t, db)
	do(t, db, "PEXPIREAT", "small SET", "9000000000000")
	require.NoError(t, db.Update("other", [][]byte{[]byte("theirs")}, func(tx *engine.Tx) error {
		rec := tx.Fresh([]byte("theirs"), cf.TypeString)
		tx.SaveAppend(&rec, []byte("v"))
		return nil
	}))
	db2 := cf.DatabaseNamespace(2)
	require.NoError(t, db.Update(db2, [][]byte{[]byte("second")}, func(tx *engine.Tx) error {
		rec := tx.Fresh([]byte("second"), cf.TypeString)
		tx.SaveAppend(&rec, []byte("v"))
		tx.Put(cf.Propagate, []byte(cf.PropagateLibrary+"lib"), []byte("#!lua name=lib\n"))
		return nil
	}))
	items, done := copied(t, db, RDBCopy{Databases: 4, MaxString: 512 << 20})
	if string(items[0].Function) != "#!lua name=lib\n" {
		t.Errorf("%+v is not the library", items[0])
	}
	last := items[len(items)-1]
	if last.DB != 2 || string(last.Key) != "second" || string(last.Value.String) != "v" {
		t.Errorf("%+v is not the key of database 2", last)
	}
	items = items[1 : len(items)-1]
	want := (strings.Count(do(t, db, "KEYS", "*"), "\r\n") - 1) / 2
	if len(items) != want || done.Keys != int64(want)+1 || done.Libraries != 1 ||
		len(done.Skipped) != 0 {
		t.Errorf("%d keys instead of %d; %+v", len(items), want, done)
	}
	other := enginetest.OpenPlain(t, engine.Options{Dir: t.TempDir() + "/db"})
	for _, i := range items {
		key := string(i.Key)
		want := do(t, db, "DUMP", key)
		require.NoError(t, other.Update(cf.DefaultNamespace, [][]byte{i.Key}, func(tx *engine.Tx) error {
			return RestoreKey(tx, i.Key, i.Value, i.Expire)
		}))
		if got := do(t, other, "DUMP", key); got != want {
			t.Errorf("%s: %d bytes, want %d: %.60q", key, len(got), len(want), got)
		}
		if got, want := do(t, other, "PEXPIRETIME", key), do(t, db, "PEXPIRETIME", key); got != want {
			t.Errorf("%s expires at %q, want %q", key, got, want)
		}
	}
	items, _ = copied(t, db, RDBCopy{NoKeys: true})
	if len(items) != 1 {
		t.Errorf("without keys: %d items", len(items))
	}
	items, _ = copied(t, db, RDBCopy{NoLibraries: true, MaxString: 512 << 20})
	if len(items) != want {
		t.Errorf("of database 0, without libraries: %d items", len(items))
	}
}

// TestRDBCopySlots: in a cluster the keys of the database begin with their slots, and those of the file do not.
func TestRDBCopySlots(t *testing.T) {
	db := enginetest.OpenWith(t, engine.Options{Dir: t.TempDir() + "/db", Slots: true})
	do(t, db, "SET", "a", "1")
	do(t, db, "HSET", "b", "f", "v")
	items, _ := copied(t, db, RDBCopy{MaxString: 10})
	names := make([]string, 0, 2)
	for _, i := range items {
		names = append(names, string(i.Key))
	}
	if slices.Sort(names); !slices.Equal(names, []string{"a", "b"}) {
		t.Errorf("%q", names)
	}
}

// TestRDBCopySkips: what a Redis 7.2 does not have is left out, and counted.
func TestRDBCopySkips(t *testing.T) {
	db := enginetest.Open(t)
	for _, c := range []string{"SIADD si 1", "BF.ADD bf a", "JSON.SET json $ 1", "TDIGEST.CREATE td", "TS.ADD ts 1 1",
		"CF.ADD cf a", "SET long 0123456789abcdef", "SETBIT longbits 200 1", "HSET h f v g w",
		"HPEXPIREAT h 9000000000000 FIELDS 1 f", "HSET gone f v", "SET short a"} {
		if got := do(t, db, strings.Fields(c)...); got[0] == '-' {
			t.Fatalf("%s: %s", c, got)
		}
	}
	items, done := copied(t, db, RDBCopy{MaxString: 10})
	var got []string
	for _, i := range items {
		if got = append(got, string(i.Key)); i.Value.Expires != nil {
			t.Errorf("%s: fields expire", i.Key)
		}
	}
	if want := []string{"gone", "h", "short"}; !slices.Equal(got, want) || done.Keys != 3 {
		t.Errorf("%q, want %q; %+v", got, want, done)
	}
	want := map[string]int64{skippedSize: 2, skippedExpiries: 1}
	for _, typ := range []cf.Type{cf.TypeSortedInt, cf.TypeBloom, cf.TypeJSON, cf.TypeTDigest, cf.TypeTimeSeries,
		cf.TypeCuckooFilter} {
		want[fmt.Sprintf(skippedType, typ)] = 1
	}
	if !maps.Equal(done.Skipped, want) || done.Example[skippedExpiries] != `"h"` {
		t.Errorf("%+v, want %v", done, want)
	}
}

var errNoRoom = errors.New("no room")

// fewWrites takes a number of writes.
type fewWrites int

func (f *fewWrites) Write(b []byte) (int, error) {
	if *f--; *f < 0 {
		return 0, errNoRoom
	}
	return len(b), nil
}

// TestRDBCopyEnds: an error of the writer, or the end of the context, ends a copy in the middle of a collection.
func TestRDBCopyEnds(t *testing.T) {
	db := enginetest.Open(t)
	fillLarge(t, db)
	for n := range 12 {
		w := fewWrites(n)
		_, err := RDBCopy{MaxString: 1 << 30}.Write(context.Background(), db, &w)
		if !errors.Is(err, errNoRoom) || w != -1 {
			t.Errorf("%d writes: %v, %d", n, err, w)
		}
	}
	for n := range 12 {
		ctx, cancel := context.WithCancel(context.Background())
		w := cancelling{n, cancel}
		if _, err := (RDBCopy{MaxString: 1 << 30}).Write(ctx, db, &w); !errors.Is(err, context.Canceled) || w.left < -2 {
			t.Errorf("%d writes: %v, %d", n, err, w.left)
		}
		cancel()
	}
}

// cancelling cancels a context with one of its writes.
type cancelling struct {
	left   int
	cancel func()
}

func (c *cancelling) Write(b []byte) (int, error) {
	if c.left--; c.left < 0 {
		c.cancel()
	}
	return len(b), nil
}

// heapMeter measures the memory in use while a file is being written.
type heapMeter struct {
	writes, bytes int
	most          uint64
}

func (h *heapMeter) Write(b []byte) (int, error) {
	if h.bytes += len(b); h.writes%32 == 0 {
		h.most = max(h.most, heapInUse())
	}
	h.writes++
	return len(b), nil
}

func heapInUse() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// TestRDBCopyMemory: only parts of large collections are in memory.
func TestRDBCopyMemory(t *testing.T) {
	const n, each = 40_000, 200
	for _, name := range []string{"RPUSH", "SADD", "ZADD", "HSET", "XADD", "SETBIT"} {
		t.Run(name, func(t *testing.T) {
			db := enginetest.Open(t)
			args := []string{name, "k"}
			for i := range n {
				s := fmt.Sprintf("%0*d", each, i)
				switch name {
				case "ZADD":
					args = append(args, fmt.Sprint(i), s)
				case "HSET":
					args = append(args, fmt.Sprint(i), s)
				case "XADD":
					args = append(args[:2], fmt.Sprintf("%d-1", i+1), "f", s)
				case "SETBIT":
				default:
					args = append(args, s)
				}
				if len(args) > 1000 || name == "XADD" {
					do(t, db, args...)
					args = args[:2]
				}
			}
			if name == "SETBIT" {
				args = append(args[:2], fmt.Sprint(n*each*8), "1")
			}
			do(t, db, args...)
			args = nil
			before := heapInUse()
			var h heapMeter
			if _, err := (RDBCopy{MaxString: 512 << 20}).Write(context.Background(), db, &h); err != nil {
				t.Fatal(err)
			}
			if more := int64(h.most) - int64(before); h.bytes < n*each || more > n*each/3 {
				t.Errorf("%d bytes in memory for a file of %d", more, h.bytes)
			}
		})
	}
}
