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
	"strings"
	"time"

	"github.com/spf13/pflag"
	"github.com/tidwall/resp"
)

// login says how a sub-command connects to a server and as which user.
type login struct {
	user, password, passwordFile string
	tls                          bool
	caCert, cert, key            string
}

func (l *login) flags(f *pflag.FlagSet) {
	f.StringVar(&l.user, "user", "", "the user of the server (default: the default user)")
	f.StringVar(&l.password, "password", "", "the password or token (default: the variable REDISCLI_AUTH)")
	f.StringVar(&l.passwordFile, "password-file", "", "the `FILE` that the password stands in")
	f.BoolVar(&l.tls, "tls", false, "speak TLS")
	f.StringVar(&l.caCert, "cacert", "", "the `FILE` with the certificates that the server's must be signed by")
	f.StringVar(&l.cert, "cert", "", "the `FILE` with the client's certificate")
	f.StringVar(&l.key, "key", "", "the `FILE` with its key")
}

// secret returns the password, "" = none.
func (l *login) secret() (string, error) {
	switch {
	case l.password != "":
		return l.password, nil
	case l.passwordFile != "":
		b, err := os.ReadFile(l.passwordFile)
		return strings.TrimRight(string(b), "\r\n"), err
	}
	return os.Getenv("REDISCLI_AUTH"), nil
}

// tlsConfig returns the TLS configuration for a server, nil = no TLS.
func (l *login) tlsConfig(addr string) (*tls.Config, error) {
	if !l.tls && l.caCert == "" && l.cert == "" {
		return nil, nil
	}
	host, _, _ := net.SplitHostPort(addr)
	c := &tls.Config{ServerName: host}
	if l.caCert != "" {
		pem, err := os.ReadFile(l.caCert)
		if err != nil {
			return nil, err
		}
		if c.RootCAs = x509.NewCertPool(); !c.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("%s holds no certificate", l.caCert)
		}
	}
	if l.cert != "" {
		pair, err := tls.LoadX509KeyPair(l.cert, l.key)
		if err != nil {
			return nil, err
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return c, nil
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

// dial connects and authenticates.
func (l *login) dial(addr string) (*client, error) {
	password, err := l.secret()
	if err != nil {
		return nil, err
	}
	conf, err := l.tlsConfig(addr)
	if err != nil {
		return nil, err
	}
	conn, err := net.DialTimeout("tcp", addr, 5*time.Second)
	if err != nil {
		return nil, err
	}
	if conf != nil {
		conn = tls.Client(conn, conf)
	}
	c := &client{conn: conn, w: bufio.NewWriter(conn), r: resp.NewReader(bufio.NewReader(conn))}
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

// receive reads a reply. An error reply is a [serverError]; after any other error the connection is unusable.
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

// refused reports whether the server replied with an error.
func refused(err error) bool {
	var e serverError
	return errors.As(err, &e)
}
