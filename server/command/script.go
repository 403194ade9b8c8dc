package command

import (
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/server/lua"
)

// ScriptCall is a call of a script or a function.
type ScriptCall struct {
	Source   []byte // the script itself, or
	SHA      []byte // its SHA-1, or
	Function []byte // the name of a function
	Keys     [][]byte
	Args     [][]byte
	ReadOnly bool // it must not write
}

// Scripts are the scripts of a server. They are stored in the database. The methods that change them write to a
// transaction, and take effect with its commit.
type Scripts interface {
	// Load compiles a script, stores it, and returns its SHA-1 in hexadecimal.
	Load(tx *engine.Tx, source []byte) (sha string, err error)
	// Has reports whether a script with this SHA-1 exists.
	Has(tx *engine.Tx, sha []byte) (bool, error)
	// Flush deletes all scripts. The arguments are those of the command.
	Flush(tx *engine.Tx, args [][]byte) error
	// LoadLibrary keeps a library of functions and returns its name. With replace it replaces a library of the same
	// name.
	LoadLibrary(tx *engine.Tx, source []byte, replace bool) (name string, err error)
	// DeleteLibrary deletes a library; ok is false when no library has that name.
	DeleteLibrary(tx *engine.Tx, name string) (ok bool)
	// FlushLibraries deletes all libraries.
	FlushLibraries(tx *engine.Tx)
	// RestoreLibraries stores the libraries of a dump: all or, after an error, none.
	RestoreLibraries(tx *engine.Tx, sources [][]byte, flush, replace bool) error
	// Libraries returns the libraries as the transaction sees them, sorted by name.
	Libraries(tx *engine.Tx) []*lua.Library
	// HasFunction reports whether the transaction sees a function of this name.
	HasFunction(tx *engine.Tx, name []byte) bool
	// Running returns the function that has been running for some time; ok is false when there is none.
	Running() (f lua.Running, ok bool)

	// Kill stops the scripts, or the functions, that have been running for some time.
	Kill(functions bool) error
}

// Unlike in Redis, SCRIPT LOAD and FLUSH are MayReplicate: Redis does not keep scripts after the server ends.
const (
	evalFlags   = NoScript | Stale | SkipMonitor | MayReplicate | NoMandatoryKeys | MovableKeys | Script
	evalROFlags = NoScript | Stale | SkipMonitor | ReadOnly | NoMandatoryKeys | MovableKeys | Script
	scriptFlags = NoScript | Stale
)

var scriptCommands = []Spec{
	{Name: "eval", Handler: eval, Arity: -3, Flags: evalFlags, Keys: scriptKeyFinder(true)},
	{Name: "evalsha", Handler: eval, Arity: -3, Flags: evalFlags, Keys: scriptKeyFinder(true)},
	{Name: "eval_ro", Handler: eval, Arity: -3, Flags: evalROFlags, Keys: scriptKeyFinder(false)},
	{Name: "evalsha_ro", Handler: eval, Arity: -3, Flags: evalROFlags, Keys: scriptKeyFinder(false)},
	{Name: "script", Arity: -2, Sub: []Spec{
		{Name: "load", Handler: scriptLoad, Arity: 3, Flags: scriptFlags | MayReplicate | Script},
		{Name: "exists", Handler: scriptExists, Arity: -3, Flags: NoScript},
		{Name: "flush", Handler: scriptFlush, Arity: -2, Flags: NoScript | MayReplicate | Script},
		{Name: "kill", Handler: scriptKill, Arity: 2, Flags: NoScript | AllowBusy},
		{Name: "debug", Handler: scriptDebug, Arity: 3, Flags: NoScript},
		{Name: "help", Handler: help, Arity: 2, Flags: Loading | Stale},
	}},
}

var errManyKeys = engine.NewError("ERR", "Number of keys can't be greater than number of args")

// scriptKeys splits what follows the name of a script: the number of keys, the keys, the other arguments.
func scriptKeys(args [][]byte) (keys, rest [][]byte, err error) {
	n, ok := ParseInt(args[2])
	switch {
	case !ok:
		return nil, nil, ErrNotInteger
	case n > int64(len(args)-3):
		return nil, nil, errManyKeys
	case n < 0:
		return nil, nil, errorf("Number of keys can't be negative")
	}
	return args[3 : 3+n], args[3+n:], nil
}

func scriptKeyFinder(write bool) keyFinder {
	return func(args [][]byte, add func(int, bool)) error {
		if len(args) > 2 {
			keys, _, _ := scriptKeys(args)
			for i := range keys {
				add(3+i, write)
			}
		}
		return nil
	}
}

func eval(c *Ctx) error {
	keys, rest, err := scriptKeys(c.Args)
	if err != nil {
		return err
	}
	call, _ := CallOf(c.Spec, c.Args)
	call.Keys, call.Args = keys, rest
	return c.Sess.Control.Eval(call)
}

// CallOf returns which script or function a command runs, without keys and arguments; ok is false when it runs none.
func CallOf(spec *Spec, args [][]byte) (call ScriptCall, ok bool) {
	call.ReadOnly = spec.Flags&ReadOnly != 0
	switch spec.full {
	case "eval", "eval_ro":
		call.Source = args[1]
	case "evalsha", "evalsha_ro":
		call.SHA = args[1]
	case "fcall", "fcall_ro":
		call.Function = args[1]
	default:
		return call, false
	}
	return call, true
}

func scriptLoad(c *Ctx) error {
	sha, err := c.Srv.Scripts.Load(c.Tx, c.Args[2])
	return replyString(c, sha, err)
}

func scriptExists(c *Ctx) error {
	c.Out.Array(len(c.Args) - 2)
	for _, sha := range c.Args[2:] {
		ok, err := c.Srv.Scripts.Has(c.Tx, sha)
		if err != nil {
			return err
		}
		c.Out.Int(boolInt(ok))
	}
	return nil
}

func scriptFlush(c *Ctx) error {
	if !isFlushMode(c.Args[2:]) {
		return errorf("SCRIPT FLUSH only support SYNC|ASYNC option")
	}
	return replyOK(c, c.Srv.Scripts.Flush(c.Tx, c.Args))
}

func scriptKill(c *Ctx) error {
	return replyOK(c, c.Srv.Scripts.Kill(false))
}

func scriptDebug(c *Ctx) error {
	if !EqualFold(c.Args[2], "NO") {
		return errorf("there is no debugger for scripts")
	}
	return replyOK(c, nil)
}
