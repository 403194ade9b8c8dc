// Command clustersim tells what a large cluster costs: it makes the topologies of all nodes with the server's own code,
// without sockets, changes them, and lets clients find out.
//
// usage: go run ./scripts/clustersim [-nodes 1000] [-clients 10000] [-rate 100]
//
// Half of the nodes are masters with equal shares of the slots, the others their replicas. A client has a table of all
// slots, and sends commands for random slots at a rate. One that is redirected either fetches the whole table
// (go-redis, ioredis, Lettuce, redis-py) or notes the one slot (redis-cli -c). How many commands it takes until a
// client meets a slot that has moved is drawn from the distribution; where it is sent then is what Topology.Route says.
package main

import (
	"flag"
	"fmt"
	"log"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/server/cluster"
	"github.com/basaltdb/basalt/server/cluster/topology"
)

func main() {
	nodes := flag.Int("nodes", 1000, "nodes, half of them replicas")
	clients := flag.Int("clients", 10000, "clients")
	rate := flag.Float64("rate", 100, "commands a second of each client")
	flag.Parse()
	if *nodes < 2 || *nodes/2 > cf.NumSlots {
		log.Fatal("the number of nodes must be from 2 to 32768")
	}
	simulate(*nodes, *clients, *rate)
}

func simulate(nodes, clients int, rate float64) {
	s := newSim(nodes)
	s.costs()
	fmt.Printf("\n%d clients, each with %g commands a second for random slots:\n\n", clients, rate)
	fmt.Printf("| change | slots | learns | redirects | half know after | 99 %% | all |\n|---|---|---|---|---|---|---|\n")
	for _, c := range []struct {
		name    string
		change  func()
		learned string
		whole   bool
	}{
		{"failover of a shard", s.failover, "all", true}, {"failover of a shard", s.failover, "the slot", false},
		{"a slot moves", s.move, "all", true},
		{"a new shard takes its share", s.grow, "all", true}, {"a new shard takes its share", s.grow, "the slot", false},
	} {
		before := s.owners()
		c.change()
		s.learn(c.name, c.learned, c.whole, before, clients, rate)
	}
}

// sim is a simulated cluster.
type sim struct {
	masters, replicas []string          // ids; replicas[i] replicates masters[i]
	addrs             map[string]string // host and port, separated by a blank, by id
	slots             []int             // the master of each slot
	version           int64
	maps              []*cluster.Map
}

func newSim(nodes int) *sim {
	s := &sim{slots: make([]int, cf.NumSlots), addrs: map[string]string{}}
	for i := range nodes / 2 {
		s.masters = append(s.masters, fmt.Sprintf("%040x", 2*i+1))
		s.replicas = append(s.replicas, fmt.Sprintf("%040x", 2*i+2))
		s.addrs[s.masters[i]] = fmt.Sprintf("10.0.%d.%d 6666", i/250, i%250)
		s.addrs[s.replicas[i]] = fmt.Sprintf("10.1.%d.%d 6666", i/250, i%250)
	}
	for slot := range s.slots {
		s.slots[slot] = slot * len(s.masters) / cf.NumSlots
	}
	before := heap()
	for range nodes {
		s.maps = append(s.maps, cluster.New(cluster.Options{Log: zap.NewNop(),
			IsSelf:      func(string, int) bool { return false },
			IsReplica:   func() bool { return false },
			Follow:      func(string, int) error { return nil },
			Lead:        func() error { return nil },
			Barrier:     func() error { return nil },
			DeleteSlots: func(cf.SlotRange) error { return nil },
			Record:      func(string) error { return nil },
			Recorded:    func() (string, error) { return "", nil },
			Replicated:  func(int) {},
			Empty:       func() bool { return true },
			Changed:     func(_, _ *topology.Topology) {},
		}))
	}
	s.identify()
	s.publish()
	fmt.Printf("%d nodes, %d slots; a topology takes %d KiB in each node\n", nodes, cf.NumSlots,
		(heap()-before)/uint64(nodes)>>10)
	return s
}

func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func (s *sim) identify() {
	for i, m := range s.maps {
		id := s.masters[i/2]
		if i%2 == 1 {
			id = s.replicas[i/2]
		}
		must(m.SetNodeID(id))
	}
}

// text returns the topology in the form that a controller sends.
func (s *sim) text() []byte {
	shares := make([][]string, len(s.masters))
	for first := 0; first < cf.NumSlots; {
		last := first
		for last+1 < cf.NumSlots && s.slots[last+1] == s.slots[first] {
			last++
		}
		r := cf.SlotRange{First: uint16(first), Last: uint16(last)}
		shares[s.slots[first]] = append(shares[s.slots[first]], r.String())
		first = last + 1
	}
	var b strings.Builder
	for i, id := range s.masters {
		replica := s.replicas[i]
		fmt.Fprintf(&b, "%s %s master - %s\n", id, s.addrs[id], strings.Join(shares[i], " "))
		fmt.Fprintf(&b, "%s %s slave %s\n", replica, s.addrs[replica], id)
	}
	return []byte(b.String())
}

// publish sends the topology to all nodes and returns the time that one node takes to put it into force.
func (s *sim) publish() time.Duration {
	s.version++
	text := s.text()
	began := time.Now()
	for _, m := range s.maps {
		must(m.SetNodes(text, s.version, false))
	}
	return time.Since(began) / time.Duration(len(s.maps))
}

// costs prints the cost of changes and requests for a node.
func (s *sim) costs() {
	fmt.Printf("SETNODES: %d KiB of text, %v in each node\n", len(s.text())>>10, s.publish().Round(time.Microsecond))
	began := time.Now()
	s.version++
	for _, m := range s.maps {
		must(m.SetSlots([]cf.SlotRange{{First: 5, Last: 5}}, s.masters[s.slots[5]], s.version))
	}
	fmt.Printf("SETSLOT: %v in each node\n", (time.Since(began) / time.Duration(len(s.maps))).Round(time.Microsecond))
	began = time.Now()
	text, err := s.maps[0].Nodes()
	must(err)
	fmt.Printf("CLUSTER NODES: %d KiB, %v\n", len(text)>>10, time.Since(began).Round(time.Microsecond))
	t, n := s.maps[0].Topology(), 10_000_000
	began = time.Now()
	for i := range n {
		t.Route(uint16(i)&31, topology.Access{}) // slots of this node
	}
	fmt.Printf("routing a slot: %.1f ns\n", float64(time.Since(began).Nanoseconds())/float64(n))
}

// owners returns a client's table: the address of each slot.
func (s *sim) owners() (table [cf.NumSlots]string) {
	t := s.maps[0].Topology()
	for slot := range table {
		n := t.Owner(uint16(slot))
		table[slot] = fmt.Sprint(n.Host, ":", n.Port)
	}
	return table
}

func (s *sim) failover() {
	i := len(s.masters) / 2
	s.masters[i], s.replicas[i] = s.replicas[i], s.masters[i]
	s.publish()
}

func (s *sim) move() {
	s.slots[100] = (s.slots[100] + 1) % len(s.masters)
	s.publish()
}

// grow moves one slot of each of many masters to a new master, whose former slots go to its neighbour first.
func (s *sim) grow() {
	last, share := len(s.masters)-1, cf.NumSlots/len(s.masters)
	for i := range share {
		for slot, owner := range s.slots {
			if owner == i {
				s.slots[slot] = last
				break
			}
		}
	}
	s.publish()
}

// learn lets clients with an old table learn the new one, and prints a row.
func (s *sim) learn(name, learned string, whole bool, old [cf.NumSlots]string, clients int, rate float64) {
	now := s.owners()
	var moved []uint16
	byAddr := map[string]*cluster.Map{}
	for _, m := range s.maps {
		self := m.Topology().Self
		byAddr[fmt.Sprint(self.Host, ":", self.Port)] = m
	}
	for slot := range old {
		if old[slot] != now[slot] {
			moved = append(moved, uint16(slot))
		}
	}
	redirects := 0
	var knows []float64 // seconds until a client has learned everything
	for range clients {
		left, commands := slices.Clone(moved), 0.0
		for len(left) > 0 {
			p := float64(len(left)) / cf.NumSlots
			commands += math.Ceil(math.Log(1-rand.Float64()) / math.Log(1-p))
			i := rand.IntN(len(left))
			slot := left[i]
			err := byAddr[old[slot]].Topology().Route(slot, topology.Access{Write: true})
			if want := fmt.Sprint(slot, " ", now[slot]); err == nil || err.Error() != want {
				log.Fatalf("slot %d at %s: %v, want %s", slot, old[slot], err, want)
			}
			if err := byAddr[now[slot]].Topology().Route(slot, topology.Access{Write: true}); err != nil {
				log.Fatalf("slot %d at its new owner: %v", slot, err)
			}
			redirects++
			if left = slices.Delete(left, i, i+1); whole {
				left = nil
			}
		}
		knows = append(knows, commands/rate)
	}
	slices.Sort(knows)
	at := func(part float64) time.Duration {
		return time.Duration(knows[int(part*float64(len(knows)-1))] * float64(time.Second)).Round(100 * time.Millisecond)
	}
	fmt.Printf("| %s | %d | %s | %d | %v | %v | %v |\n", name, len(moved), learned, redirects, at(0.5), at(0.99), at(1))
}
