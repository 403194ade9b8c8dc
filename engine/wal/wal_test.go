package wal

import (
	"bytes"
	"encoding/binary"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/basaltdb/basalt/engine/logfile"
	"github.com/basaltdb/basalt/internal/require"
)

// log makes a log of batches, each of n writes and of 100 bytes a write, that begin with the sequence number first.
func log(first uint64, counts ...uint32) (b []byte) {
	for _, n := range counts {
		record := binary.LittleEndian.AppendUint64(nil, first)
		record = binary.LittleEndian.AppendUint32(record, n)
		record = append(record, bytes.Repeat([]byte{byte(first)}, int(n)*100)...)
		at := len(b)
		b = append(b, 0, 0, 0, 0, byte(len(record)), byte(len(record)>>8), 1)
		b = append(b, record...)
		logfile.Seal(b, int64(at), len(record))
		first += uint64(n)
	}
	return b
}

// cat puts pieces of a log behind each other.
func cat(parts ...[]byte) []byte { return slices.Concat(parts...) }

func flip(b []byte, at int) []byte {
	b = slices.Clone(b)
	for i := range 4 {
		b[at+i] ^= 0xff
	}
	return b
}

// A log of ten batches of ten writes, 1 to 100; a batch takes 1,019 bytes.
var (
	ten   = slices.Repeat([]uint32{10}, 10)
	whole = log(1, ten...)
)

const batchSize = 7 + 12 + 10*100

// TestCheck: tails that a crash leaves are no loss, everything else is, and is named.
func TestCheck(t *testing.T) {
	for _, tt := range []struct {
		name string
		logs map[uint64][]byte
		s    State
		loss string // what the loss says, empty = there is none
		tail int64  // bytes of the tail
		last uint64 // the last write in the logs; not compared when there is a loss
	}{
		// Tails that a crash may leave.
		{"a whole log", map[uint64][]byte{4: whole}, State{}, "", 0, 100},
		{"an empty log", map[uint64][]byte{4: whole, 9: nil}, State{}, "", 0, 100},
		{"a record is cut off", map[uint64][]byte{4: whole[:len(whole)-1]}, State{}, "", batchSize - 1, 90},
		{"a header is cut off", map[uint64][]byte{4: cat(whole, whole[:3])}, State{}, "", 3, 100},
		{"cut between records", map[uint64][]byte{4: whole[:9*batchSize]}, State{}, "", 0, 90},
		{"zeros", map[uint64][]byte{4: cat(whole, make([]byte, 5000))}, State{}, "", 5000, 100},
		{"zeros over blocks", map[uint64][]byte{4: cat(whole, make([]byte, 5<<20))}, State{}, "", 5 << 20, 100},
		{"zeros from within a record", map[uint64][]byte{4: cat(whole[:len(whole)-500], make([]byte, 9000))},
			State{}, "", batchSize - 500 + 9000, 90},
		{"the last page is zero", map[uint64][]byte{4: cat(whole[:len(whole)-500], make([]byte, 500))},
			State{}, "", batchSize, 90},
		{"only zeros", map[uint64][]byte{4: make([]byte, 4096)}, State{}, "", 4096, 0},
		{"nonsense", map[uint64][]byte{4: cat(whole, bytes.Repeat([]byte("nonsense"), 6000))}, State{}, "", 48000, 100},
		{"the last record", map[uint64][]byte{4: flip(whole, 9*batchSize+500)}, State{}, "", batchSize, 90},
		{"a tail that looks like an old log",
			map[uint64][]byte{4: cat(whole[:9*batchSize], []byte{1, 2, 3, 4, 255, 100, 1},
				log(1, 5))}, State{}, "", 7 + 519, 90},
		{"a tail before an empty log", map[uint64][]byte{4: whole[:len(whole)-1], 9: nil}, State{}, "", batchSize - 1, 90},
		{"a tail, and RocksDB has gone on behind it", map[uint64][]byte{4: whole[:len(whole)-1], 9: log(91, 0, 5)},
			State{}, "", 0, 95},
		{"logs that are not needed", map[uint64][]byte{4: flip(whole, 1500), 9: log(101, 5)},
			State{MinLog: 5, LastSequence: 100}, "", 0, 105},
		{"writes without a log", map[uint64][]byte{4: whole, 9: log(201, 5)}, State{Gaps: true}, "", 0, 205},
		{"a batch whose writing failed, written again", map[uint64][]byte{4: whole, 9: log(91, 20)}, State{}, "", 0, 110},

		// Losses.
		{"damage within a log", map[uint64][]byte{4: flip(whole, 5*batchSize+100)}, State{},
			"000004.log is damaged at byte 5095 of 10190 (checksum mismatch): " +
				"writes 51 to 60 are lost, later writes that can be read: 40", 0, 0},
		{"a damaged header", map[uint64][]byte{4: flip(whole, 5*batchSize+3)}, State{},
			"000004.log is damaged at byte 5095 of 10190 (a record is cut off): " +
				"writes 51 to 60 are lost, later writes that can be read: 40", 0, 0},
		{"two damages", map[uint64][]byte{4: flip(flip(whole, 5*batchSize+100), 7*batchSize+100)}, State{},
			"000004.log is damaged at byte 5095 of 10190 (checksum mismatch): " +
				"writes 51 to 60 are lost, later writes that can be read: 30", 0, 0},
		{"damage at the end of a log, and another log", map[uint64][]byte{4: flip(whole, 9*batchSize+100), 9: log(101, 5)},
			State{},
			"000004.log is damaged at byte 9171 of 10190 (checksum mismatch): " +
				"writes 91 to 100 are lost, later writes that can be read: 5", 0, 0},
		{"a log that is cut, and another log", map[uint64][]byte{4: whole[:5*batchSize+9], 9: log(101, 5)}, State{},
			"000004.log is damaged at byte 5095 of 5104 (a record is cut off): " +
				"writes 51 to 100 are lost, later writes that can be read: 5", 0, 0},
		{"a log that is cut between records, and another log", map[uint64][]byte{4: whole[:5*batchSize], 9: log(101, 5)},
			State{},
			"000009.log does not continue the log before it: writes 51 to 100 are lost, later writes that can be read: 5", 0, 0},
		{"the first log begins too late", map[uint64][]byte{9: log(101, 5)}, State{MinLog: 3, LastSequence: 50},
			"000009.log does not continue the log before it: writes 51 to 100 are lost, later writes that can be read: 5", 0, 0},
		{"a log that was noted", map[uint64][]byte{4: whole, 12: log(201, 5)},
			State{Gaps: true, List: List{Logs: []uint64{4, 9, 12}}},
			"000009.log is missing: writes 101 to 200 are lost, later writes that can be read: 5", 0, 0},
		{"the first log that was noted", map[uint64][]byte{9: log(101, 5)}, State{List: List{Logs: []uint64{4, 9}}},
			"000004.log is missing: writes before 101 are lost, later writes that can be read: 5", 0, 0},
		{"the newest log that was noted", map[uint64][]byte{4: whole}, State{List: List{Logs: []uint64{4, 9}}},
			"000009.log is missing: writes after 100 are lost", 0, 0},
		{"all logs that were noted", nil,
			State{MinLog: 4, List: List{Logs: []uint64{4}}}, "000004.log is missing: writes are lost", 0, 0},
		{"noted and not needed", map[uint64][]byte{9: log(101, 5)},
			State{MinLog: 5, LastSequence: 100, List: List{Logs: []uint64{4}}}, "", 0, 105},
		{"the newest log that the MANIFEST knows", map[uint64][]byte{4: whole}, State{NewestLog: 9, Opened: true},
			"000009.log and all later logs are missing: writes after 100 are lost", 0, 0},
		{"all logs of a database in use", map[uint64][]byte{4: whole}, State{NewestLog: 3, MinLog: 9, Opened: true},
			"000009.log and all later logs are missing: writes are lost", 0, 0},
		{"a database that was repaired", nil, State{Opened: true}, "", 0, 0},
		{"a checkpoint without logs", nil, State{NewestLog: 9, MinLog: 9}, "", 0, 0},
		{"closed", map[uint64][]byte{4: whole}, State{List: List{[]uint64{4}, int64(len(whole))}}, "", 0, 100},
		{"closed, then cut", map[uint64][]byte{4: whole[:9*batchSize+7]}, State{List: List{[]uint64{4}, int64(len(whole))}},
			"000004.log is damaged at byte 9171 of 9178 (a record is cut off): writes after 90 are lost", 0, 0},
		{"closed, then cut between records", map[uint64][]byte{4: whole[:9*batchSize]},
			State{List: List{[]uint64{4}, int64(len(whole))}},
			"000004.log is damaged at byte 9171 of 9171 (it had 10190 bytes when the database was closed): " +
				"writes after 90 are lost", 0, 0},
		{"closed, then the last record was damaged", map[uint64][]byte{4: flip(whole, 9*batchSize+500)},
			State{List: List{[]uint64{4}, int64(len(whole))}},
			"000004.log is damaged at byte 9171 of 10190 (checksum mismatch): writes after 90 are lost", 0, 0},
		{"closed, and opened by another since", map[uint64][]byte{9: log(101, 5)},
			State{MinLog: 9, LastSequence: 100, List: List{[]uint64{4}, 9999}}, "", 0, 105},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			for n, b := range tt.logs {
				require.NoError(t, os.WriteFile(filepath.Join(dir, Name(n)), b, 0o644))
			}
			r, err := Check(dir, tt.s)
			require.NoError(t, err)
			if r.Loss != nil || tt.loss != "" {
				if r.Loss == nil || r.Loss.String() != tt.loss {
					t.Errorf("loss %v\nwant %s", r.Loss, tt.loss)
				}
				checkCut(t, dir, tt.s, r)
				return
			}
			if r.TailBytes != tt.tail || r.Last != tt.last {
				t.Errorf("a tail of %d bytes, last write %d; want %d, %d", r.TailBytes, r.Last, tt.tail, tt.last)
			}
		})
	}
}

// checkCut takes what is behind a loss out of the logs: what is left is a whole beginning, and what was there is
// kept.
func checkCut(t *testing.T, dir string, s State, r *Report) {
	t.Helper()
	before, err := Numbers(dir)
	require.NoError(t, err)
	kept, err := r.Keep(dir)
	require.NoError(t, err)
	require.NoError(t, r.Cut(dir))
	again, err := Check(dir, State{MinLog: s.MinLog})
	if err != nil || again.Loss != nil || again.Tail != nil || again.Last > r.Loss.Last {
		t.Errorf("what is left: %+v, %v", again, err)
	}
	for _, n := range before {
		b, err := os.ReadFile(filepath.Join(dir, Name(n)))
		if name := Name(n) + DamagedSuffix; slices.Contains(kept, name) {
			k, e := os.ReadFile(filepath.Join(dir, name))
			if e != nil || !bytes.HasPrefix(k, b) {
				t.Errorf("%s: %d bytes, %v", name, len(k), e)
			}
		} else if err != nil {
			t.Errorf("%s is gone and was not kept", Name(n))
		}
	}
}

func TestCheckNewer(t *testing.T) {
	dir := t.TempDir()
	b := log(1, 5)
	b[6] = 130
	logfile.Seal(b, 0, len(b)-7)
	require.NoError(t, os.WriteFile(filepath.Join(dir, Name(4)), b, 0o644))
	r, err := Check(dir, State{})
	if err == nil || !strings.Contains(err.Error(), "000004.log: it holds records of a newer RocksDB") {
		t.Errorf("%+v, %v", r, err)
	}
}

// TestCheckZero: RocksDB counts logs from 1. With assertions it ends the process over a log with the number 0.
func TestCheckZero(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, Name(0))
	require.NoError(t, os.WriteFile(name, nil, 0o644))
	if r, err := Check(dir, State{MinLog: 4}); err == nil || !strings.Contains(err.Error(), name) {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestList(t *testing.T) {
	dir := t.TempDir()
	for i, tt := range []struct {
		logs   map[uint64]int
		closed bool
		want   List
	}{
		{nil, false, List{}},
		{map[uint64]int{12: 5}, false, List{Logs: []uint64{12}}},
		{map[uint64]int{1234567: 0}, true, List{Logs: []uint64{12, 1234567}}},
		{map[uint64]int{1234567: 77}, true, List{[]uint64{12, 1234567}, 77}},
	} {
		for n, size := range tt.logs {
			require.NoError(t, os.WriteFile(filepath.Join(dir, Name(n)), make([]byte, size), 0o644))
		}
		require.NoError(t, WriteList(dir, tt.closed))
		if got, err := ReadList(dir); err != nil || !slices.Equal(got.Logs, tt.want.Logs) || got.Clean != tt.want.Clean {
			t.Errorf("%d: %v, %v; want %v", i, got, err, tt.want)
		}
	}
	for _, text := range []string{"", "nonsense", listHeader + "x\n", listHeader + "4 dirty 5\n", "basalt logs 2\n4\n"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, listName), []byte(text), 0o644))
		if got, err := ReadList(dir); err != nil || len(got.Logs) != 0 || got.Clean != 0 {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
}

// BenchmarkCheck reads a log of 64 MiB.
func BenchmarkCheck(b *testing.B) {
	dir := b.TempDir()
	content := log(1, slices.Repeat([]uint32{10}, 64<<20/batchSize)...)
	// Batches that cross a block are damage: as many as fit each block, and padding.
	var file []byte
	for len(content) > 0 {
		n := min(len(content), logfile.BlockSize/batchSize*batchSize)
		file = append(file, content[:n]...)
		content = content[n:]
		record := make([]byte, logfile.BlockSize-len(file)%logfile.BlockSize)
		if len(record) < logfile.BlockSize && len(record) > 7+12 {
			record[4], record[5], record[6] = byte(len(record)-7), byte((len(record)-7)>>8), 1
			logfile.Seal(record, 0, len(record)-7)
			file = append(file, record...)
		}
	}
	require.NoError(b, os.WriteFile(filepath.Join(dir, Name(4)), file, 0o644))
	b.SetBytes(int64(len(file)))
	for b.Loop() {
		if r, err := Check(dir, State{}); err != nil || r.Tail != nil || r.Loss != nil {
			b.Fatal(r.Tail, r.Loss, err)
		}
	}
}
