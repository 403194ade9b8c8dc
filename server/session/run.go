package session

import (
	"time"

	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/server/cluster"
	"github.com/basaltdb/basalt/server/command"
	"github.com/basaltdb/basalt/server/pubsub"
	"github.com/basaltdb/basalt/server/resp"
	"github.com/basaltdb/basalt/server/tracking"
	"github.com/basaltdb/basalt/server/wire"
)

// run is a connection while it runs commands: what has been decoded of its input, their transaction and their
// replies. What needs a transaction is a method of run. Connections that have nothing to do have none, so that many
// idle ones take little memory.
type run struct {
	*conn

	tx    *engine.Tx
	frame *frame // that of the commands that run now: top, exec or that of the script
	out   resp.Writer

	argv      [][]byte
	reqs      []request
	keys      []command.KeyRef
	userKeys  [][]byte
	blindKeys [][]byte
	segment   segment
	served    []*waiter        // clients that wait, served in the transaction that is under way
	full      func() bool      // whether the transaction is to be committed before more is added
	origin    tracking.Origin  // of the transaction: this run
	batch     wire.Batch       // messages to other clients
	deferred  []pubsub.Message // messages to be published when the transaction is committed
	failures  int              // commands that have replied with an error
	repeat    repeat           // the command that runs, when its reply may be kept
	kept      []byte           // the reply of the command that runs, when it was kept
	clock     time.Duration    // since the server's start, when the clock was last looked at
	combined  bool             // the segment runs in the transaction of another connection
	script    scriptRun
	calls     callStats
	seen      *observed         // what is to be noted of this run
	topology  *cluster.Topology // by which its commands are routed
	routed    []command.KeyRef  // of the command that is being routed
	asking    bool              // ASKING was sent before the command that runs
	profiled  bool              // one command runs, and is profiled
	streams   bool              // the reply of the command that runs may leave in parts
	streamed  bool              // it has, except for its end

	top, exec, wait frame // of the client's commands, those that EXEC runs, and those of clients that wait
}

func newRun(s *Shared) *run {
	w := &run{tx: s.DB.NewTx(), batch: wire.NewBatch(&s.flusher)}
	w.full = func() bool { return w.tx.Size() > segmentBatch }
	w.top.ctx = command.Ctx{Out: &w.out, Tx: w.tx, Srv: &s.Services}
	w.exec.mode, w.script.frame.mode, w.wait.mode = queued, scripted, awaited
	w.frame = &w.top
	w.origin.Batch = &w.batch
	w.script.host.run = w
	return w
}

// beginRun begins a run of commands of the connection. Until it is ended, handlers control the run.
func (c *conn) beginRun() *run {
	w := c.srv.runs.Get().(*run)
	w.conn = c
	w.out.Limit(c.outputLimit())
	w.out.Proto, w.top.ctx.Sess, w.tx.Origin = c.sess.Proto, c.sess, &w.origin
	w.origin.ID = c.sess.ID
	c.sess.Control = w
	return w
}

// end ends the run. It must not be used afterwards.
func (c *run) end() {
	runs := &c.srv.runs
	c.tx.End() // SCRIPT EXISTS, for one, reads without a transaction
	c.sess.Control = nil
	c.conn, c.top.ctx.Sess, c.tx.Origin = nil, nil, nil
	c.frame = &c.top
	if cap(c.argv) > maxDecoded {
		c.argv, c.reqs, c.keys, c.userKeys, c.blindKeys = nil, nil, nil, nil, nil
	}
	runs.Put(c)
}

// forget drops every reference to the read buffer.
func (c *run) forget() {
	clear(c.argv[:cap(c.argv)])
	clear(c.reqs[:cap(c.reqs)])
	clear(c.userKeys[:cap(c.userKeys)])
	clear(c.blindKeys[:cap(c.blindKeys)])
	c.top.ctx.Args = nil
	c.segment.reqs = nil
}
