package server

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"path/filepath"
	"strconv"
	"time"

	"go.uber.org/zap"

	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/server/command"
	"github.com/basaltdb/basalt/server/info"
	"github.com/basaltdb/basalt/server/replication/replica"
	"github.com/basaltdb/basalt/server/tlsconfig"
)

// The server as a replica: package replica follows the master; this file connects it to the rest of the server.

// replicaDialTimeout is the timeout of connecting to a master, including the TLS handshake, as in Kvrocks.
const replicaDialTimeout = 3100 * time.Millisecond

// startReplica creates the replica's side. It does not follow a master yet.
func (s *Server) startReplica() {
	s.replica = replica.New(replica.Options{
		DB: s.db, Log: s.log, Dir: filepath.Join(filepath.Dir(s.db.Dir()), "sync_checkpoint"),
		Dial: s.dialMaster, Committed: s.sessions.Committed, Applied: s.sessions.Applied,
		Replacing: s.master.Suspend, Replaced: s.databaseReplaced, Changed: s.refreshStale, Redis: &redisCommands{srv: s},
	}, s.replicaSettings())
}

// replicaNames are the settings that control how the server follows a master.
var replicaNames = []string{"masterauth", "masteruser", "replica-announce-ip", "replica-announce-port",
	"slave-read-only", "slave-empty-db-before-fullsync", "slave-serve-stale-data"}

func (s *Server) replicaSettings() replica.Settings {
	port := s.port()
	if tlsPort := int(s.cfg.Int("tls-port")); s.cfg.Bool("tls-replication") && tlsPort != 0 {
		port = tlsPort
	}
	return replica.Settings{
		User: s.cfg.Text("masteruser"), Password: s.cfg.Text("masterauth"), DBName: s.cfg.Text("db-name"),
		Port: cmp.Or(int(s.cfg.Int("replica-announce-port")), port), Address: s.cfg.Text("replica-announce-ip"),
		Writable: !s.cfg.Bool("slave-read-only"), SendID: s.cfg.Bool("use-rsid-psync"),
		EmptyFirst: s.cfg.Bool("slave-empty-db-before-fullsync"),
	}
}

// dialMaster connects to a master.
func (s *Server) dialMaster(ctx context.Context, addr string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, replicaDialTimeout)
	defer cancel()
	nc, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
	if err != nil || !s.cfg.Bool("tls-replication") {
		return nc, err
	}
	c, err := tlsconfig.Client(tlsOptions(s.cfg))
	if err != nil {
		nc.Close()
		return nil, err
	}
	secure := tls.Client(nc, c)
	if err := secure.HandshakeContext(ctx); err != nil {
		nc.Close()
		return nil, err
	}
	return secure, nil
}

// databaseReplaced reloads what the server keeps in memory about the database.
func (s *Server) databaseReplaced() {
	s.work.CheckSize()
	s.sessions.Replaced()
}

// refreshStale updates whether clients are refused because the link to the master is down.
func (s *Server) refreshStale() {
	s.sessions.Limits.Stale.Store(s.IsReplica() && !s.cfg.Bool("slave-serve-stale-data") && !s.replica.Up())
}

// Errors of REPLICAOF, with Kvrocks's texts.
var (
	errReplicaCluster = engine.NewError("ERR", "can't change to slave in cluster mode")
	errReplicaNoLog   = engine.NewError("ERR", "slaveof doesn't work with disable_wal option")
	errReplicateSelf  = engine.NewError("ERR", "can't replicate itself")
	errReplicateOwn   = engine.NewError("ERR", "can't replicate your own replicas")
)

// resolveTimeout is the timeout of resolving a master's host name.
const resolveTimeout = 2 * time.Second

// Follow implements command.Replication.
func (s *Server) Follow(host string, port int) error {
	switch {
	case s.failingOver():
		return errFailingOver
	case s.cluster != nil:
		return errReplicaCluster
	case s.cfg.Bool("rocksdb.write_options.disable_wal"):
		return errReplicaNoLog
	}
	if h, p, ok := s.followed(); ok && h == host && p == port {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), resolveTimeout)
	defer cancel()
	addrs, err := net.DefaultResolver.LookupIPAddr(ctx, host)
	if err != nil {
		return engine.NewError("ERR", fmt.Sprintf("Can not resolve hostname: %s", host))
	}
	if err := s.mayFollow(host, addrs, port); err != nil {
		return err
	}
	return s.becomeReplica(host, port, !s.IsReplica())
}

// becomeReplica makes the server a replica; own as in [replica.Replica.Follow].
func (s *Server) becomeReplica(host string, port int, own bool) error {
	if err := s.cfg.SetMaster(host + " " + strconv.Itoa(port)); err != nil {
		return engine.NewError("ERR", err.Error())
	}
	s.applyRole()
	s.sessions.Demoted()
	s.beginFollowing(host, port, own)
	return nil
}

// beginFollowing starts following a master that the settings name; own as in [replica.Replica.Follow].
func (s *Server) beginFollowing(host string, port int, own bool) {
	s.log.Info("the server is a replica", zap.String("master", net.JoinHostPort(host, strconv.Itoa(port))))
	s.applyReplica()
	s.replica.Follow(host, port, own)
	s.refreshStale()
}

// mayFollow refuses this server itself and its own replicas as masters.
func (s *Server) mayFollow(host string, addrs []net.IPAddr, port int) error {
	own, err := net.InterfaceAddrs()
	if err != nil {
		own = nil
	}
	is := func(ip string) bool {
		for _, a := range addrs {
			if a.IP.String() == ip {
				return true
			}
		}
		return ip == host
	}
	if port == s.port() || port == int(s.cfg.Int("tls-port")) {
		for _, a := range addrs {
			if a.IP.IsLoopback() {
				return errReplicateSelf
			}
		}
		for _, a := range own {
			if n, ok := a.(*net.IPNet); ok && is(n.IP.String()) {
				return errReplicateSelf
			}
		}
	}
	for _, r := range s.master.Replicas() {
		if r.Port == port && is(r.IP) {
			return errReplicateOwn
		}
	}
	return nil
}

// infoMaster writes the fields of INFO about the master.
func (s *Server) infoMaster(w *info.Writer) {
	host, port, _ := s.followed()
	st, _ := s.replica.Status()
	up := st.State == replica.Connected && !st.LastIO.IsZero()
	lastIO := int64(-1)
	if !st.LastIO.IsZero() {
		lastIO = int64(time.Since(st.LastIO) / time.Second)
	}
	number := func(name string, n int64) { w.Gauge(name, info.None, n) }
	w.Text("role", "slave")
	w.Text("master_host", host)
	number("master_port", int64(port))
	w.Text("master_link_status", map[bool]string{true: "up", false: "down"}[up])
	w.Text("master_sync_unrecoverable_error", "no")
	w.Flag("master_sync_in_progress", st.State.Syncing())
	w.Gauge("master_last_io_seconds_ago", info.Seconds, lastIO)
	offset := s.replicaOffset(&st)
	number("slave_read_repl_offset", offset)
	number("slave_repl_offset", offset)
	if !up {
		w.Gauge("master_link_down_since_seconds", info.Seconds, int64(max(time.Since(st.DownSince), 0)/time.Second))
		w.Text("master_link_state", st.State.String())
		w.Text("master_link_error", st.Err)
	}
	if p := st.Sync; st.State.Syncing() {
		w.Gauge("master_sync_total_bytes", info.Bytes, p.Bytes)
		w.Gauge("master_sync_read_bytes", info.Bytes, p.BytesDone)
		w.Gauge("master_sync_left_bytes", info.Bytes, max(p.Bytes-p.BytesDone, 0))
		number("master_sync_total_files", int64(p.Files))
		number("master_sync_read_files", int64(p.FilesDone))
		w.Gauge("master_sync_bytes_per_second", info.Bytes, p.Rate)
		w.Gauge("master_sync_left_seconds", info.Seconds, int64(p.Left/time.Second))
	}
	w.Counter("slave_full_syncs", info.None, st.FullSyncs)
	number("slave_priority", s.cfg.Int("slave-priority"))
	w.Flag("slave_read_only", s.cfg.Bool("slave-read-only"))
	w.Flag("replica_announced", true)
}

// replicaOffset returns the position of the link: the offset in the stream of a Redis master, otherwise the sequence
// number.
func (s *Server) replicaOffset(st *replica.Status) int64 {
	if st.Redis {
		return st.Offset
	}
	return int64(s.db.LatestSequence())
}

// linkState returns ROLE's word for the state of the link.
func (s *Server) linkState() string {
	st, _ := s.replica.Status()
	switch {
	case st.State == replica.Connected:
		return "connected"
	case st.State.Syncing():
		return "sync"
	}
	return "connecting"
}

var _ command.Replication = (*Server)(nil)
