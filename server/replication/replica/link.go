package replica

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/server/replication/fullsync"
	"github.com/basaltdb/basalt/server/replication/lineconn"
	"github.com/basaltdb/basalt/server/replication/proto"
)

// link is the connection of a replica to its master, which is made again after each end: see run.
type link struct {
	r    *Replica
	db   *engine.DB
	log  *zap.Logger
	host string
	port int
	ctx  context.Context
	stop context.CancelFunc
	// written: clients may have written to the database before.
	written bool
	before  <-chan struct{} // closed when the previous link has ended
	done    chan struct{}   // closed when this link has ended

	state     atomic.Uint32 // LinkState
	lastIO    atomic.Int64  // unix nanoseconds
	downSince atomic.Int64  // Unix nanoseconds, 0 = the link is up
	err       atomic.Pointer[string]
	meter     fullsync.Meter
	conn      atomic.Pointer[lineconn.Conn] // of once
	redisState

	// Used by the goroutine of run:
	short     bool   // the master knows only PSYNC without an id
	refused   string // the error of the last batch that could not be parsed
	forceFull bool
	renewed   time.Time // see renew; zero = never
	files     *fullsync.Fetcher
}

// Bounds of time.
const (
	answerTimeout = 10 * time.Second // for the reply to a request
	// silenceTimeout is the max time without data from the master, which sends a ping every two seconds when it is
	// idle.
	silenceTimeout = 30 * time.Second
	ackEvery       = time.Second
	ackTimeout     = 100 * time.Millisecond
)

// dial connects and authenticates. The connection is closed when the link is stopped.
func (l *link) dial() (*lineconn.Conn, error) {
	nc, err := l.r.o.Dial(l.ctx, l.addr())
	if err != nil {
		return nil, err
	}
	c := lineconn.New(l.ctx, nc, l.heard)
	s := l.r.settings.Load()
	if err := c.Auth(s.User, s.Password, answerTimeout); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// heard counts n received bytes.
func (l *link) heard(n int64) {
	l.r.received.Add(n)
	l.lastIO.Store(time.Now().UnixNano())
}

// once connects and applies the stream until the connection ends. The error is never nil.
func (l *link) once() error {
	if err := l.db.Stopped(); err != nil && !l.forceFull {
		return proto.Refuse("this replica", err)
	}
	l.setState(Connecting)
	c, err := l.dial()
	if err != nil {
		return err
	}
	defer c.Close()
	l.conn.Store(c)
	defer l.conn.Store(nil)
	capable, err := l.introduce(c)
	if no, ok := errors.AsType[proto.ReplyError](err); ok && no.UnknownCommand() {
		return l.followRedis(c)
	}
	if err != nil {
		return err
	}
	l.redis.Store(false)
	if err := l.psync(c); err != nil {
		return err
	}
	l.log.Info("connected with the master", zap.Uint64("sequence", l.db.LatestSequence()))
	l.equal()
	l.setState(Connected)
	l.db.NewMaster()
	return l.stream(c, capable)
}

// introduce performs the steps before PSYNC. capable reports whether the master knows the capability to acknowledge.
func (l *link) introduce(c *lineconn.Conn) (capable bool, err error) {
	s := l.r.settings.Load()
	l.setState(CheckingName)
	line, err := c.Ask(proto.AppendDBName(nil), proto.MaxLine, answerTimeout)
	if err != nil {
		return false, err
	}
	switch name, err := proto.ParseName(line); {
	case err != nil && loading(err):
		return false, fmt.Errorf("_db_name: %w", err)
	case err != nil:
		return false, proto.Refuse("_db_name", err)
	case name != s.DBName:
		return false, proto.Refuse("its name is "+strings.ToValidUTF8(name, "?")+", here it is "+s.DBName, errName)
	}
	l.setState(SendingConf)
	conf := proto.Conf{Port: s.Port, Address: s.Address}
	line, err = c.Ask(proto.AppendConf(nil, conf), proto.MaxLine, answerTimeout)
	if err != nil {
		return false, err
	}
	var e proto.ReplyError
	if err := proto.CheckOK(line); errors.As(err, &e) && e.UnknownOption() && conf.Address != "" {
		conf.Address = "" // an old Kvrocks
		if line, err = c.Ask(proto.AppendConf(nil, conf), proto.MaxLine, answerTimeout); err != nil {
			return false, err
		}
	}
	if err := proto.CheckOK(line); err != nil {
		l.log.Warn("the master has rejected the port and address of this server", zap.Error(err))
	}
	if line, err = c.Ask(proto.AppendCapa(nil, true), proto.MaxLine, answerTimeout); err != nil {
		return false, err
	}
	return proto.CheckOK(line) == nil, nil
}

// psync requests the stream.
func (l *link) psync(c *lineconn.Conn) error {
	if l.forceFull {
		return errNeedsFull
	}
	l.setState(SendingPSync)
	id, next := l.lastWritten()
	if l.r.own.get() && id == "" && next > 1 {
		l.log.Warn("clients have written to this database: nothing tells whether the master has its history (use-rsid-psync)")
		return errNeedsFull
	}
	line, err := c.Ask(proto.AppendPSync(nil, proto.PSync{ID: id, Next: next}), proto.MaxLine, answerTimeout)
	if err != nil {
		return err
	}
	err = proto.CheckOK(line)
	switch {
	case err == nil:
		return nil
	case loading(err):
		return fmt.Errorf("PSYNC: %w", err)
	case id != "" && strings.Contains(err.Error(), string(proto.ErrArguments)):
		l.short = true
		return fmt.Errorf("PSYNC with a replication id: %w", err)
	}
	l.log.Warn("the master refuses a partial synchronisation", zap.Uint64("next", next),
		zap.String("id", id), zap.Error(err))
	return errNeedsFull
}

// loading reports whether the master itself is replacing its database.
func loading(err error) bool {
	var e proto.ReplyError
	return errors.As(err, &e) && e.Loading()
}

// group is what has arrived from the master in one piece.
type group struct {
	buf     []byte // memory of the batches
	batches []*engine.ExternalBatch
	time    int64 // the master's clock after the batches, or an estimate; 0 = unknown
	ask     bool  // the master wants an acknowledgement
	sync    bool  // the master wants an acknowledgement of what is on the disk
	err     error // of the data after the batches, which cannot be read
}

// streamBuffer is the max number of bytes of one read. Batches that have arrived together are applied together.
const streamBuffer = 256 << 10

// stream applies the stream until the connection ends. One goroutine reads and checks it, the caller's applies it.
func (l *link) stream(c *lineconn.Conn, capable bool) error {
	groups, spare := make(chan group, 2), make(chan []byte, 4)
	end := make(chan struct{})
	var reader sync.WaitGroup
	reader.Go(func() { l.read(c, groups, spare, end) })
	defer reader.Wait()
	defer c.Close()
	defer close(end)
	acks := acker{l: l, c: c, capable: capable}
	tick := time.NewTicker(ackEvery)
	defer tick.Stop()
	for {
		select {
		case <-l.ctx.Done():
			return l.ctx.Err()
		case <-tick.C:
			if err := l.db.Stopped(); err != nil {
				return proto.Refuse("this replica", err)
			}
			if err := acks.send(false); err != nil {
				return err
			}
		case g := <-groups:
			if err := l.apply(&g); err != nil {
				return err
			}
			select {
			case spare <- g.buf:
			default:
			}
			if g.ask || g.sync || capable && len(g.batches) > 0 && len(groups) == 0 {
				if err := acks.send(g.sync); err != nil {
					return err
				}
			}
		}
	}
}

func (l *link) apply(g *group) error {
	n, err := l.db.ApplyUpdates(g.batches, !l.r.settings.Load().Writable, l.ctx.Done(), l.r.o.Committed)
	for _, b := range g.batches[:n] {
		l.r.o.Applied(b)
	}
	if err != nil {
		if errors.Is(err, engine.ErrSequence) {
			return fmt.Errorf("the stream has a gap: %w", err)
		}
		return proto.Refuse("a write of the master could not be applied", err)
	}
	if g.time != 0 {
		l.db.MasterTime(g.time)
	}
	return g.err
}

// read reads the stream and splits it into groups.
func (l *link) read(c *lineconn.Conn, groups chan<- group, spare <-chan []byte, end <-chan struct{}) {
	buffer := func(size int) []byte {
		select {
		case b := <-spare:
			if cap(b) >= size && cap(b) <= 4*streamBuffer {
				return b[:0]
			}
		default:
		}
		return make([]byte, 0, max(size, streamBuffer))
	}
	buf := buffer(0)
	rest, _ := c.In.Peek(c.In.Buffered())
	buf = append(buf, rest...)
	for {
		g, used, need := l.parse(buf)
		if g.err == nil {
			if len(buf) == cap(buf) && used == 0 { // one long frame: the buffer grows while it arrives
				buf = append(make([]byte, 0, min(max(need, len(buf)+1), 2*cap(buf))), buf...)
			}
			if used == 0 {
				c.SetReadDeadline(time.Now().Add(silenceTimeout))
				n, err := c.Read(buf[len(buf):cap(buf)])
				buf = buf[:len(buf)+n]
				if n > 0 || err == nil {
					continue
				}
				if g.err = err; errors.Is(err, os.ErrDeadlineExceeded) {
					g.err = fmt.Errorf("the master is silent: %w", err)
				} else if errors.Is(err, io.EOF) {
					g.err = fmt.Errorf("the master has ended the connection: %w", err)
				}
			}
		}
		next := append(buffer(len(buf)-used), buf[used:]...)
		g.buf = buf
		select {
		case groups <- g:
		case <-end:
			return
		}
		if g.err != nil {
			return
		}
		buf = next
	}
}

// parse parses the complete frames. used is their length in bytes; need is the min length of the next one.
func (l *link) parse(buf []byte) (g group, used, need int) {
	for {
		f, n, more, err := proto.ReadFrame(buf[used:], math.MaxInt32)
		if _, ok := errors.AsType[proto.EndError](err); ok {
			g.err = err
			return g, used, 0
		}
		if err != nil {
			g.err = proto.Refuse("the stream", err)
			return g, used, 0
		}
		if n == 0 {
			return g, used, more
		}
		switch f.Kind {
		case proto.KindPing:
			g.time = l.db.CompactionClock() - engine.VersionMargin
		case proto.KindTime:
			g.time = f.Time()
		case proto.KindGetAck:
			g.ask = true
		case proto.KindGetSync:
			g.sync = true
		case proto.KindBatch:
			b, err := l.db.CheckUpdate(f.Payload)
			if err != nil {
				g.err = proto.Refuse("a write of the master is not understood", err)
				// A copy of the database may bring what the batch refers to: a column family of a newer version.
				l.forceFull, l.refused = err.Error() != l.refused, err.Error()
				return g, used, 0
			}
			g.batches = append(g.batches, b)
		}
		used += n
	}
}

// acker acknowledges applied writes.
type acker struct {
	l       *link
	c       *lineconn.Conn
	capable bool // the master reads acknowledgements
	mute    bool // the master, perhaps an old Kvrocks, does not read acknowledgements
}

// send acknowledges what is applied; with sync, it first writes the log to the disk.
func (a *acker) send(sync bool) error {
	if a.mute {
		return nil
	}
	seq := a.l.db.LatestSequence()
	ack := proto.AppendAck(nil, seq)
	if sync {
		if err := a.l.db.SyncWAL(); err != nil {
			a.l.log.Warn("syncing the log for WAITAOF of the master failed", zap.Error(err))
		} else {
			ack = proto.AppendSyncedAck(nil, seq, seq)
		}
	}
	timeout := ackTimeout
	if a.capable {
		timeout = answerTimeout
	}
	a.c.SetWriteDeadline(time.Now().Add(timeout))
	_, err := a.c.Write(ack)
	if err != nil && !a.capable && errors.Is(err, os.ErrDeadlineExceeded) {
		a.mute = true
		a.l.log.Debug("the master reads no acknowledgements")
		return nil
	}
	return err
}
