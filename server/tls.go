package server

import (
	"crypto/tls"
	"errors"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/basaltdb/basalt/server/config"
	"github.com/basaltdb/basalt/server/tlsconfig"
	"github.com/basaltdb/basalt/server/wire"
)

// tlsSettings are the settings of the TLS configuration for new connections.
var tlsSettings = []string{"tls-cert-file", "tls-key-file", "tls-key-file-pass", "tls-ca-cert-file", "tls-ca-cert-dir",
	"tls-auth-clients", "tls-protocols", "tls-ciphers", "tls-ciphersuites", "tls-session-caching",
	"tls-session-cache-timeout"}

var errSamePort = errors.New("tls-port: it is the same as port")

// checkTLS validates the TLS settings. It ignores them if no TLS port is set.
func checkTLS(cfg *config.Config) error {
	port := int(cfg.Int("tls-port"))
	if port == 0 {
		return nil
	}
	if port == cfg.Port() && cfg.Int("socket-fd") < 0 {
		return errSamePort
	}
	_, _, err := loadTLS(cfg)
	return err
}

func loadTLS(cfg *config.Config) (*tls.Config, []string, error) {
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

// startTLS loads the TLS configuration if a TLS port is set.
func (s *Server) startTLS(listeners wire.Listeners) error {
	if !slices.ContainsFunc(listeners, wire.IsTLS) {
		return nil
	}
	c, warnings, err := loadTLS(s.cfg)
	if err != nil {
		return err
	}
	for _, w := range warnings {
		s.log.Warn(w)
	}
	s.tls.Store(c)
	return nil
}

// ReloadTLS reads the certificates and keys of the TLS port again; new connections use them. On an error the old ones
// stay.
func (s *Server) ReloadTLS() error {
	if s.tls.Load() == nil {
		return nil
	}
	c, warnings, err := loadTLS(s.cfg)
	if err != nil {
		s.log.Warn("the settings of TLS were not applied", zap.Error(err))
		return err
	}
	for _, w := range warnings {
		s.log.Warn(w)
	}
	s.tls.Store(c)
	return nil
}
