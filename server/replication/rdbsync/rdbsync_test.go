package rdbsync_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/enginetest"
	"github.com/basaltdb/basalt/internal/require"
	"github.com/basaltdb/basalt/server/replication/proto"
	"github.com/basaltdb/basalt/server/replication/rdbsync"
	"github.com/basaltdb/basalt/server/wire/wiretest"
)

type writer func(ctx context.Context, w io.Writer) error

// harness is a Sender whose copies have the content that write writes.
type harness struct {
	*rdbsync.Sender
	db    *engine.DB
	dir   string
	write writer
}

func start(t *testing.T, write writer) *harness {
	h := &harness{db: enginetest.Open(t), dir: filepath.Join(t.TempDir(), "copies"), write: write}
	require.NoError(t, os.MkdirAll(filepath.Join(h.dir, "left"), 0o755))
	h.Sender = rdbsync.New(rdbsync.Options{DB: h.db, Log: zap.NewNop(), Dir: h.dir,
		Write: func(ctx context.Context, db *engine.DB, what proto.Conf, w io.Writer) ([]zap.Field, error) {
			if what.NoKeys {
				return nil, errors.New("no keys")
			}
			return nil, h.write(ctx, w)
		}})
	h.clean(t)
	return h
}

// clean fails unless no copy is left.
func (h *harness) clean(t *testing.T) {
	t.Helper()
	if _, err := os.Stat(h.dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the directory of copies: %v", err)
	}
}

// send sends a copy to the client at the other end of a pipe. ended is closed when that has ended.
func (h *harness) send(what proto.Conf, timeout time.Duration) (client net.Conn, ended chan struct{}) {
	ours, theirs := net.Pipe()
	ended = make(chan struct{})
	go func() {
		defer close(ended)
		h.Send(wiretest.Link{Conn: ours}, what, rdbsync.Pace{Timeout: timeout, Take: func(int) error { return nil }})
	}()
	return theirs, ended
}

const patience = time.Minute

// text is longer than a piece.
var text = strings.Repeat("0123456789abcdef", 100<<10)

func writeText(_ context.Context, w io.Writer) error {
	_, err := io.WriteString(w, text)
	return err
}

// TestForms: the file comes with a mark or, to a client that does not know marks, with its length. A file of a length
// that cannot be made is an error before anything of it was sent.
func TestForms(t *testing.T) {
	for name, tt := range map[string]struct {
		what proto.Conf
		want func(got string) bool
	}{
		"mark": {proto.Conf{EOF: true}, func(got string) bool {
			const head = len("$EOF:") + 40 + len("\r\n")
			return len(got) > head+40 && got[:5] == "$EOF:" && got[head-2:] == "\r\n"+text+got[5:45]
		}},
		"length": {proto.Conf{}, func(got string) bool { return got == fmt.Sprintf("$%d\r\n%s", len(text), text) }},
		"error": {proto.Conf{NoKeys: true}, func(got string) bool {
			return got == "-ERR the copy cannot be made: no keys\r\n"
		}},
		"error and a mark": {proto.Conf{NoKeys: true, EOF: true}, func(got string) bool {
			return len(got) == len("$EOF:")+40+2
		}},
	} {
		t.Run(name, func(t *testing.T) {
			h := start(t, writeText)
			client, ended := h.send(tt.what, patience)
			client.SetDeadline(time.Now().Add(patience))
			b, err := io.ReadAll(client)
			got := strings.TrimLeft(string(b), "\n") // while the copy is being made
			if err != nil || !tt.want(got) {
				t.Errorf("%d bytes, %v: %.60q...", len(got), err, got)
			}
			<-ended
			h.clean(t)
		})
	}
}

// TestStall: a client that takes nothing is disconnected, and the next one gets its copy.
func TestStall(t *testing.T) {
	h := start(t, writeText)
	stalled, ended := h.send(proto.Conf{EOF: true}, 50*time.Millisecond)
	defer stalled.Close()
	next, nextEnded := h.send(proto.Conf{}, patience)
	next.SetDeadline(time.Now().Add(patience))
	if b, err := io.ReadAll(next); err != nil || !strings.HasSuffix(string(b), text) {
		t.Errorf("%d bytes, %v", len(b), err)
	}
	<-ended
	<-nextEnded
	h.clean(t)
}

// TestGone: a client that leaves, while it waits for its turn or gets its copy, ends the work for it.
func TestGone(t *testing.T) {
	writing := make(chan struct{}, 2)
	h := start(t, func(ctx context.Context, w io.Writer) error {
		writing <- struct{}{}
		<-ctx.Done()
		return ctx.Err()
	})
	first, ended := h.send(proto.Conf{EOF: true}, patience)
	go io.Copy(io.Discard, first)
	<-writing
	second, secondEnded := h.send(proto.Conf{EOF: true}, patience)
	second.Close()
	<-secondEnded
	first.Close()
	<-ended
	if len(writing) != 0 {
		t.Error("the second client got a turn")
	}
	h.clean(t)
}

// TestWaiting: while the copy of another client is being made, a client gets empty lines.
func TestWaiting(t *testing.T) {
	goOn := make(chan struct{})
	h := start(t, func(ctx context.Context, w io.Writer) error {
		<-goOn
		return writeText(ctx, w)
	})
	enginetest.Update(t, h.db, enginetest.Bytes("k"), func(tx *engine.Tx) error {
		tx.Put(cf.PubSub, []byte("k"), []byte("v"))
		return nil
	})
	client, ended := h.send(proto.Conf{}, patience)
	client.SetDeadline(time.Now().Add(patience))
	line := make([]byte, 2)
	if _, err := io.ReadFull(client, line); err != nil || string(line) != "\n\n" {
		t.Errorf("%q, %v", line, err)
	}
	close(goOn)
	if b, err := io.ReadAll(client); err != nil || !strings.HasSuffix(string(b), text) {
		t.Errorf("%d bytes, %v", len(b), err)
	}
	<-ended
}
