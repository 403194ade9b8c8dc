// Command cluster lets Apache kvrocks-controller, two of them with etcd, drive a cluster of basalts under a load of
// go-redis's cluster client: three shards of two nodes are created, a master is killed and comes back, controllers and
// etcd are killed and come back, a shard is added, and slots move to it from all others; while they move the controller
// that leads is killed, or stopped for so long that the other one leads, or etcd is killed. In between redis-cli -c
// and, with -node, ioredis use the cluster. At the end no write is lost that WAIT 1 had confirmed, every key is at one
// master only, at that of its slot, and replicas have what their masters have.
//
// usage: cluster [-log DIR] [-node DIR] CONTROLLER BASALT
//
// It prints a line for each step. It exits with status 1, and with the last lines of all logs, when something does not
// happen in time or is wrong. etcd and redis-cli must be in the PATH.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/basaltdb/basalt/scripts/compat/goredis/internal/harness"
)

func main() {
	logs := flag.String("log", "", "directory in which the files stay")
	node := flag.String("node", "", "directory of ioredis-cluster.js; none = it is left out")
	flag.Parse()
	if flag.NArg() != 2 {
		flag.Usage()
		os.Exit(2)
	}
	harness.Main("cluster", *logs, func(dir string) error { return run(dir, flag.Arg(0), flag.Arg(1), *node) })
}

// run performs the steps.
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
		{"controllers and etcd killed", s.restart},
		{"a fourth shard", func() (string, error) { return "", s.addShard() }},
		{"slots move to it, the leader is killed", func() (string, error) { return s.migrate(load, "0-1000", s.killLeader) }},
		{"slots move to it, the leader is stopped",
			func() (string, error) { return s.migrate(load, "6000-6999", s.stopLeader) }},
		{"slots move to it, etcd is killed", func() (string, error) { return s.migrate(load, "16000-16383", s.killEtcd) }},
		{"slots move to it", func() (string, error) { return s.migrate(load, "1001-2000", s.noFault) }},
		{"clients again", func() (string, error) { return s.clients(node) }},
		{"comparison", func() (string, error) { return s.compare(load) }},
	} {
		began := time.Now()
		load.phase(step.name)
		if step.name == "a killed master" {
			load.Resume()
		}
		line, err := step.run()
		if err != nil {
			return fmt.Errorf("%s: %w", step.name, err)
		}
		fmt.Printf("cluster: %s: %s%v\n", step.name, line, time.Since(began).Round(100*time.Millisecond))
	}
	load.report(os.Stdout)
	return load.expected()
}

// clients runs redis-cli -c, and ioredis if it is installed.
func (s *set) clients(node string) (string, error) {
	var in, want strings.Builder
	for i := range 50 {
		fmt.Fprintf(&in, "SET cli:%d v%[1]d\nGET cli:%[1]d\n", i)
		fmt.Fprintf(&want, "OK\nv%d\n", i)
	}
	cli := exec.Command("redis-cli", "-c", "-p", fmt.Sprint(s.nodes[1].Port))
	cli.Stdin = strings.NewReader(in.String())
	out, err := cli.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("redis-cli -c: %w: %s", err, out)
	}
	// redis-cli prints a line for each redirection.
	lines := slices.DeleteFunc(strings.SplitAfter(string(out), "\n"), func(l string) bool {
		return strings.HasPrefix(l, "-> Redirected")
	})
	if got := strings.Join(lines, ""); got != want.String() {
		return "", fmt.Errorf("redis-cli -c: %s", out)
	}
	if node == "" {
		return "redis-cli -c, ", nil
	}
	out, err = exec.Command("node", filepath.Join(node, "ioredis-cluster.js"), s.nodes[1].Addr()).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("ioredis: %w: %s", err, out)
	}
	return "redis-cli -c, " + strings.TrimSpace(string(out)) + ", ", nil
}

// failover kills a master, waits for its successor, and restarts it.
func (s *set) failover(load *load) (string, error) {
	if err := load.Since(load.ConfirmedCount(), 300); err != nil {
		return "", err
	}
	began := time.Now()
	old := s.nodes[0]
	old.Kill()
	if err := harness.Await("a new master", func() error {
		if role, err := s.nodes[1].Info("role"); err != nil || role != "master" {
			return fmt.Errorf("%s is a %s: %v", s.nodes[1].Name, role, err)
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
	if err := old.Start(); err != nil {
		return "", err
	}
	return fmt.Sprintf("new master after %v, all shards written to after %v, ", took, wentOn),
		harness.Await(old.Name+" is a replica", func() error { return old.Replicates(s.nodes[1]) })
}

// restart kills the controllers and etcd.
func (s *set) restart() (string, error) {
	for _, c := range s.controllers {
		c.Kill()
	}
	s.etcd.Kill()
	for _, p := range append([]*harness.Server{s.etcd}, s.controllers...) {
		if err := p.Start(); err != nil {
			return "", err
		}
	}
	return "", harness.Await("a controller knows the cluster", func() error {
		c, err := s.topology()
		if err == nil && len(c.Shards) != 3 {
			err = fmt.Errorf("%d shards", len(c.Shards))
		}
		return err
	})
}

// addShard adds a shard without slots.
func (s *set) addShard() error {
	err := s.post("/namespaces/test/clusters/c/shards",
		map[string]any{"nodes": []string{s.nodes[6].Addr(), s.nodes[7].Addr()}})
	if err != nil {
		return err
	}
	return s.agree(8)
}

// migrate moves a range of slots to the fourth shard. The migration is slow until a fault has been injected.
func (s *set) migrate(load *load, slots string, fault func() (repair func() error, err error)) (string, error) {
	before := load.ConfirmedCount()
	if err := s.speed("5"); err != nil {
		return "", err
	}
	if err := s.post("/namespaces/test/clusters/c/migrate", map[string]any{"target": 3, "slot": slots}); err != nil {
		return "", err
	}
	repair, err := fault()
	if err != nil {
		return "", err
	}
	if err := s.speed("4096"); err != nil {
		return "", err
	}
	moved := func() error {
		return harness.Await("the move of "+slots, func() error {
			c, err := s.topology()
			if err == nil && !c.has(3, slots) {
				err = fmt.Errorf("the fourth shard has %v", c.Shards[3].SlotRanges)
			}
			return err
		})
	}
	if err := moved(); err != nil {
		return "", err
	}
	if err := repair(); err != nil {
		return "", err
	}
	if err := s.agree(8); err != nil {
		return "", err
	}
	if err := moved(); err != nil { // the restarted controller has not undone it
		return "", err
	}
	during := load.ConfirmedCount() - before
	return fmt.Sprintf("%s, %d writes confirmed meanwhile, ", slots, during),
		load.eachShard(s.nodes[1], s.nodes[2], s.nodes[4],
			s.nodes[6])
}

// speed sets the rate of a migration in commands per second.
func (s *set) speed(perSecond string) error {
	for _, n := range s.nodes {
		if err := n.Client.ConfigSet(context.Background(), "migrate-speed", perSecond).Err(); err != nil {
			return err
		}
	}
	return nil
}

func (s *set) noFault() (func() error, error) { return func() error { return nil }, nil }

// otherLeads waits until another controller is the leader.
func (s *set) otherLeads(c *harness.Server) error {
	return harness.Await(c.Name+" leads", func() error {
		ok, err := leads(c)
		if err == nil && !ok {
			err = errors.New("it does not")
		}
		return err
	})
}

// killLeader kills the leading controller.
func (s *set) killLeader() (func() error, error) {
	leader, other, err := s.leader()
	if err != nil {
		return nil, err
	}
	leader.Kill()
	return leader.Start, s.otherLeads(other)
}

// stopLeader stops the leading controller until the other one has moved the slots: then both consider themselves the
// leader.
func (s *set) stopLeader() (func() error, error) {
	leader, other, err := s.leader()
	if err != nil {
		return nil, err
	}
	if err := leader.Signal(syscall.SIGSTOP); err != nil {
		return nil, err
	}
	goOn := func() error {
		if err := leader.Signal(syscall.SIGCONT); err != nil {
			return err
		}
		return harness.Await("one controller leads", func() error {
			a, err := leads(leader)
			if err != nil {
				return err
			}
			if b, err := leads(other); err != nil || a == b {
				return fmt.Errorf("%v %v: %v", a, b, err)
			}
			return nil
		})
	}
	return goOn, s.otherLeads(other)
}

// killEtcd kills etcd and starts it again.
func (s *set) killEtcd() (func() error, error) {
	s.etcd.Kill()
	time.Sleep(2 * time.Second) // the controllers ask every second
	return func() error { return nil }, s.etcd.Start()
}
