package session

import (
	"crypto/tls"
	"errors"
	"net"
	"time"

	"go.uber.org/zap"

	"github.com/basaltdb/basalt/server/command"
)

// handshake does the TLS handshake. The read deadline ends it.
func (c *conn) handshake() error {
	c.wire.SetReadDeadline(time.Now().Add(time.Duration(c.srv.Limits.Handshake.Load())))
	if c.srv.closing.Load() { // checked after the deadline is set: Close sets closing first, then its own deadline
		return net.ErrClosed
	}
	c.deadline = true // so the first read sets its own deadline
	err := c.wire.Handshake()
	c.shaking.Store(false)
	if plain := (tls.RecordHeaderError{}); errors.As(err, &plain) && plain.RecordHeader[0] == '*' && plain.Conn != nil {
		plain.Conn.Write([]byte("-ERR this port speaks TLS\r\n")) // a command: the client, or a replica, can show it
	}
	return err
}

// greet does everything that comes before the first command. It returns false when the connection must end.
func (c *conn) greet() bool {
	if c.wire.Encrypted() {
		if err := c.handshake(); err != nil {
			if !c.srv.closing.Load() && c.srv.handshakes.allow(time.Second) {
				c.srv.Log.Warn("a TLS handshake failed", zap.String("addr", c.sess.Addr), zap.Error(err))
			}
			return false
		}
		if id, ok := c.srv.Auth.ByCertificate(c.sess, c.wire.PeerCertificate()); ok {
			c.sess.SetIdentity(id)
			c.publish()
		}
	}
	if refusal := c.srv.Refuse(c.sess.Local); refusal != "" {
		c.srv.Stats.RejectedConns.Add(1)
		c.wire.Send([]byte(refusal))
		return false
	}
	return true
}

// isLocal reports whether the client is on this host.
func isLocal(client net.Addr) bool {
	addr, ok := client.(*net.TCPAddr)
	return !ok || addr.IP.IsLoopback() // a client that does not use TCP uses the Unix socket
}

// sentByBrowser reports whether the unknown name of a command looks like part of an HTTP request. A web page can make
// its visitor's browser send commands to a server on the visitor's host, but not without such lines.
func sentByBrowser(name []byte) bool {
	return command.EqualFold(name, "post") || command.EqualFold(name, "host:")
}

// refuseBrowser ends the connection without a reply.
func (c *conn) refuseBrowser() {
	c.closeAfterReply = true
	c.srv.Stats.ProtocolErrors.Add(1)
	if c.srv.browsers.allow(time.Minute) {
		c.srv.Log.Warn("a client has sent an HTTP request and was disconnected; it may be an attack through a web browser",
			zap.String("addr", c.sess.Addr))
	}
}
