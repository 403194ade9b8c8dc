package bloom

import (
	"bytes"
	"encoding/binary"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
)

// A dump is a chain in pieces: a header, then the bits of all filters, concatenated and cut into chunks that do not
// span filters. The header is
//
//	"basaltBF" · u8 1 · u64 items · the tail of the metadata record ([cf.BloomMeta]) · u32 length of each filter
//
// Numbers are big-endian. The format is not that of Redis's module, whose filters hash differently.
//
// A position is the progress of a dump: 0 before the header, 1 after it, and 1 + n after n bytes of the bits.

const dumpMagic = "basaltBF\x01"

const dumpHeader = len(dumpMagic) + 8 + 20

// maxChunk is the max size of a chunk in bytes; tests reduce it.
var maxChunk = 16 << 20

// maxLoad is the max total size of the filters of a loaded chain in bytes: the header alone creates all of them.
const maxLoad = 512 << 20

// The errors of dumps, with the texts of Redis's module except ErrTooLarge.
var (
	ErrNoKey    = engine.NewError("ERR", "not found")
	ErrBadDump  = engine.NewError("ERR", "received bad data")
	ErrPosition = engine.NewError("ERR", "invalid offset - no link found")
	ErrChunk    = engine.NewError("ERR", "invalid chunk - Too big for current filter")
	ErrTooLarge = engine.NewError("ERR", "the filters of a dump that is loaded have at most 512 MiB")
)

// lens returns the lengths of all filters.
func (c *chain) lens() ([]int, error) {
	lens := make([]int, c.meta.Filters)
	for i := range lens {
		n, found, err := c.tx.GetSlices(cf.Default, c.key(i), []uint32{0}, make([]byte, 1))
		if err != nil {
			return nil, err
		}
		if !found {
			return nil, c.check(i, nil)
		}
		if err := c.checkLen(i, n); err != nil {
			return nil, err
		}
		lens[i] = n
	}
	return lens, nil
}

// place returns the filter that contains the byte at an offset in the concatenated bits, and the offset within that
// filter; false when the offset is beyond the end.
func place(lens []int, offset uint64) (filter, at int, ok bool) {
	for i, n := range lens {
		if offset < uint64(n) {
			return i, int(offset), true
		}
		offset -= uint64(n)
	}
	return 0, 0, false
}

// Dump returns the piece of a chain at a position, and the position of the next piece; at the end, 0 and no data.
func Dump(tx *engine.Tx, key []byte, position uint64) (next uint64, data []byte, err error) {
	c, err := load(tx, key)
	if err != nil {
		return 0, nil, err
	}
	if !c.rec.Exists {
		return 0, nil, ErrNoKey
	}
	lens, err := c.lens()
	if err != nil {
		return 0, nil, err
	}
	if position == 0 {
		data = append(make([]byte, 0, dumpHeader+4*len(lens)), dumpMagic...)
		data = binary.BigEndian.AppendUint64(data, c.rec.Size)
		data = c.meta.Append(data)
		for _, n := range lens {
			data = binary.BigEndian.AppendUint32(data, uint32(n))
		}
		return 1, data, nil
	}
	filter, at, ok := place(lens, position-1)
	if !ok {
		return 0, nil, nil
	}
	data = make([]byte, min(lens[filter]-at, maxChunk))
	if _, _, err := tx.GetSlices(cf.Default, c.key(filter), []uint32{uint32(at)}, data); err != nil {
		return 0, nil, err
	}
	return position + uint64(len(data)), data, nil
}

// Load adds a piece that Dump has returned, with the position returned along with it. The first piece creates the
// chain, without items; the chain must not exist.
func Load(tx *engine.Tx, key []byte, next uint64, data []byte) error {
	c, err := load(tx, key)
	if err != nil {
		return err
	}
	if !c.rec.Exists {
		if next != 1 {
			return ErrNoKey
		}
		return c.loadHeader(data)
	}
	lens, err := c.lens()
	if err != nil {
		return err
	}
	if next <= 1 || next-1 < uint64(len(data)) || len(data) == 0 {
		return ErrBadDump
	}
	filter, at, ok := place(lens, next-1-uint64(len(data)))
	if !ok {
		return ErrPosition
	}
	if len(data) > lens[filter]-at {
		return ErrChunk
	}
	tx.LogData(cf.LogBloomInsert)
	if key := c.key(filter); len(data) < lens[filter] && !tx.Patch(cf.Default, key, at, data) {
		whole := make([]byte, lens[filter])
		if _, _, err := tx.GetSlices(cf.Default, key, []uint32{0}, whole); err != nil {
			return err
		}
		copy(whole[at:], data)
		tx.Put(cf.Default, key, whole)
	} else if len(data) == lens[filter] {
		tx.Put(cf.Default, key, data)
	}
	c.save() // WATCH and the record caches learn of the change through the metadata record
	return nil
}

// loadHeader creates a chain from the header of a dump, with all bits 0.
func (c *chain) loadHeader(data []byte) error {
	rest, ok := bytes.CutPrefix(data, []byte(dumpMagic))
	if !ok || len(data) < dumpHeader {
		return ErrBadDump
	}
	m, err := cf.DecodeBloomMeta(rest[8:])
	if err != nil {
		return ErrBadDump
	}
	lens := rest[8+20:]
	if m.Filters == 0 || m.BaseCapacity == 0 || !(m.ErrorRate > 0 && m.ErrorRate < 1) || len(lens) != 4*int(m.Filters) {
		return ErrBadDump
	}
	total := uint64(0)
	for i := range int(m.Filters) {
		n := int(binary.BigEndian.Uint32(lens[4*i:]))
		if !validLen(n) {
			return ErrBadDump
		}
		total += uint64(n)
	}
	if total != uint64(m.Bytes) {
		return ErrBadDump
	}
	if total > maxLoad {
		return ErrTooLarge
	}
	c.meta = m
	c.tx.LogData(cf.LogBloomCreate)
	c.rec.Size = binary.BigEndian.Uint64(rest)
	c.save()
	for i := range int(m.Filters) {
		c.tx.Put(cf.Default, c.key(i), make([]byte, binary.BigEndian.Uint32(lens[4*i:])))
	}
	return nil
}
