package scripts

import (
	"errors"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/server/command"
	"github.com/basaltdb/basalt/server/lua"
	"github.com/basaltdb/basalt/server/resp"
)

// Options are what scripts need of their server.
type Options struct {
	DB  *engine.DB
	Log *zap.Logger
	// MemoryLimit and TimeLimit are asked often and by any goroutine, see lua.Options.
	MemoryLimit func() int64
	TimeLimit   func() time.Duration
	// States is how many scripts can run at once.
	States int
}

// Store holds the scripts and the function libraries of a database. Its methods may be called by any goroutine.
type Store struct {
	db       *engine.DB
	log      *zap.Logger
	engine   *lua.Engine
	registry atomic.Pointer[registry]
}

var _ command.Scripts = (*Store)(nil)

// changes are what a transaction has changed of the scripts and will take effect with its commit; the value of
// Tx.Local.
type changes struct {
	registry *registry // nil = the libraries are as they were
	flushed  bool      // the cache of scripts is going to be emptied
}

func changesOf(tx *engine.Tx) *changes {
	c, ok := tx.Local.(*changes)
	if !ok {
		c = &changes{}
		tx.Local = c
	}
	return c
}

// Open returns the scripts and libraries of a database.
func Open(o Options) *Store {
	s := &Store{db: o.DB, log: o.Log}
	s.engine = lua.New(lua.Options{
		MemoryLimit: o.MemoryLimit,
		TimeLimit:   o.TimeLimit,
		Version:     command.RedisVersion,
		States:      o.States,
		Slow: func(name string, took time.Duration) {
			s.log.Warn("a slow script is running", zap.String("script", name), zap.Duration("so far", took))
		},
	})
	s.Reload()
	return s
}

// Run runs a script or a function. The error is one of package lua, see Error.
func (s *Store) Run(r *lua.Run) error { return s.engine.Run(r) }

// Stop ends the scripts that run; none is begun any more.
func (s *Store) Stop() { s.engine.Stop() }

// Forget empties the cache of scripts: the database has other ones now, or none.
func (s *Store) Forget() { s.engine.Flush() }

// Active reports whether a script or a function runs.
func (s *Store) Active() bool {
	_, ok := s.engine.Running()
	return ok
}

// Slow reports whether a script or a function has run longer than the time limit, and still runs.
func (s *Store) Slow() bool { return s.engine.Slow() }

// Busy reports whether a slow script or function runs that was called without keys, and so may touch any.
func (s *Store) Busy() (script, function bool) { return s.engine.Busy() }

// scriptKey is the key under which the database keeps a script.
func scriptKey(sha string) []byte { return []byte(cf.PropagateScript + sha) }

// Load keeps a script.
func (s *Store) Load(tx *engine.Tx, source []byte) (string, error) {
	script, err := s.engine.Compile(source)
	if err != nil {
		return "", Error(err)
	}
	tx.OnCommit(func() { s.engine.Keep(script) })
	if tx.DB().IsReplica() && !tx.IsFromMaster() {
		return script.SHA(), nil // as long as memory has room, as in Redis
	}
	tx.Put(cf.Propagate, scriptKey(script.SHA()), source)
	return script.SHA(), nil
}

// Store writes what Load keeps, in a transaction of any database.
func (s *Store) Store(tx *engine.Tx, source []byte) error {
	script, err := s.engine.Compile(source)
	if err != nil {
		return Error(err)
	}
	tx.Put(cf.Propagate, scriptKey(script.SHA()), source)
	return nil
}

// Has reports whether there is a script.
func (s *Store) Has(tx *engine.Tx, sha []byte) (bool, error) {
	script, err := s.Find(tx, sha)
	return script != nil, err
}

// Compiled returns the script of a source.
func (s *Store) Compiled(tx *engine.Tx, source []byte) (*lua.Script, error) {
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
func (s *Store) flushedBy(tx *engine.Tx) bool {
	c, ok := tx.Local.(*changes)
	return ok && c.flushed
}

// Find looks a script up by its SHA-1, in memory and in the database; nil = there is none.
func (s *Store) Find(tx *engine.Tx, sha []byte) (*lua.Script, error) {
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
		return nil, Error(err)
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

// Declared returns the flags that the called script or function declares; ok is false when it declares none, or does
// not exist.
func (s *Store) Declared(tx *engine.Tx, call command.ScriptCall) (flags lua.Flags, ok bool) {
	switch {
	case call.Function != nil:
		if f := s.Function(tx, call.Function); f != nil {
			return f.Flags(), true
		}
	case call.SHA != nil:
		if script, err := s.Find(tx, call.SHA); err == nil && script != nil {
			return script.Flags(), script.Declares()
		}
	case call.Source != nil:
		flags, ok, err := lua.Declared(call.Source)
		return flags, ok && err == nil
	}
	return 0, false
}

// Flush forgets all scripts. As in Kvrocks the command itself goes to the log, for replicas.
func (s *Store) Flush(tx *engine.Tx, args [][]byte) error {
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
func (s *Store) Kill(functions bool) error { return Error(s.engine.Kill(functions)) }

// Error makes the reply of an error of package lua, whose text begins with the code.
func Error(err error) error {
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
