package keys

import (
	"bytes"
	"math/rand/v2"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
)

// Range selects the keys that Walk visits.
type Range struct {
	// From is the first position, nil = the beginning. A position is the metadata key without the namespace: [u16 slot]
	// · user key. Without cluster mode it is the user key alone.
	From []byte
	// To is the position to stop before, nil = the end.
	To []byte
	// Prefix is a prefix of the user keys. In cluster mode, where keys are ordered by slot, it does not limit what is
	// read; the caller must filter.
	Prefix []byte
	// Exact selects only the key that equals Prefix.
	Exact bool
	// Limit is how many records the caller expects to read, 0 = all. It is only a hint.
	Limit int
}

// Entry is a metadata record that Walk visits. Its slices are valid until the visit ends.
type Entry struct {
	Pos  []byte // the position: see Range.From
	Key  []byte // user key
	Meta cf.Meta
	Live bool // the key exists: it has not expired and is not an empty collection
}

// Walk visits the metadata records of a range of the namespace in the order of their positions, until visit returns
// false. It reads a snapshot taken at its start. Records that cannot be decoded are skipped.
func Walk(tx *engine.Tx, r Range, visit func(e *Entry) bool) error {
	prefix := cf.AppendNSPrefix(nil, tx.Namespace())
	o := engine.IterOptions{Prefix: prefix, ValueMax: cf.MaxHead, Limit: r.Limit, NoFill: true}
	from := r.From
	slots := tx.DB().Slots()
	switch {
	case slots && r.Exact:
		pos := tx.NSKey(r.Prefix)[len(prefix):]
		if bytes.Compare(from, pos) < 0 {
			from = pos
		}
		o.Upper = append(append(bytes.Clone(prefix), pos...), 0)
	case slots:
	case r.Exact, len(r.Prefix) > 0:
		if bytes.Compare(from, r.Prefix) < 0 {
			from = r.Prefix
		}
		o.Upper = append(bytes.Clone(prefix), r.Prefix...)
		if r.Exact {
			o.Upper = append(o.Upper, 0)
		} else {
			o.Upper, _ = cf.AppendSuccessor(nil, o.Upper)
		}
	}
	o.Lower = append(bytes.Clone(prefix), from...)
	if to := append(bytes.Clone(prefix), r.To...); r.To != nil && (o.Upper == nil || bytes.Compare(to, o.Upper) < 0) {
		o.Upper = to
	}
	if o.Upper != nil && bytes.Compare(o.Lower, o.Upper) >= 0 {
		return nil
	}
	it := tx.Iter(cf.Metadata, o)
	defer it.Close()
	var e Entry
	for it.Next() {
		var err error
		if e.Meta, _, err = cf.DecodeMeta(it.Value()); err != nil {
			continue
		}
		e.Pos, e.Key = it.Key(), it.Key()
		if slots {
			if len(e.Key) < 2 {
				continue
			}
			e.Key = e.Key[2:]
		}
		e.Live = e.Meta.Live(tx.Now())
		if !visit(&e) {
			return nil
		}
	}
	return it.Err()
}

const (
	// leastSize and unknownSize are estimated sizes for Tx.Sample, above the size up to which it reads everything
	// without a limit: the records include those of expired keys, whose number is unlimited. With leastSize it checks
	// whether only a few records exist; with unknownSize it draws short runs of neighbours, repeatedly.
	leastSize   = 256
	unknownSize = 8192
	// randomTries is how many samples without a live key Random draws before it scans.
	randomTries = 64
)

// Random returns a random key of the namespace. It reads the whole namespace only if nearly all of it has expired.
func Random(tx *engine.Tx) (key []byte, found bool, err error) {
	prefix := cf.AppendNSPrefix(nil, tx.Namespace())
	size := uint64(unknownSize)
	if n := tx.DB().KeyCount(tx.Namespace()); n.Exact {
		size = uint64(max(n.Keys, leastSize))
	}
	var pos []byte
	for range randomTries {
		got, err := tx.Sample(cf.Metadata, prefix, size, 1)
		if err != nil || len(got) == 0 {
			return nil, false, err
		}
		pos = got[0]
		user := pos
		if tx.DB().Slots() {
			if len(pos) < 2 {
				continue
			}
			user = pos[2:]
		}
		rec, err := tx.LoadHead(user)
		if err != nil {
			return nil, false, err
		}
		if rec.Exists {
			return user, true, nil
		}
	}
	// Return a live key after the last sample, otherwise one from the beginning.
	for _, from := range [][]byte{pos, nil} {
		skip := rand.IntN(16) // not always the first one after a gap
		err := Walk(tx, Range{From: from}, func(e *Entry) bool {
			if e.Live {
				key, found = append(key[:0], e.Key...), true
				skip--
			}
			return !e.Live || skip >= 0
		})
		if err != nil || found {
			return key, found, err
		}
	}
	return nil, false, nil
}
