package batch

import (
	"encoding/binary"
	"testing"

	"github.com/basaltdb/basalt/cf"
)

func TestTail(t *testing.T) {
	var b Builder
	b.LogData([]byte("about the first"))
	b.Put(cf.Metadata, []byte("a"), []byte("1"))
	b.LogData([]byte("about the second"))
	b.Delete(cf.Default, []byte("b"))
	binary.LittleEndian.PutUint64(b.Bytes(), 7)
	for sequence, want := range map[uint64]int{7: 4, 8: 2, 9: 0} {
		part, err := Tail(b.Bytes(), sequence)
		if err != nil {
			t.Fatal(err)
		}
		if want == 0 {
			if part != nil {
				t.Errorf("from %d: %q", sequence, part)
			}
			continue
		}
		r, err := NewReader(part)
		if err != nil || r.Sequence() != sequence {
			t.Fatalf("from %d: %v", sequence, err)
		}
		n := 0
		for rec, ok := r.Next(); ok; rec, ok = r.Next() {
			if n++; n == want && (rec.Kind != Delete || string(rec.Key) != "b") {
				t.Errorf("from %d the last record is %+v", sequence, rec)
			}
		}
		if r.Err() != nil || n != want {
			t.Errorf("from %d: %d records, %v", sequence, n, r.Err())
		}
	}
	if _, err := Tail(b.Bytes()[:20], 8); err == nil {
		t.Error("a broken batch passes")
	}
}
