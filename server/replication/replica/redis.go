package replica

import (
	"errors"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/server/replication/history"
	"github.com/basaltdb/basalt/server/replication/lineconn"
	"github.com/basaltdb/basalt/server/replication/proto"
	"github.com/basaltdb/basalt/server/replication/redislink"
	"github.com/basaltdb/basalt/server/replication/redistarget"
)

// A master that does not know _db_name is a Redis or something compatible: the link continues with the handshake of
// Redis, see packages redislink and redistarget. It applies commands instead of batches. The log and the sequence
// numbers are therefore this server's own, and replicas of this server follow it like any master.

// Time limits of a link to a Redis master.
const (
	redisSilence = 60 * time.Second // the default repl-timeout of Redis, which sends a ping every ten seconds
	// redisMaxValue is the max memory in bytes of a key and its value in a full sync.
	redisMaxValue = 1 << 30
)

// followRedis continues a connection to a Redis master until it ends. The error is never nil.
func (l *link) followRedis(c *lineconn.Conn) error {
	if l.r.o.Redis == nil {
		return proto.Refuse("_db_name", errors.New("the master is one of Redis"))
	}
	s := l.r.settings.Load()
	l.redis.Store(true)
	l.r.own.set(true)
	defer l.meter.End()
	return redislink.Run(l.ctx, redislink.Options{
		Conn: c, In: c.In, Log: l.log, Port: s.Port, Address: s.Address,
		Target: l.redisTarget(), MaxValue: redisMaxValue,
		Silence: redisSilence, AckEvery: ackEvery,
		Step: l.redisStep, Loaded: l.full,
		Heard:    func() { l.lastIO.Store(time.Now().UnixNano()) },
		Transfer: l.redisTransfer, Received: func(n int) { l.meter.Came(int64(n)) },
		Offset: &l.offset, Applied: l.offset.Load,
	})
}

// redisTarget is the database of the link.
func (l *link) redisTarget() redislink.Target {
	return redistarget.New(redistarget.Options{DB: l.db, Log: l.log, Commands: l.r.o.Redis, Dir: l.r.o.Dir,
		Stop: l.ctx.Done(), Replace: l.replace,
		Anew: l.forceFull, WithID: func() bool { return l.r.settings.Load().SendID },
		Prepare: func() error {
			if l.r.settings.Load().EmptyFirst {
				return l.empty()
			}
			return nil
		}})
}

var redisSteps = [...]LinkState{redislink.Introducing: SendingConf, redislink.Asking: SendingPSync,
	redislink.Transferring: LoadingRDB, redislink.Replacing: Replacing, redislink.Streaming: Connected}

func (l *link) redisStep(step redislink.Step) {
	if step == redislink.Streaming {
		if err := l.goOnHistory(); err != nil {
			l.log.Error("the replication id cannot be stored", zap.Error(err))
		}
		l.log.Info("connected with the Redis master", zap.Int64("offset", l.offset.Load()))
	}
	l.setState(redisSteps[step])
}

// goOnHistory gives the writes of the link the replication id of the database, with use-rsid-psync: a Redis master's
// writes have none.
func (l *link) goOnHistory() error {
	if !l.r.settings.Load().SendID {
		return nil
	}
	id, err := l.db.StoredReplicationID()
	if err != nil {
		return err
	}
	if id == "" {
		id = history.NewID()
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
	l.meter.Begin(0)
	l.meter.Add(max(size, 0), 0, 0)
	l.log.Info("the master sends its data", zap.Int64("bytes", size))
}

// redisState is the state of a link to a Redis master.
type redisState struct {
	redis  atomic.Bool  // the master is a Redis
	offset atomic.Int64 // applied bytes of the stream
}
