package server

import (
	"crypto/tls"
	"errors"
	"net"
	"time"

	"go.uber.org/zap"

	"github.com/basaltdb/basalt/server/wire"
)

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
		if most := s.maxClients.Load(); most > 0 && s.sessions.Clients() >= int(most) {
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

// protectedMode is the error for clients that protected-mode refuses. It begins like Redis's, by which clients
// recognize it.
const protectedMode = "-DENIED Redis is running in protected mode because protected mode is enabled and no password " +
	"is set for the default user. " +
	"Only clients on the machine of the server itself are served then. To let others in, do one of these: " +
	"1) set a password with requirepass; " +
	"2) if the network cannot be reached from outside, run 'CONFIG SET protected-mode no' on the server's machine, and " +
	"CONFIG REWRITE to keep it so; " +
	"3) write protected-mode no into the configuration file, or start the server with --protected-mode no.\r\n"

// refuse returns the error for a client that protected-mode refuses, "" = the client is accepted. It refuses clients
// from the network while no password is required.
func (s *Server) refuse(local bool) string {
	if local || !s.cfg.Bool("protected-mode") || s.auth.PasswordRequired() {
		return ""
	}
	return protectedMode
}
