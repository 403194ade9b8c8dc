package hash

import (
	"cmp"
	"fmt"
	"math"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
)

// field is the stored record of a field.
type field struct {
	there  bool   // the field has a record
	expire uint64 // ms since the epoch, 0 = never
	value  []byte
}

// live reports whether commands see the field: it has a record and has not expired.
func (f *field) live(now int64) bool { return f.there && !cf.FieldExpired(f.expire, now) }

// edit reads and changes a hash of either form. It keeps the counters of the metadata record in step with the field
// records. save writes the metadata record.
type edit struct {
	tx  *engine.Tx
	key []byte // the user's key
	rec *engine.Record
	ttl cf.HashTTL
	on  bool // fields may expire: the hash has the form with expiries

	stored     cf.HashTTL // the counters as the metadata record holds them
	storedSize uint64
	logged     bool
	reported   bool // the engine knows that fields have expired
	looseUpper bool // ttl.Upper may be later than the expiry of the last field
	buf        []byte
}

// open starts an edit of a hash. A metadata record with contradictory counters is an error.
func open(tx *engine.Tx, key []byte, rec *engine.Record) (edit, error) {
	h := edit{tx: tx, key: key, rec: rec, storedSize: rec.Size}
	var err error
	if h.ttl, h.on, err = cf.DecodeHashTail(rec.Tail); err != nil {
		return h, h.fail(err)
	}
	if h.on && h.ttl.Persist > rec.Size {
		return h, h.corrupt("%d of %d fields without an expiry", h.ttl.Persist, rec.Size)
	}
	h.stored = h.ttl
	return h, nil
}

func (h *edit) fail(err error) error { return fmt.Errorf("key %q: %w", h.key, err) }

func (h *edit) corrupt(format string, args ...any) error {
	return h.fail(fmt.Errorf("%w: %s", cf.ErrCorrupt, fmt.Sprintf(format, args...)))
}

// decode decodes the stored value of a field.
func (h *edit) decode(raw []byte) (f field, err error) {
	f = field{there: true, value: raw}
	if h.on {
		if f.expire, f.value, err = cf.DecodeHashValue(raw); err != nil {
			return field{}, h.fail(err)
		}
	}
	return f, nil
}

// get reads one field.
func (h *edit) get(name []byte) (field, error) {
	if !h.rec.Exists {
		return field{}, nil
	}
	raw, found, err := h.tx.Get(cf.Default, h.tx.Subkey(h.rec, name))
	if err != nil || !found {
		return field{}, err
	}
	return h.decode(raw)
}

// getMany reads every step-th name in one batched read.
func (h *edit) getMany(names [][]byte, step int) ([]field, error) {
	fields := make([]field, (len(names)+step-1)/step)
	if !h.rec.Exists {
		return fields, nil
	}
	raws, err := h.tx.GetSubkeys(h.rec, names, step)
	if err != nil {
		return nil, err
	}
	for i, raw := range raws {
		if raw != nil {
			if fields[i], err = h.decode(raw); err != nil {
				return nil, err
			}
		}
	}
	return fields, nil
}

// each calls f with every name and its field. When a name is repeated, f sees the field as its previous call left it.
func (h *edit) each(names [][]byte, f func(i int, name []byte, old field) error) error {
	fields, err := h.getMany(names, 1)
	if err != nil {
		return err
	}
	repeats := engine.NewRepeats(len(names))
	for i, name := range names {
		old := fields[i]
		if repeats.Again(name) {
			if old, err = h.get(name); err != nil {
				return err
			}
		}
		if err := f(i, name, old); err != nil {
			return err
		}
	}
	return nil
}

// put writes a field; old is its state before. Only a hash whose fields may expire takes an expiry.
func (h *edit) put(name []byte, old field, value []byte, expire uint64) error {
	h.noteExpired(old)
	if err := h.count(old, true, expire); err != nil {
		return err
	}
	h.log()
	if h.on {
		h.buf = cf.AppendHashValue(h.buf[:0], expire, value)
		value = h.buf
	}
	h.tx.Put(cf.Default, h.tx.Subkey(h.rec, name), value)
	return nil
}

// remove deletes the record of a field; old is its state before.
func (h *edit) remove(name []byte, old field) error {
	h.noteExpired(old)
	if err := h.count(old, false, 0); err != nil {
		return err
	}
	h.log()
	h.tx.Delete(cf.Default, h.tx.Subkey(h.rec, name))
	return nil
}

// noteExpired counts and reports a field that is replaced or deleted after it has expired.
func (h *edit) noteExpired(old field) {
	if !old.there || !cf.FieldExpired(old.expire, h.tx.Now()) {
		return
	}
	h.tx.FieldExpired()
	if !h.reported {
		h.reported = true
		h.tx.FieldsExpired(h.key)
	}
}

func (h *edit) log() {
	if h.logged {
		return
	}
	h.logged = true
	if h.on {
		h.tx.LogData(cf.LogHashTTL)
	} else {
		h.tx.LogData(cf.LogHash)
	}
}

// count updates the counters of the hash after a change of one field from old to the new state: it exists with an
// expiry (0 = never), or it does not exist.
func (h *edit) count(old field, exists bool, expire uint64) error {
	t, size := &h.ttl, &h.rec.Size
	if !h.on {
		switch {
		case exists && !old.there:
			*size++
		case !exists && old.there && *size == 0:
			return h.corrupt("it has a field, the metadata says none")
		case !exists && old.there:
			*size--
		}
		return nil
	}
	hadTTL, hadPersistent := old.there && old.expire != 0, t.Persist > 0
	switch {
	case hadTTL && *size == t.Persist, old.there && !hadTTL && t.Persist == 0:
		return h.corrupt("a field that expires at %d is not among its %d fields, %d without an expiry", old.expire,
			*size, t.Persist)
	case hadTTL:
		*size--
	case old.there:
		*size--
		t.Persist--
	}
	others := *size - t.Persist // the fields with an expiry
	if others == 0 {
		t.Lower, t.Upper = 0, 0
	} else if hadTTL && old.expire >= t.Upper && (!exists || expire < old.expire) {
		h.looseUpper = true
	}
	if exists {
		*size++
		switch {
		case expire == 0:
			t.Persist++
		case others == 0:
			t.Lower, t.Upper = expire, expire
		default:
			t.Lower, t.Upper = min(t.Lower, expire), max(t.Upper, expire)
		}
	}
	// While a field without an expiry existed, no one needed the bound.
	h.looseUpper = h.looseUpper || hadPersistent && t.Persist == 0 && others > 0
	return nil
}

// tidySize is the largest number of fields that a tidying scan reads to find out when the last field expires.
const tidySize = 128

// save writes the metadata record if it has changed, or with always if any record was written. With drop, a hash
// without fields loses its metadata record; otherwise the record stays with size 0.
//
// When all fields have an expiry, the key disappears together with its last field. So ttl.Upper should be the expiry of
// an existing field. save restores that by a scan of a small hash. A large hash whose longest-lived field was deleted
// may stay visible, without fields, until the expiry of that deleted field.
func (h *edit) save(always, drop bool) error {
	if h.on && h.looseUpper && h.ttl.Persist == 0 && h.rec.Size > 0 && h.rec.Size <= tidySize {
		if err := h.repair(); err != nil {
			return err
		}
	}
	if !h.logged || !always && h.ttl == h.stored && h.rec.Size == h.storedSize {
		return nil
	}
	if drop && h.rec.Size == 0 {
		if h.rec.Exists {
			h.tx.Drop(h.rec)
		}
		return nil
	}
	if !h.on {
		h.tx.Save(h.rec, nil)
		return nil
	}
	var tail [cf.MaxHead]byte
	h.rec.SetFieldsEnd(h.ttl.FieldsEnd())
	h.tx.Save(h.rec, cf.AppendHashTail(tail[:0], h.ttl))
	return nil
}

// repair deletes the expired fields and counts the others again.
func (h *edit) repair() error {
	var gone [][]byte
	h.rec.Size, h.ttl, h.looseUpper = 0, cf.HashTTL{}, false
	err := h.scan(func(name []byte, expire uint64) {
		switch {
		case cf.FieldExpired(expire, h.tx.Now()):
			gone = append(gone, append([]byte(nil), name...))
			h.noteExpired(field{there: true, expire: expire})
			return
		case expire == 0:
			h.ttl.Persist++
		case h.rec.Size == h.ttl.Persist:
			h.ttl.Lower, h.ttl.Upper = expire, expire
		default:
			h.ttl.Lower, h.ttl.Upper = min(h.ttl.Lower, expire), max(h.ttl.Upper, expire)
		}
		h.rec.Size++
	})
	for _, name := range gone {
		h.log()
		h.tx.Delete(cf.Default, h.tx.Subkey(h.rec, name))
	}
	return err
}

// scan calls f with the name and the expiry of every stored field. The fields of the hash may expire.
func (h *edit) scan(f func(name []byte, expire uint64)) error {
	it := h.tx.Iter(cf.Default, engine.IterOptions{Prefix: h.tx.SubkeyPrefix(h.rec), ValueMax: cf.HashValueHead,
		Limit: hint(h.rec.Size)})
	defer it.Close()
	return h.scanIter(it, f)
}

func (h *edit) scanIter(it *engine.Iter, f func(name []byte, expire uint64)) error {
	for it.Next() {
		expire, _, err := cf.DecodeHashValue(it.Value())
		if err != nil {
			return h.fail(err)
		}
		f(it.Key(), expire)
	}
	return it.Err()
}

// certain returns the number of live fields if the metadata record alone determines it: no field has an expiry, none
// has expired yet, or all fields with an expiry have expired.
func (h *edit) certain() (n uint64, ok bool) {
	now := uint64(h.tx.Now())
	switch {
	case !h.on, h.rec.Size == h.ttl.Persist:
		return h.rec.Size, true
	case now <= h.ttl.Lower:
		return h.rec.Size, true
	case h.ttl.Upper != 0 && now > h.ttl.Upper:
		return h.ttl.Persist, true
	}
	return 0, false
}

// live returns the number of live fields.
func (h *edit) live() (n uint64, err error) {
	if n, ok := h.certain(); ok {
		return n, nil
	}
	now := h.tx.Now()
	err = h.scan(func(_ []byte, expire uint64) {
		if !cf.FieldExpired(expire, now) {
			n++
		}
	})
	return n, err
}

// convert rewrites the hash in the form in which fields may expire. It writes all records under a new version in the
// transaction's batch: a reader or a compaction that still sees the old records does not combine them with the new
// metadata.
func (h *edit) convert() error {
	if h.on {
		return nil
	}
	h.on = true
	if !h.rec.Exists {
		return nil
	}
	h.log()
	if err := h.tx.SubkeysFit(h.rec, h.rec.Size, 0); err != nil {
		return err
	}
	it := h.tx.Iter(cf.Default, engine.IterOptions{Prefix: h.tx.SubkeyPrefix(h.rec), Limit: hint(h.rec.Size),
		NoFill: h.rec.Size > fillMax})
	defer it.Close()
	h.tx.Renew(h.rec)
	n := uint64(0)
	for h.tx.BatchError() == nil && it.Next() {
		h.buf = cf.AppendHashValue(h.buf[:0], 0, it.Value())
		h.tx.PutSubkey(h.rec, cf.Default, h.tx.Subkey(h.rec, it.Key()), h.buf)
		n++
	}
	h.rec.Exists = true
	if err := cmp.Or(h.tx.BatchError(), it.Err()); err != nil {
		return err
	}
	if n != h.rec.Size {
		return h.corrupt("%d fields, the metadata says %d", n, h.rec.Size)
	}
	h.ttl = cf.HashTTL{Persist: n}
	return nil
}

// fillMax is the number of fields above which a conversion does not fill the block cache.
const fillMax = 10000

// hint returns how many entries an iterator over size fields expects to read.
func hint(size uint64) int { return int(min(size, math.MaxInt32)) + 1 }
