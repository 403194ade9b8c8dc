// Benchreplica measures what a replica costs a master, how fast a replica applies, how far it lags, and how fast it
// synchronises in full, and compares that with the project's bars; what misses one is marked BELOW.
//
//	go run ./scripts/benchreplica [-only write,apply,lag,sync,stream,rdb] [-time 10s] [-sync-mb 2048] [-rdb-keys N]
//		[-- --key value ...]
//
//	write  writes a second of a master without a replica and with one that reads the stream and throws it away
//	apply  writes a second of a master, and how many of them a basalt has applied in the same time; the processor time
//	       a write of both. The master and the load have one core, the replica another one.
//	lag    time from a write's reply on the master until the replica shows it, with half of the writes a second that
//	       master and replica reach together
//	sync   bytes a second of a full synchronisation, and of cp between the same directories until the copy is synced,
//	       as in a full synchronisation; the peak of the memory
//	stream writes a second of a redis-server, and how many of them a basalt that is its replica has applied in the same
//	       time, with cores as for apply
//	rdb    time until 10 million small keys of a redis-server have arrived at a redis-server, and at a basalt
//
// Writes are SETs of 128 bytes over -keys keys, of 50 connections with pipelines of 16. Arguments after the flags go to
// both basalts. redis-server is the one in the PATH, or -redis.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/basaltdb/basalt/scripts/internal/launch"
	"github.com/basaltdb/basalt/scripts/internal/loadgen"
	"github.com/basaltdb/basalt/scripts/internal/tool"
)

type options struct {
	basalt, redis, dir string
	only               string
	time               time.Duration
	keys, rdbKeys      int
	syncMB             int
	extra              []string
}

// bench is one run.
type bench struct {
	options
	ctx context.Context
	bad int // number of missed bars
}

func main() {
	var o options
	flag.StringVar(&o.basalt, "basalt", "build/basalt", "the program to measure")
	flag.StringVar(&o.redis, "redis", "redis-server", "the redis-server of stream and rdb")
	flag.StringVar(&o.dir, "dir", "", "where the databases are put (default: the system's temporary directory)")
	flag.StringVar(&o.only, "only", "write,apply,lag,sync,stream,rdb", "what to measure, comma-separated")
	flag.DurationVar(&o.time, "time", 10*time.Second, "length of each load")
	flag.IntVar(&o.keys, "keys", 1_000_000, "how many keys the writes choose from")
	flag.IntVar(&o.syncMB, "sync-mb", 2048, "MiB of data of the full synchronisation")
	flag.IntVar(&o.rdbKeys, "rdb-keys", 10_000_000, "how many keys arrive in rdb")
	flag.Parse()
	o.extra = flag.Args()
	tool.Main("benchreplica", func(ctx context.Context) error { return (&bench{options: o, ctx: ctx}).run() })
}

func (b *bench) run() error {
	steps := map[string]func(dir string) error{"write": b.write, "apply": b.apply, "lag": b.lag, "sync": b.sync,
		"stream": b.stream, "rdb": b.rdb}
	for name := range strings.SplitSeq(b.only, ",") {
		step := steps[name]
		if step == nil {
			return fmt.Errorf("-only: there is no %q", name)
		}
		dir, err := os.MkdirTemp(b.dir, "basalt-replica-")
		if err != nil {
			return err
		}
		err = step(dir)
		if e := os.RemoveAll(dir); err == nil {
			err = e
		}
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	if b.bad > 0 {
		return fmt.Errorf("%d bars are missed", b.bad)
	}
	return nil
}

// report prints a figure and its bar: a min, or with most a max.
func (b *bench) report(what string, got, bar float64, most bool, details string) {
	verdict := ""
	if got < bar && !most || got > bar && most {
		verdict = "  BELOW"
		b.bad++
	}
	relation := "at least"
	if most {
		relation = "at most"
	}
	fmt.Printf("%-50s %8.2f  (%s %g)%s  %s\n", what, got, relation, bar, verdict, details)
}

// start starts a master, or the replica of one. The data of both are on the same file system.
func (b *bench) start(dir, name string, args ...string) (*launch.Server, error) {
	extra := append(slices.Clone(b.extra), args...)
	return launch.Start(launch.Basalt(b.basalt, extra...), filepath.Join(dir, name))
}

// load is the load of all measurements.
func (b *bench) load(addr string, during time.Duration) loadgen.Load {
	set := loadgen.Set(128)
	return loadgen.Load{Addr: addr, Connections: 50, Pipeline: 16, Duration: during, Seed: rand.Uint64(),
		Next: func(r *rand.Rand) (*loadgen.Op, int) { return set, r.IntN(b.keys) }}
}

// write measures the cost of a replica on another host for the master: the replica reads, and never acknowledges.
func (b *bench) write(dir string) error {
	master, err := b.start(dir, "master")
	if err != nil {
		return err
	}
	defer master.Kill()
	if _, err := loadgen.Run(b.ctx, b.load(master.Addr, b.time/2)); err != nil { // from now on the keys exist
		return err
	}
	rates := func(with bool) (rate float64, err error) {
		if with {
			var s *sink
			if s, err = attach(master); err != nil {
				return 0, err
			}
			defer func() { err = errors.Join(err, s.close()) }()
		}
		r, err := loadgen.Run(b.ctx, b.load(master.Addr, b.time/writeRounds))
		return r.Rate(), err
	}
	var alone, fed, ratios []float64
	for i := range writeRounds {
		pair := map[bool]float64{}
		for _, with := range []bool{i%2 == 1, i%2 == 0} { // alternating, because the speed of the disk changes
			if pair[with], err = rates(with); err != nil {
				return err
			}
		}
		alone, fed = append(alone, pair[false]), append(fed, pair[true])
		ratios = append(ratios, pair[true]/pair[false])
	}
	slices.Sort(ratios)
	b.report("write: rate with a replica / without", tool.Median(ratios), 0.9, false, fmt.Sprintf(
		"%.0f and %.0f writes a second, medians of %d rounds, of which the middle half had %.2f to %.2f",
		tool.Median(fed), tool.Median(alone), writeRounds, ratios[writeRounds/4], ratios[writeRounds-1-writeRounds/4]))
	return nil
}

// writeRounds is the number of rounds in which write loads the master with and without a replica.
const writeRounds = 11

// pair starts a master and its replica, and waits until the link is up.
func (b *bench) pair(dir string) (master, replica *launch.Server, err error) {
	if master, err = b.start(dir, "master"); err != nil {
		return nil, nil, err
	}
	if replica, err = b.start(dir, "replica", "--slaveof", strings.Replace(master.Addr, ":", " ", 1)); err == nil {
		err = b.linked(replica)
	}
	if err != nil {
		if replica != nil {
			replica.Kill()
		}
		master.Kill()
	}
	return master, replica, err
}

// linked waits until the link of a replica is up.
func (b *bench) linked(replica *launch.Server) error {
	return b.await(func() (bool, error) {
		up, err := replica.Info("replication", "master_link_status")
		return up == "up", err
	})
}

// level waits until the replica has all writes of the master. applied returns the master's offset up to which it has.
func (b *bench) level(master *launch.Server, applied func() (int64, error)) error {
	return b.await(func() (bool, error) {
		r, err := applied()
		if err != nil {
			return false, err
		}
		m, err := offset(master)
		return r == m, err
	})
}

// patience is the max time for the replica to reach a state.
const patience = 5 * time.Minute

func (b *bench) await(ok func() (bool, error)) error {
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		if done, err := ok(); done || err != nil {
			return err
		}
		if err := b.ctx.Err(); err != nil {
			return err
		}
	}
	return fmt.Errorf("not within %v", patience)
}

// apply measures the rates of both servers, each on its own core.
func (b *bench) apply(dir string) error {
	master, replica, err := b.pair(dir)
	if err != nil {
		return err
	}
	defer master.Kill()
	defer replica.Kill()
	s, err := b.replicate(master, replica, func() (int64, error) { return offset(replica) })
	if err != nil {
		return err
	}
	b.report("apply: applied / written", float64(s.applied)/float64(s.written), 0.99, false,
		fmt.Sprintf("%.0f writes a second; the rest took %v", s.rate, s.rest))
	micros := func(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1000 / float64(s.written) }
	m, p := micros(s.masterCPU), micros(s.replicaCPU)
	b.report("apply: processor time, replica / master", p/m, 1, true,
		fmt.Sprintf("%.2f and %.2f microseconds a write", p, m))
	return nil
}

// replicated is how a replica has followed a load on its master.
type replicated struct {
	rate                  float64       // writes a second of the master
	written, applied      int64         // by the end of the load, as the master's offset counts
	rest                  time.Duration // until the replica had the rest
	masterCPU, replicaCPU time.Duration // of all that
}

// replicate loads a master, which has one core with this process, while its replica has another one. applied is that of
// level.
func (b *bench) replicate(master, replica *launch.Server, applied func() (int64, error)) (s replicated, err error) {
	undo, err := pin(master.Pid(), replica.Pid())
	if err != nil {
		return s, err
	}
	defer undo()
	if _, err := loadgen.Run(b.ctx, b.load(master.Addr, b.time/2)); err != nil {
		return s, err
	}
	if err := b.level(master, applied); err != nil {
		return s, err
	}
	type observed struct {
		written, applied      int64
		masterCPU, replicaCPU time.Duration
	}
	observe := func() (o observed, err error) {
		if o.applied, err = applied(); err != nil {
			return o, err
		}
		if o.written, err = offset(master); err != nil {
			return o, err
		}
		if o.masterCPU, err = master.CPUTime(); err != nil {
			return o, err
		}
		o.replicaCPU, err = replica.CPUTime()
		return o, err
	}
	before, err := observe()
	if err != nil {
		return s, err
	}
	r, err := loadgen.Run(b.ctx, b.load(master.Addr, b.time))
	if err != nil {
		return s, err
	}
	after, err := observe()
	if err != nil {
		return s, err
	}
	began := time.Now()
	if err := b.level(master, applied); err != nil {
		return s, err
	}
	rest := time.Since(began).Round(time.Millisecond)
	end, err := observe()
	return replicated{rate: r.Rate(), rest: rest,
		written: after.written - before.written, applied: after.applied - before.applied,
		masterCPU: end.masterCPU - before.masterCPU, replicaCPU: end.replicaCPU - before.replicaCPU}, err
}

// lag measures the time until the replica shows a write, under half of the max load of both servers.
func (b *bench) lag(dir string) error {
	master, replica, err := b.pair(dir)
	if err != nil {
		return err
	}
	defer master.Kill()
	defer replica.Kill()
	began := time.Now()
	r, err := loadgen.Run(b.ctx, b.load(master.Addr, b.time/2))
	if err != nil {
		return err
	}
	if err := b.level(master, func() (int64, error) { return offset(replica) }); err != nil {
		return err
	}
	rate := float64(r.Requests) / time.Since(began).Seconds() / 2
	ctx, cancel := context.WithTimeout(b.ctx, b.time)
	defer cancel()
	sent := make(chan error, 1)
	var total int64
	go func() {
		var err error
		total, err = paced(ctx, master.Addr, rate, b.keys)
		sent <- err
	}()
	lags, err := probe(ctx, master.Addr, replica.Addr)
	cancel()
	if e := <-sent; err == nil {
		err = e
	}
	if err != nil {
		return err
	}
	ms := func(p float64) float64 { return float64(lags.Percentile(p).Microseconds()) / 1000 }
	b.report("lag: p99 in milliseconds at half load", ms(99), 100, true,
		fmt.Sprintf("%.0f writes a second; p50 %.1f, p99.9 %.1f, %d probes", float64(total)/b.time.Seconds(), ms(50),
			ms(99.9),
			lags.Total()))
	return nil
}
