package session

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"time"

	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/server/command"
)

// Feed runs commands that come from a master and not from a client: no permission or setting refuses them, and the
// transaction is [engine.Tx.FromMaster]. Its methods are called by one goroutine.
type Feed struct {
	c    *conn
	reqs []request
}

// Fed is a command of a feed, for a namespace.
type Fed struct {
	Namespace string
	Args      [][]byte
}

// FeedError is the error of a command of a feed.
type FeedError struct {
	Index int // index in the commands given to Run
	Err   error
}

func (e *FeedError) Error() string { return e.Err.Error() }
func (e *FeedError) Unwrap() error { return e.Err }

// Why a feed does not run a command.
var (
	errFedUnknown = errors.New("the command does not exist here")
	errFedRefused = errors.New("the command does not belong in a stream of writes")
)

// NewFeed makes a feed of commands. addr is the master's address: commands and logs show it as the client's.
func (s *Shared) NewFeed(addr string) *Feed {
	ours, theirs := net.Pipe()
	theirs.Close() // nothing is read or written
	c := newConn(s, ours, s.lastID.Add(1))
	c.sess.Addr, c.sess.Admin, c.sess.Authorized, c.sess.Account = addr, true, true, nil
	c.fed = true
	return &Feed{c: c}
}

// Run runs commands in their order in one transaction, and commits the transaction. cmds must not be empty. first is
// called with the locks held before the first command, also before each repetition, and may write. After an error
// nothing is changed; the error of a command is a [FeedError]. Run waits for slow scripts, which refuse locks to
// others, until stop is closed.
func (f *Feed) Run(cmds []Fed, stop <-chan struct{}, first func(tx *engine.Tx)) error {
	f.reqs = f.reqs[:0]
	for i := range cmds {
		r := request{args: cmds[i].Args}
		if r.spec, r.err = f.c.resolver.Resolve(r.args); r.err == nil {
			r.err = mayFeed(r.spec)
		} else if r.spec == nil {
			r.err = errFedUnknown
		}
		if r.err != nil {
			return &FeedError{i, r.err}
		}
		f.reqs = append(f.reqs, r)
	}
	c := f.c.beginRun()
	defer func() {
		c.tx.Release()
		c.out.Reset()
		c.closeAfterReply = false
		clear(f.reqs)
		c.afterFlush()
		c.end()
	}()
	c.begin()
	for {
		err := c.feed(cmds, f.reqs, stop, first)
		c.script.calls.settle(c.srv.Stats, !c.script.retry)
		c.readClock(nil)
		c.account()
		if !c.script.retry || err != nil {
			c.script.forget()
			return err
		}
		c.tx.Release() // a script needs locks that others hold: run again with these locks too
	}
}

// mayFeed refuses commands that masters do not send.
func mayFeed(spec *command.Spec) error {
	const writes = command.Write | command.Script | command.MayReplicate
	if spec.Flags&writes == 0 && spec.FullName() != "pfcount" || spec.Flags&command.NoMulti != 0 {
		return errFedRefused
	}
	return nil
}

// feedRetry is the time until the feed tries again to take locks that a slow script has refused.
const feedRetry = 10 * time.Millisecond

// feed runs the commands. When a script needs more locks, nothing is changed and script.retry is set.
func (c *run) feed(cmds []Fed, reqs []request, stop <-chan struct{}, first func(tx *engine.Tx)) error {
	for {
		c.tx.Begin(cmds[0].Namespace)
		c.tx.FromMaster()
		err := c.lockAhead(reqs, false, func(i int) { c.enterFed(&cmds[i]) })
		if err == nil {
			break
		}
		c.tx.Release()
		if errors.Is(err, engine.ErrClosed) {
			return err
		}
		select {
		case <-stop:
			return err
		case <-time.After(feedRetry):
		}
	}
	now := time.Now()
	c.tx.Tick(now.UnixMilli())
	first(c.tx)
	c.frame = &c.exec
	c.frame.ctx = c.top.ctx
	c.frame.ctx.NoBlock, c.frame.ctx.Clock = true, now
	defer func() { c.frame, c.exec.ctx = &c.top, command.Ctx{} }()
	c.prefetch(c.userKeys, c.blindKeys)
	if !slices.ContainsFunc(cmds, func(f Fed) bool { return f.Namespace != cmds[0].Namespace }) {
		c.prefetchAhead(reqs)
	}
	for i := range reqs {
		c.enterFed(&cmds[i])
		_, err := c.invoke(c.frame, &reqs[i])
		if c.script.retry || err != nil {
			c.deferred = c.deferred[:0]
			c.script.takeWritten()
			if c.script.retry {
				return nil
			}
			return &FeedError{i, err}
		}
		c.out.Reset()
	}
	err := c.tx.Commit()
	c.publishDeferred(err)
	if err != nil {
		c.srv.WriteFailed(err)
		return fmt.Errorf("commit: %w", err)
	}
	c.srv.wakeLocked(c.tx)
	return nil
}

// enterFed switches to the namespace of a command.
func (c *run) enterFed(f *Fed) {
	c.tx.SwitchNamespace(f.Namespace)
	c.sess.Namespace = f.Namespace
}
