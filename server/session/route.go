package session

import (
	"errors"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/server/cluster/topology"
	"github.com/basaltdb/basalt/server/command"
)

// Routing in a cluster. A command is routed with the other checks, before it waits for the locks of its keys, by the
// topology of that time, c.topology. With the locks held, the pointer is compared: after a change the command is
// routed again. After a change of the topology, a caller that waits for all locks once (cluster.Options.Barrier)
// knows that no command routed by the old topology still runs.
//
// A transaction keeps the topology with which its locks were taken, so that EXEC runs all commands or none.

// route returns why a command does not run here: the error sends its client elsewhere.
func (c *run) route(r *request) error {
	switch c.frame.mode {
	case queued:
		return nil // all commands of EXEC are routed before the first one runs
	case direct:
		r.asking = r.asking || c.sess.Asking
		if c.sess.Asking && c.multi == nil && r.spec.Name != "multi" {
			c.sess.Asking = false // ASKING applies to one command, or one transaction
		}
		if c.multi != nil && !c.multi.failed && r.spec.Name == "exec" {
			return c.routeQueued(c.multi, c.topology)
		}
	}
	return c.routeBy(c.topology, r)
}

// routeBy routes a command by a given topology.
func (c *run) routeBy(t *topology.Topology, r *request) error {
	if r.spec.Flags&command.PubSub != 0 && r.spec.Name == "sunsubscribe" {
		return nil // a client may unsubscribe from any channel, whichever node serves it now
	}
	slot, ok, err := c.slotOf(r)
	if err != nil || !ok {
		return err
	}
	a := topology.Access{Write: r.spec.Flags&command.Write != 0, ReadOnly: c.sess.ReadOnly,
		Asking: r.asking || c.sess.Importing}
	if c.frame.mode == scripted {
		return c.routeScripted(t, slot, a)
	}
	if r.spec.Flags&command.PubSub != 0 {
		a.ReadOnly = true // replicas have the channels too
	}
	err = t.Route(slot, a)
	if err == nil && r.spec.Flags&command.Script != 0 { // the script is refused before it begins, not in the middle
		a.Write = true
		if err = t.Route(slot, a); err != nil && !c.mayWrite(r) {
			err = nil
		}
	}
	return err
}

// reroute routes commands again that were routed to this node.
func (c *run) reroute(reqs []request) {
	for i := range reqs {
		if r := &reqs[i]; r.err == nil {
			r.err = c.routeBy(c.topology, r)
		}
	}
}

// routeRead routes a command again that has read without locks: the reply may come from a slot that was being
// deleted.
func (c *run) routeRead(r *request) {
	if c.streamed {
		return
	}
	if r.err = c.routeBy(c.topology, r); r.err != nil {
		c.out.Truncate(r.reply)
		command.WriteError(&c.out, r.err)
	}
}

// slotOf returns the slot of the keys of a command; ok is false when the command has no keys.
func (c *run) slotOf(r *request) (slot uint16, ok bool, err error) {
	if arg := r.spec.KeyArg(); arg >= 0 { // most commands
		if arg == 0 || arg >= len(r.args) {
			return 0, false, nil
		}
		return cf.Slot(r.args[arg]), true, nil
	}
	c.routed = r.spec.AppendKeys(c.routed[:0], r.args)
	return topology.SlotOf(r.args, c.routed)
}

// moved reports whether the topology has changed since the running commands were routed, and makes the present
// topology the one for routing them again. The locks are held, unless the commands need none.
func (c *run) moved() bool {
	if c.srv.Cluster == nil {
		return false
	}
	t := c.srv.Cluster.Topology()
	if t == c.topology {
		return false
	}
	c.topology = t
	return true
}

// routeQueued routes all commands of a transaction.
func (c *run) routeQueued(m *multi, t *topology.Topology) error {
	for i := range m.queue {
		r := &m.queue[i]
		r.asking = c.sess.Asking
		if err := c.routeBy(t, r); err != nil {
			return err
		}
	}
	return nil
}

// watchedLeft reports whether the slot of a watched key has left this node: the key may have changed elsewhere.
func (c *run) watchedLeft() bool {
	return c.topology != nil && c.watch.Any(func(key []byte) bool {
		return c.topology.Route(cf.Slot(key), topology.Access{ReadOnly: true, Asking: true}) != nil
	})
}

// Errors of scripts, with the texts of Redis.
var (
	errScriptCrossSlot = engine.NewError("ERR", "Script attempted to access keys that do not hash to the same slot")
	errScriptNotLocal  = engine.NewError("ERR", "Script attempted to access a non local key in a cluster node script")
	errScriptDown      = engine.NewError("ERR", "Script attempted to execute a command while the cluster is down")
	errNoCluster       = engine.NewError("ERR", "Can not run script on cluster, 'no-cluster' flag is set.")
)

// anySlot is the slot of a script that has named no key so far.
const anySlot = -1

// routeScripted routes a command that a script calls. As in Redis, all keys of a script that declares flags must have
// one slot, unless it has the flag allow-cross-slot-keys.
func (c *run) routeScripted(t *topology.Topology, slot uint16, a topology.Access) error {
	s := &c.script
	a.Asking = a.Asking || c.asking
	if err := t.Route(slot, a); err != nil {
		switch {
		case errors.Is(err, topology.ErrNotServed):
			return errScriptDown
		case errors.Is(err, topology.ErrForbidden):
			return err
		}
		return errScriptNotLocal
	}
	switch {
	case s.crossSlot:
	case s.slot == anySlot:
		s.slot = int(slot)
	case s.slot != int(slot):
		return errScriptCrossSlot
	}
	return nil
}

// isRedirection reports whether an error says that the command runs on another node, or can run later.
func isRedirection(err error) bool {
	var e *engine.Error
	if !errors.As(err, &e) {
		return false
	}
	switch e.Code {
	case "MOVED", "TRYAGAIN", "CROSSSLOT", "CLUSTERDOWN":
		return true
	}
	return false
}

// TopologyChanged ends the waits for keys, and the subscriptions to shard channels, of slots that this node no longer
// serves. Clients that track keys forget all of them.
func (s *Shared) TopologyChanged(old, t *topology.Topology) {
	if s.waiters.n.Load() > 0 {
		for _, w := range s.waiters.all() {
			w.redirect(t)
		}
	}
	s.dropShardChannels(t)
	if s.Tracker.Clients() > 0 && old.ReadsEnd(t) {
		go s.endTracked()
	}
}

// endTracked tells the clients that track keys that some keys may change elsewhere from now on, unseen by this node. It
// waits for the reads that were routed by the old topology, which may still make the table remember keys. It does not
// wait for a slow script.
func (s *Shared) endTracked() {
	s.DB.Barrier()
	lower, upper := engine.SlotBounds(cf.SlotRange{Last: cf.NumSlots - 1})
	s.Tracker.Flushed(nil, lower, upper)
}

// dropShardChannels ends the subscriptions to shard channels that this node does not serve.
func (s *Shared) dropShardChannels(t *topology.Topology) {
	gone := s.Hub.Channels(command.ShardChannel, func(name []byte) bool {
		return t.Route(cf.Slot(name), topology.Access{ReadOnly: true}) != nil
	})
	for _, name := range gone {
		s.Hub.RemoveShardChannel(name)
	}
}
