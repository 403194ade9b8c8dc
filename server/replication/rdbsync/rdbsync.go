// Package rdbsync answers Redis's SYNC of a client that wants a copy of the data and no stream of writes, such as
// redis-cli --rdb:
//
//	client                           server
//	REPLCONF capa eof                +OK   (optional)
//	REPLCONF rdb-only 1              +OK   (optional)
//	REPLCONF rdb-filter-only <words> +OK   (optional)
//	SYNC                             an empty line a second while the copy is prepared, then one of
//	                                   $EOF:<mark of 40 bytes>\r\n <RDB file> <mark>
//	                                   $<length>\r\n <RDB file>     (without capa eof)
//	                                   -ERR <why>
//
// and the end of the connection. The file has the data of one moment after the request.
package rdbsync

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/server/replication/proto"
)

// Link is the connection of a client. One goroutine may call Read, and another one Write.
type Link interface {
	io.ReadWriter
	// SetWriteDeadline sets the time by which the data given to Write must have been sent.
	SetWriteDeadline(t time.Time)
	// SendFile sends the next n bytes of a file, in place of Write.
	SendFile(f *os.File, n int64) error
	// Drain waits until everything was sent, or sending has become impossible.
	Drain()
	Close() error
	RemoteAddr() net.Addr
}

// Options are the options of [New].
type Options struct {
	DB  *engine.DB
	Log *zap.Logger
	// Dir is a directory for the copies, on the file system of the database. It is deleted at the start.
	Dir string
	// Write writes the content of a copy that a client has asked for, and returns a description for the log. It ends
	// soon after an error of w, or the end of the context.
	Write func(ctx context.Context, copy *engine.DB, what proto.Conf, w io.Writer) ([]zap.Field, error)
}

// Sender sends copies, one at a time: the next client waits, so that the disk keeps the files of one copy only.
type Sender struct {
	o    Options
	turn chan struct{}
}

// New makes a Sender, and deletes what an earlier process has left.
func New(o Options) *Sender {
	s := &Sender{o: o, turn: make(chan struct{}, 1)}
	if err := os.RemoveAll(o.Dir); err != nil {
		o.Log.Warn("a copy for SYNC was not deleted", zap.Error(err))
	}
	return s
}

// Pace bounds the sending of a copy.
type Pace struct {
	// Timeout is the time within which a client must take each piece of pieceBytes: a client that stalls does not keep
	// the copy, nor the next client.
	Timeout time.Duration
	// Take waits until n more bytes may be sent.
	Take func(n int) error
}

const (
	pieceBytes = 256 << 10
	// keepAlive is the time between two empty lines.
	keepAlive = time.Second
	markBytes = 40
)

// Send sends a copy to a client that has announced what, and closes the link. It returns when the link has ended.
func (s *Sender) Send(link Link, what proto.Conf, pace Pace) {
	began := time.Now()
	log := s.o.Log.With(zap.Stringer("client", link.RemoteAddr()))
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	var reader sync.WaitGroup
	reader.Go(func() { cancel(discard(link)) })
	out := &output{link: link, pace: pace}
	about, err := s.send(ctx, out, what)
	if err == nil {
		link.Drain()
	}
	link.Close()
	reader.Wait()
	about = append(about, zap.Int64("bytes", out.sent), zap.Duration("took", time.Since(began)))
	if err != nil {
		log.Warn("sending a copy to a client has failed", append(about, zap.Error(err))...)
		return
	}
	log.Info("a client got a copy", about...)
}

// discard reads until the link ends, and returns why. What clients send meanwhile does not matter.
func discard(link Link) error {
	buf := make([]byte, 512)
	for {
		if _, err := link.Read(buf); err != nil {
			return fmt.Errorf("the client is gone: %w", err)
		}
	}
}

func (s *Sender) send(ctx context.Context, out *output, what proto.Conf) ([]zap.Field, error) {
	stop := out.keepAlive()
	defer stop()
	select {
	case s.turn <- struct{}{}:
		defer func() { <-s.turn }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	refuse := func(err error) ([]zap.Field, error) {
		stop()
		if _, e := out.Write(proto.AppendError(nil, proto.Error("the copy cannot be made: "+err.Error()))); e == nil {
			out.link.Drain()
		}
		return nil, err
	}
	db, err := s.open()
	if err != nil {
		return refuse(err)
	}
	defer func() {
		if err := errors.Join(db.Discard(), os.RemoveAll(s.o.Dir)); err != nil {
			s.o.Log.Warn("a copy for SYNC was not deleted", zap.Error(err))
		}
	}()
	if !what.EOF {
		file, err := os.OpenFile(filepath.Join(s.o.Dir, "dump.rdb"), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
		if err != nil {
			return refuse(err)
		}
		defer file.Close()
		about, err := s.o.Write(ctx, db.DB, what, file)
		if ctx.Err() != nil {
			return about, context.Cause(ctx)
		}
		if err != nil {
			return refuse(err)
		}
		stop()
		return about, out.file(file)
	}
	mark := newMark()
	stop()
	if _, err := fmt.Fprintf(out, "$EOF:%s\r\n", mark); err != nil {
		return nil, err
	}
	about, err := s.o.Write(ctx, db.DB, what, out)
	if ctx.Err() != nil {
		return about, context.Cause(ctx)
	}
	if err == nil {
		_, err = io.WriteString(out, mark)
	}
	return about, err
}

// open makes a copy of the database.
func (s *Sender) open() (*engine.Copy, error) {
	if err := os.MkdirAll(s.o.Dir, 0o700); err != nil {
		return nil, err
	}
	db, err := s.o.DB.OpenCopy(filepath.Join(s.o.Dir, "db"))
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(s.o.Dir))
	}
	return db, nil
}

func newMark() string {
	var b [markBytes / 2]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

// output sends to a link within the bounds of a Pace.
type output struct {
	link Link
	pace Pace
	sent int64
}

// Write sends b in pieces.
func (o *output) Write(b []byte) (n int, err error) {
	for len(b) > 0 && err == nil {
		piece := b[:min(len(b), pieceBytes)]
		err = o.piece(len(piece), func() error {
			_, err := o.link.Write(piece)
			return err
		})
		n, b = n+len(piece), b[len(piece):]
	}
	return n, err
}

// piece lets f send n bytes.
func (o *output) piece(n int, f func() error) error {
	if err := o.pace.Take(n); err != nil {
		return err
	}
	o.link.SetWriteDeadline(time.Now().Add(o.pace.Timeout))
	err := f()
	if err == nil {
		o.sent += int64(n)
	}
	return err
}

// file sends a file with its length.
func (o *output) file(f *os.File) error {
	left, err := f.Seek(0, io.SeekCurrent)
	if err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	if err == nil {
		_, err = io.WriteString(o, "$"+strconv.FormatInt(left, 10)+"\r\n")
	}
	for left > 0 && err == nil {
		n := min(left, pieceBytes)
		err = o.piece(int(n), func() error { return o.link.SendFile(f, n) })
		left -= n
	}
	return err
}

// keepAlive sends empty lines, which clients skip, until stop is called. stop may be called again.
func (o *output) keepAlive() (stop func()) {
	ended := make(chan struct{})
	var work sync.WaitGroup
	work.Go(func() {
		t := time.NewTicker(keepAlive)
		defer t.Stop()
		for {
			select {
			case <-t.C:
				if _, err := o.Write([]byte("\n")); err != nil {
					return
				}
			case <-ended:
				return
			}
		}
	})
	return sync.OnceFunc(func() {
		close(ended)
		work.Wait()
	})
}
