package cli

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"time"

	"github.com/spf13/pflag"
	"github.com/tidwall/resp"
)

// login says how a sub-command reaches a server and who it is there.
type login struct {
	user, password, caCert string
	tls                    bool
}

func (l *login) flags(f *pflag.FlagSet) {
	f.StringVar(&l.user, "user", "", "the user of the server (default: the default user)")
	f.StringVar(&l.password, "password", "", "the password or token (default: the variable REDISCLI_AUTH)")
	f.BoolVar(&l.tls, "tls", false, "speak TLS")
	f.StringVar(&l.caCert, "cacert", "", "the `FILE` with the certificates that the server's must be signed by")
}

// client is a connection to a server.
type client struct {
	conn net.Conn
	w    *bufio.Writer
	r    *resp.Reader
}

// serverError is an error reply.
type serverError string

func (e serverError) Error() string { return string(e) }

// replyTimeout is how long a server may take for a reply.
const replyTimeout = 30 * time.Second

// dial connects and signs in.
func (l *login) dial(addr string) (*client, error) {
	conn, err := net.DialTimeout("tcp", addr, 5*time.Second)
	if err != nil {
		return nil, err
	}
	if l.tls || l.caCert != "" {
		host, _, _ := net.SplitHostPort(addr)
		conf := &tls.Config{ServerName: host}
		if l.caCert != "" {
			pem, err := os.ReadFile(l.caCert)
			if conf.RootCAs = x509.NewCertPool(); err == nil && !conf.RootCAs.AppendCertsFromPEM(pem) {
				err = fmt.Errorf("%s holds no certificate", l.caCert)
			}
			if err != nil {
				conn.Close()
				return nil, err
			}
		}
		conn = tls.Client(conn, conf)
	}
	c := &client{conn: conn, w: bufio.NewWriter(conn), r: resp.NewReader(bufio.NewReader(conn))}
	password := l.password
	if password == "" {
		password = os.Getenv("REDISCLI_AUTH")
	}
	if password != "" {
		args := []string{"AUTH", password}
		if l.user != "" {
			args = []string{"AUTH", l.user, password}
		}
		if _, err := c.do(args...); err != nil {
			c.close()
			return nil, err
		}
	}
	return c, nil
}

func (c *client) close() { c.conn.Close() }

func (c *client) send(args ...string) {
	fmt.Fprintf(c.w, "*%d\r\n", len(args))
	for _, a := range args {
		c.w.WriteString("$" + strconv.Itoa(len(a)) + "\r\n")
		c.w.WriteString(a)
		c.w.WriteString("\r\n")
	}
}

func (c *client) flush() error { return c.w.Flush() }

// receive reads a reply. An error reply is a [serverError]; after any other error the connection is of no use.
func (c *client) receive() (resp.Value, error) {
	c.conn.SetDeadline(time.Now().Add(replyTimeout))
	v, _, err := c.r.ReadValue()
	if err == nil && v.Type() == resp.Error {
		err = serverError(v.String())
	}
	return v, err
}

func (c *client) do(args ...string) (resp.Value, error) {
	c.send(args...)
	if err := c.flush(); err != nil {
		return resp.Value{}, err
	}
	return c.receive()
}

// refused reports whether the server has answered with an error.
func refused(err error) bool {
	var e serverError
	return errors.As(err, &e)
}
