// Package redistarget writes the data of a Redis master to a database: the data of a full sync, and the commands of the
// stream.
//
// The position of the database in the stream of the master is a record of the propagate family
// ([cf.PropagateRedisMaster]), which every transaction of the link writes first. So the effects and the position enter
// the log together, even if the process is killed. REPLICAOF NO ONE deletes the record. Kvrocks, which reads only the
// last record of a batch, ignores it.
package redistarget

import (
	"go.uber.org/zap"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/server/rdb"
	"github.com/basaltdb/basalt/server/replication/redislink"
)

// Commands is the part of the server that a Target needs.
type Commands interface {
	// Namespace returns the namespace of a database of the master.
	Namespace(db int) (string, error)
	// Run runs commands in one transaction with [engine.Tx.FromMaster], and commits it. It calls first before the
	// commands; first may write. An error of a command names the command, and nothing has changed then. Closing stop
	// ends any wait.
	Run(commands []redislink.Command, stop <-chan struct{}, first func(tx *engine.Tx)) error
	// BeginLoad is called before the first Restore for a database that is built. It writes the definitions of the search
	// indexes for which Restore writes entries.
	BeginLoad(tx *engine.Tx) error
	// Restore writes a key that does not exist. The transaction may belong to any database.
	Restore(tx *engine.Tx, i *rdb.Item) error
	// StoreLibrary and StoreScript write what FUNCTION LOAD and SCRIPT LOAD store. The transaction may belong to any
	// database.
	StoreLibrary(tx *engine.Tx, source []byte) error
	StoreScript(tx *engine.Tx, source []byte) error
}

// Options are the options of [New].
type Options struct {
	DB       *engine.DB
	Log      *zap.Logger
	Commands Commands
	Stop     <-chan struct{} // closed when the link ends
	Dir      string          // where the database of a full sync is built
	Anew     bool            // a full sync must follow, wherever the database is
	// WithID reports whether that database begins a history with a replication id.
	WithID func() bool
	// Prepare is called before that database is built. Replace puts it in the place of the current one.
	Prepare func() error
	Replace func(dir string) error
}

// Target is a [redislink.Target].
type Target struct{ o Options }

func New(o Options) *Target { return &Target{o} }

func (t *Target) State() (s redislink.State, ok bool, err error) {
	if t.o.Anew {
		return s, false, nil
	}
	text, err := storedState(t.o.DB)
	if err != nil || text == nil {
		return s, false, err
	}
	if s, err = redislink.ParseState(text); err != nil {
		t.o.Log.Error("a full synchronisation follows", zap.Error(err))
		return s, false, nil
	}
	return s, true, nil
}

// storedState returns the record, nil if none exists.
func storedState(db *engine.DB) (text []byte, err error) {
	err = db.View(cf.DefaultNamespace, nil, func(tx *engine.Tx) error {
		v, found, err := tx.Get(cf.Propagate, []byte(cf.PropagateRedisMaster))
		if found {
			text = append([]byte{}, v...)
		}
		return err
	})
	return text, err
}

func putState(tx *engine.Tx, s redislink.State) {
	tx.Put(cf.Propagate, []byte(cf.PropagateRedisMaster), s.Append(nil))
}

func (t *Target) Apply(commands []redislink.Command, after redislink.State) error {
	return t.o.Commands.Run(commands, t.o.Stop, func(tx *engine.Tx) { putState(tx, after) })
}

func (t *Target) Keep(s redislink.State) error {
	return t.o.DB.WriteFromMaster(func(tx *engine.Tx) { putState(tx, s) })
}

// Forget deletes the record of the position in the stream of a Redis master, for a server that is now a master: its
// future writes are not in that stream. Forget may be called while a transaction holds locks.
func Forget(db *engine.DB) error {
	text, err := storedState(db)
	if err != nil || text == nil {
		return err
	}
	forget := func(tx *engine.Tx) { tx.Delete(cf.Propagate, []byte(cf.PropagateRedisMaster)) }
	if db.IsReplica() {
		return db.WriteFromMaster(forget)
	}
	return db.Update(cf.DefaultNamespace, nil, func(tx *engine.Tx) error {
		forget(tx)
		return nil
	})
}
