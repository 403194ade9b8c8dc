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

	"github.com/basaltdb/basalt/internal/transfer"
)

// login describes how a sub-command connects to a server, and as which user.
type login struct {
	user, password, passwordFile string
	tls                          bool
	certificates
}

// certificates are the files for TLS.
type certificates struct{ caCert, cert, key string }

func (c *certificates) flags(f *pflag.FlagSet) {
	f.StringVar(&c.caCert, "cacert", "", "the `FILE` with the certificates that the server's must be signed by")
	f.StringVar(&c.cert, "cert", "", "the `FILE` with the client's certificate")
	f.StringVar(&c.key, "key", "", "the `FILE` with its key")
}

func (c *certificates) given() bool { return c.caCert != "" || c.cert != "" || c.key != "" }

// config returns the TLS configuration.
func (c *certificates) config() (*tls.Config, error) {
	conf := &tls.Config{}
	if c.caCert != "" {
		pem, err := os.ReadFile(c.caCert)
		if err != nil {
			return nil, fmt.Errorf("--cacert: %w", err)
		}
		if conf.RootCAs = x509.NewCertPool(); !conf.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("--cacert: %s contains no certificate", c.caCert)
		}
	}
	if (c.cert == "") != (c.key == "") {
		return nil, Usage("--cert and --key must be given together")
	}
	if c.cert != "" {
		pair, err := tls.LoadX509KeyPair(c.cert, c.key)
		if err != nil {
			return nil, fmt.Errorf("--cert and --key: %w", err)
		}
		conf.Certificates = []tls.Certificate{pair}
	}
	return conf, nil
}

func (l *login) flags(f *pflag.FlagSet) {
	f.StringVar(&l.user, "user", "", "the user of the server (default: the default user)")
	f.StringVar(&l.password, "password", "", "the password or token (default: the variable REDISCLI_AUTH)")
	f.StringVar(&l.passwordFile, "password-file", "", "the `FILE` that the password stands in")
	f.BoolVar(&l.tls, "tls", false, "speak TLS")
	l.certificates.flags(f)
}

// secret returns the password, "" = none.
func (l *login) secret() (string, error) {
	switch {
	case l.password != "":
		return l.password, nil
	case l.passwordFile != "":
		return passwordOf("--password-file", l.passwordFile)
	}
	return os.Getenv("REDISCLI_AUTH"), nil
}

// passwordOf returns the password in the file that a flag names.
func passwordOf(flag, path string) (string, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("%s: %w", flag, err)
	}
	return strings.TrimRight(string(b), "\r\n"), nil
}

// complete adds the parts that an address lacks; nil is allowed.
func (l *login) complete(a *transfer.Address) (err error) {
	if a == nil {
		return nil
	}
	if a.Password == "" {
		if a.Password, err = l.secret(); err != nil {
			return err
		}
		if l.user != "" {
			a.User = l.user
		}
	}
	if conf, err := l.tlsConfig(a.Host); err != nil {
		return err
	} else if conf != nil {
		a.TLS = conf
	}
	return nil
}

// tlsConfig returns the TLS configuration for a server, nil = no TLS.
func (l *login) tlsConfig(addr string) (*tls.Config, error) {
	if !l.tls && !l.given() {
		return nil, nil
	}
	c, err := l.config()
	if err == nil {
		c.ServerName, _, _ = net.SplitHostPort(addr)
	}
	return c, err
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

// replyTimeout is the max time for a reply of the server.
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
