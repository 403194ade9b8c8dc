// Package tlsconfig turns the settings of TLS, which are those of OpenSSL, into what crypto/tls understands. What
// crypto/tls cannot do is refused, unless leaving it out only makes the connection safer.
package tlsconfig

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Options are the settings of a server, by their names without "tls-".
type Options struct {
	CertFile    string // PEM, the server's certificate first
	KeyFile     string // PEM
	KeyFilePass string // of an encrypted key; empty = the key is not
	CACertFile  string // PEM, the authorities that sign client certificates
	CACertDir   string // of such files
	// AuthClients is "no" or "optional"; with anything else a client must have a certificate.
	AuthClients    string
	Protocols      string // see protocols
	Ciphers        string // see ciphers
	CipherSuites   string // see checkSuites
	SessionCaching bool
	SessionTimeout time.Duration
}

// Error says which setting is wrong.
type Error struct {
	Key string
	Err error
}

func (e *Error) Error() string { return e.Key + ": " + e.Err.Error() }

func (e *Error) Unwrap() error { return e.Err }

var (
	errNoCert = errors.New("a TLS port needs a certificate")
	errNoKey  = errors.New("a TLS port needs a private key")
	errNoCA   = errors.New("this or tls-ca-cert-dir is needed to verify the certificates of clients; tls-auth-clients " +
		"no asks for none")
	errNoCACert = errors.New("there is no certificate in it")
)

// Server reads the files and makes the configuration of a server. Errors are of type [*Error]. The warnings, one line
// each, are about what was left out.
//
// Each configuration has session tickets of its own: no session outlives the certificates and the rules that it was
// made with.
func Server(o Options) (*tls.Config, []string, error) {
	// The record size grows with crypto/tls's guess of the connection's age; our writes are whole pipelines of replies.
	c := &tls.Config{DynamicRecordSizingDisabled: true}
	var warnings []string
	for _, step := range []func() error{
		func() error { return certificate(c, &o) },
		func() error { return clients(c, &o) },
		func() (err error) {
			c.MinVersion, c.MaxVersion, err = protocols(o.Protocols)
			return at("tls-protocols", err)
		},
		func() error {
			suites, ignored, err := ciphers(o.Ciphers)
			c.CipherSuites = suites
			if len(ignored) > 0 {
				warnings = append(warnings, "tls-ciphers: left out, Go does not have them: "+strings.Join(ignored, " "))
			}
			return at("tls-ciphers", err)
		},
		func() error { return at("tls-ciphersuites", checkSuites(o.CipherSuites)) },
	} {
		if err := step(); err != nil {
			return nil, nil, err
		}
	}
	sessions(c, &o)
	return c, warnings, nil
}

// at is nil for no error.
func at(key string, err error) error {
	if err == nil {
		return nil
	}
	return &Error{key, err}
}

func certificate(c *tls.Config, o *Options) error {
	if o.CertFile == "" {
		return at("tls-cert-file", errNoCert)
	}
	if o.KeyFile == "" {
		return at("tls-key-file", errNoKey)
	}
	cert, err := os.ReadFile(o.CertFile)
	if err != nil {
		return at("tls-cert-file", err)
	}
	file, err := os.ReadFile(o.KeyFile)
	if err != nil {
		return at("tls-key-file", err)
	}
	key, err := decryptKey(file, []byte(o.KeyFilePass))
	switch {
	case errors.Is(err, errNoPass), errors.Is(err, errWrongPass):
		return at("tls-key-file-pass", err)
	case err != nil:
		return at("tls-key-file", err)
	}
	if err := addPEM(x509.NewCertPool(), cert, o.CertFile); err != nil {
		return at("tls-cert-file", err)
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return at("tls-key-file", errors.New(strings.TrimPrefix(err.Error(), "tls: ")))
	}
	c.Certificates = []tls.Certificate{pair}
	return nil
}

func clients(c *tls.Config, o *Options) error {
	switch strings.ToLower(o.AuthClients) {
	case "no":
		return nil
	case "optional":
		c.ClientAuth = tls.VerifyClientCertIfGiven
	default:
		c.ClientAuth = tls.RequireAndVerifyClientCert
	}
	if o.CACertFile == "" && o.CACertDir == "" {
		return at("tls-ca-cert-file", errNoCA)
	}
	c.ClientCAs = x509.NewCertPool()
	if o.CACertFile != "" {
		if err := addFile(c.ClientCAs, o.CACertFile); err != nil {
			return at("tls-ca-cert-file", err)
		}
	}
	if o.CACertDir == "" {
		return nil
	}
	// OpenSSL finds the files by hashes in their names; here all count.
	entries, err := os.ReadDir(o.CACertDir)
	if err != nil {
		return at("tls-ca-cert-dir", err)
	}
	found := 0
	for _, e := range entries {
		path := filepath.Join(o.CACertDir, e.Name())
		if info, err := os.Stat(path); err != nil || !info.Mode().IsRegular() {
			continue
		}
		switch err := addFile(c.ClientCAs, path); {
		case err == nil:
			found++
		case !errors.Is(err, errNoCACert):
			return at("tls-ca-cert-dir", err)
		}
	}
	if found == 0 {
		return at("tls-ca-cert-dir", errNoCACert)
	}
	return nil
}

func addFile(pool *x509.CertPool, path string) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	return addPEM(pool, data, path)
}

// addPEM adds the certificates of a file.
func addPEM(pool *x509.CertPool, data []byte, path string) error {
	found := false
	for {
		var block *pem.Block
		if block, data = pem.Decode(data); block == nil {
			break
		}
		if block.Type != "CERTIFICATE" && block.Type != "TRUSTED CERTIFICATE" {
			continue
		}
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		pool.AddCert(cert)
		found = true
	}
	if !found {
		return errNoCACert
	}
	return nil
}

// stamp precedes the unix time, in seconds, at which a session was made, among the extra data of its ticket.
const stamp = "basalt session of "

// sessions lets clients resume sessions for the time that is set; crypto/tls by itself would for a week.
func sessions(c *tls.Config, o *Options) {
	if !o.SessionCaching || o.SessionTimeout <= 0 {
		c.SessionTicketsDisabled = true
		return
	}
	c.WrapSession = func(cs tls.ConnectionState, ss *tls.SessionState) ([]byte, error) {
		ss.Extra = append(ss.Extra, binary.BigEndian.AppendUint64([]byte(stamp), uint64(time.Now().Unix())))
		return c.EncryptTicket(cs, ss)
	}
	c.UnwrapSession = func(identity []byte, cs tls.ConnectionState) (*tls.SessionState, error) {
		ss, err := c.DecryptTicket(identity, cs)
		if err != nil || ss == nil {
			return nil, err
		}
		for _, extra := range ss.Extra {
			if at, ok := strings.CutPrefix(string(extra), stamp); ok && len(at) == 8 {
				made := time.Unix(int64(binary.BigEndian.Uint64([]byte(at))), 0)
				if time.Since(made) <= o.SessionTimeout {
					return ss, nil
				}
			}
		}
		return nil, nil // a whole handshake
	}
}
