package bitmap

import (
	"crypto/subtle"
	"encoding/binary"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
)

// Op is a bitwise operation.
type Op uint8

// The operations.
const (
	And Op = iota
	Or
	Xor
	Not
	Diff  // in the first source and in no other
	Diff1 // in another source and not in the first
	AndOr // in the first source and in another one
	One   // in exactly one source
)

var opNames = [...]string{
	And: "AND", Or: "OR", Xor: "XOR", Not: "NOT", Diff: "DIFF", Diff1: "DIFF1", AndOr: "ANDOR", One: "ONE",
}

// String returns the name of the operation in BITOP.
func (o Op) String() string { return opNames[o] }

// FirstDiffers reports whether the operation treats the first source differently from the others.
func (o Op) FirstDiffers() bool { return o == Diff || o == Diff1 || o == AndOr }

// Combine replaces whatever dest holds by the result of an operation on several bitmaps and strings, and returns its
// length in bytes: that of the longest source. Shorter and missing sources continue with zeros. Not takes one source.
// If all sources are empty or missing, dest is deleted.
//
// The result is a string if all sources are strings, otherwise a bitmap. Fragments are read, combined and written in
// sequence; fragments that no source has are skipped. The whole result, up to half a gigabyte, is in the transaction's
// batch, as in Kvrocks. Fragments that were written before their metadata record would belong to an unknown version:
// any compaction between the two writes would drop them, here (under the key's lock) or at a replica that applies the
// same batches. A result that exceeds the max batch size fails early with [engine.ErrBatchSize].
func Combine(tx *engine.Tx, op Op, dest []byte, sources [][]byte) (uint64, error) {
	c := combination{tx: tx, op: op}
	for i, key := range sources {
		if err := c.source(key, i == 0); err != nil {
			return 0, err
		}
	}
	switch {
	case c.size == 0:
		rec, err := tx.LoadHead(dest)
		if err == nil && rec.Exists {
			tx.Drop(&rec)
		}
		return 0, err
	case len(c.bitmaps) == 0:
		rec := tx.Fresh(dest, cf.TypeString)
		saveString(tx, &rec, c.combineStrings())
		return c.size, nil
	}
	tx.LogData(cf.AppendLogBitOp(nil, op.String(), sources))
	rec := tx.Fresh(dest, cf.TypeBitmap)
	rec.Size = c.size
	if op != And || !c.missing { // AND with a missing source is all zeros and needs no fragments
		if err := c.combineFragments(&rec); err != nil {
			return 0, err
		}
	}
	tx.Save(&rec, nil)
	return c.size, nil
}

// combination describes the sources of a Combine.
type combination struct {
	tx      *engine.Tx
	op      Op
	size    uint64 // bytes of the longest source
	missing bool   // a source does not exist
	// The first source is the first of the strings or the first of the bitmaps; neither if it does not exist.
	firstString, firstBitmap bool
	strings                  [][]byte
	bitmaps                  []engine.Record
	keys                     [][]byte // keys of the bitmaps
}

func (c *combination) source(key []byte, first bool) error {
	rec, err := load(c.tx, key)
	switch {
	case err != nil:
		return err
	case !rec.Exists:
		c.missing = true
		return nil
	case rec.Type == cf.TypeString:
		c.firstString = c.firstString || first
		c.strings = append(c.strings, rec.Tail)
	default:
		c.firstBitmap = c.firstBitmap || first
		c.bitmaps = append(c.bitmaps, rec)
		c.keys = append(c.keys, key)
	}
	c.size = max(c.size, length(&rec))
	return nil
}

func (c *combination) combineStrings() []byte {
	if c.op == And && c.missing {
		return make([]byte, c.size)
	}
	if c.op.FirstDiffers() || c.op == One {
		m := merger{op: c.op, result: make([]byte, c.size), other: make([]byte, c.size)}
		for i, s := range c.strings {
			m.add(s, c.firstString && i == 0)
		}
		return m.finish()
	}
	value := resized(c.strings[0], c.size)
	if c.op == Not {
		invert(value)
	}
	for _, s := range c.strings[1:] {
		c.op.apply(value, s)
	}
	return value
}

// wanted returns the numbers of the fragments that the result can have.
func (c *combination) wanted() (numberSet, error) {
	bound := (c.size + fragment - 1) / fragment
	all := newNumberSet(bound)
	if c.op == Not {
		all.addBelow(bound)
		return all, nil
	}
	if c.op == And {
		all.addBelow(bound)
	}
	merge := func(from numberSet) {
		for i, w := range from {
			if c.op == And {
				all[i] &= w
			} else {
				all[i] |= w
			}
		}
	}
	one := newNumberSet(bound)
	for _, s := range c.strings {
		clear(one)
		one.addBelow((uint64(len(s)) + fragment - 1) / fragment)
		merge(one)
	}
	for i := range c.bitmaps {
		clear(one)
		if err := present(c.tx, c.keys[i], &c.bitmaps[i], one); err != nil {
			return nil, err
		}
		merge(one)
	}
	return all, nil
}

func (c *combination) combineFragments(dest *engine.Record) error {
	wanted, err := c.wanted()
	if err != nil {
		return err
	}
	if c.op == Not { // the result has every fragment in full length
		n := wanted.len()
		if err := c.tx.Reserve(n, n*(len(fragmentKey(c.tx, dest, 0))+fragment)); err != nil {
			return err
		}
	}
	var numbers [fragmentsPerRead]uint64
	per := max(1, len(numbers)/len(c.bitmaps)) // how many fragments of the result one batched read makes
	bound := (c.size + fragment - 1) / fragment
	n, more := wanted.next(0)
	for more {
		some := 0
		keys := c.tx.Keys()
		for more && n < bound && some < per {
			numbers[some] = n
			some++
			for i := range c.bitmaps {
				keys.Add(fragmentKey(c.tx, &c.bitmaps[i], n))
			}
			n, more = wanted.next(n + 1)
		}
		values, err := c.tx.MultiGet(cf.Default, keys)
		if err != nil {
			return err
		}
		for i, n := range numbers[:some] {
			c.fragment(dest, n, values[i*len(c.bitmaps):(i+1)*len(c.bitmaps)])
		}
		if err := c.tx.BatchError(); err != nil {
			return err
		}
	}
	return nil
}

// fragment computes the n-th fragment of the result from those of the bitmaps and the parts of the strings. It is as
// long as the longest of them; trailing zeros need not be written.
func (c *combination) fragment(dest *engine.Record, n uint64, values [][]byte) {
	var result, part [fragment]byte
	if c.op.FirstDiffers() || c.op == One {
		var other [fragment]byte
		m := merger{op: c.op, result: result[:], other: other[:]}
		for i, v := range values {
			m.add(clip(v), c.firstBitmap && i == 0)
		}
		for i, s := range c.strings {
			b := stringFragment(s, n)
			flip(part[:len(b)], b)
			m.add(part[:len(b)], c.firstString && i == 0)
		}
		c.tx.PutSubkey(dest, cf.Default, fragmentKey(c.tx, dest, n), m.finish()[:m.used])
		return
	}
	used := 0
	first := true
	add := func(b []byte) {
		used = max(used, len(b))
		if first {
			copy(result[:], b)
			first = false
		} else {
			c.op.apply(result[:], b)
		}
	}
	for _, v := range values {
		add(clip(v))
	}
	for _, s := range c.strings {
		b := stringFragment(s, n)
		flip(part[:len(b)], b)
		add(part[:len(b)])
	}
	if c.op == Not {
		used = int(min(fragment, c.size-n*fragment))
		invert(result[:used])
	}
	c.tx.PutSubkey(dest, cf.Default, fragmentKey(c.tx, dest, n), result[:used])
}

// stringFragment returns the part of a string that corresponds to the n-th fragment.
func stringFragment(s []byte, n uint64) []byte {
	b := s[min(n*fragment, uint64(len(s))):]
	return b[:min(len(b), fragment)]
}

// merger combines the sources of Diff, Diff1, AndOr and One.
type merger struct {
	op Op
	// result is the first source, other the union of the other sources. For One, result has the bits of an odd number
	// of sources, and other the bits of more than one source.
	result, other []byte
	used          int // bytes of the longest source
}

// add adds a source. It must not be longer than the result; it continues with zeros.
func (m *merger) add(b []byte, first bool) {
	m.used = max(m.used, len(b))
	switch {
	case m.op == One:
		for i, v := range b {
			m.other[i] |= m.result[i] & v
			m.result[i] ^= v
		}
	case first:
		copy(m.result, b)
	default:
		Or.apply(m.other, b)
	}
}

// finish returns the combined bytes.
func (m *merger) finish() []byte {
	for i, o := range m.other {
		switch m.op {
		case Diff, One:
			m.result[i] &^= o
		case Diff1:
			m.result[i] = o &^ m.result[i]
		case AndOr:
			m.result[i] &= o
		}
	}
	return m.result
}

// apply combines dst with b, which must not be longer and continues with zeros.
func (o Op) apply(dst, b []byte) {
	switch o {
	case Xor:
		subtle.XORBytes(dst, dst, b)
	case And:
		clear(dst[len(b):])
		i := 0
		for ; i+8 <= len(b); i += 8 {
			binary.LittleEndian.PutUint64(dst[i:], binary.LittleEndian.Uint64(dst[i:])&binary.LittleEndian.Uint64(b[i:]))
		}
		for ; i < len(b); i++ {
			dst[i] &= b[i]
		}
	case Or:
		i := 0
		for ; i+8 <= len(b); i += 8 {
			binary.LittleEndian.PutUint64(dst[i:], binary.LittleEndian.Uint64(dst[i:])|binary.LittleEndian.Uint64(b[i:]))
		}
		for ; i < len(b); i++ {
			dst[i] |= b[i]
		}
	}
}

func invert(b []byte) {
	for i := range b {
		b[i] = ^b[i]
	}
}
