package server

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/basaltdb/basalt/server/command"
)

func TestHistogramBuckets(t *testing.T) {
	last := -1
	for ns := uint64(0); ns < 1<<31; ns += 1 + ns/61 {
		b := histBucket(ns)
		if b < last || b >= histBuckets {
			t.Fatalf("%d ns is in bucket %d after %d", ns, b, last)
		}
		last = b
		if ns > histMax {
			continue
		}
		high := histBound(b)
		if ns > high || float64(high-ns) > float64(ns)/16+1 {
			t.Fatalf("%d ns is in bucket %d, which ends at %d", ns, b, high)
		}
		if b > 0 && ns <= histBound(b-1) {
			t.Fatalf("%d ns is in bucket %d, but that before it ends at %d", ns, b, histBound(b-1))
		}
	}
	if last != histBuckets-1 {
		t.Errorf("the last bucket used is %d of %d", last, histBuckets)
	}
}

func TestHistogramPercentiles(t *testing.T) {
	var h histogram
	r := rand.New(rand.NewPCG(1, 2))
	for _, ms := range r.Perm(1000) {
		h.add(time.Duration(ms+1)*time.Millisecond, 1)
	}
	for _, p := range []float64{1, 50, 99, 99.9, 100} {
		want := p * 10
		if got := float64(h.percentile(p).Milliseconds()); got < want*0.99-1 || got > want*1.07+1 {
			t.Errorf("p%v = %v ms, want %v", p, got, want)
		}
	}
	if got := (&histogram{}).percentile(50); got != 0 {
		t.Errorf("of nothing: %v", got)
	}
	h.add(time.Hour, 1000)
	if got := h.percentile(99); got != histMax {
		t.Errorf("an hour counts as %v", got)
	}
}

// The bounds are those of redis-server: 1, 2, 4, ..., 16, 33, ... 1073741 microseconds.
func TestHistogramAsRedisShowsIt(t *testing.T) {
	var h histogram
	for _, d := range []time.Duration{500, 33_000, 33_010, 3 * time.Millisecond, 100 * time.Millisecond, 1200 * time.Millisecond} {
		h.add(d, 2)
	}
	usec, counts, calls := h.cumulative()
	wantUsec, wantCounts := []int64{1, 66, 4227, 135266, 1073741}, []int64{2, 6, 8, 10, 12}
	if calls != 12 || len(usec) != len(wantUsec) {
		t.Fatalf("%d calls, %v %v", calls, usec, counts)
	}
	for i := range usec {
		if usec[i] != wantUsec[i] || counts[i] != wantCounts[i] {
			t.Fatalf("%v %v, want %v %v", usec, counts, wantUsec, wantCounts)
		}
	}
}

// Every call is in the histogram of its command, in a pipeline too.
func TestLatencyHistogram(t *testing.T) {
	h := start(t)
	c := h.dial(t)
	var p strings.Builder
	for range 100 {
		p.WriteString(pipeline("GET a", "GET b", "SET a 1", "LRANGE l 0 -1", "CONFIG GET port"))
	}
	c.send(p.String())
	for range 500 {
		c.reply()
	}
	for _, name := range []string{"get", "set", "lrange", "config|get"} {
		spec := command.Lookup([]byte(strings.Split(name, "|")[0]))
		if _, sub, ok := strings.Cut(name, "|"); ok {
			spec = spec.Subcommand([]byte(sub))
		}
		want := int64(100)
		if name == "get" {
			want = 200
		}
		if _, _, calls, _ := h.Latencies(spec); calls != want {
			t.Errorf("%s: %d calls, want %d", name, calls, want)
		}
	}
	got := c.do("LATENCY", "HISTOGRAM", "GET", "config", "nosuch", "zadd")
	if !strings.HasPrefix(got, "*4\r\n$3\r\nget\r\n*4\r\n$5\r\ncalls\r\n:200\r\n$14\r\nhistogram_usec\r\n*") || !strings.Contains(got, "$10\r\nconfig|get\r\n") {
		t.Errorf("%q", got)
	}
	c.do("HELLO", "3")
	if got := c.do("LATENCY", "HISTOGRAM", "set"); !strings.HasPrefix(got, "%1\r\n$3\r\nset\r\n%2\r\n$5\r\ncalls\r\n:100\r\n$14\r\nhistogram_usec\r\n%") {
		t.Errorf("%q", got)
	}
	if got := c.do("INFO", "latencystats"); !strings.Contains(got, "latency_percentiles_usec_get:p50=") || !strings.Contains(got, ",p99.9=") {
		t.Errorf("%q", got)
	}
	c.want("CONFIG SET latency-tracking no", "+OK\r\n")
	c.want("CONFIG RESETSTAT", "+OK\r\n")
	c.do("GET", "a")
	c.want("LATENCY HISTOGRAM", "%0\r\n")
	c.want("CONFIG SET latency-tracking-info-percentiles 101", "-ERR CONFIG SET failed (possibly related to argument 'latency-tracking-info-percentiles') - latency-tracking-info-percentiles parameters should sit between [0.0,100.0]\r\n")
}

func TestLatencyMonitor(t *testing.T) {
	h := start(t)
	c := h.dial(t)
	c.want("LATENCY LATEST", "*0\r\n")
	c.want("DEBUG SLEEP 0.06", "+OK\r\n")
	c.want("LATENCY LATEST", "*0\r\n") // nothing is watched
	c.want("CONFIG SET latency-monitor-threshold 50", "+OK\r\n")
	h.ResetLatency() // on a busy machine CONFIG SET may have taken so long, too
	c.want("DEBUG SLEEP 0.06", "+OK\r\n")
	h.observe(func(o *observed) { o.latency = never }) // as may any other command
	if got := c.do("LATENCY", "LATEST"); !strings.HasPrefix(got, "*1\r\n*4\r\n$7\r\ncommand\r\n:") {
		t.Errorf("%q", got)
	}
	if got := c.do("LATENCY", "HISTORY", "command"); !strings.HasPrefix(got, "*1\r\n*2\r\n:") {
		t.Errorf("%q", got)
	}
	c.want("LATENCY HISTORY nosuch", "*0\r\n")
	if got := c.do("LATENCY", "DOCTOR"); !strings.Contains(got, "1. command: 1 samples") {
		t.Errorf("%q", got)
	}
	if got := c.do("LATENCY", "GRAPH", "command"); !strings.Contains(got, "command - high ") {
		t.Errorf("%q", got)
	}
	c.want("LATENCY GRAPH nosuch", "-ERR No samples available for event 'nosuch'\r\n")
	c.want("LATENCY RESET nosuch", ":0\r\n")
	c.want("LATENCY RESET command", ":1\r\n")
	c.want("LATENCY RESET", ":0\r\n")
	m := &h.latency
	begin := time.Unix(1000, 0)
	for i := range latencySamples + 40 {
		m.add("fast-command", begin.Add(time.Duration(i)*time.Second/2), time.Duration(i)*time.Millisecond)
	}
	e := h.LatencyEvents(nil)[0]
	if n := len(e.Samples); n != 100 || e.Samples[99].Milliseconds != 199 || e.Samples[0].Milliseconds != 1 || e.Worst != 199 {
		t.Errorf("%d samples, %+v ... %+v", n, e.Samples[0], e.Samples[len(e.Samples)-1])
	}
	for i := range latencySamples {
		m.add("fast-command", begin.Add(time.Duration(1000+i)*time.Second), time.Millisecond)
	}
	if e := h.LatencyEvents(nil)[0]; len(e.Samples) != latencySamples || e.Samples[0].Unix != 2000 || e.Worst != 199 {
		t.Errorf("%d samples from %d on, worst %d", len(e.Samples), e.Samples[0].Unix, e.Worst)
	}
}
