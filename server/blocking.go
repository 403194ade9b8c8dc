package server

import (
	"errors"
	"maps"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/server/command"
	"github.com/basaltdb/basalt/server/resp"
)

// Clients that wait (BLPOP, XREAD BLOCK, ...) are served by the one that brings the data: with the key's lock held
// and in its own transaction it tries their commands again, first come first served, so that nobody else can take
// the data between the push and the pop, and one commit holds both. The goroutine of a client that waits waits for
// its socket, so that it notices the end of the connection; 10,000 of them cost memory only.

// waiter is a client that waits for data.
type waiter struct {
	conn  *conn
	spec  *command.Spec
	wait  command.Wait
	keys  []string // metadata keys, without repetition
	until time.Time

	// mu is held while somebody tries to serve the waiter, and from a success on until the commit.
	mu    sync.Mutex
	state waitState
	out   resp.Writer // the reply
	err   error       // what it tells, if anything
	// denied: the client may not run the command any more.
	denied bool
	// took is how long the command has run, without the wait, as time.Duration: for the slow log.
	took atomic.Int64
	// args are those of the client; wait.Args may be others (XREAD with $).
	args [][]byte
	// missed: somebody had data while mu was held.
	missed atomic.Bool
	// woken: the read deadline was set to wake the connection.
	woken atomic.Bool
	// owed: there was data for the waiter, which is to fetch it by itself, and those behind it were not served. It is
	// set while mu is held.
	owed atomic.Bool
}

type waitState uint8

const (
	waiting  waitState = iota
	served             // out is the reply
	alone              // the connection tries by itself
	finished           // it waits no longer
)

// waitTable knows who waits for which keys.
type waitTable struct {
	n     atomic.Int64 // clients that wait
	mu    sync.Mutex
	byKey map[string][]*waiter // in the order in which they came
	acks  map[*waiter]bool     // those who wait for replicas
}

func (t *waitTable) add(w *waiter) {
	t.mu.Lock()
	if t.byKey == nil {
		t.byKey = map[string][]*waiter{}
	}
	for _, k := range w.keys {
		t.byKey[k] = append(t.byKey[k], w)
	}
	if w.wait.Enough != nil {
		if t.acks == nil {
			t.acks = map[*waiter]bool{}
		}
		t.acks[w] = true
	}
	t.mu.Unlock()
	t.n.Add(1)
}

func (t *waitTable) remove(w *waiter) {
	t.mu.Lock()
	for _, k := range w.keys {
		list := t.byKey[k]
		if i := slices.Index(list, w); i >= 0 {
			// A new slice: others may be going through the old one.
			if list = slices.Concat(list[:i], list[i+1:]); len(list) == 0 {
				delete(t.byKey, k)
			} else {
				t.byKey[k] = list
			}
		}
	}
	delete(t.acks, w)
	t.mu.Unlock()
	t.n.Add(-1)
}

// acked lets those who wait for replicas, and for whom enough have acknowledged, try by themselves.
func (t *waitTable) acked() {
	if t.n.Load() == 0 {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for w := range t.acks {
		if w.wait.Enough() {
			w.missed.Store(true)
			w.wake()
		}
	}
}

// counts returns how many keys are waited for, and how many of them also to be deleted.
func (t *waitTable) counts() (all, gone int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, list := range t.byKey {
		if slices.ContainsFunc(list, func(w *waiter) bool { return w.wait.Gone }) {
			gone++
		}
	}
	return len(t.byKey), gone
}

// wakeAll lets those who wait for some keys try by themselves.
func (t *waitTable) wakeAll(nsKeys []string) {
	for _, k := range nsKeys {
		for _, w := range t.of([]byte(k)) {
			w.wake()
		}
	}
}

// of returns those who wait for a key. The slice is not changed afterwards.
func (t *waitTable) of(nsKey []byte) []*waiter {
	t.mu.Lock()
	defer t.mu.Unlock()
	list := t.byKey[string(nsKey)]
	return list[:len(list):len(list)]
}

// keys returns the keys that somebody waits for.
func (t *waitTable) keys() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Collect(maps.Keys(t.byKey))
}

// Block lets the client wait. The locks of the keys are held, so nothing is missed.
func (c *run) Block(wait command.Wait) error {
	w := &waiter{conn: c.conn, spec: c.frame.ctx.Spec, wait: wait}
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
	c.blocked = w
	c.info.waiter.Store(w)
	c.srv.waiters.add(w)
	if wait.Enough != nil && wait.Enough() { // before it was there to be told
		w.wake()
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

// serveWaiters serves those who wait for the keys that a command has written. Its locks are held.
func (c *run) serveWaiters(r *request) {
	c.serveReady(c.appendReady(nil, r))
}

// appendReady appends the keys that a command has written, if anybody waits.
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
	if r.spec.Foreign != nil {
		if other, arg, ok := r.spec.Foreign(&c.srv.services, c.sess, ns, r.args); ok {
			ready = append(ready, keyRef{other, r.args[arg]})
		}
	}
	return ready
}

// serveReady serves those who wait for keys, and then those who wait for what they in turn have written: whoever waits for one
// of several keys must not, as it is served by what another waiter wrote, take the data of a key from those who came earlier.
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

// serveKey serves those who wait for a key of the transaction's namespace, and appends what they have written to ready.
func (c *run) serveKey(k keyRef, ready []keyRef) []keyRef {
	turn := false // somebody is to fetch it by itself: those behind come afterwards
	for _, w := range c.srv.waiters.of(c.tx.NSKey(k.key)) {
		if turn && !w.wait.Gone || !w.mayServe(c.tx, k.key) {
			continue
		}
		if !c.serveOne(w) {
			turn = turn || w.owed.Load()
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

// mayServe reports whether there may be something for the waiter: the record is in memory, and the handler need not
// be tried by a thousand waiters for one element.
func (w *waiter) mayServe(tx *engine.Tx, key []byte) bool {
	rec, err := tx.Look(key)
	if err != nil {
		return false
	}
	return rec.Exists && rec.Type == w.wait.Type || w.wait.Gone && (!rec.Exists || rec.Type != w.wait.Type)
}

// serveOne tries the command of a waiter in this connection's transaction. A waiter that was served stays locked until
// the commit, see settle.
func (c *run) serveOne(w *waiter) bool {
	for {
		w.missed.Store(true)
		if !w.mu.TryLock() {
			return false // who holds it sees that something was missed
		}
		w.missed.Store(false)
		if w.state == alone {
			w.missed.Store(true)
			w.mu.Unlock()
			return false
		}
		if w.state != waiting {
			w.mu.Unlock()
			return false
		}
		err := c.tryFor(w)
		if err == nil {
			w.state = served
			w.hold()
			c.served = append(c.served, w)
			return true
		}
		if err != command.ErrNotReady && err != command.ErrNeedLocks {
			w.fail(err)
			w.state = served
			c.served = append(c.served, w)
			return true
		}
		again := w.missed.Load()
		if err == command.ErrNeedLocks {
			w.owed.Store(true)
		}
		w.mu.Unlock()
		if err == command.ErrNeedLocks || again {
			w.wake() // it tries by itself
			return false
		}
		if !w.missed.Load() {
			return false
		}
	}
}

// tryFor runs the command of a waiter in this connection's transaction; its reply goes to out. The error is not yet the
// reply: it may be ErrNotReady.
func (c *run) tryFor(w *waiter) error {
	w.out.Reset()
	began := time.Now()
	err := w.permitted()
	w.denied = err != nil
	if err == nil {
		f := &c.wait
		f.ctx = command.Ctx{Out: &w.out, Tx: c.tx, Sess: w.conn.sess, Srv: &c.srv.services, Retry: true, Waited: &w.wait}
		f.req = request{args: w.wait.Args, spec: w.spec}
		_, err = c.invoke(f, &f.req)
		f.ctx, f.req = command.Ctx{}, request{}
	}
	w.took.Add(int64(time.Since(began)))
	return err
}

// settle ends the serving of others after the commit: they get their replies, or wait on if it has failed.
func (c *run) settle(err error) {
	for i, w := range c.served {
		c.served[i] = nil
		if err != nil {
			w.out.Reset()
			w.state, w.err, w.denied = waiting, nil, false
			w.release()
		}
		w.mu.Unlock()
		if err == nil || w.missed.Load() {
			w.wake()
		}
	}
	c.served = c.served[:0]
}

// wake makes the connection look what has become of its wait.
func (w *waiter) wake() {
	w.woken.Store(true)
	w.conn.wire.Wake()
}

// hold keeps back what tracking tells the client of the commit that serves it: the reply comes first, as everywhere.
func (w *waiter) hold() {
	if t := w.conn.info.track.Load(); t != nil {
		t.begin()
	}
}

// release sends what was kept back.
func (w *waiter) release() {
	if t := w.conn.info.track.Load(); t != nil {
		t.idle(nil)
	}
}

// maxBlockedInput is how many bytes are read ahead from a client that waits.
const maxBlockedInput = 1 << 20

// await waits until the client was served or its time is up, and sends the reply. It returns false when the
// connection has ended.
func (c *conn) await() bool {
	w := c.blocked
	leave := func() {
		if c.blocked == nil {
			return
		}
		c.srv.waiters.remove(w)
		if w.owed.Load() { // it has left what was there to those behind it
			c.srv.waiters.wakeAll(w.keys)
		}
		c.info.waiter.Store(nil)
		c.blocked = nil
		c.deadline = true // so that the next read sets its own
	}
	defer leave()
	for {
		c.wire.SetReadDeadline(w.until)
		if c.srv.closing.Load() {
			return w.give()
		}
		if !w.woken.Swap(false) { // looked at after the deadline was set: wake sets it afterwards
			if err := c.readAhead(); err == nil {
				continue
			} else if !errors.Is(err, os.ErrDeadlineExceeded) {
				c.logEnd(err)
				w.give()
				return false
			}
			w.woken.Store(false)
		}
		switch w.look() {
		case alone:
			w.hold()
			if !c.beginRun().tryAlone(w) {
				w.release()
				continue
			}
			fallthrough
		case served:
			leave() // who has the reply must not be found waiting
			ok := c.reply(w)
			w.release()
			return ok
		}
	}
}

// readAhead waits for bytes of the commands to come, or for the deadline.
func (c *conn) readAhead() error {
	if len(c.wire.Input()) >= maxBlockedInput {
		// What the client has sent is enough for now; its end is not noticed then.
		return c.wire.WaitDeadline()
	}
	c.wire.Grow(0)
	n, err := c.wire.Fill()
	if n > 0 {
		c.info.netIn.Add(int64(n))
		c.srv.stats.NetIn.Add(int64(n))
		return nil
	}
	return err
}

// look decides what comes next: the reply is there, or its time is up, or it is to try by itself.
func (w *waiter) look() waitState {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.state == served:
	case !w.until.IsZero() && !time.Now().Before(w.until):
		w.wait.Null(&w.out)
		w.state = served
	case w.state == waiting:
		w.state = alone
	}
	return w.state
}

// give ends the wait of a client that is gone.
func (w *waiter) give() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.state == waiting {
		w.state = finished
	}
	return false
}

// tryAlone is a run of one command: that of the waiter, with all its locks, for the cases in which the one who brought the
// data could not run it.
func (c *run) tryAlone(w *waiter) (ok bool) {
	defer c.end()
	c.tx.Begin(c.sess.Namespace)
	defer c.tx.Release()
	err := c.lockUnpaused(always, func() error {
		for _, k := range w.spec.AppendKeys(nil, w.wait.Args) {
			c.tx.AddLock(w.wait.Args[k.Arg], true) // Tx.Holds asks for that
		}
		return c.tx.Acquire()
	})
	c.tx.Tick(time.Now().UnixMilli())
	w.missed.Store(false)
	if err == nil { // otherwise a slow script holds a key, and the client gets that for its reply
		err = c.tryFor(w)
	}
	if err == nil {
		w.owed.Store(false) // those behind it are served now
		c.serveWaiters(&request{args: w.wait.Args, spec: w.spec})
		if err = c.tx.Commit(); err != nil {
			c.srv.writeFailed(err)
			w.owed.Store(true)
		}
		c.settle(err)
		c.publishDeferred(err)
		c.batch.Flush()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if err == command.ErrNotReady {
		w.owed.Store(false) // there is nothing for those behind it either
		w.state = waiting
		if w.missed.Load() {
			w.woken.Store(true) // once more
		}
		return false
	}
	if err != nil {
		w.out.Reset()
		w.fail(err)
	}
	w.state = served
	return true
}

// fail makes an error the reply.
func (w *waiter) fail(err error) {
	command.WriteError(&w.out, err)
	w.err = err
}

// reply sends the reply of a client that has waited.
func (c *conn) reply(w *waiter) bool {
	switch { // the call was counted when it began to wait
	case w.denied:
		c.srv.stats.Rejected(w.spec, w.err)
	case w.err != nil:
		c.srv.stats.Failed(w.spec, w.err)
	}
	if took := time.Duration(w.took.Load()); took >= c.srv.observed.Load().noteworthy {
		c.noteCall(c.sess, &request{args: w.args, spec: w.spec}, took)
	}
	if c.sess.ReplyMode != command.ReplyOn && c.sess.DropReply() {
		return true
	}
	n := w.out.Len()
	err := c.wire.Send(w.out.Bytes())
	c.info.netOut.Add(int64(n))
	c.srv.stats.NetOut.Add(int64(n))
	c.info.lastActive.Store(time.Now().UnixMilli())
	if err != nil {
		c.logEnd(err)
		c.lost = true
	}
	return err == nil
}

var errUnblocked = engine.NewError("UNBLOCKED", "client unblocked via CLIENT UNBLOCK")

// Unblock ends the wait of a client, with the reply of a timeout or an error.
func (t clients) Unblock(id int64, withError bool) bool {
	s := t.srv
	s.mu.Lock()
	c := s.conns[id]
	s.mu.Unlock()
	if c == nil {
		return false
	}
	w := c.info.waiter.Load()
	if w == nil {
		return false
	}
	w.mu.Lock()
	ok := w.state == waiting
	if ok {
		w.state = served
		if withError {
			w.fail(errUnblocked)
		} else {
			w.wait.Null(&w.out)
		}
	}
	w.mu.Unlock()
	if ok {
		w.wake()
	}
	return ok
}

// keysFlushed wakes the waiters of keys that a flush has deleted, see command.Server.
func (s *Server) keysFlushed() {
	if s.waiters.n.Load() > 0 {
		s.waiters.keyspaceChanged()
	}
}

// keyspaceChanged lets those try again who also wait for the end of a key: a flush has no keys to find them by.
func (t *waitTable) keyspaceChanged() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, list := range t.byKey {
		for _, w := range list {
			if w.wait.Gone {
				w.missed.Store(true)
				w.wake()
			}
		}
	}
}
