// Benchdisk measures basalt, and Kvrocks beside it, with data larger than memory: each server runs alone in a memory
// cgroup that holds its page cache too, with the same sizes of caches and write buffers and without compression.
//
//	go run ./scripts/benchdisk [-quick] [-kvrocks PATH] [-only large,HGET] [-json FILE] [-- --key value ...]
//
// Arguments after the flags go to basalt.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/basaltdb/basalt/scripts/internal/tool"
)

type options struct {
	basalt, kvrocks string
	keys            int
	sizes           sizes
	duration        time.Duration
	rounds          int
	quick, list     bool
	only            string
	dir, cgroup     string
	json            string
	extra           []string
}

// bytesFlag is a size such as 512MiB.
type bytesFlag int64

func (b *bytesFlag) String() string { return fmt.Sprintf("%dMiB", int64(*b)/mib) }

func (b *bytesFlag) Set(s string) error {
	text, unit := s, int64(1)
	for suffix, size := range map[string]int64{"KiB": 1 << 10, "MiB": mib, "GiB": 1 << 30} {
		if t, found := strings.CutSuffix(s, suffix); found {
			text, unit = t, size
		}
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n <= 0 {
		return errors.New("needs a size such as 512MiB")
	}
	*b = bytesFlag(n * unit)
	return nil
}

func main() {
	o := options{sizes: sizes{memory: 512 * mib, cache: 128 * mib, writeBuffer: 16 * mib}}
	flag.StringVar(&o.basalt, "basalt", "build/basalt", "the program to measure; empty for none")
	flag.StringVar(&o.kvrocks, "kvrocks", "", "the kvrocks program to compare with")
	flag.IntVar(&o.keys, "keys", 3_000_000, "keys of the first suite; the other suites follow from it")
	flag.Var((*bytesFlag)(&o.sizes.memory), "memory", "limit of the memory cgroup of a server")
	flag.Var((*bytesFlag)(&o.sizes.cache), "cache", "block cache")
	flag.Var((*bytesFlag)(&o.sizes.writeBuffer), "write-buffer", "write buffer of a column family")
	flag.DurationVar(&o.duration, "time", 10*time.Second, "length of the measurement of a row")
	flag.IntVar(&o.rounds, "rounds", 1, "repetitions, of which the median counts; the order of the servers alternates")
	flag.BoolVar(&o.quick, "quick", false,
		"a third of the keys, half of the memory and of the cache, a quarter of the time, fewer rows")
	flag.StringVar(&o.only, "only", "", "parts of the names of suites and rows to measure, comma-separated (default all)")
	flag.BoolVar(&o.list, "list", false, "list the rows and exit")
	flag.StringVar(&o.dir, "dir", os.TempDir(), "where the data goes: a directory on the disk to measure")
	flag.StringVar(&o.cgroup, "cgroup", "", "the cgroup's directory to make groups in (default that of this process)")
	flag.StringVar(&o.json, "json", "", "also write the results to this file")
	flag.Parse()
	o.extra = flag.Args()
	tool.Main("benchdisk", func(ctx context.Context) error { return run(ctx, o) })
}

func run(ctx context.Context, o options) error {
	if o.quick {
		// With less memory, the constant size of the program itself would dominate.
		o.keys, o.duration = o.keys/3, o.duration/4
		o.sizes.memory, o.sizes.cache, o.sizes.writeBuffer = o.sizes.memory/2, o.sizes.cache/2, o.sizes.writeBuffer/2
	}
	picked := pick(suites(o.keys, o.quick), o.only)
	if o.list {
		for _, s := range picked {
			for _, r := range s.rows {
				fmt.Printf("%-8s %s\n", s.data.name, r.name)
			}
		}
		return nil
	}
	if o.rounds < 1 || o.keys < 1000 {
		return errors.New("-rounds needs to be at least 1 and -keys at least 1000")
	}
	var products []product
	if o.basalt != "" {
		products = append(products, basalt(o.basalt, o.sizes, o.extra))
	}
	if o.kvrocks != "" {
		products = append(products, kvrocks(o.kvrocks, o.sizes))
	}
	dir, err := os.MkdirTemp(o.dir, "basalt-benchdisk-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if dir, err = filepath.Abs(dir); err != nil { // the servers may have another working directory
		return err
	}
	if inMemory(dir) {
		return fmt.Errorf("%s is in memory (tmpfs): -dir names a directory on the disk to measure", dir)
	}
	begin := time.Now()
	rep := &report{Keys: o.keys, Memory: o.sizes.memory, Cache: o.sizes.cache}
	g, err := findGroups(o.cgroup, o.sizes.memory)
	if err != nil {
		rep.Note = fmt.Sprintf("no memory cgroup (%v): the servers' files leave the page cache every half second", err)
	}
	fmt.Printf("%d keys, memory %d MiB, block cache %d MiB, write buffers %d MiB, no compression, %d clients, %d cores\n",
		o.keys, o.sizes.memory/mib, o.sizes.cache/mib, o.sizes.writeBuffer/mib, connections, runtime.NumCPU())
	if rep.Note != "" {
		fmt.Println(rep.Note)
	}
	if rep.Disk, err = measureDisk(ctx, dir, 2*o.sizes.memory, o.duration/5); err != nil {
		return err
	}
	for _, d := range rep.Disk {
		fmt.Printf("disk: %8.0f random reads a second of %2d KiB at depth %d\n", d.Rate, d.Bytes>>10, d.Depth)
	}
	pl := plan{duration: o.duration, groups: g, dir: dir, progress: printProgress}
	for round := range o.rounds {
		for i, s := range picked {
			s.data.prepare()
			for j := range products {
				// Each server comes first in every second suite. The next round reverses that.
				p := products[(i+j+round)%len(products)]
				rows, used, err := runSuite(ctx, p, s, pl)
				if dead, ok := errors.AsType[*killed](err); ok {
					fmt.Println(err)
					rep.Killed = append(rep.Killed, dead.row)
				} else if err != nil {
					return err
				}
				rep.add(p.name, s, rows, used)
			}
			s.data.order, s.data.zipf = nil, nil
		}
	}
	rep.print(os.Stdout)
	fmt.Printf("\ntook %v\n", time.Since(begin).Round(time.Second))
	if o.json != "" {
		b, err := json.MarshalIndent(rep, "", "  ")
		if err != nil {
			return err
		}
		if err := os.WriteFile(o.json, append(b, '\n'), 0o644); err != nil {
			return err
		}
	}
	if len(rep.Killed) > 0 {
		return fmt.Errorf("killed for want of memory: %s", strings.Join(rep.Killed, ", "))
	}
	return nil
}
