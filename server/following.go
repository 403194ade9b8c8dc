package server

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"go.uber.org/zap"

	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/server/config"
	"github.com/basaltdb/basalt/server/options"
	"github.com/basaltdb/basalt/server/replication/replica"
)

// The server as a replica: package replica follows the master; this file connects it to the rest of the server.

// dialTimeout is the timeout of connecting to another server, including the TLS handshake, as in Kvrocks.
const dialTimeout = 3100 * time.Millisecond

// startReplica creates the replica's side. It does not follow a master yet.
func (s *Server) startReplica() {
	s.replica = replica.New(replica.Options{
		DB: s.db, Log: s.log, Dir: filepath.Join(filepath.Dir(s.db.Dir()), "sync_checkpoint"),
		Dial: s.dialServer, Committed: s.sessions.Committed, Applied: s.sessions.Applied,
		Replacing: s.master.Suspend, Replaced: s.databaseReplaced, Changed: s.refreshStale, Redis: &redisCommands{srv: s},
	}, options.Replica(s.cfg, s.port()))
}

// dialServer connects to a master, a replica or another node of the cluster.
func (s *Server) dialServer(ctx context.Context, addr string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	nc, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
	if err != nil || !s.cfg.Bool("tls-replication") {
		return nc, err
	}
	c, err := options.TLSClient(s.cfg)
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

// becomeReplica makes the server a replica; written as in [replica.Replica.Follow].
func (s *Server) becomeReplica(host string, port int, written bool) error {
	if err := s.cfg.SetMaster(host + " " + strconv.Itoa(port)); err != nil {
		return engine.NewError("ERR", err.Error())
	}
	s.applyRole()
	s.sessions.Demoted()
	s.beginFollowing(host, port, written)
	return nil
}

// beginFollowing starts following a master that the settings name; written as in [replica.Replica.Follow].
func (s *Server) beginFollowing(host string, port int, written bool) {
	s.log.Info("the server is a replica", zap.String("master", net.JoinHostPort(host, strconv.Itoa(port))))
	s.applyReplica()
	s.replica.Follow(host, port, written)
	s.refreshStale()
}

// mayFollow refuses this server itself and its own replicas as masters.
func (s *Server) mayFollow(host string, addrs []net.IPAddr, port int) error {
	if (port == s.port() || port == int(s.cfg.Int("tls-port"))) && ownAddress(addrs) {
		return errReplicateSelf
	}
	for _, r := range s.master.Replicas() {
		if r.Port == port && (r.IP == host || hasAddress(addrs, r.IP)) {
			return errReplicateOwn
		}
	}
	return nil
}

// checkMaster returns an error if the settings name the server itself as its master. A host name that cannot be
// resolved is none: the link goes on trying.
func checkMaster(cfg *config.Config) error {
	host, text, ok := cfg.Master()
	port, err := strconv.Atoi(text)
	if !ok || err != nil || port != cfg.Port() && port != int(cfg.Int("tls-port")) {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), resolveTimeout)
	defer cancel()
	if addrs, err := net.DefaultResolver.LookupIPAddr(ctx, host); err == nil && ownAddress(addrs) {
		return fmt.Errorf("slaveof: %s:%d is this server: %s", host, port, errReplicateSelf.Text)
	}
	return nil
}

// ownAddress reports whether one of the addresses belongs to this machine.
func ownAddress(addrs []net.IPAddr) bool {
	for _, a := range addrs {
		if a.IP.IsLoopback() {
			return true
		}
	}
	own, err := net.InterfaceAddrs()
	if err != nil {
		return false
	}
	return slices.ContainsFunc(own, func(a net.Addr) bool {
		n, ok := a.(*net.IPNet)
		return ok && hasAddress(addrs, n.IP.String())
	})
}

func hasAddress(addrs []net.IPAddr, ip string) bool {
	return slices.ContainsFunc(addrs, func(a net.IPAddr) bool { return a.IP.String() == ip })
}

// linkState returns ROLE's word for the state of the link.
func linkState(s replica.LinkState) string {
	switch {
	case s == replica.Connected:
		return "connected"
	case s.Syncing():
		return "sync"
	}
	return "connecting"
}
