package session

import (
	"bytes"

	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/server/pubsub"
)

// The methods of this file tell the sessions about writes that come from a master.

// Committed is called after a write of the master is committed, with its locks held: clients blocked on one of its
// keys try again, and the scripts and functions in memory are updated.
func (s *Shared) Committed(tx *engine.Tx, b *engine.ExternalBatch) {
	s.wakeLocked(tx)
	if b.Scripts {
		s.Scripts.Forget()
	}
	if b.Libraries {
		s.Scripts.Reload()
	}
	if b.Indexes {
		s.Services.Indexes.Reload()
	}
}

// wakeLocked wakes the clients blocked on keys whose locks the transaction holds.
func (s *Shared) wakeLocked(tx *engine.Tx) {
	if s.waiters.n.Load() == 0 {
		return
	}
	for _, nsKey := range s.waiters.keys() {
		if tx.HoldsNSKey([]byte(nsKey)) {
			s.waiters.wakeAll([]string{nsKey})
		}
	}
}

// Applied is called after a write of the master is committed and its locks are released: its messages are published,
// and the server reads its namespaces and slots again if the write has changed them.
func (s *Shared) Applied(b *engine.ExternalBatch) {
	for m := b.Messages; len(m) >= 2; m = m[2:] {
		s.Hub.Publish(pubsub.Message{Channel: bytes.Clone(m[0]), Payload: bytes.Clone(m[1])}, nil, nil)
	}
	if b.Namespaces {
		s.RefreshNamespaces()
	}
	if b.SlotMarks {
		s.learnSlots()
	}
}

// learnSlots updates the topology from the master's records of migrations. It does not wait: a change of the topology
// may be waiting for the end of the link to the master.
func (s *Shared) learnSlots() {
	if s.Cluster != nil {
		go s.Cluster.Learn()
	}
}

// Replaced is called after the database was replaced by another one: the data kept in memory is read again, and
// blocked clients try again.
func (s *Shared) Replaced() {
	s.Scripts.Forget()
	s.Scripts.Reload()
	s.Services.Indexes.Reload()
	s.RefreshNamespaces()
	s.learnSlots()
	s.KeysCame()
}

// KeysCame is called when the database has got keys in another way than by a command: blocked clients try again.
func (s *Shared) KeysCame() { s.waiters.wakeAll(s.waiters.keys()) }

// Acked is called when replicas have acknowledged writes: clients that wait for enough acknowledgements check again.
func (s *Shared) Acked() { s.waiters.acked() }

// errDemoted is the reply to clients that are blocked when the server becomes a replica. As in Redis their
// connections end: the client should look for the master.
var errDemoted = engine.NewError("UNBLOCKED",
	"force unblock from blocking operation, instance state changed (master -> replica?)")

// Demoted is called when the server stops accepting writes, or follows another master: all blocked clients are
// unblocked.
func (s *Shared) Demoted() {
	for _, w := range s.waiters.all() {
		w.end(errDemoted)
	}
}
