// Package operators opens the door for operators: metrics, health, profiles, and the web console with its connections.
package operators

import (
	"errors"
	"net"
	"net/netip"
	"os"
	"strings"
	"syscall"
	"time"

	"go.uber.org/zap"

	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/server/acl"
	"github.com/basaltdb/basalt/server/admin"
	"github.com/basaltdb/basalt/server/auth"
	"github.com/basaltdb/basalt/server/cluster"
	"github.com/basaltdb/basalt/server/command"
	"github.com/basaltdb/basalt/server/config"
	"github.com/basaltdb/basalt/server/config/setting"
	"github.com/basaltdb/basalt/server/info"
	"github.com/basaltdb/basalt/server/replication/master"
	"github.com/basaltdb/basalt/server/replication/replica"
	"github.com/basaltdb/basalt/server/session"
)

// Options are what operators see.
type Options struct {
	Config   *config.Config
	DB       *engine.DB
	Log      *zap.Logger
	Sessions *session.Shared
	Auth     *auth.Auth
	Info     *info.Sections
	Master   *master.Master
	Replica  *replica.Replica
	Cluster  *cluster.Map // nil = cluster-enabled is off
}

// Open opens the door for operators on the listener of admin-listen; nil = there is none.
func Open(l net.Listener, o Options) *admin.Door {
	if l == nil {
		return nil
	}
	d := admin.Open(l, admin.Options{Source: source{&o}, Ready: o.ready, Administrator: o.administrator, Log: o.Log,
		Console: o.console()})
	o.Log.Info("metrics, health and the web console over HTTP", zap.String("address", l.Addr().String()))
	return d
}

// console returns what the web console needs, nil = admin-console is off.
func (o *Options) console() *admin.Console {
	if !o.Config.Bool("admin-console") {
		return nil
	}
	return &admin.Console{
		Connect: o.connect,
		Open:    func() bool { return !o.Auth.PasswordRequired() },
		Writes:  func() bool { return o.Config.Bool("admin-console-writes") },
		DB:      o.DB,
		Hot: func() (list []admin.HotKey) {
			for _, h := range o.Sessions.Stats.Hot.Top(maxHotKeys, time.Now()) {
				list = append(list, admin.HotKey{Namespace: h.Namespace, Key: h.Key, Share: h.Share})
			}
			return list
		},
		MayMonitor: func(user string) bool {
			u := o.Auth.ACL().User(user)
			return u != nil && mayCall(u, "monitor")
		},
		Settings: consoleSettings(),
	}
}

// maxHotKeys is how many keys the console shows.
const maxHotKeys = 50

func consoleSettings() (list []admin.Setting) {
	for _, s := range setting.Table {
		if s.Redis {
			continue
		}
		comment := s.Comment
		if s.Inert != "" {
			comment = strings.TrimSpace("Has no effect here. " + comment)
		}
		list = append(list, admin.Setting{Name: s.Name, Dynamic: s.Dynamic, Protected: s.Protected, Comment: comment})
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
func (o *Options) connect(browser string) (net.Conn, error) {
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
	if !o.Sessions.Serve(browserConn{ends[0].(*net.UnixConn), at}, nil) {
		ends[1].Close()
		return nil, session.ErrClosing
	}
	return ends[1], nil
}

var errSyncing = errors.New("the database is being fetched from the master")

// ready returns the reason why load balancers should not send clients here now, nil = the server is ready.
func (o *Options) ready() error {
	switch {
	case o.Sessions.Closing():
		return session.ErrClosing
	case o.Sessions.Limits.Full.Load():
		return command.ErrDBSize
	}
	if st, replica := o.Replica.Status(); replica && st.State.Syncing() {
		return errSyncing
	}
	return o.DB.BackgroundError()
}

// administrator reports whether a name and a password are those of a user who may call KPROFILE; both are empty for a
// request without credentials. A wrong password is logged in ACL LOG, like one of AUTH.
func (o *Options) administrator(user, password, addr string) bool {
	at, err := netip.ParseAddrPort(addr)
	if o.Sessions.Refuse(err == nil && at.Addr().Unmap().IsLoopback()) != "" { // protected mode
		return false
	}
	var id command.Identity
	var ok bool
	if user == "" && password == "" {
		id, ok = o.Auth.Anonymous()
	} else {
		if user == "" {
			user = "default"
		}
		if id, ok = o.Auth.Authenticate([]byte(user), []byte(password)); !ok {
			o.Auth.AuthFailedOver("/debug/pprof", user, addr)
		}
	}
	if !ok || !id.Admin {
		return false
	}
	return id.Account == nil || mayCall(id.Account.User(), "kprofile")
}
