package session

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/basaltdb/basalt/server/command"
	"github.com/basaltdb/basalt/server/metrics"
)

// How the time of a command is measured.
//
// Reading the clock takes a twentieth of the time of a GET. So up to groupCalls consecutive calls of one command that
// is known to be fast (its flag is Fast, Single or Blind) share two readings: the statistics get the mean. All other
// calls are measured one by one, and so is every call when slowlog-log-slower-than or latency-monitor-threshold is
// below exactBelow.
//
// The time of a command begins before it waits for its locks and its records are read ahead, and ends with its reply.
// Commands that share a transaction also share its locks and its commit: the time of the locks counts for the first
// command, the time of the commit for the last.
const (
	groupCalls = 16
	exactBelow = time.Millisecond
)

// shared are the flags of the commands whose calls are measured in groups.
const shared = command.Fast | command.Single | command.Blind

// callStats collects the calls of one run, so that the shared counters are changed once per command name and not once
// per call.
type callStats struct {
	callCounts
	group callGroup
}

// callGroup is a series of calls of one command between two readings of the clock.
type callGroup struct {
	spec     *command.Spec
	n, limit int // number of calls so far, and its max
	last     *request
}

// begin prepares for a run of commands. The instrumentation settings are read once.
func (c *run) begin() {
	c.seen = c.srv.observed.Load()
	if c.track != nil {
		c.track.Begin()
	}
}

// prepare starts the clock of a command whose locks are about to be taken.
func (c *run) prepare(spec *command.Spec) {
	if g := &c.calls.group; spec != g.spec || g.n >= g.limit {
		c.readClock(spec)
	}
}

// meter counts one call of a command. The command's clock runs already or starts now.
func (c *run) meter(r *request) {
	g := &c.calls.group
	if r.spec != g.spec || g.n >= g.limit {
		c.readClock(r.spec)
	}
	g.n++
	g.last = r
}

// readClock reads the clock: the current group ends, and the time of a command of spec begins; nil = no command begins.
func (c *run) readClock(spec *command.Spec) {
	g := &c.calls.group
	now := time.Since(c.srv.started)
	if g.n > 0 {
		c.measured(g, now-c.clock)
	}
	c.clock = now
	limit := 1
	if spec != nil && spec.Flags&shared != 0 && !c.seen.exact {
		limit = groupCalls
	}
	*g = callGroup{spec: spec, limit: limit}
}

// measured adds a group to the statistics.
func (c *run) measured(g *callGroup, took time.Duration) {
	c.calls.add(g.spec, g.n, took)
	if c.seen.histograms {
		c.srv.Stats.Measure(g.spec.ID, took/time.Duration(g.n), int64(g.n))
	}
	if c.blocked != nil && c.blocked.spec == g.spec {
		c.blocked.took.Add(int64(took)) // the slow log gets the call when the wait has ended, as in Redis
	} else if took >= c.seen.noteworthy {
		c.noteCall(c.sess, c.longest(g), took)
	}
}

// uncount takes back the calls of commands that were rolled back and will run again. Their time stays.
func (c *run) uncount(reqs []request) {
	c.readClock(nil)
	for i := range reqs {
		if r := &reqs[i]; r.err == nil {
			c.calls.byID[r.spec.ID].calls--
		}
	}
}

// inScript stands for the client of a command that a script calls: it has neither address nor name.
var inScript command.Session

// noteCall adds a call of a client to the slow log and the latency monitor.
func (c *conn) noteCall(client *command.Session, r *request, took time.Duration) {
	seen := c.srv.observed.Load() // c.seen is nil while a client waits
	if took >= seen.slow && r.spec.Flags&command.SkipSlowlog == 0 {
		c.srv.slowlog.Add(client, r.spec, r.args, took)
	}
	if took >= seen.latency {
		event := "command"
		if r.spec.Flags&command.Fast != 0 {
			event = "fast-command"
		}
		c.srv.latency.Add(event, time.Now(), took)
	}
}

// account adds the counts since its last call to the server's counters.
func (c *run) account() {
	c.info.lastActive.Store(int64(c.clock))
	c.info.cmds.Add(c.calls.settle(c.srv.Stats, true))
}

// longest returns the call of a group with the longest reply: it is the most likely cause if the group was slow.
func (c *run) longest(g *callGroup) *request {
	best, length := g.last, -1
	at := slices.IndexFunc(c.reqs, func(r request) bool { return r.spec == g.spec })
	for ; at >= 0 && at < len(c.reqs) && &c.reqs[at] != g.last; at++ {
	}
	if g.n == 1 || at < 0 || at == len(c.reqs) { // it ran inside EXEC, where the last call stands for all
		return best
	}
	end := c.out.Len()
	for n := g.n; n > 0 && at >= 0; at-- {
		r := &c.reqs[at]
		if r.spec != g.spec || r.err != nil {
			continue
		}
		if end-r.reply > length {
			best, length = r, end-r.reply
		}
		end = r.reply
		n--
	}
	return best
}

// sampleKeys counts one key of each sampled command, so that the hottest keys are known. Commands that are not sampled
// cost one subtraction a run.
func (c *run) sampleKeys() {
	now := c.srv.started.Add(c.clock)
	for c.sampleIn <= 0 {
		r := &c.reqs[len(c.reqs)-1+c.sampleIn]
		c.sampleIn += metrics.NextSample()
		if r.err != nil {
			continue
		}
		if c.keys = r.spec.AppendKeys(c.keys[:0], r.args); len(c.keys) > 0 {
			c.srv.Stats.Hot.Add(c.sess.Namespace, r.args[c.keys[rand.IntN(len(c.keys))].Arg], now)
		}
	}
}
