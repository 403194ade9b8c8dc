package manifest

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/basaltdb/basalt/engine/logfile"
	"github.com/basaltdb/basalt/internal/durable"
)

// Families returns the names of the families in the order of their numbers. Family 0 is "default".
func (m *Manifest) Families() []string {
	ids := slices.Sorted(maps.Keys(m.families))
	names := make([]string, len(ids))
	for i, id := range ids {
		if names[i] = m.families[id].name; id == 0 {
			names[i] = "default"
		}
	}
	return names
}

// Cut reports whether the MANIFEST has lost entries at its end: it ends in the middle of one, and dir lacks a file that
// the entries before need. A crash leaves a part of an entry, too, but RocksDB removes files only after the entry. It
// would open the database as it was, and remove the table files of the lost entries.
func (m *Manifest) Cut(dir string) bool {
	if m.end == int64(len(m.data)) {
		return false
	}
	var names []string
	if m.MinLog > 0 {
		names = append(names, fmt.Sprintf("%06d.log", m.MinLog))
	}
	for _, t := range m.Tables() {
		names = append(names, t.Name())
	}
	return slices.ContainsFunc(names, func(name string) bool {
		_, err := os.Stat(filepath.Join(dir, name))
		return errors.Is(err, fs.ErrNotExist)
	})
}

// Readable reports whether RocksDB 7.8 can read the MANIFEST unchanged.
func (m *Manifest) Readable() bool { return len(m.patches) == 0 }

// KeptSuffix ends the name under which a replaced MANIFEST is kept.
const KeptSuffix = ".kept"

// MakeReadable writes a MANIFEST that RocksDB 7.8 reads, and makes CURRENT name it. Only placeholders in the bounds of
// files are replaced, each by one byte, so newer versions can read the result as well. The old MANIFEST is kept; kept
// is its new name, which RocksDB does not know and so ignores. The caller must hold the lock of the directory.
//
// The new file gets the number of the next file. RocksDB skips that number, because it takes it for used.
func (m *Manifest) MakeReadable(dir string) (kept string, err error) {
	name := fmt.Sprintf("MANIFEST-%06d", m.NextFile)
	if n, _ := number(m.Name); n >= m.NextFile {
		return "", fmt.Errorf("%s: it says that the next file is %d", filepath.Join(dir, m.Name), m.NextFile)
	}
	kept = m.Name + KeptSuffix
	if err := os.Link(filepath.Join(dir, m.Name), filepath.Join(dir, kept)); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", err
	}
	data := bytes.Clone(m.data)
	for _, p := range m.patches {
		data[p.offset] = greatestType
	}
	for _, p := range m.patches {
		logfile.Seal(data, p.header, p.length)
	}
	if again, err := parse(data); err != nil || !again.Readable() {
		return "", fmt.Errorf("%s: it could not be made readable (%v)", filepath.Join(dir, m.Name), err)
	}
	return kept, replace(dir, name, data)
}

// replace writes a MANIFEST and makes CURRENT name it.
func replace(dir, name string, data []byte) error {
	if err := durable.Write(filepath.Join(dir, name), data, 0o644); err != nil {
		return err
	}
	return durable.Write(filepath.Join(dir, "CURRENT"), []byte(name+"\n"), 0o644)
}

// Tables returns the table files that the database needs, by number.
func (m *Manifest) Tables() []Table {
	tables := make([]Table, 0, len(m.tables))
	for _, t := range m.tables {
		if f, ok := m.families[t.family]; ok {
			if t.Family = f.name; t.family == 0 {
				t.Family = "default"
			}
			tables = append(tables, t)
		}
	}
	slices.SortFunc(tables, func(a, b Table) int { return cmp.Compare(a.Number, b.Number) })
	return tables
}

// Drop writes a MANIFEST of a database that does not need some tables any more, and makes CURRENT name it.
func (m *Manifest) Drop(dir string, tables []Table) error {
	data := bytes.Clone(m.data[:m.end])
	for _, t := range tables {
		var edit []byte
		for _, v := range []uint64{tagFamily, uint64(t.family), tagDeletedFile, uint64(t.Level), t.Number} {
			edit = binary.AppendUvarint(edit, v)
		}
		data = logfile.Append(data, edit)
	}
	n, _ := number(m.Name) // of MakeReadable: the next file's
	return replace(dir, fmt.Sprintf("MANIFEST-%06d", max(m.NextFile, n+1)), data)
}
