package command

import (
	"bytes"
	"errors"
	"slices"

	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/server/glob"
	"github.com/basaltdb/basalt/server/rdb"
)

// functionChange are the flags of commands that change the libraries: no other command runs meanwhile.
const functionChange = NoScript | Write | Solo | Exclusive

var functionCommands = []Spec{
	{Name: "fcall", Handler: fcall, Arity: -3, Flags: evalFlags, Keys: scriptKeyFinder(true)},
	{Name: "fcall_ro", Handler: fcall, Arity: -3, Flags: evalROFlags, Keys: scriptKeyFinder(false)},
	{Name: "function", Arity: -2, Sub: slices.Concat(kvrocksFunctionCommands, []Spec{
		{Name: "load", Handler: functionLoad, Arity: -3, Flags: functionChange | DenyOOM},
		{Name: "delete", Handler: functionDelete, Arity: 3, Flags: functionChange},
		{Name: "flush", Handler: functionFlush, Arity: -2, Flags: functionChange},
		{Name: "restore", Handler: functionRestore, Arity: -3, Flags: functionChange | DenyOOM},
		{Name: "dump", Handler: functionDump, Arity: 2, Flags: NoScript},
		{Name: "list", Handler: functionList, Arity: -2, Flags: NoScript},
		{Name: "stats", Handler: functionStats, Arity: 2, Flags: NoScript | AllowBusy},
		{Name: "kill", Handler: functionKill, Arity: 2, Flags: NoScript | AllowBusy},
		{Name: "help", Handler: help, Arity: 2, Flags: Loading | Stale},
	})},
}

// LibraryExistsError is the error for a library whose name is already in use.
type LibraryExistsError struct{ Name string }

func (e *LibraryExistsError) Error() string { return "Library '" + e.Name + "' already exists" }

func fcall(c *Ctx) error {
	if !c.Srv.Scripts.HasFunction(c.Tx, c.Args[1]) {
		return errorf("Function not found")
	}
	keys, rest, err := scriptKeys(c.Args)
	if err == ErrNotInteger {
		return errorf("Bad number of keys provided")
	}
	if err != nil {
		return err
	}
	call, _ := CallOf(c.Spec, c.Args)
	call.Keys, call.Args = keys, rest
	return c.Sess.Control.Eval(call)
}

func functionLoad(c *Ctx) error {
	replace := false
	o := options{args: c.Args[2:]}
	for len(o.args) > 1 {
		if !o.flag("REPLACE", &replace) {
			return errorf("Unknown option given: %s", echoed(o.args[0]))
		}
	}
	name, err := c.Srv.Scripts.LoadLibrary(c.Tx, o.args[0], replace)
	return replyString(c, name, err)
}

func functionDelete(c *Ctx) error {
	if !c.Srv.Scripts.DeleteLibrary(c.Tx, string(c.Args[2])) {
		return errorf("Library not found")
	}
	return replyOK(c, nil)
}

func functionFlush(c *Ctx) error {
	if len(c.Args) > 3 {
		return wrongSubcommand(c)
	}
	if !isFlushMode(c.Args[2:]) {
		return errorf("FUNCTION FLUSH only supports SYNC|ASYNC option")
	}
	c.Srv.Scripts.FlushLibraries(c.Tx)
	return replyOK(c, nil)
}

// functionOpcode begins a library in a dump, as in an RDB file: RDB_OPCODE_FUNCTION2.
const functionOpcode = 245

// functionVersion is the RDB version of a dump, that of Redis 7.0.
const functionVersion = 10

func functionDump(c *Ctx) error {
	var b []byte
	for _, l := range c.Srv.Scripts.Libraries(c.Tx) {
		b = rdb.AppendString(append(b, functionOpcode), []byte(l.Source))
	}
	c.Out.Bulk(rdb.AppendFooter(b, functionVersion))
	return nil
}

func functionRestore(c *Ctx) error {
	if len(c.Args) > 4 {
		return wrongSubcommand(c)
	}
	var flush, replace bool
	if len(c.Args) == 4 {
		switch p := c.Args[3]; {
		case EqualFold(p, "FLUSH"):
			flush = true
		case EqualFold(p, "REPLACE"):
			replace = true
		case !EqualFold(p, "APPEND"):
			return errorf("Wrong restore policy given, value should be either FLUSH, APPEND or REPLACE.")
		}
	}
	body, err := rdb.Open(c.Args[2])
	if err != nil {
		return errDumpFooter
	}
	var sources [][]byte
	for len(body) > 0 {
		if body[0] != functionOpcode {
			return errorf("given type is not a function")
		}
		source, rest, err := rdb.ReadString(body[1:], c.Srv.Settings.MaxBulk())
		if err != nil {
			return engine.NewError("ERR", "Failed loading library data")
		}
		sources, body = append(sources, source), rest
	}
	err = c.Srv.Scripts.RestoreLibraries(c.Tx, sources, flush, replace)
	if exists, ok := errors.AsType[*LibraryExistsError](err); ok {
		return engine.NewError("ERR", "Library "+exists.Name+" already exists") // Redis does not quote the name here
	}
	return replyOK(c, err)
}

func functionList(c *Ctx) error {
	var pattern []byte
	withCode := false
	o := options{args: c.Args[2:]}
	for o.more() {
		switch {
		case !withCode && o.flag("WITHCODE", &withCode):
		case pattern == nil && o.is("LIBRARYNAME"):
			if len(o.args) == 0 {
				return errors.New("library name argument was not given")
			}
			pattern = bytes.ToLower(o.next()) // either case matches
		default:
			return errorf("Unknown argument %s", echoed(o.args[0]))
		}
	}
	mark, n := c.Out.Mark(), 0
	for _, l := range c.Srv.Scripts.Libraries(c.Tx) {
		if pattern != nil && !glob.Compile(pattern).Match(bytes.ToLower([]byte(l.Name))) {
			continue
		}
		n++
		fields := 3
		if withCode {
			fields = 4
		}
		c.Out.Map(fields)
		stringField(c.Out, "library_name", l.Name)
		stringField(c.Out, "engine", "LUA")
		c.Out.BulkString("functions")
		c.Out.Array(len(l.Functions))
		for _, f := range l.Functions {
			c.Out.Map(3)
			stringField(c.Out, "name", f.Name())
			c.Out.BulkString("description")
			if f.HasDescription {
				c.Out.BulkString(f.Description)
			} else {
				c.Out.Null()
			}
			c.Out.BulkString("flags")
			writeWords(c.Out, f.Flags().Names())
		}
		if withCode {
			stringField(c.Out, "library_code", l.Source)
		}
	}
	c.Out.InsertArray(mark, n)
	return nil
}

func functionStats(c *Ctx) error {
	c.Out.Map(2)
	c.Out.BulkString("running_script")
	if f, ok := c.Srv.Scripts.Running(); ok {
		c.Out.Map(3)
		stringField(c.Out, "name", f.Name)
		c.Out.BulkString("command")
		writeBulks(c.Out, f.Command)
		intField(c.Out, "duration_ms", f.Took.Milliseconds())
	} else {
		c.Out.Null()
	}
	libraries := c.Srv.Scripts.Libraries(c.Tx)
	functions := 0
	for _, l := range libraries {
		functions += len(l.Functions)
	}
	c.Out.BulkString("engines")
	c.Out.Map(1)
	c.Out.BulkString("LUA")
	c.Out.Map(2)
	intField(c.Out, "libraries_count", len(libraries))
	intField(c.Out, "functions_count", functions)
	return nil
}

func functionKill(c *Ctx) error {
	return replyOK(c, c.Srv.Scripts.Kill(true))
}
