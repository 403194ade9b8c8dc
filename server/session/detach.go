package session

import (
	"time"

	"github.com/basaltdb/basalt/server/command"
	"github.com/basaltdb/basalt/server/wire"
)

// detaches are the flags that a command must have to call Detach: no input after the command is decoded, and no other
// command shares its transaction.
const detaches = command.Solo | command.Waits | command.NoMulti | command.NoScript

// Detach makes f the owner of the connection after this run of commands, see command.Control.
func (c *run) Detach(f func(*wire.Conn)) {
	if spec := c.frame.ctx.Spec; spec.Flags&detaches != detaches {
		panic(spec.FullName() + " may not detach: it lacks a flag")
	}
	c.owner = f
}

// handOver gives the connection to the new owner until the owner returns. Everything that depends on the commands of
// a client ends before that.
func (c *conn) handOver() {
	c.Discard()
	c.UnsubscribeAll()
	c.StopMonitor()
	c.untrack(nil)
	c.srv.mu.Lock() // WakeIdle sets no deadline from now on
	c.detached = true
	c.publish()
	c.srv.mu.Unlock()
	c.wire.SetReadDeadline(time.Time{})
	if c.srv.closing.Load() { // checked after the deadline is set: Close sets closing first, then its own deadline
		return
	}
	c.owner(c.wire)
}
