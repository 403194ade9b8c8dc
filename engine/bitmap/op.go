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
	Diff  // what the first source has and no other one
	Diff1 // what another source than the first has and the first has not
	AndOr // what the first source has and another one too
	One   // what exactly one source has
)

var opNames = [...]string{
	And: "AND", Or: "OR", Xor: "XOR", Not: "NOT", Diff: "DIFF", Diff1: "DIFF1", AndOr: "ANDOR", One: "ONE",
}

// String returns the name of the operation as BITOP takes it.
func (o Op) String() string { return opNames[o] }

// FirstDiffers reports whether the first source has another part in the operation than the others.
func (o Op) FirstDiffers() bool { return o == Diff || o == Diff1 || o == AndOr }

// Combine keeps the result of an operation on several bitmaps and strings in a key, whatever that held, and returns
// its length in bytes: that of the longest source. Shorter ones and those that do not exist count as zeros from
// their ends on. Not takes one source. When all sources are empty or missing, the key is deleted.
//
// The result is a string when all sources are strings, a bitmap otherwise. Fragments are read, combined and written
// one after the other, and those that all sources lack are not looked at. All of the result is in the transaction's
// batch, up to half a gigabyte of it, as in Kvrocks: fragments that are written before their metadata record belong
// to a version that nobody knows yet, and are dropped by any compaction that runs between the two, here under the
// key's lock or at a server that applies the same batches. A result that is larger than a batch may be
// ([engine.ErrBatchSize]) ends as soon as that is known.
func Combine(tx *engine.Tx, op Op, dest []byte, sources [][]byte) (uint64, error) {
	c := combination{tx: tx, op: op, dest: dest}
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
	if op != And || !c.missing { // with a source missing all is zeros, which need no fragments
		if err := c.combineFragments(&rec); err != nil {
			return 0, err
		}
	}
	tx.Save(&rec, nil)
	return c.size, nil
}

// combination is what is known of the sources of a Combine.
type combination struct {
	tx      *engine.Tx
	op      Op
	dest    []byte
	size    uint64 // bytes of the longest one
	missing bool   // one of them does not exist
	// The first source: whether it is the first of the strings or of the bitmaps; neither if it does not exist.
	firstString, firstBitmap bool
	strings                  [][]byte
	bitmaps                  []engine.Record
	keys                     [][]byte // of the bitmaps
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

// wanted returns the numbers of the fragments that the result may have.
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
	if c.op == Not { // the fragments of the result are all there, and whole
		c.tx.Reserve(wanted.len(), len(fragmentKey(c.tx, dest, 0))+fragment)
	}
	var numbers [fragmentsPerRead]uint64
	per := max(1, len(numbers)/len(c.bitmaps)) // fragments of the result that are made at once
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

// fragment makes the n-th fragment of the result of those of the bitmaps and of the parts of the strings. It is as
// long as the longest of them; zeros behind need not be written.
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
		c.tx.Put(cf.Default, fragmentKey(c.tx, dest, n), m.finish()[:m.used])
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
	c.tx.Put(cf.Default, fragmentKey(c.tx, dest, n), result[:used])
}

// stringFragment returns the part of a string that is in the n-th fragment.
func stringFragment(s []byte, n uint64) []byte {
	b := s[min(n*fragment, uint64(len(s))):]
	return b[:min(len(b), fragment)]
}

// merger combines sources for Diff, Diff1, AndOr and One.
type merger struct {
	op Op
	// result is the first source, and other all that the others have; for One result is what an odd number of sources
	// has, and other what more than one has.
	result, other []byte
	used          int // bytes of the longest source
}

// add adds a source, which is followed by zeros and no longer than the result.
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

// finish returns the result.
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

// apply combines dst with b, which is followed by zeros and not longer.
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
