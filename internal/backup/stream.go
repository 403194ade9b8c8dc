package backup

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"time"

	"github.com/basaltdb/basalt/server/replication/lineconn"
	"github.com/basaltdb/basalt/server/replication/proto"
)

// silence is the max time without data from a server, which pings every two seconds when it is idle.
const silence = 30 * time.Second

// errRange: the server does not have the next write any more, or never had it.
var errRange = errors.New("the server does not have the next write any more")

// stream is a server's stream of write batches. The program does not announce itself with REPLCONF: so the server does
// not list it as a replica, which Sentinel or clients might use or promote, and does not wait for it.
type stream struct {
	*lineconn.Conn
	buf  []byte
	used int // consumed bytes of buf
}

// stream requests the batches from a sequence number on.
func (s *Server) stream(ctx context.Context, next uint64) (*stream, error) {
	c, err := s.dial(ctx)
	if err != nil {
		return nil, err
	}
	line, err := c.Ask(proto.AppendPSync(nil, proto.PSync{Next: next}), proto.MaxLine, answerTimeout)
	if err == nil {
		err = proto.CheckOK(line)
	}
	if err != nil {
		c.Close()
		if r := proto.ReplyError(""); errors.As(err, &r) && r.NeedsFull() {
			return nil, fmt.Errorf("%w: %s: PSYNC %d: %w", errRange, s.Addr, next, err)
		}
		return nil, fmt.Errorf("%s: PSYNC: %w", s.Addr, err)
	}
	return &stream{Conn: c}, nil
}

// next returns the next batch with records, or nil when the server has pinged. The batch is valid until the next call.
// at is the time of receipt.
func (s *stream) next() (rep []byte, at time.Time, err error) {
	for {
		f, n, need, err := proto.ReadFrame(s.buf[s.used:], math.MaxInt32)
		if err != nil {
			return nil, at, err
		}
		if n > 0 {
			s.used += n
			if f.Kind == proto.KindBatch && binary.LittleEndian.Uint32(f.Payload[8:]) == 0 {
				continue // only log data
			}
			if f.Kind == proto.KindBatch {
				rep = f.Payload
			}
			return rep, time.Now(), nil
		}
		if err := s.read(need); err != nil {
			return nil, at, err
		}
	}
}

// read reads more data, for a frame of at least need bytes.
func (s *stream) read(need int) error {
	rest := len(s.buf) - s.used
	if room := max(64<<10, min(need, 2*rest)); cap(s.buf) < room || s.used > 0 {
		buf := s.buf
		if cap(buf) < room || cap(buf) > 4<<20 && room <= 1<<20 {
			buf = make([]byte, 0, room)
		}
		s.buf, s.used = append(buf[:0], s.buf[s.used:]...), 0
	}
	if len(s.buf) == cap(s.buf) {
		s.buf = append(make([]byte, 0, 2*cap(s.buf)), s.buf...)
	}
	s.SetReadDeadline(time.Now().Add(silence))
	n, err := s.In.Read(s.buf[len(s.buf):cap(s.buf)])
	s.buf = s.buf[:len(s.buf)+n]
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
