package server

import (
	"crypto/tls"
	"errors"
	"net"
	"time"

	"go.uber.org/zap"

	"github.com/basaltdb/basalt/server/wire"
)

// accept starts a session for each connection of a listener, until the server or the listener is closed.
func (s *Server) accept(l net.Listener) {
	secure := wire.IsTLS(l)
	for {
		nc, err := l.Accept()
		if err != nil {
			if s.sessions.Closing() || errors.Is(err, net.ErrClosed) {
				return
			}
			s.log.Warn("accept failed", zap.Error(err))
			select { // probably out of file descriptors: wait for some to be closed
			case <-time.After(50 * time.Millisecond):
			case <-s.stop:
			}
			continue
		}
		s.sessions.Stats.Connections.Add(1)
		if limit := s.maxClients.Load(); limit > 0 && s.sessions.Clients() >= int(limit) {
			s.sessions.Stats.RejectedConns.Add(1)
			if !secure { // a TLS client would not understand the error
				nc.SetWriteDeadline(time.Now().Add(time.Second))
				nc.Write([]byte("-ERR max number of clients reached\r\n"))
			}
			nc.Close()
			continue
		}
		if tc, ok := nc.(*net.TCPConn); ok {
			tc.SetKeepAliveConfig(wire.KeepAlive(int(s.cfg.Int("tcp-keepalive"))))
		}
		var config *tls.Config
		if secure {
			config = s.tls.Load()
		}
		if !s.sessions.Serve(nc, config) {
			return
		}
	}
}

// protectedMode is the error for clients that protected-mode refuses. It begins like Redis's error, because clients
// recognize that beginning.
const protectedMode = "-DENIED Redis is running in protected mode because protected mode is enabled and no password " +
	"is set for the default user. " +
	"In this mode only clients on the server's host are accepted. To accept other clients, do one of the following: " +
	"1) set a password with requirepass; " +
	"2) if the server cannot be reached from the Internet, run 'CONFIG SET protected-mode no' on the server's host, and " +
	"CONFIG REWRITE to make the change permanent; " +
	"3) write protected-mode no into the configuration file, or start the server with --protected-mode no.\r\n"

// refuse returns the error for a client that protected-mode refuses, "" = the client is accepted. It refuses clients
// from the network while no password is required.
func (s *Server) refuse(local bool) string {
	if local || !s.cfg.Bool("protected-mode") || s.auth.PasswordRequired() {
		return ""
	}
	return protectedMode
}
