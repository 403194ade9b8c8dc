package server

import (
	"context"
	"net"
	"strconv"
	"time"

	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/server/command"
	"github.com/basaltdb/basalt/server/replication/lineconn"
	"github.com/basaltdb/basalt/server/replication/master"
	"github.com/basaltdb/basalt/server/replication/proto"
)

// errFailingOver is the reply of REPLICAOF during a failover.
var errFailingOver = engine.NewError("ERR", "REPLICAOF not allowed while failing over.")

func (s *Server) Failover(f command.Failover) error {
	if s.cluster != nil {
		return engine.NewError("ERR", "FAILOVER not allowed in cluster mode.")
	}
	return s.master.Failover(master.FailoverOptions(f), failoverServer{s})
}

func (s *Server) AbortFailover() error { return s.master.AbortFailover() }

// failingOver reports whether a failover is under way.
func (s *Server) failingOver() bool { return s.master.FailoverState() != master.NoFailover }

// failoverServer is the interface of the server for package master during a failover.
type failoverServer struct{ s *Server }

// failoverPause is longer than any failover; the end of the failover ends the pause.
const failoverPause = 365 * 24 * time.Hour

func (f failoverServer) Pause() error { return f.s.sessions.Pause(failoverPause, false) }
func (f failoverServer) Unpause()     { f.s.sessions.Unpause() }

// Follow implements master.FailoverServer. No one has written since the other server received everything.
func (f failoverServer) Follow(host string, port int) error {
	f.s.replica.HandOver()
	err := f.s.becomeReplica(host, port, false)
	if err != nil { // this server stays the master
		f.s.replica.Lead()
	}
	return err
}

// promoteTimeout is the timeout of connecting to a replica, and of making it a master.
const promoteTimeout = 5 * time.Second

// Promote implements master.FailoverServer. It uses ordinary commands, so the other server may be a Kvrocks.
func (f failoverServer) Promote(ctx context.Context, host string, port int) (sent bool, err error) {
	nc, err := f.s.dialServer(ctx, net.JoinHostPort(host, strconv.Itoa(port)))
	if err != nil {
		return false, err
	}
	c := lineconn.New(ctx, nc, nil)
	defer c.Close()
	if err := c.Auth(f.s.cfg.Text("masteruser"), f.s.cfg.Text("masterauth"), promoteTimeout); err != nil {
		return false, err
	}
	line, err := c.Ask(proto.AppendRequest(nil, "SLAVEOF", "NO", "ONE"), proto.MaxLine, promoteTimeout)
	if err == nil {
		err = proto.CheckOK(line)
	}
	_, refused := err.(proto.ReplyError)
	return !refused, err
}
