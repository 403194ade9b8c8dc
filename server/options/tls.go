package options

import (
	"crypto/tls"
	"errors"
	"time"

	"github.com/basaltdb/basalt/server/config"
	"github.com/basaltdb/basalt/server/tlsconfig"
)

// TLSNames are the settings of the TLS configuration for new connections.
var TLSNames = []string{"tls-cert-file", "tls-key-file", "tls-key-file-pass", "tls-ca-cert-file", "tls-ca-cert-dir",
	"tls-auth-clients", "tls-protocols", "tls-ciphers", "tls-ciphersuites", "tls-session-caching",
	"tls-session-cache-timeout"}

var ErrSamePort = errors.New("tls-port: it is the same as port")

// CheckTLS validates the TLS settings. It ignores them if no TLS port is set.
func CheckTLS(cfg *config.Config) error {
	port := int(cfg.Int("tls-port"))
	if port == 0 {
		return nil
	}
	if port == cfg.Port() && cfg.Int("socket-fd") < 0 {
		return ErrSamePort
	}
	_, _, err := TLS(cfg)
	return err
}

// TLSClient returns the configuration with which the server connects to others.
func TLSClient(cfg *config.Config) (*tls.Config, error) { return tlsconfig.Client(tlsOptions(cfg)) }

// TLS returns the configuration of the TLS port, and warnings.
func TLS(cfg *config.Config) (*tls.Config, []string, error) {
	return tlsconfig.Server(tlsOptions(cfg))
}

func tlsOptions(cfg *config.Config) tlsconfig.Options {
	return tlsconfig.Options{
		CertFile:       cfg.Text("tls-cert-file"),
		KeyFile:        cfg.Text("tls-key-file"),
		KeyFilePass:    cfg.Text("tls-key-file-pass"),
		CACertFile:     cfg.Text("tls-ca-cert-file"),
		CACertDir:      cfg.Text("tls-ca-cert-dir"),
		AuthClients:    cfg.Text("tls-auth-clients"),
		Protocols:      cfg.Text("tls-protocols"),
		Ciphers:        cfg.Text("tls-ciphers"),
		CipherSuites:   cfg.Text("tls-ciphersuites"),
		SessionCaching: cfg.Bool("tls-session-caching"),
		SessionTimeout: time.Duration(cfg.Int("tls-session-cache-timeout")) * time.Second,
	}
}
