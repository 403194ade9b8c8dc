package cf

import (
	"encoding/binary"
	"math/bits"
)

// StreamGroupValue is the value of a group record: six u64 in this order.
type StreamGroupValue struct {
	Consumers     uint64
	Pending       uint64
	LastDelivered StreamID
	EntriesRead   int64 // -1 = unknown
	Lag           uint64
}

const streamGroupLen = 6 * 8

// Append appends the encoded value, 48 bytes.
func (g *StreamGroupValue) Append(dst []byte) []byte {
	dst = binary.BigEndian.AppendUint64(dst, g.Consumers)
	dst = binary.BigEndian.AppendUint64(dst, g.Pending)
	dst = g.LastDelivered.Append(dst)
	dst = binary.BigEndian.AppendUint64(dst, uint64(g.EntriesRead))
	return binary.BigEndian.AppendUint64(dst, g.Lag)
}

// DecodeStreamGroup decodes the value of a group record.
func DecodeStreamGroup(b []byte) (g StreamGroupValue, err error) {
	if len(b) < streamGroupLen {
		return g, corrupt("stream group of %d bytes", len(b))
	}
	g.Consumers = binary.BigEndian.Uint64(b)
	g.Pending = binary.BigEndian.Uint64(b[8:])
	g.LastDelivered = streamID(b[16:])
	g.EntriesRead = int64(binary.BigEndian.Uint64(b[32:]))
	g.Lag = binary.BigEndian.Uint64(b[40:])
	return g, nil
}

// StreamConsumerValue is the value of a consumer record: three u64 in this order. Times are milliseconds since
// the epoch.
type StreamConsumerValue struct {
	Pending       uint64
	LastAttempted uint64
	LastSucceeded uint64
}

const streamConsumerLen = 3 * 8

// Append appends the encoded value, 24 bytes.
func (c *StreamConsumerValue) Append(dst []byte) []byte {
	dst = binary.BigEndian.AppendUint64(dst, c.Pending)
	dst = binary.BigEndian.AppendUint64(dst, c.LastAttempted)
	return binary.BigEndian.AppendUint64(dst, c.LastSucceeded)
}

// DecodeStreamConsumer decodes the value of a consumer record.
func DecodeStreamConsumer(b []byte) (c StreamConsumerValue, err error) {
	if len(b) < streamConsumerLen {
		return c, corrupt("stream consumer of %d bytes", len(b))
	}
	c.Pending = binary.BigEndian.Uint64(b)
	c.LastAttempted = binary.BigEndian.Uint64(b[8:])
	c.LastSucceeded = binary.BigEndian.Uint64(b[16:])
	return c, nil
}

// StreamPendingValue is the value of a pending entry:
//
//	u64 delivery time ms · u64 delivery count · u64 len(consumer) · consumer
type StreamPendingValue struct {
	DeliveryTime  uint64 // milliseconds since the epoch
	DeliveryCount uint64
	Consumer      []byte
}

// Append appends the encoded value.
func (p *StreamPendingValue) Append(dst []byte) []byte {
	dst = binary.BigEndian.AppendUint64(dst, p.DeliveryTime)
	dst = binary.BigEndian.AppendUint64(dst, p.DeliveryCount)
	return appendLongString(dst, p.Consumer)
}

// DecodeStreamPending decodes the value of a pending entry. Consumer aliases b.
func DecodeStreamPending(b []byte) (p StreamPendingValue, err error) {
	if len(b) < 16 {
		return p, corrupt("pending stream entry of %d bytes", len(b))
	}
	consumer, rest, ok := cutLongString(b[16:])
	if !ok || len(rest) != 0 {
		return p, corrupt("pending stream entry of %d bytes", len(b))
	}
	p.DeliveryTime = binary.BigEndian.Uint64(b)
	p.DeliveryCount = binary.BigEndian.Uint64(b[8:])
	p.Consumer = consumer
	return p, nil
}

// StreamIdempotenceValue is the value of the record of all idempotent production of a stream: four u64 in this order,
// and the bytes of Cursor.
type StreamIdempotenceValue struct {
	Duration   uint64 // seconds for which an iid is known
	MaxSize    uint64 // iids of a producer that are known
	Added      uint64 // entries that were added with an iid
	Duplicates uint64 // entries that were not added because their iid was known
	Cursor     []byte // the producer with which the next search for producers that have gone away begins
}

const streamIdempotenceLen = 4 * 8

// Append appends the encoded value.
func (i *StreamIdempotenceValue) Append(dst []byte) []byte {
	for _, n := range [...]uint64{i.Duration, i.MaxSize, i.Added, i.Duplicates} {
		dst = binary.BigEndian.AppendUint64(dst, n)
	}
	return append(dst, i.Cursor...)
}

// DecodeStreamIdempotence decodes the value of a StreamIdempotence record. Cursor aliases b.
func DecodeStreamIdempotence(b []byte) (i StreamIdempotenceValue, err error) {
	if len(b) < streamIdempotenceLen {
		return i, corrupt("stream idempotence of %d bytes", len(b))
	}
	for at, n := range [...]*uint64{&i.Duration, &i.MaxSize, &i.Added, &i.Duplicates} {
		*n = binary.BigEndian.Uint64(b[8*at:])
	}
	i.Cursor = b[streamIdempotenceLen:]
	return i, nil
}

// StreamProducerValue is the value of a producer record: three u64 in this order.
type StreamProducerValue struct {
	First, Next uint64 // the queue has the places from First on, and none from Next on
	LastMs      uint64 // Ms of the newest entry in the queue
}

const streamProducerLen = 3 * 8

// Append appends the encoded value, 24 bytes.
func (p *StreamProducerValue) Append(dst []byte) []byte {
	dst = binary.BigEndian.AppendUint64(dst, p.First)
	dst = binary.BigEndian.AppendUint64(dst, p.Next)
	return binary.BigEndian.AppendUint64(dst, p.LastMs)
}

// DecodeStreamProducer decodes the value of a producer record.
func DecodeStreamProducer(b []byte) (p StreamProducerValue, err error) {
	if len(b) < streamProducerLen {
		return p, corrupt("stream producer of %d bytes", len(b))
	}
	p.First, p.Next, p.LastMs = binary.BigEndian.Uint64(b), binary.BigEndian.Uint64(b[8:]), binary.BigEndian.Uint64(b[16:])
	if p.First > p.Next {
		return p, corrupt("stream producer with a queue from %d to %d", p.First, p.Next)
	}
	return p, nil
}

// DecodeStreamIID decodes the value of an iid: the id of its entry.
func DecodeStreamIID(b []byte) (StreamID, error) {
	if len(b) != streamIDLen {
		return StreamID{}, corrupt("iid of a stream, %d bytes", len(b))
	}
	return streamID(b), nil
}

// StreamQueuedValue is the value of a place in the queue of a producer: u64 ms · iid.
type StreamQueuedValue struct {
	Ms  uint64 // of the entry
	IID []byte
}

// Append appends the encoded value.
func (q *StreamQueuedValue) Append(dst []byte) []byte {
	return append(binary.BigEndian.AppendUint64(dst, q.Ms), q.IID...)
}

// DecodeStreamQueued decodes the value of a place in a queue. IID aliases b.
func DecodeStreamQueued(b []byte) (q StreamQueuedValue, err error) {
	if len(b) < 8 {
		return q, corrupt("place in the queue of a stream's producer, %d bytes", len(b))
	}
	return StreamQueuedValue{binary.BigEndian.Uint64(b), b[8:]}, nil
}

// AppendStreamString appends one field or value of an entry: varint32 length · bytes. The varint begins with the low
// seven bits of the length. The value of an entry is its fields and values, alternating.
func AppendStreamString(dst, s []byte) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(s)))
	return append(dst, s...)
}

// CutStreamString removes the first field or value from the beginning of b. s and rest alias b.
func CutStreamString(b []byte) (s, rest []byte, err error) {
	n, size := binary.Uvarint(b)
	if size <= 0 || n > uint64(len(b)-size) {
		return nil, nil, corrupt("string in a stream entry with %d bytes left", len(b))
	}
	if size != max(1, (bits.Len64(n)+6)/7) {
		return nil, nil, corrupt("string length in a stream entry of %d bytes", size)
	}
	return b[size : size+int(n)], b[size+int(n):], nil
}

// DecodeStreamEntry appends the fields and values of an entry, alternating, to dst. They alias b.
func DecodeStreamEntry(dst [][]byte, b []byte) ([][]byte, error) {
	for len(b) > 0 {
		s, rest, err := CutStreamString(b)
		if err != nil {
			return dst, err
		}
		dst, b = append(dst, s), rest
	}
	return dst, nil
}
