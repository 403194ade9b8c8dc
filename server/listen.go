package server

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"strconv"
	"strings"
	"syscall"

	"github.com/basaltdb/basalt/server/config"
)

// Listeners are open sockets on which no one is served yet; clients that connect wait.
type Listeners []net.Listener

// Listen opens the sockets that the settings name: every address of bind with port, the Unix socket, or the
// socket that socket-fd passes on. With port 0 the system picks a port, the same for all addresses. The error
// begins with the key that it is about.
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
	} else {
		port := strconv.Itoa(cfg.Port())
		for _, host := range cfg.Bind() {
			nl, err := listenTCP(host, port, cfg.TCPBacklog())
			if err != nil {
				return nil, err
			}
			l = append(l, nl)
			if port == "0" {
				_, port, _ = net.SplitHostPort(nl.Addr().String())
			}
		}
	}
	if path := cfg.Text("unixsocket"); path != "" {
		nl, err := listenUnix(path, fs.FileMode(cfg.Int("unixsocketperm")))
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

func listenTCP(host, port string, backlog int) (net.Listener, error) {
	addr := net.JoinHostPort(strings.Trim(host, "[]"), port)
	var lc net.ListenConfig
	l, err := lc.Listen(context.Background(), "tcp", addr)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("port: %s is in use", addr)
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

// listenUnix replaces the socket that a server which has ended has left behind, and no other file.
func listenUnix(path string, perm fs.FileMode) (net.Listener, error) {
	if info, err := os.Stat(path); err == nil {
		if info.Mode().Type() != fs.ModeSocket {
			return nil, fmt.Errorf("unixsocket: %s exists and is no socket", path)
		}
		if c, err := net.Dial("unix", path); err == nil {
			c.Close()
			return nil, fmt.Errorf("unixsocket: %s is in use", path)
		}
		os.Remove(path)
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		return nil, fmt.Errorf("unixsocket: cannot listen on %s: %w", path, err)
	}
	if err := os.Chmod(path, perm); err != nil {
		l.Close()
		return nil, fmt.Errorf("unixsocketperm: %w", err)
	}
	return l, nil
}
