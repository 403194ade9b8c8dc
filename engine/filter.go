package engine

import (
	"fmt"
	"time"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/compaction"
	"github.com/basaltdb/basalt/engine/lock"
	"github.com/basaltdb/basalt/engine/rocks"
)

// verdict is the decision of a running compaction about a record, by the rules of package compaction. It runs on
// RocksDB's threads. The native side does not ask about metadata records that compaction.Settled keeps.
//
// Subkeys are judged by the current metadata record, and the judgement must not change while a writer is at work.
// Otherwise a writer that has read the record before its expiry, and makes it persistent after the compaction has
// judged it expired, would keep a key whose subkeys are gone. So a subkey is dropped only under the key's lock, and
// kept (until the next compaction) when a writer holds the lock. A transaction that takes the lock later also finds the
// key expired or gone, and gives it a new version.
//
// end is when the collection of a subkey expires, 0 = never. before is set for a hash whose fields must be checked:
// fields that have expired before that time are dropped. A replica goes by a clock of its own, see replica.go.
func (db *DB) verdict(kind rocks.FamilyKind, key, value []byte) (verdict int, end, before uint64) {
	if !db.opened.Load() {
		return rocks.Keep, 0, 0
	}
	// Close and Replace free the families while compactions may still run.
	if !db.filterLane.Enter() {
		return rocks.Keep, 0, 0
	}
	defer db.filterLane.Leave()
	now := db.compactionTime(time.Now().UnixMilli())
	switch kind {
	case rocks.Meta:
		v := compaction.MetadataVerdict(value, now)
		if v == compaction.Drop {
			if m, _, err := cf.DecodeMeta(value); err == nil {
				db.droppedSubkeys.Add(m.Size)
			}
		}
		return native(v), 0, 0
	case rocks.PubSub:
		return native(compaction.PubSubVerdict(key)), 0, 0
	case rocks.Propagate:
		return native(compaction.PropagateVerdict(key)), 0, 0
	case rocks.Search:
		return native(compaction.SearchVerdict(key)), 0, 0
	case rocks.Subkeys:
		nsKey, err := cf.AppendNSKeyOf(nil, key, db.slots)
		if err != nil {
			return rocks.Keep, 0, 0
		}
		v := lock.Of(db.locks.Name(nsKey), false)
		if !db.locks.TryLock(v) {
			return rocks.Keep, 0, 0
		}
		defer db.locks.Unlock(v)
		if db.locks.Fails(v) {
			return rocks.Keep, 0, 0
		}
		raw, found, err := db.rocks.Get(db.fam[cf.Metadata], nsKey, nil)
		if m, _, err := cf.DecodeMeta(raw); err == nil {
			end = m.End()
		}
		return native(compaction.SubkeyVerdict(compaction.Lookup{Raw: raw, Found: found, Err: err}, key, db.slots, now)), end,
			uint64(max(now-compaction.Grace, 0))
	}
	panic(fmt.Sprintf("unknown family kind %d", kind))
}

func native(v compaction.Verdict) int {
	switch v {
	case compaction.Drop:
		return rocks.Drop
	case compaction.CheckValue:
		return rocks.DropIfZero
	case compaction.CheckField:
		return rocks.DropIfExpired
	}
	return rocks.Keep
}
