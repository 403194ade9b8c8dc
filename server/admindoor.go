package server

import (
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"

	"go.uber.org/zap"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/server/acl"
	"github.com/basaltdb/basalt/server/admin"
	"github.com/basaltdb/basalt/server/command"
	"github.com/basaltdb/basalt/server/info"
	"github.com/basaltdb/basalt/server/session"
)

// openAdmin opens the door for operators at the address of admin-listen, if there is one.
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

// console says what the web console reaches, nil = admin-console is off.
func (s *Server) console() *admin.Console {
	if !s.cfg.Bool("admin-console") {
		return nil
	}
	return &admin.Console{
		Connect: s.connect,
		Open:    func() bool { return !s.auth.PasswordRequired() },
		Writes:  func() bool { return s.cfg.Bool("admin-console-writes") },
		DB:      s.db,
	}
}

// browserConn is the server's end of a connection for a browser: its client has the browser's address.
type browserConn struct {
	*net.UnixConn
	browser net.Addr
}

func (c browserConn) RemoteAddr() net.Addr { return c.browser }

// connect returns a connection to this server over a pair of sockets that nobody else sees, for a browser at an
// address (host:port).
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

// ready returns why clients should not be sent here now.
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

// administrator reports whether a name and a password are those of one who may call KPROFILE; both are empty for one
// who gave none. A wrong password stands in ACL LOG, like one of AUTH.
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
	if id.Account == nil {
		return true
	}
	kprofile := command.DefaultTable().Lookup([]byte("kprofile"))
	reason, _ := id.Account.User().Check(acl.ID(kprofile.ID), [][]byte{[]byte("kprofile")}, nil, acl.Channels{})
	return reason == acl.Allowed
}

// adminSource has what /metrics shows.
type adminSource struct{ srv *Server }

// Sections are those of INFO, with keys of the default namespace, and one more of RocksDB.
func (a adminSource) Sections(f func(section string, fields []info.Field)) {
	// Percentiles follow from the histograms, which are there too.
	want := func(section string) bool { return section != "latencystats" && section != "modules" }
	a.srv.info.Each(want, cf.DefaultNamespace, f)
	var w info.Writer
	if a.srv.IsReplica() { // INFO has a text, master_link_status
		w.Flag("master_link_up", a.srv.replica.Up())
		f("Replication", w.Fields())
		w = info.Writer{}
	}
	admin.RocksDB(a.srv.db, &w)
	f("RocksDB", w.Fields())
}

// Latencies are those of the commands that were called.
func (a adminSource) Latencies(f func(admin.Latency)) {
	for i := range command.NumSpecs() {
		spec := command.ByID(i)
		usec, counts, calls, ok := a.srv.sessions.Stats.Latencies(spec)
		if !ok {
			continue
		}
		l := admin.Latency{Command: spec.FullName(), Calls: uint64(calls), Buckets: make(map[float64]uint64, len(usec)),
			Seconds: a.srv.sessions.Stats.Command(i).Took.Seconds()}
		for j, us := range usec {
			l.Buckets[float64(us)/1e6] = uint64(counts[j])
		}
		f(l)
	}
}
