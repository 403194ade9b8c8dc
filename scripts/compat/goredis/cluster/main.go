// Command cluster lets Apache kvrocks-controller, with etcd, drive a cluster of basalts under a load of go-redis's cluster
// client: three shards of two nodes are created, a master is killed and comes back, controller and etcd are killed and
// come back, a shard is added, and slots move to it from all others. In between redis-cli -c and, with -node, ioredis
// use the cluster. At the end no write is lost that WAIT 1 had confirmed, every key is at one master only, at that of
// its slot, and replicas have what their masters have.
//
// usage: cluster [-log DIR] [-node DIR] CONTROLLER BASALT
//
// It prints a line for each step. It exits with status 1, and with the last lines of all logs, when something does not
// happen in time or is wrong. etcd and redis-cli must be in the PATH.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// silent drops what go-redis logs about connections that fail: they are meant to.
type silent struct{}

func (silent) Printf(context.Context, string, ...any) {}

func main() {
	logs := flag.String("log", "", "directory in which the files stay")
	node := flag.String("node", "", "directory of ioredis-cluster.js; none = it is left out")
	flag.Parse()
	if flag.NArg() != 2 {
		flag.Usage()
		os.Exit(2)
	}
	redis.SetLogger(silent{})
	dir := *logs
	if dir == "" {
		var err error
		if dir, err = os.MkdirTemp("", "cluster"); err != nil {
			fmt.Fprintln(os.Stderr, "cluster:", err)
			os.Exit(1)
		}
	}
	err := run(dir, flag.Arg(0), flag.Arg(1), *node)
	if err != nil {
		fmt.Fprintln(os.Stderr, "cluster:", err)
		names, _ := filepath.Glob(filepath.Join(dir, "*.log"))
		for _, name := range names {
			fmt.Fprintf(os.Stderr, "--- the end of %s\n%s", filepath.Base(name), lastLines(name, 15))
		}
	}
	if *logs == "" {
		os.RemoveAll(dir)
	}
	if err != nil {
		os.Exit(1)
	}
}

func lastLines(name string, n int) string {
	data, err := os.ReadFile(name)
	if err != nil {
		return err.Error() + "\n"
	}
	lines := strings.SplitAfter(string(data), "\n")
	return strings.Join(lines[max(len(lines)-n-1, 0):], "")
}

// run goes through the steps.
func run(dir, controller, basalt, node string) error {
	s, err := start(dir, controller, basalt)
	defer s.stop()
	if err != nil {
		return err
	}
	load := newLoad(s.nodes[:6])
	defer load.stop()
	for _, step := range []struct {
		name string
		run  func() (string, error)
	}{
		{"three shards", func() (string, error) { return "", s.create() }},
		{"clients", func() (string, error) { return s.clients(node) }},
		{"a killed master", func() (string, error) { return s.failover(load) }},
		{"controller and etcd killed", s.restart},
		{"a fourth shard", func() (string, error) { return "", s.addShard() }},
		{"slots move to it", func() (string, error) { return s.migrate(load) }},
		{"clients again", func() (string, error) { return s.clients(node) }},
		{"comparison", func() (string, error) { return s.compare(load) }},
	} {
		began := time.Now()
		if step.name == "a killed master" {
			load.resume()
		}
		line, err := step.run()
		if err != nil {
			return fmt.Errorf("%s: %w", step.name, err)
		}
		fmt.Printf("cluster: %s: %s%v\n", step.name, line, time.Since(began).Round(100*time.Millisecond))
	}
	return nil
}

// clients runs redis-cli -c, and ioredis when it is there.
func (s *set) clients(node string) (string, error) {
	var in, want strings.Builder
	for i := range 50 {
		fmt.Fprintf(&in, "SET cli:%d v%[1]d\nGET cli:%[1]d\n", i)
		fmt.Fprintf(&want, "OK\nv%d\n", i)
	}
	cli := exec.Command("redis-cli", "-c", "-p", fmt.Sprint(s.nodes[1].port))
	cli.Stdin = strings.NewReader(in.String())
	out, err := cli.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("redis-cli -c: %w: %s", err, out)
	}
	// Where it is redirected it says so.
	lines := slices.DeleteFunc(strings.SplitAfter(string(out), "\n"), func(l string) bool {
		return strings.HasPrefix(l, "-> Redirected")
	})
	if got := strings.Join(lines, ""); got != want.String() {
		return "", fmt.Errorf("redis-cli -c: %s", out)
	}
	if node == "" {
		return "redis-cli -c, ", nil
	}
	out, err = exec.Command("node", filepath.Join(node, "ioredis-cluster.js"), s.nodes[1].addr()).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("ioredis: %w: %s", err, out)
	}
	return "redis-cli -c, " + strings.TrimSpace(string(out)) + ", ", nil
}

// failover kills a master, waits for its successor and lets it come back.
func (s *set) failover(load *load) (string, error) {
	if err := load.since(load.confirmedCount(), 300); err != nil {
		return "", err
	}
	began := time.Now()
	old := s.nodes[0]
	old.kill()
	if err := await("a new master", func() error {
		if role, err := s.nodes[1].info("role"); err != nil || role != "master" {
			return fmt.Errorf("%s is a %s: %v", s.nodes[1].name, role, err)
		}
		return nil
	}); err != nil {
		return "", err
	}
	took := time.Since(began).Round(100 * time.Millisecond)
	if err := load.eachShard(s.nodes[1], s.nodes[2], s.nodes[4]); err != nil {
		return "", err
	}
	wentOn := time.Since(began).Round(100 * time.Millisecond)
	if err := old.start(); err != nil {
		return "", err
	}
	return fmt.Sprintf("new master after %v, all shards written to after %v, ", took, wentOn),
		await(old.name+" is a replica", func() error { return s.replicates(old, s.nodes[1]) })
}

// restart kills the controller and etcd.
func (s *set) restart() (string, error) {
	s.controller.kill()
	s.etcd.kill()
	for _, p := range []*server{s.etcd, s.controller} {
		if err := p.start(); err != nil {
			return "", err
		}
	}
	return "", await("the controller knows the cluster", func() error {
		c, err := s.topology()
		if err == nil && len(c.Shards) != 3 {
			err = fmt.Errorf("%d shards", len(c.Shards))
		}
		return err
	})
}

// addShard adds a shard without slots.
func (s *set) addShard() error {
	err := s.post("/namespaces/test/clusters/c/shards", map[string]any{"nodes": []string{s.nodes[6].addr(), s.nodes[7].addr()}})
	if err != nil {
		return err
	}
	return s.agree(8)
}

// migrate moves a range of slots from each of the first shards to the fourth one.
func (s *set) migrate(load *load) (string, error) {
	before := load.confirmedCount()
	ranges := []string{"0-1000", "6000-6999", "16000-16383"}
	for _, r := range ranges {
		if err := s.post("/namespaces/test/clusters/c/migrate", map[string]any{"target": 3, "slot": r}); err != nil {
			return "", err
		}
		if err := await("the move of "+r, func() error {
			c, err := s.topology()
			if err == nil && !slices.Contains(c.Shards[3].SlotRanges, r) {
				err = fmt.Errorf("the fourth shard has %v", c.Shards[3].SlotRanges)
			}
			return err
		}); err != nil {
			return "", err
		}
	}
	if err := s.agree(8); err != nil {
		return "", err
	}
	during := load.confirmedCount() - before
	return fmt.Sprintf("%v, %d writes confirmed meanwhile, ", ranges, during), load.eachShard(s.nodes[1], s.nodes[2], s.nodes[4],
		s.nodes[6])
}
