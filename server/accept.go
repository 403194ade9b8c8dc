package server

import (
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
			if s.closing.Load() || errors.Is(err, net.ErrClosed) {
				return
			}
			s.log.Warn("accept failed", zap.Error(err))
			select { // out of file descriptors, most likely: give others time to close
			case <-time.After(50 * time.Millisecond):
			case <-s.stop:
			}
			continue
		}
		s.stats.Connections.Add(1)
		if most := s.limits.clients.Load(); most > 0 && s.clients() >= int(most) {
			s.stats.RejectedConns.Add(1)
			if !secure { // a client of TLS would not understand
				nc.SetWriteDeadline(time.Now().Add(time.Second))
				nc.Write([]byte("-ERR max number of clients reached\r\n"))
			}
			nc.Close()
			continue
		}
		if tc, ok := nc.(*net.TCPConn); ok {
			tc.SetKeepAliveConfig(wire.KeepAlive(int(s.cfg.Int("tcp-keepalive"))))
		}
		c := newConn(s.Shared, nc, s.lastID.Add(1))
		c.resolver.Use(s.services.Table)
		if secure {
			c.wire.Encrypt(s.tls.Load())
			c.shaking.Store(true)
		}
		s.mu.Lock()
		if s.closing.Load() {
			s.mu.Unlock()
			nc.Close()
			return
		}
		s.conns[c.sess.ID] = c
		if c.info.remote {
			s.remote.Add(1)
		}
		s.wg.Add(1)
		s.mu.Unlock()
		go func() {
			defer s.wg.Done()
			c.serve()
		}()
	}
}

// handshake makes a TLS connection ready for commands. A deadline that passes meanwhile ends it.
func (c *conn) handshake() error {
	c.wire.SetReadDeadline(time.Now().Add(time.Duration(c.srv.limits.handshake.Load())))
	if c.srv.closing.Load() { // looked at after the deadline is set: Close sets one too, afterwards
		return net.ErrClosed
	}
	c.deadline = true // so that the first read sets its own
	err := c.wire.Handshake()
	c.shaking.Store(false)
	return err
}

// greet does what comes before the first command. It returns false when there is to be none.
func (c *conn) greet() bool {
	if c.wire.Encrypted() {
		if err := c.handshake(); err != nil {
			if !c.srv.closing.Load() && c.srv.handshakes.allow(time.Second) {
				c.srv.log.Warn("a TLS handshake failed", zap.String("addr", c.sess.Addr), zap.Error(err))
			}
			return false
		}
	}
	if c.srv.denies(c.wire.RemoteAddr()) {
		c.srv.stats.RejectedConns.Add(1)
		c.wire.Send([]byte(protectedMode))
		return false
	}
	return true
}

// protectedMode is what a client is told that protected-mode keeps out; it begins as in Redis, by which clients know it.
const protectedMode = "-DENIED Redis is running in protected mode because protected mode is enabled and no password is set for the default user. " +
	"Only clients on the machine of the server itself are served then. To let others in, do one of these: " +
	"1) set a password with requirepass; " +
	"2) if the network cannot be reached from outside, run 'CONFIG SET protected-mode no' on the server's machine, and CONFIG REWRITE to keep it so; " +
	"3) write protected-mode no into the configuration file, or start the server with --protected-mode no.\r\n"

// denied reports whether protected-mode keeps a client out: it comes over the network, and no password is asked for.
func (s *Server) denied(client net.Addr) bool {
	if !s.cfg.Bool("protected-mode") || s.auth.PasswordRequired() {
		return false
	}
	return !isLocal(client)
}

// isLocal reports whether the client is on this machine.
func isLocal(client net.Addr) bool {
	addr, ok := client.(*net.TCPAddr)
	return !ok || addr.IP.IsLoopback() // else the Unix socket
}

// sentByBrowser reports whether the name of a command that there is not is how a request of HTTP goes on: a web page
// that makes its visitor's browser send commands to a server on the visitor's machine cannot avoid these.
func sentByBrowser(name []byte) bool {
	return len(name) == 4 && equalFold(name, "post") || len(name) == 5 && equalFold(name, "host:")
}

// equalFold compares with a text in lower case, as bytes.
func equalFold(name []byte, lower string) bool {
	for i, b := range name {
		if 'A' <= b && b <= 'Z' {
			b |= 0x20
		}
		if b != lower[i] {
			return false
		}
	}
	return true
}

// refuseBrowser ends the connection without a reply.
func (c *conn) refuseBrowser() {
	c.closeAfterReply = true
	c.srv.stats.ProtocolErrors.Add(1)
	if c.srv.browsers.allow(time.Minute) {
		c.srv.log.Warn("a client has sent an HTTP request and was disconnected; it may be an attack through a web browser", zap.String("addr", c.sess.Addr))
	}
}

// wakeIdle lets the connections that wait for their clients look at the timeout again.
func (s *Shared) wakeIdle() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing.Load() {
		return
	}
	for _, c := range s.conns {
		// Some have a deadline of another kind.
		if c.info.waiter.Load() == nil && !c.shaking.Load() && !c.info.view.Load().replica {
			c.wire.Wake()
		}
	}
}
