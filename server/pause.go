package server

import (
	"errors"
	"os"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/server/command"
)

// pause is what CLIENT PAUSE has asked for. Clients wait before they take locks; one that has taken them when the
// pause began is waited for by CLIENT PAUSE, and one that takes them later looks again: after the reply to CLIENT
// PAUSE nothing is written until the pause ends.
type pause struct {
	until time.Time
	all   bool // reads too

	mu      sync.Mutex
	over    bool          // ended, or replaced by another one
	ended   chan struct{} // closed then
	waiting map[*conn]struct{}
}

// Pause makes clients wait with their writes, or with all commands. A pause that is in force already is not
// shortened, nor does one of all commands become one of writes. While a slow script runs that is to write at its end
// there is no pause, but the error that others get who need its locks.
func (s *Server) Pause(d time.Duration, all bool) error {
	p := &pause{until: time.Now().Add(d), all: all, waiting: map[*conn]struct{}{}, ended: make(chan struct{})}
	var old *pause
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
	if err := s.db.Barrier(); err != nil {
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

// Unpause ends the pause.
func (s *Server) Unpause() {
	var old *pause
	s.observe(func(o *observed) { old, o.pause = o.pause, nil })
	old.end()
}

// forgetPause removes a pause that is over, so that the pipeline need no longer look at it.
func (s *Server) forgetPause() {
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

// end wakes those that wait.
func (p *pause) end() {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.over {
		close(p.ended)
	}
	p.over = true
	for c := range p.waiting {
		c.nc.SetReadDeadline(time.Unix(1, 0))
	}
}

// holds reports whether a command must wait.
func (p *pause) holds(write bool) bool { return p != nil && (p.all || write) && p.active() }

// pausedNow reports whether a pause has begun since the run did. The locks are held: if it has not, CLIENT PAUSE
// waits for them.
func (c *conn) pausedNow(write bool) bool {
	now := c.srv.observed.Load()
	if now == c.seen || !now.pause.holds(write) {
		return false
	}
	c.seen = now
	return true
}

// lockUnpaused takes locks by acquire when no pause holds a command that writes, or not. One that has begun since the
// run did is waited out without them; what is in the reply buffer waits too.
func (c *conn) lockUnpaused(write bool, acquire func() error) error {
	for {
		if err := acquire(); err != nil {
			return err
		}
		if !c.pausedNow(write) {
			return nil
		}
		c.tx.Unlock()
		if !c.waitFor(c.seen.pause) {
			c.closeAfterReply = true
			return errPausedEnd
		}
	}
}

// waitPaused waits until the pause no longer holds the command. It returns false when the connection is to end.
func (c *conn) waitPaused(r *request) bool {
	write := c.mayWrite(r)
	for {
		c.seen = c.srv.observed.Load()
		p := c.seen.pause
		if !p.holds(write) || r.spec != nil && r.spec.FullName() == "client|unpause" {
			return true
		}
		c.look(nil) // the wait is no part of a command's time
		if !c.flush() {
			return false
		}
		c.afterFlush()
		if !c.waitFor(p) {
			c.closeAfterReply = true
			return false
		}
		if c.track != nil {
			c.track.begin()
		}
	}
}

// mayWrite reports whether a command, or what EXEC is to run, may write or is seen by replicas.
func (c *conn) mayWrite(r *request) bool {
	if r.spec == nil {
		return false
	}
	return r.spec.Flags&mayWriteFlags != 0 || c.multi != nil && r.spec.Name == "exec" && c.mayWriteQueued(c.multi)
}

func (c *conn) mayWriteQueued(m *multi) bool {
	for i := range m.queue {
		if m.queue[i].spec.Flags&mayWriteFlags != 0 {
			return true
		}
	}
	return false
}

const mayWriteFlags = command.Write | command.MayReplicate

// waitFor waits for the end of a pause, or of the connection: then it returns false. It takes no CPU time meanwhile.
func (c *conn) waitFor(p *pause) bool {
	c.srv.paused.Add(1)
	c.info.paused.Store(true)
	defer func() {
		c.srv.paused.Add(-1)
		c.info.paused.Store(false)
	}()
	c.nc.SetReadDeadline(p.until)
	c.deadline = true // so that the next read sets its own
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
	err := c.waitEnd(p)
	return errors.Is(err, os.ErrDeadlineExceeded) && !c.srv.closing.Load()
}

// waitEnd waits for the read deadline or the end of the connection, without taking what arrives. The end of one that is
// no socket is not noticed.
func (c *conn) waitEnd(p *pause) error {
	if c.box.raw == nil {
		t := time.NewTimer(time.Until(p.until))
		defer t.Stop()
		select {
		case <-p.ended:
		case <-t.C:
		case <-c.done:
			return errGone
		}
		return os.ErrDeadlineExceeded
	}
	gone := false
	err := c.box.raw.Read(func(fd uintptr) bool {
		gone = hungUp(fd)
		return gone
	})
	if gone {
		return errGone
	}
	return err
}

var (
	errGone      = errors.New("the client is gone")
	errPausedEnd = engine.NewError("ERR", "the server is closing")
)

// hungUp reports whether the other end of a socket has been closed, whatever there is to be read still.
func hungUp(fd uintptr) bool {
	const rdhup, hup, bad = 0x2000, 0x10, 0x8 | 0x20 // of poll(2)
	p := struct {
		fd              int32
		events, revents int16
	}{fd: int32(fd), events: rdhup}
	var now syscall.Timespec
	_, _, errno := syscall.Syscall6(syscall.SYS_PPOLL, uintptr(unsafe.Pointer(&p)), 1, uintptr(unsafe.Pointer(&now)), 0, 0, 0)
	return errno == 0 && p.revents&(rdhup|hup|bad) != 0
}
