package cf

import "encoding/binary"

// SearchKind is the kind of a record of the search family.
type SearchKind uint8

// The kinds with their numbers on disk.
const (
	SearchIndexMeta SearchKind = 0 // the index: SearchIndex
	SearchPrefixes  SearchKind = 1 // which keys are indexed: repeated sized(prefix), none = all
	SearchFieldMeta SearchKind = 2 // sized(field): SearchField
	SearchFieldData SearchKind = 3 // sized(field) · what the field's type has
)

// AppendSearchPrefix appends the common prefix of the keys of one kind of an index. For SearchIndexMeta and
// SearchPrefixes it is the whole key:
//
//	u8 len(ns) · ns · u8 kind · sized(index)
//
// sized is u32 length · bytes. Search keys never carry a slot.
func AppendSearchPrefix(dst []byte, ns string, kind SearchKind, index []byte) []byte {
	dst = append(AppendNSPrefix(dst, ns), byte(kind))
	return AppendSized(dst, index)
}

// AppendSearchField appends the key of a field's SearchFieldMeta, or the common prefix of the keys of its
// SearchFieldData.
func AppendSearchField(dst []byte, ns string, kind SearchKind, index, field []byte) []byte {
	return AppendSized(AppendSearchPrefix(dst, ns, kind, index), field)
}

// AppendSearchTag appends, to the prefix of a TAG field's data, sized(tag) · sized(user key).
func AppendSearchTag(dst, tag, userKey []byte) []byte {
	return AppendSized(AppendSized(dst, tag), userKey)
}

// AppendSearchNumeric appends, to the prefix of a NUMERIC field's data, f64 · sized(user key).
func AppendSearchNumeric(dst []byte, n float64, userKey []byte) []byte {
	return AppendSized(AppendDouble(dst, n), userKey)
}

const (
	hnswNode = 1
	hnswEdge = 2
)

// AppendSearchNodePrefix appends, to the prefix of a VECTOR field's data, the common prefix of the nodes of a level.
func AppendSearchNodePrefix(dst []byte, level uint16) []byte {
	return append(binary.BigEndian.AppendUint16(dst, level), hnswNode)
}

// AppendSearchEdgePrefix appends, to the prefix of a VECTOR field's data, the common prefix of the edges of a node.
func AppendSearchEdgePrefix(dst []byte, level uint16, from []byte) []byte {
	return AppendSized(append(binary.BigEndian.AppendUint16(dst, level), hnswEdge), from)
}

// AppendSearchNode appends, to the prefix of a VECTOR field's data, u16 level · u8 1 · sized(user key).
func AppendSearchNode(dst []byte, level uint16, userKey []byte) []byte {
	return AppendSized(AppendSearchNodePrefix(dst, level), userKey)
}

// AppendSearchEdge appends, to the prefix of a VECTOR field's data, u16 level · u8 2 · sized(from) · sized(to).
func AppendSearchEdge(dst []byte, level uint16, from, to []byte) []byte {
	return AppendSized(AppendSearchEdgePrefix(dst, level, from), to)
}

// AppendSized appends u32 length · bytes.
func AppendSized(dst, b []byte) []byte {
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(b)))
	return append(dst, b...)
}

// CutSized removes a sized string from the beginning of b. s and rest alias b.
func CutSized(b []byte) (s, rest []byte, err error) {
	if len(b) < 4 {
		return nil, nil, corrupt("sized string with %d bytes left", len(b))
	}
	n := binary.BigEndian.Uint32(b)
	b = b[4:]
	if uint64(n) > uint64(len(b)) {
		return nil, nil, corrupt("sized string of %d bytes with %d left", n, len(b))
	}
	return b[:n], b[n:], nil
}

// SearchKey is a decoded key of the search family. The slices alias the key.
type SearchKey struct {
	Namespace []byte
	Kind      SearchKind
	Index     []byte
	Field     []byte // of SearchFieldMeta and SearchFieldData
	Data      []byte // of SearchFieldData: what follows the field, by the field's type
}

// FieldKey returns the key of the definition of the field.
func (k *SearchKey) FieldKey() []byte {
	return AppendSearchField(nil, string(k.Namespace), SearchFieldMeta, k.Index, k.Field)
}

// ParseSearchKey decodes a key of the search family.
func ParseSearchKey(key []byte) (k SearchKey, err error) {
	if len(key) == 0 || len(key) < 2+int(key[0]) {
		return k, corrupt("search key of %d bytes is shorter than its namespace", len(key))
	}
	n := 1 + int(key[0])
	k.Namespace, k.Kind = key[1:n], SearchKind(key[n])
	if k.Kind > SearchFieldData {
		return SearchKey{}, corrupt("search key of kind %d", key[n])
	}
	rest := key[n+1:]
	if k.Index, rest, err = CutSized(rest); err != nil {
		return SearchKey{}, err
	}
	if k.Kind >= SearchFieldMeta {
		if k.Field, rest, err = CutSized(rest); err != nil {
			return SearchKey{}, err
		}
	}
	if k.Kind == SearchFieldData {
		k.Data, rest = rest, nil
	}
	if len(rest) != 0 {
		return SearchKey{}, corrupt("%d bytes after a search key", len(rest))
	}
	return k, nil
}

// ParseSearchTag decodes the data part of a TAG field's key.
func ParseSearchTag(data []byte) (tag, userKey []byte, err error) {
	tag, data, err = CutSized(data)
	if err != nil {
		return nil, nil, err
	}
	userKey, err = lastSized(data)
	return tag, userKey, err
}

// ParseSearchNumeric decodes the data part of a NUMERIC field's key.
func ParseSearchNumeric(data []byte) (n float64, userKey []byte, err error) {
	n, err = ParseDouble(data)
	if err != nil {
		return 0, nil, err
	}
	userKey, err = lastSized(data[ScoreLen:])
	return n, userKey, err
}

// SearchGraph is the data part of a VECTOR field's key: a node, or an edge to a neighbour.
type SearchGraph struct {
	Level uint16
	Edge  bool
	From  []byte // the user key
	To    []byte // of an edge
}

// ParseSearchGraph decodes the data part of a VECTOR field's key.
func ParseSearchGraph(data []byte) (g SearchGraph, err error) {
	if len(data) < 3 {
		return g, corrupt("graph key of %d bytes", len(data))
	}
	g.Level = binary.BigEndian.Uint16(data)
	rest := data[3:]
	switch data[2] {
	case hnswNode:
		g.From, err = lastSized(rest)
	case hnswEdge:
		g.Edge = true
		if g.From, rest, err = CutSized(rest); err == nil {
			g.To, err = lastSized(rest)
		}
	default:
		err = corrupt("graph key of kind %d", data[2])
	}
	if err != nil {
		return SearchGraph{}, err
	}
	return g, nil
}

// lastSized decodes a sized string that must be the last part of b.
func lastSized(b []byte) ([]byte, error) {
	s, rest, err := CutSized(b)
	if err == nil && len(rest) != 0 {
		err = corrupt("%d bytes after a sized string", len(rest))
	}
	if err != nil {
		return nil, err
	}
	return s, nil
}
