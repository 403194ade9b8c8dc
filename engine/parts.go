package engine

import "github.com/basaltdb/basalt/cf"

// GetSlices reads slices of a value without copying the rest: len(out)/len(offsets) bytes from each offset,
// consecutively into out. size is the length of the value. A slice that is not within the value leaves its part of out
// unchanged. GetSlices is for values of many kilobytes; for smaller values Get is cheaper.
func (tx *Tx) GetSlices(id cf.ID, key []byte, offsets []uint32, out []byte) (size int, found bool, err error) {
	if len(tx.over.ents) > 0 {
		if e := tx.over.find(id, key); e != nil {
			switch e.kind {
			case written, cachedValue:
				value := tx.over.valueOf(e)
				copyParts(value, offsets, out)
				return len(value), true, nil
			case cachedMissing, deleted:
				return 0, false, nil
			}
		}
	}
	if len(tx.over.ranges) > 0 && tx.over.deletedByRange(id, key) {
		return 0, false, nil
	}
	if err := tx.usable(); err != nil {
		return 0, false, err
	}
	return tx.db.rocks.GetSlices(tx.db.family(id), key, offsets, out)
}

func copyParts(value []byte, offsets []uint32, out []byte) {
	if len(offsets) == 0 {
		return
	}
	n := len(out) / len(offsets)
	for i, off := range offsets {
		if int(off)+n <= len(value) {
			copy(out[i*n:(i+1)*n], value[off:])
		}
	}
}

// Patch overwrites part of a value that this transaction has put, in place in the batch, and reports whether it did. It
// does not when the transaction did not put the key, or the part is not within the value. So a large value that many
// commands of one transaction change is written once. Slices of the value that Get has returned change too.
func (tx *Tx) Patch(id cf.ID, key []byte, at int, part []byte) bool {
	e := tx.over.find(id, key)
	if e == nil || e.kind != written || at < 0 || at+len(part) > e.valN {
		return false
	}
	dst := tx.over.valueOf(e)[at : at+len(part)]
	if e.valAt < tx.mark.at { // put before the savepoint
		tx.undo = append(tx.undo, inPlace{e.valAt + at, append([]byte(nil), dst...)})
	}
	copy(dst, part)
	return true
}

// LargeValues returns how many bytes of the batch are values of at least min bytes. Every command adds to the rest of
// the batch: a bound on the size of a run of commands should not count what the next command can Patch.
func (tx *Tx) LargeValues(min int) (n int) {
	for i := range tx.over.ents {
		if e := &tx.over.ents[i]; e.kind == written && e.valN >= min {
			n += e.valN
		}
	}
	return n
}
