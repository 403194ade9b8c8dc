package server

import (
	"github.com/basaltdb/basalt/server/admin"
	"github.com/basaltdb/basalt/server/auth"
	"github.com/basaltdb/basalt/server/config"
	"github.com/basaltdb/basalt/server/maintenance"
	"github.com/basaltdb/basalt/server/options"
	"github.com/basaltdb/basalt/server/replication/master"
	"github.com/basaltdb/basalt/server/replication/replica"
	"github.com/basaltdb/basalt/server/sweep"
)

// The tests of this package access the internals of a server through this file.

func (s *Server) Config() *config.Config    { return s.cfg }
func (s *Server) Master() *master.Master    { return s.master }
func (s *Server) Replica() *replica.Replica { return s.replica }
func (s *Server) Work() *maintenance.Work   { return s.work }
func (s *Server) Admin() *admin.Door        { return s.admin }

func (s *Server) Auth() *auth.Auth    { return s.auth }
func (s *Server) Port() int           { return s.port() }
func (s *Server) Sweep() *sweep.Sweep { return s.sweep }

// FollowInFailover does what a failover does with the server when a replica has become the master.
func (s *Server) FollowInFailover(host string, port int) error {
	return failoverServer{s}.Follow(host, port)
}

// MaxClients returns the max number of connected clients.
func (s *Server) MaxClients() int64 { return s.maxClients.Load() }

// SetDiskSize replaces the function that returns the size of the database on disk in bytes.
func (s *Server) SetDiskSize(f func() uint64) { s.diskSize = f }

// SetMaxClients sets the max number of connected clients.
func (s *Server) SetMaxClients(n int64) { s.maxClients.Store(n) }

// IsPaused reports whether there is a pause.
func (s *Server) IsPaused() bool {
	_, paused := s.sessions.PausedUntil()
	return paused
}

var (
	OpenFiles   = options.OpenFiles
	ErrSamePort = options.ErrSamePort
)

const ProtectedMode = protectedMode
