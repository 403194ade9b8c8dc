package session

import (
	"math/rand/v2"
	"runtime"
	"strings"
	"time"

	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/server/command"
)

// profiling says which commands are profiled: profiling-sample-ratio and profiling-sample-commands.
type profiling struct {
	ratio    int // percent
	all      bool
	commands map[string]bool // full names
	least    time.Duration   // shorter calls are not kept: profiling-sample-record-threshold-ms
}

// newProfiling returns nil when nothing is profiled.
func newProfiling(ratio int, commands string, least time.Duration) *profiling {
	p := &profiling{ratio: ratio, least: least, commands: map[string]bool{}}
	for name := range strings.SplitSeq(commands, ",") {
		switch name = strings.ToLower(strings.TrimSpace(name)); name {
		case "":
		case "*":
			p.all = true
		default:
			p.commands[name] = true
		}
	}
	if ratio == 0 || !p.all && len(p.commands) == 0 {
		return nil
	}
	return p
}

// picks decides whether a call is profiled. The full name of a subcommand selects it, and so does the name of its
// container.
func (p *profiling) picks(spec *command.Spec) bool {
	if p == nil {
		return false
	}
	if !p.all && !p.commands[spec.FullName()] && (spec.Parent == nil || !p.commands[spec.Parent.Name]) {
		return false
	}
	return p.ratio == 100 || rand.IntN(100) < p.ratio
}

// profile runs one command by itself, with RocksDB's counters of this thread switched on, and returns how many commands
// have run: 0 when a pause has begun. Work that another connection does for the command is not measured: a commit that
// joins another connection's group is written by that connection's thread.
func (c *run) profile(reqs []request) int {
	r := &reqs[0]
	c.readClock(nil)
	begin := c.clock
	runtime.LockOSThread()
	stop := engine.ProfileThread()
	c.profiled = true
	n := c.dispatch(reqs[:1])
	c.profiled = false
	perf, io := stop()
	runtime.UnlockOSThread()
	c.readClock(nil)
	took := c.clock - begin
	if n == 0 || perf == "" { // the command did not use the database
		return n
	}
	if took >= c.seen.profiling.least {
		c.srv.perflog.Push(func(id int64) command.PerfEntry {
			return command.PerfEntry{ID: id, At: time.Now(), Took: took, Command: r.spec.FullName(), Perf: perf, IO: io}
		})
	}
	return n
}
