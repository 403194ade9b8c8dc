package raw

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/basaltdb/basalt/internal/crc64"
)

// maxFixed is the max number of bytes that next returns: a score as text.
const maxFixed = 255

// Source reads a file through a buffer, and computes the checksum of the bytes taken.
type Source struct {
	r    io.Reader
	size int64 // size of the file, < 0 = unknown
	off  int64 // bytes taken

	buf      []byte // read and not taken: buf[pos:]
	pos      int
	summed   int // bytes of buf that are in the checksum
	checksum uint64
}

const sourceBuffer = 64 << 10

// NewSource returns a source of size bytes, < 0 = unknown.
func NewSource(r io.Reader, size int64) *Source {
	return &Source{r: r, size: size, buf: make([]byte, 0, sourceBuffer)}
}

// left returns an upper bound of the number of bytes left.
func (s *Source) left() uint64 {
	if s.size < 0 {
		return math.MaxInt64
	}
	return uint64(max(0, s.size-s.off))
}

// Sum returns the checksum of the bytes taken.
func (s *Source) Sum() uint64 {
	s.checksum = crc64.Update(s.checksum, s.buf[s.summed:s.pos])
	s.summed = s.pos
	return s.checksum
}

// next returns the next n bytes, at most maxFixed, valid until the next call.
func (s *Source) next(n int) ([]byte, error) {
	if len(s.buf)-s.pos < n {
		s.Sum()
		rest := copy(s.buf, s.buf[s.pos:])
		s.pos, s.summed = 0, 0
		got, err := io.ReadAtLeast(s.r, s.buf[rest:cap(s.buf)], n-rest)
		s.buf = s.buf[:rest+got]
		if err != nil {
			return nil, readError(err)
		}
	}
	b := s.buf[s.pos : s.pos+n]
	s.pos += n
	s.off += int64(n)
	return b, nil
}

// read fills b with the next bytes.
func (s *Source) read(b []byte) error {
	n := copy(b, s.buf[s.pos:])
	s.pos += n
	s.off += int64(n)
	if b = b[n:]; len(b) == 0 {
		return nil
	}
	if len(b) < maxFixed { // the buffer is empty
		more, err := s.next(len(b))
		copy(b, more)
		return err
	}
	s.Sum()
	n, err := io.ReadFull(s.r, b)
	s.checksum = crc64.Update(s.checksum, b[:n])
	s.off += int64(n)
	if err != nil {
		return readError(err)
	}
	return nil
}

// readMany returns the next n bytes. It allocates memory as the bytes arrive, because n may be wrong.
func (s *Source) readMany(n int) ([]byte, error) {
	const first = 1 << 20
	b := make([]byte, min(n, first))
	for done := 0; ; {
		if err := s.read(b[done:]); err != nil {
			return nil, err
		}
		if done = len(b); done == n {
			return b, nil
		}
		b = append(b, make([]byte, min(n-done, done))...)
	}
}

func readError(err error) error {
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		return Malformed("the file ends early")
	}
	return fmt.Errorf("%w: %w", ErrRead, err)
}

// Taken returns the number of bytes taken.
func (s *Source) Taken() int64 { return s.off }

// More reports whether something follows.
func (s *Source) More() (bool, error) {
	switch _, err := s.next(1); {
	case err == nil:
		s.pos--
		s.off--
		return true, nil
	case errors.Is(err, ErrRead):
		return false, err
	}
	return false, nil
}

// Rest returns a reader of the bytes not taken.
func (s *Source) Rest() io.Reader {
	return io.MultiReader(bytes.NewReader(s.buf[s.pos:]), s.r)
}
