package keycount

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/basaltdb/basalt/internal/durable"
)

// FileName is the name of the file in a database's directory that keeps the counts while the database is closed.
// RocksDB ignores files whose names it does not know.
const FileName = "KEYCOUNT"

// Saved are the counts of a closed database. They are valid as long as no other program opens it: opening makes a new
// manifest, and writes change the sequence number.
//
// The file, with varint numbers (zigzag if signed) where no length is given:
//
//	"basaltKC" · u8 1 · str identity · str manifest · u64 sequence · n · n namespaces · u32 crc32c of all before
//	namespace: str name · signed plain · unknown · missed · slack · u8 loose · exact · ends · misses
//	exact: n · n times (milliseconds since the one before, which is 0 at first · signed count)
//	ends, misses: signed gone · n · n times (seconds since the one before, which is gone at first · signed count)
//	str: length · bytes
type Saved struct {
	Identity string // content of RocksDB's file IDENTITY
	Manifest string // content of RocksDB's file CURRENT
	Sequence uint64
	Counters map[string]*Counter // by namespace
}

const (
	magic = "basaltKC\x01"
	// maxFile is the max length in bytes of a file that is read: some 50 times the length for a namespace of keys with
	// all kinds of expiries.
	maxFile = 256 << 20
	// maxAt is the last second or millisecond of an entry.
	maxAt = int64(1) << 60
)

var ErrFile = errors.New("damaged file of key counts")

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func appendString(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// Append appends the file's content. Nothing may be added to the counters during the call.
func (s *Saved) Append(b []byte) []byte {
	from := len(b)
	b = append(b, magic...)
	b = appendString(b, s.Identity)
	b = appendString(b, s.Manifest)
	b = binary.LittleEndian.AppendUint64(b, s.Sequence)
	b = binary.AppendUvarint(b, uint64(len(s.Counters)))
	for name, c := range s.Counters {
		b = appendString(b, name)
		b = c.append(b)
	}
	return binary.LittleEndian.AppendUint32(b, crc32.Checksum(b[from:], castagnoli))
}

func (c *Counter) append(b []byte) []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	b = binary.AppendVarint(b, c.plain.Load())
	b = binary.AppendUvarint(b, uint64(c.unknown.Load()))
	b = binary.AppendUvarint(b, uint64(c.missed))
	b = binary.AppendUvarint(b, uint64(c.slack+c.ends.lost))
	loose := byte(0)
	if c.loose {
		loose = 1
	}
	b = append(b, loose)
	b = binary.AppendUvarint(b, uint64(len(c.exact)))
	at := int64(0)
	for _, ms := range slices.Sorted(maps.Keys(c.exact)) {
		b = binary.AppendUvarint(b, uint64(ms-at))
		b = binary.AppendVarint(b, int64(c.exact[ms]))
		at = ms
	}
	return c.misses.append(c.ends.append(b))
}

func (b *buckets) append(dst []byte) []byte {
	dst = binary.AppendVarint(dst, b.gone)
	n := 0
	b.each(func(sec int64, _ int32) {
		if sec > b.gone {
			n++
		}
	})
	dst = binary.AppendUvarint(dst, uint64(n))
	at := b.gone
	b.each(func(sec int64, n int32) {
		if sec > b.gone {
			dst = binary.AppendUvarint(dst, uint64(sec-at))
			dst = binary.AppendVarint(dst, int64(n))
			at = sec
		}
	})
	return dst
}

// reader decodes a file. After the first fault it reads only zeros.
type reader struct {
	b   []byte
	bad bool
}

func (r *reader) take(n uint64) []byte {
	if r.bad || n > uint64(len(r.b)) {
		r.bad = true
		return nil
	}
	p := r.b[:n]
	r.b = r.b[n:]
	return p
}

func (r *reader) uvarint() uint64 { return number(r, binary.Uvarint) }
func (r *reader) varint() int64   { return number(r, binary.Varint) }

func number[T int64 | uint64](r *reader, decode func([]byte) (T, int)) T {
	v, n := decode(r.b)
	if n <= 0 {
		r.bad = true
		return 0
	}
	r.b = r.b[n:]
	return v
}

// count is uvarint for a number of things or keys, with a limit far from an overflow.
func (r *reader) count() int64 {
	v := r.uvarint()
	if v > 1<<56 {
		r.bad = true
		return 0
	}
	return int64(v)
}

// Decode reads a file's content. now is the present.
func Decode(b []byte, now int64) (*Saved, error) {
	if len(b) < len(magic)+4 || string(b[:len(magic)]) != magic {
		return nil, ErrFile
	}
	body, sum := b[:len(b)-4], binary.LittleEndian.Uint32(b[len(b)-4:])
	if crc32.Checksum(body, castagnoli) != sum {
		return nil, fmt.Errorf("%w: wrong checksum", ErrFile)
	}
	return decode(body[len(magic):], now)
}

// decode is Decode without magic and checksum.
func decode(b []byte, now int64) (*Saved, error) {
	r := &reader{b: b}
	s := &Saved{Counters: map[string]*Counter{}}
	s.Identity, s.Manifest = string(r.take(r.uvarint())), string(r.take(r.uvarint()))
	if p := r.take(8); p != nil {
		s.Sequence = binary.LittleEndian.Uint64(p)
	}
	for n := r.uvarint(); n > 0 && !r.bad; n-- {
		s.Counters[string(r.take(r.uvarint()))] = r.counter(now)
	}
	if r.bad || len(r.b) > 0 {
		return nil, ErrFile
	}
	return s, nil
}

func (r *reader) counter(now int64) *Counter {
	c := New(now)
	c.plain.Store(r.varint())
	c.unknown.Store(r.count())
	c.missed, c.slack = r.count(), r.count()
	if p := r.take(1); p != nil {
		c.loose = p[0] != 0
	}
	r.each(0, func(ms int64, n int) {
		if len(c.exact) < exactMost {
			c.exact[ms] = int32(n)
		}
	})
	r.buckets(&c.ends)
	r.buckets(&c.misses)
	return c
}

// buckets reads into new buckets, whose windows begin at the present: that bounds their memory.
func (r *reader) buckets(b *buckets) {
	gone := r.varint()
	if gone < 0 || gone > farEnd {
		r.bad = true
		return
	}
	// Ends long before the present are not worth a bucket, unless the clock was set back.
	b.gone = max(gone, b.start-secondsSpan)
	b.next = b.gone
	r.each(gone, func(at int64, n int) { b.add(at, n) })
}

// each reads pairs of a delta to the previous number and a count; at is the number before the first pair.
func (r *reader) each(at int64, f func(at int64, n int)) {
	for n := r.uvarint(); n > 0; n-- {
		d := r.uvarint()
		count := r.varint()
		if r.bad || d == 0 || d > uint64(maxAt-at) || count != int64(int32(count)) {
			r.bad = true
			return
		}
		at += int64(d)
		f(at, int(count))
	}
}

// Write writes the file into a directory atomically.
func (s *Saved) Write(dir string) error {
	return durable.Write(filepath.Join(dir, FileName), s.Append(nil), 0o644)
}

// Identify returns the identity of the database state in a directory, except for the sequence number.
func Identify(dir string) (*Saved, error) {
	identity, err := os.ReadFile(filepath.Join(dir, "IDENTITY"))
	if err != nil {
		return nil, err
	}
	current, err := os.ReadFile(filepath.Join(dir, "CURRENT"))
	if err != nil {
		return nil, err
	}
	return &Saved{Identity: string(identity), Manifest: string(current)}, nil
}

// Remove removes the file of a directory, if it exists.
func Remove(dir string) error {
	err := os.Remove(filepath.Join(dir, FileName))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}

// Read reads the file of a directory. Without a file it returns nil.
func Read(dir string, now int64) (*Saved, error) {
	name := filepath.Join(dir, FileName)
	st, err := os.Stat(name)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if st.Size() > maxFile {
		return nil, fmt.Errorf("%w: %d bytes", ErrFile, st.Size())
	}
	b, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	return Decode(b, now)
}
