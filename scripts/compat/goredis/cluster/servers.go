package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/basaltdb/basalt/scripts/compat/goredis/internal/harness"
)

// set is etcd, two controllers, one of which etcd elects, and eight basalts: two for each of four shards.
type set struct {
	etcd        *harness.Server
	controllers []*harness.Server
	nodes       []*harness.Server
}

func (s *set) stop() {
	for _, p := range append(append(s.controllers, s.etcd), s.nodes...) {
		if p != nil {
			p.Kill()
			p.Client.Close()
		}
	}
}

// start starts all processes.
func start(dir, controller, basalt string) (s *set, err error) {
	s = &set{}
	for _, p := range []*string{&controller, &basalt} {
		if *p, err = filepath.Abs(*p); err != nil {
			return s, err
		}
	}
	if s.etcd, err = harness.NewServer(dir, "etcd"); err != nil {
		return s, err
	}
	peer, err := harness.FreePort()
	if err != nil {
		return s, err
	}
	own, peers := "http://"+s.etcd.Addr(), fmt.Sprintf("http://127.0.0.1:%d", peer)
	s.etcd.Args = []string{"etcd", "--data-dir", filepath.Join(dir, "etcd"), "--listen-client-urls", own,
		"--advertise-client-urls", own, "--listen-peer-urls", peers, "--initial-advertise-peer-urls", peers,
		"--initial-cluster", "default=" + peers}
	s.etcd.Ready = func() error { return get(own+"/health", nil) }
	if err := s.etcd.Start(); err != nil {
		return s, err
	}
	for _, name := range []string{"controller1", "controller2"} {
		c, err := harness.NewServer(dir, name)
		if err != nil {
			return s, err
		}
		conf := filepath.Join(dir, name+".yaml")
		c.Args = []string{controller, "-c", conf}
		text := fmt.Sprintf("addr: %q\nstorage_type: etcd\netcd:\n  addrs:\n    - %q\ncontroller:\n  failover:\n"+
			"    ping_interval_seconds: 1\n    max_ping_count: 3\n", c.Addr(), s.etcd.Addr())
		if err := os.WriteFile(conf, []byte(text), 0o644); err != nil {
			return s, err
		}
		c.Ready = func() error { _, err := leads(c); return err }
		if err := c.Start(); err != nil {
			return s, err
		}
		s.controllers = append(s.controllers, c)
	}
	for i := range 8 {
		n, err := harness.NewServer(dir, "basalt"+strconv.Itoa(i+1))
		if err != nil {
			return s, err
		}
		n.Args = []string{basalt, "--bind", "127.0.0.1", "--port", strconv.Itoa(n.Port), "--dir", filepath.Join(dir, n.Name),
			"--cluster-enabled", "yes"}
		if err := n.Start(); err != nil {
			return s, err
		}
		s.nodes = append(s.nodes, n)
	}
	return s, nil
}

// cluster is the controller's state of the cluster.
type cluster struct {
	Version int64
	Shards  []struct {
		Nodes []struct {
			Addr, Role string
		}
		SlotRanges []string `json:"slot_ranges"`
	}
}

// has reports whether a shard has a range of slots, possibly as a part of a longer one.
func (c cluster) has(shard int, slots string) bool {
	first, last := bounds(slots)
	for _, r := range c.Shards[shard].SlotRanges {
		if a, b := bounds(r); a <= first && last <= b {
			return true
		}
	}
	return false
}

// bounds parses "7" or "7-9".
func bounds(slots string) (first, last int) {
	a, b, both := strings.Cut(slots, "-")
	if !both {
		b = a
	}
	first, _ = strconv.Atoi(a)
	last, _ = strconv.Atoi(b)
	return first, last
}

// api returns the URL of a path of a controller's API.
func api(controller *harness.Server, path string) string {
	return "http://" + controller.Addr() + "/api/v1" + path
}

// client calls the controllers. A controller that is not the leader redirects to the leader, but gives a wrong address
// for a POST; a stopped controller does not reply.
var client = http.Client{
	Timeout:       3 * time.Second,
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
}

// leads reports whether a controller is the leader. It returns an error if the controller does not know the leader.
func leads(controller *harness.Server) (bool, error) {
	r, err := client.Get(api(controller, "/namespaces"))
	if err != nil {
		return false, err
	}
	r.Body.Close()
	switch r.StatusCode {
	case http.StatusOK, http.StatusTemporaryRedirect:
		return r.StatusCode == http.StatusOK, nil
	}
	return false, errors.New(r.Status)
}

func (s *set) leader() (leader, other *harness.Server, err error) {
	err = errors.New("no controller leads")
	for i, c := range s.controllers {
		ok, e := leads(c)
		if ok {
			return c, s.controllers[1-i], nil
		}
		err = errors.Join(err, e)
	}
	return nil, nil, err
}

func (s *set) topology() (c cluster, err error) {
	var reply struct{ Data struct{ Cluster *cluster } }
	reply.Data.Cluster = &c
	leader, _, err := s.leader()
	if err != nil {
		return c, err
	}
	return c, get(api(leader, "/namespaces/test/clusters/c"), &reply)
}

// get requests a URL, and parses the JSON reply into reply unless that is nil.
func get(url string, reply any) error {
	r, err := client.Get(url)
	if err != nil {
		return err
	}
	return take(r, reply)
}

func (s *set) post(path string, body any) error {
	data, err := json.Marshal(body)
	if err != nil {
		return err
	}
	leader, _, err := s.leader()
	if err != nil {
		return err
	}
	r, err := client.Post(api(leader, path), "application/json", bytes.NewReader(data))
	if err != nil {
		return err
	}
	return take(r, nil)
}

func take(r *http.Response, reply any) error {
	defer r.Body.Close()
	body, err := io.ReadAll(r.Body)
	if err == nil && r.StatusCode >= 300 {
		err = fmt.Errorf("%s: %s", r.Status, body)
	}
	if err != nil || reply == nil {
		return err
	}
	return json.Unmarshal(body, reply)
}

// create creates a cluster of the first six nodes.
func (s *set) create() error {
	if err := s.post("/namespaces", map[string]any{"namespace": "test"}); err != nil {
		return err
	}
	var addrs []string
	for _, n := range s.nodes[:6] {
		addrs = append(addrs, n.Addr())
	}
	if err := s.post("/namespaces/test/clusters", map[string]any{"name": "c", "nodes": addrs, "replicas": 2}); err != nil {
		return err
	}
	if err := s.agree(6); err != nil {
		return err
	}
	for i := 0; i < 6; i += 2 {
		replicates := func() error { return s.nodes[i+1].Replicates(s.nodes[i]) }
		if err := harness.Await("the replicas", replicates); err != nil {
			return err
		}
	}
	return nil
}

// agree waits until n nodes have the version of the controller.
func (s *set) agree(n int) error {
	return harness.Await("one version", func() error {
		c, err := s.topology()
		if err != nil {
			return err
		}
		for _, n := range s.nodes[:n] {
			v, err := n.Client.Do(context.Background(), "CLUSTERX", "VERSION").Text()
			if err != nil || v != strconv.FormatInt(c.Version, 10) {
				return fmt.Errorf("%s has version %s, the controller %d: %v", n.Name, v, c.Version, err)
			}
		}
		return nil
	})
}
