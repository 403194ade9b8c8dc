package migrate

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/internal/transfer"
	"github.com/basaltdb/basalt/server/resp"
)

// keyspace is one database of a server, or a whole cluster.
type keyspace struct {
	ctx  context.Context
	addr transfer.Address

	mu    sync.Mutex
	nodes map[string]*pipe // by host:port; a single one without a cluster
	slots []string         // of a cluster: the node of each slot, "" = none
	read  time.Time        // the time at which slots was read
}

// open opens a database of a server.
func open(ctx context.Context, p *peer, db int) (*keyspace, error) {
	k := &keyspace{ctx: ctx, addr: p.addr, nodes: map[string]*pipe{}}
	k.addr.DB = db
	if p.cluster {
		k.addr.DB = 0
		return k, k.topology()
	}
	_, err := k.node(k.addr.Host)
	return k, err
}

func (k *keyspace) close() {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, p := range k.nodes {
		p.close()
	}
}

// node returns the connection to a node. It replaces a broken connection of a cluster.
func (k *keyspace) node(host string) (*pipe, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if p := k.nodes[host]; p != nil {
		select {
		case <-p.failed:
			if k.slots == nil {
				return nil, p.err
			}
		default:
			return p, nil
		}
	}
	addr := k.addr
	addr.Host = host
	p, err := dial(k.ctx, addr)
	if err == nil {
		k.nodes[host] = p
	}
	return p, err
}

// topology reads the nodes of the slots from any node that answers.
func (k *keyspace) topology() error {
	hosts := []string{k.addr.Host}
	for _, h := range k.masters() {
		if h != k.addr.Host {
			hosts = append(hosts, h)
		}
	}
	var all error
	for _, host := range hosts {
		p, err := k.node(host)
		if err == nil {
			var r resp.Reply
			if r, err = p.do("CLUSTER", "SLOTS"); err == nil {
				var slots []string
				if slots, err = parseSlots(&r, host); err == nil {
					k.mu.Lock()
					k.slots, k.read = slots, time.Now()
					k.mu.Unlock()
					return nil
				}
			}
		}
		all = errors.Join(all, err)
	}
	return all
}

// parseSlots parses the reply to CLUSTER SLOTS: arrays of the first slot, the last slot, the master as an array of its
// host and port, and its replicas. A missing host is that of the node that was asked.
func parseSlots(r *resp.Reply, asked string) ([]string, error) {
	slots := make([]string, cf.NumSlots)
	for _, e := range r.Elems {
		if len(e.Elems) < 3 || len(e.Elems[2].Elems) < 2 {
			return nil, errors.New("the reply to CLUSTER SLOTS is malformed")
		}
		first, last, master := e.Elems[0].Int, e.Elems[1].Int, e.Elems[2].Elems
		host := string(master[0].Text)
		if host == "" || host == "?" {
			host, _, _ = net.SplitHostPort(asked)
		}
		if first < 0 || last >= cf.NumSlots {
			return nil, errors.New("CLUSTER SLOTS has an invalid slot")
		}
		for s := first; s <= last; s++ {
			slots[s] = net.JoinHostPort(host, strconv.FormatInt(master[1].Int, 10))
		}
	}
	return slots, nil
}

// covered returns an error when a slot of a cluster has no node.
func (k *keyspace) covered() error {
	for slot, host := range k.slots {
		if host == "" {
			return fmt.Errorf("slot %d of the cluster belongs to no node", slot)
		}
	}
	return nil
}

// masters returns the nodes with keys.
func (k *keyspace) masters() (hosts []string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.slots == nil {
		return []string{k.addr.Host}
	}
	seen := map[string]bool{"": true}
	for _, h := range k.slots {
		if !seen[h] {
			seen[h] = true
			hosts = append(hosts, h)
		}
	}
	return hosts
}

// each calls f with every node that has keys.
func (k *keyspace) each(f func(p *pipe) error) error {
	for _, host := range k.masters() {
		p, err := k.node(host)
		if err != nil {
			return err
		}
		if err := f(p); err != nil {
			return err
		}
	}
	return nil
}

// doOnEach sends a command to every node that has keys.
func (k *keyspace) doOnEach(args ...string) error {
	return k.each(func(p *pipe) error {
		_, err := p.do(args...)
		return err
	})
}

func (k *keyspace) at(key string) (*pipe, error) {
	k.mu.Lock()
	host := k.addr.Host
	if k.slots != nil {
		host = k.slots[cf.Slot([]byte(key))]
	}
	k.mu.Unlock()
	if host == "" {
		return nil, errNoNode
	}
	return k.node(host)
}

var errNoNode = errors.New("CLUSTERDOWN the slot belongs to no node")

// start sends commands for one key; wait returns their replies. In a cluster whose slots move, the commands may run
// twice.
func (k *keyspace) start(key string, commands ...[]string) (wait func() ([]resp.Reply, error)) {
	p, err := k.at(key)
	var first func() ([]resp.Reply, error)
	if err == nil {
		first = p.start(commands...)
	}
	return func() (replies []resp.Reply, _ error) {
		if err == nil {
			replies, err = first()
		}
		if k.slots != nil {
			replies, err = k.again(key, commands, replies, err)
		}
		return replies, err
	}
}

// How long, and how often, a command is repeated that the nodes of a cluster reject.
const (
	moveTimeout = 30 * time.Second
	moveEvery   = 100 * time.Millisecond
)

// again repeats commands while their slot moves to another node, or the node is replaced.
func (k *keyspace) again(key string, commands [][]string, replies []resp.Reply, err error) (
	[]resp.Reply, error) {
	for until := time.Now().Add(moveTimeout); ; {
		if err == nil && !anyMoved(replies) || k.ctx.Err() != nil || time.Now().After(until) {
			return replies, err
		}
		if err := sleep(k.ctx, moveEvery); err != nil {
			return replies, err
		}
		k.mu.Lock()
		old := time.Since(k.read) > moveEvery
		k.mu.Unlock()
		if old {
			if err = k.topology(); err != nil {
				continue
			}
		}
		var p *pipe
		if p, err = k.at(key); err == nil {
			replies, err = p.start(commands...)()
		}
	}
}

func anyMoved(replies []resp.Reply) bool {
	for i := range replies {
		if replies[i].Kind != '-' {
			continue
		}
		for _, code := range []string{"MOVED ", "ASK ", "TRYAGAIN ", "CLUSTERDOWN "} {
			if strings.HasPrefix(string(replies[i].Text), code) {
				return true
			}
		}
	}
	return false
}

// do sends a command whose first argument is a key. It returns an error reply as an error.
func (k *keyspace) do(args ...string) (resp.Reply, error) {
	replies, err := k.start(args[1], args)()
	if err != nil {
		return resp.Reply{}, err
	}
	if err := replies[0].Err(); err != nil {
		return replies[0], fmt.Errorf("%s %.100q: %w", args[0], args[1], err)
	}
	return replies[0], nil
}

// scan calls f with keys. A key that exists during the whole scan is passed at least once.
func (k *keyspace) scan(f func(names []string) error) error {
	return k.each(func(p *pipe) error {
		for cursor := "0"; ; {
			r, err := p.do("SCAN", cursor, "COUNT", "512")
			if err != nil {
				return err
			}
			if len(r.Elems) != 2 {
				return fmt.Errorf("%s: the reply to SCAN is malformed", p.addr)
			}
			cursor = string(r.Elems[0].Text)
			names := make([]string, 0, len(r.Elems[1].Elems))
			for _, e := range r.Elems[1].Elems {
				if string(e.Text) != PositionKey {
					names = append(names, string(e.Text))
				}
			}
			if err := f(names); err != nil {
				return err
			}
			if cursor == "0" {
				return nil
			}
		}
	})
}

// empty reports whether the keyspace has no key except the position.
func (k *keyspace) empty() (bool, error) {
	errFound := errors.New("a key")
	err := k.scan(func(names []string) error {
		if len(names) > 0 {
			return errFound
		}
		return nil
	})
	if errors.Is(err, errFound) {
		return false, nil
	}
	return err == nil, err
}
