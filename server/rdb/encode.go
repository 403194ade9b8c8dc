package rdb

import (
	"encoding/binary"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/server/rdb/internal/raw"
)

// PlainVersion is the version of the format in which AppendHead and the functions for its items write: that of Redis 4.
const PlainVersion = 8

// AppendHead appends the type of a value and the number of items that follow: elements of a List, Set or ZSet, fields
// of a Hash. The items follow by AppendString, each member of a ZSet with its score by AppendScore, each field of a
// Hash with its value. A String has no number of items and one string.
func AppendHead(dst []byte, k Kind, n uint64) []byte {
	switch k {
	case String:
		return append(dst, typeString)
	case List:
		dst = append(dst, typeList)
	case Set:
		dst = append(dst, typeSet)
	case ZSet:
		dst = append(dst, typeZSet2)
	case Hash:
		dst = append(dst, typeHash)
	default:
		panic("rdb: a stream has no head")
	}
	return raw.AppendLength(dst, n)
}

// AppendString appends a string. The decimal text of a number of up to 32 bits is written as that number.
func AppendString(dst, s []byte) []byte { return raw.AppendString(dst, s) }

// AppendLength appends what comes before a string of n bytes that follows as it is.
func AppendLength(dst []byte, n uint64) []byte { return raw.AppendLength(dst, n) }

func AppendScore(dst []byte, f float64) []byte { return raw.AppendScore(dst, f) }

// ExpiringVersion is the version of the format that has hashes with expiring fields: that of Redis 7.4.
const ExpiringVersion = 12

// AppendExpiringHead is AppendHead for a hash with expiring fields. first is the earliest expiry in milliseconds since
// the epoch. Each field is preceded by its expiry, see AppendExpiry.
func AppendExpiringHead(dst []byte, first, n uint64) []byte {
	return raw.AppendLength(binary.LittleEndian.AppendUint64(append(dst, typeHashTTL), first), n)
}

// AppendExpiry appends the expiry of a field, 0 = none; first is that of AppendExpiringHead.
func AppendExpiry(dst []byte, first, at uint64) []byte {
	if at != 0 {
		at -= first - 1
	}
	return raw.AppendLength(dst, at)
}

// The max number of entries of a stream in one node, and of their bytes: Redis's defaults.
const (
	nodeEntries = 100
	nodeBytes   = 4096
)

// The versions of the format that introduced the forms of a stream: those of Redis 5 and Redis 7.
const (
	streamVersion  = 9
	stream2Version = 10
)

// StreamWriter appends a stream, entry by entry, so that it need not be in memory as a whole.
type StreamWriter struct {
	dst     []byte
	at      int // offset of the stream in dst
	nodes   uint32
	dropped bool // see Drop
	length  uint64
	first   cf.StreamID // of the stream
	node    []byte      // entries of the current node
	entries int         // number of entries of the node
	elems   int         // elements of these entries
	key     cf.StreamID // id of the first entry
	master  [][]byte    // fields of the first entry
	fields  []byte      // memory of master
}

// NewStreamWriter begins a stream at the end of dst.
func NewStreamWriter(dst []byte) *StreamWriter {
	w := &StreamWriter{at: len(dst)}
	// The type and the number of nodes are known at the end.
	w.dst = raw.AppendLength32(append(dst, 0), 0)
	return w
}

// Len returns the length of the result so far, of what is still in memory.
func (w *StreamWriter) Len() int { return len(w.dst) + len(w.node) }

// Drop drops the nodes that are finished. The number of nodes comes before them, so a stream that must not be in memory
// as a whole is written twice: first to count, then by Again in parts.
func (w *StreamWriter) Drop() { w.dst, w.dropped = w.dst[:w.at], true }

// Dropped reports whether Drop was called: then End is not possible, but Again is.
func (w *StreamWriter) Dropped() bool { return w.dropped }

// Again begins the same stream anew at the end of dst, when all its entries were added. s is that of End. The caller
// adds the same entries, and may take what is finished away with Take.
func (w *StreamWriter) Again(dst []byte, s *StreamValue) *StreamWriter {
	w.flush()
	return &StreamWriter{dst: raw.AppendLength32(append(dst, w.typeOf(s)), w.nodes), at: -1}
}

// Take returns what is finished of a stream begun by Again; the next call of Add overwrites it.
func (w *StreamWriter) Take() []byte {
	done := w.dst
	w.dst = w.dst[:0]
	return done
}

// typeOf returns the type of the stream, whose entries were all added: an older one if the stream has no groups and has
// never lost an entry.
func (w *StreamWriter) typeOf(s *StreamValue) byte {
	if len(s.Groups) == 0 && s.MaxDeleted == (cf.StreamID{}) && s.EntriesAdded == w.length {
		return typeStream
	}
	return typeStream2
}

// Add adds an entry with its fields and values, alternating. Its id must be greater than that of the previous entry.
func (w *StreamWriter) Add(id cf.StreamID, fields [][]byte) {
	if w.length == 0 {
		w.first = id
	}
	w.length++
	if w.entries > 0 && (w.entries >= nodeEntries || len(w.node) >= nodeBytes) {
		w.flush()
	}
	if w.entries == 0 {
		w.key, w.master, w.fields = id, w.master[:0], w.fields[:0]
		size := 0
		for i := 0; i < len(fields); i += 2 {
			size += len(fields[i])
		}
		if cap(w.fields) < size {
			w.fields = make([]byte, 0, size)
		}
		for i := 0; i < len(fields); i += 2 {
			at := len(w.fields)
			w.fields = append(w.fields, fields[i]...)
			w.master = append(w.master, w.fields[at:])
		}
	}
	w.entries++
	n := len(fields) / 2
	same := n == len(w.master)
	for i := 0; same && i < n; i++ {
		same = string(w.master[i]) == string(fields[2*i])
	}
	flags := int64(0)
	if same {
		flags = entrySameFields
	}
	w.node = raw.AppendListpackInt(w.node, flags)
	w.node = raw.AppendListpackInt(w.node, int64(id.Ms-w.key.Ms))
	w.node = raw.AppendListpackInt(w.node, int64(id.Seq-w.key.Seq))
	count := 3 + n
	if !same {
		w.node = raw.AppendListpackInt(w.node, int64(n))
		count = 3 + 1 + 2*n
	}
	for i, s := range fields {
		if !same || i%2 == 1 {
			w.node = raw.AppendListpackString(w.node, s)
		}
	}
	w.node = raw.AppendListpackInt(w.node, int64(count))
	w.elems += count + 1
}

// flush ends a node.
func (w *StreamWriter) flush() {
	if w.entries == 0 {
		return
	}
	w.nodes++
	w.dst = w.key.Append(raw.AppendLength(w.dst, 16))
	head := raw.AppendListpackInt(nil, int64(w.entries))
	head = raw.AppendListpackInt(head, 0)
	head = raw.AppendListpackInt(head, int64(len(w.master)))
	for _, f := range w.master {
		head = raw.AppendListpackString(head, f)
	}
	head = raw.AppendListpackInt(head, 0)
	w.dst = raw.AppendListpack(w.dst, 4+len(w.master)+w.elems, head, w.node)
	w.node, w.entries, w.elems = w.node[:0], 0, 0
}

// End ends the stream. s has everything except the entries. It returns the result, and the version of the format that
// it needs.
func (w *StreamWriter) End(s *StreamValue) (dst []byte, version uint16) {
	w.flush()
	kind := w.typeOf(s)
	if w.at >= 0 {
		w.dst[w.at] = kind
		binary.BigEndian.PutUint32(w.dst[w.at+2:], w.nodes)
	}
	dst = raw.AppendID(raw.AppendLength(w.dst, w.length), s.Last)
	if kind == typeStream {
		return append(dst, 0), streamVersion
	}
	dst = raw.AppendID(raw.AppendID(dst, w.first), s.MaxDeleted)
	dst = raw.AppendLength(dst, s.EntriesAdded)
	dst = raw.AppendLength(dst, uint64(len(s.Groups)))
	for i := range s.Groups {
		dst = appendGroup(dst, &s.Groups[i])
	}
	return dst, stream2Version
}

func appendGroup(dst []byte, g *StreamGroup) []byte {
	dst = raw.AppendID(AppendString(dst, g.Name), g.Last)
	dst = raw.AppendLength(dst, uint64(g.EntriesRead))
	dst = raw.AppendLength(dst, uint64(len(g.Pending)))
	of := make([][]byte, len(g.Consumers))
	for _, p := range g.Pending {
		dst = binary.LittleEndian.AppendUint64(p.ID.Append(dst), p.Delivered)
		dst = raw.AppendLength(dst, p.Deliveries)
		of[p.Consumer] = p.ID.Append(of[p.Consumer])
	}
	dst = raw.AppendLength(dst, uint64(len(g.Consumers)))
	for i, c := range g.Consumers {
		dst = binary.LittleEndian.AppendUint64(AppendString(dst, c.Name), c.Seen)
		dst = raw.AppendLength(dst, uint64(len(of[i])/16))
		dst = append(dst, of[i]...)
	}
	return dst
}

// AppendValue appends the type and the whole value, in plain forms, and returns the version of the format that it
// needs. It panics for a value of the kind NoKind.
func AppendValue(dst []byte, v *Value) (out []byte, version uint16) {
	switch v.Kind {
	case String:
		return AppendString(AppendHead(dst, String, 0), v.String), PlainVersion
	case List, Set:
		dst = AppendHead(dst, v.Kind, uint64(len(v.Elems)))
		for _, e := range v.Elems {
			dst = AppendString(dst, e)
		}
	case ZSet:
		dst = AppendHead(dst, ZSet, uint64(len(v.Elems)))
		for i, e := range v.Elems {
			dst = AppendScore(AppendString(dst, e), v.Scores[i])
		}
	case Hash:
		return appendHash(dst, v)
	case Stream:
		w := NewStreamWriter(dst)
		for i := range v.Stream.Entries {
			w.Add(v.Stream.Entries[i].ID, v.Stream.Entries[i].Fields)
		}
		return w.End(v.Stream)
	case JSON, TDigest, Cuckoo:
		return appendModule(dst, v), PlainVersion
	default:
		panic("rdb: a value of no kind")
	}
	return dst, PlainVersion
}

func appendHash(dst []byte, v *Value) (out []byte, version uint16) {
	n := uint64(len(v.Elems) / 2)
	first := uint64(0)
	for _, at := range v.Expires {
		if at != 0 && (first == 0 || at < first) {
			first = at
		}
	}
	if first == 0 {
		dst = AppendHead(dst, Hash, n)
		for _, e := range v.Elems {
			dst = AppendString(dst, e)
		}
		return dst, PlainVersion
	}
	dst = AppendExpiringHead(dst, first, n)
	for i, at := range v.Expires {
		dst = AppendString(AppendString(AppendExpiry(dst, first, at), v.Elems[2*i]), v.Elems[2*i+1])
	}
	return dst, ExpiringVersion
}

// AppendAux appends a field of information about the file.
func AppendAux(dst []byte, name, value string) []byte {
	return AppendString(AppendString(append(dst, opAux), []byte(name)), []byte(value))
}

// AppendFunction appends the source of a function library.
func AppendFunction(dst, source []byte) []byte { return AppendString(append(dst, opFunction), source) }

// AppendSelect appends the number of the database of the keys that follow.
func AppendSelect(dst []byte, db uint64) []byte { return raw.AppendLength(append(dst, opSelectDB), db) }

// AppendKey appends a key of a file. body is that of DUMP; expire is in milliseconds since the epoch, 0 = none.
func AppendKey(dst, key, body []byte, expire int64) []byte {
	if expire != 0 {
		dst = binary.LittleEndian.AppendUint64(append(dst, opExpireMs), uint64(expire))
	}
	return append(AppendString(append(dst, body[0]), key), body[1:]...)
}
