package batch

import (
	"encoding/binary"
	"slices"

	"github.com/basaltdb/basalt/cf"
)

// Builder encodes a batch. The zero value is an empty batch. [Builder.Reset] keeps the memory, so that a reused builder
// does not allocate.
//
// A key or value must be shorter than 4 GiB, and a batch must have fewer than 2^32 records; the limits of the protocol
// are far lower, so the builder does not check that.
//
// A Builder must not be used by two goroutines at the same time.
type Builder struct {
	buf []byte // empty, or the header followed by the records
	n   uint32 // number of records that take a sequence number
}

// Mark is a position in a builder, for [Builder.Truncate].
type Mark struct {
	len   int
	count uint32
}

// start adds the header to an empty batch.
func (b *Builder) start() {
	if len(b.buf) == 0 {
		b.buf = append(b.buf, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)
	}
}

// Reset empties the batch and keeps its memory.
func (b *Builder) Reset() {
	b.buf = b.buf[:0]
	b.n = 0
}

// Grow makes room for n more bytes.
func (b *Builder) Grow(n int) {
	b.start()
	b.buf = slices.Grow(b.buf, n)
}

// begin writes the tag and family of a record that takes a sequence number.
func (b *Builder) begin(id cf.ID, plain, withFamily byte) {
	b.start()
	if id == cf.Default {
		b.buf = append(b.buf, plain)
	} else {
		b.buf = append(b.buf, withFamily)
		b.buf = binary.AppendUvarint(b.buf, uint64(id))
	}
	b.n++
}

func (b *Builder) operand(v []byte) {
	b.buf = binary.AppendUvarint(b.buf, uint64(len(v)))
	b.buf = append(b.buf, v...)
}

// Put adds a put and returns the offset of its value in [Builder.Bytes], so that a caller may overwrite the value in
// place by one of the same length.
func (b *Builder) Put(id cf.ID, key, value []byte) (valueOffset int) {
	b.begin(id, tagPut, tagCFPut)
	b.operand(key)
	b.operand(value)
	return len(b.buf) - len(value)
}

// PutParts is Put for a value in two parts.
func (b *Builder) PutParts(id cf.ID, key, head, tail []byte) (valueOffset int) {
	b.begin(id, tagPut, tagCFPut)
	b.operand(key)
	b.buf = binary.AppendUvarint(b.buf, uint64(len(head)+len(tail)))
	b.buf = append(append(b.buf, head...), tail...) // unlike slices.Grow, append does not clear what it overwrites
	return len(b.buf) - len(head) - len(tail)
}

// PutRoom is Put for a value that begins with head. The caller must write the n bytes after head into room before it
// adds anything else.
func (b *Builder) PutRoom(id cf.ID, key, head []byte, n int) (valueOffset int, room []byte) {
	b.begin(id, tagPut, tagCFPut)
	b.operand(key)
	value := len(head) + n
	b.buf = binary.AppendUvarint(b.buf, uint64(value))
	b.buf = append(slices.Grow(b.buf, value), head...)
	at := len(b.buf)
	b.buf = b.buf[:at+n]
	return at - len(head), b.buf[at:]
}

// Delete adds a point delete.
func (b *Builder) Delete(id cf.ID, key []byte) {
	b.begin(id, tagDelete, tagCFDelete)
	b.operand(key)
}

// SingleDelete adds a delete of a key that was put exactly once since its last delete.
func (b *Builder) SingleDelete(id cf.ID, key []byte) {
	b.begin(id, tagSingleDelete, tagCFSingleDelete)
	b.operand(key)
}

// DeleteRange adds a delete of all keys in [begin, end).
func (b *Builder) DeleteRange(id cf.ID, begin, end []byte) {
	b.begin(id, tagDeleteRange, tagCFDeleteRange)
	b.operand(begin)
	b.operand(end)
}

// LogData adds a blob that only readers of the WAL see. It takes no sequence number.
func (b *Builder) LogData(blob []byte) {
	b.start()
	b.buf = append(b.buf, tagLogData)
	b.operand(blob)
}

// Append adds all records of another builder, log data included.
func (b *Builder) Append(other *Builder) {
	if len(other.buf) <= HeaderLen {
		return
	}
	b.start()
	b.buf = append(b.buf, other.buf[HeaderLen:]...)
	b.n += other.n
}

// AppendRep adds all records of a batch in RocksDB's format. Its header must be complete, with the number of records.
// It returns the difference between a record's new offset and its offset in rep.
func (b *Builder) AppendRep(rep []byte) (shift int) {
	b.start()
	shift = len(b.buf) - HeaderLen
	b.buf = append(b.buf, rep[HeaderLen:]...)
	b.n += binary.LittleEndian.Uint32(rep[8:])
	return shift
}

// Mark returns the current end of the batch.
func (b *Builder) Mark() Mark { return Mark{b.Len(), b.n} }

// Truncate drops everything that was added since the mark. A mark becomes invalid when the batch is truncated to a
// position before it, or reset.
func (b *Builder) Truncate(m Mark) {
	b.start()
	b.buf = b.buf[:m.len]
	b.n = m.count
}

// Len returns the length of [Builder.Bytes]; an empty batch has the length of the header.
func (b *Builder) Len() int { return max(len(b.buf), HeaderLen) }

// Cap returns the size of the builder's memory in bytes, for pools that drop large builders.
func (b *Builder) Cap() int { return cap(b.buf) }

// Count returns the number of records that take a sequence number.
func (b *Builder) Count() int { return int(b.n) }

// Empty reports whether the batch has neither records nor log data.
func (b *Builder) Empty() bool { return len(b.buf) <= HeaderLen }

// Bytes returns the encoded batch with sequence number 0 (RocksDB assigns the real one). The slice is the builder's own
// memory: it is valid until the next call that adds to the batch, and overwriting bytes of a value changes the batch.
func (b *Builder) Bytes() []byte {
	b.start()
	binary.LittleEndian.PutUint32(b.buf[8:], b.n)
	return b.buf
}
