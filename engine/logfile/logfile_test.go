package logfile

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"testing"
)

// file returns a file of records of these sizes, each filled with its number, and where they begin.
func file(number uint32, sizes ...int) (b []byte, starts []int) {
	for i, n := range sizes {
		if left := BlockSize - len(b)%BlockSize; left < headerSize {
			starts = append(starts, len(b)+left)
		} else {
			starts = append(starts, len(b))
		}
		b = appendRecord(b, bytes.Repeat([]byte{byte('a' + i)}, n), number)
	}
	return b, append(starts, len(b))
}

// scan reads a file and goes on behind damages. It describes what it has found.
func scan(b []byte, number uint64) (found []string) { return scanKeeping(b, number, 0) }

func scanKeeping(b []byte, number uint64, keep int) (found []string) {
	s := NewScanner(bytes.NewReader(b), number)
	s.Keep = keep
	note := func() {
		r := s.Record()
		if len(r) != s.Size() && (keep == 0 || len(r) != min(keep, s.Size())) {
			found = append(found, fmt.Sprintf("%d bytes of %d", len(r), s.Size()))
		}
		if len(r) == 0 {
			found = append(found, "empty")
		} else if len(bytes.Trim(r, string(r[:1]))) == 0 {
			found = append(found, fmt.Sprintf("%c%d", r[0], s.Size()))
		} else {
			found = append(found, "mixed")
		}
	}
	for {
		for s.Next() {
			note()
		}
		d := (*Damage)(nil)
		if !errors.As(s.Err(), &d) {
			if s.Err() != nil {
				found = append(found, s.Err().Error())
			}
			return found
		}
		found = append(found, d.Error())
		if !s.Resync(nil) {
			return found
		}
		note()
	}
}

func TestScan(t *testing.T) {
	plain := func(sizes ...int) []byte { b, _ := file(0, sizes...); return b }
	flip := func(b []byte, at ...int) []byte {
		for _, i := range at {
			b[i] ^= 0x55
		}
		return b
	}
	const block = BlockSize - headerSize // the longest record that fills a block
	newer := plain(10)
	newer[6] = 130
	Seal(newer, 0, 10)
	recycled, _ := file(7, 10, 70000)
	old, _ := file(6, 90000)
	for _, tt := range []struct {
		name   string
		file   []byte
		number uint64
		want   []string
	}{
		{"nothing", nil, 0, nil},
		{"records", plain(0, 1, 100, 100000, 5), 0, []string{"empty", "b1", "c100", "d100000", "e5"}},
		{"to the end of a block", plain(block, 3), 0, []string{"a32761", "b3"}},
		{"padding at the end of a block", plain(block-3, 3), 0, []string{"a32758", "b3"}},
		{"an empty beginning at the end of a block", plain(block-headerSize, 3), 0, []string{"a32754", "b3"}},
		{"payload", flip(plain(10, 20, 30), 17+10), 0, []string{"a10", "damaged at byte 17: checksum mismatch", "c30"}},
		{"length", flip(plain(10, 20, 30), 17+5), 0, []string{"a10", "damaged at byte 17: a record is cut off", "c30"}},
		{"type", flip(plain(10, 20, 30), 17+6), 0, []string{"a10", "damaged at byte 17: checksum mismatch", "c30"}},
		{"the last record", flip(plain(10, 20), 17+10), 0, []string{"a10", "damaged at byte 17: checksum mismatch"}},
		{"the middle of a long record", flip(plain(10, 100000, 20), 50000), 0,
			[]string{"a10", "damaged at byte 17: checksum mismatch", "c20"}},
		{"the end of a long record", flip(plain(10, 100000, 20), 99000), 0,
			[]string{"a10", "damaged at byte 17: checksum mismatch", "c20"}},
		{"two places", flip(plain(10, 20, 30, 40), 8, 17+27+8), 0,
			[]string{"damaged at byte 0: checksum mismatch", "b20", "damaged at byte 44: checksum mismatch", "d40"}},
		{"cut in a payload", plain(10, 20)[:30], 0, []string{"a10", "damaged at byte 17: a record is cut off"}},
		{"cut in a header", plain(10, 20)[:20], 0, []string{"a10", "damaged at byte 17: a header is cut off"}},
		{"cut between fragments", plain(10, 100000)[:BlockSize], 0,
			[]string{"a10", "damaged at byte 17: the record has no end"}},
		{"zeros behind", append(plain(10), make([]byte, 50000)...), 0, []string{"a10", "damaged at byte 17: zeros"}},
		{"zeros within", append(append(plain(10), make([]byte, 2*BlockSize-17)...), plain(20)...), 0,
			[]string{"a10", "damaged at byte 17: zeros", "a20"}},
		{"nonsense behind", append(plain(10), bytes.Repeat([]byte("nonsense"), 9000)...), 0,
			[]string{"a10", "damaged at byte 17: checksum mismatch"}},
		{"no beginning", plain(100000)[BlockSize:], 0, []string{"damaged at byte 0: the record has no beginning"}},
		{"a newer type", newer, 0, []string{"it holds records of a newer RocksDB: type 130 at byte 0"}},
		{"recycled", append(recycled, old[len(recycled):]...), 7,
			[]string{"a10", "b70000", "damaged at byte 70054: a record is cut off"}},
		{"recycled, of another number", recycled, 8, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for _, keep := range []int{0, 12, 40000} {
				if got := scanKeeping(tt.file, tt.number, keep); !slices.Equal(got, tt.want) {
					t.Errorf("keeping %d bytes: found %q\nwant  %q", keep, got, tt.want)
				}
			}
		})
	}
}

// TestEveryFlip flips each byte of a file in turn: at most the record that it belongs to is lost, and never in
// silence.
func TestEveryFlip(t *testing.T) {
	sizes := []int{10, 0, 33000, 20, 5}
	b, starts := file(0, sizes...)
	all := scan(b, 0)
	for at := range b {
		if at%100 > 20 && at > 100 && at < len(b)-100 && at%BlockSize > 30 && at%BlockSize < BlockSize-30 {
			continue // within a payload, where all are alike
		}
		b[at] ^= 0x10
		got := scan(b, 0)
		b[at] ^= 0x10
		lost := 0
		for starts[lost+1] <= at {
			lost++
		}
		want := slices.Delete(slices.Clone(all), lost, lost+1)
		whole := slices.DeleteFunc(slices.Clone(got), func(s string) bool { return len(s) > 20 })
		if len(whole) == len(got) || !slices.Equal(whole, want) {
			t.Fatalf("byte %d of record %d: found %q", at, lost, got)
		}
	}
}

func FuzzScan(f *testing.F) {
	b, _ := file(0, 10, 33000, 5)
	f.Add(b, uint64(0))
	r, _ := file(7, 10, 5)
	f.Add(r, uint64(7))
	f.Fuzz(func(t *testing.T, b []byte, number uint64) {
		if found := scan(b, number); len(found) > 2*len(b)+2 {
			t.Errorf("%d findings in %d bytes", len(found), len(b))
		}
	})
}
