package server

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/server/command"
	"github.com/basaltdb/basalt/server/lua"
	"github.com/basaltdb/basalt/server/resp"
)

// A script runs like a command that writes: in the transaction of its segment or of EXEC, with the locks of its declared
// keys held, and what it writes is committed with the rest. Each command that it calls is a savepoint in the transaction.
//
// Of a key that was not declared the lock is taken when a command asks for it, if that is possible without waiting. If
// not, the script is undone and run again with that key's lock among those that are waited for, and after some tries with
// all locks. So no script sees what another one has half done, and none waits while it holds something.
//
// As in Redis, a script that fails keeps what it had written until then. One that is stopped from outside (SCRIPT KILL,
// memory limit, shutdown) keeps nothing.

// scripts are the scripts and functions of a server.
type scripts struct {
	srv    *Server
	engine *lua.Engine

	registry atomic.Pointer[registry]
}

// scriptChanges are what a transaction has changed of the scripts and will take effect with its commit; the value of
// Tx.Local.
type scriptChanges struct {
	registry *registry // nil = the libraries are as they were
	flushed  bool      // the cache of scripts is going to be emptied
}

func changesOf(tx *engine.Tx) *scriptChanges {
	c, ok := tx.Local.(*scriptChanges)
	if !ok {
		c = &scriptChanges{}
		tx.Local = c
	}
	return c
}

func (s *scripts) init(srv *Server) {
	s.srv = srv
	s.engine = lua.New(lua.Options{
		MemoryLimit: func() int64 { return srv.cfg.Int("lua-memory-limit-mb") << 20 },
		TimeLimit:   func() time.Duration { return time.Duration(srv.cfg.Int("lua-time-limit")) * time.Millisecond },
		Version:     command.RedisVersion,
		States:      max(8, 2*runtime.GOMAXPROCS(0)),
		Slow: func(name string, took time.Duration) {
			srv.log.Warn("a slow script is running", zap.String("script", name), zap.Duration("so far", took))
		},
	})
	s.readLibraries()
}

var errNoScript = engine.NewError("NOSCRIPT", "No matching script. Please use EVAL.")

// scriptKey is the key under which the database keeps a script.
func scriptKey(sha string) []byte { return []byte(cf.PropagateScript + sha) }

// Load keeps a script.
func (s *scripts) Load(tx *engine.Tx, source []byte) (string, error) {
	script, err := s.engine.Compile(source)
	if err != nil {
		return "", scriptError(err)
	}
	tx.OnCommit(func() { s.engine.Keep(script) })
	tx.Put(cf.Propagate, scriptKey(script.SHA()), source)
	return script.SHA(), nil
}

// Has reports whether there is a script.
func (s *scripts) Has(tx *engine.Tx, sha []byte) (bool, error) {
	script, err := s.find(tx, sha)
	return script != nil, err
}

// compiled returns the script of a source.
func (s *scripts) compiled(tx *engine.Tx, source []byte) (*lua.Script, error) {
	if !s.flushedBy(tx) {
		return s.engine.Script(source)
	}
	script, err := s.engine.Compile(source)
	if err == nil {
		tx.OnCommit(func() { s.engine.Keep(script) }) // after the cache was emptied
	}
	return script, err
}

// flushedBy reports whether the transaction has forgotten all scripts.
func (s *scripts) flushedBy(tx *engine.Tx) bool {
	c, ok := tx.Local.(*scriptChanges)
	return ok && c.flushed
}

// find looks a script up, in memory and in the database; nil = there is none.
func (s *scripts) find(tx *engine.Tx, sha []byte) (*lua.Script, error) {
	if len(sha) != 40 {
		return nil, nil
	}
	if script := s.engine.Lookup(sha); script != nil && !s.flushedBy(tx) {
		return script, nil
	}
	name := make([]byte, len(sha))
	for i, c := range sha {
		if c >= 'A' && c <= 'Z' {
			c += 'a' - 'A'
		}
		name[i] = c
	}
	flushes := s.engine.Flushes()
	source, found, err := tx.Get(cf.Propagate, scriptKey(string(name)))
	if err != nil || !found {
		return nil, err
	}
	script, err := s.engine.Compile(source)
	if err != nil {
		return nil, scriptError(err)
	}
	if script.SHA() != string(name) {
		return nil, nil // not what it says it is
	}
	if tx.Empty() {
		s.engine.KeepSince(script, flushes)
	} else { // the transaction itself may have put it there
		tx.OnCommit(func() { s.engine.Keep(script) })
	}
	return script, nil
}

// declared returns what the script or function that a command runs says of itself; ok is false when it says nothing, or is not
// there, or the command runs none.
func (s *scripts) declared(tx *engine.Tx, r *request) (flags lua.Flags, ok bool) {
	call, _ := command.CallOf(r.spec, r.args)
	switch {
	case call.Function != nil:
		if f := s.function(tx, call.Function); f != nil {
			return f.Flags(), true
		}
	case call.SHA != nil:
		if script, err := s.find(tx, call.SHA); err == nil && script != nil {
			return script.Flags(), script.Declares()
		}
	case call.Source != nil:
		flags, ok, err := lua.Declared(call.Source)
		return flags, ok && err == nil
	}
	return 0, false
}

// Flush forgets all scripts. As in Kvrocks the command itself goes to the log, for replicas.
func (s *scripts) Flush(tx *engine.Tx, args [][]byte) error {
	begin := []byte(cf.PropagateScript)
	end, _ := cf.AppendSuccessor(nil, begin)
	tx.DeleteRange(cf.Propagate, begin, end)
	var w resp.Writer
	w.Array(len(args))
	for _, a := range args {
		w.Bulk(a)
	}
	tx.Put(cf.Propagate, []byte(cf.PropagateScriptFlush), w.Bytes())
	changesOf(tx).flushed = true
	tx.OnCommit(s.engine.Flush)
	return nil
}

// Kill stops the scripts or functions that run.
func (s *scripts) Kill(functions bool) error { return scriptError(s.engine.Kill(functions)) }

// scriptError makes the reply of an error of package lua, whose text begins with the code.
func scriptError(err error) error {
	var failed *lua.Error
	var stopped *lua.Stopped
	switch {
	case errors.As(err, &failed):
		return engine.NewError("", failed.Text)
	case errors.As(err, &stopped):
		return engine.NewError("", stopped.Text)
	}
	return err
}

// scriptRun is the script that a connection runs.
type scriptRun struct {
	resolver command.Resolver
	run      lua.Run
	frame    frame
	host     scriptHost
	readOnly bool
	caller   *command.Spec // the command that runs it, or EXEC does; only while it runs
	declared [][]byte
	keys     []command.KeyRef
	written  []keyRef // keys that its commands have written, if somebody waits for keys

	// What the next try has to lock.
	retry bool
	all   bool
	tries int
	more  []engine.Lock
	// shared: others wait for the commit of the script's transaction. alone: it is tried again without them.
	shared, alone bool

	calls  scriptCalls
	failed bool // there is an error in the reply
}

// keyRef is a key of a namespace: after SELECT, or with MOVE, not always that of the connection.
type keyRef struct {
	ns  string
	key []byte
}

// lockTries is how often a script is tried with the locks that it is known to need, before it gets all.
const lockTries = 8

var errMoreLocks = fmt.Errorf("the script needs more locks: %w", lua.ErrAgain)

// addLocks asks for the locks that were missing, and for those that the tries before had.
func (s *scriptRun) addLocks(tx *engine.Tx) {
	s.retry = false
	tx.AddLocks(s.more)
}

// forget ends the tries.
func (s *scriptRun) forget() { s.retry, s.all, s.tries, s.more, s.alone = false, false, 0, nil, false }

// takeWritten returns the keys that scripts have written since the last time.
func (s *scriptRun) takeWritten() []keyRef {
	w := s.written
	s.written = nil
	return w
}

// Eval runs a script or a function.
func (c *run) Eval(call command.ScriptCall) error {
	s := &c.script
	r := &s.run
	*r = lua.Run{Keys: call.Keys, Args: call.Args, Host: &s.host, Out: &c.out}
	var err error
	switch {
	case call.Function != nil:
		r.Command = strings.ToUpper(c.frame.ctx.Spec.Name)
		if r.Function = c.srv.scripts.function(c.tx, call.Function); r.Function == nil {
			err = errNoFunction
		}
	case call.SHA != nil:
		if r.Script, err = c.srv.scripts.find(c.tx, call.SHA); err == nil && r.Script == nil {
			err = errNoScript
		}
	default:
		r.Script, err = c.srv.scripts.compiled(c.tx, call.Source)
	}
	if err != nil {
		return scriptError(err)
	}
	var flags lua.Flags
	named := r.Function != nil // what it may do is declared
	if named {
		flags = r.Function.Flags()
	} else {
		flags, named = r.Script.Flags(), r.Script.Declares()
	}
	if named && call.ReadOnly && flags&lua.NoWrites == 0 {
		return errReadOnlyCall
	}
	s.readOnly = call.ReadOnly || flags&lua.NoWrites != 0
	s.declared = call.Keys
	inTx, deferred, began := c.inTx(), len(c.deferred), c.sess.Namespace
	s.shared = !inTx && (c.guest || c.segment.done > 0)
	s.failed = false
	c.tx.KeepLocks()
	s.resolver.Use(c.srv.services.Table)
	outer := c.beginScript()
	if r.Final = c.tx.HoldsAll() && !s.shared; inTx && !r.Final && r.Function != nil && r.Function.Library.Resident() {
		// What it does to the variables of its library could not be undone when a later command of the transaction needs
		// a lock.
		err = lua.ErrExclusive
	} else {
		err = c.srv.scripts.engine.Run(r)
	}
	c.frame = outer
	if err == lua.ErrExclusive {
		s.retry, s.all = true, true
		err = errMoreLocks
	}
	if s.retry && err != errMoreLocks {
		s.forget() // it was killed meanwhile
	}
	s.calls.settle(c.srv.stats, !s.retry)
	c.sess.Namespace = began // a SELECT ends with the script
	c.tx.SwitchNamespace(began)
	*r = lua.Run{}
	s.caller, s.declared, s.frame.ctx, s.frame.req = nil, nil, command.Ctx{}, request{}
	var failed *lua.Error
	if errors.As(err, &failed) {
		// What it has written stays, so this is a reply and not an error of the command.
		c.out.Error("", failed.Text)
		s.host.Failed(failed.Text, failed.Counted)
		err = nil
	}
	if err == nil && s.failed {
		c.srv.stats.CallFailed(c.frame.ctx.Spec)
	}
	if err != nil {
		clear(c.deferred[deferred:])
		c.deferred = c.deferred[:deferred]
		s.written = nil
	}
	return scriptError(err)
}

// beginScript begins the frame of a script inside of that of the command which runs it, and returns the latter.
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
	errNoFunction   = engine.NewError("ERR", "Function not found")
	errReadOnlyCall = engine.NewError("ERR", "Can not execute a script with write flag using *_ro command.")
)
