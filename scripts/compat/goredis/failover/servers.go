package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
)

const masterName = "main"

// server is a process, which may be restarted with the same files.
type server struct {
	name   string
	port   int
	args   []string
	log    string
	cmd    *exec.Cmd
	ended  chan struct{} // closed when the process has ended
	client *redis.Client
	fulls  int // see fullSyncs
}

func (s *server) addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)) }

// start starts the process and waits until it replies.
func (s *server) start() error {
	out, err := os.OpenFile(s.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer out.Close()
	s.fulls = 0
	s.cmd = exec.Command(s.args[0], s.args[1:]...)
	s.cmd.Stdout, s.cmd.Stderr = out, out
	if err := s.cmd.Start(); err != nil {
		return err
	}
	cmd, ended := s.cmd, make(chan struct{})
	s.ended = ended
	go func() {
		cmd.Wait()
		close(ended)
	}()
	return await(s.name+" answers", func() error {
		select {
		case <-ended:
			return errors.New("it has ended")
		default:
			return s.client.Ping(context.Background()).Err()
		}
	})
}

// signal sends a signal. After a SIGKILL it waits for the end of the process.
func (s *server) signal(sig syscall.Signal) error {
	if err := s.cmd.Process.Signal(sig); err != nil {
		return err
	}
	if sig == syscall.SIGKILL {
		<-s.ended
	}
	return nil
}

// info returns a field of INFO replication; "" = missing.
func (s *server) info(field string) (string, error) {
	text, err := s.client.Info(context.Background(), "replication").Result()
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(text) {
		if v, ok := strings.CutPrefix(line, field+":"); ok {
			return strings.TrimSpace(v), nil
		}
	}
	return "", nil
}

// fullSyncs returns the number of full synchronisations of the server since its start. A master does not report the
// number: the result is then the last one reported as a replica.
func (s *server) fullSyncs() (int, error) {
	text, err := s.info("slave_full_syncs")
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
		conf := fmt.Sprintf("bind 127.0.0.1\nport %d\ndir %s\nuse-rsid-psync yes\n", n.port, filepath.Join(dir, n.name))
		if i > 0 {
			conf += fmt.Sprintf("slaveof 127.0.0.1 %d\n", s.nodes[0].port)
		}
		n.args = []string{basalt, "-c", filepath.Join(dir, n.name+".conf")}
		if err := os.WriteFile(n.args[2], []byte(conf), 0o644); err != nil {
			return s, err
		}
		if err := n.start(); err != nil {
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
			"sentinel failover-timeout %[3]s 5000\n", n.port, filepath.Join(dir, n.name), masterName, s.nodes[0].port)
		n.args = []string{"redis-sentinel", filepath.Join(dir, n.name+".conf")}
		if err := os.WriteFile(n.args[1], []byte(conf), 0o644); err != nil {
			return s, err
		}
		if err := n.start(); err != nil {
			return s, err
		}
		s.sentinels = append(s.sentinels, n)
	}
	return s, nil
}

func newServer(dir, name string) (*server, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	defer l.Close()
	n := &server{name: name, port: l.Addr().(*net.TCPAddr).Port, log: filepath.Join(dir, name+".log")}
	n.client = redis.NewClient(&redis.Options{Addr: n.addr(), MaxRetries: -1, DialTimeout: time.Second,
		ReadTimeout: 10 * time.Second, DisableIndentity: true})
	return n, os.MkdirAll(filepath.Join(dir, name), 0o755)
}

func (s *set) stop() {
	for _, n := range append(s.sentinels, s.nodes...) {
		n.cmd.Process.Kill()
		<-n.ended
		n.client.Close()
	}
}

func (s *set) sentinelAddrs() (addrs []string) {
	for _, n := range s.sentinels {
		addrs = append(addrs, n.addr())
	}
	return addrs
}

// agreed returns the master when all sentinels name the same server, other than the old one, and that server is a
// master.
func (s *set) agreed(old *server) (*server, error) {
	port := ""
	for _, n := range s.sentinels {
		addr := redis.NewStringSliceCmd(context.Background(), "sentinel", "get-master-addr-by-name", masterName)
		if err := n.client.Process(context.Background(), addr); err != nil {
			return nil, err
		}
		got := addr.Val()
		if len(got) != 2 || port != "" && got[1] != port {
			return nil, fmt.Errorf("%s names %v, others %s", n.name, got, port)
		}
		port = got[1]
	}
	for _, n := range s.nodes {
		if strconv.Itoa(n.port) != port {
			continue
		}
		if n == old {
			return nil, errors.New("the sentinels name the old master")
		}
		if role, err := n.info("role"); err != nil || role != "master" {
			return nil, fmt.Errorf("%s is a %s: %v", n.name, role, err)
		}
		return n, nil
	}
	return nil, fmt.Errorf("the sentinels name port %s", port)
}

// healthy waits until the other servers are replicas of a master with the link up, also according to all sentinels.
func (s *set) healthy(master *server) error {
	ctx := context.Background()
	return await("two replicas of "+master.name+" in good health", func() error {
		for _, n := range s.nodes {
			if n == master {
				continue
			}
			for field, want := range map[string]string{"role": "slave", "master_port": strconv.Itoa(master.port),
				"master_link_status": "up"} {
				if got, err := n.info(field); err != nil || got != want {
					return fmt.Errorf("%s: %s is '%s', not '%s': %v", n.name, field, got, want, err)
				}
			}
		}
		for _, n := range s.sentinels {
			state := redis.NewMapStringStringCmd(ctx, "sentinel", "master", masterName)
			if err := n.client.Process(ctx, state); err != nil {
				return err
			}
			v := state.Val()
			if v["flags"] != "master" || v["num-slaves"] != "2" || v["num-other-sentinels"] != "2" {
				return fmt.Errorf("%s: flags %s, num-slaves %s, num-other-sentinels %s", n.name, v["flags"], v["num-slaves"],
					v["num-other-sentinels"])
			}
			replicas, err := n.client.Do(ctx, "sentinel", "replicas", masterName).Slice()
			if err != nil {
				return err
			}
			for _, r := range replicas {
				if v := fields(r); v["flags"] != "slave" || v["role-reported"] != "slave" {
					return fmt.Errorf("%s: %s has the flags %s and says that it is a %s", n.name, v["name"], v["flags"],
						v["role-reported"])
				}
			}
		}
		return nil
	})
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
