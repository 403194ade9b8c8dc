package session

import (
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/server/acl"
	"github.com/basaltdb/basalt/server/command"
	"github.com/basaltdb/basalt/server/lua"
	"github.com/basaltdb/basalt/server/resp"
)

// scriptHost is a run as scripts see it: it runs the commands that a script calls in the transaction of the script.
type scriptHost struct{ run *run }

// Errors of redis.call.
var (
	errScriptUnknown   = engine.NewError("ERR", "Unknown Redis command called from script")
	errScriptArity     = engine.NewError("ERR", "Wrong number of args calling Redis command from script")
	errScriptForbidden = engine.NewError("ERR", "This Redis command is not allowed from script")
	errScriptReadOnly  = engine.NewError("ERR", "Write commands are not allowed from read-only scripts.")
	errScriptKey       = engine.NewError("ERR", "Script attempted to access undeclared keys")
)

// Replies to clients that need locks of a slow script.
var (
	errBusyScript = engine.NewError("BUSY",
		"Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.")
	errBusyFunction = engine.NewError("BUSY",
		"Redis is busy running a script. You can only call FUNCTION KILL or SHUTDOWN NOSAVE.")
)

// sharedPatience is how long a script may run in a transaction shared with other clients. A script that runs longer
// is rolled back and run again in a transaction of its own.
var sharedPatience = 50 * time.Millisecond // changed by tests

// Lasts is called from time to time while a script runs. took is the time since the script began; slow: it is longer
// than lua-time-limit. An error stops the script.
func (h *scriptHost) Lasts(took time.Duration, slow bool) error {
	c := h.run
	s := &c.script
	if s.shared && (slow || took > sharedPatience) {
		s.retry, s.alone = true, true
		return errMoreLocks
	}
	if slow {
		c.tx.FailWaiters(busyReply(s.run.Function != nil))
	}
	return nil
}

// Call runs a command for the script and writes the reply, or the error reply, to out. An error stops the script.
func (h *scriptHost) Call(args [][]byte, out *resp.Writer) error {
	c := h.run
	s := &c.script
	r := &s.frame.req
	r.args, r.spec = args, nil
	if err := c.resolveForScript(r); err != nil {
		c.srv.Stats.Rejected(r.spec, err)
		command.WriteError(out, err)
		return nil
	}
	err := c.lockForScript(r)
	if err == errMoreLocks {
		return err
	}
	if err != nil {
		c.srv.Stats.Rejected(r.spec, err)
		command.WriteError(out, err)
		return nil
	}
	ns := c.tx.Namespace()
	s.frame.ctx.Out = out
	wrote, err := c.invoke(&s.frame, r)
	switch {
	case err == errMoreLocks, err != nil && c.closeAfterReply: // nothing may follow
		return err
	case err != nil:
		return nil
	}
	if c.sess.Namespace != ns { // SELECT
		c.tx.SwitchNamespace(c.sess.Namespace)
	}
	if wrote && c.srv.waiters.n.Load() > 0 {
		for _, k := range s.keys {
			if k.Write {
				s.written = append(s.written, keyRef{ns, slices.Clone(args[k.Arg])})
			}
		}
		if r.spec.OtherNamespace != nil {
			if other, arg, ok := r.spec.OtherNamespace(&c.srv.Services, c.sess, ns, args); ok {
				s.written = append(s.written, keyRef{other, slices.Clone(args[arg])})
			}
		}
	}
	return nil
}

// resolveForScript finds the command and makes the checks that need no locks.
func (c *run) resolveForScript(r *request) error {
	s := &c.script
	spec, err := s.resolvers.Resolve(r.args)
	if spec == nil || err != nil && spec.Handler == nil {
		return errScriptUnknown
	}
	r.spec = spec
	switch {
	case err != nil:
		return errScriptArity
	case spec.Flags&command.NoScript != 0 && !c.debugAllowed(r):
		return errScriptForbidden
	case s.readOnly && spec.Flags&mayWriteFlags != 0:
		return errScriptReadOnly
	}
	return c.refuse(r)
}

// debugAllowed reports whether a command is DEBUG PROTOCOL or DEBUG SLEEP, and test suites allow scripts to call them.
func (c *conn) debugAllowed(r *request) bool {
	return r.spec.Name == "debug" && (command.EqualFold(r.args[1], "PROTOCOL") ||
		command.EqualFold(r.args[1], "SLEEP")) && c.srv.Limits.DebugInLua.Load()
}

// lockForScript makes sure that the locks of the command's keys are held.
func (c *run) lockForScript(r *request) error {
	s := &c.script
	s.keys = r.spec.AppendKeys(s.keys[:0], r.args)
	if r.spec.Flags&command.Exclusive != 0 && !c.tx.HoldsAll() {
		s.retry, s.all = true, true
		return errMoreLocks
	}
	strict := c.srv.Limits.StrictKeys.Load()
	if c.tx.HoldsAll() && !strict {
		return nil
	}
	locked := c.tx.Locked()
	for _, k := range s.keys {
		key := r.args[k.Arg]
		if strict && !slices.ContainsFunc(s.declared,
			func(d []byte) bool { return string(d) == string(key) }) {
			return errScriptKey
		}
		if k.Write && c.tx.TryLock(key) || !k.Write && c.tx.TryRLock(key) {
			continue
		}
		return c.wantLock(c.tx.Namespace(), key, k.Write)
	}
	if r.spec.OtherNamespace != nil {
		ns, arg, ok := r.spec.OtherNamespace(&c.srv.Services, c.sess, c.tx.Namespace(), r.args)
		if ok && !c.tx.TryLockIn(ns, r.args[arg], true) {
			return c.wantLock(ns, r.args[arg], true)
		}
	}
	// With a lock held, slots leave only after the script: it must not fail in the middle.
	if t := c.topology; !locked && t != nil && t != c.srv.Cluster.Topology() {
		return c.routeBy(c.srv.Cluster.Topology(), r)
	}
	return nil
}

// wantLock makes the script roll back and run again with one more lock, besides the locks that it has taken so far:
// other clients may take these meanwhile. The locks of another client's transaction are not among them. After some such
// tries the script gets all locks.
func (c *run) wantLock(ns string, key []byte, write bool) error {
	s := &c.script
	s.retry = true
	if s.tries++; s.tries > lockTries {
		s.all = true
	}
	if s.more = s.more[:0]; !c.combined {
		s.more = c.tx.AppendLocks(s.more)
	}
	s.more = append(s.more, c.tx.LockIn(ns, key, write))
	return errMoreLocks
}

// RunAgain asks for the lock of a key that the arguments of the running command do not name.
func (c *run) RunAgain(key []byte) error {
	return c.wantLock(c.tx.Namespace(), key, true)
}

// Allowed reports whether the user may run a command; known is false when the command does not exist.
func (h *scriptHost) Allowed(args [][]byte) (allowed, known bool) {
	c := h.run
	spec, err := c.script.resolvers.Resolve(args)
	if spec == nil || err != nil && spec.Handler == nil {
		return false, false
	}
	if spec.Flags&command.AdminOnly != 0 && !c.sess.Admin {
		return false, true
	}
	if a := c.sess.Account; a != nil {
		if u := a.User(); !u.Unrestricted() {
			reason, _ := (&request{args: args, spec: spec}).check(u)
			return reason == acl.Allowed, true
		}
	}
	return true, true
}

// Log writes to the server's log.
func (h *scriptHost) Log(level int, message string) {
	log := h.run.srv.Log
	switch level {
	case lua.LogDebug, lua.LogVerbose:
		log.Debug(message, zap.String("from", "script"))
	case lua.LogNotice:
		log.Info(message, zap.String("from", "script"))
	default:
		log.Warn(message, zap.String("from", "script"))
	}
}
