package engine

import (
	"bytes"
	"sync"

	"github.com/basaltdb/basalt/engine/derived"
)

// boundsKind is the state of where the live entries of a collection begin and end. Without it, a scan from the
// beginning of a sorted set that has been popped 100,000 times would step over as many tombstones.
var boundsKind = derived.Kind[*bounds]{ID: derived.Bounds}

// bounds are used under the key's lock. Readers may raise the bounds too: concurrent readers find the same bounds.
type bounds struct {
	derived.Entry
	mu        sync.Mutex
	low, high []byte // no live key < low; no live key >= high; nil = unknown
}

// boundsRoom is the approximate memory in bytes of a bound beside the prefix.
const boundsRoom = 48

func (tx *Tx) findBounds(rec *Record, prefix []byte, make bool) *bounds {
	r := tx.db.derived
	if !make && !boundsKind.Any(r) {
		return nil
	}
	epoch := tx.db.epoch(boundsKind.ID, rec.key)
	b := boundsKind.Find(r, prefix, epoch)
	if b == nil && make {
		b = &bounds{}
		boundsKind.Put(r, prefix, epoch, b, 2*(len(prefix)+boundsRoom))
	}
	return b
}

// Bounds returns the bounds of the live entries of a collection with this prefix: no live entry is below low, and none
// is at or above high; nil = unknown. A scan may begin at a bound. The prefix is that of the record's subkeys, or
// begins with it, and all its entries are in one family.
func (tx *Tx) Bounds(rec *Record, prefix []byte) (low, high []byte) {
	b := tx.findBounds(rec, prefix, false)
	if b == nil {
		return nil, nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.low != nil {
		low = tx.arena.copy(b.low)
	}
	if b.high != nil {
		high = tx.arena.copy(b.high)
	}
	return low, high
}

// SetLowBound notes that no live entry is below key: the caller has just popped everything below it. The key's
// lock must be held for writing.
func (tx *Tx) SetLowBound(rec *Record, prefix, key []byte) {
	b := tx.findBounds(rec, prefix, true)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.low = append(b.low[:0], key...)
}

// SetHighBound notes that no live entry is at or above key.
func (tx *Tx) SetHighBound(rec *Record, prefix, key []byte) {
	b := tx.findBounds(rec, prefix, true)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.high = append(b.high[:0], key...)
}

// KeyAdded must be called for every entry that is added below a prefix whose bounds are used, before or after the Put,
// with the key's lock held for writing.
func (tx *Tx) KeyAdded(rec *Record, prefix, key []byte) {
	b := tx.findBounds(rec, prefix, false)
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.low != nil && bytes.Compare(key, b.low) < 0 {
		b.low = append(b.low[:0], key...)
	}
	if b.high != nil && bytes.Compare(key, b.high) >= 0 {
		b.high = append(append(b.high[:0], key...), 0)
	}
}
