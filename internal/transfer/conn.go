package transfer

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/basaltdb/basalt/server/resp"
)

// Address is the address of a server, with credentials.
type Address struct {
	Network, Host  string      // "tcp" and host:port, or "unix" and a path
	TLS            *tls.Config // nil = none
	User, Password string
	DB             int
	Timeout        time.Duration // max time for a reply; 0 = no limit
}

// ParseAddress parses an address:
//
//	HOST:PORT
//	unix:PATH
//	redis://[USER:PASSWORD@]HOST[:PORT][/DB]     rediss:// with TLS
func ParseAddress(s string) (a Address, err error) {
	switch {
	case strings.HasPrefix(s, "unix:"):
		return Address{Network: "unix", Host: strings.TrimPrefix(s, "unix:")}, nil
	case strings.HasPrefix(s, "redis://"), strings.HasPrefix(s, "rediss://"):
		u, err := url.Parse(s)
		if err != nil || u.Hostname() == "" {
			return a, errors.New("the address is not redis://[USER:PASSWORD@]HOST[:PORT][/DB]")
		}
		port := u.Port()
		if port == "" {
			port = "6379"
		}
		a = Address{Network: "tcp", Host: net.JoinHostPort(u.Hostname(), port)}
		if u.Scheme == "rediss" {
			a.TLS = &tls.Config{}
		}
		if u.User != nil {
			a.User = u.User.Username()
			a.Password, _ = u.User.Password()
		}
		if db := strings.Trim(u.Path, "/"); db != "" {
			if a.DB, err = strconv.Atoi(db); err != nil || a.DB < 0 {
				return a, fmt.Errorf("%q is not the number of a database", db)
			}
		}
		return a, nil
	}
	_, port, err := net.SplitHostPort(s)
	if err == nil {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	if err != nil {
		return a, fmt.Errorf("%q is not HOST:PORT, unix:PATH or redis://HOST:PORT", s)
	}
	return Address{Network: "tcp", Host: s}, nil
}

// String returns the address without the password.
func (a Address) String() string {
	if a.Network == "unix" {
		return "unix:" + a.Host
	}
	return a.Host
}

const dialTimeout = 5 * time.Second

// Dial connects and authenticates. The connection is closed when the context ends.
func Dial(ctx context.Context, a Address) (*resp.Conn, error) {
	d := net.Dialer{Timeout: dialTimeout}
	var c net.Conn
	var err error
	if a.TLS != nil {
		c, err = (&tls.Dialer{NetDialer: &d, Config: a.TLS}).DialContext(ctx, a.Network, a.Host)
	} else {
		c, err = d.DialContext(ctx, a.Network, a.Host)
	}
	if err != nil {
		return nil, err
	}
	context.AfterFunc(ctx, func() { c.Close() })
	x := resp.NewConn(c, a.Timeout)
	var commands [][]string
	if a.User != "" && a.Password != "" {
		commands = append(commands, []string{"AUTH", a.User, a.Password})
	} else if a.Password != "" {
		commands = append(commands, []string{"AUTH", a.Password})
	}
	if a.DB > 0 {
		commands = append(commands, []string{"SELECT", strconv.Itoa(a.DB)})
	}
	for _, command := range append(commands, []string{"PING"}) {
		if _, err := x.Do(command...); err != nil {
			c.Close()
			return nil, err
		}
	}
	return x, nil
}

// maxPending is the max number of commands without a reply.
const maxPending = 16 << 10

// Pipe sends commands without waiting for replies. One goroutine sends, another one reads the replies.
type Pipe struct {
	c       *resp.Conn
	pending chan func(*resp.Reply)
	broken  chan struct{} // closed when reading has failed
	done    chan struct{}
	err     error // of reading; valid after broken or done
}

// NewPipe starts using a connection.
func NewPipe(c *resp.Conn) *Pipe {
	p := &Pipe{c: c, pending: make(chan func(*resp.Reply), maxPending), broken: make(chan struct{}),
		done: make(chan struct{})}
	go p.read()
	return p
}

func (p *Pipe) read() {
	defer close(p.done)
	for f := range p.pending {
		if p.err != nil {
			continue // discard the rest until the sender notices the error
		}
		r, err := p.c.Receive()
		if err != nil {
			p.err = err
			close(p.broken)
			p.c.Close() // makes the sender notice
			continue
		}
		f(&r)
	}
}

// Send sends commands. It calls f with the reply of the last one, in the reading goroutine. The caller may reuse b
// afterwards.
func (p *Pipe) Send(b []byte, f func(*resp.Reply)) error {
	select {
	case p.pending <- f:
	default:
		if err := p.c.Flush(); err != nil {
			return err
		}
		p.pending <- f
	}
	return p.c.SendEncoded(b)
}

// Sync waits until everything that was sent is answered.
func (p *Pipe) Sync() error {
	answered := make(chan struct{})
	if err := p.Send(resp.AppendCommand(nil, "PING"), func(*resp.Reply) { close(answered) }); err != nil {
		return err
	}
	if err := p.c.Flush(); err != nil {
		return err
	}
	select {
	case <-answered:
		return nil
	case <-p.broken:
		return p.err
	}
}

// Close sends the rest and waits for all replies. The connection stays open unless it is broken.
func (p *Pipe) Close() error {
	err := p.c.Flush()
	close(p.pending)
	<-p.done
	if p.err != nil {
		return p.err
	}
	return err
}
