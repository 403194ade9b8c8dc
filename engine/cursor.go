package engine

import (
	"bytes"
	"slices"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine/rocks"
)

// Cursor iterates over the records of a family in the order of their keys. It skips blocks that cannot be read.
type Cursor struct {
	r        *ReadOnly
	id       cf.ID
	upper    []byte
	valueMax int
	damaged  func(from, to []byte, err error)

	it   rocks.Iter
	open bool
	at   []byte // the key of the last record, or where the iterator begins
	jump uint64 // how many bytes the cursor skips at the next damage
	done bool
}

// cursorFirst is how many bytes of files a cursor skips at first at damage. Each failed attempt doubles the number. It
// is less than a block, so that no readable block is skipped.
const cursorFirst = 1 << 10

// CursorOptions say what a [Cursor] reads.
type CursorOptions struct {
	Lower, Upper []byte // [Lower, Upper); empty = no bound
	ValueMax     int    // max bytes of a value; 0 = all
	// Damaged is called for each range of keys that cannot be read: its content is unknown.
	Damaged func(from, to []byte, err error)
}

// Cursor opens a cursor before the first record of a family. The caller closes it.
func (r *ReadOnly) Cursor(id cf.ID, o CursorOptions) *Cursor {
	c := &Cursor{r: r, id: id, upper: o.Upper, valueMax: o.ValueMax, damaged: o.Damaged, jump: cursorFirst,
		at: bytes.Clone(o.Lower), done: r.fam[id] == nil}
	if len(c.upper) == 0 {
		c.upper = append(metadataEnd, 0)
	}
	if c.damaged == nil {
		c.damaged = func([]byte, []byte, error) {}
	}
	return c
}

// Next moves to the next record and reports whether one exists. Key and Value are valid until the next call.
func (c *Cursor) Next() bool {
	for !c.done {
		if !c.open {
			c.it, c.open = c.r.iter(c.id, c.at, c.upper, c.valueMax, 0), true
		}
		if c.it.Next() {
			c.at = append(c.at[:0], c.it.Key()...)
			c.jump = cursorFirst
			return true
		}
		err := c.it.Err()
		c.Close()
		if err == nil {
			c.done = true
			break
		}
		next := behindDamage(c.r.rocks, c.r.fam[c.id], append(c.at, 0), c.upper, c.jump)
		c.jump *= 2
		c.damaged(slices.Clone(c.at), next, c.r.named(err))
		c.at = next
		c.done = bytes.Compare(next, c.upper) >= 0
	}
	return false
}

// Key returns the key of the record.
func (c *Cursor) Key() []byte { return c.it.Key() }

// Value returns the value of the record, or its first bytes.
func (c *Cursor) Value() []byte { return c.it.Value() }

// Close frees the resources of the cursor. It may be called twice.
func (c *Cursor) Close() {
	if c.open {
		c.it.Close()
		c.open = false
	}
}
