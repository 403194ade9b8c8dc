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

// figures are what a row has shown of one server.
type figures struct {
	Rate     float64 `json:"requests_per_second"`
	P50      float64 `json:"p50_ms"`
	P99      float64 `json:"p99_ms"`
	P999     float64 `json:"p999_ms"`
	Read     float64 `json:"read_bytes_per_request"`
	Written  float64 `json:"written_bytes_per_request"`
	CPU      float64 `json:"cpu_us_per_request"`
	Peak     float64 `json:"peak_rss_mib"`
	Settling float64 `json:"settling_s,omitempty"` // until the disk was idle after a write
}

// plan says how long to measure, and with what.
type plan struct {
	duration time.Duration // of a row
	settle   time.Duration // how long the disk may be written to after a row
	groups   *groups       // nil if there are none
	dir      string
	progress func(product, row string, f figures)
}

// runSuite fills a server of the product with the suite's data and measures all rows. Nothing is left of it.
func runSuite(ctx context.Context, p product, s suite, pl plan) (out map[string]figures, err error) {
	dir := filepath.Join(pl.dir, p.name)
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	srv, err := start(p, dir, pl.groups)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, srv.kill()) }()
	out = map[string]figures{}
	for i, r := range s.rows {
		f, err := measure(ctx, srv, s.data, r, pl, uint64(i))
		if err != nil {
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			return nil, fmt.Errorf("%s: %s: %w%s\n%s", p.name, r.name, err, srv.fate(), srv.Output())
		}
		out[r.name] = f
		pl.progress(p.name, r.name, f)
	}
	return out, nil
}

// measure measures one row and waits until the server is idle again.
func measure(ctx context.Context, srv *server, d *dataset, r row, pl plan, seed uint64) (figures, error) {
	l := loadgen.Load{Addr: srv.Addr, Connections: connections, Pipeline: r.pipeline, Next: r.choosing(d), Seed: seed}
	if r.load {
		l.Requests = int64(d.keys)
	} else {
		if err := warmUp(ctx, l, d, r, pl); err != nil {
			return figures{}, err
		}
		l.Duration, l.Seed = pl.duration, seed+1000
	}
	if err := srv.resetPeak(); err != nil {
		return figures{}, err
	}
	before, err := srv.usage()
	if err != nil {
		return figures{}, err
	}
	res, err := loadgen.Run(ctx, l)
	if err != nil {
		return figures{}, err
	}
	after, err := srv.usage()
	if err != nil {
		return figures{}, err
	}
	peak, err := srv.peak()
	if err != nil {
		return figures{}, err
	}
	n := float64(res.Requests)
	f := figures{
		Rate: res.Rate(), P50: ms(&res.Latency, 50), P99: ms(&res.Latency, 99), P999: ms(&res.Latency, 99.9),
		Read: float64(after.read-before.read) / n, Written: float64(after.written-before.written) / n,
		CPU: float64((after.cpu - before.cpu).Microseconds()) / n, Peak: float64(peak) / mib,
	}
	settling, err := settle(ctx, srv, pl.settle)
	f.Settling = settling.Seconds()
	if err == nil && r.load {
		err = dropPageCache(srv.dir)
	}
	return f, err
}

func ms(h *loadgen.Histogram, p float64) float64 {
	return float64(h.Percentile(p)) / float64(time.Millisecond)
}

// warmUp brings the caches into the state that they have in a row that goes on for long.
func warmUp(ctx context.Context, l loadgen.Load, d *dataset, r row, pl plan) error {
	l.Duration = pl.duration / 5
	if r.warm {
		const times = 2
		hot, i := d.keys/hotShare, 0
		l.Duration, l.Requests, l.Pipeline = 0, int64(times*hot), 16
		l.Next = func(*rand.Rand) (*loadgen.Op, int) { i++; return r.op, int(d.order[i%hot]) }
	}
	_, err := loadgen.Run(ctx, l)
	return err
}

// settle waits until the server has written nothing to the disk for a second, at most for the given time, and returns
// how long that took.
func settle(ctx context.Context, srv *server, most time.Duration) (time.Duration, error) {
	const idle, step = time.Second, 100 * time.Millisecond
	begin := time.Now()
	changed := begin
	before, err := srv.usage()
	for err == nil && time.Since(changed) < idle && time.Since(begin) < most {
		select {
		case <-ctx.Done():
			return 0, ctx.Err()
		case <-time.After(step):
		}
		var now usage
		if now, err = srv.usage(); now.written-before.written > 64<<10 || now.read-before.read > mib {
			changed = time.Now()
		}
		before = now
	}
	return changed.Sub(begin), err
}
