package server

import (
	"path/filepath"
	"strconv"
	"time"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/keys"
	"github.com/basaltdb/basalt/server/bulkload"
	"github.com/basaltdb/basalt/server/cluster"
	"github.com/basaltdb/basalt/server/cluster/broadcast"
	"github.com/basaltdb/basalt/server/cluster/migration"
	"github.com/basaltdb/basalt/server/cluster/migration/destination"
	"github.com/basaltdb/basalt/server/cluster/migration/source"
	"github.com/basaltdb/basalt/server/config"
	"github.com/basaltdb/basalt/server/options"
)

// The server as a node of a cluster: package cluster has the topology; this file connects it to the rest of the server.

// nodesFile returns the path of the stored topology.
func nodesFile(cfg *config.Config) string { return filepath.Join(cfg.Dir(), "nodes.conf") }

// adoptRole sets the role of the stored topology (master or replica) in the settings: the engine opens the database of
// a replica differently.
func adoptRole(cfg *config.Config) error {
	if !cfg.Bool("cluster-enabled") || !cfg.Bool("persist-cluster-nodes-enabled") {
		return nil
	}
	master, known, err := cluster.Master(nodesFile(cfg))
	if err != nil || !known {
		return err
	}
	if master == nil {
		return cfg.SetMaster("no one")
	}
	return cfg.SetMaster(master.Host + " " + strconv.Itoa(master.Port))
}

// newCluster creates the topology if cluster-enabled is on. In both cases it sets the ingester of table files.
func (s *Server) newCluster() {
	if !s.cfg.Bool("cluster-enabled") {
		loads := bulkload.New(bulkload.Options{
			DB: s.db, Dir: s.filesDir(), Log: s.log, Databases: func() int64 { return int64(s.cfg.Databases()) },
			Notifying: func() bool { return s.cfg.Text("notify-keyspace-events") != "" },
			Paused:    s.sessions.Paused, Followed: s.master.Followed, Suspend: s.master.Suspend,
			Came: s.sessions.KeysCame, Indexed: func() bool { return s.sessions.Services.Indexes.Any() },
		})
		s.sessions.Services.Ingester, s.sessions.Services.Files = loads, loads
		return
	}
	s.cluster = cluster.New(cluster.Options{
		Log: s.log, Path: nodesFile(s.cfg),
		Keep:      s.cfg.Bool("persist-cluster-nodes-enabled"),
		IsSelf:    func(host string, port int) bool { return options.IsSelf(s.cfg, s.port(), host, port) },
		IsReplica: s.IsReplica, Follow: s.followInCluster, Lead: s.becomeMaster,
		Record: s.recordSlotMarks, Recorded: s.recordedSlotMarks, Replicated: s.awaitReplicas,
		Barrier: s.db.Barrier, DeleteSlots: s.deleteSlots, Empty: s.isEmpty,
		Changed: s.sessions.TopologyChanged,
	})
	s.sessions.Cluster, s.sessions.Services.Cluster, s.sessions.Services.Ingester = s.cluster, s.cluster, s.cluster
	s.messages = broadcast.New(broadcast.Options{Log: s.log, Topology: s.cluster.Topology, Dial: s.dialServer,
		Password: func() string { return s.cfg.Text("requirepass") }})
	s.sessions.Broadcast = s.broadcast
}

// broadcast passes a message on to other nodes. A replica gets what it has sent to its master back through the log.
func (s *Server) broadcast(channel, payload []byte, shard bool) (returns bool) {
	if !shard && !s.cfg.Bool("cluster-broadcast-publish") {
		return false
	}
	s.messages.Send(channel, payload, shard)
	return !shard && s.cluster.Topology().IsReplica() && s.IsReplica() && s.replica.Up()
}

// filesDir returns the directory of received table files before they are ingested. It is beside the directory of the
// database, on the same file system.
func (s *Server) filesDir() string { return filepath.Join(filepath.Dir(s.db.Dir()), "importing_files") }

// startCluster loads the stored topology.
func (s *Server) startCluster() error {
	if s.cluster == nil {
		return nil
	}
	s.cfg.OnChange("persist-cluster-nodes-enabled", func(_, value string) error { return s.cluster.Keep(value == "yes") })
	if err := s.cluster.Start(); err != nil {
		return err
	}
	var err error
	s.migration, err = migration.NewNode(s.cluster, source.Options{
		DB: s.db, Settings: func() source.Settings { return options.Migration(s.cfg) }, Log: s.log, Dial: s.dialServer,
		NoLog: s.cfg.Bool("rocksdb.write_options.disable_wal"),
	}, destination.Options{
		DB: s.db, IsReplica: s.IsReplica, Path: filepath.Join(s.cfg.Dir(), "importing"), Log: s.log,
		Record:   func(slots string) error { return s.record(cf.PropagateImport, slots) },
		Recorded: func() (string, error) { return s.recorded(cf.PropagateImport) },
		FilesDir: s.filesDir(), Followed: s.master.Followed,
		Suspend: s.master.Suspend, Ingested: s.sessions.KeysCame,
	})
	if err == nil {
		s.cluster.SetMigrator(s.migration)
	}
	return err
}

// followInCluster makes the server a replica of a node.
func (s *Server) followInCluster(host string, port int) error {
	switch h, p, ok := s.followed(); {
	case s.cfg.Bool("rocksdb.write_options.disable_wal"):
		return errReplicaNoLog
	case ok && h == host && p == port:
		return nil // the server follows the node already, or begins to do so in Serve
	}
	return s.becomeReplica(host, port, !s.IsReplica())
}

// recordSlotMarks stores the marks of migrated slots in the database, from where replicas get them; "" deletes them.
func (s *Server) recordSlotMarks(marks string) error { return s.record(cf.PropagateSlotMarks, marks) }

// recordedSlotMarks returns the marks that recordSlotMarks has stored, "" = none.
func (s *Server) recordedSlotMarks() (string, error) { return s.recorded(cf.PropagateSlotMarks) }

// record stores a text in the database; "" deletes it.
func (s *Server) record(key, text string) error {
	return s.db.Update(cf.DefaultNamespace, nil, func(tx *engine.Tx) error {
		if text == "" {
			tx.Delete(cf.Propagate, []byte(key))
		} else {
			tx.Put(cf.Propagate, []byte(key), []byte(text))
		}
		return nil
	})
}

// recorded returns the text that record has stored, "" = none.
func (s *Server) recorded(key string) (text string, err error) {
	err = s.db.View(cf.DefaultNamespace, nil, func(tx *engine.Tx) error {
		v, _, err := tx.Get(cf.Propagate, []byte(key))
		text = string(v)
		return err
	})
	return text, err
}

// replicasLearn is the max time to wait for the replicas before a migration ends. A replica that is further behind
// would also lose that many seconds of writes if it became the master.
const replicasLearn = 5 * time.Second

// awaitReplicas waits until n replicas are connected, and all that acknowledge writes have acknowledged the writes so
// far, but no longer than replicasLearn.
func (s *Server) awaitReplicas(n int) {
	if !s.master.AwaitAcks(s.db.LatestSequence(), n, replicasLearn) {
		s.log.Warn("replicas lag behind: a replica that becomes the master now would not know of the migration")
	}
}

// isEmpty reports whether the default namespace has no keys, by a scan. It returns false after an error.
func (s *Server) isEmpty() bool {
	tx := s.db.NewTx()
	tx.Begin(cf.DefaultNamespace)
	defer tx.Release()
	empty := true
	err := keys.Walk(tx, keys.Range{}, func(e *keys.Entry) bool {
		empty = !e.Live
		return empty
	})
	return empty && err == nil
}

// Cluster returns the topology; nil = cluster-enabled is off.
func (s *Server) Cluster() *cluster.Map { return s.cluster }

// deleteSlots deletes the keys of slots that are no longer in use.
func (s *Server) deleteSlots(r cf.SlotRange) error {
	if err := s.db.Barrier(); err != nil {
		return err
	}
	return s.db.DeleteSlots(r)
}
