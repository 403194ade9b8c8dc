package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"

	"github.com/basaltdb/basalt/scripts/internal/loadgen"
)

const connections = 50

// figures are the results of one server for one row. Bytes and CPU time are per request.
type figures struct {
	Rate    float64 `json:"requests_per_second"`
	P50     float64 `json:"p50_ms"`
	P99     float64 `json:"p99_ms"`
	P999    float64 `json:"p999_ms"`
	Read    float64 `json:"read_bytes"` // from the disk
	Written float64 `json:"written_bytes"`
	CPU     float64 `json:"cpu_us"`
	Peak    float64 `json:"peak_rss_mib"`
	// The time in seconds until the disk was idle again, the bytes read from the disk since the beginning of the row,
	// and the input of the compactions, from the disk or the page cache.
	Settling   float64 `json:"settling_s"`
	ReadAll    float64 `json:"read_bytes_settled"`
	Compaction float64 `json:"compaction_input_bytes"`

	Warm *warmth `json:"warm_up,omitempty"` // of a restarted server
}

// warmth describes how a restarted server reaches its speed.
type warmth struct {
	Start     float64 `json:"start_s"` // until it replied
	Seconds   int     `json:"s_to_90_percent"`
	PerSecond []int64 `json:"requests_in_each_second"`
}

// space is the size of the data in bytes.
type space struct {
	Logical int64 `json:"logical"` // as a client counts
	Tables  int64 `json:"tables"`  // table and blob files
	Rest    int64 `json:"rest"`    // mostly write-ahead logs, which are kept for replicas
}

// plan describes how long and with what to measure.
type plan struct {
	duration time.Duration // of a row that is not brief
	groups   *groups       // nil = none
	dir      string
	progress func(product, suite, row string, f figures)
}

// bench is one product running with the data of one suite.
type bench struct {
	*server
	data     *dataset
	duration time.Duration
	groups   *groups
	made     int64 // new keys
}

// killed is the error of a server that was killed in a row because its memory cgroup was too small. The rest of the
// suite is missing.
type killed struct{ row string }

func (k *killed) Error() string {
	return k.row + ": the server was killed because its memory cgroup was full"
}

// runSuite fills a server of the product with the suite's data and measures all rows. It removes the server and its
// data.
func runSuite(ctx context.Context, p product, s suite, pl plan) (rows []figures, used space, err error) {
	dir := filepath.Join(pl.dir, p.name)
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	b := &bench{data: s.data, duration: pl.duration, groups: pl.groups}
	if b.server, err = start(p, dir, pl.groups); err != nil {
		return nil, used, err
	}
	defer func() { err = errors.Join(err, b.kill()) }()
	if pl.groups == nil {
		defer starve(dir)()
	}
	for i, r := range s.rows {
		f, err := b.measure(ctx, r, uint64(i))
		if err != nil {
			if ctx.Err() != nil {
				return nil, used, errors.New("interrupted")
			}
			name := fmt.Sprintf("%s: %s %s", p.name, s.data.name, r.name)
			switch b.fate() {
			case outOfMemory:
				return rows, used, &killed{name}
			case ended:
				err = fmt.Errorf("%w: the server has ended\n%s", err, b.Output())
			}
			return nil, used, fmt.Errorf("%s: %w", name, err)
		}
		rows = append(rows, f)
		pl.progress(p.name, s.data.name, r.name, f)
	}
	used.Logical = int64(s.data.keys)*s.data.bytes + b.made*int64(newKeyBytes)
	used.Tables, used.Rest, err = diskUse(dir)
	return rows, used, err
}

// measure measures one row and waits until the server is idle again.
func (b *bench) measure(ctx context.Context, r row, seed uint64) (f figures, err error) {
	l := loadgen.Load{Addr: b.Addr, Connections: connections, Pipeline: r.pipeline, Next: r.choosing(b.data), Seed: seed}
	rest := 2 * b.duration // max time to wait for the disk
	switch r.kind {
	case load:
		l.Requests, rest = int64(b.data.keys), 12*b.duration // the following rows must not measure its compactions
	case compacting:
		l.Duration = 2 * b.duration
	case restarted:
		if f.Warm, err = b.restart(); err != nil {
			return f, err
		}
		l.Addr, l.Duration = b.Addr, 3*b.duration
	default:
		l.Duration = b.duration
		if r.brief {
			l.Duration, rest = b.duration/3, b.duration/3
		}
		if err := b.warmUp(ctx, l, r); err != nil {
			return f, err
		}
		l.Seed += 1000
	}
	if err := b.ResetPeak(); err != nil {
		return f, err
	}
	before, err := b.usage()
	if err != nil {
		return f, err
	}
	input, err := compactionInput(b.dir)
	if err != nil {
		return f, err
	}
	if r.kind == compacting {
		compaction, failed := b.compact()
		if failed != nil {
			return f, failed
		}
		l.End = compaction.ended
		defer func() { err = errors.Join(err, compaction.wait()) }()
	}
	res, err := loadgen.Run(ctx, l)
	if err != nil {
		return f, err
	}
	after, err := b.usage()
	if err != nil {
		return f, err
	}
	peak, err := b.PeakResident()
	if err != nil {
		return f, err
	}
	n := float64(res.Requests)
	f.Rate, f.P50, f.P99, f.P999 = res.Rate(), ms(&res.Latency, 50), ms(&res.Latency, 99), ms(&res.Latency, 99.9)
	f.Read, f.Written = float64(after.read-before.read)/n, float64(after.written-before.written)/n
	f.CPU, f.Peak = float64((after.cpu-before.cpu).Microseconds())/n, float64(peak)/mib
	if r.write == incrNew {
		b.made += res.Requests
	}
	if f.Warm != nil {
		f.Warm.PerSecond = res.PerSecond[:len(res.PerSecond)-1] // the last second is incomplete
		f.Warm.Seconds = secondsToSteady(f.Warm.PerSecond)
	}

	if r.kind == steady && r.write == nil {
		rest = 0
	}
	settling, err := b.settle(ctx, rest)
	if err != nil {
		return f, err
	}
	if after, err = b.usage(); err != nil {
		return f, err
	}
	now, err := compactionInput(b.dir)
	f.Settling, f.ReadAll, f.Compaction = settling.Seconds(), float64(after.read-before.read)/n, float64(now-input)/n
	if err == nil && r.kind == load {
		err = dropPageCache(b.dir)
	}
	return f, err
}

func ms(h *loadgen.Histogram, p float64) float64 {
	return float64(h.Percentile(p)) / float64(time.Millisecond)
}

// secondsToSteady returns the number, from 1, of the first second with at least 90 % of the average of the last third;
// 0 if there are too few seconds.
func secondsToSteady(perSecond []int64) int {
	const part = 3
	last := perSecond[len(perSecond)-len(perSecond)/part:]
	sum := int64(0)
	for _, n := range last {
		sum += n
	}
	for i, n := range perSecond {
		if float64(n)*float64(len(last)) >= 0.9*float64(sum) && len(last) > 0 {
			return i + 1
		}
	}
	return 0
}

// warmUp brings the caches to the state that they reach in a long row.
func (b *bench) warmUp(ctx context.Context, l loadgen.Load, r row) error {
	l.Duration /= 5
	if r.warm {
		const times = 2
		hot, i := b.data.keys/hotShare, 0
		l.Duration, l.Requests, l.Pipeline = 0, int64(times*hot), 16
		l.Next = func(*rand.Rand) (*loadgen.Op, int) { i++; return r.read, i % hot }
	}
	_, err := loadgen.Run(ctx, l)
	return err
}

// restart stops the server and starts it again, with none of its files in the page cache.
func (b *bench) restart() (*warmth, error) {
	if err := b.stop(); err != nil {
		return nil, err
	}
	if err := dropPageCache(b.dir); err != nil {
		return nil, err
	}
	begin := time.Now()
	s, err := start(b.product, b.dir, b.groups)
	if err != nil {
		return nil, err
	}
	b.server = s
	return &warmth{Start: time.Since(begin).Seconds()}, nil
}

// settle waits until the server has neither written to the disk nor had a compaction to do for a second, at most for
// the given time. It returns the waiting time.
func (b *bench) settle(ctx context.Context, most time.Duration) (time.Duration, error) {
	const idle, step = time.Second, 100 * time.Millisecond
	const little = 256 << 10 // fewer bytes do not count
	begin := time.Now()
	changed := begin
	before, err := b.usage()
	for err == nil && time.Since(changed) < idle && time.Since(begin) < most {
		select {
		case <-ctx.Done():
			return 0, ctx.Err()
		case <-time.After(min(step, most)):
		}
		var working bool
		if working, err = b.Working(); err != nil {
			return 0, err
		}
		var now usage
		now, err = b.usage()
		if working || now.written-before.written > little || now.read-before.read > little {
			changed = time.Now()
		}
		before = now
	}
	return changed.Sub(begin), err
}
