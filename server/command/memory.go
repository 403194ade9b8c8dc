package command

import (
	"github.com/basaltdb/basalt/engine/keys"
)

var memoryCommands = []Spec{
	{Name: "memory", Arity: -2, Sub: []Spec{
		{Name: "usage", Handler: memoryUsage, Arity: -3, Flags: ReadOnly},
		{Name: "stats", Handler: memoryStats, Arity: 2},
		{Name: "doctor", Handler: memoryDoctor, Arity: 2},
		{Name: "malloc-stats", Handler: memoryMallocStats, Arity: 2},
		{Name: "purge", Handler: memoryPurge, Arity: 2},
		{Name: "help", Handler: help, Arity: 2, Flags: Loading | Stale},
	}},
	{Name: "disk", Arity: -2, Sub: []Spec{
		{Name: "usage", Handler: diskUsage, Arity: 3, Flags: ReadOnly},
		{Name: "help", Handler: help, Arity: 2, Flags: Loading | Stale},
	}},
	{Name: "kprofile", Arity: -3, Handler: kprofile, Flags: ReadOnly | Admin | AdminOnly},
}

// sampled is how many elements of a collection MEMORY USAGE reads by default.
const sampled = 5

func memoryUsage(c *Ctx) error {
	samples := int64(sampled)
	o := options{args: c.Args[3:]}
	for o.more() {
		o.check(o.int("SAMPLES", &samples) && samples >= 0, ErrSyntax)
	}
	if o.err != nil {
		return o.err
	}
	n, exists, err := keys.Size(c.Tx, c.Args[2], uint64(samples))
	return bytesOrNull(c, n, exists, err)
}

func bytesOrNull(c *Ctx, n uint64, exists bool, err error) error {
	switch {
	case err != nil:
		return err
	case !exists:
		c.Out.Null()
	default:
		c.Out.Int(int64(n))
	}
	return nil
}

// memoryStats has the fields of Redis that apply here, and fields that only this server has.
func memoryStats(c *Ctx) error {
	stats := c.Srv.Memory.Stats()
	c.Out.Map(len(stats))
	for _, s := range stats {
		c.Out.BulkString(s.Name)
		if s.Ratio != 0 {
			c.Out.Double(s.Ratio)
		} else {
			c.Out.Int(s.Value)
		}
	}
	return nil
}

// MemoryStat is a line of MEMORY STATS: a number, or a ratio when that is not 0.
type MemoryStat struct {
	Name  string
	Value int64
	Ratio float64
}

func memoryDoctor(c *Ctx) error {
	return replyVerbatim(c, c.Srv.Memory.Report(), nil)
}

func memoryMallocStats(c *Ctx) error {
	return replyVerbatim(c, c.Srv.Memory.RuntimeStats(), nil)
}

func memoryPurge(c *Ctx) error {
	c.Srv.Memory.Free()
	return replyOK(c, nil)
}

func diskUsage(c *Ctx) error {
	n, exists, err := keys.DiskUsage(c.Tx, c.Args[2])
	return bytesOrNull(c, n, exists, err)
}

// kprofile is Kvrocks's KPROFILE MEMORY ENABLE|DISABLE|STATUS|DUMP directory. Where Kvrocks dumps jemalloc's profile,
// this server dumps a profile of the Go heap; RocksDB's memory is in INFO memory and INFO rocksdb.
func kprofile(c *Ctx) error {
	if !EqualFold(c.Args[1], "MEMORY") {
		return errorf("only supports MEMORY subcommand")
	}
	op, n := c.Args[2], len(c.Args)
	dump := EqualFold(op, "DUMP")
	switch {
	case dump && n != 4, !dump && n != 3:
		return wrongArgs("kprofile")
	case EqualFold(op, "ENABLE"):
		c.Srv.Memory.SetHeapProfiling(true)
	case EqualFold(op, "DISABLE"):
		c.Srv.Memory.SetHeapProfiling(false)
	case EqualFold(op, "STATUS"):
		if c.Srv.Memory.HeapProfiling() {
			c.Out.SimpleString("enabled")
		} else {
			c.Out.SimpleString("disabled")
		}
		return nil
	case dump:
		if err := c.Srv.Memory.DumpHeapProfile(string(c.Args[3]), c.Sess.Local); err != nil {
			return err
		}
	default:
		return errorf("MEMORY subcommand must be one of ENABLE, DISABLE, STATUS, DUMP")
	}
	return replyOK(c, nil)
}
