package difftest

import (
	"bufio"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"time"
)

// client is one connection to a server under test.
type client struct {
	conn net.Conn
	in   *bufio.Reader
}

// patience bounds every exchange, or thousand replies of a pipeline, so that a
// server that does not answer fails the test. A busy host may stop the
// processes for minutes.
const patience = 10 * time.Minute

// dial connects and switches to the protocol, 2 or 3.
func dial(addr string, proto int) (*client, error) {
	conn, err := net.DialTimeout("tcp", addr, patience)
	if err != nil {
		return nil, err
	}
	c := &client{conn: conn, in: bufio.NewReaderSize(conn, 64<<10)}
	if proto == 3 {
		r, err := c.do("HELLO", strconv.Itoa(proto))
		if err == nil && r.kind != '%' {
			err = fmt.Errorf("HELLO 3: %q", r.raw)
		}
		if err != nil {
			conn.Close()
			return nil, err
		}
	}
	return c, nil
}

func (c *client) close() { c.conn.Close() }

func (c *client) do(args ...string) (reply, error) {
	if err := c.conn.SetDeadline(time.Now().Add(patience)); err != nil {
		return reply{}, err
	}
	if _, err := c.conn.Write(command{args: args}.encode(nil)); err != nil {
		return reply{}, err
	}
	return readReply(c.in)
}

// each sends the commands one by one.
func (c *client) each(commands []command) ([]reply, error) {
	replies := make([]reply, len(commands))
	for i, cmd := range commands {
		if cmd.mode == none {
			if _, err := c.conn.Write(cmd.encode(nil)); err != nil {
				return replies, err
			}
			continue
		}
		r, err := c.do(cmd.args...)
		if err != nil {
			return replies[:i], fmt.Errorf("%s: %s: %w", cmd.where, cmd, err)
		}
		replies[i] = r
	}
	return replies, nil
}

// pipelined sends all the commands in pieces of random length, without waiting,
// and reads the replies meanwhile.
func (c *client) pipelined(commands []command, rng *rand.Rand) ([]reply, error) {
	if err := c.conn.SetDeadline(time.Now().Add(patience)); err != nil {
		return nil, err
	}
	var out []byte
	for _, cmd := range commands {
		out = cmd.encode(out)
	}
	sent := make(chan error, 1)
	go func() {
		for len(out) > 0 {
			n := min(1+rng.IntN(1<<(1+rng.IntN(16))), len(out))
			if _, err := c.conn.Write(out[:n]); err != nil {
				sent <- err
				return
			}
			out = out[n:]
		}
		sent <- nil
	}()
	replies := make([]reply, len(commands))
	for i, cmd := range commands {
		if cmd.mode == none {
			continue
		}
		if i%1000 == 0 {
			c.conn.SetDeadline(time.Now().Add(patience))
		}
		r, err := readReply(c.in)
		if err != nil {
			c.conn.Close() // ends the writer
			return replies[:i], errors.Join(fmt.Errorf("%s: %s: %w", cmd.where, cmd, err), <-sent)
		}
		replies[i] = r
	}
	return replies, <-sent
}
