package session

import (
	"errors"
	"fmt"
	"time"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/server/command"
	"github.com/basaltdb/basalt/server/lua"
	"github.com/basaltdb/basalt/server/scripts"
)

// A script runs like a command that writes: in the transaction of its segment or of EXEC, with the locks of its
// declared keys held. Its writes are committed with the rest. Each command that the script calls is a savepoint in
// the transaction.
//
// The lock of an undeclared key is taken when a command needs it, if that is possible without waiting. If not, the
// script is rolled back and run again: it then waits for that lock before it begins, and after some tries for all
// locks. So no script sees the unfinished writes of another script, and no script waits while it holds locks.
//
// As in Redis, the writes of a failed script stay. The writes of a script that is stopped from outside (SCRIPT KILL,
// memory limit, shutdown) are rolled back.

// scriptRun is the script that a connection runs.
type scriptRun struct {
	resolvers *scriptResolvers // nil before the first script
	run       lua.Run
	frame     frame
	host      scriptHost
	readOnly  bool
	caller    *command.Spec // the command that runs the script, or EXEC; only while the script runs
	declared  [][]byte
	keys      []command.KeyRef
	written   []keyRef // keys that its commands have written, if any client is blocked

	// In a cluster:
	slot      int  // the slot of the keys so far, or anySlot
	crossSlot bool // the keys may have several slots

	// The locks that the next try must take.
	retry bool          // the script must run again
	all   bool          // all locks are taken
	tries int           // number of tries so far that lacked a lock
	more  []engine.Lock // the missing lock, and the locks of the last try
	// shared: other clients wait for the commit of the script's transaction. alone: the script is tried again without
	// them.
	shared, alone bool

	// calls are the calls of commands by the script. They count when it ends, or the transaction that runs it: what is
	// rolled back and run again has called nothing.
	calls  callCounts
	failed bool // the reply has an error
}

// scriptResolvers find commands. A script calls a few commands in turn, and each resolver remembers one of them.
type scriptResolvers [8]command.Resolver

// Resolve is [command.Table.Resolve].
func (s *scriptResolvers) Resolve(args [][]byte) (*command.Spec, error) {
	i := 0
	if name := args[0]; len(name) > 1 {
		i = int(name[0] + name[1])
	}
	return s[i%len(s)].Resolve(args)
}

// keyRef is a key of a namespace: after SELECT, or with MOVE, not always the namespace of the connection.
type keyRef struct {
	ns  string
	key []byte
}

// lockTries is how many times a script runs again with only the locks that it is known to need. After that it runs
// again with all locks.
const lockTries = 8

var errMoreLocks = fmt.Errorf("the script needs more locks: %w", lua.ErrAgain)

// appendLocks appends the locks that were missing, and the locks of earlier tries.
func (s *scriptRun) appendLocks(to []engine.Lock) []engine.Lock {
	s.retry = false
	return append(to, s.more...)
}

// forget ends the tries.
func (s *scriptRun) forget() { s.retry, s.all, s.tries, s.more, s.alone = false, false, 0, nil, false }

// takeWritten returns the keys that scripts have written since its last call.
func (s *scriptRun) takeWritten() []keyRef {
	w := s.written
	s.written = nil
	return w
}

func (c *run) Eval(call command.ScriptCall) error {
	s := &c.script
	r := &s.run
	*r = lua.Run{Keys: call.Keys, Args: call.Args, Host: &s.host, Out: &c.out}
	var err error
	switch {
	case call.Function != nil:
		r.Command = string(c.frame.ctx.Args[0])
		if r.Function = c.srv.Scripts.Function(c.tx, call.Function); r.Function == nil {
			err = errNoFunction
		}
	case call.SHA != nil:
		if r.Script, err = c.srv.Scripts.Find(c.tx, call.SHA); err == nil && r.Script == nil {
			err = errNoScript
		}
	default:
		r.Script, err = c.srv.Scripts.Compiled(c.tx, call.Source)
	}
	if err != nil {
		return scripts.Error(err)
	}
	var flags lua.Flags
	named := r.Function != nil // the flags are declared
	if named {
		flags = r.Function.Flags()
	} else {
		flags, named = r.Script.Flags(), r.Script.Declares()
	}
	if named && call.ReadOnly && flags&lua.NoWrites == 0 {
		return errReadOnlyCall
	}
	defer c.unjudge(c.judge())
	if !c.fed {
		if err := c.verdict.refuseScript(flags, named); err != nil {
			return err
		}
	}
	if c.srv.Cluster != nil && flags&lua.NoCluster != 0 {
		return errNoCluster
	}
	s.crossSlot = !named || flags&lua.AllowCrossSlotKeys != 0
	if s.slot = anySlot; c.srv.Cluster != nil && len(call.Keys) > 0 {
		s.slot = int(cf.Slot(call.Keys[0]))
	}
	s.readOnly = call.ReadOnly || flags&lua.NoWrites != 0
	s.declared = call.Keys
	inTx, deferred, began := c.inTx(), len(c.deferred), c.sess.Namespace
	s.shared = !inTx && (c.combined || c.segment.done > 0)
	s.failed = false
	c.tx.KeepLocks()
	if s.resolvers == nil {
		s.resolvers = new(scriptResolvers)
		for i := range s.resolvers {
			s.resolvers[i].Use(c.srv.Services.Table)
		}
	}
	outer := c.beginScript()
	if r.Final = c.tx.HoldsAll() && !s.shared; inTx && !r.Final && r.Function != nil && r.Function.Library.Resident() {
		// The changes to the variables of its library could not be undone when a later command of the transaction
		// needs a lock.
		err = lua.ErrExclusive
	} else {
		err = c.srv.Scripts.Run(r)
	}
	c.frame = outer
	if err == lua.ErrExclusive {
		s.retry, s.all = true, true
		err = errMoreLocks
	}
	if s.retry && err != errMoreLocks {
		s.forget() // the script ended for another reason, such as SCRIPT KILL
	}
	if !inTx {
		s.calls.settle(c.srv.Stats, !s.retry)
	}
	c.sess.Namespace = began // a SELECT ends with the script
	c.tx.SwitchNamespace(began)
	*r = lua.Run{}
	s.caller, s.declared, s.frame.ctx, s.frame.req = nil, nil, command.Ctx{}, request{}
	if failed := (*lua.Error)(nil); err != nil && errors.As(err, &failed) {
		// The writes of the script stay, so this is a reply and not an error of the command.
		c.out.Error("", failed.Text)
		s.host.Failed(failed.Text, failed.Counted)
		err = nil
	}
	if err != nil {
		clear(c.deferred[deferred:])
		c.deferred = c.deferred[:deferred]
		s.written = nil
		return scripts.Error(err)
	}
	if s.failed {
		c.srv.Stats.CallFailed(c.frame.ctx.Spec)
	}
	return nil
}

// beginScript begins the frame of a script inside the frame of the command that runs it, and returns the outer frame.
func (c *run) beginScript() (outer *frame) {
	s, outer := &c.script, c.frame
	if s.caller = outer.ctx.Spec; outer.mode == queued {
		s.caller = command.Lookup([]byte("exec"))
	}
	s.frame.ctx, s.frame.outer = outer.ctx, c.tx.SavepointIn(engine.Mark{})
	ctx := &s.frame.ctx
	ctx.NoBlock, ctx.InScript = true, true
	if ctx.Clock.IsZero() {
		ctx.Clock = time.Now()
		c.tx.Tick(ctx.Clock.UnixMilli())
	}
	c.frame = &s.frame
	return outer
}

var (
	errNoScript     = engine.NewError("NOSCRIPT", "No matching script. Please use EVAL.")
	errNoFunction   = engine.NewError("ERR", "Function not found")
	errReadOnlyCall = engine.NewError("ERR", "Can not execute a script with write flag using *_ro command.")
)
