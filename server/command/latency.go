package command

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// LatencyEvent is the data of the latency monitor about a kind of event.
type LatencyEvent struct {
	Name    string
	Worst   int64           // milliseconds since the last reset
	Samples []LatencySample // oldest first, at most one a second
}

// LatencySample is the worst event of a second.
type LatencySample struct{ Unix, Milliseconds int64 }

const latencyFlags = Admin | NoScript | Loading | Stale | AdminOnly

var latencyCommands = []Spec{{Name: "latency", Arity: -2, Sub: []Spec{
	{Name: "doctor", Handler: latencyDoctor, Arity: 2, Flags: latencyFlags},
	{Name: "graph", Handler: latencyGraph, Arity: 3, Flags: latencyFlags},
	{Name: "history", Handler: latencyHistory, Arity: 3, Flags: latencyFlags},
	{Name: "latest", Handler: latencyLatest, Arity: 2, Flags: latencyFlags},
	{Name: "reset", Handler: latencyReset, Arity: -2, Flags: latencyFlags},
	{Name: "histogram", Handler: latencyHistogram, Arity: -2, Flags: latencyFlags},
	{Name: "help", Handler: help, Arity: 2, Flags: Loading | Stale},
}}}

func latencyLatest(c *Ctx) error {
	events := c.Srv.Latency.Events(nil)
	c.Out.Array(len(events))
	for _, e := range events {
		last := e.Samples[len(e.Samples)-1]
		c.Out.Array(4)
		c.Out.BulkString(e.Name)
		c.Out.Int(last.Unix)
		c.Out.Int(last.Milliseconds)
		c.Out.Int(e.Worst)
	}
	return nil
}

// latencyEvent finds the event that the third argument names.
func latencyEvent(c *Ctx) (LatencyEvent, bool) {
	name := string(c.Args[2])
	events := c.Srv.Latency.Events(func(n string) bool { return n == name })
	if len(events) == 0 {
		return LatencyEvent{}, false
	}
	return events[0], true
}

func latencyHistory(c *Ctx) error {
	e, _ := latencyEvent(c)
	c.Out.Array(len(e.Samples))
	for _, s := range e.Samples {
		c.Out.Array(2)
		c.Out.Int(s.Unix)
		c.Out.Int(s.Milliseconds)
	}
	return nil
}

func latencyReset(c *Ctx) error {
	var names []string
	for _, a := range c.Args[2:] {
		names = append(names, string(a))
	}
	return replyInt(c, c.Srv.Latency.Reset(names...), nil)
}

// latencyHistogram describes the commands that were called; a container stands for its subcommands.
func latencyHistogram(c *Ctx) error {
	var specs []*Spec
	add := func(s *Spec) {
		specs = append(specs, s)
		for i := range s.Sub {
			specs = append(specs, &s.Sub[i])
		}
	}
	if len(c.Args) == 2 {
		for _, s := range c.Srv.Table.All() {
			add(s)
		}
	}
	for _, name := range c.Args[2:] {
		if s := c.Srv.Table.byFullName(name); s != nil {
			add(s)
		}
	}
	mark, n := c.Out.Mark(), 0
	for _, s := range specs {
		usec, counts, calls, ok := c.Srv.Stats.Latencies(s)
		if !ok {
			continue
		}
		n++
		c.Out.BulkString(s.FullName())
		c.Out.Map(2)
		intField(c.Out, "calls", calls)
		c.Out.BulkString("histogram_usec")
		c.Out.Map(len(usec))
		for i := range usec {
			c.Out.Int(usec[i])
			c.Out.Int(counts[i])
		}
	}
	c.Out.InsertMap(mark, n)
	return nil
}

// graphColumns is the number of samples in a graph, graphRows its height.
const (
	graphColumns = 80
	graphRows    = 4
)

// latencyGraph draws a column for each of the last samples, and below it, read downwards, how long ago it was.
func latencyGraph(c *Ctx) error {
	e, ok := latencyEvent(c)
	if !ok {
		return errorf("No samples available for event '%s'", echoed(c.Args[2]))
	}
	return replyVerbatim(c, drawLatency(e, c.Tx.Clock()/1000), nil)
}

// drawLatency draws the samples of an event at a time in Unix seconds.
func drawLatency(e LatencyEvent, now int64) string {
	samples := e.Samples[max(0, len(e.Samples)-graphColumns):]
	low, high := int64(math.MaxInt64), int64(0)
	for _, s := range samples {
		low, high = min(low, s.Milliseconds), max(high, s.Milliseconds)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s - high %d ms, low %d ms (all time high %d ms)\n%s\n", e.Name, high, low, e.Worst,
		strings.Repeat("-", graphColumns))
	steps := int64(graphRows*2 - 1) // half a row is an o, a whole row a #
	height := func(s LatencySample) int64 {
		if high == low {
			return 1
		}
		return 1 + (s.Milliseconds-low)*steps/(high-low)
	}
	for row := int64(graphRows - 1); row >= 0; row-- {
		for _, s := range samples {
			switch h := height(s) - 2*row; {
			case h >= 2:
				b.WriteByte('#')
			case h == 1:
				b.WriteByte('o')
			default:
				b.WriteByte(' ')
			}
		}
		b.WriteByte('\n')
	}
	labels := make([]string, len(samples))
	longest := 0
	for i, s := range samples {
		labels[i] = ago(now - s.Unix)
		longest = max(longest, len(labels[i]))
	}
	b.WriteByte('\n')
	for i := range longest {
		for _, l := range labels {
			if i < len(l) {
				b.WriteByte(l[i])
			} else {
				b.WriteByte(' ')
			}
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// ago writes a number of seconds with a suitable unit: 12s, 3m, 5h, 2d.
func ago(seconds int64) string {
	seconds = max(seconds, 0)
	for _, u := range []struct {
		seconds int64
		name    string
	}{{86400, "d"}, {3600, "h"}, {60, "m"}} {
		if seconds >= u.seconds {
			return fmt.Sprintf("%d%s", seconds/u.seconds, u.name)
		}
	}
	return fmt.Sprintf("%ds", seconds)
}

func latencyDoctor(c *Ctx) error {
	threshold, _ := c.Srv.Settings.Get("latency-monitor-threshold")
	return replyVerbatim(c, latencyReport(c.Srv.Latency.Events(nil), threshold), nil)
}

// latencyReport describes events in words, and names commands for further analysis.
func latencyReport(events []LatencyEvent, threshold string) string {
	var b strings.Builder
	if threshold == "" || threshold == "0" {
		b.WriteString("The latency monitor is switched off: CONFIG SET latency-monitor-threshold <milliseconds> switches " +
			"it on.\n")
	}
	if len(events) == 0 {
		b.WriteString("No latency spike was observed.\n")
		return b.String()
	}
	fmt.Fprintf(&b, "Events that took %s milliseconds or longer:\n", threshold)
	for i, e := range events {
		var sum int64
		for _, s := range e.Samples {
			sum += s.Milliseconds
		}
		n := int64(len(e.Samples))
		mean := sum / n
		var off int64
		for _, s := range e.Samples {
			off += max(s.Milliseconds-mean, mean-s.Milliseconds)
		}
		every := ""
		if n > 1 {
			every = fmt.Sprintf(", one each %.1f seconds", float64(e.Samples[n-1].Unix-e.Samples[0].Unix)/float64(n-1))
		}
		fmt.Fprintf(&b, "%d. %s: %d samples, mean %d ms, mean deviation %d ms%s, worst %d ms.\n", i+1, e.Name, n,
			mean, off/n, every, e.Worst)
	}
	has := func(name string) bool {
		return slices.ContainsFunc(events, func(e LatencyEvent) bool { return e.Name == name })
	}
	if has("command") {
		b.WriteString("- SLOWLOG GET shows which commands were slow (slowlog-log-slower-than says from when on). Long " +
			"collections are better read in parts: HSCAN, SSCAN, ZSCAN, LRANGE.\n")
	}
	if has("fast-command") {
		b.WriteString("- Commands that do little were slow: they waited for the disk, for a commit or for the lock of a " +
			"key. INFO rocksdb shows stalls (level0_*, memtable_*, pending_compaction_*) and misses of the block cache; INFO " +
			"cpu, whether there is time left.\n")
	}
	return b.String()
}
