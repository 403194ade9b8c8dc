package wire

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"github.com/basaltdb/basalt/internal/require"
)

var kinds = []string{"socket", "pipe"}

// What was received stays until it is consumed, in one piece.
func TestInput(t *testing.T) {
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			c, there := conns(t, kind)
			sent := bytes.Repeat([]byte("0123456789"), 10000)
			go there.Write(sent)
			for len(c.Input()) < len(sent) {
				if _, err := c.Fill(); err != nil {
					t.Fatal(err)
				}
			}
			if !bytes.Equal(c.Input(), sent) {
				t.Error("the input is not what was sent")
			}
			if c.Consume(5) || string(c.Input()[:5]) != "56789" {
				t.Errorf("after 5 bytes comes %q", c.Input()[:5])
			}
			if !c.Consume(len(sent)-5) || c.InputCap() != 0 {
				t.Errorf("a buffer of %d bytes is kept", c.InputCap())
			}
			there.Close()
			if _, err := c.Fill(); !errors.Is(err, io.EOF) {
				t.Errorf("at the end: %v", err)
			}
		})
	}
}

// Read gives what was received first, then what comes.
func TestRead(t *testing.T) {
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			c, there := conns(t, kind)
			c.Inject([]byte("abc"))
			go func() {
				there.Write([]byte("def"))
				there.Close()
			}()
			if got, err := io.ReadAll(io.LimitReader(c, 6)); err != nil || string(got) != "abcdef" {
				t.Errorf("%q, %v", got, err)
			}
			if n, err := c.Read(make([]byte, 1)); n != 0 || !errors.Is(err, io.EOF) {
				t.Errorf("%d, %v", n, err)
			}
		})
	}
}

// Write waits for the client, and for as long as it takes.
func TestWriteWaits(t *testing.T) {
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			c, there := conns(t, kind)
			c.SetPatience(time.Nanosecond)
			const piece, pieces = 1 << 20, 32
			done := make(chan error, 1)
			go func() {
				for i := range pieces {
					if _, err := c.Write(bytes.Repeat([]byte{byte(i)}, piece)); err != nil {
						done <- err
						return
					}
				}
				c.Drain()
				done <- nil
			}()
			eventually(t, "it waits", func() bool { return c.Pending() > streamAhead })
			for i := range pieces {
				if got := receive(t, there, piece); got[0] != byte(i) || got[piece-1] != byte(i) {
					t.Fatalf("piece %d begins with %d", i, got[0])
				}
				if n := c.Pending(); n > streamAhead+piece {
					t.Fatalf("%d bytes are queued", n)
				}
			}
			require.NoError(t, <-done)
			there.Close()
			eventually(t, "the end of the client is an error", func() bool {
				_, err := c.Write(make([]byte, piece))
				return err != nil
			})
		})
	}
}

// Close ends a Write that waits.
func TestCloseEndsWrite(t *testing.T) {
	c, _ := conns(t, "socket")
	done := make(chan error, 1)
	go func() {
		for {
			if _, err := c.Write(make([]byte, 1<<20)); err != nil {
				done <- err
				return
			}
		}
	}()
	eventually(t, "it waits", func() bool { return c.Pending() > streamAhead })
	c.Close()
	if err := <-done; !errors.Is(err, net.ErrClosed) {
		t.Error(err)
	}
}

// Whatever the owner waits for, Wake, a deadline and Close end it.
func TestWaiting(t *testing.T) {
	waits := []struct {
		name string
		wait func(*Conn) error
	}{
		{"Fill", func(c *Conn) error { _, err := c.Fill(); return err }},
		{"WaitHangup", (*Conn).WaitHangup},
	}
	ends := []struct {
		name string
		end  func(*Conn)
		want error
	}{
		{"Wake", (*Conn).Wake, os.ErrDeadlineExceeded},
		{"deadline", func(c *Conn) { c.SetReadDeadline(time.Now().Add(time.Millisecond)) }, os.ErrDeadlineExceeded},
		{"Close", func(c *Conn) { c.Close() }, net.ErrClosed},
	}
	for _, kind := range kinds {
		for _, w := range waits {
			for _, e := range ends {
				t.Run(kind+" "+w.name+" "+e.name, func(t *testing.T) {
					c, _ := conns(t, kind)
					got := make(chan error, 1)
					go func() { got <- w.wait(c) }()
					e.end(c)
					err := <-got
					if kind == "pipe" && e.name == "Close" && errors.Is(err, io.ErrClosedPipe) {
						err = net.ErrClosed
					}
					if !errors.Is(err, e.want) {
						t.Errorf("%v", err)
					}
				})
			}
		}
	}
}

// WaitHangup notices the end of the client behind what it has sent, and receives nothing.
func TestWaitHangup(t *testing.T) {
	c, there := conns(t, "socket")
	there.Write([]byte("PING\r\n"))
	got := make(chan error, 1)
	go func() { got <- c.WaitHangup() }()
	there.Close()
	if err := <-got; !errors.Is(err, ErrGone) {
		t.Error(err)
	}
	if n, err := c.Fill(); n != 6 {
		t.Errorf("%d bytes are left: %v", n, err)
	}
}
