package replication

import (
	"errors"
	"strings"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/server/rdb"
	"github.com/basaltdb/basalt/server/replication/proto"
	"github.com/basaltdb/basalt/server/replication/redislink"
)

// A master that does not know _db_name is one of Redis, or of its kind: the link goes on with the handshake of Redis,
// see package redislink. It applies commands and not batches, so the log and the sequence numbers are this server's
// own, and replicas of it follow as those of a master.
//
// Where the database is in the stream of the master is a record of the propagate family
// ([cf.PropagateRedisMaster]), which every transaction of the link writes first: what was applied and how far the
// stream is go into the log together, whatever ends the process. With REPLICAOF NO ONE it is deleted. Kvrocks, which
// looks at the last record of a batch only, does not mind it.

// RedisCommands is what following a master of Redis needs of the server.
type RedisCommands interface {
	// Namespace returns the namespace of a database of the master.
	Namespace(db int) (string, error)
	// Run runs commands in one transaction that is [engine.Tx.FromMaster], and commits it. first is called before them
	// and may write. An error that is a command's names it; nothing has happened then. What waits is given up when stop
	// is closed.
	Run(commands []redislink.Command, stop <-chan struct{}, first func(tx *engine.Tx)) error
	// Restore writes a key that does not exist, in a transaction of any database.
	Restore(tx *engine.Tx, i *rdb.Item) error
	// StoreLibrary and StoreScript write what FUNCTION LOAD and SCRIPT LOAD keep, in a transaction of any database.
	StoreLibrary(tx *engine.Tx, source []byte) error
	StoreScript(tx *engine.Tx, source []byte) error
}

// Bounds of time of a link to a master of Redis.
const (
	redisSilence = 60 * time.Second // its repl-timeout; it pings every ten seconds
	// redisMaxValue is how many bytes a key and its value may have in memory in a full sync.
	redisMaxValue = 1 << 30
)

// isRedis reports whether an answer to _db_name is that of a master of Redis.
func isRedis(err error) bool {
	var e proto.ReplyError
	return errors.As(err, &e) && strings.Contains(strings.ToLower(string(e)), "unknown command")
}

// followRedis goes on with a connection to a master of Redis until it ends. The error is never nil.
func (l *link) followRedis(c *masterConn) error {
	if l.r.o.Redis == nil {
		return stepError{"_db_name", errors.New("the master is one of Redis")}
	}
	s := l.r.settings.Load()
	l.redis.Store(true)
	l.r.ownHistory.Store(true)
	defer l.progress.end()
	err := redislink.Run(l.ctx, redislink.Options{
		Conn: c, In: c.in, Log: l.log, Port: s.Port, Address: s.Address,
		Target: &redisTarget{l: l}, MaxValue: redisMaxValue,
		Silence: redisSilence, AckEvery: ackEvery,
		Step: l.redisStep, Loaded: func() { l.r.fulls.Add(1) },
		Heard:    func() { l.lastIO.Store(time.Now().UnixNano()) },
		Transfer: l.redisTransfer, Received: func(n int) { l.progress.bytes.Add(int64(n)) },
		Offset: &l.offset,
	})
	var refused redislink.Refused
	if errors.As(err, &refused) {
		return stepError{refused.What, refused.Err}
	}
	return err
}

var redisSteps = [...]LinkState{redislink.Introducing: SendingConf, redislink.Asking: SendingPSync,
	redislink.Transferring: LoadingRDB, redislink.Replacing: Replacing, redislink.Streaming: Connected}

func (l *link) redisStep(step redislink.Step) {
	if step == redislink.Streaming {
		l.own = false
		if err := l.goOnHistory(); err != nil {
			l.log.Error("the replication id cannot be stored", zap.Error(err))
		}
		l.log.Info("connected with the Redis master", zap.Int64("offset", l.offset.Load()))
	}
	l.setState(redisSteps[step])
}

// goOnHistory gives the writes of the link the replication id of the database, with use-rsid-psync: unlike those of
// another master they have none.
func (l *link) goOnHistory() error {
	if !l.r.settings.Load().SendID {
		return nil
	}
	id, err := l.db.StoredReplicationID()
	if err != nil {
		return err
	}
	if id == "" {
		id = NewReplicationID()
		err = l.db.WriteFromMaster(func(tx *engine.Tx) {
			tx.Put(cf.Propagate, []byte(cf.PropagateReplicationID), []byte(id))
		})
		if err != nil {
			return err
		}
	}
	l.db.SetReplicationID(id)
	return nil
}

func (l *link) redisTransfer(size int64) {
	l.progress.begin(0)
	l.progress.add(max(size, 0), 0, 0)
	l.log.Info("the master sends its data", zap.Int64("bytes", size))
}

// redisTarget is the database of a link, for package redislink.
type redisTarget struct{ l *link }

// State implements redislink.Target.
func (t *redisTarget) State() (s redislink.State, ok bool, err error) {
	text, err := storedRedisState(t.l.db)
	if err != nil || text == nil {
		return s, false, err
	}
	if s, err = redislink.ParseState(text); err != nil {
		t.l.log.Error("a full synchronisation follows", zap.Error(err))
		return s, false, nil
	}
	return s, true, nil
}

// storedRedisState returns the record, nil when there is none.
func storedRedisState(db *engine.DB) (text []byte, err error) {
	err = db.View(cf.DefaultNamespace, nil, func(tx *engine.Tx) error {
		v, found, err := tx.Get(cf.Propagate, []byte(cf.PropagateRedisMaster))
		if found {
			text = append([]byte{}, v...)
		}
		return err
	})
	return text, err
}

func putRedisState(tx *engine.Tx, s redislink.State) {
	tx.Put(cf.Propagate, []byte(cf.PropagateRedisMaster), s.Append(nil))
}

// Apply implements redislink.Target.
func (t *redisTarget) Apply(commands []redislink.Command, after redislink.State) error {
	return t.l.r.o.Redis.Run(commands, t.l.ctx.Done(), func(tx *engine.Tx) { putRedisState(tx, after) })
}

// Keep implements redislink.Target.
func (t *redisTarget) Keep(s redislink.State) error {
	return t.l.db.WriteFromMaster(func(tx *engine.Tx) { putRedisState(tx, s) })
}

// ForgetRedis deletes the record of where the database is in the stream of a master of Redis, for one that is a
// master now: what is written from now on is not in that stream. It may be called while a transaction has locks.
func ForgetRedis(db *engine.DB) error {
	text, err := storedRedisState(db)
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

// redisState is what a link knows of a master of Redis.
type redisState struct {
	redis  atomic.Bool  // it is one
	offset atomic.Int64 // applied
}
