// Soak sends basalt millions of operations over a fixed set of keys and checks
// that its memory stays flat and within its budget: the mean resident size in the
// last tenth of the operations is at most 5 % above that in the first tenth after
// the warm-up, and never above block cache + write buffers + 200 MB.
//
//	go run ./scripts/soak [-ops 10000000] [-keys 1000000]
//
// Arguments after the flags go to basalt. Exits 1 when a check fails.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/basaltdb/basalt/scripts/internal/launch"
	"github.com/basaltdb/basalt/scripts/internal/redisclient"
)

const (
	mib = 1 << 20
	// allowance is what the process may hold besides caches and write buffers.
	allowance = 200 * mib
	// growth is how far the last tenth may be above the first.
	growth = 1.05
	tenths = 10
)

type options struct {
	basalt            string
	ops, keys, warmup int
	connections       int
	depth             int
	valueSize         int
	cache, buffer     int
	budget            int
	every             time.Duration
	extra             []string
	seed              uint64 // of the operations; 0 = another one in every phase
}

func main() {
	var o options
	flag.StringVar(&o.basalt, "basalt", "build/basalt", "the program to soak; 'redis' soaks redis-server")
	flag.IntVar(&o.ops, "ops", 10_000_000, "operations that are counted")
	flag.IntVar(&o.keys, "keys", 1_000_000, "keys")
	flag.IntVar(&o.warmup, "warmup", -1,
		"operations before the first sample, after one write to each key (default: three tenths of -ops)")
	flag.IntVar(&o.connections, "connections", 8, "connections")
	flag.IntVar(&o.depth, "depth", 32, "commands in a pipeline")
	flag.IntVar(&o.valueSize, "value-size", 128, "bytes in a value")
	flag.IntVar(&o.cache, "cache", 64, "MiB of block cache that basalt gets; 0 = its own choice, which needs -budget")
	flag.IntVar(&o.buffer, "write-buffer", 16,
		"MiB of one write buffer that basalt gets; 0 = its own choice, which needs -budget")
	flag.IntVar(&o.budget, "budget", 0, "MiB of block cache and write buffers (default: from CONFIG GET)")
	flag.DurationVar(&o.every, "every", 100*time.Millisecond, "time between two samples")
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
			return fmt.Errorf("cannot tell the budget, use -budget: %w", err)
		}
	}
	limit := budget + allowance
	fmt.Printf("limit: %d MiB of block cache and write buffers + %d MiB\n", budget/mib, allowance/mib)

	begin := time.Now()
	if err := phase(o, server.Addr, load, o.keys, nil); err != nil {
		return err
	}
	fmt.Printf("each of %d keys written: %d MiB resident after %v\n", o.keys, residentOrZero(server.Pid())/mib,
		since(begin))
	if err := phase(o, server.Addr, mix(o.keys), o.warmup, nil); err != nil {
		return err
	}
	fmt.Printf("%d operations to warm up: %d MiB resident after %v\n", o.warmup, residentOrZero(server.Pid())/mib,
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

// sizes are basalt's arguments for the sizes asked for. Small ones make the memory
// settle, and leaks show, within the operations of one run.
func (o options) sizes() (args []string) {
	if o.cache > 0 {
		args = append(args, "--rocksdb.block_cache_size", strconv.Itoa(o.cache))
	}
	if o.buffer > 0 {
		args = append(args, "--rocksdb.write_buffer_size", strconv.Itoa(o.buffer))
	}
	return args
}

func since(t time.Time) time.Duration { return time.Since(t).Round(time.Second) }

// tenth is what was seen of the resident size during a tenth of the operations.
type tenth struct {
	mean, most int // bytes
}

// sampled runs the counted operations, one tenth after the other, and samples the
// server's resident size meanwhile.
func sampled(o options, server *launch.Server) ([]tenth, error) {
	var out []tenth
	for i := range tenths {
		var sum, count, most int
		sample := func() error {
			rss, err := resident(server.Pid())
			if err != nil {
				return err
			}
			sum += rss
			count++
			most = max(most, rss)
			return nil
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
		out = append(out, tenth{sum / count, most})
		fmt.Printf("tenth %2d: %5d MiB resident (most %d), %.0f operations a second\n",
			i+1, sum/count/mib, most/mib, float64(done.Load())/time.Since(begin).Seconds())
	}
	return out, nil
}

// judge checks the tenths against the limit and against each other.
func judge(samples []tenth, limit int) error {
	first, last := samples[0], samples[len(samples)-1]
	for i, s := range samples {
		if s.most > limit {
			return fmt.Errorf("tenth %d: %d MiB resident, above the limit of %d MiB", i+1, s.most/mib, limit/mib)
		}
	}
	if ratio := float64(last.mean) / float64(first.mean); ratio > growth {
		return fmt.Errorf("memory grows: %d MiB resident in the last tenth, %d MiB in the first (x%.3f, at most x%.2f is "+
			"flat)",
			last.mean/mib, first.mean/mib, ratio, growth)
	}
	fmt.Printf("flat: last tenth x%.3f of the first; most %d MiB of %d\n",
		float64(last.mean)/float64(first.mean), peakOf(samples)/mib, limit/mib)
	return nil
}

func peakOf(samples []tenth) (most int) {
	for _, s := range samples {
		most = max(most, s.most)
	}
	return most
}

// resident is a process's VmRSS in bytes.
func resident(pid int) (int, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	return parseResident(string(b))
}

// parseResident reads the line "VmRSS:     1234 kB" of /proc/PID/status.
func parseResident(status string) (int, error) {
	for line := range strings.Lines(status) {
		if rest, found := strings.CutPrefix(line, "VmRSS:"); found {
			kib, err := strconv.Atoi(strings.TrimSuffix(strings.TrimSpace(rest), " kB"))
			return kib << 10, err
		}
	}
	return 0, fmt.Errorf("no VmRSS in the process's status: it has ended")
}

func residentOrZero(pid int) int {
	rss, _ := resident(pid)
	return rss
}
