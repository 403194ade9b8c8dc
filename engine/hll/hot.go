package hll

import (
	"encoding/binary"
	"hash/maphash"
	"sync/atomic"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
)

// Most elements that are added to a HyperLogLog change nothing, and to find that out costs a point read. So the
// segments of the HyperLogLogs that are added to again and again are kept in memory.
//
// They are read and changed by the transaction that holds the key's lock for writing, at once with what it writes.
// When that is not committed, the engine forgets its hints (as it does whenever what is known of a key's content
// may be wrong, see [engine.Tx.SetLowBound]); and segments are only trusted as long as the hint is there that was
// set for them, a number that no others have. The hint's family is one in which no key has hints of its own. Its
// prefix holds the version of the key: a key that is made anew never meets old segments.

const (
	hotSlots = 128 // of 12 KiB each
	// hotTries is how often a HyperLogLog must be added to, while it is not in memory, before it gets in; and how
	// often others of the same slot must be before the one that has it and is no longer added to gives it up.
	hotTries  = 32
	hotFamily = cf.PubSub
)

// hot holds the segments of one HyperLogLog that have been read. Its key's lock guards it.
type hot struct {
	prefix   string // of the subkeys
	token    uint64
	loaded   uint16 // bit i: segments[i] is what is stored
	segments [cf.HLLSegments][cf.HLLSegmentLen]byte
}

type hotSlot struct {
	p     atomic.Pointer[hot]
	tries atomic.Int32
}

var (
	hots     [hotSlots]hotSlot
	hotSeed  = maphash.MakeSeed()
	hotToken atomic.Uint64
)

// slotOf returns the place of a HyperLogLog, and what is there if it is its own.
func slotOf(tx *engine.Tx, rec *engine.Record) (*hotSlot, *hot) {
	prefix := tx.SubkeyPrefix(rec)
	slot := &hots[maphash.Bytes(hotSeed, prefix)%hotSlots]
	h := slot.p.Load()
	if h != nil && h.prefix != string(prefix) {
		h = nil
	}
	return slot, h
}

// trusted reports whether the segments are what the transaction would read.
func (h *hot) trusted(tx *engine.Tx, rec *engine.Record) bool {
	t := tx.LowBound(hotFamily, tx.SubkeyPrefix(rec))
	return len(t) == 8 && binary.LittleEndian.Uint64(t) == h.token
}

// hotNow returns the segments of a HyperLogLog that is kept in memory, else nil. The key may be locked for reading.
func hotNow(tx *engine.Tx, rec *engine.Record) *hot {
	if _, h := slotOf(tx, rec); h != nil && h.trusted(tx, rec) {
		return h
	}
	return nil
}

// hotOf is hotNow for a key that is locked for writing. It may be kept from now on.
func hotOf(tx *engine.Tx, rec *engine.Record) *hot {
	slot, h := slotOf(tx, rec)
	if h != nil {
		if h.trusted(tx, rec) {
			if slot.tries.Load() != 0 {
				slot.tries.Store(0)
			}
			return h
		}
		// The segments may be wrong. They are not filled again but replaced: another database, with other locks,
		// may have the same key.
	} else if slot.tries.Add(1) < hotTries {
		return nil
	}
	prefix := tx.SubkeyPrefix(rec)
	h = &hot{prefix: string(prefix), token: hotToken.Add(1)}
	var token [8]byte
	binary.LittleEndian.PutUint64(token[:], h.token)
	tx.SetLowBound(hotFamily, prefix, token[:])
	slot.p.Store(h)
	slot.tries.Store(0)
	return h
}

// forget drops what is kept of a HyperLogLog that is changed in another way.
func forget(tx *engine.Tx, rec *engine.Record) {
	if slot, h := slotOf(tx, rec); h != nil {
		slot.p.CompareAndSwap(h, nil)
	}
}
