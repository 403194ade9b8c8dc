package session

import (
	"bytes"

	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/server/pubsub"
)

// What sessions have to hear of writes that come from a master.

// Committed hears of a write of the master, whose locks are held: who waits for one of its keys looks again, and what
// is kept in memory of scripts and functions follows.
func (s *Shared) Committed(tx *engine.Tx, b *engine.ForeignBatch) {
	s.wakeLocked(tx)
	if b.Scripts {
		s.Scripts.Forget()
	}
	if b.Libraries {
		s.Scripts.Reload()
	}
}

// wakeLocked lets those look again who wait for a key of which the transaction has the lock.
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

// Applied hears of the same write when its locks are given back.
func (s *Shared) Applied(b *engine.ForeignBatch) {
	for m := b.Messages; len(m) >= 2; m = m[2:] {
		s.Hub.Publish(pubsub.Message{Channel: bytes.Clone(m[0]), Payload: bytes.Clone(m[1])}, nil, nil)
	}
	if b.Namespaces {
		s.RefreshNamespaces()
	}
}

// Replaced hears that the database is another one: what is in memory of it is read again, and who waits looks again.
func (s *Shared) Replaced() {
	s.Scripts.Forget()
	s.Scripts.Reload()
	s.RefreshNamespaces()
	s.waiters.wakeAll(s.waiters.keys())
}

// Acked hears that replicas have acknowledged writes: who waits for enough of them looks again.
func (s *Shared) Acked() { s.waiters.acked() }

// errDemoted is the reply to those who wait when the server becomes a replica. As in Redis their connections end: the
// client is to look for the master.
var errDemoted = engine.NewError("UNBLOCKED",
	"force unblock from blocking operation, instance state changed (master -> replica?)")

// Demoted hears that the server takes no more writes, or follows another master: nobody waits any longer.
func (s *Shared) Demoted() {
	for _, w := range s.waiters.all() {
		w.end(errDemoted)
	}
}
