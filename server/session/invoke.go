package session

import (
	"runtime/debug"
	"time"

	"go.uber.org/zap"

	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/search"
	"github.com/basaltdb/basalt/server/command"
	"github.com/basaltdb/basalt/server/replycache"
)

// mode says on whose behalf a command runs.
type mode uint8

const (
	direct   mode = iota // the client: a command of its pipeline
	queued               // EXEC: a command that the client has sent after MULTI
	scripted             // a script that the client runs
	awaited              // a blocked client, maybe another one: this connection has brought data
)

// frame is the state that the commands of one mode share. An inner frame begins when a command of an outer frame runs
// other commands (EXEC, EVAL), and ends with that command: then all changes to the inner frame are dropped.
type frame struct {
	mode   mode
	ctx    command.Ctx
	change change // what the events of the command depend on
	// indexed is how the entries of its keys in the search indexes change.
	indexed search.Watch
	// outer is the savepoint before the script: the transaction can still be rolled back to it.
	outer engine.Mark
	// req is the command of a script or of a blocked client; the pipeline and EXEC have lists of commands.
	req request
}

// inTx reports whether the running commands are committed together with later commands: in EXEC and in scripts.
func (c *run) inTx() bool { return c.frame.mode == queued || c.frame.mode == scripted }

// invoke runs a command in the transaction that is under way. All handlers are called from here, in every mode; the
// steps depend on the mode of the frame:
//
//	step                                          direct, queued    scripted           awaited
//	the clock                                     meter: in groups  of the call        of the call
//	keyspace events: which keys exist before      x                 x                  x
//	savepoint                                     x                 inside the script  x
//	search indexes: entries of its keys before    x                 x                  x
//	CLIENT TRACKING remembers the keys            x                 x                  when the wait began
//	MONITOR shows EVAL before what it calls       x                 -                  -
//	the handler, or the reply that was kept       x                 handler            handler
//	search indexes: entries follow the keys       x                 x                  x
//	CLIENT CACHING ends; MONITOR                  x                 MONITOR, as lua    when the wait began
//	after an error: the transaction goes back     x                 x                  x
//	  the error is the reply, and is counted      x                 x                  by the caller
//	keyspace events are kept until the commit     x                 x                  x
//
// wrote reports whether the command has written. err is the error of the handler, or of the rollback. After an error
// the output holds the error reply, except for errMoreLocks and for awaited commands, which have no reply yet.
func (c *run) invoke(f *frame, r *request) (wrote bool, err error) {
	ofClient := f.mode <= queued
	if ofClient {
		c.asking = r.asking
		c.meter(r)
	}
	r.reply = f.ctx.Out.Mark()
	events := c.srv.events.Load() != 0
	if events {
		c.watchChange(f, r)
	}
	mark := c.savepoint(f)
	indexes := c.srv.Services.Indexes.Any() && r.spec.Flags&(command.Write|command.Script) == command.Write
	if indexes {
		if err = c.watchIndexes(f, r); err != nil {
			return false, c.undo(f, r, mark, err)
		}
	}
	if c.track != nil && f.mode != awaited {
		c.rememberReads(r)
	}
	if ofClient {
		if c.seen.monitored && r.spec.Flags&command.Script != 0 && r.spec.Flags&command.SkipMonitor != 0 && !r.shown {
			c.srv.monitors.show(c, r, c.sess.Addr) // before the commands that it calls
			r.shown = true                         // it may be run again with more locks
		}
		err = c.answer(f, r)
		if c.track != nil || c.seen.monitored {
			c.observeRun(r)
		}
	} else {
		began := time.Since(c.srv.started) // time.Since reads one clock, time.Now two
		err = c.call(f, r)
		c.callEnded(f, r, time.Since(c.srv.started)-began)
	}
	if err == nil && indexes && c.tx.Wrote(mark) {
		err = c.updateIndexes(f)
	}
	if err == nil && f.mode != queued && c.tx.Wrote(mark) {
		err = c.tx.BatchError() // at the commit, the commands before would fail too: only a transaction should
	}
	if err != nil {
		return false, c.undo(f, r, mark, err)
	}
	wrote = c.tx.Wrote(mark)
	if f.ctx.Rewrote && !wrote {
		c.tx.Touch(r.args[1])
	}
	if events {
		c.noteRun(f, nil, wrote)
	}
	return wrote, nil
}

// savepoint marks the point to which a failed command is rolled back.
func (c *run) savepoint(f *frame) engine.Mark {
	if f.mode == scripted {
		return c.tx.SavepointIn(f.outer)
	}
	return c.tx.Savepoint()
}

// answer makes the reply of a command of the client: it calls the handler, or takes the cached reply. If the reply
// may be sent in parts, some parts may have been sent on return, see streamed.
func (c *run) answer(f *frame, r *request) (err error) {
	keep := false
	if r.spec.Flags&command.Repeatable != 0 {
		var kept []byte
		if kept, keep = c.findReply(r); kept != nil {
			c.out.Raw(kept)
			return nil
		}
	}
	if !c.streams {
		err = c.call(f, r)
	} else {
		c.out.Stream(c)
		err = c.call(f, r)
		if c.out.EndStream() {
			r.reply, c.streamed, keep = 0, true, false
			if err != nil {
				c.cutReply(r, err)
			}
		}
	}
	if keep && err == nil && !c.out.Overflowed() && c.out.Len()-r.reply <= replycache.MaxReply {
		c.srv.replies.Put(&c.repeat.request, c.out.Bytes()[r.reply:], c.repeat.until)
	}
	return err
}

// call calls the handler of a command. A panic in the handler is logged and becomes an error. The connection is
// closed then, unless the command is another client's, and the server keeps running.
func (c *run) call(f *frame, r *request) (err error) {
	defer func() {
		if p := recover(); p != nil {
			c.srv.Log.Error("panic in a command", zap.String("command", r.spec.FullName()), zap.Any("panic", p),
				zap.ByteString("stack", debug.Stack()))
			if f.mode != awaited {
				c.frame, c.closeAfterReply = f, true
			}
			err = engine.NewError("ERR", "internal error")
		}
	}()
	f.ctx.Args, f.ctx.Spec, f.ctx.Rewrote = r.args, r.spec, false
	return r.spec.Handler(&f.ctx)
}

// callEnded counts a call that a script made. A call of a blocked client is counted when its wait has ended.
func (c *run) callEnded(f *frame, r *request, took time.Duration) {
	if f.mode != scripted {
		return
	}
	c.script.calls.add(r.spec, 1, took)
	if c.seen.histograms {
		c.srv.Stats.Measure(r.spec.ID, took, 1)
	}
	if took >= c.seen.noteworthy {
		c.noteCall(&inScript, r, took)
	}
	if c.seen.monitored {
		c.srv.monitors.feed(c, r, "lua")
	}
}

// undo rolls back the changes of a failed command, and replies with the error unless the caller does that. It returns
// the error.
func (c *run) undo(f *frame, r *request, mark engine.Mark, err error) error {
	out := f.ctx.Out
	out.Truncate(r.reply)
	if e := c.tx.Rollback(mark); e != nil {
		err = e
		if f.mode != awaited {
			c.closeAfterReply = true // the state of the transaction is unknown: it must not be used any more
		}
	}
	if err == errMoreLocks || f.mode == awaited {
		f.change.forget()
		if f.mode == direct || f.mode == queued {
			c.calls.group.n-- // it will run again
		}
		return err
	}
	command.WriteError(out, err)
	c.srv.Stats.Failed(r.spec, err)
	c.noteRun(f, err, false)
	return err
}
