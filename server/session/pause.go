package session

import (
	"errors"
	"os"
	"sync"
	"time"

	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/server/command"
	"github.com/basaltdb/basalt/server/lua"
	"github.com/basaltdb/basalt/server/sweep"
)

// pause is a pause of CLIENT PAUSE. Clients wait for its end before they take locks. CLIENT PAUSE waits for the
// clients that held locks when the pause began, and a client that takes locks later checks for a pause again. So
// after the reply to CLIENT PAUSE nothing is written until the pause ends.
type pause struct {
	until time.Time
	all   bool // reads too

	mu      sync.Mutex
	over    bool // ended, or replaced by another pause
	waiting map[*conn]struct{}
}

// Pause makes clients wait with their writes, or with all commands. A pause that is already in force is not
// shortened, and a pause of all commands does not become a pause of writes. While a slow script that writes is
// running, no pause begins: Pause returns the error that other clients get when they need the script's locks.
func (s *Shared) Pause(d time.Duration, all bool) error {
	p, old := s.beginPause(d, all)
	if err := s.DB.Barrier(); err != nil {
		s.observe(func(o *observed) {
			if o.pause == p {
				o.pause = old
			}
		})
		p.end()
		return err
	}
	old.end()
	return nil
}

// beginPause puts the pause in force. It also returns the pause that was in force until now (nil = none), which the
// caller must end.
func (s *Shared) beginPause(d time.Duration, all bool) (p, old *pause) {
	p = &pause{until: time.Now().Add(d), all: all, waiting: map[*conn]struct{}{}}
	s.observe(func(o *observed) {
		old = o.pause
		if old != nil && old.active() {
			p.all = p.all || old.all
			if old.until.After(p.until) {
				p.until = old.until
			}
		}
		o.pause = p
	})
	return p, old
}

// Pause is CLIENT PAUSE. Inside EXEC, which holds locks, Pause cannot wait for the locks of other clients: EXEC does
// so before it replies, see passBarrier. The commands after CLIENT PAUSE in the transaction are not paused.
func (c *run) Pause(d time.Duration, all bool) error {
	if !c.inTx() {
		return c.srv.Pause(d, all)
	}
	if err := c.srv.DB.Blocked(); err != nil {
		return err
	}
	_, old := c.srv.beginPause(d, all)
	old.end()
	c.pausing = true
	return nil
}

// passBarrier waits, if CLIENT PAUSE was among the commands of EXEC, until all locks taken before the pause are
// released. It does not wait for a script that has become slow meanwhile.
func (c *conn) passBarrier() {
	if c.pausing {
		c.pausing = false
		c.srv.DB.Barrier()
	}
}

// Unpause ends the pause, unless it belongs to a failover.
func (t clients) Unpause() {
	if !t.srv.FailingOver() {
		t.srv.Unpause()
	}
}

// Unpause ends the pause, if there is one.
func (s *Shared) Unpause() {
	var old *pause
	s.observe(func(o *observed) { old, o.pause = o.pause, nil })
	old.end()
	s.Unpaused()
}

// Paused reports whether there is a pause: then nothing expires either, as in Redis. (A key whose time has passed
// is not seen, but its events are published after the pause.)
func (s *Shared) Paused() bool { return s.presentPause() != nil }

// presentPause returns the current pause, nil = none. (A sweep begins before anything is observed.)
func (s *Shared) presentPause() *pause {
	if o := s.observed.Load(); o != nil && o.pause != nil && o.pause.active() {
		return o.pause
	}
	return nil
}

// PausedUntil returns when the current pause ends; ok is false when there is no pause.
func (s *Shared) PausedUntil() (end time.Time, ok bool) {
	if p := s.presentPause(); p != nil {
		return p.until, true
	}
	return end, false
}

// MayExpire returns an error when keys must not expire: during a pause, and on a replica. If the caller holds a lock, a
// nil result stays true until the lock is released.
func (s *Shared) MayExpire() error {
	if s.DB.IsReplica() {
		return sweep.ErrNotHere
	}
	if s.Paused() {
		return sweep.ErrPaused
	}
	return nil
}

// forgetPause removes a pause that is over, so that the pipeline no longer checks it.
func (s *Shared) forgetPause() {
	if p := s.observed.Load().pause; p != nil && !p.active() {
		s.observe(func(o *observed) {
			if o.pause == p {
				o.pause = nil
			}
		})
		p.end()
	}
}

func (p *pause) active() bool { return time.Now().Before(p.until) }

// end wakes the waiting clients.
func (p *pause) end() {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.over = true
	for c := range p.waiting {
		c.wire.Wake()
	}
}

// holds reports whether a command must wait.
func (p *pause) holds(write bool) bool { return (p.all || write) && p.active() }

// pausedNow reports whether a pause has begun since the run began: then the run must check again whether the pause
// holds its commands. The locks are held: a pause that begins later waits for them.
func (c *run) pausedNow() bool {
	now := c.srv.observed.Load()
	if now == c.seen || now.pause == nil || !now.pause.holds(true) {
		return false
	}
	c.seen = now
	return true
}

// lockUnpaused calls acquire, which takes locks, and repeats it after any pause that applies; writes says whether the
// commands to run write. No locks are held during the pause. The contents of the reply buffer wait too.
func (c *run) lockUnpaused(writes func() bool, acquire func() error) error {
	for {
		if err := acquire(); err != nil {
			return err
		}
		p := c.srv.observed.Load().pause
		if p == nil || !p.holds(writes()) {
			return nil
		}
		c.tx.Unlock()
		if !c.waitFor(p) {
			c.closeAfterReply = true
			return errPausedEnd
		}
	}
}

// always is an argument of lockUnpaused: the commands to run may write.
func always() bool { return true }

// waitPaused waits until the pause no longer holds the command, and then repeats the checks of the command. It
// returns false when the connection must end.
func (c *run) waitPaused(r *request) bool {
	for {
		c.seen = c.srv.observed.Load()
		p := c.seen.pause
		if r.err != nil || p == nil || !p.holds(c.mayWrite(r)) {
			return true
		}
		c.tx.End()       // mayWrite may have read a script
		c.readClock(nil) // the wait is not part of a command's time
		c.info.lastCmd.Store(r.spec)
		if !c.flush() {
			return false
		}
		c.afterFlush()
		c.info.argv.Store(argBytes(r.args))
		ok := c.waitFor(p)
		c.info.argv.Store(0)
		if !ok {
			c.closeAfterReply = true
			return false
		}
		if c.track != nil {
			c.track.Begin()
		}
		r.err = c.refuse(r)
	}
}

// mayWrite reports whether a command, or a command queued for EXEC, may write or is seen by replicas. For a script or
// function the declared flags decide, if it declares any.
func (c *run) mayWrite(r *request) bool {
	switch {
	case r.spec.FullName() == "script|load": // changes no data: a client may send it before commands that read
		return false
	case r.spec.Flags&command.Script != 0:
		call, _ := command.CallOf(r.spec, r.args)
		if flags, ok := c.srv.Scripts.Declared(c.tx, call); ok {
			return flags&lua.NoWrites == 0
		}
	case c.multi != nil && r.spec.Name == "exec":
		return c.mayWriteQueued(c.multi)
	}
	return r.spec.Flags&mayWriteFlags != 0
}

func (c *run) mayWriteQueued(m *multi) bool {
	for i := range m.queue {
		if c.mayWrite(&m.queue[i]) {
			return true
		}
	}
	return false
}

const mayWriteFlags = command.Write | command.MayReplicate

// waitFor waits for the end of a pause. It returns false when the connection ends first. It uses no CPU time
// meanwhile.
func (c *conn) waitFor(p *pause) bool {
	c.info.paused.Store(true) // a client that is counted is also shown as paused
	c.srv.paused.Add(1)
	defer func() {
		c.srv.paused.Add(-1)
		c.info.paused.Store(false)
	}()
	c.wire.SetReadDeadline(p.until)
	c.deadline = true // so the next read sets its own deadline
	if c.srv.closing.Load() {
		return false
	}
	p.mu.Lock()
	if p.over {
		p.mu.Unlock()
		return true
	}
	p.waiting[c] = struct{}{} // from now on the end of the pause moves the deadline
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		delete(p.waiting, c)
		p.mu.Unlock()
	}()
	err := c.wire.WaitHangup()
	return errors.Is(err, os.ErrDeadlineExceeded) && !c.srv.closing.Load()
}

var errPausedEnd = engine.NewError("ERR", "the server is closing")
