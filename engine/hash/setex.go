package hash

import "github.com/basaltdb/basalt/engine"

// TTL says how SetEx and GetEx change the expiry of the fields.
type TTL struct {
	Do TTLAction
	At int64 // for SetTTL: milliseconds since the epoch, not negative
}

// TTLAction is a kind of change of an expiry.
type TTLAction uint8

// The actions.
const (
	NoTTL   TTLAction = iota // SetEx: remove the expiry. GetEx: keep it
	KeepTTL                  // SetEx: keep the expiry
	SetTTL                   // set the expiry to TTL.At
	DropTTL                  // GetEx: remove the expiry
)

// FieldCondition restricts when SetEx sets fields.
type FieldCondition uint8

// The conditions.
const (
	AnyField FieldCondition = iota
	NewOnly                 // none of the fields exists
	OldOnly                 // all of the fields exist
)

// SetEx sets fields, given as field and value in turn, together with their expiry. It sets all of them, or none when
// the condition does not hold, and reports which. When a field is repeated, its last value counts. When the expiry has
// passed, the fields are deleted.
func SetEx(tx *engine.Tx, key []byte, pairs [][]byte, ttl TTL, when FieldCondition) (bool, error) {
	var rec engine.Record
	h, err := openKey(tx, key, &rec)
	if err != nil {
		return false, err
	}
	if !h.on && when == AnyField && ttl.Do != SetTTL { // equivalent to HSET
		_, err := Set(tx, key, pairs)
		return err == nil, err
	}
	olds, err := h.getMany(pairs, 2)
	if err != nil {
		return false, err
	}
	now := tx.Now()
	if when != AnyField {
		for i := range olds {
			if olds[i].live(now) != (when == OldOnly) {
				return false, nil
			}
		}
	}
	passed := ttl.Do == SetTTL && ttl.At <= now
	if ttl.Do == SetTTL && !passed {
		if err := h.convert(); err != nil {
			return false, err
		}
	}
	repeats := engine.NewRepeats(len(olds))
	last := make([]bool, len(olds)) // the field occurs for the last time
	for i := len(olds) - 1; i >= 0; i-- {
		last[i] = !repeats.Again(pairs[2*i])
	}
	for i := range olds {
		name, value, old := pairs[2*i], pairs[2*i+1], olds[i]
		switch {
		case !last[i]:
			continue
		case passed && old.there:
			err = h.remove(name, old)
		case passed:
		case ttl.Do == SetTTL:
			err = h.put(name, old, value, uint64(ttl.At))
		case ttl.Do == KeepTTL && old.live(now):
			err = h.put(name, old, value, old.expire)
		default:
			err = h.put(name, old, value, 0)
		}
		if err != nil {
			return false, err
		}
	}
	return true, h.save(false, true)
}

// GetEx calls f with the value of each field, and whether the field exists, and changes the expiry of the existing
// fields. When the expiry has passed, it deletes them. It reports whether it changed a field: removed its expiry,
// deleted it, or set its expiry, even to the same time.
func GetEx(tx *engine.Tx, key []byte, fields [][]byte, ttl TTL, f func(value []byte, found bool)) (changed bool,
	err error) {
	var rec engine.Record
	h, err := openKey(tx, key, &rec)
	if err != nil {
		return false, err
	}
	now := tx.Now()
	passed := ttl.Do == SetTTL && ttl.At <= now
	if ttl.Do == SetTTL && !passed && !h.on && rec.Exists {
		any, err := h.anyAllowed(fields, uint64(ttl.At), Always, make([]int64, len(fields)))
		if err == nil && any {
			err = h.convert()
		}
		if err != nil {
			return false, err
		}
	}
	err = h.each(fields, func(_ int, name []byte, old field) error {
		if !old.live(now) {
			f(nil, false)
			if old.there {
				return h.remove(name, old)
			}
			return nil
		}
		f(old.value, true)
		changed = changed || ttl.Do == SetTTL || ttl.Do == DropTTL && old.expire != 0
		switch {
		case passed:
			return h.remove(name, old)
		case ttl.Do == SetTTL && old.expire != uint64(ttl.At):
			return h.put(name, old, old.value, uint64(ttl.At))
		case ttl.Do == DropTTL && old.expire != 0:
			return h.put(name, old, old.value, 0)
		}
		return nil
	})
	if err != nil {
		return false, err
	}
	return changed, h.save(false, true)
}

// GetDelete calls f with the value of each field, and whether the field exists, and deletes the fields.
func GetDelete(tx *engine.Tx, key []byte, fields [][]byte, f func(value []byte, found bool)) error {
	var rec engine.Record
	h, err := openKey(tx, key, &rec)
	if err != nil {
		return err
	}
	return h.delete(fields, f)
}

func (h *edit) delete(fields [][]byte, f func(value []byte, found bool)) error {
	err := h.each(fields, func(_ int, name []byte, old field) error {
		if old.live(h.tx.Now()) {
			f(old.value, true)
		} else {
			f(nil, false)
		}
		if !old.there {
			return nil
		}
		return h.remove(name, old)
	})
	if err != nil {
		return err
	}
	return h.save(false, false)
}
