package replica

import (
	"errors"
	"strings"
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

// A master that does not know _db_name is one of Redis, or of its kind: the link goes on with the handshake of Redis,
// see packages redislink and redistarget. It applies commands and not batches, so the log and the sequence numbers are
// this server's own, and replicas of it follow as those of a master.

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
func (l *link) followRedis(c *lineconn.Conn) error {
	if l.r.o.Redis == nil {
		return proto.Refuse("_db_name", errors.New("the master is one of Redis"))
	}
	s := l.r.settings.Load()
	l.redis.Store(true)
	l.r.ownHistory.Store(true)
	defer l.meter.End()
	return redislink.Run(l.ctx, redislink.Options{
		Conn: c, In: c.In, Log: l.log, Port: s.Port, Address: s.Address,
		Target: l.redisTarget(), MaxValue: redisMaxValue,
		Silence: redisSilence, AckEvery: ackEvery,
		Step: l.redisStep, Loaded: func() { l.r.fulls.Add(1) },
		Heard:    func() { l.lastIO.Store(time.Now().UnixNano()) },
		Transfer: l.redisTransfer, Received: func(n int) { l.meter.Came(int64(n)) },
		Offset: &l.offset, Applied: l.offset.Load,
	})
}

// redisTarget is the database of the link.
func (l *link) redisTarget() redislink.Target {
	return redistarget.New(redistarget.Options{DB: l.db, Log: l.log, Commands: l.r.o.Redis, Dir: l.r.o.Dir,
		Stop: l.ctx.Done(), Replace: l.replace,
		WithID: func() bool { return l.r.settings.Load().SendID },
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

// redisState is what a link knows of a master of Redis.
type redisState struct {
	redis  atomic.Bool  // it is one
	offset atomic.Int64 // applied
}
