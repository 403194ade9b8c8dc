// Package logfile reads and writes the container format of RocksDB's write-ahead logs and MANIFESTs, and finds out how
// a file ends.
//
// A file is a sequence of blocks of 32 KiB. A block holds fragments, which never cross its end:
//
//	u32 checksum (crc32c of type and payload, masked) · u16 length · u8 type · payload      (little-endian)
//
// Types 5 to 8 are those of recycled logs, which have the u32 log number behind the type. A record is one fragment
// (full) or several fragments (first, middle ..., last). If less than the length of a header is left at the end of a
// block, it is padding. Source: db/log_format.h and db/log_reader.cc of RocksDB.
package logfile

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
)

// The sizes of the format in bytes.
const (
	BlockSize      = 32 << 10
	headerSize     = 7
	recycledHeader = 11
)

// The types of fragments.
const (
	typeZero        = 0
	typeFull        = 1
	typeFirst       = 2
	typeMiddle      = 3
	typeLast        = 4
	typeRecycled    = 4 // added to the type in recycled logs
	typeCompression = 9
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// checksum returns the masked crc32c of a fragment, from its type on.
func checksum(typeAndPayload []byte) uint32 {
	c := crc32.Checksum(typeAndPayload, castagnoli)
	return (c>>15 | c<<17) + 0xa282ead8
}

// Seal writes the checksum of a fragment with a changed payload into its header. header is the offset of the header in
// file, length is the length of the payload.
func Seal(file []byte, header int64, length int) {
	b := file[header:]
	n := headerSize + length
	if b[6] > typeRecycled && b[6] <= 2*typeRecycled {
		n = recycledHeader + length
	}
	binary.LittleEndian.PutUint32(b, checksum(b[6:n]))
}

// Append appends a record to a file in memory, which must end behind a record.
func Append(file, record []byte) []byte { return appendRecord(file, record, 0) }

// appendRecord is Append to a recycled log with that number, 0 = it is none.
func appendRecord(file, record []byte, number uint32) []byte {
	header := headerSize
	if number != 0 {
		header = recycledHeader
	}
	for first := true; first || len(record) > 0; first = false {
		left := BlockSize - len(file)%BlockSize
		if left < header {
			file = append(file, make([]byte, left)...)
			left = BlockSize
		}
		n := min(len(record), left-header)
		kind := byte(typeMiddle)
		switch {
		case first && n == len(record):
			kind = typeFull
		case first:
			kind = typeFirst
		case n == len(record):
			kind = typeLast
		}
		at := len(file)
		file = append(file, 0, 0, 0, 0, byte(n), byte(n>>8), kind)
		if number != 0 {
			file[at+6] += typeRecycled
			file = binary.LittleEndian.AppendUint32(file, number)
		}
		file = append(file, record[:n]...)
		Seal(file, int64(at), n)
		record = record[n:]
	}
	return file
}

// Damage says where and why a file cannot be read further.
type Damage struct {
	Offset int64 // of the first record that is incomplete or damaged
	Reason string
}

func (d *Damage) Error() string { return fmt.Sprintf("damaged at byte %d: %s", d.Offset, d.Reason) }

// ErrNewer is returned for a whole record of a type that this version does not know.
var ErrNewer = errors.New("it holds records of a newer RocksDB")

// Fragment is a part of a record.
type Fragment struct {
	Header int64 // offset of the fragment's header in the file
	Start  int64 // offset of the payload in the file
	Len    int
}

// Scanner reads the records of one file. It holds a block and a record, or the beginning of one.
type Scanner struct {
	r      io.Reader
	number uint32
	block  []byte // the unread rest of the block begins at pos
	pos    int
	base   int64 // offset of block in the file
	last   bool  // the block is the last one
	buf    [BlockSize]byte
	record []byte
	parts  []Fragment
	start  int64
	end    int64
	err    error
	size   int
	// Keep is how many bytes of a record, at most, are in memory and returned by Record; 0 = all.
	Keep int
	// Compressed is set once the file has said that its records are compressed; [Scanner.Record] is compressed then.
	Compressed bool
}

// NewScanner reads the file r from its beginning. number is the number in the name of the file, with which fragments of
// recycled logs are compared.
func NewScanner(r io.Reader, number uint64) *Scanner { return &Scanner{r: r, number: uint32(number)} }

// Record returns the record that Next has found. It is valid until the next call of Next.
func (s *Scanner) Record() []byte { return s.record }

// Size returns how many bytes the record has that Next has found.
func (s *Scanner) Size() int { return s.size }

// Fragments returns where the record is in the file. It is valid until the next call of Next.
func (s *Scanner) Fragments() []Fragment { return s.parts }

// Start returns the offset of the record.
func (s *Scanner) Start() int64 { return s.start }

// End returns the offset behind the last whole record.
func (s *Scanner) End() int64 { return s.end }

// Err returns why Next has returned false: nil at the end of the file, a [*Damage], [ErrNewer], or an error of the
// reader.
func (s *Scanner) Err() error { return s.err }

// Next reads the next record.
func (s *Scanner) Next() bool {
	if s.err != nil {
		return false
	}
	s.record, s.parts, s.size = s.record[:0], s.parts[:0], 0
	for {
		f, kind, err := s.fragment()
		switch {
		case errors.Is(err, io.EOF):
			if len(s.parts) > 0 {
				s.err = &Damage{s.start, "the record has no end"}
			}
			return false
		case err != nil:
			if d := (*Damage)(nil); errors.As(err, &d) && len(s.parts) > 0 {
				d.Offset = s.start
			}
			s.err = err
			return false
		case kind == typeCompression:
			s.Compressed, s.end = true, f.Start+int64(f.Len)
			continue
		}
		begins := kind == typeFull || kind == typeFirst
		if begins == (len(s.parts) > 0) {
			reason := "a record begins within another"
			if len(s.parts) == 0 {
				s.start, reason = f.Header, "the record has no beginning"
			}
			s.err = &Damage{s.start, reason}
			return false
		}
		if begins {
			s.start = f.Header
		}
		s.parts = append(s.parts, f)
		at, keep := int(f.Start-s.base), f.Len
		if s.Keep > 0 {
			keep = min(keep, s.Keep-len(s.record))
		}
		s.record = append(s.record, s.block[at:at+keep]...)
		s.size += f.Len
		if kind == typeFull || kind == typeLast {
			s.end = f.Start + int64(f.Len)
			return true
		}
	}
}

// fragment reads the next fragment; its payload is in block. kind is the type as in a log that is not recycled. After a
// damage, pos is the offset of the damaged fragment.
func (s *Scanner) fragment() (f Fragment, kind byte, err error) {
	for len(s.block)-s.pos < headerSize {
		if s.last {
			if n := len(s.block) - s.pos; n > 0 && len(s.block) < BlockSize {
				return f, 0, s.damage("a header is cut off")
			}
			return f, 0, io.EOF
		}
		if err := s.more(); err != nil {
			return f, 0, err
		}
	}
	f, kind, reason := s.at(s.pos)
	if reason != "" {
		return f, 0, s.damage(reason)
	}
	if f.Len < 0 { // the rest of an older log
		return f, 0, io.EOF
	}
	if kind > typeLast && kind != typeCompression {
		return f, 0, fmt.Errorf("%w: type %d at byte %d", ErrNewer, kind, f.Header)
	}
	s.pos = int(f.Start-s.base) + f.Len
	return f, kind, nil
}

func (s *Scanner) damage(reason string) error { return &Damage{s.base + int64(s.pos), reason} }

// more reads the next block.
func (s *Scanner) more() error {
	s.base += int64(len(s.block))
	n, err := io.ReadFull(s.r, s.buf[:])
	s.block, s.pos = s.buf[:n], 0
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		s.last = true
		return nil
	}
	return err
}

// at decodes the fragment at an offset in the block. reason says what is wrong with the fragment. Len is -1 when the
// fragment belongs to an older log whose file was recycled. The block must have room for a header there.
func (s *Scanner) at(pos int) (f Fragment, kind byte, reason string) {
	b := s.block[pos:]
	n, header := int(binary.LittleEndian.Uint16(b[4:])), headerSize
	kind = b[6]
	recycled := kind > typeRecycled && kind <= 2*typeRecycled
	if recycled {
		header = recycledHeader
	}
	f = Fragment{Header: s.base + int64(pos), Start: s.base + int64(pos+header), Len: n}
	switch {
	case kind == typeZero && n == 0:
		return f, kind, "zeros"
	case header+n > len(b) && s.last:
		return f, kind, "a record is cut off"
	case header+n > len(b):
		return f, kind, "a record is longer than its block"
	case binary.LittleEndian.Uint32(b) != checksum(b[6:header+n]):
		return f, kind, "checksum mismatch"
	case kind == typeZero:
		return f, kind, "a record of type 0"
	}
	if recycled {
		kind -= typeRecycled
		if binary.LittleEndian.Uint32(b[headerSize:]) != s.number {
			f.Len = -1
		}
	}
	return f, kind, ""
}

// Resync continues after a damage: it looks for the next whole record that accept (nil = any) takes for a record of
// this file, and leaves it in Record and Fragments. In the damaged block it tries every byte offset, as the header
// itself may be damaged; further blocks begin with a header. It reports false at the end of the file. Err is then the
// damage, or an error that has ended the search.
func (s *Scanner) Resync(accept func(record []byte) bool) bool {
	damage := (*Damage)(nil)
	if !errors.As(s.err, &damage) {
		return false
	}
	s.pos++
	for everyByte := true; ; everyByte = false {
		for len(s.block)-s.pos >= headerSize {
			if t := s.block[s.pos+6]; everyByte && (t == typeZero || t > 2*typeRecycled) {
				s.pos++
				continue
			}
			f, kind, reason := s.at(s.pos)
			switch {
			case reason != "" || f.Len < 0:
				if !everyByte {
					s.pos = len(s.block)
				}
				s.pos++
				continue
			case kind != typeFull && kind != typeFirst:
				s.pos = int(f.Start-s.base) + f.Len
				continue
			}
			pos, base := s.pos, s.base
			s.err = nil
			if s.Next() && (accept == nil || accept(s.record)) {
				return true
			}
			if again := (*Damage)(nil); s.err != nil && !errors.As(s.err, &again) {
				return false
			}
			if s.base == base {
				s.pos = pos + 1
			} else if s.err != nil { // the record continues in this block, which is damaged
				everyByte = true
				s.pos++
			}
		}
		if s.err = damage; s.last {
			return false
		}
		if err := s.more(); err != nil {
			s.err = err
			return false
		}
	}
}
