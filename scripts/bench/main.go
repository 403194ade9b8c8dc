// Bench measures basalt and redis-server side by side with redis-benchmark (-c 50 -r 100000 -d 128) and prints the
// requests a second of both, medians of interleaved repetitions, and their ratio. redis-server runs in memory without
// persistence; basalt with its default configuration in a temporary directory.
//
//	go run ./scripts/bench [-quick] [-commands SET,GET] [-pipelines 1,16,64]
//
// Rows whose names begin with "Lua" are scripts, measured at one pipeline length in microseconds of the servers'
// processor time. -commands Lua measures them alone.
//
// PUBLISH_100 has 100 subscribers, which read in this process.
//
// Arguments after the flags go to basalt. Every row of the table is a command;
// rows and means that miss the project's targets are marked BELOW. Commands that a
// cache helps have three more rows: on 10,000 collections of 100 elements at random, on
// one of them again and again, and that with a write after ten reads on average (sent by
// this process). A full run takes about sixteen minutes, -quick about five; the ratios of a
// quick run scatter more.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/basaltdb/basalt/scripts/internal/launch"
	"github.com/basaltdb/basalt/scripts/internal/tool"
)

type options struct {
	basalt, basaltAddr, redisAddr string
	commands, pipelines, out      string
	quick, list                   bool
	plan                          plan
	extra                         []string
}

func main() {
	var o options
	flag.StringVar(&o.basalt, "basalt", "build/basalt", "the program to measure")
	flag.StringVar(&o.basaltAddr, "basalt-addr", "",
		"host:port of a running server to measure instead; its data is overwritten")
	flag.StringVar(&o.redisAddr, "redis-addr", "",
		"host:port of a running redis-server to compare with; its data is overwritten")
	flag.StringVar(&o.commands, "commands", "", "rows to measure, comma-separated (default all)")
	flag.StringVar(&o.pipelines, "pipelines", "1,16,64", "pipeline lengths")
	flag.IntVar(&o.plan.requests, "requests", 0, "requests in each measurement (default: as many as take -time)")
	flag.DurationVar(&o.plan.duration, "time", 400*time.Millisecond, "length of a measurement on the slower server")
	flag.IntVar(&o.plan.reps, "reps", 3, "repetitions, of which the median counts")
	flag.BoolVar(&o.quick, "quick", false, "measure 60 ms each instead of -time")
	flag.StringVar(&o.out, "json", "", "also write the results to this file")
	flag.BoolVar(&o.list, "list", false, "list the rows and exit")
	flag.Parse()
	o.extra = flag.Args()
	tool.Main("bench", func(ctx context.Context) error { return run(ctx, o) })
}

func run(ctx context.Context, o options) error {
	if o.list {
		for _, r := range rows() {
			fmt.Println(r.name)
		}
		for _, r := range scriptRows() {
			fmt.Println(r.name)
		}
		return nil
	}
	o.plan.rounds = 2
	if o.quick {
		o.plan.duration, o.plan.rounds = 60*time.Millisecond, 1
	}
	if o.plan.reps < 1 || o.plan.requests < 0 {
		return fmt.Errorf("-reps needs to be at least 1 and -requests at least 0")
	}
	picked, scripts, err := pick(o.commands)
	if err != nil {
		return err
	}
	pipelines, err := parsePipelines(o.pipelines)
	if err != nil {
		return err
	}
	for _, tool := range []string{"redis-benchmark", "redis-server"} {
		if _, err := exec.LookPath(tool); err != nil {
			return fmt.Errorf("%s is not installed (scripts/bootstrap.sh --test installs it)", tool)
		}
	}

	dir, err := os.MkdirTemp("", "basalt-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	basalt, err := start("basalt", o.basaltAddr, launch.Basalt(o.basalt, o.extra...), dir)
	if err != nil {
		return err
	}
	defer basalt.stop()
	redis, err := start("redis", o.redisAddr, launch.Redis, dir)
	if err != nil {
		return err
	}
	defer redis.stop()

	fmt.Printf("%s; basalt with %s; %d cores; redis-benchmark -c %d -r %d -d %d; median of %d\n",
		redisVersion(), basalt.rocksDB(), runtime.NumCPU(), connections, keyspace, valueSize, o.plan.reps)
	var results []result
	var allMeans []mean
	begin := time.Now()
	for _, p := range pipelines {
		if len(picked) == 0 {
			break
		}
		fmt.Printf("\nP = %-14d %12s %12s %8s %8s\n", p, "basalt", "redis", "ratio", "target")
		var family []result // rows of the family of the last row
		headed := false
		for i, r := range picked {
			if ctx.Err() != nil { // between two rows, so that the servers and their data are removed
				return errors.New("interrupted")
			}
			res := compare(basalt.side, redis.side, r, p, o.plan)
			results = append(results, res)
			if r.family == "" || res.Error != "" {
				printResult(os.Stdout, res)
			}
			if r.family == "" {
				continue
			}
			if family = append(family, res); i+1 == len(picked) || picked[i+1].family != r.family {
				if !headed {
					printFamilyHeader(os.Stdout, p)
				}
				printFamily(os.Stdout, family)
				family, headed = nil, true
			}
		}
		ms := means(results, p)
		for _, m := range ms {
			fmt.Printf("geometric mean over %-24s %8.2f %s\n", fmt.Sprintf("%s (%d)", m.Over, m.Rows), m.Ratio,
				verdict(m.Ratio, m.Target))
		}
		allMeans = append(allMeans, ms...)
	}
	scriptResults, err := compareScripts(ctx, basalt.side, redis.side, scripts, o.plan)
	if err != nil {
		return err
	}
	fmt.Printf("\ntook %v\n", time.Since(begin).Round(time.Second))
	if o.out != "" {
		if err := writeJSON(o.out, results, allMeans, scriptResults); err != nil {
			return err
		}
	}
	for _, r := range results {
		if r.Error != "" {
			return fmt.Errorf("%s at P = %d: %s", r.Command, r.Pipeline, r.Error)
		}
	}
	for _, r := range scriptResults {
		if r.Error != "" {
			return fmt.Errorf("%s: %s", r.Script, r.Error)
		}
	}
	return nil
}

// running is a side with its process, if this program has started it.
type running struct {
	*side
	server *launch.Server
}

func start(name, addr string, command launch.Command, dir string) (*running, error) {
	r := &running{}
	if addr == "" {
		server, err := launch.Start(command, filepath.Join(dir, name))
		if err != nil {
			return nil, err
		}
		r.server, addr = server, server.Addr
	}
	var err error
	if r.side, err = newSide(name, addr); err != nil {
		r.stop()
		return nil, err
	}
	return r, nil
}

func (r *running) stop() {
	if r.server != nil {
		r.server.Kill()
	}
}

// redisVersion returns text such as "redis-server 7.0.15".
func redisVersion() string {
	out, _ := exec.Command("redis-server", "--version").Output()
	for field := range strings.FieldsSeq(string(out)) {
		if v, found := strings.CutPrefix(field, "v="); found {
			return "redis-server " + v
		}
	}
	return "redis-server"
}

// rocksDB names the RocksDB that basalt runs on. With assertions, as Debian builds it, it is slower.
func (s *side) rocksDB() string {
	version, err := s.serverInfo("rocksdb_version")
	if err != nil {
		return "an unknown RocksDB"
	}
	name := "RocksDB " + version
	if on, err := s.serverInfo("rocksdb_assertions"); err == nil && on == "1" {
		name += " (assertions)"
	}
	return name
}

func writeJSON(path string, results []result, ms []mean, scripts []scriptResult) error {
	b, err := json.MarshalIndent(struct {
		Results []result       `json:"results"`
		Means   []mean         `json:"means"`
		Scripts []scriptResult `json:"scripts"`
	}{results, ms, scripts}, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(b, '\n'), 0o644)
}
