package server

import (
	"time"

	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/server/command"
	"github.com/basaltdb/basalt/server/resp"
	"github.com/basaltdb/basalt/server/wire"
)

// workspace is what a run of commands needs besides the state of its connection. Connections that have nothing to
// do have none, so that many idle ones take little memory.
type workspace struct {
	tx    *engine.Tx
	frame *frame // that of the commands that run now: top, exec or that of the script
	out   resp.Writer

	argv      [][]byte
	reqs      []request
	keys      []command.KeyRef
	userKeys  [][]byte
	blindKeys [][]byte
	segment   segment
	served    []*waiter     // clients that wait, served in the transaction that is under way
	full      func() bool   // whether the transaction is to be committed before more is added
	batch     wire.Batch    // messages to other clients
	deferred  []post        // messages to be published when the transaction is committed
	failures  int           // commands that have replied with an error
	repeat    repeat        // the command that runs, when its reply may be kept
	kept      *cachedReply  // the reply of the command that runs, when it was kept
	clock     time.Duration // since the server's start, when the clock was last looked at
	guest     bool          // the segment runs in the transaction of another connection
	script    scriptRun
	calls     callStats
	seen      *observed // what is to be noted of this run
	profiled  bool      // one command runs, and is profiled
	streams   bool      // the reply of the command that runs may leave in parts
	streamed  bool      // it has, except for its end

	top, exec, wait frame // of the client's commands, those that EXEC runs, and those of clients that wait
}

func newWorkspace(s *Server) *workspace {
	w := &workspace{tx: s.db.NewTx(), batch: wire.NewBatch(&s.flusher)}
	w.full = func() bool { return w.tx.Size() > segmentBatch }
	w.top.ctx = command.Ctx{Out: &w.out, Tx: w.tx, Srv: &s.services}
	w.exec.mode, w.script.frame.mode, w.wait.mode = queued, scripted, awaited
	w.frame = &w.top
	return w
}

// attach gives the connection a workspace.
func (c *conn) attach() {
	c.workspace = c.srv.workspaces.Get().(*workspace)
	c.out.Proto, c.top.ctx.Sess, c.tx.Origin = c.sess.Proto, c.sess, c
}

// detach gives the workspace back.
func (c *conn) detach() {
	w := c.workspace
	c.workspace = nil
	w.tx.End() // SCRIPT EXISTS, for one, reads without a transaction
	w.top.ctx.Sess, w.tx.Origin = nil, nil
	if cap(w.argv) > maxDecoded {
		w.argv, w.reqs, w.keys, w.userKeys, w.blindKeys = nil, nil, nil, nil, nil
	}
	c.srv.workspaces.Put(w)
}

// forget drops every reference to the read buffer.
func (w *workspace) forget() {
	clear(w.argv[:cap(w.argv)])
	clear(w.reqs[:cap(w.reqs)])
	clear(w.userKeys[:cap(w.userKeys)])
	clear(w.blindKeys[:cap(w.blindKeys)])
	w.top.ctx.Args = nil
	w.segment.reqs = nil
}
