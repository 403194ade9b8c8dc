package server

import (
	"time"

	"github.com/basaltdb/basalt/server/command"
)

// How the time of a command is measured.
//
// A look at the clock takes as long as a twentieth of a GET. So consecutive calls of one command that is known to be
// fast (its flag Fast, Single or Blind) share two looks, up to groupCalls of them: the mean is their time in the
// statistics. All others, and everything when slowlog-log-slower-than or latency-monitor-threshold is below
// exactBelow, are measured one by one.
//
// The time of a command begins before it waits for its locks and its records are read ahead, and ends with its reply.
// Commands that share a transaction also share its locks and its commit: the first of them has the time of the locks,
// the last one that of the commit.
const (
	groupCalls = 16
	exactBelow = time.Millisecond
)

// shared are the flags of the commands whose calls are measured in groups.
const shared = command.Fast | command.Single | command.Blind

// callStats collects the calls of one run, so that the shared counters are touched
// once a command name and not once a call.
type callStats struct {
	byID    []callCount
	touched []int32
	group   callGroup
}

type callCount struct {
	calls, nsec int64
}

// callGroup are consecutive calls of one command between two looks at the clock.
type callGroup struct {
	spec *command.Spec
	n    int
	last *request
	// The call with the longest reply: of a group that was slow it is the one that most likely was.
	longest *request
	length  int // of its reply
	at      int // where the reply of the last call begins
}

// begin prepares for a run of commands. What observes it is read once.
func (c *conn) begin() {
	c.seen = c.srv.observed.Load()
	if c.track != nil {
		c.track.begin()
	}
}

// prepare starts the clock of a command whose locks are about to be taken.
func (c *conn) prepare(spec *command.Spec) {
	if g := &c.calls.group; spec != g.spec || c.seen.exact || spec.Flags&shared == 0 {
		c.look(spec)
	}
}

// meter counts one call of a command, whose clock runs already or starts now.
func (c *conn) meter(r *request) {
	s := &c.calls
	g := &s.group
	switch {
	case r.spec != g.spec || g.n >= groupCalls || g.n > 0 && (c.seen.exact || r.spec.Flags&shared == 0):
		c.look(r.spec)
	case g.n > 0:
		g.replied(c.out.Len())
	}
	g.n++
	g.last, g.at = r, c.out.Len()
	if s.byID == nil {
		s.byID = make([]callCount, command.NumSpecs())
	}
	n := &s.byID[r.spec.ID]
	if n.calls == 0 {
		s.touched = append(s.touched, int32(r.spec.ID))
	}
	n.calls++
}

// replied notes where the reply of the last call ends.
func (g *callGroup) replied(end int) {
	if length := end - g.at; g.longest == nil || length > g.length {
		g.longest, g.length = g.last, length
	}
}

// look reads the clock: what was under way ends, and the command begins; nil = none does.
func (c *conn) look(spec *command.Spec) {
	g := &c.calls.group
	now := time.Since(c.srv.started)
	if g.n > 0 {
		g.replied(c.out.Len())
		c.measured(g, now-c.clock)
	}
	c.clock = now
	*g = callGroup{spec: spec}
}

// measured enters the time of a group into the statistics.
func (c *conn) measured(g *callGroup, took time.Duration) {
	c.calls.byID[g.spec.ID].nsec += int64(took)
	seen := c.seen
	if seen.histograms {
		c.srv.stats.calls[g.spec.ID].histogram().add(took/time.Duration(g.n), int64(g.n))
	}
	if took >= seen.noteworthy {
		c.noteSlow(g, took)
	}
}

// noteSlow enters a group whose time is noteworthy into the slow log and the latency monitor. When it is of several
// calls, the one with the longest reply stands for them.
func (c *conn) noteSlow(g *callGroup, took time.Duration) {
	if took >= c.seen.slow && g.spec.Flags&command.SkipSlowlog == 0 {
		c.srv.slowlog.add(c.sess, g.longest.spec, g.longest.args, took)
	}
	if took >= c.seen.latency {
		event := "command"
		if g.spec.Flags&command.Fast != 0 {
			event = "fast-command"
		}
		c.srv.latency.add(event, time.Now(), took)
	}
}
