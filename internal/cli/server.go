package cli

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"os"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/basaltdb/basalt/internal/transfer"
	"github.com/basaltdb/basalt/server/resp"
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

// replyTimeout is the max time for a reply of the server.
const replyTimeout = 30 * time.Second

// dial connects and authenticates.
func (l *login) dial(ctx context.Context, addr string) (*resp.Conn, error) {
	a := transfer.Address{Network: "tcp", Host: addr, Timeout: replyTimeout}
	if err := l.complete(&a); err != nil {
		return nil, err
	}
	return transfer.Dial(ctx, a)
}
