package server

import (
	"slices"

	"go.uber.org/zap"

	"github.com/basaltdb/basalt/server/options"
	"github.com/basaltdb/basalt/server/wire"
)

// startTLS loads the TLS configuration if a TLS port is set.
func (s *Server) startTLS(listeners wire.Listeners) error {
	if !slices.ContainsFunc(listeners, wire.IsTLS) {
		return nil
	}
	c, warnings, err := options.TLS(s.cfg)
	if err != nil {
		return err
	}
	for _, w := range warnings {
		s.log.Warn(w)
	}
	s.tls.Store(c)
	return nil
}

// ReloadTLS reads the certificates and keys of the TLS port again; new connections use them. After an error the server
// keeps using the old ones. Without a TLS port ReloadTLS does nothing.
func (s *Server) ReloadTLS() error {
	if s.tls.Load() == nil {
		return nil
	}
	c, warnings, err := options.TLS(s.cfg)
	if err != nil {
		s.log.Warn("the settings of TLS were not applied", zap.Error(err))
		return err
	}
	for _, w := range warnings {
		s.log.Warn(w)
	}
	s.tls.Store(c)
	s.log.Info("certificates read again")
	return nil
}
