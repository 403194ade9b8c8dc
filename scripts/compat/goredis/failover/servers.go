package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"github.com/redis/go-redis/v9"

	"github.com/basaltdb/basalt/scripts/compat/goredis/internal/harness"
)

const masterName = "main"

// server is a process of this set.
type server struct {
	*harness.Server
	fulls int // see fullSyncs
}

func newServer(dir, name string) (*server, error) {
	s, err := harness.NewServer(dir, name)
	if err != nil {
		return nil, err
	}
	return &server{Server: s}, nil
}

// Start starts the process and waits until it replies.
func (s *server) Start() error {
	s.fulls = 0
	return s.Server.Start()
}

// fullSyncs returns the number of full synchronisations of the server since its start. A master does not report the
// number: the result is then the last one reported as a replica.
func (s *server) fullSyncs() (int, error) {
	text, err := s.Info("slave_full_syncs")
	if err == nil && text != "" {
		s.fulls, err = strconv.Atoi(text)
	}
	return s.fulls, err
}

// set are three basalts and three sentinels.
type set struct {
	nodes, sentinels []*server
}

// start starts a master, two replicas, and the sentinels.
func start(dir, basalt string) (*set, error) {
	s := &set{}
	basalt, err := filepath.Abs(basalt)
	if err != nil {
		return nil, err
	}
	for i := range 3 {
		n, err := newServer(dir, "basalt"+strconv.Itoa(i+1))
		if err != nil {
			return s, err
		}
		conf := fmt.Sprintf("bind 127.0.0.1\nport %d\ndir %s\nuse-rsid-psync yes\n", n.Port, filepath.Join(dir, n.Name))
		if i > 0 {
			conf += fmt.Sprintf("slaveof 127.0.0.1 %d\n", s.nodes[0].Port)
		}
		n.Args = []string{basalt, "-c", filepath.Join(dir, n.Name+".conf")}
		if err := os.WriteFile(n.Args[2], []byte(conf), 0o644); err != nil {
			return s, err
		}
		if err := n.Start(); err != nil {
			return s, err
		}
		s.nodes = append(s.nodes, n)
	}
	for i := range 3 {
		n, err := newServer(dir, "sentinel"+strconv.Itoa(i+1))
		if err != nil {
			return s, err
		}
		conf := fmt.Sprintf("port %d\nbind 127.0.0.1\ndir %s\n"+
			"sentinel monitor %[3]s 127.0.0.1 %[4]d 2\n"+
			"sentinel down-after-milliseconds %[3]s 1500\n"+
			"sentinel failover-timeout %[3]s 5000\n", n.Port, filepath.Join(dir, n.Name), masterName, s.nodes[0].Port)
		n.Args = []string{"redis-sentinel", filepath.Join(dir, n.Name+".conf")}
		if err := os.WriteFile(n.Args[1], []byte(conf), 0o644); err != nil {
			return s, err
		}
		if err := n.Start(); err != nil {
			return s, err
		}
		s.sentinels = append(s.sentinels, n)
	}
	return s, nil
}

func (s *set) stop() {
	for _, n := range append(s.sentinels, s.nodes...) {
		n.Kill()
		n.Client.Close()
	}
}

func (s *set) sentinelAddrs() (addrs []string) {
	for _, n := range s.sentinels {
		addrs = append(addrs, n.Addr())
	}
	return addrs
}

// errSecond: the sentinels name another master than the one to which they have failed over.
var errSecond = errors.New("the sentinels have failed over a second time")

// failOver makes the sentinels replace a master that is in good health.
func (s *set) failOver(master *server) error {
	return harness.Await("a second failover", func() error {
		port, err := s.named()
		if err != nil || port != strconv.Itoa(master.Port) {
			return err
		}
		// It is refused while the sentinel does not know that a replica is fit, or still sees to the first failover.
		err = s.sentinels[0].Client.Do(context.Background(), "sentinel", "failover", masterName).Err()
		return fmt.Errorf("the sentinels still name %s: %v", master.Name, err)
	})
}

func (s *set) named() (port string, err error) {
	for _, n := range s.sentinels {
		addr := redis.NewStringSliceCmd(context.Background(), "sentinel", "get-master-addr-by-name", masterName)
		if err := n.Client.Process(context.Background(), addr); err != nil {
			return "", err
		}
		got := addr.Val()
		if len(got) != 2 || port != "" && got[1] != port {
			return "", fmt.Errorf("%s names %v, others %s", n.Name, got, port)
		}
		port = got[1]
	}
	return port, nil
}

// agreed returns the master when all sentinels name the same server, other than the old one (nil = any), and it says
// that it is a master.
func (s *set) agreed(old *server) (*server, error) {
	port, err := s.named()
	if err != nil {
		return nil, err
	}
	for _, n := range s.nodes {
		if strconv.Itoa(n.Port) != port {
			continue
		}
		if n == old {
			return nil, errors.New("the sentinels name the old master")
		}
		if role, err := n.Info("role"); err != nil || role != "master" {
			return nil, fmt.Errorf("%s is a %s: %v", n.Name, role, err)
		}
		return n, nil
	}
	return nil, fmt.Errorf("the sentinels name port %s", port)
}

// healthy waits until the other servers are replicas of a master with the link up, also according to all sentinels. It
// returns errSecond when all sentinels name another master.
func (s *set) healthy(master *server) error {
	ctx := context.Background()
	second := false
	err := harness.Await("two replicas of "+master.Name+" in good health", func() error {
		if port, err := s.named(); err == nil && port != strconv.Itoa(master.Port) {
			second = true
			return nil
		}
		for _, n := range s.nodes {
			if n == master {
				continue
			}
			if err := n.Replicates(master.Server); err != nil {
				return err
			}
		}
		for _, n := range s.sentinels {
			state := redis.NewMapStringStringCmd(ctx, "sentinel", "master", masterName)
			if err := n.Client.Process(ctx, state); err != nil {
				return err
			}
			v := state.Val()
			if v["flags"] != "master" || v["num-slaves"] != "2" || v["num-other-sentinels"] != "2" {
				return fmt.Errorf("%s: flags %s, num-slaves %s, num-other-sentinels %s", n.Name, v["flags"], v["num-slaves"],
					v["num-other-sentinels"])
			}
			replicas, err := n.Client.Do(ctx, "sentinel", "replicas", masterName).Slice()
			if err != nil {
				return err
			}
			for _, r := range replicas {
				if v := fields(r); v["flags"] != "slave" || v["role-reported"] != "slave" {
					return fmt.Errorf("%s: %s has the flags %s and says that it is a %s", n.Name, v["name"], v["flags"],
						v["role-reported"])
				}
			}
		}
		return nil
	})
	if second {
		return errSecond
	}
	return err
}

// fields returns a reply of names and values in RESP2 or RESP3 as a map.
func fields(reply any) map[string]string {
	all := map[string]string{}
	switch list := reply.(type) {
	case []any:
		for i := 0; i+1 < len(list); i += 2 {
			all[fmt.Sprint(list[i])] = fmt.Sprint(list[i+1])
		}
	case map[any]any:
		for k, v := range list {
			all[fmt.Sprint(k)] = fmt.Sprint(v)
		}
	}
	return all
}
