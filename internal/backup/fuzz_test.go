package backup

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"testing"
	"time"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine/batch"
	"github.com/basaltdb/basalt/internal/require"
)

// segmentOf makes a segment with n batches.
func segmentOf(t testing.TB, n int) (Segment, []byte) {
	t.Helper()
	s, err := openDir(t.TempDir(), true)
	require.NoError(t, err)
	w, err := newSegment(context.Background(), s, "20260101T000000Z-abcd", time.UnixMilli(1234))
	require.NoError(t, err)
	for i := range n {
		var b batch.Builder
		b.Put(cf.Metadata, []byte("key"), bytes.Repeat([]byte{'v'}, i))
		b.Delete(cf.Default, []byte("other"))
		binary.LittleEndian.PutUint64(b.Bytes(), uint64(7+2*i))
		require.NoError(t, w.add(b.Bytes(), time.UnixMilli(int64(5000+i))))
	}
	require.NoError(t, w.commit())
	content, err := get(context.Background(), s, w.seg.object(), 1<<20)
	require.NoError(t, err)
	return w.seg, content
}

func TestSegment(t *testing.T) {
	seg, content := segmentOf(t, 3)
	if seg.First != 7 || seg.Last != 12 || seg.Size != int64(len(content)) || seg.To.UnixMilli() != 5002 {
		t.Errorf("%+v", seg)
	}
	if parsed, ok := parseSegment(Object{Name: seg.object(), Size: seg.Size}); !ok || parsed != seg {
		t.Errorf("%+v, %v; want %+v", parsed, ok, seg)
	}
	n := 0
	err := readSegment(bytes.NewReader(content), seg, func(rep []byte, at, unread time.Time) error {
		if (n == 0) != (unread.UnixMilli() == 1234) || at.UnixMilli() != int64(5000+n) {
			t.Errorf("batch %d came at %v, unread since %v", n, at, unread)
		}
		n++
		return nil
	})
	if err != nil || n != 3 {
		t.Errorf("%d batches, %v", n, err)
	}
	// Whatever byte is damaged, and wherever it is cut, it is noticed: only the time since which nobody had read the log
	// has no checksum.
	for i := range content {
		if i >= len(segmentMagic) && i < segmentHeader {
			continue
		}
		bad := bytes.Clone(content)
		bad[i] ^= 0x10
		for what, b := range map[string][]byte{"flipped": bad, "cut": content[:i]} {
			err := readSegment(bytes.NewReader(b), seg, func([]byte, time.Time, time.Time) error { return nil })
			if !errors.Is(err, ErrDamaged) {
				t.Fatalf("%s at byte %d: %v", what, i, err)
			}
		}
	}
}

func FuzzSegment(f *testing.F) {
	seg, content := segmentOf(f, 3)
	f.Add(content)
	f.Add(content[:segmentHeader])
	f.Fuzz(func(t *testing.T, b []byte) {
		next := seg.First
		err := readSegment(bytes.NewReader(b), seg, func(rep []byte, _, _ time.Time) error {
			first, last := span(rep)
			if first != next || last > seg.Last {
				t.Fatalf("%d to %d after %d", first, last, next-1)
			}
			next = last + 1
			return nil
		})
		if err == nil && next != seg.Last+1 {
			t.Fatalf("it ends at %d", next)
		}
	})
}
