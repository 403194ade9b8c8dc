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

// role replies as Redis does; the offsets are sequence numbers, as in Kvrocks.
func role(c *Ctx) error {
	r := c.Srv.Replication.Role()
	if r.Replica {
		c.Out.Array(5)
		stringField(c.Out, "slave", r.Host)
		c.Out.Int(int64(r.Port))
		c.Out.BulkString(r.State)
		return replyInt(c, r.Offset, nil)
	}
	c.Out.Array(3)
	intField(c.Out, "master", r.Offset)
	c.Out.Array(len(r.Replicas))
	for _, o := range r.Replicas {
		c.Out.Array(3)
		c.Out.BulkString(o.IP)
		c.Out.BulkString(strconv.Itoa(o.Port))
		c.Out.BulkString(strconv.FormatUint(o.Offset, 10))
	}
	return nil
}

// waitMillis is parseMillis, but a timeout that does not fit is accepted.
func waitMillis(arg []byte) (time.Duration, error) {
	timeout, err := parseMillis(arg)
	if err == errTimeoutRange {
		return longestWait, nil
	}
	return timeout, err
}

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
	r := c.Srv.Replication
	if r.IsReplica() {
		return errWaitOnReplica
	}
	target := c.Srv.DB.LatestSequence()
	return waitForReplicas(c, replicaWait{n: n, timeout: timeout,
		ask:   func() { r.AskAck(target) },
		count: func() int { return r.AckedBy(target) },
		reply: func(w *resp.Writer, acked int) { w.Int(int64(acked)) }})
}

var (
	errWaitOnReplica = engine.NewError("ERR",
		"WAIT cannot be used with replica instances. Please also note that since Redis 4.0 "+
			"if a replica is configured to be writable (which is not the default) writes to replicas are just local and are "+
			"not propagated.")
	errWaitAOFOnReplica = engine.NewError("ERR",
		"WAITAOF cannot be used with replica instances. Please also note that writes to "+
			"replicas are just local and are not propagated.")
)

// replicaWait is a wait for acknowledgements of n replicas.
type replicaWait struct {
	n       int64
	timeout time.Duration
	ask     func()     // lets the replicas acknowledge
	count   func() int // how many have
	reply   func(w *resp.Writer, count int)
}

// waitForReplicas blocks the client until enough replicas have acknowledged or the timeout has passed, and until the
// reply.
func waitForReplicas(c *Ctx, a replicaWait) error {
	if now := a.count(); int64(now) >= a.n || c.NoBlock {
		a.reply(c.Out, now)
		return nil
	}
	a.ask()
	return c.Sess.Control.Block(Wait{Args: c.Args, Timeout: a.timeout,
		Enough: func() bool { return int64(a.count()) >= a.n },
		Null:   func(w *resp.Writer) { a.reply(w, a.count()) }})
}

// waitedFor returns the reply if enough replicas have acknowledged, or still nothing.
func waitedFor(c *Ctx) error {
	if !c.Waited.Enough() {
		return ErrNotReady
	}
	c.Waited.Null(c.Out)
	return nil
}

// waitAOF is WAITAOF numlocal numreplicas timeout. It brings the log to the disk if requested, and waits for replicas
// that do: only sync yes does so after each write.
func waitAOF(c *Ctx) error {
	if c.Retry {
		return waitedFor(c)
	}
	local, ok := ParseInt(c.Args[1])
	switch {
	case !ok:
		return ErrNotInteger
	case local < 0 || local > 1:
		return errorf("value is out of range, value must between 0 and 1")
	}
	n, ok := ParseInt(c.Args[2])
	if !ok || n < 0 {
		return ErrNotPositive
	}
	timeout, err := waitMillis(c.Args[3])
	if err != nil {
		return err
	}
	r := c.Srv.Replication
	if r.IsReplica() {
		return errWaitAOFOnReplica
	}
	target := c.Srv.DB.LatestSequence()
	if local == 1 {
		if err := c.Srv.DB.SyncWAL(); err != nil {
			return err
		}
	}
	return waitForReplicas(c, replicaWait{n: n, timeout: timeout,
		ask:   func() { r.AskSync(target) },
		count: func() int { return r.SyncedBy(target) },
		reply: func(w *resp.Writer, synced int) {
			w.Array(2)
			w.Int(local)
			w.Int(int64(synced))
		}})
}
