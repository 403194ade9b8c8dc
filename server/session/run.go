package session

import (
	"time"

	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/server/cluster/topology"
	"github.com/basaltdb/basalt/server/command"
	"github.com/basaltdb/basalt/server/metrics"
	"github.com/basaltdb/basalt/server/pubsub"
	"github.com/basaltdb/basalt/server/resp"
	"github.com/basaltdb/basalt/server/tracking"
	"github.com/basaltdb/basalt/server/wire"
)

// run is the state of a connection while it runs commands: the decoded commands, their transaction and their replies.
// Everything that needs a transaction is a method of run. An idle connection has no run, so that many idle
// connections take little memory.
type run struct {
	*conn

	tx    *engine.Tx
	frame *frame // the frame of the running commands: top, exec or the script's
	out   resp.Writer

	argv      [][]byte
	reqs      []request
	keys      []command.KeyRef
	userKeys  [][]byte
	blindKeys [][]byte
	locks     []engine.Lock   // of the commands that may be in the segment
	lockSets  [][]engine.Lock // the same by command, parts of locks
	segment   segment
	served    []*waiter        // blocked clients that were served in the current transaction
	full      func() bool      // whether the transaction must be committed before more is added
	origin    tracking.Origin  // of the transaction: this run
	batch     wire.Batch       // messages to other clients
	deferred  []pubsub.Message // messages to publish when the transaction is committed
	repeat    repeat           // the running command, if its reply may be cached
	clock     time.Duration    // the last reading of the clock, since the server's start
	combined  bool             // the segment runs in the transaction of another connection
	script    scriptRun
	calls     callStats
	sampleIn  int                // number of commands until the next one is sampled for Stats.Hot
	seen      *observed          // the instrumentation settings of this run
	topology  *topology.Topology // by which the commands were routed
	routed    []command.KeyRef   // keys of the command that is being routed
	asking    bool               // ASKING was sent before the running command
	profiled  bool               // the run is one command, which is profiled
	streams   bool               // the reply of the running command may be sent in parts
	streamed  bool               // the reply was sent in parts, except for its end
	holding   bool               // the messages of other clients wait for the replies so far
	judged    bool               // verdict holds: a transaction or script is running
	verdict   verdict

	top, exec, wait frame // of the client's commands, of the commands in EXEC, and of blocked clients' commands
}

func newRun(s *Shared) *run {
	w := &run{tx: s.DB.NewTx(), batch: wire.NewBatch(&s.flusher)}
	w.sampleIn = metrics.NextSample()
	w.full = func() bool { return w.tx.Size() > segmentBatch }
	w.top.ctx = command.Ctx{Out: &w.out, Tx: w.tx, Srv: &s.Services}
	w.exec.mode, w.script.frame.mode, w.wait.mode = queued, scripted, awaited
	w.frame = &w.top
	w.origin.Batch = &w.batch
	w.script.host.run = w
	return w
}

// beginRun begins a run of commands of the connection. Until the run ends, handlers control it.
func (c *conn) beginRun() *run {
	w := c.srv.runs.Get().(*run)
	w.conn = c
	w.out.Limit(c.replyLimit())
	w.out.Proto, w.top.ctx.Sess, w.tx.Origin = c.sess.Proto, c.sess, &w.origin
	w.origin.ID = c.sess.ID
	c.sess.Control = w
	return w
}

// end ends the run. The run must not be used afterwards.
func (c *run) end() {
	runs := &c.srv.runs
	c.tx.End() // a command that reads without a transaction, such as SCRIPT EXISTS, does not end its reads
	c.sess.Control = nil
	c.conn, c.top.ctx.Sess, c.tx.Origin = nil, nil, nil
	c.frame = &c.top
	if cap(c.argv) > maxDecoded {
		c.argv, c.reqs, c.keys, c.userKeys, c.blindKeys = nil, nil, nil, nil, nil
	}
	runs.Put(c)
}

// forget drops all references to the read buffer.
func (c *run) forget() {
	clear(c.argv[:cap(c.argv)])
	clear(c.reqs[:cap(c.reqs)])
	clear(c.userKeys[:cap(c.userKeys)])
	clear(c.blindKeys[:cap(c.blindKeys)])
	c.top.ctx.Args = nil
	c.segment.reqs = nil
}
