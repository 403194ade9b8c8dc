package batch

import (
	"encoding/binary"
	"slices"

	"github.com/basaltdb/basalt/cf"
)

// Builder encodes a batch. The zero value is an empty batch. It keeps its memory over [Builder.Reset], so that a
// builder that is used again does not allocate.
//
// A key or value is shorter than 4 GiB and a batch has fewer than 2^32 records; the limits of the protocol are
// far below that, so the builder does not check it.
//
// A Builder must not be used by two goroutines at once.
type Builder struct {
	buf []byte // empty, or the header and the records so far
	n   uint32 // records that take a sequence number
}

// Mark is a position in a builder, to come back to with [Builder.Truncate].
type Mark struct {
	len   int
	count uint32
}

// Len returns what [Builder.Len] was when the mark was taken.
func (m Mark) Len() int { return m.len }

// start makes room for the header of an empty batch.
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

// MaxOverhead is how many bytes a record of one operand, or two, takes at most besides them.
const MaxOverhead = 1 + 5 + 2*5

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

// Put adds a put and returns where in [Builder.Bytes] its value begins, so that a caller may overwrite the value
// in place with one of the same length.
func (b *Builder) Put(id cf.ID, key, value []byte) (valueOffset int) {
	b.begin(id, tagPut, tagCFPut)
	b.operand(key)
	b.operand(value)
	return len(b.buf) - len(value)
}

// PutParts is Put of a value that is given in two parts.
func (b *Builder) PutParts(id cf.ID, key, head, tail []byte) (valueOffset int) {
	at, room := b.PutRoom(id, key, head, len(tail))
	copy(room, tail)
	return at
}

// PutRoom is Put of a value that begins with head; the caller writes the n bytes that follow it into room, before
// anything else is added.
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

// SingleDelete adds a delete of a key that was put exactly once since it was last deleted.
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

// LogData adds a blob that only readers of the WAL see. It does not count as a record.
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

// AppendRep adds all records of a batch in RocksDB's representation, of which the header is whole and tells how many
// they are. It returns by how much further behind than in rep they are now.
func (b *Builder) AppendRep(rep []byte) (shift int) {
	b.start()
	shift = len(b.buf) - HeaderLen
	b.buf = append(b.buf, rep[HeaderLen:]...)
	b.n += binary.LittleEndian.Uint32(rep[8:])
	return shift
}

// Mark returns the present end of the batch.
func (b *Builder) Mark() Mark { return Mark{b.Len(), b.n} }

// Truncate drops everything added since the mark was taken. A mark is void once the batch was cut back to
// before it or reset.
func (b *Builder) Truncate(m Mark) {
	b.start()
	b.buf = b.buf[:m.len]
	b.n = m.count
}

// Len returns the length of [Builder.Bytes]; an empty batch is as long as the header.
func (b *Builder) Len() int { return max(len(b.buf), HeaderLen) }

// Cap returns how many bytes of memory the builder keeps; who pools builders drops the ones that grew large.
func (b *Builder) Cap() int { return cap(b.buf) }

// Count returns the number of records that take a sequence number.
func (b *Builder) Count() int { return int(b.n) }

// Empty reports whether there is nothing to write, not even log data.
func (b *Builder) Empty() bool { return len(b.buf) <= HeaderLen }

// Bytes returns the encoded batch with sequence 0 (RocksDB assigns the real one). It is the builder's own memory:
// valid until the next call that adds to the batch. Overwriting bytes of a value changes the batch.
func (b *Builder) Bytes() []byte {
	b.start()
	binary.LittleEndian.PutUint32(b.buf[8:], b.n)
	return b.buf
}
