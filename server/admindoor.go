package server

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"syscall"
	"time"

	"go.uber.org/zap"

	"github.com/basaltdb/basalt/server/acl"
	"github.com/basaltdb/basalt/server/admin"
	"github.com/basaltdb/basalt/server/command"
	"github.com/basaltdb/basalt/server/config"
	"github.com/basaltdb/basalt/server/session"
)

// openAdmin opens the listener for operators at the address of admin-listen, if that is set.
func (s *Server) openAdmin() error {
	address := s.cfg.Text("admin-listen")
	if address == "" {
		return nil
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		return fmt.Errorf("admin-listen: %w", err)
	}
	s.admin = admin.Open(l, admin.Options{Source: adminSource{s}, Ready: s.ready, Administrator: s.administrator,
		Log: s.log, Console: s.console()})
	s.log.Info("metrics, health and the web console over HTTP", zap.String("address", l.Addr().String()))
	return nil
}

// console returns what the web console needs, nil = admin-console is off.
func (s *Server) console() *admin.Console {
	if !s.cfg.Bool("admin-console") {
		return nil
	}
	return &admin.Console{
		Connect: s.connect,
		Open:    func() bool { return !s.auth.PasswordRequired() },
		Writes:  func() bool { return s.cfg.Bool("admin-console-writes") },
		DB:      s.db,
		Hot: func() (list []admin.HotKey) {
			for _, h := range s.sessions.Stats.Hot.Top(maxHotKeys, time.Now()) {
				list = append(list, admin.HotKey{Namespace: h.Namespace, Key: h.Key, Share: h.Share})
			}
			return list
		},
		MayMonitor: func(user string) bool {
			u := s.auth.ACL().User(user)
			return u != nil && mayCall(u, "monitor")
		},
		Settings: consoleSettings(),
	}
}

// maxHotKeys is how many keys the console shows.
const maxHotKeys = 50

func consoleSettings() (list []admin.Setting) {
	for _, s := range config.Settings() {
		if s.Redis || s.Inert != "" {
			s.Comment = strings.TrimSpace("Has no effect here. " + s.Comment)
		}
		list = append(list, admin.Setting{Name: s.Name, Dynamic: s.Dynamic, Protected: s.Protected, Comment: s.Comment})
	}
	return list
}

// mayCall reports whether the ACL lets a user call a command without arguments.
func mayCall(u *acl.User, name string) bool {
	spec := command.DefaultTable().Lookup([]byte(name))
	reason, _ := u.Check(acl.ID(spec.ID), [][]byte{[]byte(name)}, nil, acl.Channels{})
	return reason == acl.Allowed
}

// browserConn is the server's end of a connection for a browser: its client has the browser's address.
type browserConn struct {
	*net.UnixConn
	browser net.Addr
}

func (c browserConn) RemoteAddr() net.Addr { return c.browser }

// connect returns a connection to this server over a private socket pair, for a browser at an address (host:port).
func (s *Server) connect(browser string) (net.Conn, error) {
	at, err := net.ResolveTCPAddr("tcp", browser)
	if err != nil {
		return nil, err
	}
	pair, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	var ends [2]net.Conn
	for i, fd := range pair {
		f := os.NewFile(uintptr(fd), "console")
		c, e := net.FileConn(f)
		f.Close()
		if e != nil {
			err = e
			continue
		}
		ends[i] = c
	}
	if err != nil {
		for _, c := range ends {
			if c != nil {
				c.Close()
			}
		}
		return nil, err
	}
	if !s.sessions.Serve(browserConn{ends[0].(*net.UnixConn), at}, nil) {
		ends[1].Close()
		return nil, session.ErrClosing
	}
	return ends[1], nil
}

var errSyncing = errors.New("the database is being fetched from the master")

// ready returns the reason why load balancers should not send clients here now, nil = the server is ready.
func (s *Server) ready() error {
	switch {
	case s.sessions.Closing():
		return session.ErrClosing
	case s.sessions.Limits.Full.Load():
		return command.ErrDBSize
	}
	if st, replica := s.replica.Status(); replica && st.State.Syncing() {
		return errSyncing
	}
	return s.db.BackgroundError()
}

// administrator reports whether a name and a password are those of a user who may call KPROFILE; both are empty for a
// request without credentials. A wrong password is logged in ACL LOG, like one of AUTH.
func (s *Server) administrator(user, password, addr string) bool {
	var id command.Identity
	var ok bool
	if user == "" && password == "" {
		id, ok = s.auth.Anonymous()
	} else {
		if user == "" {
			user = "default"
		}
		if id, ok = s.auth.Authenticate([]byte(user), []byte(password)); !ok {
			s.auth.AuthFailedOver("/debug/pprof", user, addr)
		}
	}
	if !ok || !id.Admin {
		return false
	}
	return id.Account == nil || mayCall(id.Account.User(), "kprofile")
}
