package cuckoo

import (
	"bytes"
	"encoding/binary"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
)

// A dump is a chain in pieces: a header, then the fingerprints of all filters, concatenated and cut into chunks, each
// whole pages of one filter. The header is
//
//	"basaltCF" · u8 1 · u64 items · the tail of the metadata record ([cf.CuckooMeta])
//
// Numbers are big-endian. A position is the progress of a dump: 0 before the header, 1 after it, and 1 + n after n
// fingerprints.

const dumpMagic = "basaltCF\x01"

// maxChunk is the max size of a chunk in bytes, if a page is not longer; tests reduce it.
var maxChunk = 16 << 20

// The errors of dumps, with the texts of Redis's module.
var (
	ErrPosition = engine.NewError("ERR", "Invalid position")
	ErrHeader   = engine.NewError("ERR", "Invalid header")
	ErrChunk    = engine.NewError("ERR", "Couldn't load chunk!")
)

// pageAt returns the page at an offset in the fingerprints; false when no page begins there.
func (c *chain) pageAt(offset uint64) (id pageID, ok bool) {
	for k, n := range c.buckets {
		if size := n * uint64(c.meta.BucketSize); offset >= size {
			offset -= size
			continue
		}
		full := c.meta.PageBuckets() * uint64(c.meta.BucketSize)
		return pageID{uint16(k), uint32(offset / full)}, offset%full == 0
	}
	return id, false
}

// Dump returns the piece of a chain at a position, and the position of the next piece; at the end, 0 and no data.
func Dump(tx *engine.Tx, key []byte, position uint64) (next uint64, data []byte, err error) {
	c, err := load(tx, key)
	if err != nil {
		return 0, nil, err
	}
	if !c.rec.Exists {
		return 0, nil, ErrNotFound
	}
	if position == 0 {
		return 1, c.meta.Append(binary.BigEndian.AppendUint64([]byte(dumpMagic), c.rec.Size)), nil
	}
	id, ok := c.pageAt(position - 1)
	for ; ok; id.page++ {
		n := c.meta.PageLen(c.buckets[id.filter], id.page)
		if n == 0 || len(data) > 0 && len(data)+n > maxChunk {
			break
		}
		if err := c.read([]pageID{id}); err != nil {
			return 0, nil, err
		}
		data = append(data, make([]byte, n)...)
		copy(data[len(data)-n:], c.pages[id].data)
		c.forgetUnchanged()
	}
	if len(data) == 0 {
		return 0, nil, nil
	}
	return position + uint64(len(data)), data, nil
}

// Load adds a piece that Dump has returned, with the position returned along with it. The first piece creates the
// chain, which must not exist.
func Load(tx *engine.Tx, key []byte, next uint64, data []byte) error {
	c, err := load(tx, key)
	if err != nil {
		return err
	}
	if next == 1 {
		if c.rec.Exists {
			return ErrExists
		}
		rest, ok := bytes.CutPrefix(data, []byte(dumpMagic))
		if !ok || len(rest) != 8+len(c.meta.Append(nil)) {
			return ErrHeader
		}
		// A page is read and written whole, so its length must not come from outside.
		if c.meta, err = cf.DecodeCuckooMeta(rest[8:]); err != nil || c.meta.PageSize != PageSize {
			return ErrHeader
		}
		c.rec.Size = binary.BigEndian.Uint64(rest)
		c.write("reserve")
		return nil
	}
	if !c.rec.Exists {
		return ErrNotFound
	}
	if len(data) == 0 || next <= uint64(len(data)) {
		return ErrPosition
	}
	id, ok := c.pageAt(next - 1 - uint64(len(data)))
	if !ok {
		return ErrPosition
	}
	for ; len(data) > 0; id.page++ {
		n := c.meta.PageLen(c.buckets[id.filter], id.page)
		if n == 0 || n > len(data) {
			return ErrChunk
		}
		if len(bytes.Trim(data[:n], "\x00")) > 0 {
			c.pages[id] = &page{data[:n], n, true}
		}
		data = data[n:]
	}
	c.write("add")
	return nil
}
