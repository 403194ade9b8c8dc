// Benchmigrate measures how long a slot migration of many small keys takes between two basalts, and what it costs.
//
//	go run ./scripts/benchmigrate [-mb 1000] [-value 100] [-slots 0-8191,8192-16383] [-runs files,batches,commands]
//		[-load 20000 | -part 0.5] [-- --key value ...]
//
// It fills a source with strings under keys of 16 bytes, and for each run migrates each range of slots to a new
// destination:
//
//	files     raw-key-value, by table files
//	batches   raw-key-value to a destination that has a replica, which therefore takes no table files
//	commands  redis-command
//
// Settings of the source may follow, with blanks between: "batches migrate-batch-size-kb=1024". The limits of the rate
// are off. Arguments after the flags go to both basalts. With -load clients write so many keys a second, of all slots,
// during the migration, a second before and a second after it; with -part they write that part of what they can write
// without a migration, which is measured before each.
//
// For each migration it prints the time, keys and MB a second, the processor time of both, the peaks of their memory,
// the time for which writes have paused, and how long the writes of the clients have taken.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/basaltdb/basalt/scripts/internal/launch"
	"github.com/basaltdb/basalt/scripts/internal/loadgen"
	"github.com/basaltdb/basalt/scripts/internal/tool"
)

type bench struct {
	ctx    context.Context
	basalt string
	dir    string
	value  int
	keys   int
	load   int
	part   float64
	extra  []string

	source  *launch.Server
	version int // of the topology
}

const (
	sourceID = "1111111111111111111111111111111111111111"
	destID   = "2222222222222222222222222222222222222222"
	thirdID  = "3333333333333333333333333333333333333333"
	keyLen   = len("key:") + loadgen.Digits
	patience = 10 * time.Minute
)

func main() {
	b := &bench{}
	flag.StringVar(&b.basalt, "basalt", "build/basalt", "the program to measure")
	dir := flag.String("dir", "", "where the databases are put (default: the system's temporary directory)")
	mb := flag.Int("mb", 1000, "million bytes of keys and values")
	flag.IntVar(&b.value, "value", 100, "bytes of a value")
	slots := flag.String("slots", "0-16383", "the ranges that are migrated, of 16,384 slots with keys, comma-separated")
	flag.IntVar(&b.load, "load", 0, "writes a second during a migration, by 8 connections")
	flag.Float64Var(&b.part, "part", 0, "writes during a migration, as a part of what 8 connections can write before it")
	runs := flag.String("runs", "files,batches", "what is measured, comma-separated")
	flag.Parse()
	b.extra = flag.Args()
	b.keys = *mb * 1e6 / (keyLen + b.value)
	tool.Main("benchmigrate", func(ctx context.Context) error {
		b.ctx = ctx
		return b.run(*dir, strings.Split(*runs, ","), strings.Split(*slots, ","))
	})
}

func (b *bench) run(dir string, runs, ranges []string) (err error) {
	if b.dir, err = os.MkdirTemp(dir, "basalt-migrate-"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(b.dir)) }()
	if b.source, err = b.start("source"); err != nil {
		return err
	}
	defer func() { b.source.Kill() }()
	began := time.Now()
	if err := b.fill(); err != nil {
		return err
	}
	fmt.Printf("%d keys of %d bytes with values of %d, filled in %.1f s\n", b.keys, keyLen, b.value,
		time.Since(began).Seconds())
	for _, run := range runs {
		for _, slots := range ranges {
			if err := b.fresh(); err != nil {
				return err
			}
			if err := b.migrate(run, slots); err != nil {
				return fmt.Errorf("%s: %w\nthe source:\n%s", run, err, b.source.Output())
			}
		}
	}
	return nil
}

func (b *bench) start(name string) (*launch.Server, error) {
	args := []string{"--cluster-enabled", "yes", "--migrate-speed", "0", "--migrate-batch-rate-limit-mb", "0"}
	return launch.Start(launch.Basalt(b.basalt, append(args, b.extra...)...), filepath.Join(b.dir, name))
}

// topology assigns all slots to the source, the first server. With replica, the second server gets a replica that is
// never started.
func (b *bench) topology(replica bool, servers ...*launch.Server) error {
	b.version++
	var text []string
	for i, s := range servers {
		host, port, err := net.SplitHostPort(s.Addr)
		if err != nil {
			return err
		}
		if i == 0 {
			text = append(text, fmt.Sprintf("%s %s %s master - 0-16383", sourceID, host, port))
		} else {
			text = append(text, fmt.Sprintf("%s %s %s master -", destID, host, port))
		}
	}
	if replica {
		text = append(text, fmt.Sprintf("%s 127.0.0.1 1 slave %s", thirdID, destID))
	}
	for i, s := range servers {
		if _, err := s.Do("CLUSTERX", "SETNODEID", []string{sourceID, destID}[i]); err != nil {
			return err
		}
		if _, err := s.Do("CLUSTERX", "SETNODES", strings.Join(text, "\n"), strconv.Itoa(b.version)); err != nil {
			return err
		}
	}
	return nil
}

// fill writes every key once, in an order other than that of the slots.
func (b *bench) fill() error {
	if err := b.topology(false, b.source); err != nil {
		return err
	}
	next := 0
	set := loadgen.Set(b.value)
	_, err := loadgen.Run(b.ctx, loadgen.Load{Addr: b.source.Addr, Connections: 16, Pipeline: 64, Requests: int64(b.keys),
		Next: func(*rand.Rand) (*loadgen.Op, int) { next++; return set, next - 1 }})
	if err != nil {
		return err
	}
	return b.source.Settled(b.ctx)
}

// fresh restarts the source with its settings, so that it forgets where its slots have moved.
func (b *bench) fresh() (err error) {
	if err := b.source.Stop(); err != nil {
		return err
	}
	if err := os.Remove(filepath.Join(b.dir, "source", "nodes.conf")); err != nil {
		return err
	}
	b.source, err = b.start("source")
	return err
}

// used is what a process has used.
type used struct {
	cpu     time.Duration
	peak    int64 // bytes
	threads map[string]time.Duration
}

// usage returns what a server has used. The peak counts from the last ResetPeak.
func usage(s *launch.Server) (u used, err error) {
	if u.cpu, err = s.CPUTime(); err != nil {
		return u, err
	}
	if u.peak, err = s.PeakResident(); err != nil {
		return u, err
	}
	u.threads = map[string]time.Duration{}
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", s.Pid()))
	for _, t := range tasks {
		stat, err := os.ReadFile(t)
		if err != nil {
			continue // the process has ended
		}
		name := string(stat[bytes.IndexByte(stat, '(')+1 : bytes.LastIndexByte(stat, ')')])
		d, err := threadTime(string(stat))
		if err != nil {
			return u, err
		}
		u.threads[name] += d
	}
	return u, err
}

// threadTime returns the user and system time in a stat file of /proc. The name of the thread, the second field, may
// contain anything.
func threadTime(stat string) (time.Duration, error) {
	fields := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:])
	if len(fields) < 13 {
		return 0, fmt.Errorf("no processor time: %q", stat)
	}
	user, err := strconv.ParseInt(fields[11], 10, 64)
	system, err2 := strconv.ParseInt(fields[12], 10, 64)
	const tick = time.Second / 100 // the kernel's USER_HZ
	return time.Duration(user+system) * tick, errors.Join(err, err2)
}

var pauseLine = regexp.MustCompile(`writes of the slots have paused.*("for": .*)}`)

func (b *bench) migrate(run, slots string) error {
	dest, err := b.start("dest")
	if err != nil {
		return err
	}
	defer os.RemoveAll(filepath.Join(b.dir, "dest"))
	defer dest.Kill()
	kind, settings, _ := strings.Cut(run, " ")
	types := map[string]string{"files": "raw-key-value", "batches": "raw-key-value", "commands": "redis-command"}
	if types[kind] == "" {
		return fmt.Errorf("no such run: %q", kind)
	}
	if err := b.topology(kind == "batches", b.source, dest); err != nil {
		return err
	}
	for _, s := range append(strings.Fields(settings), "migrate-type="+types[kind]) {
		name, value, _ := strings.Cut(s, "=")
		if _, err := b.source.Do("CONFIG", "SET", name, value); err != nil {
			return err
		}
	}
	rate, err := b.rate()
	if err != nil {
		return err
	}
	both := []*launch.Server{b.source, dest}
	var before, after [2]used
	for i, s := range both {
		s.ResetPeak()
		if before[i], err = usage(s); err != nil {
			return err
		}
	}
	var load *writers
	if rate > 0 {
		load = b.startWriters(rate)
		time.Sleep(time.Second)
	}
	keys, err := b.source.Do("DBSIZE")
	if err != nil {
		return err
	}
	began := time.Now()
	result, err := b.source.Do("CLUSTERX", "MIGRATE", slots, destID, "SYNC")
	if err != nil {
		return err
	}
	took := time.Since(began)
	for i, s := range both {
		if after[i], err = usage(s); err != nil {
			return err
		}
	}
	noticed := ""
	if load != nil {
		time.Sleep(time.Second)
		wrote, err := load.end()
		if err != nil {
			return err
		}
		noticed = fmt.Sprintf("  %.0f writes/s meanwhile of %d, %v", wrote, rate, load)
	}
	got, err := dest.Do("DBSIZE")
	if err != nil {
		return err
	}
	if err := dest.Settled(b.ctx); err != nil {
		return err
	}
	later, err := usage(dest)
	if err != nil {
		return err
	}
	n := got.Int
	pause := "?"
	if all := pauseLine.FindAllStringSubmatch(b.source.Output(), -1); len(all) > 0 {
		pause = all[len(all)-1][1]
	}
	fmt.Printf("%-10s %s %s: %6.2f s, %d of %s keys, %.0f keys/s, %.0f MB/s, writes paused %s\n",
		run, slots, result, took.Seconds(), n,
		keys, float64(n)/took.Seconds(), float64(n*int64(keyLen+b.value))/1e6/took.Seconds(), pause)
	if noticed != "" {
		fmt.Println(noticed)
	}
	for i, name := range []string{"source", "destination"} {
		fmt.Printf("  %-12s cpu %6.2f s, peak of memory %4d MiB", name, (after[i].cpu - before[i].cpu).Seconds(),
			after[i].peak>>20)
		for _, t := range []string{"rocksdb:low", "rocksdb:high"} {
			fmt.Printf(", %s %.2f s", t, (after[i].threads[t] - before[i].threads[t]).Seconds())
		}
		if i == 1 {
			fmt.Printf(", with compactions afterwards %.2f s", (later.cpu - before[i].cpu).Seconds())
		}
		fmt.Println()
	}
	return nil
}
