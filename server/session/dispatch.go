package session

import (
	"cmp"
	"time"

	"go.uber.org/zap"

	"github.com/basaltdb/basalt/server/command"
)

// singleBatch is the max number of readers whose records are fetched in one batch.
const singleBatch = 16

// request is one decoded command of a run.
type request struct {
	args  [][]byte
	spec  *command.Spec
	err   error // found before execution: unknown, wrong number of arguments
	reply int   // where its reply begins in the output
	keys  int   // number of its keys, in a segment
	shown bool  // MONITOR has shown it, before it ran

	asking bool // ASKING was sent before it
}

// execute runs the decoded commands in their order.
//
// Readers that come before the first write run by themselves. From the first write on, commands form a segment up to
// the last write, or up to the first command whose locks are not free. A segment runs in one transaction, and its
// replies count only once that is committed. A Solo command ends a segment.
func (c *run) execute() {
	reqs := c.reqs
	c.begin()
	c.moved()
	i := 0
	for i < len(reqs) && !c.closeAfterReply {
		if c.over() {
			c.closeAfterReply = true
			c.script.forget()
			break
		}
		r := &reqs[i]
		if r.err == nil {
			r.err = c.refuse(r)
		}
		if c.seen.pause != nil && !c.waitPaused(r) {
			break
		}
		switch {
		case c.multi != nil && (r.err != nil || r.spec.Flags&command.NotQueued == 0):
			c.enqueue(r)
			i++
		case r.err != nil:
			c.rejected(r)
			i++
		case c.seen.profiling != nil && c.seen.profiling.picks(r.spec):
			i += c.profile(reqs[i:])
		default:
			i += c.dispatch(reqs[i:])
		}
		if own := c.batch.Own(); len(own) > 0 {
			c.out.Raw(own) // after the reply of the command that caused them; CLIENT REPLY may have dropped that reply
			c.batch.DropOwn()
		}
		c.flushMany()
	}
	if i > 0 {
		c.info.lastCmd.Store(reqs[i-1].shownSpec())
	}
	c.readClock(nil)
}

// shownSpec returns the command that CLIENT LIST shows, nil when the name or the subcommand does not exist.
func (r *request) shownSpec() *command.Spec {
	if r.spec != nil && len(r.spec.Sub) > 0 && len(r.args) > 1 {
		return nil
	}
	return r.spec
}

// dispatch runs the first command, and the following commands that can run together with it. It returns how many have
// run; 0 when a pause has begun meanwhile.
func (c *run) dispatch(reqs []request) int {
	r := &reqs[0]
	switch {
	case r.spec.Flags&command.Solo != 0:
		return c.solo(r)
	case r.spec.Flags&(command.Write|command.Script) != 0:
		return c.writeSegment(reqs)
	case r.spec.Flags&command.Single != 0:
		if n := c.singles(reqs); n > 0 {
			return n
		}
	case r.spec.Prefetch != nil && len(reqs) > 1:
		if n := c.prefetchReads(reqs); n > 0 {
			return n
		}
	}
	c.read(r)
	return 1
}

// refuse makes the checks that depend on the state of the session, in Redis's order.
func (c *run) refuse(r *request) error {
	if c.fed {
		return nil
	}
	if !c.sess.Authorized && r.spec.Flags&command.NoAuth == 0 {
		return command.ErrNoAuth
	}
	if r.spec.Flags&command.AdminOnly != 0 && !c.sess.Admin {
		return command.ErrAdminOnly
	}
	if a := c.sess.Account; a != nil && c.sess.Authorized {
		if u := a.User(); !u.Unrestricted() {
			if err := c.permitted(u, r); err != nil {
				return err
			}
		}
	}
	if c.srv.Cluster != nil {
		if err := c.route(r); err != nil {
			return err
		}
	}
	if c.Subscribed() && c.sess.Proto == 2 && !c.inTx() && !command.AllowedWhileSubscribed(r.spec) {
		return command.ErrSubscribed(r.spec)
	}
	if err := c.limit(r.spec.Flags); err != nil {
		if c.srv.Cluster != nil && c.frame.mode == direct { // a new replica: clients follow MOVED, not READONLY
			err = cmp.Or(c.routeBy(c.srv.Cluster.Topology(), r), err)
		}
		return err
	}
	if c.monitoring && r.spec.Flags&(command.Write|command.ReadOnly|command.MayReplicate) != 0 {
		return command.ErrMonitoring
	}
	if c.frame.mode == direct && r.spec.Flags&command.AllowBusy == 0 { // a command that already runs continues
		if script, function := c.srv.Scripts.Busy(); script || function {
			return busyReply(!script)
		}
	}
	return nil
}

// busyReply is the reply to clients that need locks of a slow script or function.
func busyReply(function bool) error {
	if function {
		return errBusyFunction
	}
	return errBusyScript
}

// rejected replies to a command that was not run.
func (c *run) rejected(r *request) {
	c.abortMulti(r)
	mark := c.out.Mark()
	command.WriteError(&c.out, r.err)
	c.srv.Stats.Rejected(r.spec, r.err)
	c.replied(r, mark)
	if c.track != nil {
		c.endCaching(r)
	}
}

// replied applies CLIENT REPLY to the reply that begins at mark. A blocked client has no reply yet.
func (c *run) replied(r *request, mark int) {
	if c.sess.ReplyMode == command.ReplyOn || c.blocked != nil {
		return
	}
	if c.sess.DropReply() && (r.err != nil || !command.Confirms(r.spec)) {
		c.out.Truncate(mark)
	}
}

// runStreaming runs a reader outside of transactions; its reply may be sent in parts.
func (c *run) runStreaming(r *request) {
	c.streams, c.streamed = c.sess.ReplyMode == command.ReplyOn, false
	c.invoke(c.frame, r)
	c.streams = false
}

// endReply sends the end of a reply that was sent in parts, before anything else is sent.
func (c *run) endReply() {
	if c.streamed {
		c.streamed = false
		c.flush()
	}
}

// cutReply ends the connection after an error of a command whose reply was sent in part: an error reply cannot follow a
// part of another reply.
func (c *conn) cutReply(r *request, err error) {
	if !c.lost {
		c.srv.Log.Error("a reply could not be completed, the client is disconnected",
			zap.String("command", r.spec.FullName()),
			zap.String("addr", c.sess.Addr), zap.Int64("id", c.sess.ID), zap.Error(err))
	}
	c.lost, c.closeAfterReply = true, true
	c.wire.Fail(err)
}

// solo runs a command that takes care of its own locks and transactions, and may change the session. It returns 0
// when it has not run because of a pause.
func (c *run) solo(r *request) int {
	c.prepare(r.spec)
	c.info.lastCmd.Store(r.spec)
	c.tx.Begin(c.sess.Namespace)
	if r.spec.Flags&command.Exclusive != 0 {
		if r.err = c.tx.AcquireAll(); r.err != nil {
			c.tx.Release()
			c.rejected(r)
			return 1
		}
		if c.pausedNow() {
			c.tx.Release()
			return 0
		}
	}
	mark := c.out.Mark() // the handler may run other commands
	c.invoke(c.frame, r)
	if r.spec.Flags&command.Exclusive != 0 {
		if err := c.tx.Commit(); err != nil {
			c.srv.WriteFailed(err)
			c.out.Truncate(mark)
			command.WriteError(&c.out, err)
		}
	}
	c.tx.Release()
	c.replied(r, min(mark, c.out.Len()))
	c.publish()
	c.seen = c.srv.observed.Load() // the command may have changed the settings: they apply at once
	return 1
}

// singles runs consecutive readers that need only the metadata record of one key, without locks: the records are
// fetched in one batch. It returns how many commands it has run; 0 when the first command has several keys. A command
// with several keys must see all of them at one time, and so takes their locks.
func (c *run) singles(reqs []request) int {
	n, keys, rerouted := 0, c.userKeys[:0], false
	for n < len(reqs) && n < singleBatch {
		r := &reqs[n]
		if n > 0 && (r.err != nil || r.spec.Flags&command.Single == 0 || c.refuse(r) != nil) {
			break
		}
		c.keys = r.spec.AppendKeys(c.keys[:0], r.args)
		if len(c.keys) > 1 {
			break
		}
		for _, k := range c.keys {
			keys = append(keys, r.args[k.Arg])
		}
		n++
	}
	c.userKeys = keys
	if n == 0 {
		return 0
	}
	c.prepare(reqs[0].spec)
	c.tx.Begin(c.sess.Namespace)
	c.prefetch(keys, nil)
	for i := range reqs[:n] {
		c.runStreaming(&reqs[i])
		if c.moved() || rerouted {
			rerouted = true
			c.routeRead(&reqs[i])
		}
		c.replied(&reqs[i], reqs[i].reply)
		c.endReply()
		c.flushMany()
	}
	c.tx.Release()
	c.publishDeferred(nil)
	return n
}

// read runs one reader with the read side of its keys' locks held; the handler may give them back early. A
// command that neither reads nor writes data gets no transaction.
func (c *run) read(r *request) {
	if r.spec.Flags&(command.ReadOnly|command.Write) == 0 {
		c.invoke(c.frame, r)
		c.replied(r, r.reply)
		return
	}
	c.prepare(r.spec)
	c.tx.Begin(c.sess.Namespace)
	c.keys = r.spec.AppendKeys(c.keys[:0], r.args)
	for _, k := range c.keys {
		c.tx.AddLock(r.args[k.Arg], false)
	}
	if r.err = c.tx.Acquire(); r.err == nil && c.moved() {
		r.err = c.routeBy(c.topology, r)
	}
	if r.err != nil {
		c.tx.Release()
		c.rejected(r)
		return
	}
	if r.spec.Flags&command.Single != 0 {
		keys := c.userKeys[:0]
		for _, k := range c.keys {
			keys = append(keys, r.args[k.Arg])
		}
		c.userKeys = keys
		c.prefetch(keys, nil)
	}
	c.runStreaming(r)
	c.tx.Release()
	c.replied(r, r.reply)
	c.endReply()
	c.publishDeferred(nil)
}

// prefetch reads the metadata records of keys in advance. An error of prefetch is only logged: the handlers read the
// missing records again, and return the error themselves.
func (c *run) prefetch(keys, blind [][]byte) {
	err := c.tx.PrefetchBlind(blind)
	if err == nil {
		err = c.tx.Prefetch(keys)
	}
	c.prefetchFailed(err)
}

func (c *conn) prefetchFailed(err error) {
	if err != nil && c.srv.failures.allow(time.Second) {
		c.srv.Log.Error("prefetching records failed", zap.Error(err))
	}
}

// dropReplies applies CLIENT REPLY OFF and SKIP to the replies of a segment: no command of a segment changes the mode.
func (c *run) dropReplies(reqs []request) {
	if len(reqs) == 0 || c.blocked != nil {
		return
	}
	if c.sess.ReplyMode == command.ReplyOff {
		c.out.Truncate(reqs[0].reply)
		return
	}
	// SKIP drops the first reply only.
	if c.sess.DropReply() {
		end := c.out.Mark()
		if len(reqs) > 1 {
			end = reqs[1].reply
		}
		b := c.out.Bytes()
		n := copy(b[reqs[0].reply:], b[end:])
		c.out.Truncate(reqs[0].reply + n)
	}
}
