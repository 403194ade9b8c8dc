package hash

import (
	"slices"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
)

// Results for each field of the functions on field expiry: Redis's numbers.
const (
	NoField  = -2 // the field or the key does not exist
	NoExpiry = -1 // the field never expires
	NotMet   = 0  // the condition does not hold
	Done     = 1  // the expiry was set or removed
	Deleted  = 2  // the time is in the past: the field was deleted
)

// Condition restricts which expiries Expire changes.
type Condition uint8

// The conditions.
const (
	Always    Condition = iota
	IfNone              // the field has no expiry
	IfSome              // the field has an expiry
	IfLater             // the field has an expiry, and the new one is later
	IfEarlier           // the field has no expiry, or the new one is earlier
)

func (c Condition) allows(old, at uint64) bool {
	switch c {
	case IfNone:
		return old == 0
	case IfSome:
		return old != 0
	case IfLater:
		return old != 0 && at > old
	case IfEarlier:
		return old == 0 || at < old
	}
	return true
}

// openKey loads a hash for an edit.
func openKey(tx *engine.Tx, key []byte, rec *engine.Record) (h edit, err error) {
	if *rec, err = load(tx, key); err != nil {
		return h, err
	}
	return open(tx, key, rec)
}

// Expire sets the expiry of fields to at, in milliseconds since the epoch and not negative. It returns NoField, NotMet,
// Done or Deleted for each field. When at has passed, the fields are deleted.
//
// The first expiry of a hash rewrites the whole hash: see the package comment.
func Expire(tx *engine.Tx, key []byte, fields [][]byte, at int64, when Condition) ([]int64, error) {
	results := slices.Repeat([]int64{NoField}, len(fields))
	var rec engine.Record
	h, err := openKey(tx, key, &rec)
	if err != nil || !rec.Exists {
		return results, err
	}
	now := tx.Now()
	passed := at <= now
	if !h.on && !passed {
		if any, err := h.anyAllowed(fields, uint64(at), when, results); err != nil || !any {
			return results, err
		}
		if err := h.convert(); err != nil {
			return nil, err
		}
	}
	err = h.each(fields, func(i int, name []byte, old field) error {
		switch {
		case !old.there:
			results[i] = NoField
			return nil
		case !old.live(now):
			results[i] = NoField
			return h.remove(name, old)
		case !when.allows(old.expire, uint64(at)):
			results[i] = NotMet
			return nil
		case passed:
			results[i] = Deleted
			return h.remove(name, old)
		}
		results[i] = Done
		return h.put(name, old, old.value, uint64(at))
	})
	if err != nil {
		return nil, err
	}
	return results, h.save(true, false)
}

// anyAllowed reports whether a field of a plain hash gets the expiry, so that the hash must be converted. If it reports
// false, the results are final.
func (h *edit) anyAllowed(fields [][]byte, at uint64, when Condition, results []int64) (any bool, err error) {
	have, err := h.getMany(fields, 1)
	if err != nil {
		return false, err
	}
	for i := range have {
		if have[i].there {
			results[i] = NotMet
			any = any || when.allows(0, at)
		}
	}
	return any, nil
}

// Persist removes the expiry of fields. It returns NoField, NoExpiry or Done for each field.
func Persist(tx *engine.Tx, key []byte, fields [][]byte) ([]int64, error) {
	results := slices.Repeat([]int64{NoField}, len(fields))
	var rec engine.Record
	h, err := openKey(tx, key, &rec)
	if err != nil || !rec.Exists {
		return results, err
	}
	now := tx.Now()
	err = h.each(fields, func(i int, name []byte, old field) error {
		switch {
		case !old.there:
			return nil
		case !old.live(now):
			return h.remove(name, old)
		case old.expire == 0:
			results[i] = NoExpiry
			return nil
		}
		results[i] = Done
		return h.put(name, old, old.value, 0)
	})
	if err != nil {
		return nil, err
	}
	return results, h.save(true, false)
}

// ExpireTimes returns for each field its expiry in milliseconds since the epoch, or NoExpiry, or NoField.
func ExpireTimes(tx *engine.Tx, key []byte, fields [][]byte) ([]int64, error) {
	results := slices.Repeat([]int64{NoField}, len(fields))
	var rec engine.Record
	h, err := openKey(tx, key, &rec)
	if err != nil || !rec.Exists {
		return results, err
	}
	have, err := h.getMany(fields, 1)
	if err != nil {
		return nil, err
	}
	for i := range have {
		switch f := &have[i]; {
		case !f.live(tx.Now()):
		case f.expire == 0:
			results[i] = NoExpiry
		default:
			results[i] = int64(f.expire)
		}
	}
	return results, nil
}

// DeleteExpired deletes the expired fields of a hash. It returns when the next field may expire, in milliseconds since
// the epoch (0 = none will), and whether a field is left; if none is left, the key is deleted.
//
// It scans the whole hash when a field may have expired. A caller that repeats it should let time pass between two
// calls.
func DeleteExpired(tx *engine.Tx, key []byte) (next int64, left bool, err error) {
	rec, err := tx.LoadHead(key) // LoadHead: meanwhile the key may have become a string of any length
	if err != nil || !rec.Exists || rec.Type != cf.TypeHash {
		return 0, true, err
	}
	h, err := open(tx, key, &rec)
	if err != nil || !h.on || rec.Size == h.ttl.Persist {
		return 0, true, err
	}
	if !cf.FieldExpired(h.ttl.Lower, tx.Now()) {
		return int64(h.ttl.Lower), true, nil
	}
	h.log() // also when only the bound was corrected
	if err := h.repair(); err != nil {
		return 0, true, err
	}
	if rec.Size == 0 {
		return 0, false, h.save(true, true)
	}
	return int64(h.ttl.Lower), true, h.save(true, false)
}
