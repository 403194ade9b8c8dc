package command

import (
	"time"

	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/server/resp"
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
	{Name: "slowlog", Arity: -2, Sub: logSubcommands(slowLog, writeSlow)},
	{Name: "commandlog", Arity: -2, Sub: typed(logSubcommands(slowLog, writeSlow))},
	{Name: "perflog", Arity: -2, Sub: logSubcommands(func(c *Ctx) Log[PerfEntry] { return c.Srv.PerfLog }, writePerf)},
}

func slowLog(c *Ctx) Log[SlowEntry] { return c.Srv.SlowLog }

func logSubcommands[E any](log func(*Ctx) Log[E], write func(*resp.Writer, *E)) []Spec {
	return []Spec{
		{Name: "get", Arity: -2, Flags: logFlags, Handler: func(c *Ctx) error {
			n, err := logCount(c)
			if err != nil {
				return err
			}
			list := log(c).Newest(n)
			c.Out.Array(len(list))
			for i := range list {
				write(c.Out, &list[i])
			}
			return nil
		}},
		{Name: "len", Arity: 2, Flags: logFlags, Handler: func(c *Ctx) error { return replyInt(c, log(c).Len(), nil) }},
		{Name: "reset", Arity: 2, Flags: logFlags, Handler: func(c *Ctx) error {
			log(c).Reset()
			return replyOK(c, nil)
		}},
		{Name: "help", Handler: help, Arity: 2, Flags: Loading | Stale},
	}
}

var errLogType = engine.NewError("ERR", "type should be slow: large requests and replies are not logged")

// typed turns the subcommands of SLOWLOG into those of Valkey's COMMANDLOG, which have the type of a log as last
// argument.
func typed(subcommands []Spec) []Spec {
	for i := range subcommands {
		s := &subcommands[i]
		if s.Name == "help" {
			continue
		}
		if s.Arity = 3; s.Name == "get" {
			s.Arity = 4
		}
		untyped := s.Handler
		s.Handler = func(c *Ctx) error {
			last := len(c.Args) - 1
			if !EqualFold(c.Args[last], "slow") {
				return errLogType
			}
			own := *c
			own.Args = c.Args[:last]
			return untyped(&own)
		}
	}
	return subcommands
}

func writeSlow(w *resp.Writer, e *SlowEntry) {
	w.Array(6)
	w.Int(e.ID)
	w.Int(e.At.Unix())
	w.Int(e.Took.Microseconds())
	writeBulks(w, e.Args)
	w.BulkString(e.Addr)
	w.BulkString(e.Name)
}

func writePerf(w *resp.Writer, e *PerfEntry) {
	w.Array(6)
	w.Int(e.ID)
	w.Int(e.At.Unix())
	w.BulkString(e.Command)
	w.Int(e.Took.Microseconds())
	w.BulkString(e.Perf)
	w.BulkString(e.IO)
}

// logCount reads how many entries are asked for: 10 by default, -1 or * for all.
func logCount(c *Ctx) (int, error) {
	switch {
	case len(c.Args) == 2:
		return 10, nil
	case len(c.Args) > 3:
		return 0, wrongSubcommand(c)
	case string(c.Args[2]) == "*": // Kvrocks
		return -1, nil
	}
	n, ok := ParseInt(c.Args[2])
	if !ok || n < -1 {
		return 0, engine.NewError("ERR", "count should be greater than or equal to -1")
	}
	return int(min(n, 1<<31)), nil
}
