// Crash kills basalt with SIGKILL at random moments under load. After each restart
// it checks that every acknowledged write is present, and that the counters of
// collections are right. At the first violation it keeps the data directory and
// exits with status 1.
//
//	go run ./scripts/crash [-basalt build/basalt] [-rounds 20] [-- --any-key value ...]
//
// Arguments after the flags go to basalt.
package main

import (
	"flag"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/basaltdb/basalt/scripts/crash/torture"
	"github.com/basaltdb/basalt/scripts/internal/launch"
)

func main() {
	var o torture.Options
	basalt := flag.String("basalt", "build/basalt",
		"path of the basalt program; 'redis' tests redis-server with an append-only file")
	flag.StringVar(&o.Dir, "dir", "",
		"data directory, which is kept (default: a new one, removed unless there is a violation)")
	flag.IntVar(&o.Rounds, "rounds", 20, "number of kills")
	flag.IntVar(&o.Writers, "writers", 8, "number of connections that write")
	flag.IntVar(&o.Depth, "depth", 16, "max number of commands in a pipeline")
	flag.DurationVar(&o.MinLoad, "min-load", 50*time.Millisecond, "shortest load before a kill")
	flag.DurationVar(&o.MaxLoad, "max-load", 2*time.Second, "longest load before a kill")
	flag.Uint64Var(&o.Seed, "seed", uint64(time.Now().UnixNano()),
		"seed of the choice of writes (default: a different one in each run)")
	buffer := flag.Int("write-buffer", 1,
		"size of one write buffer in MiB: small, so that kills also hit flushes and compactions")
	flag.Parse()

	extra := append([]string{"--rocksdb.write_buffer_size", strconv.Itoa(*buffer)}, flag.Args()...)
	o.Command = launch.Basalt(*basalt, extra...)
	if *basalt == "redis" {
		o.Command = launch.DurableRedis
	} else {
		o.Killed = torture.Check(*basalt)
	}
	o.Log = func(format string, args ...any) { fmt.Printf(format+"\n", args...) }

	temporary := o.Dir == ""
	if temporary {
		dir, err := os.MkdirTemp("", "basalt-crash-")
		if err != nil {
			fmt.Fprintln(os.Stderr, "crash:", err)
			os.Exit(1)
		}
		o.Dir = dir
	}
	fmt.Printf("seed %d, data in %s\n", o.Seed, o.Dir)
	if err := torture.Run(o); err != nil {
		fmt.Fprintf(os.Stderr, "crash: %v\ncrash: seed %d, data kept in %s\n", err, o.Seed, o.Dir)
		os.Exit(1)
	}
	if temporary {
		os.RemoveAll(o.Dir)
	}
	fmt.Printf("%d rounds: no acknowledged write was lost\n", o.Rounds)
}
