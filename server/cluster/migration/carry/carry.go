// Package carry takes the keys of slots to another node: those of a snapshot, and what the log says of them since.
//
// [Raw] sends records, [Mirror] commands.
package carry

import (
	"context"

	"github.com/basaltdb/basalt/server/cluster/migration/pace"
	"github.com/basaltdb/basalt/server/cluster/migration/peer"
	"github.com/basaltdb/basalt/server/cluster/migration/slotdata"
)

// Settings are those of the configuration, as they are now.
type Settings struct {
	Speed      int   // migrate-speed: commands a second, 0 = no limit
	Pipeline   int   // migrate-pipeline-size: commands that are sent together
	BatchBytes int   // migrate-batch-size-kb, in bytes
	BatchRate  int64 // migrate-batch-rate-limit-mb, in bytes a second; 0 = no limit
}

// To is the way to a destination.
type To struct {
	Ctx      context.Context
	Peer     *peer.Peer
	Knows    *Abilities
	Settings func() Settings
	Clock    pace.Clock
	Pace     *pace.Pace
	Free     bool         // the rate is not limited: clients wait
	Check    func() error // why the migration is to end, nil = it goes on
}

// Carrier takes keys and their changes to a destination.
type Carrier interface {
	// Snapshot sends a key, which the destination does not have, with all its elements.
	Snapshot(r *slotdata.Reader, k *slotdata.Key) error
	// Change takes what a batch of the log has changed in the slots.
	Change(c *slotdata.Changes) error
	// Flush sends what was taken, and returns when the destination has it.
	Flush() error
}
