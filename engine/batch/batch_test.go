package batch

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/internal/require"
)

// all reads a batch to its end.
func all(rep []byte) ([]Record, error) {
	r, err := NewReader(rep)
	if err != nil {
		return nil, err
	}
	var recs []Record
	for {
		rec, ok := r.Next()
		if !ok {
			return recs, r.Err()
		}
		recs = append(recs, rec)
	}
}

func TestBuilderBytes(t *testing.T) {
	long := bytes.Repeat([]byte("x"), 300)
	tests := []struct {
		name  string
		build func(*Builder)
		count int
		want  string // after the header
	}{
		{"empty", func(*Builder) {}, 0, ""},
		{"put default", func(b *Builder) { b.Put(cf.Default, []byte("k"), []byte("val")) }, 1, "\x01\x01k\x03val"},
		{"put family", func(b *Builder) { b.Put(cf.Metadata, []byte("k"), nil) }, 1, "\x05\x01\x01k\x00"},
		{"put high family", func(b *Builder) { b.Put(300, []byte("k"), nil) }, 1, "\x05\xac\x02\x01k\x00"},
		{"put long", func(b *Builder) { b.Put(cf.Default, nil, long) }, 1, "\x01\x00\xac\x02" + string(long)},
		{"delete default", func(b *Builder) { b.Delete(cf.Default, []byte("k")) }, 1, "\x00\x01k"},
		{"delete family", func(b *Builder) { b.Delete(cf.ZSetScore, []byte("k")) }, 1, "\x04\x02\x01k"},
		{"single delete default", func(b *Builder) { b.SingleDelete(cf.Default, []byte("k")) }, 1, "\x07\x01k"},
		{"single delete family", func(b *Builder) { b.SingleDelete(cf.Stream, []byte("k")) }, 1, "\x08\x05\x01k"},
		{"delete range default", func(b *Builder) { b.DeleteRange(cf.Default, []byte("a"), []byte("bc")) }, 1,
			"\x0f\x01a\x02bc"},
		{"delete range family", func(b *Builder) { b.DeleteRange(cf.Metadata, []byte("a"), []byte("b")) }, 1,
			"\x0e\x01\x01a\x01b"},
		{"log data does not count", func(b *Builder) { b.LogData([]byte("3 6")) }, 0, "\x03\x033 6"},
		{"truncated", func(b *Builder) {
			m := b.Mark()
			b.Put(cf.Default, long, long)
			b.Truncate(m)
			b.Delete(cf.Default, []byte("k"))
		}, 1, "\x00\x01k"},
		{"appended", func(b *Builder) {
			var o Builder
			b.Append(&o)
			o.LogData([]byte("1"))
			o.Delete(cf.Default, []byte("x"))
			b.Delete(cf.Default, []byte("k"))
			b.Append(&o)
			b.Append(&o)
		}, 3, "\x00\x01k\x03\x011\x00\x01x\x03\x011\x00\x01x"},
		{"reset", func(b *Builder) {
			b.Put(cf.Default, long, long)
			b.Reset()
		}, 0, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var b Builder
			tt.build(&b)
			head := make([]byte, HeaderLen)
			binary.LittleEndian.PutUint32(head[8:], uint32(tt.count))
			if got, want := string(b.Bytes()), string(head)+tt.want; got != want {
				t.Errorf("Bytes\n got %q\nwant %q", got, want)
			}
			if b.Count() != tt.count || b.Len() != HeaderLen+len(tt.want) || b.Empty() != (tt.want == "") {
				t.Errorf("Count %d, Len %d, Empty %v", b.Count(), b.Len(), b.Empty())
			}
		})
	}
}

func TestPutReturnsOffsetOfValue(t *testing.T) {
	var b Builder
	b.LogData([]byte("1"))
	at := b.Put(cf.Metadata, []byte("key"), []byte("old"))
	b.Delete(cf.Default, []byte("x"))
	copy(b.Bytes()[at:], "new")
	recs, err := all(b.Bytes())
	require.NoError(t, err)
	if r := recs[1]; string(r.Value) != "new" || r.ValueOffset != at || string(r.Key) != "key" {
		t.Errorf("after overwriting at %d: %+v", at, r)
	}
}

func TestReaderRecords(t *testing.T) {
	rep := []byte("\x07\x00\x00\x00\x00\x00\x00\x00\x0d\x00\x00\x00" +
		"\x00\x01k" + "\x01\x01k\x01v" + "\x02\x01k\x01v" + "\x03\x01l" +
		"\x04\x02\x01k" + "\x05\x02\x01k\x01v" + "\x06\x02\x01k\x01v" +
		"\x07\x01k" + "\x08\x02\x01k" + "\x09" + "\x0a\x01t" + "\x0b\x01t" + "\x0c\x01t" + "\x0d" +
		"\x0e\x02\x01a\x01b" + "\x0f\x01a\x01b" + "\x10\x02\x01k\x01v" + "\x11\x01k\x01v" + "\x12" + "\x13" +
		"\x15\x01s\x01t" + "\x16\x01k\x01v")
	recs, err := all(rep)
	require.NoError(t, err)
	type short struct {
		Kind   Kind
		Family cf.ID
		Key    string
		Value  string
	}
	want := []short{
		{Delete, 0, "k", ""}, {Put, 0, "k", "v"}, {Merge, 0, "k", "v"}, {LogData, 0, "", "l"},
		{Delete, 2, "k", ""}, {Put, 2, "k", "v"}, {Merge, 2, "k", "v"},
		{SingleDelete, 0, "k", ""}, {SingleDelete, 2, "k", ""}, {BeginPrepare, 0, "", ""},
		{EndPrepare, 0, "", "t"}, {Commit, 0, "", "t"}, {Rollback, 0, "", "t"}, {Noop, 0, "", ""},
		{DeleteRange, 2, "a", "b"}, {DeleteRange, 0, "a", "b"}, {BlobIndex, 2, "k", "v"}, {BlobIndex, 0, "k", "v"},
		{BeginPrepare, 0, "", ""}, {BeginPrepare, 0, "", ""}, {Commit, 0, "s", "t"}, {WideColumns, 0, "k", "v"},
	}
	var got []short
	for _, r := range recs {
		got = append(got, short{r.Kind, r.Family, string(r.Key), string(r.Value)})
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("records\n got %v\nwant %v", got, want)
	}
	r, _ := NewReader(rep)
	if r.Sequence() != 7 || r.Count() != 13 {
		t.Errorf("sequence %d, count %d", r.Sequence(), r.Count())
	}
}

func TestReaderErrors(t *testing.T) {
	head := "\x00\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00"
	tests := []struct {
		name string
		rep  string
		want error
	}{
		{"nothing", "", ErrHeader},
		{"short header", head[:11], ErrHeader},
		{"missing record", head, ErrCount},
		{"surplus record", head + "\x00\x01k\x00\x01k", ErrCount},
		{"log data does not count", head + "\x03\x01k", ErrCount},
		{"no key", head + "\x00", ErrTruncated},
		{"short key", head + "\x00\x02k", ErrTruncated},
		{"no value", head + "\x01\x01k", ErrTruncated},
		{"short value", head + "\x01\x01k\x05v", ErrTruncated},
		{"no family", head + "\x05", ErrTruncated},
		{"length of 4 GiB", head + "\x00\xff\xff\xff\xff\x0fk", ErrTruncated},
		{"length over 32 bits", head + "\x00\xff\xff\xff\xff\x10k", ErrVarint},
		{"endless length", head + "\x00\x80\x80\x80\x80\x80\x80\x01k", ErrVarint},
		{"delete with timestamp is no batch record", head + "\x14\x01k", ErrTag},
		{"tag after the last", head + "\x18\x01k", ErrTag},
		{"tag 0xff", head + "\xff\x01k", ErrTag},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := all([]byte(tt.rep))
			if !errors.Is(err, tt.want) {
				t.Errorf("error %v, want %v", err, tt.want)
			}
		})
	}
}

func TestReaderStaysAtError(t *testing.T) {
	r, err := NewReader([]byte("\x00\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\xff\x00\x01k"))
	require.NoError(t, err)
	for range 2 {
		if rec, ok := r.Next(); ok {
			t.Fatalf("record %+v after an unknown tag", rec)
		}
	}
	if err := r.Reset([]byte("short")); !errors.Is(err, ErrHeader) {
		t.Errorf("Reset: %v", err)
	}
	if _, ok := r.Next(); ok || r.Sequence() != 0 || r.Count() != 0 {
		t.Error("a reader without a batch has contents")
	}
}

func TestLongerVarintsAreAccepted(t *testing.T) {
	recs, err := all([]byte("\x00\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00\x81\x00k"))
	if err != nil || len(recs) != 1 || string(recs[0].Key) != "k" {
		t.Errorf("%v, %v", recs, err)
	}
}

// TestRoundTrip builds random batches and reads them back.
func TestRoundTrip(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	text := func() []byte {
		b := make([]byte, rng.IntN(200))
		for i := range b {
			b[i] = byte(rng.Uint32())
		}
		return b
	}
	var b Builder
	for range 200 {
		b.Reset()
		var want []Record
		for range rng.IntN(20) {
			rec := Record{Offset: b.Len(), Family: cf.ID(rng.IntN(int(cf.NumFamilies)))}
			switch rec.Kind = []Kind{Put, Delete, SingleDelete, DeleteRange, LogData}[rng.IntN(5)]; rec.Kind {
			case Put:
				rec.Key, rec.Value = text(), text()
				b.Put(rec.Family, rec.Key, rec.Value)
			case Delete:
				rec.Key = text()
				b.Delete(rec.Family, rec.Key)
			case SingleDelete:
				rec.Key = text()
				b.SingleDelete(rec.Family, rec.Key)
			case DeleteRange:
				rec.Key, rec.Value = text(), text()
				b.DeleteRange(rec.Family, rec.Key, rec.Value)
			case LogData:
				rec.Family, rec.Value = 0, text()
				b.LogData(rec.Value)
			}
			rec.ValueOffset = b.Len() - len(rec.Value)
			want = append(want, rec)
		}
		got, err := all(b.Bytes())
		require.NoError(t, err)
		equalRecords(t, got, want)
	}
}

func equalRecords(t *testing.T, got, want []Record) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%d records, want %d", len(got), len(want))
	}
	for i, g := range got {
		w := want[i]
		if g.Kind != w.Kind || g.Family != w.Family || !bytes.Equal(g.Key, w.Key) || !bytes.Equal(g.Value, w.Value) ||
			g.Offset != w.Offset || g.ValueOffset != w.ValueOffset {
			t.Fatalf("record %d\n got %+v\nwant %+v", i, g, w)
		}
	}
}

func TestNoAllocations(t *testing.T) {
	var b, group Builder
	key, value := []byte("some key"), []byte("some value")
	build := func() {
		b.Reset()
		group.Reset()
		b.LogData(value)
		m := b.Mark()
		b.Put(cf.Metadata, key, value)
		b.Truncate(m)
		b.Put(cf.Metadata, key, value)
		b.Delete(cf.Default, key)
		group.Append(&b)
		_ = group.Bytes()
	}
	build()
	if n := testing.AllocsPerRun(100, build); n != 0 {
		t.Errorf("%v allocations to build a batch again", n)
	}
	var r Reader
	if n := testing.AllocsPerRun(100, func() {
		if r.Reset(b.Bytes()) != nil {
			t.Fatal("Reset")
		}
		for {
			if _, ok := r.Next(); !ok {
				break
			}
		}
	}); n != 0 {
		t.Errorf("%v allocations to read a batch", n)
	}
}

func TestKindNames(t *testing.T) {
	for k := Put; k <= Rollback; k++ {
		if k.String() == "unknown" || k.String() == "" {
			t.Errorf("kind %d has no name", k)
		}
	}
	if (Rollback + 1).String() != "unknown" {
		t.Error("a kind after the last has a name")
	}
}

// FuzzReader holds the reader against arbitrary bytes: it must not panic, an error must be one of the package's,
// and what it accepts and the builder can write must be read back the same.
func FuzzReader(f *testing.F) {
	f.Add([]byte("\x01\x00\x00\x00\x00\x00\x00\x00\x02\x00\x00\x00\x03\x011\x05\x01\x01k\x01v\x00\x01k"))
	f.Add([]byte("\x01\x00\x00\x00\x00\x00\x00\x00\x02\x00\x00\x00\x0e\x01\x01a\x01b\x08\x02\x01k"))
	f.Add([]byte("\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x09\x0a\x01t\x0b\x01t"))
	f.Fuzz(func(t *testing.T, rep []byte) {
		recs, err := all(rep)
		if err != nil {
			for _, known := range []error{ErrHeader, ErrTruncated, ErrVarint, ErrTag, ErrCount} {
				if errors.Is(err, known) {
					return
				}
			}
			t.Fatalf("error of another kind: %v", err)
		}
		end := HeaderLen
		var b Builder
		var want []Record
		for _, r := range recs {
			if r.Offset != end || r.ValueOffset < r.Offset ||
				!bytes.Equal(rep[r.ValueOffset:r.ValueOffset+len(r.Value)], r.Value) {
				t.Fatalf("record %+v, the one before ends at %d", r, end)
			}
			end = r.ValueOffset + len(r.Value)
			r.Offset = b.Len()
			switch r.Kind {
			case Put:
				b.Put(r.Family, r.Key, r.Value)
			case Delete:
				b.Delete(r.Family, r.Key)
			case SingleDelete:
				b.SingleDelete(r.Family, r.Key)
			case DeleteRange:
				b.DeleteRange(r.Family, r.Key, r.Value)
			case LogData:
				b.LogData(r.Value)
			default:
				continue
			}
			r.ValueOffset = b.Len() - len(r.Value)
			want = append(want, r)
		}
		if end != len(rep) {
			t.Fatalf("records end at %d of %d", end, len(rep))
		}
		got, err := all(b.Bytes())
		require.NoError(t, err)
		equalRecords(t, got, want)
	})
}

func BenchmarkPut(b *testing.B) {
	var w Builder
	key, value := make([]byte, 40), make([]byte, 128)
	for i := 0; b.Loop(); i++ {
		if i%64 == 0 {
			w.Reset()
		}
		w.Put(cf.Metadata, key, value)
	}
}

// TestPutInParts: however a value is given, the batch is the same, and the value lies where it is said to.
func TestPutInParts(t *testing.T) {
	value := bytes.Repeat([]byte("0123456789"), 30_000)
	for _, n := range []int{0, 1, 9, 100, 70_000, len(value)} {
		for _, cut := range []int{0, min(9, n), n} {
			var whole, parts, room Builder
			for _, b := range []*Builder{&whole, &parts, &room} {
				b.Delete(cf.Metadata, []byte("before"))
			}
			at := whole.Put(cf.Metadata, []byte("key"), value[:n])
			if got := parts.PutParts(cf.Metadata, []byte("key"), value[:cut], value[cut:n]); got != at {
				t.Errorf("%d bytes in parts lie at %d, not %d", n, got, at)
			}
			got, rest := room.PutRoom(cf.Metadata, []byte("key"), value[:cut], n-cut)
			if copy(rest, value[cut:n]); got != at || len(rest) != n-cut {
				t.Errorf("%d bytes with room for %d lie at %d, not %d", n, len(rest), got, at)
			}
			for _, b := range []*Builder{&whole, &parts, &room} {
				b.Delete(cf.Metadata, []byte("after"))
				if !bytes.Equal(b.Bytes(), whole.Bytes()) {
					t.Errorf("%d bytes cut at %d: another batch", n, cut)
				}
			}
		}
	}
}
