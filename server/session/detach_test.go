package session_test

import (
	"bytes"
	"fmt"
	"io"
	"regexp"
	"strings"
	"testing"

	"github.com/basaltdb/basalt/server/command"
	"github.com/basaltdb/basalt/server/servertest"
	"github.com/basaltdb/basalt/server/session"
	"github.com/basaltdb/basalt/server/wire"
)

// detachWith makes WAIT a command that makes owner the owner of its connection, until the end of the test.
func detachWith(t *testing.T, owner func(c *wire.Conn, done <-chan struct{})) {
	spec := command.Lookup([]byte("wait"))
	was := *spec
	t.Cleanup(func() { *spec = was }) // after the server's end
	spec.Flags |= session.Detaches
	spec.Handler = func(c *command.Ctx) error {
		done := c.Sess.Control.Done()
		c.Sess.Control.Detach(func(conn *wire.Conn) { owner(conn, done) })
		c.Out.SimpleString("CONTINUE")
		return nil
	}
}

var clientIDs = regexp.MustCompile(`id=(\d+)`)

// The owner gets the connection after the replies are sent, with the bytes that the client has sent after the command.
// CLIENT LIST shows the connection as a replica's, and CLIENT KILL ends it.
func TestDetach(t *testing.T) {
	for _, layer := range []string{"plain", "TLS"} {
		t.Run(layer, func(t *testing.T) {
			ended := make(chan error, 1)
			detachWith(t, func(c *wire.Conn, done <-chan struct{}) {
				b := make([]byte, 8)
				for {
					if _, err := io.ReadFull(c, b); err != nil {
						<-done
						ended <- err
						return
					}
					c.Write(bytes.ToUpper(b))
				}
			})
			h, dial := servertest.Layered(t, layer)
			c, admin := dial(), dial()
			c.Want("CLIENT TRACKING ON BCAST", "+OK\r\n")
			c.Want("MONITOR", "+OK\r\n")
			c.Send(servertest.Pipeline("PING", "WAIT 0 0") + "raw data")
			replies := ""
			for range 4 { // two replies and two lines of MONITOR
				line, _ := c.R.ReadString('\n')
				replies += line
			}
			if !strings.HasPrefix(replies, "+PONG\r\n+") || !strings.Contains(replies, "\n+CONTINUE\r\n") {
				t.Errorf("replies %q", replies)
			}
			read := func(want string) {
				t.Helper()
				b := make([]byte, len(want))
				if _, err := io.ReadFull(c.R, b); err != nil || string(b) != want {
					t.Fatalf("%q, %v", b, err)
				}
			}
			read("RAW DATA")
			c.Send("more")
			// The session's timeout, MONITOR and tracking have ended.
			admin.Want("CONFIG SET timeout 1000", "+OK\r\n")
			admin.Want("SET k v", "+OK\r\n")
			c.Send("data")
			read("MOREDATA")
			list := admin.Do("CLIENT", "LIST", "TYPE", "replica")
			if strings.Count(list, "id=") != 1 || !strings.Contains(list, " flags=S ") {
				t.Fatalf("CLIENT LIST TYPE replica: %s", list)
			}
			if n := h.Sessions().Clients(); n != 2 {
				t.Errorf("%d clients", n)
			}
			admin.Want("CLIENT KILL ID "+clientIDs.FindStringSubmatch(list)[1], ":1\r\n")
			<-ended
			c.Closed()
			servertest.Eventually(t, "the connection is forgotten", func() bool { return h.Sessions().Clients() == 1 })
		})
	}
}

// The client gets all bytes that the owner has written before the connection is closed.
func TestDetachedConnectionEnds(t *testing.T) {
	data := bytes.Repeat([]byte("x"), 16<<20)
	detachWith(t, func(c *wire.Conn, _ <-chan struct{}) { c.Write(data) })
	h := servertest.Start(t)
	c := h.Dial(t)
	if got := c.Do("CONFIG", "SET", "client-output-buffer-limit", "normal 1mb 1mb 1"); got != "+OK\r\n" {
		t.Fatal(got)
	}
	c.Want("WAIT 0 0", "+CONTINUE\r\n")
	if got := c.Closed(); got != string(data) {
		t.Errorf("%d bytes", len(got))
	}
}

// When the server ends, the reads and writes of the owner fail.
func TestDetachedAtTheEndOfTheServer(t *testing.T) {
	for _, what := range []string{"read", "write"} {
		t.Run(what, func(t *testing.T) {
			begun, ended := make(chan struct{}), make(chan string, 1)
			detachWith(t, func(c *wire.Conn, done <-chan struct{}) {
				close(begun)
				var err error
				for err == nil {
					if what == "read" {
						_, err = c.Read(make([]byte, 1))
					} else {
						_, err = c.Write(make([]byte, 1<<20))
					}
				}
				select {
				case <-done:
					ended <- ""
				default:
					ended <- fmt.Sprintf("%v, but the server has not ended", err)
				}
			})
			h := servertest.Start(t)
			h.Sessions().Limits.Ending.Store(1)
			c := h.Dial(t)
			c.Want("WAIT 0 0", "+CONTINUE\r\n")
			<-begun // a server that ends earlier keeps the connection
			h.Close()
			if got := <-ended; got != "" {
				t.Error(got)
			}
		})
	}
}

// A command that lacks one of the flags cannot detach: other commands might follow it in its run.
func TestDetachNeedsFlags(t *testing.T) {
	detachWith(t, func(*wire.Conn, <-chan struct{}) {})
	command.Lookup([]byte("wait")).Flags &^= command.NoMulti
	h := servertest.Start(t)
	h.Dial(t).Want("WAIT 0 0", "-ERR internal error\r\n")
	if n := h.Logs.FilterMessage("panic in a command").Len(); n != 1 {
		t.Errorf("%d log lines", n)
	}
}
