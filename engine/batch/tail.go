package batch

import "encoding/binary"

// Tail returns the part of a batch from the record with the given sequence number on, as a batch; nil if no record is
// left. The number must not be less than that of the batch.
func Tail(rep []byte, sequence uint64) ([]byte, error) {
	r, err := NewReader(rep)
	if err != nil {
		return nil, err
	}
	skip := sequence - r.Sequence()
	for n := uint64(0); ; {
		rec, ok := r.Next()
		switch {
		case !ok && r.Err() != nil:
			return nil, r.Err()
		case !ok:
			return nil, nil
		case n == skip:
			part := append(make([]byte, HeaderLen), rep[rec.Offset:]...)
			binary.LittleEndian.PutUint64(part, sequence)
			binary.LittleEndian.PutUint32(part[8:], r.Count()-uint32(skip))
			return part, nil
		}
		if rec.Kind.Counted() {
			n++
		}
	}
}
