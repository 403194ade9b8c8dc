package wire

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"syscall"
)

// listenUnix makes a Unix socket. It replaces a socket that an ended server has left behind, and no other file. No
// client can connect before the socket has its permissions: it listens only afterwards.
func listenUnix(path string, perm uint32, backlog int) (net.Listener, error) {
	if longest := len(syscall.RawSockaddrUnix{}.Path) - 1; len(path) > longest {
		return nil, fmt.Errorf("unixsocket: cannot listen on %s: the path is longer than %d bytes", path, longest)
	}
	if err := removeDead(path); err != nil {
		return nil, fmt.Errorf("unixsocket: %w", err)
	}
	fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC|syscall.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("unixsocket: %w", err)
	}
	f := os.NewFile(uintptr(fd), path)
	defer f.Close() // the listener has a descriptor of its own
	if err := syscall.Bind(fd, &syscall.SockaddrUnix{Name: path}); err != nil {
		return nil, fmt.Errorf("unixsocket: cannot listen on %s: %w", path, err)
	}
	l, err := listenOn(f, path, perm, backlog)
	if err != nil {
		os.Remove(path)
	}
	return l, err
}

func listenOn(f *os.File, path string, perm uint32, backlog int) (net.Listener, error) {
	if err := syscall.Chmod(path, perm); err != nil {
		return nil, fmt.Errorf("unixsocketperm: %w", err)
	}
	if backlog <= 0 {
		backlog = syscall.SOMAXCONN
	}
	if err := syscall.Listen(int(f.Fd()), backlog); err != nil {
		return nil, fmt.Errorf("unixsocket: cannot listen on %s: %w", path, err)
	}
	info, err := os.Lstat(path)
	if err != nil {
		return nil, fmt.Errorf("unixsocket: %w", err)
	}
	l, err := net.FileListener(f)
	if err != nil {
		return nil, fmt.Errorf("unixsocket: cannot listen on %s: %w", path, err)
	}
	return &unixListener{Listener: l, path: path, info: info}, nil
}

// removeDead removes a socket on which no process listens.
func removeDead(path string) error {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // bind reports any other error
	}
	if err != nil {
		return err
	}
	if info.Mode().Type() != fs.ModeSocket {
		return fmt.Errorf("%s exists and is not a socket", path)
	}
	c, err := net.Dial("unix", path)
	switch {
	case err == nil:
		c.Close()
		return fmt.Errorf("%s is in use", path)
	case errors.Is(err, syscall.ECONNREFUSED):
		return os.Remove(path)
	case errors.Is(err, fs.ErrNotExist):
		return nil // removed meanwhile
	case errors.Is(err, syscall.EAGAIN): // its queue is full
		return fmt.Errorf("%s is in use", path)
	}
	return fmt.Errorf("%s exists, cannot tell whether a server is using it: %w", path, err)
}

// unixListener removes its socket when it is closed, unless the path now belongs to another socket.
type unixListener struct {
	net.Listener
	path string
	info fs.FileInfo // nil = it was closed
}

func (l *unixListener) Close() error {
	if now, err := os.Lstat(l.path); err == nil && l.info != nil && os.SameFile(now, l.info) {
		os.Remove(l.path)
	}
	l.info = nil
	return l.Listener.Close()
}
