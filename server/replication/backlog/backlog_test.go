package backlog

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"testing"

	"github.com/basaltdb/basalt/server/replication/proto"
)

// rep returns a batch of count records and size bytes; Add sets its sequence number.
func rep(count, size int) []byte {
	b := bytes.Repeat([]byte{'x'}, max(size, 12))
	clear(b[:8])
	binary.LittleEndian.PutUint32(b[8:], uint32(count))
	return b
}

// sequences returns the sequence numbers of the first records of frames.
func sequences(t *testing.T, frames []byte) (all []uint64) {
	t.Helper()
	for len(frames) > 0 {
		f, n, _, err := proto.ReadFrame(frames, 1<<30)
		if err != nil || n == 0 || f.Kind != proto.KindBatch {
			t.Fatalf("%+v, %d, %v", f, n, err)
		}
		all = append(all, f.Sequence())
		frames = frames[n:]
	}
	return all
}

// TestTake: from any batch in the backlog on, frames follow each other up to the next missing batch.
func TestTake(t *testing.T) {
	var b Backlog
	b.SetLimit(16 << 20)
	for _, seq := range []uint64{10, 13, 16, 22, 19, 25} { // of three records each; 19 came too late
		b.Add(seq, rep(3, 40))
	}
	b.Add(28, rep(0, 40)) // only log data
	for _, tt := range []struct {
		next   uint64
		want   string
		behind uint64
	}{
		{9, "[]", 9}, {10, "[10 13 16]", 19}, {13, "[13 16]", 19}, {14, "[]", 14}, {19, "[]", 19}, {22, "[22 25]", 28},
		{28, "[]", 28},
	} {
		frames, behind := b.Take(tt.next)
		if got := fmt.Sprint(sequences(t, frames)); got != tt.want || behind != tt.behind {
			t.Errorf("from %d: %s up to %d, want %s up to %d", tt.next, got, behind, tt.want, tt.behind)
		}
	}
	if b.First() != 10 {
		t.Errorf("it begins with %d", b.First())
	}
	b.Clear()
	if frames, _ := b.Take(22); frames != nil || b.First() != 0 || b.Bytes() != 0 {
		t.Errorf("it is not empty: %d bytes from %d on", b.Bytes(), b.First())
	}
}

// TestLimit: the oldest frames are dropped, and the newest ones are kept, including a frame that is longer than a
// chunk.
func TestLimit(t *testing.T) {
	var b Backlog
	b.SetLimit(4 * chunkBytes)
	const frames = 100
	for i := range frames {
		size := chunkBytes / 4
		if i == frames-1 {
			size = 2 * chunkBytes
		}
		b.Add(uint64(i+1), rep(1, size))
	}
	if n := b.Bytes(); n > 5*chunkBytes {
		t.Errorf("%d bytes, the limit is %d", n, 4*chunkBytes)
	}
	first := b.First()
	if first <= 1 || first >= frames {
		t.Errorf("it begins with %d", first)
	}
	if frames, _ := b.Take(first - 1); frames != nil {
		t.Error("a frame that is gone was found")
	}
	for next := first; next <= frames; {
		list, behind := b.Take(next)
		if len(sequences(t, list)) != int(behind-next) || behind == next {
			t.Fatalf("from %d up to %d: %d bytes", next, behind, len(list))
		}
		next = behind
	}
}
