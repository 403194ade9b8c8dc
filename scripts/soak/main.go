// Soak sends basalt millions of operations on a fixed set of keys and checks that basalt's memory stays flat and within
// its budget. After the warm-up, the mean resident size in the last tenth of the operations must be at most 5 % above
// the mean in the first tenth, and no sample may be above block cache + write buffers + derived state + 200 MiB.
//
//	go run ./scripts/soak [-ops 10000000] [-keys 1000000]
//
// Arguments after the flags go to basalt. Soak exits with status 1 if a check fails.
package main

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/basaltdb/basalt/scripts/internal/launch"
	"github.com/basaltdb/basalt/scripts/internal/redisclient"
)

const (
	mib = 1 << 20
	// allowance is the memory in bytes that the process may use besides what its budget consists of.
	allowance = 200 * mib
	// maxGrowth is the max ratio of the mean of the last tenth to the mean of the first.
	maxGrowth = 1.05
	tenths    = 10
)

type options struct {
	basalt            string
	ops, keys, warmup int
	connections       int
	depth             int
	valueSize         int
	cache, buffer     int
	derived           int
	budget            int
	every             time.Duration
	extra             []string
	seed              uint64 // of the operations; 0 = a random one for each connection of each phase
}

func main() {
	var o options
	flag.StringVar(&o.basalt, "basalt", "build/basalt", "path of the basalt program; 'redis' tests redis-server")
	flag.IntVar(&o.ops, "ops", 10_000_000, "number of operations after the warm-up, during which the memory is sampled")
	flag.IntVar(&o.keys, "keys", 1_000_000, "number of keys")
	flag.IntVar(&o.warmup, "warmup", -1,
		"number of operations before the first sample, after one write to each key (default: three tenths of -ops)")
	flag.IntVar(&o.connections, "connections", 8, "number of connections")
	flag.IntVar(&o.depth, "depth", 32, "number of commands in a pipeline")
	flag.IntVar(&o.valueSize, "value-size", 128, "size of a value in bytes")
	flag.IntVar(&o.cache, "cache", 64, "size of basalt's block cache in MiB; 0 = basalt chooses, and -budget is required")
	flag.IntVar(&o.buffer, "write-buffer", 16,
		"size of one of basalt's write buffers in MiB; 0 = basalt chooses, and -budget is required")
	flag.IntVar(&o.derived, "derived-state", 16,
		"size of the state that basalt derives from collections in MiB; 0 = basalt chooses, and -budget is required")
	flag.IntVar(&o.budget, "budget", 0,
		"max size of block cache, write buffers and derived state in MiB (default: from CONFIG GET)")
	flag.DurationVar(&o.every, "every", 100*time.Millisecond, "time between two memory samples")
	flag.Parse()
	o.extra = flag.Args()
	if o.warmup < 0 {
		o.warmup = o.ops * 3 / 10
	}
	if err := run(o); err != nil {
		fmt.Fprintln(os.Stderr, "soak:", err)
		os.Exit(1)
	}
}

func run(o options) error {
	if o.ops < tenths*o.connections*o.depth || o.keys < kinds*o.connections {
		return fmt.Errorf("-ops needs to be at least %d and -keys %d", tenths*o.connections*o.depth, kinds*o.connections)
	}
	dir, err := os.MkdirTemp("", "basalt-soak-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	command := launch.Basalt(o.basalt, append(o.sizes(), o.extra...)...)
	if o.basalt == "redis" {
		command = launch.Redis
	}
	server, err := launch.Start(command, filepath.Join(dir, "data"))
	if err != nil {
		return err
	}
	defer server.Kill()

	c, err := redisclient.Dial(server.Addr, 5*time.Second)
	if err != nil {
		return err
	}
	defer c.Close()
	budget := o.budget * mib
	if budget == 0 {
		if budget, err = configuredBudget(c); err != nil {
			return fmt.Errorf("cannot read the budget from the server, set -budget: %w", err)
		}
	}
	limit := budget + allowance
	fmt.Printf("limit: %d MiB of block cache, write buffers and derived state + %d MiB\n", budget/mib, allowance/mib)

	begin := time.Now()
	if err := phase(o, server.Addr, load, o.keys, nil); err != nil {
		return err
	}
	fmt.Printf("each of %d keys written: %d MiB resident after %v\n", o.keys, residentOrZero(server)/mib,
		since(begin))
	if err := phase(o, server.Addr, mix(o.keys), o.warmup, nil); err != nil {
		return err
	}
	fmt.Printf("%d operations to warm up: %d MiB resident after %v\n", o.warmup, residentOrZero(server)/mib,
		since(begin))

	samples, err := sampled(o, server)
	if err != nil {
		return err
	}
	if err := judge(samples, limit); err != nil {
		return err
	}
	fmt.Printf("took %v\n", since(begin))
	return server.Stop()
}

// sizes returns basalt's arguments for the sizes of its block cache, write buffers
// and derived state. With small sizes the memory stops growing early in a run, so
// that a leak is visible.
func (o options) sizes() (args []string) {
	if o.cache > 0 {
		args = append(args, "--rocksdb.block_cache_size", strconv.Itoa(o.cache))
	}
	if o.buffer > 0 {
		args = append(args, "--rocksdb.write_buffer_size", strconv.Itoa(o.buffer))
	}
	if o.derived > 0 {
		args = append(args, "--derived-state-size", strconv.Itoa(o.derived))
	}
	return args
}

func since(t time.Time) time.Duration { return time.Since(t).Round(time.Second) }

// tenth is the resident size during a tenth of the operations, by the samples.
type tenth struct {
	mean, peak int // bytes
}

// sampled runs the operations after the warm-up, one tenth after the other, and
// samples the server's resident size meanwhile.
func sampled(o options, server *launch.Server) ([]tenth, error) {
	var out []tenth
	for i := range tenths {
		var sum, count, peak int
		sample := func() error {
			rss, err := server.Resident()
			sum += int(rss)
			count++
			peak = max(peak, int(rss))
			return err
		}
		var done atomic.Int64
		begin := time.Now()
		finished := make(chan error, 1)
		go func() { finished <- phase(o, server.Addr, mix(o.keys), o.ops/tenths, &done) }()
		ticker := time.NewTicker(o.every)
		var err error
		for running := true; running && err == nil; {
			select {
			case err = <-finished:
				running = false
			case <-ticker.C:
				err = sample()
			}
		}
		ticker.Stop()
		if err == nil {
			err = sample()
		}
		if err != nil {
			return nil, err
		}
		out = append(out, tenth{sum / count, peak})
		fmt.Printf("tenth %2d: %5d MiB resident (peak %d), %.0f operations a second\n",
			i+1, sum/count/mib, peak/mib, float64(done.Load())/time.Since(begin).Seconds())
	}
	return out, nil
}

// judge checks the tenths against the limit and against each other.
func judge(samples []tenth, limit int) error {
	first, last := samples[0], samples[len(samples)-1]
	for i, s := range samples {
		if s.peak > limit {
			return fmt.Errorf("tenth %d: %d MiB resident, above the limit of %d MiB", i+1, s.peak/mib, limit/mib)
		}
	}
	if ratio := float64(last.mean) / float64(first.mean); ratio > maxGrowth {
		return fmt.Errorf("memory grows: %d MiB resident in the last tenth, %d MiB in the first: a factor of %.3f, max %.2f",
			last.mean/mib, first.mean/mib, ratio, maxGrowth)
	}
	highest := slices.MaxFunc(samples, func(a, b tenth) int { return cmp.Compare(a.peak, b.peak) })
	fmt.Printf("memory is flat: %.3f times the first tenth in the last; peak %d MiB of the limit of %d\n",
		float64(last.mean)/float64(first.mean), highest.peak/mib, limit/mib)
	return nil
}

func residentOrZero(server *launch.Server) int64 {
	rss, _ := server.Resident()
	return rss
}
