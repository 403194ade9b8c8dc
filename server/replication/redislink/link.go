package redislink

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/basaltdb/basalt/server/rdb"
	"github.com/basaltdb/basalt/server/replication/proto"
)

// Target is the database that follows a master.
type Target interface {
	// State returns the position of the database in the stream; ok is false when it does not follow a Redis master.
	State() (s State, ok bool, err error)
	// Load begins to receive a copy of the master's data.
	Load() (Loader, error)
	// Apply runs commands in order, and stores the state, in one write. After an error nothing has changed. An error of
	// a command names the command.
	Apply(commands []Command, after State) error
	// Keep stores the state alone.
	Keep(State) error
}

// Loader receives a copy of the master's data. The copy is invisible until End.
type Loader interface {
	// Add adds a key or a library of functions.
	Add(*rdb.Item) error
	// Script adds a script of SCRIPT LOAD. It must not keep source.
	Script(source []byte) error
	// End replaces the database by the copy, and stores the state.
	End(State) error
	// Abort drops the copy. After End it does nothing.
	Abort()
}

// Step is the progress of a link.
type Step uint8

// The steps.
const (
	Introducing  Step = iota
	Asking            // PSYNC was sent
	Transferring      // of a copy
	Replacing         // of the database by the copy
	Streaming
)

// Options are the options of [Run].
type Options struct {
	Conn net.Conn
	In   *bufio.Reader // of Conn
	Log  *zap.Logger

	Port    int    // announced to the master
	Address string // announced, "" = the address of the connection
	Target  Target
	// MaxValue is the max memory in bytes of a key and its value in a transfer.
	MaxValue int64

	// Silence is the max time without data from the master, AckEvery the time between two acknowledgements.
	Silence, AckEvery time.Duration

	// Step is called when the link has reached a step, Loaded after a successful full synchronisation.
	Step   func(Step)
	Loaded func()
	// Heard is called after data has arrived.
	Heard func()
	// Transfer is called when a transfer begins, with its size in bytes, < 0 = unknown. Received is called when a part
	// of it has arrived.
	Transfer func(size int64)
	Received func(n int)
	// Offset is set to the offset that Target has applied; Applied returns the offset to acknowledge.
	Offset  *atomic.Int64
	Applied func() int64
}

// The bounds of what is applied at once. A single unit may exceed them.
const (
	groupCommands = 1024
	groupBytes    = 1 << 20
)

// streamBuffer is the max number of bytes of one read.
const streamBuffer = 1 << 20

// keepEvery is the number of bytes without effects in the stream, such as PING, after which the state alone is stored.
const keepEvery = 64 << 10

// link is a connection with a master.
type link struct {
	Options
	ctx   context.Context
	write sync.Mutex // held while Conn is written to
}

// Run follows a master over a connection until the connection ends; the error is never nil. To end Run, the caller
// closes the connection; ctx must be done by then.
func Run(ctx context.Context, o Options) error {
	l := &link{Options: o, ctx: ctx}
	l.Step(Introducing)
	if err := l.introduce(); err != nil {
		return err
	}
	state, err := l.sync()
	if err != nil {
		return err
	}
	l.Offset.Store(state.Offset)
	l.Step(Streaming)
	return l.stream(state)
}

// introduce performs the steps before PSYNC.
func (l *link) introduce() error {
	err := l.send(proto.AppendRequest(nil, "PING"))
	if err != nil {
		return err
	}
	line, err := l.line()
	if err != nil {
		return err
	}
	if text := string(line); strings.HasPrefix(text, "-") && !transient(text) {
		return proto.Refuse("PING", proto.ReplyError(text[1:]))
	}
	requests := [][]string{{"REPLCONF", "listening-port", strconv.Itoa(l.Port)}}
	if l.Address != "" {
		requests = append(requests, []string{"REPLCONF", "ip-address", l.Address})
	}
	requests = append(requests, []string{"REPLCONF", "capa", "eof", "capa", "psync2"})
	for _, words := range requests {
		if err := l.send(proto.AppendRequest(nil, words...)); err != nil {
			return err
		}
		if line, err = l.line(); err != nil {
			return err
		}
		if strings.HasPrefix(string(line), "-") {
			l.Log.Warn("the master has rejected an announcement of this server", zap.Strings("request", words),
				zap.ByteString("answer", line))
		}
	}
	return nil
}

// transient reports whether an error reply describes a temporary state.
func transient(text string) bool {
	codes := []string{"-LOADING", "-MASTERDOWN", "-NOMASTERLINK", "-BUSY", "-TRYAGAIN"}
	return slices.ContainsFunc(codes, func(code string) bool { return strings.HasPrefix(text, code) })
}

// sync requests the stream, and performs a full synchronisation if the master demands one. It returns the beginning of
// the stream.
func (l *link) sync() (State, error) {
	state, ok, err := l.Target.State()
	if err != nil {
		return state, proto.Refuse("reading where the database is", err)
	}
	id, next := "?", int64(-1)
	if ok {
		id, next = state.ID, state.Offset+1
	}
	l.Step(Asking)
	if err := l.send(proto.AppendRequest(nil, "PSYNC", id, strconv.FormatInt(next, 10))); err != nil {
		return state, err
	}
	line, err := l.answer()
	if err != nil {
		return state, err
	}
	words := strings.Fields(string(line))
	switch {
	case len(words) == 3 && words[0] == "+FULLRESYNC":
		full := State{ID: words[1]}
		if full.Offset, err = strconv.ParseInt(words[2], 10, 64); err != nil || full.Offset < 0 || !validID(full.ID) {
			return state, proto.Refuse("PSYNC", fmt.Errorf("%w: %.100q", ErrStream, line))
		}
		l.Log.Info("a full synchronisation with a Redis master begins", zap.String("id", full.ID),
			zap.Int64("offset", full.Offset))
		return l.load(full)
	case ok && len(words) > 0 && len(words) <= 2 && words[0] == "+CONTINUE":
		l.Log.Info("a partial synchronisation with a Redis master", zap.Int64("offset", state.Offset))
		if len(words) == 2 && words[1] != state.ID {
			if !validID(words[1]) {
				return state, proto.Refuse("PSYNC", fmt.Errorf("%w: %.100q", ErrStream, line))
			}
			l.Log.Info("the master has another replication id", zap.String("old", state.ID), zap.String("new", words[1]))
			state.ID = words[1]
			if err := l.Target.Keep(state); err != nil {
				return state, proto.Refuse("keeping the replication id", err)
			}
		}
		return state, nil
	case transient(string(line)):
		return state, fmt.Errorf("PSYNC: %w", proto.ReplyError(line[1:]))
	case strings.HasPrefix(string(line), "-"):
		return state, proto.Refuse("PSYNC", proto.ReplyError(line[1:]))
	}
	return state, proto.Refuse("PSYNC", fmt.Errorf("%w: %.100q", ErrStream, line))
}

// load receives a copy of the master's data.
func (l *link) load(state State) (State, error) {
	l.Step(Transferring)
	line, err := l.answer()
	if err != nil {
		return state, err
	}
	if strings.HasPrefix(string(line), "-") {
		return state, fmt.Errorf("the transfer: %w", proto.ReplyError(line[1:]))
	}
	t, err := parseTransfer(line)
	if err != nil {
		return state, proto.Refuse("the transfer", err)
	}
	l.Transfer(t.size)
	stop := l.keepAlive()
	defer stop()
	loader, err := l.Target.Load()
	if err != nil {
		return state, proto.Refuse("the full synchronisation", err)
	}
	defer loader.Abort()
	file, err := rdb.NewFile(t.reader(receiver{l}), t.size, l.MaxValue)
	if err != nil {
		return state, l.transferError(err)
	}
	version := ""
	file.OnAux = func(name string, value []byte) (err error) {
		switch name {
		case "redis-ver", "valkey-ver":
			version = name + " " + string(value[:min(len(value), 40)])
		case "repl-stream-db":
			if state.DB, err = parseDB(string(value)); err != nil {
				return fmt.Errorf("%w: repl-stream-db %.40q", ErrStream, value)
			}
		case "lua":
			return loader.Script(value)
		}
		return nil
	}
	keys := 0
	for {
		i, err := file.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return state, l.transferError(err)
		}
		if err := loader.Add(i); err != nil {
			return state, proto.Refuse("the full synchronisation", err)
		}
		if i.Function == nil {
			keys++
		}
	}
	l.Step(Replacing)
	if err := loader.End(state); err != nil {
		return state, proto.Refuse("the full synchronisation", err)
	}
	l.Log.Info("a full synchronisation has ended", zap.Int("keys", keys), zap.Int64("bytes", file.Offset()),
		zap.String("master_version", version))
	l.Loaded()
	stop()
	l.Offset.Store(state.Offset)
	return state, l.ack() // a diskless master sends nothing before
}

// transferError distinguishes a transfer that was cut from a file that cannot be read.
func (l *link) transferError(err error) error {
	_, network := errors.AsType[net.Error](err)
	if network || errors.Is(err, errCut) || errors.Is(err, net.ErrClosed) || l.ctx.Err() != nil {
		return fmt.Errorf("the transfer: %w", err)
	}
	return proto.Refuse("the transfer", err)
}

// keepAlive sends an empty line periodically, so that the master does not take this server for dead while it loads.
// stop ends that, and may be called twice.
func (l *link) keepAlive() (stop func()) {
	ctx, cancel := context.WithCancel(l.ctx)
	var all sync.WaitGroup
	all.Go(func() { l.every(ctx, func() error { return l.send([]byte("\n")) }) })
	return func() {
		cancel()
		all.Wait()
	}
}

// every calls f every AckEvery until ctx is done or f fails.
func (l *link) every(ctx context.Context, f func() error) {
	t := time.NewTicker(l.AckEvery)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
			if f() != nil {
				return // the reader reports the error
			}
		}
	}
}

// stream applies the stream until the connection ends.
func (l *link) stream(state State) error {
	ctx, cancel := context.WithCancel(l.ctx)
	var acks sync.WaitGroup
	acks.Go(func() { l.every(ctx, l.ack) })
	defer acks.Wait()
	defer cancel()
	s := streamer{link: l, stream: NewStream(state), done: state, kept: state}
	err := s.run()
	if e := s.keep(1); e != nil && l.ctx.Err() == nil {
		l.Log.Warn("storing the position in the stream of the master failed", zap.Error(e))
	}
	return err
}

// streamer applies a stream.
type streamer struct {
	*link
	stream *Stream
	group  Group
	bytes  int   // size of the group
	done   State // applied
	kept   State // by the target
	asked  bool  // the master wants an acknowledgement
}

// run reads the stream and applies it.
func (s *streamer) run() error {
	buf := make([]byte, 0, streamBuffer)
	for {
		used := 0
		for {
			e, n, err := s.stream.Next(buf[used:], &s.group)
			used += n
			s.bytes += n
			if e == AckWanted {
				s.asked = true
			}
			if err != nil {
				return errors.Join(s.apply(), proto.Refuse("the stream", err))
			}
			if e == Incomplete || s.asked || len(s.group.Commands) >= groupCommands || s.bytes >= groupBytes {
				if err := s.apply(); err != nil {
					return err
				}
			}
			if e == Incomplete {
				break
			}
		}
		rest := buf[used:]
		if used == 0 && len(buf) == cap(buf) { // one long command: the buffer grows while it arrives
			buf = append(make([]byte, 0, min(2*cap(buf), len(buf)+max(s.stream.Need(), streamBuffer))), rest...)
		} else if cap(buf) > streamBuffer && len(rest) < streamBuffer/2 {
			buf = append(make([]byte, 0, streamBuffer), rest...)
		} else {
			buf = buf[:copy(buf[:cap(buf)], rest)]
		}
		n, err := s.read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		if n == 0 && err != nil {
			return err
		}
	}
}

// apply applies the group. If that fails, it applies the units one by one, so that the units before the faulty one take
// effect.
func (s *streamer) apply() error {
	defer s.group.Reset()
	s.bytes = 0
	if g := &s.group; len(g.Units) > 0 {
		after := g.Units[len(g.Units)-1].After
		err := s.applied(g.Commands, after)
		if err != nil && len(g.Units) > 1 {
			from := 0
			for _, u := range g.Units {
				if err = s.applied(g.Commands[from:u.End], u.After); err != nil {
					break
				}
				from = u.End
			}
		}
		if err != nil {
			return proto.Refuse("a write of the master could not be applied", err)
		}
	}
	s.done = s.stream.State()
	s.Offset.Store(s.done.Offset)
	if err := s.keep(keepEvery); err != nil {
		return proto.Refuse("storing the position in the stream of the master failed", err)
	}
	if s.asked {
		s.asked = false
		return s.ack()
	}
	return nil
}

func (s *streamer) applied(commands []Command, after State) error {
	if len(commands) == 0 { // only MULTI and EXEC
		return nil
	}
	if err := s.Target.Apply(commands, after); err != nil {
		return err
	}
	s.done, s.kept = after, after
	s.Offset.Store(after.Offset)
	return nil
}

// keep stores the state if it is so many bytes ahead of the stored one.
func (s *streamer) keep(bytes int64) error {
	if s.done.Offset-s.kept.Offset < bytes {
		return nil
	}
	if err := s.Target.Keep(s.done); err != nil {
		return err
	}
	s.kept = s.done
	return nil
}

// read reads from the connection.
func (l *link) read(b []byte) (int, error) {
	l.Conn.SetReadDeadline(time.Now().Add(l.Silence))
	n, err := l.In.Read(b)
	if n > 0 {
		l.Heard()
		return n, nil
	}
	return 0, l.readError(err)
}

func (l *link) readError(err error) error {
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return fmt.Errorf("the master is silent: %w", err)
	case errors.Is(err, io.EOF):
		return fmt.Errorf("the master has ended the connection: %w", err)
	}
	return err
}

// receiver reads a transfer.
type receiver struct{ *link }

// Read reads a part.
func (r receiver) Read(b []byte) (int, error) {
	r.Conn.SetReadDeadline(time.Now().Add(r.Silence))
	n, err := r.In.Read(b)
	if n > 0 {
		r.Heard()
		r.Received(n)
	}
	return n, err
}

// answer reads a line that may be late. Empty lines before it show that the master is alive.
func (l *link) answer() ([]byte, error) {
	for {
		line, err := l.line()
		if err != nil || len(line) > 0 {
			return line, err
		}
	}
}

// line reads a line without its end, \n or \r\n.
func (l *link) line() (line []byte, err error) {
	l.Conn.SetReadDeadline(time.Now().Add(l.Silence))
	for {
		c, err := l.In.ReadByte()
		if err != nil {
			return nil, l.readError(err)
		}
		if c == '\n' {
			l.Heard()
			if n := len(line) - 1; n >= 0 && line[n] == '\r' {
				line = line[:n]
			}
			return line, nil
		}
		if line = append(line, c); len(line) > proto.MaxLine {
			return nil, proto.Refuse("the handshake", proto.ErrLineLength)
		}
	}
}

// ack acknowledges the applied offset.
func (l *link) ack() error {
	return l.send(proto.AppendRequest(nil, "REPLCONF", "ACK", strconv.FormatInt(l.Applied(), 10)))
}

// sendTimeout is the max time for sending a request.
const sendTimeout = 10 * time.Second

func (l *link) send(b []byte) error {
	l.write.Lock()
	defer l.write.Unlock()
	l.Conn.SetWriteDeadline(time.Now().Add(sendTimeout))
	_, err := l.Conn.Write(b)
	return err
}
