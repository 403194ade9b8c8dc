package wire

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Addresses say where to listen.
type Addresses struct {
	FD       int      // a listening socket that another process passes on; it replaces Port. -1 = none
	Hosts    []string // for Port and TLSPort; one that begins with "-" may be missing on this machine
	Port     int      // 0 = no port if TLSPort is set; else the system picks one, the same for all hosts
	TLSPort  int      // 0 = none
	Unix     string   // path of a Unix socket, "" = none
	UnixPerm uint32   // its permissions
	Backlog  int      // connections that may wait to be accepted; 0 = as many as the system allows
	Admin    string   // address of the operators' HTTP listener, "" = none
}

// Listeners are open sockets before Serve: clients that connect wait.
type Listeners []net.Listener

// Listen opens the sockets. The error begins with the name of the setting at fault: port, tls-port, bind, socket-fd,
// unixsocket, unixsocketperm or admin-listen.
func Listen(at Addresses) (_ Listeners, err error) {
	var l Listeners
	defer func() {
		if err != nil {
			l.Close()
		}
	}()
	if at.FD >= 0 {
		f := os.NewFile(uintptr(at.FD), "socket-fd")
		defer f.Close()
		nl, err := net.FileListener(f)
		if err != nil {
			return nil, fmt.Errorf("socket-fd: %d is not a listening socket: %w", at.FD, err)
		}
		l = append(l, nl)
	} else if at.Port > 0 || at.TLSPort == 0 {
		port := strconv.Itoa(at.Port)
		for _, host := range at.Hosts {
			nl, err := listenTCP("port", host, port, at.Backlog)
			if err != nil {
				return nil, err
			}
			if nl == nil {
				continue
			}
			l = append(l, nl)
			if port == "0" {
				_, port, _ = net.SplitHostPort(nl.Addr().String())
			}
		}
	}
	if at.TLSPort > 0 {
		for _, host := range at.Hosts {
			nl, err := listenTCP("tls-port", host, strconv.Itoa(at.TLSPort), at.Backlog)
			if err != nil {
				return nil, err
			}
			if nl != nil {
				l = append(l, tlsListener{nl})
			}
		}
	}
	if at.Unix != "" {
		nl, err := listenUnix(at.Unix, at.UnixPerm, at.Backlog)
		if err != nil {
			return nil, err
		}
		l = append(l, nl)
	}
	if len(l) == 0 {
		return nil, errors.New("bind: there is no address to listen on")
	}
	if at.Admin != "" {
		nl, err := net.Listen("tcp", at.Admin)
		if err != nil {
			return nil, fmt.Errorf("admin-listen: %w", err)
		}
		l = append(l, adminListener{nl})
	}
	return l, nil
}

// adminListener accepts the operators' HTTP connections.
type adminListener struct{ net.Listener }

// CutAdmin returns the listeners for clients, and the operators' listener, nil = there is none.
func (l Listeners) CutAdmin() (clients Listeners, admin net.Listener) {
	if n := len(l) - 1; n >= 0 {
		if a, ok := l[n].(adminListener); ok {
			return l[:n], a
		}
	}
	return l, nil
}

// tlsListener accepts the clients of the TLS port.
type tlsListener struct{ net.Listener }

// IsTLS reports whether the clients of a listener use TLS.
func IsTLS(l net.Listener) bool {
	_, ok := l.(tlsListener)
	return ok
}

func (l Listeners) Close() {
	for _, nl := range l {
		nl.Close()
	}
}

// Describe returns the listeners as INFO shows them, grouped by kind and port: name=tcp,bind=::1,port=6666.
func (l Listeners) Describe() []string {
	type group struct{ name, bind, port string }
	var groups []group
	for _, nl := range l {
		g := group{name: "tcp", bind: ",bind=" + nl.Addr().String()}
		if host, port, err := net.SplitHostPort(nl.Addr().String()); err == nil {
			g.bind, g.port = ",bind="+host, ",port="+port
		}
		if IsTLS(nl) {
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

// listenTCP opens the socket of one address. As in Redis, an address that begins with "-" and that the machine does not
// have, and one whose protocol the system lacks, are nil; an IPv6 address takes no clients of IPv4.
func listenTCP(key, host, port string, backlog int) (net.Listener, error) {
	host, optional := strings.CutPrefix(host, "-")
	host = strings.Trim(host, "[]")
	addr := net.JoinHostPort(host, port)
	network := "tcp"
	if ip, err := netip.ParseAddr(host); err == nil && ip.Unmap().Is4() {
		network = "tcp4" // with "tcp" 0.0.0.0 is all addresses of IPv6 too
	} else if err == nil {
		network = "tcp6"
	}
	lc := net.ListenConfig{KeepAlive: -1} // set from tcp-keepalive when a client connects
	l, err := lc.Listen(context.Background(), network, addr)
	if optional && errors.Is(err, syscall.EADDRNOTAVAIL) || errors.Is(err, syscall.EAFNOSUPPORT) ||
		errors.Is(err, syscall.EPROTONOSUPPORT) {
		return nil, nil
	}
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("%s: %s is in use", key, addr)
	}
	if err != nil {
		if op, ok := errors.AsType[*net.OpError](err); ok {
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

// KeepAlive lets the system probe a silent client after some seconds, and close the connection after as many more. 0
// = never.
func KeepAlive(seconds int) net.KeepAliveConfig {
	if seconds <= 0 {
		return net.KeepAliveConfig{}
	}
	const (
		probes  = 3
		longest = 32767 // seconds, the maximum of Linux
	)
	idle := min(seconds, longest)
	return net.KeepAliveConfig{Enable: true, Idle: time.Duration(idle) * time.Second,
		Interval: time.Duration(max(1, idle/probes)) * time.Second, Count: probes}
}

// OnThisMachine reports whether a client is on the server's host: the client comes over the loopback interface, from
// an address of this host to the same address, or over a Unix socket.
func OnThisMachine(local, remote net.Addr) bool {
	to, ok1 := local.(*net.TCPAddr)
	from, ok2 := remote.(*net.TCPAddr)
	return !ok1 || !ok2 || from.IP.IsLoopback() || from.IP.Equal(to.IP)
}
