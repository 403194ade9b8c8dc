package session

import (
	"time"

	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/server/command"
)

// multi is a transaction that MULTI has begun: the commands that wait for EXEC.
type multi struct {
	queue  []request
	bytes  int
	failed bool // a command could not be queued: EXEC runs nothing

	switches bool        // a command may select another namespace
	login    bool        // a command may log in: the namespace after it is not known before it runs
	selected []selection // the changes of the namespace during EXEC
}

// selection says that the commands after a position in the queue ran in another namespace.
type selection struct {
	at int
	ns string
}

// Bounds of what a client may queue. (Redis has no bound but the client's query buffer.)
const (
	maxQueued      = 1 << 20
	maxQueuedBytes = 512 << 20 // default of Limits.Queued
)

var (
	errQueueFull = engine.NewError("ERR", "too many commands or bytes in the transaction")
	queuedReply  = "QUEUED"
)

// enqueue keeps a command for EXEC.
func (c *run) enqueue(r *request) {
	m := c.multi
	size := 0
	for _, a := range r.args {
		size += len(a) + 24
	}
	if r.err == nil && (len(m.queue) == maxQueued || m.bytes+size > int(c.srv.Limits.Queued.Load())) {
		r.err = errQueueFull
	}
	if r.err == nil && r.spec.Flags&command.NoMulti != 0 {
		r.err = command.ErrNoMulti
	}
	if r.err != nil {
		c.rejected(r)
		return
	}
	m.bytes += size
	args := make([][]byte, len(r.args)) // the read buffer is reused before EXEC
	text := make([]byte, 0, size)
	for i, a := range r.args {
		from := len(text)
		text = append(text, a...)
		args[i] = text[from:len(text):len(text)]
	}
	m.queue = append(m.queue, request{args: args, spec: r.spec})
	if r.spec.Flags&command.NoAuth != 0 {
		m.switches, m.login = true, true // AUTH, HELLO AUTH
	} else if r.spec.IsSelect() {
		m.switches = true
	}
	if !c.sess.DropReply() {
		c.out.SimpleString(queuedReply)
	}
	c.publish()
}

// InMulti reports whether a transaction is being queued.
func (c *conn) InMulti() bool { return c.multi != nil }

func (c *conn) BeginMulti() { c.multi = &multi{} }

// Discard forgets the transaction and the watched keys.
func (c *conn) Discard() {
	c.multi, c.sess.Asking = nil, false
	c.Unwatch()
}

// Unwatch forgets the watched keys.
func (c *conn) Unwatch() {
	if c.watch != nil {
		c.watch.Close()
		c.watch = nil
	}
}

// Watch adds keys to the watched keys: EXEC fails if one of them has changed.
func (c *run) Watch(keys [][]byte) error {
	if c.watch == nil {
		c.watch = c.srv.DB.NewWatch()
	}
	for _, k := range keys {
		c.tx.AddLock(k, false)
	}
	if err := c.tx.Acquire(); err != nil {
		return err
	}
	defer c.tx.Unlock()
	for _, k := range keys {
		if err := c.tx.Watch(c.watch, k); err != nil {
			return err
		}
	}
	return nil
}

// Exec runs the queued commands in one transaction with one commit, with the locks of all their keys and of the
// watched keys held. As in Redis, a failed command does not affect the others; a failed commit undoes all of them.
func (c *run) Exec() error {
	m := c.multi
	c.multi = nil
	defer c.Unwatch()
	c.sess.Asking = false
	if m.failed {
		return command.ErrExecAbort
	}
	defer c.passBarrier()
	defer c.tx.Release()
	for {
		err := c.execQueued(m)
		c.script.calls.settle(c.srv.Stats, !c.script.retry)
		if !c.script.retry {
			c.script.forget()
			return err
		}
		// A script needs locks that others hold: run again with these locks too.
	}
}

func (c *run) execQueued(m *multi) error {
	writes := func() bool { return c.mayWriteQueued(m) }
	err := c.lockUnpaused(writes, func() error {
		if err := c.lockQueued(m); err != nil {
			return command.ErrExecBecause(err)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if c.moved() {
		if err := c.routeQueued(m, c.topology); err != nil {
			return err
		}
	}
	defer c.unjudge(c.judge())
	if err := c.refuseQueued(m); err != nil {
		return command.ErrExecBecause(err)
	}
	start := c.out.Mark()
	now := time.Now()
	c.tx.Tick(now.UnixMilli())
	if c.watch != nil && (c.watch.Changed(c.tx.Now()) || c.watchedLeft()) {
		c.out.NullArray()
		return nil
	}
	began := c.tx.Namespace()
	c.frame = &c.exec
	c.frame.ctx = c.top.ctx
	c.frame.ctx.NoBlock, c.frame.ctx.Clock = true, now
	defer func() { c.frame, c.exec.ctx = &c.top, command.Ctx{} }()
	c.prefetch(c.userKeys, c.blindKeys)
	c.out.Array(len(m.queue))
	wrote, tooLarge := false, false
	for i := range m.queue {
		r := &m.queue[i]
		if r.err = c.refuse(r); r.err != nil {
			command.WriteError(&c.out, r.err)
			c.srv.Stats.Rejected(r.spec, r.err)
			continue
		}
		did, err := c.invoke(c.frame, r)
		wrote = wrote || did
		tooLarge = tooLarge || err == engine.ErrBatchSize
		if c.script.retry {
			c.out.Truncate(start)
			c.deferred = c.deferred[:0]
			c.script.takeWritten()
			c.uncount(m.queue[:i])
			c.tx.Release()
			c.sess.Namespace, m.selected = began, m.selected[:0]
			c.tx.Begin(began)
			return nil
		}
		if m.switches && c.sess.Namespace != c.tx.Namespace() { // SELECT, AUTH
			c.tx.SwitchNamespace(c.sess.Namespace)
			m.selected = append(m.selected, selection{i, c.sess.Namespace})
		}
	}
	if wrote && !tooLarge {
		c.tx.SwitchNamespace(began)
		selected := m.selected
		var ready []keyRef
		for i := range m.queue { // as in Redis, after the last command
			if r := &m.queue[i]; r.spec.Flags&(command.Write|command.Script) != 0 {
				ready = c.appendReady(ready, r)
			}
			if len(selected) > 0 && selected[0].at == i {
				c.tx.SwitchNamespace(selected[0].ns)
				selected = selected[1:]
			}
		}
		c.serveReady(ready)
	}
	if tooLarge { // a command has seen that the commit would fail
		err = c.committed(engine.ErrBatchSize)
	} else {
		err = c.commit()
	}
	if err != nil && !m.login {
		c.sess.Namespace = began // the transaction had no effect
	}
	return err
}

// refuseQueued returns why the state of the server does not let a queued command run. Then none of them runs.
func (c *run) refuseQueued(m *multi) error {
	for i := range m.queue {
		if err := c.limit(m.queue[i].spec.Flags); err != nil {
			return err
		}
	}
	return nil
}

// lockQueued takes the locks of a transaction's keys, each in the namespace that is selected when its command runs.
// It takes the locks of all keys when the namespace is not known before a command runs.
func (c *run) lockQueued(m *multi) error {
	return c.lockAhead(m.queue, m.login, func(i int) {
		if r := &m.queue[i]; m.switches && r.spec.IsSelect() {
			c.tx.SwitchNamespace(command.SelectedBy(&c.srv.Services, c.sess, c.tx.Namespace(), r.args))
		}
	})
}

// lockAhead takes the locks of the keys of commands, and of the watched keys, before the first command runs. enter
// switches to the namespace of a command. The locks of all keys are taken with all, and when a command changes the
// whole keyspace.
func (c *run) lockAhead(reqs []request, all bool, enter func(i int)) error {
	keys, blind := c.userKeys[:0], c.blindKeys[:0]
	all = all || c.script.all
	began := c.tx.Namespace()
	locks := c.script.appendLocks(c.locks[:0])
	for i := range reqs {
		enter(i)
		r := &reqs[i]
		if r.spec.OtherNamespace != nil {
			locks = c.appendExternal(locks, r)
		}
		all = all || r.spec.Flags&command.Exclusive != 0
		c.keys = r.spec.AppendKeys(c.keys[:0], r.args)
		for _, k := range c.keys {
			key := r.args[k.Arg]
			locks = append(locks, c.tx.LockIn(c.tx.Namespace(), key, k.Write))
			switch {
			case len(keys)+len(blind) >= segmentKeys || c.tx.Namespace() != began:
			case r.spec.Flags&command.Blind != 0:
				blind = append(blind, key)
			default:
				keys = append(keys, key)
			}
		}
	}
	c.tx.SwitchNamespace(began)
	c.userKeys, c.blindKeys, c.locks = keys, blind, locks
	c.tx.AddLocks(locks)
	if c.watch != nil {
		c.tx.LockWatched(c.watch)
	}
	c.tx.KeepLocks()
	if all {
		return c.tx.AcquireAll()
	}
	return c.tx.Acquire()
}

// abortMulti notes that a command was refused, so that EXEC runs nothing. If EXEC itself is refused, its reply says
// why, and the transaction ends.
func (c *conn) abortMulti(r *request) {
	if c.multi != nil {
		c.multi.failed = true
	}
	if r.spec != nil && r.spec.Name == "exec" {
		c.Discard()
		if !isRedirection(r.err) { // the client follows redirections
			r.err = command.ErrExecBecause(r.err)
		}
	}
}
