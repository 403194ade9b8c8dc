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

// Options are what scripts need from their server.
type Options struct {
	DB  *engine.DB
	Log *zap.Logger
	// MemoryLimit and TimeLimit are called often and by any goroutine, see lua.Options.
	MemoryLimit func() int64
	TimeLimit   func() time.Duration
	// States is the max number of scripts that run at the same time.
	States int
}

// Store holds the scripts and the function libraries of a database. Its methods are safe for concurrent use.
type Store struct {
	db       *engine.DB
	log      *zap.Logger
	engine   *lua.Engine
	registry atomic.Pointer[registry]
}

var _ command.Scripts = (*Store)(nil)

// changes holds a transaction's changes of the scripts, which take effect at its commit. It is the value of Tx.Local.
type changes struct {
	registry *registry // nil = unchanged
	flushed  bool      // the script cache will be emptied
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

// Run runs a script or a function. An error is one of package lua, see Error.
func (s *Store) Run(r *lua.Run) error { return s.engine.Run(r) }

// Stop stops running scripts and prevents new ones.
func (s *Store) Stop() { s.engine.Stop() }

// Forget empties the script cache: the database has been replaced or emptied.
func (s *Store) Forget() { s.engine.Flush() }

// Active reports whether a script or a function is running.
func (s *Store) Active() bool {
	_, ok := s.engine.Running()
	return ok
}

// Slow reports whether a running script or function has exceeded the time limit.
func (s *Store) Slow() bool { return s.engine.Slow() }

// Busy reports whether a slow script or function is running that was called without keys, and so may access any key.
func (s *Store) Busy() (script, function bool) { return s.engine.Busy() }

// scriptKey returns the key of a stored script.
func scriptKey(sha string) []byte { return []byte(cf.PropagateScript + sha) }

// Load compiles and stores a script and returns its SHA-1.
func (s *Store) Load(tx *engine.Tx, source []byte) (string, error) {
	script, err := s.engine.Compile(source)
	if err != nil {
		return "", Error(err)
	}
	tx.OnCommit(func() { s.engine.Keep(script) })
	if tx.DB().IsReplica() && !tx.IsFromMaster() {
		return script.SHA(), nil // in memory only, as long as there is room, as in Redis
	}
	tx.Put(cf.Propagate, scriptKey(script.SHA()), source)
	return script.SHA(), nil
}

// Store writes the record of Load in a transaction of any database.
func (s *Store) Store(tx *engine.Tx, source []byte) error {
	script, err := s.engine.Compile(source)
	if err != nil {
		return Error(err)
	}
	tx.Put(cf.Propagate, scriptKey(script.SHA()), source)
	return nil
}

// Has reports whether a script exists.
func (s *Store) Has(tx *engine.Tx, sha []byte) (bool, error) {
	script, err := s.Find(tx, sha)
	return script != nil, err
}

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

// flushedBy reports whether the transaction has removed all scripts.
func (s *Store) flushedBy(tx *engine.Tx) bool {
	c, ok := tx.Local.(*changes)
	return ok && c.flushed
}

// Find returns a script by its SHA-1 from memory or the database, nil if it does not exist.
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
		return nil, nil // the stored source does not match the SHA-1
	}
	if tx.Empty() {
		s.engine.KeepSince(script, flushes)
	} else { // the transaction itself may have stored it
		tx.OnCommit(func() { s.engine.Keep(script) })
	}
	return script, nil
}

// Declared returns the flags that the called script or function declares; ok is false if it declares none or does not
// exist.
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

// Flush removes all scripts. As in Kvrocks, the command itself is logged for replicas.
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

// Kill stops the running scripts or functions.
func (s *Store) Kill(functions bool) error { return Error(s.engine.Kill(functions)) }

// Error converts an error of package lua, whose text begins with the error code, into a reply.
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
