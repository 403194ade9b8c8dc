package command

import (
	"time"

	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/server/resp"
)

var replicaCommands = []Spec{
	{Name: "role", Handler: role, Arity: 1, Flags: NoScript | Loading | Stale | Fast, Group: "server", Since: "2.8.12", Complexity: "O(1)",
		Categories: "@admin @dangerous", Summary: "Returns the role in replication."},
	{Name: "wait", Handler: waitReplicas, Arity: 3, Flags: Solo | Waits, Group: "generic", Since: "3.0.0", Complexity: "O(1)",
		Categories: "@connection", Summary: "Waits until replicas have what the connection has written; returns how many have."},
	{Name: "waitaof", Handler: waitAOF, Arity: 4, Flags: NoScript | Solo | Waits, Group: "generic", Since: "7.2.0", Complexity: "O(1)",
		Categories: "@connection", Summary: "Waits until what the connection has written is on the disk here and at replicas; returns where it is."},
}

func init() { register(replicaCommands...) }

// role is that of a master without replicas; the offset is the sequence number of the newest write, as in Kvrocks.
func role(c *Ctx) error {
	c.Out.Array(3)
	c.Out.BulkString("master")
	c.Out.Int(int64(c.Srv.DB.LatestSequence()))
	c.Out.Array(0)
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

// waitReplicas replies 0: there are no replicas. When some are asked for, that is known only when the time is up.
func waitReplicas(c *Ctx) error {
	if c.Retry {
		return ErrNotReady
	}
	n, ok := ParseInt(c.Args[1])
	if !ok {
		return ErrNotInteger
	}
	timeout, err := waitMillis(c.Args[2])
	if err != nil {
		return err
	}
	return waitForReplicas(c, n, timeout, func(w *resp.Writer) { w.Int(0) })
}

// waitForReplicas lets the client wait for n replicas until its time is up, and then for the reply.
func waitForReplicas(c *Ctx, n int64, timeout time.Duration, reply func(w *resp.Writer)) error {
	if n <= 0 || c.NoBlock {
		reply(c.Out)
		return nil
	}
	return c.Sess.Control.Block(Wait{Args: c.Args, Timeout: timeout, Null: reply})
}

var (
	errLocalRange    = engine.NewError("ERR", "value is out of range, value must between 0 and 1")
	errReplicasRange = engine.NewError("ERR", "value is out of range, must be positive")
)

// waitAOF writes the log to the disk when that is asked for: nothing but sync yes does it after each write.
func waitAOF(c *Ctx) error {
	if c.Retry {
		return ErrNotReady
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
	return waitForReplicas(c, n, timeout, func(w *resp.Writer) {
		w.Array(2)
		w.Int(local)
		w.Int(0)
	})
}
