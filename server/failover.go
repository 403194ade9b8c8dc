package server

import (
	"bufio"
	"context"
	"net"
	"strconv"
	"time"

	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/server/command"
	"github.com/basaltdb/basalt/server/replication"
	"github.com/basaltdb/basalt/server/replication/proto"
)

// errFailingOver is the reply of REPLICAOF during a failover.
var errFailingOver = engine.NewError("ERR", "REPLICAOF not allowed while failing over.")

// Failover implements command.Replication.
func (s *Server) Failover(f command.Failover) error {
	if s.cluster != nil {
		return engine.NewError("ERR", "FAILOVER not allowed in cluster mode.")
	}
	return s.master.Failover(replication.FailoverOptions(f), failoverServer{s})
}

// AbortFailover implements command.Replication.
func (s *Server) AbortFailover() error { return s.master.AbortFailover() }

// failingOver reports whether a failover is under way.
func (s *Server) failingOver() bool { return s.master.FailoverState() != replication.NoFailover }

// failoverServer is the interface of the server for package replication during a failover.
type failoverServer struct{ s *Server }

// failoverPause is longer than any failover; the end of the failover ends the pause.
const failoverPause = 365 * 24 * time.Hour

// Pause implements replication.FailoverServer.
func (f failoverServer) Pause() error { return f.s.sessions.Pause(failoverPause, false) }

// Unpause implements replication.FailoverServer.
func (f failoverServer) Unpause() { f.s.sessions.Unpause() }

// Follow implements replication.FailoverServer. No one has written since the other server received everything.
func (f failoverServer) Follow(host string, port int) error {
	return f.s.becomeReplica(host, port, false)
}

// promoteTimeout is the timeout of connecting to a replica, and of making it a master.
const promoteTimeout = 5 * time.Second

// Promote implements replication.FailoverServer. It uses ordinary commands, so the other server may be a Kvrocks.
func (f failoverServer) Promote(ctx context.Context, host string, port int) (sent bool, err error) {
	c, err := f.s.dialMaster(ctx, net.JoinHostPort(host, strconv.Itoa(port)))
	if err != nil {
		return false, err
	}
	defer c.Close()
	defer context.AfterFunc(ctx, func() { c.Close() })()
	c.SetDeadline(time.Now().Add(promoteTimeout))
	in := bufio.NewReader(c)
	ask := func(request []byte) error {
		if _, err := c.Write(request); err != nil {
			return err
		}
		line, err := in.ReadSlice('\n')
		if err != nil {
			return err
		}
		return proto.CheckOK(line[:max(len(line)-2, 0)])
	}
	if password := f.s.cfg.Text("masterauth"); password != "" {
		if err := ask(proto.AppendAuth(nil, f.s.cfg.Text("masteruser"), password)); err != nil {
			return false, err
		}
	}
	err = ask(proto.AppendRequest(nil, "SLAVEOF", "NO", "ONE"))
	_, refused := err.(proto.ReplyError)
	return !refused, err
}
