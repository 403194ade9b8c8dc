package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"syscall"

	"github.com/basaltdb/basalt/server/config"
)

// Listeners are open sockets on which no one is served yet; clients that connect wait.
type Listeners []net.Listener

// Listen opens the sockets that the settings name: every address of bind with port, or the socket that socket-fd
// passes on; every address of bind with tls-port; the Unix socket. With port 0 the system picks a port, the same for
// all addresses; with port 0 and a tls-port there is only that one. The error begins with the key that it is about.
func Listen(cfg *config.Config) (_ Listeners, err error) {
	var l Listeners
	defer func() {
		if err != nil {
			l.Close()
		}
	}()
	if fd := cfg.Int("socket-fd"); fd >= 0 {
		f := os.NewFile(uintptr(fd), "socket-fd")
		defer f.Close()
		nl, err := net.FileListener(f)
		if err != nil {
			return nil, fmt.Errorf("socket-fd: %d is no listening socket: %w", fd, err)
		}
		l = append(l, nl)
	} else if cfg.Port() > 0 || cfg.Int("tls-port") == 0 {
		port := strconv.Itoa(cfg.Port())
		for _, host := range cfg.Bind() {
			nl, err := listenTCP("port", host, port, cfg.TCPBacklog())
			if err != nil {
				return nil, err
			}
			l = append(l, nl)
			if port == "0" {
				_, port, _ = net.SplitHostPort(nl.Addr().String())
			}
		}
	}
	if port := cfg.Int("tls-port"); port > 0 {
		for _, host := range cfg.Bind() {
			nl, err := listenTCP("tls-port", host, strconv.FormatInt(port, 10), cfg.TCPBacklog())
			if err != nil {
				return nil, err
			}
			l = append(l, tlsListener{nl})
		}
	}
	if path := cfg.Text("unixsocket"); path != "" {
		nl, err := listenUnix(path, uint32(cfg.Int("unixsocketperm")), cfg.TCPBacklog())
		if err != nil {
			return nil, err
		}
		l = append(l, nl)
	}
	if len(l) == 0 {
		return nil, errors.New("bind: there is no address to listen on")
	}
	return l, nil
}

// Close closes the sockets.
func (l Listeners) Close() {
	for _, nl := range l {
		nl.Close()
	}
}

// describe returns the listeners as INFO shows them, those of one kind and port together: name=tcp,bind=::1,port=6666.
func (l Listeners) describe() []string {
	type group struct{ name, bind, port string }
	var groups []group
	for _, nl := range l {
		g := group{name: "tcp", bind: ",bind=" + nl.Addr().String()}
		if host, port, err := net.SplitHostPort(nl.Addr().String()); err == nil {
			g.bind, g.port = ",bind="+host, ",port="+port
		}
		if _, ok := nl.(tlsListener); ok {
			g.name = "tls"
		} else if nl.Addr().Network() == "unix" {
			g.name = "unix"
		}
		if n := len(groups); n > 0 && groups[n-1].name == g.name && groups[n-1].port == g.port {
			groups[n-1].bind += g.bind
		} else {
			groups = append(groups, g)
		}
	}
	lines := make([]string, len(groups))
	for i, g := range groups {
		lines[i] = "name=" + g.name + g.bind + g.port
	}
	return lines
}

func listenTCP(key, host, port string, backlog int) (net.Listener, error) {
	addr := net.JoinHostPort(strings.Trim(host, "[]"), port)
	lc := net.ListenConfig{KeepAlive: -1} // tcp-keepalive decides, when a client comes
	l, err := lc.Listen(context.Background(), "tcp", addr)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("%s: %s is in use", key, addr)
	}
	if err != nil {
		var op *net.OpError
		if errors.As(err, &op) {
			err = op.Err
		}
		return nil, fmt.Errorf("bind: cannot listen on %s: %w", addr, err)
	}
	// Go listens with the system's largest backlog; a second listen(2) on the socket changes it.
	if raw, err := l.(*net.TCPListener).SyscallConn(); err == nil && backlog > 0 {
		raw.Control(func(fd uintptr) { syscall.Listen(int(fd), backlog) })
	}
	return l, nil
}
