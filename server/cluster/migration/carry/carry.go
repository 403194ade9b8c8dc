// Package carry sends the keys of slots to another node: first the keys of a snapshot, then their changes from the log.
// [Raw] sends records, [Mirror] sends commands.
package carry

import (
	"context"

	"github.com/basaltdb/basalt/server/cluster/migration/pace"
	"github.com/basaltdb/basalt/server/cluster/migration/slotdata"
	"github.com/basaltdb/basalt/server/cluster/peer"
)

// Settings are the current values of the configuration.
type Settings struct {
	Speed      int   // migrate-speed: commands a second, 0 = no limit
	Pipeline   int   // migrate-pipeline-size: commands that are sent together
	BatchBytes int   // migrate-batch-size-kb, converted to bytes
	BatchRate  int64 // migrate-batch-rate-limit-mb, in bytes a second; 0 = no limit
}

// To describes how to send to a destination.
type To struct {
	Ctx      context.Context
	Peer     *peer.Peer
	Knows    *Abilities
	Settings func() Settings
	Clock    pace.Clock
	Pace     *pace.Pace
	Free     bool         // the rate is not limited, because clients wait
	Limited  bool         // the rate was limited when something was sent last, except while it was free
	Raised   float64      // by how much the limit of the rate is multiplied; 0 = not at all
	Check    func() error // returns why the migration must end, nil = it continues
}

// wait waits until n more units may be sent at a rate of the settings.
func (t *To) wait(n int, rate int64) error {
	if t.Free {
		return nil
	}
	t.Limited = rate > 0
	if t.Raised > 1 && t.Limited {
		rate = int64(min(float64(rate)*t.Raised, 1<<62))
	}
	return t.Pace.Wait(t.Ctx, n, rate)
}

// Carrier sends keys and their changes to a destination.
type Carrier interface {
	// Snapshot sends a key that the destination does not have, with all its elements.
	Snapshot(r *slotdata.Reader, k *slotdata.Key) error
	// Change takes the changes of the slots in one batch of the log.
	Change(c *slotdata.Changes) error
	// Flush sends everything taken so far, and returns when the destination has it.
	Flush() error
}
