package session

import (
	"errors"
	"os"
	"slices"
	"time"

	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/server/command"
)

// Blocked clients (BLPOP, XREAD BLOCK, ...) are served by the client that brings the data. With the key's lock held,
// and in its own transaction, that client retries the blocked commands, first come first served: no other client can
// take the data between the push and the pop, and one commit holds both. The goroutine of a blocked client reads from
// its socket, so it notices the end of the connection. 10,000 blocked clients cost memory only.

// Block makes the client wait. The locks of the keys are held, so no data is missed.
func (c *run) Block(wait command.Wait) error {
	w := &waiter{conn: c.conn, spec: c.frame.ctx.Spec, wait: wait, readOnly: c.sess.ReadOnly, asking: c.asking}
	w.wait.Args = cloneArgs(wait.Args)
	if w.args = w.wait.Args; &wait.Args[0] != &c.frame.ctx.Args[0] {
		w.args = cloneArgs(c.frame.ctx.Args)
	}
	w.wait.Keys = cloneArgs(wait.Keys)
	w.out.Proto = c.sess.Proto
	for _, k := range wait.Keys {
		if ns := string(c.tx.NSKey(k)); !slices.Contains(w.keys, ns) {
			w.keys = append(w.keys, ns)
		}
	}
	if wait.Timeout > 0 {
		w.until = time.Now().Add(wait.Timeout)
	}
	w.rearm(true)
	c.blocked = w
	c.info.waiter.Store(w)
	c.srv.waiters.add(w)
	if wait.Enough != nil && wait.Enough() { // acknowledged before the waiter was registered
		w.wake()
	}
	if c.moved() {
		w.redirect(c.topology)
	}
	// The server may have become a replica since the command was checked.
	if c.srv.Limits.ReadOnly.Load() && (w.spec.Flags&command.Write != 0 || wait.Enough != nil) {
		w.end(errDemoted)
	}
	return nil
}

func cloneArgs(args [][]byte) [][]byte {
	out := make([][]byte, len(args))
	for i, a := range args {
		out[i] = slices.Clone(a)
	}
	return out
}

// serveWaiters serves the clients blocked on the keys that a command has written. The command's locks are held.
func (c *run) serveWaiters(r *request) {
	c.serveReady(c.appendReady(nil, r))
}

// appendReady appends the keys that a command has written, if any client is blocked.
func (c *run) appendReady(ready []keyRef, r *request) []keyRef {
	if c.srv.waiters.n.Load() == 0 {
		return ready
	}
	if r.spec.Flags&command.Script != 0 {
		return append(ready, c.script.takeWritten()...)
	}
	ns := c.tx.Namespace()
	for _, k := range r.spec.AppendKeys(nil, r.args) {
		if k.Write {
			ready = append(ready, keyRef{ns, r.args[k.Arg]})
		}
	}
	if r.spec.OtherNamespace != nil {
		if other, arg, ok := r.spec.OtherNamespace(&c.srv.Services, c.sess, ns, r.args); ok {
			ready = append(ready, keyRef{other, r.args[arg]})
		}
	}
	return ready
}

// serveReady serves the clients blocked on the keys, and then the clients blocked on keys that these have written in
// turn. The order matters for a client blocked on several keys: served by what another waiter wrote, it must not take
// the data of a key from clients that were blocked earlier.
func (c *run) serveReady(ready []keyRef) {
	for len(ready) > 0 {
		k := ready[0]
		ready = ready[1:]
		c.tx.InNamespace(k.ns, func() error {
			if c.tx.Holds(k.key) {
				ready = c.serveKey(k, ready)
			}
			return nil
		})
	}
}

// serveKey serves the clients blocked on a key of the transaction's namespace, and appends the keys that they have
// written to ready.
func (c *run) serveKey(k keyRef, ready []keyRef) []keyRef {
	left := false // the data was left to a waiter that must fetch it by itself: later waiters come after it
	for _, w := range c.srv.waiters.of(c.tx.NSKey(k.key)) {
		if left && !w.wait.Gone || !w.mayServe(c.tx, k.key) {
			continue
		}
		if !c.serveOne(w) {
			left = left || w.mustRetry.Load()
			continue
		}
		if len(w.wait.Args) > 2 {
			// BLMOVE has written another key.
			for _, other := range w.spec.AppendKeys(nil, w.wait.Args) {
				if key := w.wait.Args[other.Arg]; other.Write && string(key) != string(k.key) {
					ready = append(ready, keyRef{k.ns, key})
				}
			}
		}
	}
	return ready
}

// serveOne tries the command of a waiter in this connection's transaction. A served waiter stays locked until the
// commit, see settle.
func (c *run) serveOne(w *waiter) bool {
	for w.claim() {
		switch err := c.tryFor(w); err {
		case command.ErrNotReady, command.ErrNeedLocks:
			if !w.unclaim(err == command.ErrNeedLocks) {
				return false
			}
		default:
			if w.serve(err); err == nil {
				w.hold()
			}
			c.served = append(c.served, w)
			return true
		}
	}
	return false
}

// tryFor runs the command of a waiter in this connection's transaction and writes the reply to the waiter's out. An
// error is not written there: it may be ErrNotReady or ErrNeedLocks, which is not a reply.
func (c *run) tryFor(w *waiter) error {
	w.out.Reset()
	began := time.Now()
	err := w.permitted()
	w.denied = err != nil
	if err == nil {
		f := &c.wait
		f.ctx = command.Ctx{Out: &w.out, Tx: c.tx, Sess: w.conn.sess, Srv: &c.srv.Services, Retry: true, Waited: &w.wait}
		f.req = request{args: w.wait.Args, spec: w.spec}
		_, err = c.invoke(f, &f.req)
		f.ctx, f.req = command.Ctx{}, request{}
	}
	w.took.Add(int64(time.Since(began)))
	return err
}

// settle completes the served waiters after the commit.
func (c *run) settle(err error) {
	for i, w := range c.served {
		c.served[i] = nil
		w.settle(err)
	}
	c.served = c.served[:0]
}

// maxBlockedInput is the max number of bytes that are read ahead from a blocked client.
const maxBlockedInput = 1 << 20

// await waits until the client is served or its timeout has passed, and sends the reply. It returns false when the
// connection has ended.
func (c *conn) await() bool {
	w := c.blocked
	defer c.endBlocking()
	for {
		c.wire.SetReadDeadline(w.deadline())
		if c.srv.closing.Load() {
			w.leave()
			return false
		}
		if !w.woken.Swap(false) { // checked after the deadline was set: wake first sets woken, then the deadline
			if err := c.readInput(); err == nil {
				continue
			} else if !errors.Is(err, os.ErrDeadlineExceeded) {
				c.logEnd(err)
				w.leave()
				return false
			}
			w.woken.Store(false)
		}
		switch w.poll() {
		case alone:
			w.hold()
			if !c.beginRun().tryAlone(w) {
				w.release()
				continue
			}
			fallthrough
		case served:
			c.endBlocking() // a client that has its reply must not be listed as waiting
			ok := c.reply(w)
			w.release()
			return ok
		}
	}
}

// endBlocking removes the client from those that wait for data, if it is among them.
func (c *conn) endBlocking() {
	w := c.blocked
	if w == nil {
		return
	}
	c.srv.waiters.remove(w)
	if w.mustRetry.Load() { // data was left to this client, which has not taken it: later waiters may
		c.srv.waiters.wakeAll(w.keys)
	}
	c.info.waiter.Store(nil)
	c.blocked = nil
	c.deadline = true // so the next read sets its own deadline
}

// stopBlocking ends the wait of a connection that ends before it begins to wait: a client is gone when the replies of
// the commands before its last one are sent. Nobody must take data for it any more.
func (c *conn) stopBlocking() {
	if w := c.blocked; w != nil {
		w.leave()
		c.endBlocking()
	}
}

// readInput waits for bytes of the next commands, the end of the connection or the deadline.
func (c *conn) readInput() error {
	if len(c.wire.Input()) >= maxBlockedInput {
		// The input buffer is full. A reset of the connection is noticed without reading. Its regular end is not while
		// bytes before it do not fit into the buffer of the socket.
		return c.wire.WaitHangup()
	}
	return c.fill()
}

// tryAlone runs the waiter's command by itself, with all its locks, when the client that brought the data could not
// run it.
func (c *run) tryAlone(w *waiter) (ok bool) {
	defer c.end()
	c.tx.Begin(c.sess.Namespace)
	defer c.tx.Release()
	err := c.lockUnpaused(always, func() error {
		for _, k := range w.spec.AppendKeys(nil, w.wait.Args) {
			c.tx.AddLock(w.wait.Args[k.Arg], true) // Tx.Holds checks for it
		}
		return c.tx.Acquire()
	})
	c.tx.Tick(time.Now().UnixMilli())
	w.missed.Store(false)
	if c.moved(); err == nil && c.topology != nil {
		err = w.route(c.topology, w.spec.Flags&command.Write != 0)
	}
	if err == nil { // otherwise a slow script holds a key, and the error is the client's reply
		err = c.tryFor(w)
	}
	// The later waiters are served now, also when the data that was left to this one is not enough for it (any more).
	if err == nil || err == command.ErrNotReady && w.mustRetry.Load() {
		w.mustRetry.Store(false)
		c.serveWaiters(&request{args: w.wait.Args, spec: w.spec})
		failed := c.tx.Commit()
		if failed != nil {
			c.srv.WriteFailed(failed)
			w.mustRetry.Store(true)
			err = failed
		}
		c.settle(failed)
		c.publishDeferred(failed)
		c.batch.Flush()
	}
	return w.endAlone(err)
}

// reply sends the reply of a client that was blocked.
func (c *conn) reply(w *waiter) bool {
	switch { // the call was counted when the client was blocked
	case w.denied:
		c.srv.Stats.Rejected(w.spec, w.err)
	case w.err != nil:
		c.srv.Stats.Failed(w.spec, w.err)
	}
	if took := time.Duration(w.took.Load()); took >= c.srv.observed.Load().noteworthy {
		c.noteCall(c.sess, &request{args: w.args, spec: w.spec}, took)
	}
	if c.sess.ReplyMode != command.ReplyOn && c.sess.DropReply() {
		return true
	}
	n := w.out.Len()
	err := c.wire.Send(w.out.Bytes())
	c.countSent(n)
	c.info.lastActive.Store(int64(time.Since(c.srv.started)))
	if err != nil {
		c.logEnd(err)
		c.lost = true
	}
	c.closeAfterReply = c.closeAfterReply || w.err == errDemoted
	return err == nil && !c.closeAfterReply
}

var errUnblocked = engine.NewError("UNBLOCKED", "client unblocked via CLIENT UNBLOCK")

// Unblock ends the wait of a client with the reply for a timeout or with an error.
func (t clients) Unblock(id int64, withError bool) bool {
	s := t.srv
	c := s.byID(id)
	if c == nil {
		return false
	}
	w := c.info.waiter.Load()
	if w == nil {
		return false
	}
	if withError {
		return w.unblock(errUnblocked)
	}
	return w.unblock(nil)
}
