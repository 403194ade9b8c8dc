// Package redisclient is a small RESP2 client for this repository's own tools.
package redisclient

import (
	"fmt"
	"net"
	"time"

	"github.com/basaltdb/basalt/server/resp"
)

// Conn is one connection.
type Conn struct{ *resp.Conn }

// Dial connects to a host:port within the timeout.
func Dial(addr string, timeout time.Duration) (*Conn, error) {
	c, err := net.DialTimeout("tcp", addr, timeout)
	if err != nil {
		return nil, err
	}
	return &Conn{resp.NewConn(c, 0)}, nil
}

// Strings is Do for a command that replies with an array of strings; a null among them becomes "".
func (c *Conn) Strings(args ...string) ([]string, error) {
	v, err := c.Do(args...)
	if err != nil {
		return nil, err
	}
	if v.Kind != '*' {
		return nil, fmt.Errorf("%s: the reply is %q, not an array", args[0], v.String())
	}
	out := make([]string, len(v.Elems))
	for i := range v.Elems {
		out[i] = v.Elems[i].String()
	}
	return out, nil
}

// Do sends one command over a connection of its own. It takes at most the timeout.
func Do(addr string, timeout time.Duration, args ...string) (resp.Reply, error) {
	c, err := Dial(addr, timeout)
	if err != nil {
		return resp.Reply{}, err
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(timeout))
	return c.Do(args...)
}

// Field returns a field of the reply to INFO, "" if it has none of that name.
func Field(info, name string) string { return resp.ParseInfo(info)[name] }

// Drain receives every pending reply. It returns the first error reply, if any,
// after the last of them; a broken connection at once.
func (c *Conn) Drain() error {
	var first error
	for c.Pending() > 0 {
		r, err := c.Receive()
		if err != nil {
			return err
		}
		if first == nil {
			first = r.Err()
		}
	}
	return first
}
