package backup

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
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
type stream struct{ lineconn.Stream }

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
	return &stream{lineconn.Stream{Conn: c}}, nil
}

// next returns the next batch with records, or nil when the server has pinged. The batch is valid until the next call.
// at is the time of receipt.
func (s *stream) next() (rep []byte, at time.Time, err error) {
	for {
		f, ok, err := s.Frame()
		if err == nil && !ok {
			err = s.Fill(silence)
		}
		switch {
		case err != nil:
			return nil, at, err
		case !ok || f.Kind == proto.KindBatch && binary.LittleEndian.Uint32(f.Payload[8:]) == 0: // only log data
			continue
		case f.Kind == proto.KindBatch:
			rep = f.Payload
		}
		return rep, time.Now(), nil
	}
}
