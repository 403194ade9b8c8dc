package manifest

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/basaltdb/basalt/engine/logfile"
	"github.com/basaltdb/basalt/internal/fixture"
	"github.com/basaltdb/basalt/internal/require"
)

// seal makes a MANIFEST of one record each.
func seal(edits ...[]byte) (b []byte) {
	for _, e := range edits {
		at := len(b)
		b = append(b, 0, 0, 0, 0, byte(len(e)), byte(len(e)>>8), 1)
		b = append(b, e...)
		logfile.Seal(b, int64(at), len(e))
	}
	return b
}

// tags encodes numbers as varints and strings as bytes with their length.
func tags(fields ...any) (b []byte) {
	for _, f := range fields {
		switch f := f.(type) {
		case int:
			b = binary.AppendUvarint(b, uint64(f))
		case string:
			b = append(binary.AppendUvarint(b, uint64(len(f))), f...)
		}
	}
	return b
}

// key is an internal key with a type.
func key(user string, kind byte) string { return user + string([]byte{kind, 1, 2, 3, 4, 5, 6, 7}) }

func TestParse(t *testing.T) {
	for _, tt := range []struct {
		name    string
		edits   [][]byte
		want    Manifest // what can be seen of it
		names   []string
		patches int
		err     error
	}{
		{"families and their logs", [][]byte{
			tags(tagComparator, "c", tagLogNumber, 8, tagNextFile, 20, tagLastSequence, 99),
			tags(tagFamily, 1, tagFamilyAdd, "one", tagLogNumber, 5),
			tags(tagFamilyAdd, "two", tagLogNumber, 12, tagFamily, 2, tagMaxFamily, 2),
		}, Manifest{LastSequence: 99, NextFile: 20, MinLog: 5, NewestLog: 12}, []string{"default", "one", "two"}, 0, nil},
		{"a family that was dropped", [][]byte{
			tags(tagLogNumber, 8), tags(tagFamily, 1, tagFamilyAdd, "one", tagLogNumber, 5), tags(tagFamily, 1, tagFamilyDrop),
		}, Manifest{MinLog: 8, NewestLog: 8}, []string{"default"}, 0, nil},
		{"the least log to keep", [][]byte{
			tags(tagLogNumber, 8, tagMinLogToKeep, 10), tags(tagFamily, 1, tagFamilyAdd, "one", tagLogNumber, 5),
		}, Manifest{MinLog: 10, NewestLog: 8}, []string{"default", "one"}, 0, nil},
		{"what newer versions write and may be skipped", [][]byte{
			tags(tagLogNumber, 3, tagIgnorable+1, "id", tagIgnorable+77, "new", tagAtomicGroup, 0, tagPrevLogNumber, 0),
			tags(tagBlobAddition, 1, 2, 3, "method", "value", 2, "f", 0, tagBlobGarbage, 1, 2, 3, 0),
			tags(tagNewFile4, 0, 9, 1000, key("a", 1), key("b", 0x16), 1, 2, 13, "e", 17, "x", customPathID, "\x00", customEnd,
				tagDeletedFile, 0, 9),
		}, Manifest{MinLog: 3, NewestLog: 3}, []string{"default"}, 0, nil},
		{"placeholders", [][]byte{
			tags(tagNewFile4, 0, 9, 1000, key("a", 0x1a), key("b", 0x18), 1, 2, customEnd),
			tags(tagNewFile3, 0, 9, 0, 1000, key("a", 0x1a), key("b", 0x0f), 1, 2),
			tags(tagNewFile2, 0, 9, 1000, key("a", 1), key("b", 2), 1, 2),
			tags(tagNewFile, 0, 9, 1000, key("", 7), key("b", 0x1a)),
			tags(tagCompactCursor, 1, key("c", 0x1a)),
		}, Manifest{}, []string{"default"}, 5, nil},
		{"a tag that must be known", [][]byte{tags(301, 1)}, Manifest{}, nil, 0, ErrNewer},
		{"a field of a file that must be known",
			[][]byte{tags(tagNewFile4, 0, 9, 1000, key("a", 1), key("b", 1), 1, 2, 66, "x", customEnd)},
			Manifest{}, nil, 0, ErrNewer},
		{"a type of keys that must be known",
			[][]byte{tags(tagNewFile4, 0, 9, 1000, key("a", 0x1b), key("b", 1), 1, 2, customEnd)}, Manifest{}, nil, 0, ErrNewer},
		{"cut off", [][]byte{tags(tagNewFile4, 0, 9, 1000, key("a", 1))}, Manifest{}, nil, 0, errShort},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m, err := parse(seal(tt.edits...))
			if !errors.Is(err, tt.err) {
				t.Fatalf("error %v, want %v", err, tt.err)
			}
			if err != nil {
				return
			}
			if m.LastSequence != tt.want.LastSequence || m.NextFile != tt.want.NextFile ||
				m.MinLog != tt.want.MinLog || m.NewestLog != tt.want.NewestLog {
				t.Errorf("%+v", m)
			}
			got := m.Families()
			if !slices.Equal(got, tt.names) || len(m.patches) != tt.patches || m.Readable() != (tt.patches == 0) {
				t.Errorf("families %q, %d patches", got, len(m.patches))
			}
		})
	}
}

// TestDrop: a database needs the tables that were added and not deleted since, but for those that it was made to drop.
func TestDrop(t *testing.T) {
	dir := t.TempDir()
	file := func(level, number int) []byte {
		return tags(tagNewFile4, level, number, 1000+number, key("a", 1), key("b", 1), 1, 2, customEnd)
	}
	whole := seal(tags(tagNextFile, 20), tags(tagFamily, 1, tagFamilyAdd, "one", tagLogNumber, 5),
		slices.Concat(file(0, 9), file(0, 10), file(0, 11)), append(file(2, 12), tags(tagFamily, 1)...),
		tags(tagDeletedFile, 0, 10),                         // deleted
		append(tags(tagDeletedFile, 0, 11), file(3, 11)...), // moved to another level
		append(tags(tagFamily, 2, tagFamilyAdd, "two"), file(1, 13)...), tags(tagFamily, 2, tagFamilyDrop))
	for name, data := range map[string][]byte{"MANIFEST-000005": append(whole, 1, 2, 3),
		"CURRENT": []byte("MANIFEST-000005\n")} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), data, 0o644))
	}
	list := func() string {
		m, err := Read(dir)
		require.NoError(t, err)
		s := m.Name
		for _, t := range m.Tables() {
			s += fmt.Sprintf(", %s %s level %d %s-%s %d", t.Family, t.Name(), t.Level, t.Smallest, t.Largest, t.Size)
		}
		return s
	}
	if got, want := list(), "MANIFEST-000005, default 000009.sst level 0 a-b 1009, default 000011.sst level 3 a-b 1011, "+
		"one 000012.sst level 2 a-b 1012"; got != want {
		t.Error(got)
	}
	m, err := Read(dir)
	require.NoError(t, err)
	require.NoError(t, m.Drop(dir, m.Tables()[1:]))
	if got, want := list(), "MANIFEST-000020, default 000009.sst level 0 a-b 1009"; got != want {
		t.Error(got)
	}
}

// TestParseDamaged: what a crash leaves at the end is left out, damage before is refused.
func TestParseDamaged(t *testing.T) {
	b := seal(tags(tagLogNumber, 8), tags(tagLogNumber, 9), tags(tagLogNumber, 10))
	for at := range b {
		m, err := parse(b[:at])
		if want := uint64(at / 9); err != nil || want > 0 && m.MinLog != want+7 {
			t.Errorf("%d bytes: %+v, %v", at, m, err)
		}
		b[at] ^= 0xff
		if _, err := parse(b); (err == nil) != (at >= 18) {
			t.Errorf("byte %d: %v", at, err)
		}
		b[at] ^= 0xff
	}
}

// TestKvrocks reads the MANIFEST of a recorded directory of Kvrocks 2.10.
func TestKvrocks(t *testing.T) {
	dir := t.TempDir()
	fixture.Unpack(t, dir)
	m, err := Read(dir + "/db")
	if err != nil || !m.Readable() {
		t.Fatalf("%+v, %v", m, err)
	}
	want := []string{"default", "metadata", "zset_score", "pubsub", "propagate", "stream", "search"}
	if got := m.Families(); !slices.Equal(got, want) || m.MinLog == 0 || m.MinLog > 14 || m.NewestLog > 14 {
		t.Errorf("families %q, logs %d to %d", got, m.MinLog, m.NewestLog)
	}
}

// TestMakeReadable: the result differs in the types only, the old MANIFEST is kept, and CURRENT names the new one.
func TestMakeReadable(t *testing.T) {
	dir := t.TempDir()
	long := strings.Repeat("k", 40000) // over blocks
	old := tags(tagNextFile, 12, tagNewFile4, 0, 9, 1000, key(long, 0x1a), key(long, 0x1a), 1, 2, customEnd)
	b := logfile.Append(nil, old)
	for name, data := range map[string][]byte{"MANIFEST-000005": b, "CURRENT": []byte("MANIFEST-000005\n")} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), data, 0o644))
	}
	m, err := Read(dir)
	if err != nil || m.Readable() || len(m.patches) != 2 {
		t.Fatalf("%d patches, %v", len(m.patches), err)
	}
	kept, err := m.MakeReadable(dir)
	if err != nil || kept != "MANIFEST-000005.kept" {
		t.Fatal(kept, err)
	}
	if k, err := os.ReadFile(filepath.Join(dir, kept)); err != nil || !slices.Equal(k, b) {
		t.Errorf("what was kept: %d bytes, %v", len(k), err)
	}
	m, err = Read(dir)
	if err != nil || !m.Readable() || m.Name != "MANIFEST-000012" || len(m.data) != len(b) {
		t.Errorf("%+v, %v", m, err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add(tags(tagNewFile4, 0, 9, 1000, key("a", 0x1a), key("b", 1), 1, 2, 13, "e", customEnd,
		tagBlobAddition, 1, 2, 3, "m", "v", 0))
	f.Add(tags(tagFamily, 1, tagFamilyAdd, "one", tagLogNumber, 5, tagIgnorable+8, "x"))
	f.Fuzz(func(t *testing.T, edit []byte) {
		if len(edit) > 60000 {
			return
		}
		m, err := parse(seal(edit[:min(len(edit), 32000)]))
		if err == nil && len(m.patches) > len(edit) {
			t.Errorf("%d patches in %d bytes", len(m.patches), len(edit))
		}
	})
}
