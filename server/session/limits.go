package session

import (
	"errors"
	"math"
	"sync/atomic"
	"time"

	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/server/command"
	"github.com/basaltdb/basalt/server/lua"
)

// The limits for clients, and what happens to a client that exceeds one. The error texts are those of Redis.
//
//	what                                          limit                              beyond it
//	clients at one time                           maxclients, the open files         "max number of clients ...", closed
//	a client on another host                      protected-mode without password    "-DENIED ...", closed
//	a TLS handshake                               10 s                               closed
//	an inline command, a line with a length       64 KiB (Kvrocks: 16 KiB)           protocol error
//	arguments of a command                        1048576                            protocol error
//	an argument                                   proto-max-bulk-len                 protocol error
//	arguments, an argument, before authentication 10; 16 KiB                         protocol error
//	an incomplete command                         client-query-buffer-limit,         closed, logged
//	                                              at least one longest argument
//	input of a client that is blocked             1 MiB is read ahead                not read until it is served
//	commands queued by MULTI                      512 MiB                            error, EXEC aborts
//	replies that wait to be read                  client-output-buffer-limit,        closed, logged, if the client takes
//	                                              or one reply (see docs/locks-and-  nothing of them for 3 s
//	                                              commits.md: in parts, if it can)
//	  such replies at the end of a connection     1 min, 2 s at the server's end     closed
//	a reply that cannot leave in parts            an eighth of the memory, at least  closed, logged
//	                                              client-output-buffer-limit
//	time without a command                        timeout                            closed unless blocked or subscribed
//	a name of a command: POST or Host:            none                               closed without a reply, logged
//	a key                                         an argument's                      -
//	the writes of a command, or of a transaction  rocksdb.write_options.write_     error, nothing is written
//	                                              batch_max_bytes, a ninth of the
//	                                              memory unless it is set
//	a write batch of APPLYBATCH                   4194304 records, rocksdb.write_    error, nothing is written
//	                                              options.write_batch_max_bytes
//	a reply of POLLUPDATES                        8 MiB of batches, or one           the rest with the next one
//
// A protocol error is sent to the client and ends the connection; the commands before it are answered. The checks of
// a command come in this order: its name and subcommand, the number of its arguments, authentication, administrator's
// rights, the permissions of the ACL, the slot in a cluster, subscriptions in RESP2, read-only replica,
// min-replicas-to-write, max-db-size, a replica without its master, MONITOR, a slow script, CLIENT PAUSE, queueing by
// MULTI, its arguments, the data.

// Limits are the settings that every session reads often, kept where reading is cheap. The server may change them at
// any time.
type Limits struct {
	Bulk    atomic.Int64                 // proto-max-bulk-len, bytes
	Timeout atomic.Int64                 // timeout, seconds, 0 = none
	Out     atomic.Int64                 // max number of bytes that wait to be sent to a client, 0 = no limit
	Outputs atomic.Pointer[OutputLimits] // the other limits of client-output-buffer-limit
	Query   atomic.Int64                 // client-query-buffer-limit, bytes
	// Whole is the max number of bytes of a reply that cannot leave in parts while it is made, if it is more than Out.
	Whole atomic.Int64

	Queued atomic.Int64 // max number of bytes of the commands that wait for EXEC

	Handshake atomic.Int64 // max time of a TLS handshake, a time.Duration
	Ending    atomic.Int64 // max time for a client to get its last replies when the server closes, a time.Duration

	// Replicas is the time until which enough replicas are in good state for min-replicas-to-write, in nanoseconds
	// since the epoch; 0 = no replicas are needed.
	Replicas   atomic.Int64
	Stale      atomic.Bool // the server is a replica without its master, and slave-serve-stale-data is no
	ReadOnly   atomic.Bool // the server is a replica that accepts no writes: slave-read-only
	StrictKeys atomic.Bool // lua-strict-key-accessing
	DebugInLua atomic.Bool // DEBUG SET-DISABLE-DENY-SCRIPTS
	Full       atomic.Bool // the database has reached max-db-size
}

// refuseWrite returns why a command that writes cannot run now, nil when it can. In a full database the commands that
// add no data still run, so users can free space.
func (l *Limits) refuseWrite(flags command.Flag) error {
	switch until := l.Replicas.Load(); {
	case l.ReadOnly.Load():
		return command.ErrReadOnly
	// It reads the clock itself: a process that was stopped (SIGSTOP) must not write before another part of the server
	// has noticed how long the stop took.
	case until != 0 && time.Now().UnixNano() > until:
		return command.ErrNoReplicas
	case flags&command.DenyOOM != 0 && l.Full.Load():
		return command.ErrDBSize
	}
	return nil
}

// refuse returns why a command cannot run now, nil when it can.
func (l *Limits) refuse(flags command.Flag) error {
	if flags&command.Write != 0 {
		if err := l.refuseWrite(flags); err != nil {
			return err
		}
	}
	if flags&command.Stale == 0 && l.Stale.Load() {
		return command.ErrMasterDown
	}
	return nil
}

// verdict is what the limits have said at one moment. It holds for all commands of a transaction or script: a server
// that becomes a replica, loses its replicas or gets full meanwhile must not let a part of them run.
type verdict struct{ stale, write, grow error }

// refuse is Limits.refuse of the moment of the verdict.
func (v *verdict) refuse(flags command.Flag) error {
	var err error
	switch {
	case flags&command.Write == 0:
	case flags&command.DenyOOM != 0:
		err = v.grow
	default:
		err = v.write
	}
	if err == nil && flags&command.Stale == 0 {
		err = v.stale
	}
	return err
}

// refuseScript returns why a script or function cannot run. declares says that it declares flags. A script that
// declares no flags is refused when it calls a command that may not run, except on a replica without its master.
func (v *verdict) refuseScript(flags lua.Flags, declares bool) error {
	if declares && flags&lua.NoWrites == 0 && v.write != nil {
		return v.write
	}
	if !declares || flags&lua.AllowStale == 0 {
		return v.stale
	}
	return nil
}

// limit returns why a command cannot run, nil when it can.
func (c *run) limit(flags command.Flag) error {
	if c.judged {
		err := c.verdict.refuse(flags)
		if err == command.ErrMasterDown && c.frame.mode == scripted {
			return errScriptStale
		}
		return err
	}
	return c.srv.Limits.refuse(flags)
}

// judge makes the verdict that holds until unjudge is called with its result, false when an outer transaction has made
// the verdict.
func (c *run) judge() (made bool) {
	if made = !c.judged; made {
		l := &c.srv.Limits
		c.judged, c.verdict = true, verdict{l.refuse(0), l.refuseWrite(0), l.refuseWrite(command.DenyOOM)}
	}
	return made
}

// unjudge ends the verdict if judge has made it.
func (c *run) unjudge(made bool) { c.judged = c.judged && !made }

var errScriptStale = engine.NewError("ERR", "Can not execute the command on a stale replica")

// OutputLimits are the limits of client-output-buffer-limit, by the class of the client.
type OutputLimits struct{ Normal, PubSub OutputLimit }

// OutputLimit bounds the bytes that wait to be sent to a client. A client with more than Hard bytes is disconnected at
// once; a client that has more than Soft bytes for the time During is disconnected then. 0 = no limit.
type OutputLimit struct {
	Hard, Soft int
	During     time.Duration
}

// outputLimit returns how many bytes may wait to be sent to the client, 0 = no limit. Any goroutine may call it. The
// owner of a detached connection waits for its client, see wire.Conn.Write.
func (c *conn) outputLimit() int {
	if v := c.info.view.Load(); v != nil && v.replica {
		return 0
	}
	if c.subscribed() {
		if l := c.srv.Limits.Outputs.Load(); l != nil {
			return l.PubSub.Hard
		}
	}
	return int(c.srv.Limits.Out.Load())
}

// replyLimit returns how many bytes of a reply may be made before a part of it can leave, 0 = no limit.
func (c *conn) replyLimit() int {
	limit := c.outputLimit()
	if limit > 0 {
		limit = max(limit, int(c.srv.Limits.Whole.Load()))
	}
	return limit
}

// softLimit returns how many bytes may wait for longer than a given time, 0 = no limit. Any goroutine may call it.
func (c *conn) softLimit() (bytes int, during time.Duration) {
	l := c.srv.Limits.Outputs.Load()
	if l == nil || c.info.view.Load().replica {
		return 0, 0
	}
	b := &l.Normal
	if c.subscribed() {
		b = &l.PubSub
	}
	return b.Soft, b.During
}

// subscribed reports whether other goroutines see the client as a subscriber.
func (c *conn) subscribed() bool {
	v := c.info.view.Load()
	return v != nil && v.subs != [3]int{}
}

// queryBuffer returns how many bytes of an incomplete command a client may have sent. One argument of the maximum
// length must fit.
func (l *Limits) queryBuffer() int64 {
	const besides = 1 << 20 // the rest of the command, and the input after it
	bulk := l.Bulk.Load()
	return max(l.Query.Load(), min(bulk, math.MaxInt64-besides)+besides)
}

// idleLimit returns the time without a command after which the client is disconnected, 0 = never.
func (c *conn) idleLimit() time.Duration {
	if c.Subscribed() || c.monitoring {
		return 0 // a subscriber is not idle
	}
	return time.Duration(c.srv.Limits.Timeout.Load()) * time.Second
}

var errQueryLimit = errors.New("query buffer limit exceeded")

// errReplyLimit is the error of a client whose reply, which is built as a whole, exceeds conn.replyLimit.
var errReplyLimit = errors.New("reply too long to be built as a whole")
