package command

import (
	"strconv"
	"time"

	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/server/resp"
)

var replicaCommands = []Spec{
	{Name: "role", Handler: role, Arity: 1, Flags: NoScript | Loading | Stale | Fast},
	{Name: "wait", Handler: waitReplicas, Arity: 3, Flags: Solo | Waits},
	{Name: "waitaof", Handler: waitAOF, Arity: 4, Flags: NoScript | Solo | Waits},
}

func init() { register(replicaCommands...) }

// role replies as Redis does; the offsets are sequence numbers, as in Kvrocks.
func role(c *Ctx) error {
	r := c.Srv.Replication.Role()
	if r.Replica {
		c.Out.Array(5)
		c.Out.BulkString("slave")
		c.Out.BulkString(r.Host)
		c.Out.Int(int64(r.Port))
		c.Out.BulkString(r.State)
		c.Out.Int(int64(r.Offset))
		return nil
	}
	c.Out.Array(3)
	c.Out.BulkString("master")
	c.Out.Int(int64(r.Offset))
	c.Out.Array(len(r.Replicas))
	for _, o := range r.Replicas {
		c.Out.Array(3)
		c.Out.BulkString(o.IP)
		c.Out.BulkString(strconv.Itoa(o.Port))
		c.Out.BulkString(strconv.FormatUint(o.Offset, 10))
	}
	return nil
}

// waitMillis reads a timeout in milliseconds, 0 = for ever.
func waitMillis(arg []byte) (time.Duration, error) {
	ms, ok := ParseInt(arg)
	switch {
	case !ok:
		return 0, engine.NewError("ERR", "timeout is not an integer or out of range")
	case ms < 0:
		return 0, engine.NewError("ERR", "timeout is negative")
	case ms > longestWait.Milliseconds():
		return longestWait, nil
	}
	return time.Duration(ms) * time.Millisecond, nil
}

const longestWait = 30 * 365 * 24 * time.Hour

// waitReplicas is WAIT numreplicas timeout. As in Kvrocks, it waits for all earlier writes of all clients, which
// include the client's own writes.
func waitReplicas(c *Ctx) error {
	if c.Retry {
		return waitedFor(c)
	}
	n, ok := ParseInt(c.Args[1])
	if !ok {
		return ErrNotInteger
	}
	timeout, err := waitMillis(c.Args[2])
	if err != nil {
		return err
	}
	return waitForReplicas(c, n, timeout, func(w *resp.Writer, acked int) { w.Int(int64(acked)) })
}

var (
	errWaitOnReplica = engine.NewError("ERR",
		"WAIT cannot be used with replica instances. Please also note that since Redis 4.0 "+
			"if a replica is configured to be writable (which is not the default) writes to replicas are just local and are not propagated.")
	errWaitAOFOnReplica = engine.NewError("ERR",
		"WAITAOF cannot be used with replica instances. Please also note that writes to "+
			"replicas are just local and are not propagated.")
)

// waitForReplicas blocks the client until n replicas have acknowledged or its timeout has passed, and until the
// reply.
func waitForReplicas(c *Ctx, n int64, timeout time.Duration, reply func(w *resp.Writer, acked int)) error {
	r := c.Srv.Replication
	if r.IsReplica() {
		return errWaitOnReplica
	}
	target := c.Srv.DB.LatestSequence()
	acked := func() int { return r.AckedBy(target) }
	if now := acked(); int64(now) >= n || c.NoBlock {
		reply(c.Out, now)
		return nil
	}
	r.AskAck(target)
	return c.Sess.Control.Block(Wait{Args: c.Args, Timeout: timeout,
		Enough: func() bool { return int64(acked()) >= n },
		Null:   func(w *resp.Writer) { reply(w, acked()) }})
}

// waitedFor returns the reply if enough replicas have acknowledged, or still nothing.
func waitedFor(c *Ctx) error {
	if !c.Waited.Enough() {
		return ErrNotReady
	}
	c.Waited.Null(c.Out)
	return nil
}

var (
	errLocalRange    = engine.NewError("ERR", "value is out of range, value must between 0 and 1")
	errReplicasRange = engine.NewError("ERR", "value is out of range, must be positive")
)

// waitAOF syncs the log to disk if requested: only sync yes does so after each write.
func waitAOF(c *Ctx) error {
	if c.Retry {
		return waitedFor(c)
	}
	local, ok := ParseInt(c.Args[1])
	switch {
	case !ok:
		return ErrNotInteger
	case local < 0 || local > 1:
		return errLocalRange
	}
	n, ok := ParseInt(c.Args[2])
	switch {
	case !ok:
		return ErrNotInteger
	case n < 0:
		return errReplicasRange
	}
	timeout, err := waitMillis(c.Args[3])
	if err != nil {
		return err
	}
	if local == 1 {
		if err := c.Srv.DB.SyncWAL(); err != nil {
			return err
		}
	}
	return waitForSynced(c, n, timeout, func(w *resp.Writer) {
		w.Array(2)
		w.Int(local)
		w.Int(0)
	})
}

// waitForSynced blocks the client until n replicas have synced the writes. Replicas do not report that, so the client
// waits until its timeout, and then for the reply.
func waitForSynced(c *Ctx, n int64, timeout time.Duration, reply func(w *resp.Writer)) error {
	if c.Srv.Replication.IsReplica() {
		return errWaitAOFOnReplica
	}
	if n <= 0 || c.NoBlock {
		reply(c.Out)
		return nil
	}
	return c.Sess.Control.Block(Wait{Args: c.Args, Timeout: timeout, Enough: func() bool { return false }, Null: reply})
}
