package cf

import (
	"encoding/binary"
	"math"
)

// StreamID identifies a stream entry. IDs are ordered by Ms, then Seq.
type StreamID struct {
	Ms, Seq uint64
}

// MaxStreamMs is the largest Ms of an entry that has Kvrocks's subkey. The only larger value is [StreamDelimiter].
// Kvrocks 2.10 stores entries with that Ms, but cannot read them; here they have a subkey of their own: [StreamLast].
const MaxStreamMs = math.MaxUint64 - 1

// Compare returns -1, 0 or 1.
func (id StreamID) Compare(other StreamID) int {
	switch {
	case id.Ms < other.Ms, id.Ms == other.Ms && id.Seq < other.Seq:
		return -1
	case id == other:
		return 0
	}
	return 1
}

// Append appends the 16 bytes of the id, u64 ms · u64 seq.
func (id StreamID) Append(dst []byte) []byte {
	dst = binary.BigEndian.AppendUint64(dst, id.Ms)
	return binary.BigEndian.AppendUint64(dst, id.Seq)
}

const streamIDLen = 16

func streamID(b []byte) StreamID {
	return StreamID{binary.BigEndian.Uint64(b), binary.BigEndian.Uint64(b[8:])}
}

// StreamMeta is the tail of a stream's metadata: twelve u64 in this order. The size of the record is the number
// of entries.
type StreamMeta struct {
	LastGenerated StreamID
	RecordedFirst StreamID // the first entry as XINFO STREAM reports it; it survives its deletion
	MaxDeleted    StreamID
	First         StreamID
	Last          StreamID
	EntriesAdded  uint64
	Groups        uint64 // number of groups; absent, and then 0, in records of old versions
}

const (
	streamTailOld = 11 * 8
	streamTail    = 12 * 8
)

// Append appends the encoded tail, 96 bytes.
func (m *StreamMeta) Append(dst []byte) []byte {
	for _, id := range [...]StreamID{m.LastGenerated, m.RecordedFirst, m.MaxDeleted, m.First, m.Last} {
		dst = id.Append(dst)
	}
	dst = binary.BigEndian.AppendUint64(dst, m.EntriesAdded)
	return binary.BigEndian.AppendUint64(dst, m.Groups)
}

// DecodeStreamMeta decodes the type-specific fields of a stream.
func DecodeStreamMeta(tail []byte) (m StreamMeta, err error) {
	if len(tail) < streamTailOld {
		return m, corrupt("stream metadata tail of %d bytes", len(tail))
	}
	for i, id := range [...]*StreamID{&m.LastGenerated, &m.RecordedFirst, &m.MaxDeleted, &m.First, &m.Last} {
		*id = streamID(tail[streamIDLen*i:])
	}
	m.EntriesAdded = binary.BigEndian.Uint64(tail[80:])
	if len(tail) >= streamTail {
		m.Groups = binary.BigEndian.Uint64(tail[88:])
	}
	return m, nil
}

// StreamDelimiter is in place of an entry's Ms in the subkeys of all other records, so that these sort after all
// entries.
const StreamDelimiter = math.MaxUint64

// StreamKind is the kind of a record of the stream family.
type StreamKind uint8

// The kinds. All but StreamEntry have this number in their subkeys.
const (
	StreamEntry    StreamKind = 0 // u64 ms · u64 seq
	StreamGroup    StreamKind = 1 // delimiter · 1 · u64 len(group) · group
	StreamConsumer StreamKind = 2 // delimiter · 2 · u64 len(group) · group · u64 len(consumer) · consumer
	StreamPending  StreamKind = 3 // delimiter · 3 · u64 len(group) · group · u64 ms · u64 seq
	// The kinds of idempotent production (XADD with IDMP): a producer adds entries with idempotent ids of its own, iids,
	// and an entry with an iid that the stream knows is not added. The stream knows the iids of a producer that are in
	// its queue, which they enter and leave in the order of their entries. Kvrocks skips these kinds.
	StreamProducer    StreamKind = 251 // delimiter · 251 · u64 len(producer) · producer
	StreamIID         StreamKind = 252 // delimiter · 252 · u64 len(producer) · producer · u64 len(iid) · iid
	StreamQueued      StreamKind = 253 // delimiter · 253 · u64 len(producer) · producer · u64 place in the queue
	StreamIdempotence StreamKind = 254 // delimiter · 254
	// StreamLast is an entry whose Ms is the delimiter. Kvrocks does not know this kind and skips it. 255 is the
	// greatest kind, so these entries sort behind all other records.
	StreamLast StreamKind = 255 // delimiter · 255 · u64 seq
)

// StreamNobody is the consumer of the pending entries that belong to nobody, because a consumer has given them back
// (XNACK). For Kvrocks it is a consumer as any other, so Kvrocks claims and acknowledges these entries too. Their
// delivery times are their places among them, the first one has 1. LastAttempted of this consumer's record is the place
// that was given last. The number of consumers in the group's record counts this consumer, because Kvrocks subtracts
// it when somebody deletes it there.
const StreamNobody = "\x00nobody"

// AppendStreamEntrySub appends the subkey of an entry.
func AppendStreamEntrySub(dst []byte, id StreamID) []byte {
	if id.Ms == StreamDelimiter {
		return binary.BigEndian.AppendUint64(AppendStreamKindSub(dst, StreamLast), id.Seq)
	}
	return id.Append(dst)
}

// streamLastLen is the length of the subkey of a [StreamLast].
const streamLastLen = 8 + 1 + 8

// ParseStreamEntrySub returns the id of an entry. ok is false when the subkey is not that of an entry.
func ParseStreamEntrySub(sub []byte) (id StreamID, ok bool) {
	switch {
	case len(sub) == streamIDLen && binary.BigEndian.Uint64(sub) != StreamDelimiter:
		return streamID(sub), true
	case len(sub) == streamLastLen && binary.BigEndian.Uint64(sub) == StreamDelimiter && sub[8] == byte(StreamLast):
		return StreamID{Ms: StreamDelimiter, Seq: binary.BigEndian.Uint64(sub[9:])}, true
	}
	return StreamID{}, false
}

// AppendStreamKindSub appends the common prefix of the subkeys of all records of one kind; not for entries.
func AppendStreamKindSub(dst []byte, kind StreamKind) []byte {
	dst = binary.BigEndian.AppendUint64(dst, StreamDelimiter)
	return append(dst, byte(kind))
}

// AppendStreamGroupSub appends the subkey of a group; with StreamConsumer or StreamPending, the common prefix of the
// subkeys of all consumers or pending entries of the group.
func AppendStreamGroupSub(dst []byte, kind StreamKind, group []byte) []byte {
	return appendLongString(AppendStreamKindSub(dst, kind), group)
}

// AppendStreamConsumerSub appends the subkey of a consumer of a group.
func AppendStreamConsumerSub(dst, group, consumer []byte) []byte {
	return appendLongString(AppendStreamGroupSub(dst, StreamConsumer, group), consumer)
}

// AppendStreamPendingSub appends the subkey of a pending entry of a group.
func AppendStreamPendingSub(dst, group []byte, id StreamID) []byte {
	return id.Append(AppendStreamGroupSub(dst, StreamPending, group))
}

// AppendStreamProducerSub appends the subkey of a producer; with StreamIID or StreamQueued, the common prefix of the
// subkeys of its iids or of its queue.
func AppendStreamProducerSub(dst []byte, kind StreamKind, producer []byte) []byte {
	return appendLongString(AppendStreamKindSub(dst, kind), producer)
}

// AppendStreamIIDSub appends the subkey of an iid.
func AppendStreamIIDSub(dst, producer, iid []byte) []byte {
	return appendLongString(AppendStreamProducerSub(dst, StreamIID, producer), iid)
}

// AppendStreamQueuedSub appends the subkey of a place in the queue of a producer.
func AppendStreamQueuedSub(dst, producer []byte, place uint64) []byte {
	return binary.BigEndian.AppendUint64(AppendStreamProducerSub(dst, StreamQueued, producer), place)
}

func appendLongString(dst, s []byte) []byte {
	dst = binary.BigEndian.AppendUint64(dst, uint64(len(s)))
	return append(dst, s...)
}

// cutLongString reads u64 length · bytes.
func cutLongString(b []byte) (s, rest []byte, ok bool) {
	if len(b) < 8 {
		return nil, nil, false
	}
	n := binary.BigEndian.Uint64(b)
	b = b[8:]
	if n > uint64(len(b)) {
		return nil, nil, false
	}
	return b[:n], b[n:], true
}

// StreamSub is a decoded subkey of the stream family. The slices alias the subkey.
type StreamSub struct {
	Kind     StreamKind // StreamEntry also for a StreamLast
	ID       StreamID   // of entries and pending entries
	Group    []byte     // of groups, consumers and pending entries
	Consumer []byte     // of consumers
	Producer []byte     // of producers, iids and places in a queue
	IID      []byte     // of iids
	Place    uint64     // in a queue
}

// ParseStreamSub decodes a subkey of the stream family.
func ParseStreamSub(sub []byte) (s StreamSub, err error) {
	if len(sub) < 9 {
		return s, corrupt("stream subkey of %d bytes", len(sub))
	}
	if binary.BigEndian.Uint64(sub) != StreamDelimiter {
		if len(sub) != streamIDLen {
			return s, corrupt("stream entry id of %d bytes", len(sub))
		}
		s.ID = streamID(sub)
		return s, nil
	}
	s.Kind = StreamKind(sub[8])
	if s.Kind == StreamLast && len(sub) == streamLastLen {
		s.Kind = StreamEntry
		s.ID, _ = ParseStreamEntrySub(sub)
		return s, nil
	}
	var rest []byte
	ok := true
	switch {
	case s.Kind >= StreamGroup && s.Kind <= StreamPending:
		s.Group, rest, ok = cutLongString(sub[9:])
	case s.Kind >= StreamProducer && s.Kind <= StreamQueued:
		s.Producer, rest, ok = cutLongString(sub[9:])
	case s.Kind == StreamIdempotence:
		rest = sub[9:]
	default:
		return s, corrupt("stream subkey of kind %d", sub[8])
	}
	switch {
	case !ok:
	case s.Kind == StreamConsumer:
		s.Consumer, rest, ok = cutLongString(rest)
	case s.Kind == StreamPending && len(rest) >= streamIDLen:
		s.ID, rest = streamID(rest), rest[streamIDLen:]
	case s.Kind == StreamIID:
		s.IID, rest, ok = cutLongString(rest)
	case s.Kind == StreamQueued && len(rest) == 8:
		s.Place, rest = binary.BigEndian.Uint64(rest), nil
	case s.Kind == StreamPending || s.Kind == StreamQueued:
		ok = false
	}
	if !ok || len(rest) != 0 {
		return StreamSub{}, corrupt("stream subkey of kind %d and %d bytes", sub[8], len(sub))
	}
	return s, nil
}
