package backup

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tidwall/resp"
	"go.uber.org/zap"

	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/internal/require"
	"github.com/basaltdb/basalt/server"
	"github.com/basaltdb/basalt/server/config"
)

// patience is how long a test waits for what must happen. A busy host may stop the process for minutes.
const patience = 10 * time.Minute

// testServer is a running server.
type testServer struct {
	t   *testing.T
	dir string // its data directory
	cfg *config.Config
	db  *engine.DB
	srv *server.Server
}

// startServer starts a server on a data directory; "" makes one.
func startServer(t *testing.T, dir string, settings ...string) *testServer {
	t.Helper()
	if dir == "" {
		dir = t.TempDir()
	}
	args := append([]string{"--port", "0", "--bind", "127.0.0.1", "--dir", dir}, settings...)
	cfg, err := config.Load(args, nil)
	require.NoError(t, err)
	db, err := engine.Open(engine.Options{Dir: dir + "/db"})
	require.NoError(t, err)
	s := &testServer{t: t, dir: dir, cfg: cfg, db: db, srv: server.New(cfg, db, zap.NewNop())}
	require.NoError(t, s.srv.Start())
	t.Cleanup(s.stop)
	return s
}

func (s *testServer) stop() {
	if s.srv == nil {
		return
	}
	s.srv.Close()
	if err := s.db.Close(); err != nil {
		s.t.Error(err)
	}
	s.srv = nil
}

func (s *testServer) source() *Server { return &Server{Addr: s.srv.Addr()} }

// conn is a client.
type conn struct {
	t  testing.TB
	nc net.Conn
	r  *resp.Reader
	w  *resp.Writer
}

func (s *testServer) dial(t testing.TB) *conn { return dial(t, s.srv.Addr()) }

func dial(t testing.TB, addr string) *conn {
	t.Helper()
	nc, err := net.Dial("tcp", addr)
	require.NoError(t, err)
	t.Cleanup(func() { nc.Close() })
	return &conn{t, nc, resp.NewReader(bufio.NewReader(nc)), resp.NewWriter(nc)}
}

// try sends a command, words separated by blanks, and returns the reply.
func (c *conn) try(command string) (string, error) {
	var words []resp.Value
	for _, w := range strings.Fields(command) {
		words = append(words, resp.StringValue(w))
	}
	c.nc.SetDeadline(time.Now().Add(patience))
	if err := c.w.WriteArray(words); err != nil {
		return "", err
	}
	v, _, err := c.r.ReadValue()
	if err == nil && v.Type() == resp.Error {
		err = v.Error()
	}
	return v.String(), err
}

func (c *conn) do(format string, args ...any) string {
	c.t.Helper()
	command := fmt.Sprintf(format, args...)
	reply, err := c.try(command)
	if err != nil {
		c.t.Fatalf("%s: %v", command, err)
	}
	return reply
}

func newRepo(t *testing.T) *Repo {
	t.Helper()
	r, err := Open(t.Context(), t.TempDir(), true)
	require.NoError(t, err)
	return r
}

// create makes a backup of a server.
func (s *testServer) create(r *Repo) *Created {
	s.t.Helper()
	c, err := r.CreateFromServer(s.t.Context(), s.source(), CreateOptions{})
	require.NoError(s.t, err)
	return c
}

// restore restores into a new directory and starts a server there.
func restore(t *testing.T, r *Repo, o RestoreOptions) (*testServer, *Restored) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "data")
	res, err := r.Restore(t.Context(), dir, o)
	require.NoError(t, err)
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
		t.Errorf("the data directory holds %v, %v", entries, err)
	}
	return startServer(t, dir), res
}

// following is a Follow that runs.
type following struct {
	t      *testing.T
	cancel context.CancelFunc
	done   chan error
	mu     sync.Mutex
	events []Event
	// timeline is that of the last event that was awaited.
	timeline string
	news     chan struct{}
}

func (s *testServer) follow(r *Repo, addr string) *following {
	src := s.source()
	if addr != "" {
		src.Addr = addr
	}
	return follow(s.t, r, src)
}

func follow(t *testing.T, r *Repo, src *Server) *following {
	ctx, cancel := context.WithCancel(t.Context())
	f := &following{t: t, cancel: cancel, done: make(chan error, 1), news: make(chan struct{}, 1)}
	go func() {
		f.done <- r.Follow(ctx, src, FollowOptions{Interval: 10 * time.Millisecond, Event: func(e Event) {
			f.mu.Lock()
			f.events = append(f.events, e)
			f.mu.Unlock()
			select {
			case f.news <- struct{}{}:
			default:
			}
		}})
	}()
	t.Cleanup(f.end)
	return f
}

// await waits for an event whose message holds a text.
func (f *following) await(text string) Event {
	f.t.Helper()
	for seen := 0; ; {
		f.mu.Lock()
		events := f.events[seen:]
		f.mu.Unlock()
		for _, e := range events {
			seen++
			if strings.Contains(e.Message, text) {
				f.mu.Lock()
				f.events, f.timeline = f.events[seen:], e.Timeline
				f.mu.Unlock()
				return e
			}
		}
		select {
		case <-f.news:
		case err := <-f.done:
			f.done <- err
			f.t.Fatalf("following has ended: %v; %v", err, f.events)
		case <-time.After(patience):
			f.t.Fatalf("no event %q in %v", text, f.events)
		}
	}
}

func (f *following) timelineID() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.timeline
}

func (f *following) end() {
	f.cancel()
	if err := <-f.done; err != nil {
		f.t.Errorf("following ends with %v", err)
	}
	f.done <- nil
}

// stored waits until the log is stored up to the newest write.
func (s *testServer) stored(r *Repo) {
	s.t.Helper()
	storedUpTo(s.t, r, s.db.LatestSequence())
}

func storedUpTo(t *testing.T, r *Repo, want uint64) {
	t.Helper()
	for end := time.Now().Add(patience); ; {
		lines, err := r.timelines(t.Context())
		require.NoError(t, err)
		for _, line := range lines {
			if n := len(line.Segments); n > 0 && line.Segments[n-1].Last >= want {
				return
			}
		}
		if time.Now().After(end) {
			t.Fatal("the log is not stored")
		}
		time.Sleep(time.Millisecond)
	}
}
