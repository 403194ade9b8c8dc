package command

import (
	"fmt"
	"strings"
	"time"

	"github.com/basaltdb/basalt/engine"
)

// SlowEntry is an entry of the slow log.
type SlowEntry struct {
	ID   int64
	At   time.Time
	Took time.Duration
	Args []string // shortened, without secrets
	Addr string
	Name string // of the client
}

// PerfEntry is an entry of the log of profiled commands.
type PerfEntry struct {
	ID       int64
	At       time.Time
	Took     time.Duration
	Command  string
	Perf, IO string // RocksDB's perf context and I/O statistics
}

const logFlags = Admin | Loading | Stale | AdminOnly

var logCommands = []Spec{
	{Name: "slowlog", Arity: -2, Sub: []Spec{
		{Name: "get", Handler: slowlogGet, Arity: -2, Flags: logFlags},
		{Name: "len", Handler: slowlogLen, Arity: 2, Flags: logFlags},
		{Name: "reset", Handler: slowlogReset, Arity: 2, Flags: logFlags},
		{Name: "help", Handler: help, Arity: 2, Flags: Loading | Stale},
	}},
	{Name: "perflog", Arity: -2, Sub: []Spec{
		{Name: "get", Handler: perflogGet, Arity: -2, Flags: logFlags},
		{Name: "len", Handler: perflogLen, Arity: 2, Flags: logFlags},
		{Name: "reset", Handler: perflogReset, Arity: 2, Flags: logFlags},
		{Name: "help", Handler: help, Arity: 2, Flags: Loading | Stale},
	}},
}

// logCount reads how many entries are asked for: 10 by default, -1 or * for all.
func logCount(c *Ctx) (int, error) {
	switch {
	case len(c.Args) == 2:
		return 10, nil
	case len(c.Args) > 3:
		return 0, unknownSubcommandOrArgs(c)
	case string(c.Args[2]) == "*": // Kvrocks
		return -1, nil
	}
	n, ok := ParseInt(c.Args[2])
	if !ok || n < -1 {
		return 0, engine.NewError("ERR", "count should be greater than or equal to -1")
	}
	return int(min(n, 1<<31)), nil
}

// unknownSubcommandOrArgs is Redis's error for a subcommand with too many arguments.
func unknownSubcommandOrArgs(c *Ctx) error {
	parent := c.Spec
	if parent.Parent != nil {
		parent = parent.Parent
	}
	return engine.NewError("ERR",
		fmt.Sprintf("unknown subcommand or wrong number of arguments for '%s'. Try %s HELP.",
			shorten(c.Args[1], echoed), strings.ToUpper(parent.Name)))
}

func slowlogGet(c *Ctx) error {
	n, err := logCount(c)
	if err != nil {
		return err
	}
	list := c.Srv.SlowLog.Newest(n)
	c.Out.Array(len(list))
	for _, e := range list {
		c.Out.Array(6)
		c.Out.Int(e.ID)
		c.Out.Int(e.At.Unix())
		c.Out.Int(e.Took.Microseconds())
		c.Out.Array(len(e.Args))
		for _, a := range e.Args {
			c.Out.BulkString(a)
		}
		c.Out.BulkString(e.Addr)
		c.Out.BulkString(e.Name)
	}
	return nil
}

func slowlogLen(c *Ctx) error {
	c.Out.Int(int64(c.Srv.SlowLog.Len()))
	return nil
}

func slowlogReset(c *Ctx) error {
	c.Srv.SlowLog.Reset()
	c.Out.OK()
	return nil
}

func perflogGet(c *Ctx) error {
	n, err := logCount(c)
	if err != nil {
		return err
	}
	list := c.Srv.PerfLog.Newest(n)
	c.Out.Array(len(list))
	for _, e := range list {
		c.Out.Array(6)
		c.Out.Int(e.ID)
		c.Out.Int(e.At.Unix())
		c.Out.BulkString(e.Command)
		c.Out.Int(e.Took.Microseconds())
		c.Out.BulkString(e.Perf)
		c.Out.BulkString(e.IO)
	}
	return nil
}

func perflogLen(c *Ctx) error {
	c.Out.Int(int64(c.Srv.PerfLog.Len()))
	return nil
}

func perflogReset(c *Ctx) error {
	c.Srv.PerfLog.Reset()
	c.Out.OK()
	return nil
}
