// Package manifest reads what RocksDB's MANIFEST says of a database's logs and families, and makes the MANIFEST of a
// newer RocksDB readable for RocksDB 7.8.
//
// A MANIFEST is a log file (package logfile) whose records are version edits: sequences of a varint tag and its
// fields. Source: db/version_edit.{h,cc} of RocksDB 7.8.3, 9.3.1, 10.6.2 and 11.1.1.
package manifest

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/basaltdb/basalt/engine/logfile"
)

// The tags of version edits.
const (
	tagComparator    = 1
	tagLogNumber     = 2
	tagNextFile      = 3
	tagLastSequence  = 4
	tagCompactCursor = 5
	tagDeletedFile   = 6
	tagNewFile       = 7
	tagPrevLogNumber = 9
	tagMinLogToKeep  = 10
	tagNewFile2      = 100
	tagNewFile3      = 102
	tagNewFile4      = 103
	tagFamily        = 200
	tagFamilyAdd     = 201
	tagFamilyDrop    = 202
	tagMaxFamily     = 203
	tagAtomicGroup   = 300
	tagBlobAddition  = 400
	tagBlobGarbage   = 401
	tagIgnorable     = 1 << 13          // this bit: an unknown tag may be skipped, its length follows
	tagBlobAddition0 = tagIgnorable + 2 // these four have the bit, but no length
	tagBlobGarbage0  = tagIgnorable + 3
	tagWALAddition0  = tagIgnorable + 4
	tagWALDeletion0  = tagIgnorable + 5
	customEnd        = 1
	customMinLog     = 3
	customUniqueID   = 12
	customPathID     = 65
	customMustKnow   = 1 << 6 // this bit: an unknown field of a file must not be skipped
)

// The types of keys that matter in the bounds of files. RocksDB 8.1 to 10.8 may store its placeholder for "sorts before
// all entries of this sequence number" in the bounds of a file (compactions over range tombstones). The number of the
// placeholder grew from 0x18 (8.1 to 8.11) to 0x1a. RocksDB 7.8 refuses both numbers. The greatest type that it
// accepts, that of wide columns, sorts the same way, because files hold no greater types. Newer versions accept it as
// well.
const (
	placeholder8 = 0x18
	placeholder9 = 0x1a
	greatestType = 0x16
)

// readableTypes are the types that RocksDB 7.8 accepts in a key (IsExtendedValueType in db/dbformat.h).
var readableTypes = [256]bool{
	0: true, 1: true, 2: true, 7: true, 0x0f: true, 0x11: true, 0x14: true, greatestType: true,
}

// ErrNewer is returned for a MANIFEST with entries that this version does not know and must not skip.
var ErrNewer = errors.New("it was written by a newer RocksDB")

// errShort is returned for an edit that ends in the middle of a field.
var errShort = errors.New("an entry is cut off")

// Manifest is what the MANIFEST of a database says.
type Manifest struct {
	Name         string // of the file
	LastSequence uint64
	NextFile     uint64 // number of the next file; all files have smaller numbers
	// MinLog is the smallest number of a log whose writes may not be in table files. NewestLog is the number of the
	// newest log that the MANIFEST knows of, or of an older log.
	MinLog, NewestLog uint64
	// TableSizes are the sizes in bytes of table files by number, some deleted files included.
	TableSizes map[uint64]uint64
	// TableIDs are the globally unique 16-byte ids of table files by number. RocksDB before 7.3 gave none.
	TableIDs map[uint64][]byte
	// TableSequences are, by number, the sequence numbers of table files whose records all have the same one, as those of
	// a file that was ingested. RocksDB may have written the number into the file, whose unique id stays the same.
	TableSequences map[uint64]uint64

	data     []byte
	end      int64 // of the last complete record in data
	families map[uint32]family
	tables   map[uint64]Table
	minKeep  uint64
	patches  []patch
}

type family struct {
	name string
	log  uint64 // the family needs the logs from this number on
}

// Table is a table file that the database needs.
type Table struct {
	Family            string
	Level             int
	Number, Size      uint64
	Smallest, Largest []byte // keys of the family

	family uint32
}

// Name returns the name of the file.
func (t *Table) Name() string { return fmt.Sprintf("%06d.sst", t.Number) }

// patch is a byte of the file that must change, in the fragment whose header is at header.
type patch struct {
	offset, header int64
	length         int // of the fragment's payload
}

// Read reads the MANIFEST that CURRENT names. An incomplete record at its end is left out, as by RocksDB.
func Read(dir string) (*Manifest, error) {
	current, err := os.ReadFile(filepath.Join(dir, "CURRENT"))
	if err != nil {
		return nil, err
	}
	name := strings.TrimSuffix(string(current), "\n")
	if _, ok := number(name); !ok {
		return nil, fmt.Errorf("%s does not name a MANIFEST", filepath.Join(dir, "CURRENT"))
	}
	data, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		return nil, err
	}
	m, err := parse(data)
	if err == nil && m.end == 0 {
		err = errors.New("it holds no entry")
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Join(dir, name), err)
	}
	m.Name = name
	return m, nil
}

func number(name string) (uint64, bool) {
	digits, ok := strings.CutPrefix(name, "MANIFEST-")
	if !ok {
		return 0, false
	}
	n, err := strconv.ParseUint(digits, 10, 64)
	return n, err == nil
}

func parse(data []byte) (*Manifest, error) {
	m := &Manifest{data: data, families: map[uint32]family{}, TableSizes: map[uint64]uint64{},
		TableIDs: map[uint64][]byte{}, TableSequences: map[uint64]uint64{}, tables: map[uint64]Table{}}
	s := logfile.NewScanner(bytes.NewReader(data), 0)
	for s.Next() {
		e := edit{m: m, s: s, b: s.Record()}
		if err := e.read(); err != nil {
			return nil, fmt.Errorf("the record at byte %d: %w", s.Start(), err)
		}
		m.end = s.End()
	}
	if damage := (*logfile.Damage)(nil); errors.As(s.Err(), &damage) {
		if s.Resync(nil) {
			return nil, damage
		}
	} else if s.Err() != nil {
		return nil, s.Err()
	}
	first := true
	for _, f := range m.families {
		if first || f.log < m.MinLog {
			m.MinLog = f.log
		}
		m.NewestLog = max(m.NewestLog, f.log)
		first = false
	}
	m.MinLog = max(m.MinLog, m.minKeep)
	return m, nil
}

// edit reads one version edit.
type edit struct {
	m      *Manifest
	s      *logfile.Scanner
	b      []byte // the record
	pos    int
	err    error
	family uint32
	log    uint64
	hasLog bool
	name   []byte
	add    bool
	drop   bool

	added   []Table
	deleted []Table // only Level and Number
}

// read applies the edit to the Manifest.
func (e *edit) read() error {
	for e.err == nil && e.pos < len(e.b) {
		e.field(e.uint())
	}
	if e.err != nil {
		return e.err
	}
	for _, t := range e.deleted { // before those that are added: an edit moves a file to another level by doing both
		if e.m.tables[t.Number].Level == t.Level {
			delete(e.m.tables, t.Number)
		}
	}
	for _, t := range e.added {
		t.family = e.family
		e.m.tables[t.Number] = t
	}
	switch f := e.m.families[e.family]; {
	case e.drop:
		delete(e.m.families, e.family)
	case e.add || e.hasLog || e.family == 0:
		if e.add {
			f.name = string(e.name)
		}
		if e.hasLog {
			f.log = e.log
		}
		e.m.families[e.family] = f
	}
	return nil
}

func (e *edit) field(tag uint64) {
	switch tag {
	case tagComparator:
		e.bytes()
	case tagLogNumber:
		e.log, e.hasLog = e.uint(), true
	case tagNextFile:
		e.m.NextFile = e.uint()
	case tagLastSequence:
		e.m.LastSequence = e.uint()
	case tagCompactCursor:
		e.uint()
		e.key()
	case tagDeletedFile:
		e.deleted = append(e.deleted, Table{Level: int(e.uint()), Number: e.uint()})
	case tagNewFile, tagNewFile2, tagNewFile3, tagNewFile4:
		e.file(tag)
	case tagPrevLogNumber, tagMaxFamily, tagAtomicGroup:
		e.uint()
	case tagMinLogToKeep:
		e.m.minKeep = max(e.m.minKeep, e.uint())
	case tagFamily:
		e.family = uint32(e.uint())
	case tagFamilyAdd:
		e.name, e.add = e.bytes(), true
	case tagFamilyDrop:
		e.drop = true
	case tagBlobAddition, tagBlobAddition0:
		e.uint()
		e.uint()
		e.uint()
		e.bytes()
		e.bytes()
		e.custom(0)
	case tagBlobGarbage, tagBlobGarbage0:
		e.uint()
		e.uint()
		e.uint()
		e.custom(0)
	case tagWALAddition0:
		e.uint()
		for t := e.uint(); t != 1 && e.err == nil; t = e.uint() {
			e.uint()
		}
	case tagWALDeletion0:
		e.uint()
	default:
		if tag&tagIgnorable == 0 {
			e.fail(fmt.Errorf("%w: entry %d", ErrNewer, tag))
			return
		}
		e.bytes()
	}
}

// file reads a table file: level, number, [path,] size, smallest and largest key, [smallest and largest sequence
// number,] [custom fields]. The tag decides which parts in brackets are present.
func (e *edit) file(tag uint64) {
	t := Table{Level: int(e.uint()), Number: e.uint()}
	if tag == tagNewFile3 {
		e.uint()
	}
	t.Size = e.uint()
	t.Smallest, t.Largest = bytes.Clone(e.key()), bytes.Clone(e.key())
	e.added = append(e.added, t)
	e.m.TableSizes[t.Number] = t.Size
	if tag == tagNewFile {
		return
	}
	if smallest, largest := e.uint(), e.uint(); smallest == largest {
		e.m.TableSequences[t.Number] = largest
	}
	if tag == tagNewFile4 {
		if id := e.custom(customEnd); len(id) == uniqueIDLen {
			e.m.TableIDs[t.Number] = bytes.Clone(id)
		}
	}
}

// uniqueIDLen is the length of a table file's unique id in bytes (EncodeUniqueIdBytes in table/unique_id.cc).
const uniqueIDLen = 16

// custom reads fields, each a varint tag and length-prefixed bytes, up to the tag end. It returns the unique id of a
// table file, if present.
func (e *edit) custom(end uint64) (id []byte) {
	for {
		tag := e.uint()
		if e.err != nil || tag == end {
			return id
		}
		if tag&customMustKnow != 0 && (end != customEnd || tag != customPathID) {
			e.fail(fmt.Errorf("%w: field %d of a file", ErrNewer, tag))
			return nil
		}
		v := e.bytes()
		if end == customEnd && tag == customUniqueID {
			id = v
		}
		if end == customEnd && tag == customMinLog && len(v) == 8 {
			e.m.minKeep = max(e.m.minKeep, binary.LittleEndian.Uint64(v))
		}
	}
}

// key reads an internal key: user key, then 8 bytes of type and sequence number, little-endian. It returns the user
// key.
func (e *edit) key() []byte {
	k := e.bytes()
	if e.err != nil {
		return nil
	}
	if len(k) < 8 {
		e.fail(errors.New("a key of less than 8 bytes"))
		return nil
	}
	at := e.pos - 8
	switch t := e.b[at]; {
	case t == placeholder8 || t == placeholder9:
		e.patch(at)
	case !readableTypes[t]:
		e.fail(fmt.Errorf("%w: a key of type %#x", ErrNewer, t))
	}
	return k[:len(k)-8]
}

// patch notes that a byte of the record must change.
func (e *edit) patch(at int) {
	for _, f := range e.s.Fragments() {
		if at < f.Len {
			e.m.patches = append(e.m.patches, patch{offset: f.Start + int64(at), header: f.Header, length: f.Len})
			return
		}
		at -= f.Len
	}
}

func (e *edit) fail(err error) {
	if e.err == nil {
		e.err = err
	}
}

func (e *edit) uint() uint64 {
	v, n := binary.Uvarint(e.b[e.pos:])
	if n <= 0 || e.err != nil {
		e.fail(errShort)
		return 0
	}
	e.pos += n
	return v
}

// bytes reads length-prefixed bytes.
func (e *edit) bytes() []byte {
	n := e.uint()
	if e.err != nil || n > uint64(len(e.b)-e.pos) {
		e.fail(errShort)
		return nil
	}
	b := e.b[e.pos : e.pos+int(n)]
	e.pos += int(n)
	return b
}
