package server

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"go.uber.org/zap"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/server/command"
	"github.com/basaltdb/basalt/server/options"
	"github.com/basaltdb/basalt/server/replication/history"
	"github.com/basaltdb/basalt/server/replication/master"
	"github.com/basaltdb/basalt/server/replication/proto"
	"github.com/basaltdb/basalt/server/replication/rdbsync"
	"github.com/basaltdb/basalt/server/wire"
)

// The server as a master: package master serves the replicas; this file has its settings, the methods that
// commands call, and what it needs from the rest of the server. A replica serves its own replicas the same way.

// startMaster creates the master's side with the current settings.
func (s *Server) startMaster() {
	s.master = master.New(master.Options{DB: s.db, Log: s.log,
		CheckpointDir: filepath.Join(s.cfg.Text("dir"), "checkpoint"),
		RDB:           rdbsync.Options{Dir: filepath.Join(filepath.Dir(s.db.Dir()), "sync_copy"), Write: s.writeRDB},
		Acked:         s.sessions.Acked, Enough: s.sessions.Limits.Replicas.Store}, options.Master(s.cfg))
}

// beginHistory creates a replication id if use-rsid-psync is on. It is called when the server starts as a master, and
// when it becomes one. The id is stored with the next write only: a former master that restarts after Sentinel has
// promoted a replica becomes a replica before any client writes to it, and must not store anything that the new master
// lacks.
func (s *Server) beginHistory() {
	if !s.cfg.Bool("use-rsid-psync") {
		return
	}
	id := history.NewID()
	s.db.BeginHistory(id)
	s.log.Info("a new replication id", zap.String("id", id))
}

// IsReplica reports whether the server follows a master.
func (s *Server) IsReplica() bool {
	_, _, ok := s.cfg.Master()
	return ok
}

// followed returns the address of the master, if the server is a replica.
func (s *Server) followed() (host string, port int, ok bool) {
	host, text, ok := s.cfg.Master()
	port, _ = strconv.Atoi(text)
	return host, port, ok
}

// What commands ask of replication; more of it is in failover.go and following.go.
var _ command.Replication = (*Server)(nil)

func (s *Server) Role() command.Role {
	st, _ := s.replica.Status()
	r := command.Role{Offset: uint64(st.Offset), State: linkState(st.State)}
	r.Host, r.Port, r.Replica = s.followed()
	for _, o := range s.master.Replicas() {
		r.Replicas = append(r.Replicas, command.ReplicaRole{IP: o.IP, Port: o.Port, Offset: o.Offset})
	}
	return r
}

func (s *Server) Disconnect(addr string) bool { return s.replica.Disconnect(addr) }
func (s *Server) AckedBy(seq uint64) int      { return s.master.AckedBy(seq) }
func (s *Server) AskAck(seq uint64)           { s.master.AskAck(seq) }
func (s *Server) SyncedBy(seq uint64) int     { return s.master.SyncedBy(seq) }
func (s *Server) AskSync(seq uint64)          { s.master.AskSync(seq) }
func (s *Server) Accept(p proto.PSync) error  { return s.master.Accept(p) }

func (s *Server) Feed(c *wire.Conn, done <-chan struct{}, sess *command.Session, p proto.PSync) {
	s.master.Feed(replicaLink{c, done}, master.Peer{Conf: sess.Replica, Remote: sess.Addr}, p)
}

func (s *Server) SendList(c *wire.Conn, done <-chan struct{}) {
	s.master.SendList(replicaLink{c, done})
}

func (s *Server) SendFiles(c *wire.Conn, done <-chan struct{}, list []byte) {
	s.master.SendFiles(replicaLink{c, done}, list)
}

func (s *Server) SendRDB(c *wire.Conn, done <-chan struct{}, sess *command.Session) {
	s.master.SendRDB(replicaLink{c, done}, sess.Replica)
}

func (s *Server) writeRDB(ctx context.Context, db *engine.DB, what proto.Conf, w io.Writer) ([]zap.Field, error) {
	done, err := command.RDBCopy{Databases: s.cfg.Databases(), MaxString: s.sessions.Limits.Bulk.Load(),
		NoKeys: what.NoKeys, NoLibraries: what.NoLibraries}.Write(ctx, db, w)
	if len(done.Skipped) > 0 {
		s.log.Warn("the copy for a client lacks something", zap.Any("keys", done.Skipped),
			zap.Any("for example", done.Example))
	}
	return []zap.Field{zap.Int64("keys", done.Keys), zap.Int64("libraries", done.Libraries)}, err
}

// replicaLink is a connection that a session has detached.
type replicaLink struct {
	*wire.Conn
	done <-chan struct{} // closed when the connection or the server is being closed
}

// Read ignores a deadline that was meant for the session.
func (l replicaLink) Read(b []byte) (int, error) {
	for {
		n, err := l.Conn.Read(b)
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			return n, err
		}
		l.Conn.SetReadDeadline(time.Time{})
		select {
		case <-l.done: // checked after the deadline is cleared: Close closes done before it sets a deadline
			return 0, net.ErrClosed
		default:
		}
	}
}

// sentinelChannel is the channel where Sentinels announce themselves. They publish to replicas directly.
const sentinelChannel = "__sentinel__:hello"

// replicate writes a message to the log for the subscribers of replicas, as Kvrocks does, while replicas are connected.
// Each message has its own batch, because a replica looks for a message in the last record of each batch only.
// Sentinel's announcements are not replicated: a master that was stopped and continues may find announcements in its
// sockets, and writing them would make its log diverge from the log of its successor. fromMaster: the message comes
// from a Redis master. A replica replicates no other messages.
func (s *Server) replicate(channel, payload []byte, fromMaster bool) {
	if s.master.Connected() == 0 || s.IsReplica() && !fromMaster || string(channel) == sentinelChannel {
		return
	}
	put := func(tx *engine.Tx) { tx.Put(cf.PubSub, channel, payload) }
	var err error
	if fromMaster {
		err = s.db.WriteFromMaster(put)
	} else {
		err = s.db.Update(cf.DefaultNamespace, nil, func(tx *engine.Tx) error {
			put(tx)
			return nil
		})
	}
	if err != nil {
		s.sessions.WriteFailed(err)
	}
}
