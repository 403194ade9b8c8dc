package backup

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/basaltdb/basalt/server/replication/lineconn"
	"github.com/basaltdb/basalt/server/replication/proto"
	"github.com/basaltdb/basalt/server/resp"
)

// Server is a running basalt or Kvrocks server as a source of backups.
type Server struct {
	Addr           string // HOST:PORT
	User, Password string
	TLS            *tls.Config // nil = plain TCP
}

const (
	dialTimeout   = 10 * time.Second
	answerTimeout = 30 * time.Second
	// checkpointTimeout is the timeout of creating a checkpoint, for which the server flushes its memtables.
	checkpointTimeout = 10 * time.Minute
	// keepEvery is the interval of requests for a small file of the checkpoint: a server deletes a checkpoint that was
	// not used for 30 seconds.
	keepEvery = 8 * time.Second
)

// dial connects and authenticates. The connection is closed when the context ends.
func (s *Server) dial(ctx context.Context) (*lineconn.Conn, error) {
	d := net.Dialer{Timeout: dialTimeout}
	var nc net.Conn
	var err error
	if s.TLS != nil {
		nc, err = (&tls.Dialer{NetDialer: &d, Config: s.TLS}).DialContext(ctx, "tcp", s.Addr)
	} else {
		nc, err = d.DialContext(ctx, "tcp", s.Addr)
	}
	if err != nil {
		return nil, err
	}
	c := lineconn.New(ctx, nc, nil)
	if err := c.Auth(s.User, s.Password, answerTimeout); err != nil {
		c.Close()
		return nil, fmt.Errorf("%s: %w", s.Addr, err)
	}
	return c, nil
}

// sequence returns the sequence number of the newest write.
func (s *Server) sequence(ctx context.Context) (uint64, error) {
	c, err := s.dial(ctx)
	if err != nil {
		return 0, err
	}
	defer c.Close()
	head, err := c.Ask(proto.AppendRequest(nil, "INFO", "replication"), proto.MaxLine, answerTimeout)
	if err != nil {
		return 0, err
	}
	if text, ok := strings.CutPrefix(string(head), "-"); ok {
		return 0, fmt.Errorf("%s: INFO: %s", s.Addr, text)
	}
	size, err := strconv.Atoi(strings.TrimPrefix(string(head), "$"))
	if err != nil || head[0] != '$' || size < 0 || size > 1<<20 {
		return 0, fmt.Errorf("%s: INFO: %.100q", s.Addr, head)
	}
	text := make([]byte, size)
	c.SetReadDeadline(time.Now().Add(answerTimeout))
	if _, err := io.ReadFull(c.In, text); err != nil {
		return 0, err
	}
	if v, ok := resp.ParseInfo(string(text))["master_repl_offset"]; ok {
		return strconv.ParseUint(v, 10, 64)
	}
	return 0, fmt.Errorf("%s: INFO replication does not tell master_repl_offset", s.Addr)
}

var errGone = errors.New("the server has deleted its checkpoint")

// snapshot is a consistent set of files.
type snapshot interface {
	names() []string
	// open returns the content of a file and its size.
	open(ctx context.Context, name string) (io.ReadCloser, int64, error)
	close()
}

// serverSnapshot is a checkpoint of a running server.
type serverSnapshot struct {
	s    *Server
	list []string
	stop context.CancelFunc
	kept sync.WaitGroup
}

func (s *Server) snapshot(ctx context.Context) (snapshot, error) {
	c, err := s.dial(ctx)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	line, err := c.Ask(proto.AppendFetchMeta(nil), proto.MaxFileList, checkpointTimeout)
	if err != nil {
		return nil, fmt.Errorf("%s: _fetch_meta: %w", s.Addr, err)
	}
	names, err := proto.ParseFileList(line)
	if err == nil && !slices.Contains(names, "CURRENT") {
		err = errors.New("there is no CURRENT among the files")
	}
	if r := proto.ReplyError(""); errors.As(err, &r) && r.UnknownCommand() {
		return nil, fmt.Errorf("%s is neither basalt nor Kvrocks: basalt export reads the keys of any other server", s.Addr)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: _fetch_meta: %w", s.Addr, err)
	}
	ctx, stop := context.WithCancel(ctx)
	p := &serverSnapshot{s: s, list: names, stop: stop}
	p.kept.Go(func() { p.keep(ctx) })
	return p, nil
}

// keep keeps the server from deleting the checkpoint. Errors appear when a file is fetched.
func (p *serverSnapshot) keep(ctx context.Context) {
	t := time.NewTicker(keepEvery)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		if r, _, err := p.open(ctx, "CURRENT"); err == nil {
			io.Copy(io.Discard, r)
			r.Close()
		}
	}
}

func (p *serverSnapshot) names() []string { return p.list }

func (p *serverSnapshot) close() {
	p.stop()
	p.kept.Wait()
}

// serverFile is a file being transferred.
type serverFile struct {
	*lineconn.Conn
	left int64
}

func (p *serverSnapshot) open(ctx context.Context, name string) (io.ReadCloser, int64, error) {
	c, err := p.s.dial(ctx)
	if err != nil {
		return nil, 0, err
	}
	line, err := c.Ask(proto.AppendFetchFiles(nil, []string{name}), proto.MaxLine, answerTimeout)
	var size int64
	if err == nil {
		size, err = proto.ParseFileHead(line)
	}
	if err != nil {
		c.Close()
		if r := proto.ReplyError(""); errors.As(err, &r) || errors.Is(err, io.EOF) {
			// Instead of an answer, Kvrocks closes the connection.
			err = fmt.Errorf("%w: %s: %w", errGone, name, err)
		}
		return nil, 0, err
	}
	return &serverFile{c, size}, size, nil
}

func (f *serverFile) Read(b []byte) (int, error) {
	if f.left == 0 {
		return 0, io.EOF
	}
	f.SetReadDeadline(time.Now().Add(answerTimeout))
	n, err := f.In.Read(b[:min(int64(len(b)), f.left)])
	f.left -= int64(n)
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}
