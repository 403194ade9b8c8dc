package lineconn

import (
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"time"

	"github.com/basaltdb/basalt/server/replication/proto"
)

// Stream is what a master sends after PSYNC.
type Stream struct {
	*Conn
	buf  []byte
	used int // consumed bytes of buf
	need int // bytes of the next frame, as far as known
}

// Frame returns the next frame, which is valid until the next call of Fill; false when it has not arrived as a whole.
func (s *Stream) Frame() (f proto.Frame, ok bool, err error) {
	f, n, need, err := proto.ReadFrame(s.buf[s.used:], math.MaxInt32)
	s.used, s.need = s.used+n, need
	return f, n > 0, err
}

// Fill reads more data after Frame has returned false, for which it waits until the timeout.
func (s *Stream) Fill(timeout time.Duration) error {
	rest := len(s.buf) - s.used
	// The buffer of a long frame grows while it arrives.
	if room := max(64<<10, min(s.need, 2*rest)); cap(s.buf) < room || s.used > 0 {
		buf := s.buf
		if cap(buf) < room || cap(buf) > 4<<20 && room <= 1<<20 {
			buf = make([]byte, 0, room)
		}
		s.buf, s.used = append(buf[:0], s.buf[s.used:]...), 0
	}
	s.SetReadDeadline(time.Now().Add(timeout))
	n, err := s.In.Read(s.buf[rest:cap(s.buf)])
	s.buf = s.buf[:rest+n]
	switch {
	case n > 0:
		return nil
	case errors.Is(err, io.EOF):
		return fmt.Errorf("the server has ended the connection: %w", io.ErrUnexpectedEOF)
	case errors.Is(err, os.ErrDeadlineExceeded):
		return fmt.Errorf("the server is silent: %w", err)
	}
	return err
}
