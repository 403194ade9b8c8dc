package server

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/server/command"
	"github.com/basaltdb/basalt/server/info"
	"github.com/basaltdb/basalt/server/replication"
	"github.com/basaltdb/basalt/server/replication/proto"
	"github.com/basaltdb/basalt/server/wire"
)

// What the server does for its replicas: the room replication does the work, here are its settings, its commands'
// side and what it needs to know of the rest. A replica serves replicas of its own alike.

// startMaster makes the master's half. It goes by the settings that there are.
func (s *Server) startMaster() {
	s.master = replication.NewMaster(replication.MasterOptions{DB: s.db, Log: s.log,
		CheckpointDir: filepath.Join(s.cfg.Text("dir"), "checkpoint"),
		Acked:         s.sessions.Acked, Enough: s.sessions.Limits.Replicas.Store}, s.masterSettings())
}

// Bounds of how old a checkpoint may be that one more replica gets, as in Kvrocks: half of the time for which the log
// is kept, within these.
const (
	shareLeast = 10 * time.Minute
	shareMost  = time.Hour
)

// masterNames are the settings by which the server serves replicas.
var masterNames = []string{"slave-read-only", "repl-backlog-size", "replication-send-timeout-ms", "max-replication-lag",
	"max-replication-mb", "min-replicas-max-lag", "min-replicas-to-write"}

func (s *Server) masterSettings() replication.MasterSettings {
	num := func(name string) int { return int(s.cfg.Int(name)) }
	m := replication.MasterSettings{
		BacklogBytes:   num("repl-backlog-size"),
		SendTimeout:    time.Duration(num("replication-send-timeout-ms")) * time.Millisecond,
		MaxLag:         uint64(num("max-replication-lag")),
		BytesPerSecond: int64(num("max-replication-mb")) * mib,
		MaxAckAge:      time.Duration(num("min-replicas-max-lag")) * time.Second,
		CompareIDs:     s.cfg.Bool("use-rsid-psync"),
		NoLog:          s.cfg.Bool("rocksdb.write_options.disable_wal"),
		ShareFor:       min(max(time.Duration(num("rocksdb.wal_ttl_seconds"))*time.Second/2, shareLeast), shareMost),
	}
	// As in Redis, either setting switches it off, and a replica takes the writes of its master whatever it is.
	if m.MaxAckAge > 0 && !s.IsReplica() {
		m.MinReplicas = num("min-replicas-to-write")
	}
	return m
}

// beginHistory makes a replication id, with use-rsid-psync: when the server starts as a master, and when it becomes
// one. It is stored when somebody writes: a master that starts again while Sentinel has made another one the master is
// made its replica then, and has written nothing that the other one lacks.
func (s *Server) beginHistory() {
	if !s.cfg.Bool("use-rsid-psync") {
		return
	}
	id := replication.NewReplicationID()
	s.db.BeginHistoryLater(id)
	s.log.Info("a new replication id", zap.String("id", id))
}

// IsReplica reports whether the server follows a master.
func (s *Server) IsReplica() bool {
	_, _, ok := s.cfg.Master()
	return ok
}

// followed returns the master that the server follows.
func (s *Server) followed() (host string, port int, ok bool) {
	host, text, ok := s.cfg.Master()
	port, _ = strconv.Atoi(text)
	return host, port, ok
}

// Role implements command.Replication.
func (s *Server) Role() command.Role {
	r := command.Role{Offset: s.db.LatestSequence(), State: s.linkState()}
	r.Host, r.Port, r.Replica = s.followed()
	if st, ok := s.replica.Status(); ok {
		r.Offset = uint64(s.replicaOffset(&st))
	}
	for _, o := range s.master.Replicas() {
		r.Replicas = append(r.Replicas, command.ReplicaRole{IP: o.IP, Port: o.Port, Offset: o.Offset})
	}
	return r
}

// AckedBy implements command.Replication.
func (s *Server) AckedBy(seq uint64) int { return s.master.AckedBy(seq) }

// AskAck implements command.Replication.
func (s *Server) AskAck(seq uint64) { s.master.AskAck(seq) }

// SyncedBy implements command.Replication.
func (s *Server) SyncedBy(seq uint64) int { return s.master.SyncedBy(seq) }

// AskSync implements command.Replication.
func (s *Server) AskSync(seq uint64) { s.master.AskSync(seq) }

// Accept implements command.Replication.
func (s *Server) Accept(p proto.PSync) error { return s.master.Accept(p) }

// Feed implements command.Replication.
func (s *Server) Feed(c *wire.Conn, done <-chan struct{}, sess *command.Session, next uint64) {
	s.master.Feed(replicaLink{c, done}, replication.Peer{Conf: sess.Replica, Remote: sess.Addr}, next)
}

// SendList implements command.Replication.
func (s *Server) SendList(c *wire.Conn, done <-chan struct{}) {
	s.master.SendList(replicaLink{c, done})
}

// SendFiles implements command.Replication.
func (s *Server) SendFiles(c *wire.Conn, done <-chan struct{}, list []byte) {
	s.master.SendFiles(replicaLink{c, done}, list)
}

// replicaLink is a connection that a session has handed over.
type replicaLink struct {
	*wire.Conn
	done <-chan struct{} // closed when the connection or the server is being closed
}

// Read goes on after a deadline that was meant for the session.
func (l replicaLink) Read(b []byte) (int, error) {
	for {
		n, err := l.Conn.Read(b)
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			return n, err
		}
		l.Conn.SetReadDeadline(time.Time{})
		select {
		case <-l.done: // looked at after the deadline is taken away: done is closed before the end sets one
			return 0, net.ErrClosed
		default:
		}
	}
}

// sentinelChannel is where Sentinel's processes greet each other. They publish on replicas themselves.
const sentinelChannel = "__sentinel__:hello"

// replicate puts a message into the log for the subscribers of replicas, as Kvrocks does, while there are any. Each
// has a batch of its own: a replica looks at the last record of each. Sentinel's greetings stay here: a master that
// was stopped and goes on finds some waiting, and what it writes its successor does not have.
// Of a replica only those of its master go on, and only those of a Redis master need it.
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
	if err != nil && !errors.Is(err, engine.ErrReplica) { // it has become one: the message is not for its replicas
		s.sessions.WriteFailed(err)
	}
}

// infoReplication writes the fields of Kvrocks and of Redis that there are, in the order of Redis. Offsets and lags are
// sequence numbers: a lag says how many are missing.
func (s *Server) infoReplication(w *info.Writer, _ string) {
	latest := s.db.LatestSequence()
	number := func(name string, n int64) { w.Gauge(name, info.None, n) }
	if s.IsReplica() {
		s.infoMaster(w)
	} else {
		w.Text("role", "master")
	}
	replicas := s.master.Replicas()
	number("connected_slaves", int64(len(replicas)))
	if s.cfg.Int("min-replicas-to-write") > 0 && s.cfg.Int("min-replicas-max-lag") > 0 {
		number("min_slaves_good_slaves", int64(s.master.GoodReplicas()))
	}
	for i, r := range replicas {
		label := strconv.Itoa(i)
		w.Record("slave"+label, label, func(w *info.Writer) {
			w.Text("ip", r.IP)
			w.Gauge("port", info.None, int64(r.Port))
			w.Text("state", "online")
			w.Gauge("offset", info.None, int64(r.Offset))
			w.Gauge("lag", info.None, int64(latest-min(latest, r.Offset)))
		})
	}
	w.Text("master_failover_state", s.master.FailoverState())
	w.Text("master_replid", s.runID)
	w.Text("master_replid2", strings.Repeat("0", len(s.runID)))
	number("master_repl_offset", int64(latest))
	number("second_repl_offset", -1)
	st := s.master.Stats()
	w.Flag("repl_backlog_active", len(replicas) > 0)
	w.Gauge("repl_backlog_size", info.Bytes, s.cfg.Int("repl-backlog-size"))
	number("repl_backlog_first_byte_offset", int64(st.BacklogFirst))
	w.Gauge("repl_backlog_histlen", info.Bytes, st.BacklogBytes)
}
