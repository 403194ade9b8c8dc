package session

import (
	"errors"
	"io"
	"net"
	"os"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/server/command"
	"github.com/basaltdb/basalt/server/pubsub"
	"github.com/basaltdb/basalt/server/resp"
	"github.com/basaltdb/basalt/server/tracking"
	"github.com/basaltdb/basalt/server/wire"
)

// Sizes of a connection's buffers.
const (
	keepReplies    = 128 << 10 // a larger reply buffer is released after use
	maxReplyBuffer = 64 << 10  // replies are sent when they have more bytes than this
	maxDecoded     = 4096      // max number of commands decoded before they are run
)

// conn is one client connection. Its goroutine reads, runs and replies; other goroutines only read the fields of info
// and close the socket.
type conn struct {
	srv  *Shared
	wire *wire.Conn
	sess *command.Session
	dec  resp.Decoder
	// resolver finds the commands in the table.
	resolver command.Resolver
	multi    *multi        // MULTI was called
	watch    *engine.Watch // keys of WATCH, nil = none
	blocked  *waiter       // the client waits for data
	subs     pubsub.Client
	track    *tracking.Client // CLIENT TRACKING is on
	// monitoring: MONITOR was called. monitorAll: an administrator has called MONITOR, and sees the commands of all
	// namespaces. monitorAll does not change while other goroutines may read it.
	monitoring, monitorAll bool
	peak                   replyPeak
	pausing                bool // CLIENT PAUSE is among the commands of the EXEC that runs
	closeAfterReply        bool
	owner                  func(*wire.Conn) // owner of the connection after this run, see Detach; nil = the session
	detached               bool             // owner has the connection now
	lost                   bool             // replies can no longer be sent
	fed                    bool             // the commands come from a master, see Feed
	deadline               bool             // a read deadline is set
	shaking                atomic.Bool      // the TLS handshake is under way
	done                   chan struct{}
	onEnd                  []func()
	stopped                sync.Once   // done is closed
	gone                   atomic.Bool // the connection has ended and no longer counts as a client
	info                   connInfo
}

// connInfo is what CLIENT LIST shows of a connection. The connection's goroutine writes it, others read it.
type connInfo struct {
	created    time.Time
	lastActive atomic.Int64 // nanoseconds since the start of the sessions, whatever the system's clock is set to
	qbuf       atomic.Int64 // bytes in the read buffer
	qcap       atomic.Int64 // size of the read buffer, 0 = no buffer
	replyPeak  atomic.Int64 // see replyPeak
	argv       atomic.Int64 // argument bytes of a command that waits for the end of a pause
	lastCmd    atomic.Pointer[command.Spec]
	view       atomic.Pointer[sessionView]
	waiter     atomic.Pointer[waiter]
	track      atomic.Pointer[tracking.Client]
	paused     atomic.Bool // waits for the end of CLIENT PAUSE
	leaving    atomic.Bool // has sent QUIT
	cmds       atomic.Int64
	netIn      atomic.Int64
	netOut     atomic.Int64
	fd         int
	unix       bool // a client of the Unix socket
	remote     bool // a client on another host
}

// sessionView is the part of the session that other goroutines see. It is replaced, never changed.
type sessionView struct {
	name, libName, libVer, namespace, user string
	proto                                  int
	noEvict, noTouch, closing              bool
	multi, watch                           int
	subs                                   [3]int // by command.SubscriptionKind
	subBytes                               int    // bytes of the names
	monitor, replica                       bool
	queued                                 int // bytes of the commands in MULTI
	watched                                *engine.Watch
}

func newConn(s *Shared, nc net.Conn, id int64) *conn {
	c := &conn{srv: s}
	c.wire = wire.New(nc, wire.Limits{Hard: c.outputLimit, Soft: c.softLimit})
	c.subs.Out = c.wire
	c.sess = &command.Session{ID: id, Proto: 2, Namespace: cf.DefaultNamespace, User: "default"}
	c.sess.Addr, c.sess.LAddr = nc.RemoteAddr().String(), nc.LocalAddr().String()
	c.sess.Local = isLocal(nc.RemoteAddr())
	if nc.RemoteAddr().Network() == "unix" { // the client's end has no name
		c.info.unix = true
		c.sess.Addr, c.sess.LAddr = nc.LocalAddr().String()+":0", nc.LocalAddr().String()+":0"
	}
	c.info.remote = !wire.OnThisMachine(nc.LocalAddr(), nc.RemoteAddr())
	if id, ok := s.Auth.Anonymous(); ok {
		c.sess.SetIdentity(id)
	}
	c.info.created = time.Now()
	c.info.lastActive.Store(int64(c.info.created.Sub(s.started)))
	c.done = make(chan struct{})
	c.info.fd = c.wire.FD()
	c.resolver.Use(s.Services.Table)
	c.publish()
	return c
}

// publish makes the present state of the session visible to other goroutines.
func (c *conn) publish() {
	s := c.sess
	v := sessionView{
		name: s.Name, libName: s.LibName, libVer: s.LibVer, namespace: s.Namespace, user: s.User, proto: s.Proto,
		noEvict: s.NoEvict, noTouch: s.NoTouch, closing: c.closeAfterReply, multi: -1,
		monitor: c.monitoring, replica: c.detached, watched: c.watch,
	}
	v.subs, v.subBytes = c.subs.Sizes()
	c.subs.SetProto(v.proto)
	if c.multi != nil {
		v.multi, v.queued = len(c.multi.queue), c.multi.bytes
	}
	if c.watch != nil {
		v.watch = c.watch.Len()
	}
	if old := c.info.view.Load(); old == nil || *old != v {
		c.info.view.Store(&v)
	}
}

// drainGrace is the time that a client has, after its last command, to read the replies still queued for it.
const drainGrace = time.Minute

// serve reads and runs commands until the connection ends.
func (c *conn) serve() {
	defer c.close()
	defer func() {
		// Panics of handlers are caught where handlers are called. A panic caught here is a bug of the session: the
		// server keeps running.
		if p := recover(); p != nil {
			c.srv.Log.Error("panic in a connection", zap.Any("panic", p), zap.ByteString("stack", debug.Stack()))
		}
	}()
	if c.greet() {
		c.converse()
		if c.owner != nil && !c.lost && !c.closeAfterReply {
			c.handOver()
		}
	}
	c.wire.CloseWrite()
	if c.wire.Pending() > 0 {
		if !c.srv.closing.Load() {
			c.wire.SetWriteDeadline(time.Now().Add(drainGrace))
		}
		c.wire.Drain()
	}
}

// converse reads and runs commands until the client or the server ends the connection.
func (c *conn) converse() {
	defer c.stopBlocking()
	for {
		if err := c.readMore(); err != nil {
			c.logEnd(err)
			return
		}
		ok := c.process()
		for ok && c.blocked != nil {
			// The input that the client has sent meanwhile is already in the buffer.
			ok = c.await() && (len(c.wire.Input()) == 0 || c.process())
		}
		if !ok {
			return
		}
	}
}

// readMore waits for bytes and appends them to the buffer.
func (c *conn) readMore() error {
	if int64(len(c.wire.Input())) > c.srv.Limits.queryBuffer() {
		return errQueryLimit
	}
	c.wire.Grow(c.dec.Need())
	var since time.Time // when the wait began
	for {
		if t := c.idleLimit(); t > 0 || c.deadline {
			var at time.Time
			if t > 0 {
				if since.IsZero() {
					since = time.Now()
				}
				at = since.Add(t)
			}
			c.wire.SetReadDeadline(at)
			c.deadline = t > 0
		}
		if c.srv.closing.Load() { // checked after the deadline is set: Close sets closing first, then its own deadline
			return net.ErrClosed
		}
		err := c.fill()
		if err == nil {
			c.info.qbuf.Store(int64(len(c.wire.Input())))
			c.info.qcap.Store(int64(c.wire.InputCap()))
			return nil
		}
		if !errors.Is(err, os.ErrDeadlineExceeded) || c.srv.closing.Load() {
			return err
		}
		// The deadline passes when the timeout has passed, and also when the setting timeout changes.
		if since.IsZero() {
			since = c.srv.started.Add(time.Duration(c.info.lastActive.Load()))
		}
		if t := c.idleLimit(); t > 0 && time.Since(since) >= t {
			return err
		}
		c.deadline = true
	}
}

// fill waits for bytes, appends them to the input and counts them.
func (c *conn) fill() error {
	n, err := c.wire.Fill()
	if n == 0 {
		return err
	}
	c.info.netIn.Add(int64(n))
	c.srv.Stats.NetIn.Add(int64(n))
	c.srv.Stats.Reads.Add(1)
	return nil
}

// process decodes and runs the commands in the input. It returns false when the session ends.
func (c *conn) process() bool {
	w, ended := c.beginRun(), false
	defer func() {
		if !ended { // serve logs the panic
			w.tx.Release()
		}
	}()
	ok := w.runAll()
	if w.track != nil {
		w.track.TakeHeld(&w.out)
	}
	if !w.flush() {
		ok = false
	}
	w.afterFlush()
	w.end()
	ended = true
	return ok
}

// afterFlush sends the messages that must not be sent before the replies.
func (c *run) afterFlush() {
	if c.track != nil {
		c.track.Idle(&c.batch)
	}
	if c.batch.Pending() {
		c.batch.Flush()
	}
}

// runAll decodes and runs the commands in the input. It returns false when the session ends after its replies.
func (c *run) runAll() bool {
	used, input := 0, c.wire.Input()
	for used < len(input) {
		c.limits()
		c.reqs, c.argv = c.reqs[:0], c.argv[:0]
		var protoErr error
		browser := false
		limit := maxDecoded
		if !c.sess.Authorized {
			limit = 1 // the input after AUTH is decoded with other limits
		}
		for len(c.reqs) < limit && used < len(input) {
			from := len(c.argv)
			argv, n, err := c.dec.Next(input[used:], c.argv)
			if err != nil {
				protoErr = err
				break
			}
			if n == 0 {
				break
			}
			used += n
			c.argv = argv
			if args := argv[from:len(argv):len(argv)]; len(args) > 0 {
				r := request{args: args}
				r.spec, r.err = c.resolver.Resolve(args)
				if r.spec == nil && sentByBrowser(args[0]) {
					browser = true
					break
				}
				c.reqs = append(c.reqs, r)
				if r.err == nil && (r.spec.Flags&command.Waits != 0 || r.spec.MayBlock(r.args)) {
					break // the commands after this one may have to wait
				}
			}
		}
		if len(c.reqs) == 0 && protoErr == nil && !browser {
			break
		}
		c.execute()
		c.account()
		if c.sampleIn -= len(c.reqs); c.sampleIn <= 0 {
			c.sampleKeys()
		}
		if protoErr != nil && !c.closeAfterReply {
			command.WriteError(&c.out, protoErr)
			c.closeAfterReply = true
			c.srv.Stats.ProtocolErrors.Add(1)
		}
		if browser && !c.closeAfterReply {
			c.refuseBrowser()
		}
		if c.closeAfterReply {
			return false
		}
		if c.blocked != nil || c.owner != nil {
			break
		}
	}
	if c.wire.Consume(used) {
		c.forget()
	}
	c.info.qbuf.Store(int64(len(c.wire.Input())))
	if len(c.wire.Input()) > 0 {
		c.info.qcap.Store(int64(c.wire.InputCap()))
	} else {
		c.info.qcap.Store(0) // the next read releases an empty buffer while it waits
	}
	return c.owner == nil
}

// limits sets the decoder's limits for the client as it is now.
func (c *conn) limits() {
	c.dec.Limits.Unauthenticated = !c.sess.Authorized
	c.dec.Limits.MaxBulk = c.srv.Limits.Bulk.Load()
}

// flush sends the replies. It returns false when the connection must end.
func (c *run) flush() bool {
	if c.batch.Pending() {
		c.batch.Flush()
	}
	n := c.out.Len()
	if n == 0 && !c.holding { // CLIENT REPLY may have dropped the reply that messages wait for
		return true
	}
	c.holding = false
	if c.out.Overflowed() {
		c.out.Release(keepReplies)
		return c.sent(0, errReplyLimit)
	}
	// A large buffer is handed over below. The connection may keep it, unless its capacity is much larger than its
	// contents.
	parts, last := c.out.Parts()
	for _, part := range parts {
		if err := c.wire.ReplyPart(part, true); err != nil {
			break // the last part has the same error
		}
	}
	err := c.wire.Reply(last, cap(last) > keepReplies && len(last) > cap(last)/2)
	ok := c.sent(n, err)
	c.out.Release(keepReplies)
	return ok
}

// flushMany sends the replies if they have more than maxReplyBuffer bytes; no locks are held. The group of calls that
// are measured together ends before: the lengths of its replies show which call was slow.
func (c *run) flushMany() {
	if c.out.Len() > maxReplyBuffer {
		c.readClock(nil)
		c.flush()
	}
}

// sent notes that n bytes, all of the replies so far, were sent with the result err.
func (c *run) sent(n int, err error) bool {
	c.countSent(n)
	if c.peak.note(n, c.clock) {
		c.info.replyPeak.Store(int64(c.peak.get()))
	}
	c.out.Reset()
	if err != nil {
		if !c.lost {
			c.logEnd(err)
		}
		c.lost, c.closeAfterReply = true, true
		return false
	}
	return true
}

// countSent counts a write of n bytes of replies.
func (c *conn) countSent(n int) {
	c.info.netOut.Add(int64(n))
	c.srv.Stats.NetOut.Add(int64(n))
	c.srv.Stats.Writes.Add(1)
}

// TakeReply sends the beginning of a long reply, and waits while the client still has much of the reply to read.
// While the transaction holds locks TakeReply does nothing. For a lost client the reply is dropped as it is made.
// Messages to other clients are sent first: they must not wait for this client.
func (c *run) TakeReply() {
	switch {
	case c.lost:
		c.out.Reset()
	case !c.tx.Locked():
		c.batch.Flush()
		n := c.out.Len()
		parts, last := c.out.Parts()
		for _, part := range parts {
			c.wire.ReplyPart(part, true) // the last part has the same error
		}
		c.sent(n, c.wire.ReplyPart(last, false))
	}
}

func (c *conn) logEnd(err error) {
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, net.ErrClosed):
	case errors.Is(err, errReplyLimit):
		c.srv.Stats.OutputLimit.Add(1)
		c.srv.Log.Warn("a client was disconnected: its reply cannot leave in parts, and is too long to be kept in memory",
			zap.String("addr", c.sess.Addr), zap.Int64("id", c.sess.ID), zap.Int("limit", c.replyLimit()))
	case errors.Is(err, wire.ErrOutputLimit):
		c.srv.Stats.OutputLimit.Add(1)
		c.srv.Log.Warn("a client that does not read its replies was disconnected", zap.String("addr", c.sess.Addr),
			zap.Int64("id", c.sess.ID))
	case errors.Is(err, errQueryLimit):
		c.srv.Stats.QueryLimit.Add(1)
		c.srv.Log.Warn("a client that does not complete its command was disconnected",
			zap.String("addr", c.sess.Addr), zap.Int64("id", c.sess.ID), zap.Int("bytes", len(c.wire.Input())))
	case errors.Is(err, os.ErrDeadlineExceeded):
		c.srv.Log.Debug("an idle client was disconnected", zap.String("addr", c.sess.Addr))
	default:
		c.srv.Log.Debug("a connection ended", zap.String("addr", c.sess.Addr), zap.Error(err))
	}
}

func (c *conn) close() {
	if !c.lost && errors.Is(c.wire.Err(), wire.ErrOutputLimit) {
		c.logEnd(wire.ErrOutputLimit) // another connection has filled the queue of this client
	}
	c.kill()
	c.Unwatch()
	c.UnsubscribeAll()
	c.StopMonitor()
	c.untrack(nil)
	for _, f := range c.onEnd {
		f()
	}
	c.srv.remove(c)
}

// OnEnd registers a function that is called when the connection has ended and runs no command any more. The result
// kills the connection; any goroutine may call it.
func (c *conn) OnEnd(f func()) (kill func()) {
	c.onEnd = append(c.onEnd, f)
	return func() { c.kill() }
}

// kill ends the connection, and reports whether it was still open; any goroutine may call it. A running command is
// finished first.
func (c *conn) kill() bool {
	first := c.gone.CompareAndSwap(false, true)
	c.stopWaiting()
	c.wire.Close()
	return first
}

// over reports whether no further command runs, although the client has sent it: CLIENT KILL has ended the connection,
// or the server's time to stop is over.
func (c *conn) over() bool { return c.gone.Load() || c.srv.ended() }

// stopWaiting makes a waiting handler give up.
func (c *conn) stopWaiting() { c.stopped.Do(func() { close(c.done) }) }

// Done is closed when the connection or the server is being closed.
func (c *conn) Done() <-chan struct{} { return c.done }

// CloseAfterReply ends the connection once the replies so far are sent (QUIT, CLIENT KILL of the own connection). Who
// has seen the reply sees no subscription of the connection any more, as in Redis.
func (c *conn) CloseAfterReply() {
	c.closeAfterReply = true
	c.info.leaving.Store(true)
	c.UnsubscribeAll()
}

// SetProto switches the protocol of the replies.
func (c *run) SetProto(v int) {
	c.sess.Proto = v
	c.out.Proto = v
}
