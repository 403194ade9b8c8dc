package cf

import (
	"bytes"
	"encoding/binary"
	"math"
	"slices"
)

// AppendSearchIndex appends the value of an index record: u8 flags (0) · u8 type of the indexed keys, TypeHash
// or TypeJSON.
func AppendSearchIndex(dst []byte, on Type) []byte { return append(dst, 0, byte(on)) }

// DecodeSearchIndex returns the type of the indexed keys.
func DecodeSearchIndex(b []byte) (on Type, err error) {
	if len(b) < 2 || b[0] != 0 {
		return 0, corrupt("index record %q", b)
	}
	if on = Type(b[1]); on != TypeHash && on != TypeJSON {
		return 0, corrupt("index on type %d", b[1])
	}
	return on, nil
}

// AppendSearchPrefixes appends the value of a prefixes record.
func AppendSearchPrefixes(dst []byte, prefixes [][]byte) []byte {
	for _, p := range prefixes {
		dst = AppendSized(dst, p)
	}
	return dst
}

// DecodeSearchPrefixes appends the prefixes of a record to dst. They alias b.
func DecodeSearchPrefixes(dst [][]byte, b []byte) ([][]byte, error) {
	for len(b) > 0 {
		p, rest, err := CutSized(b)
		if err != nil {
			return dst, err
		}
		dst, b = append(dst, p), rest
	}
	return dst, nil
}

// SearchFieldType is the type of an indexed field.
type SearchFieldType uint8

// The field types with their numbers on disk.
const (
	SearchTag     SearchFieldType = 1
	SearchNumeric SearchFieldType = 2
	SearchVector  SearchFieldType = 3
)

// SearchField is the value of a SearchFieldMeta record: u8 flags (bit 0 NOINDEX, from bit 1 the type), then
//
//	TAG      u8 separator · u8 case sensitive
//	NUMERIC  nothing
//	VECTOR   u8 vector type · u16 dimensions · u8 metric · u32 initial capacity · u16 m ·
//	         u32 ef construction · u32 ef runtime · f64 epsilon · u16 levels
type SearchField struct {
	Type    SearchFieldType
	NoIndex bool

	Separator     byte // of TAG
	CaseSensitive bool // of TAG

	Vector SearchVectorParams // of VECTOR
}

// TagKey returns how a tag is written in an entry: letters of ASCII in lower case unless the field tells them apart.
func (f *SearchField) TagKey(tag []byte) []byte {
	if f.CaseSensitive {
		return tag
	}
	b := bytes.Clone(tag)
	for i, c := range b {
		if 'A' <= c && c <= 'Z' {
			b[i] = c + 'a' - 'A'
		}
	}
	return b
}

// SearchVectorParams describes the vectors of a field and the HNSW graph over them.
type SearchVectorParams struct {
	VectorType     uint8 // 1: FLOAT64
	Dim            uint16
	Metric         uint8 // 0 L2, 1 inner product, 2 cosine
	InitialCap     uint32
	M              uint16
	EFConstruction uint32
	EFRuntime      uint32
	Epsilon        float64
	Levels         uint16
}

const searchVectorLen = 28

// Append appends the encoded value.
func (f *SearchField) Append(dst []byte) []byte {
	flags := byte(f.Type) << 1
	if f.NoIndex {
		flags |= 1
	}
	dst = append(dst, flags)
	switch f.Type {
	case SearchTag:
		sensitive := byte(0)
		if f.CaseSensitive {
			sensitive = 1
		}
		return append(dst, f.Separator, sensitive)
	case SearchVector:
		v := &f.Vector
		dst = append(dst, v.VectorType)
		dst = binary.BigEndian.AppendUint16(dst, v.Dim)
		dst = append(dst, v.Metric)
		dst = binary.BigEndian.AppendUint32(dst, v.InitialCap)
		dst = binary.BigEndian.AppendUint16(dst, v.M)
		dst = binary.BigEndian.AppendUint32(dst, v.EFConstruction)
		dst = binary.BigEndian.AppendUint32(dst, v.EFRuntime)
		dst = AppendDouble(dst, v.Epsilon)
		return binary.BigEndian.AppendUint16(dst, v.Levels)
	}
	return dst
}

// DecodeSearchField decodes the value of a SearchFieldMeta record.
func DecodeSearchField(b []byte) (f SearchField, err error) {
	if len(b) == 0 {
		return f, corrupt("empty field record")
	}
	f.Type, f.NoIndex = SearchFieldType(b[0]>>1), b[0]&1 != 0
	b = b[1:]
	switch {
	case f.Type == SearchTag && len(b) == 2 && b[1] <= 1:
		f.Separator, f.CaseSensitive = b[0], b[1] != 0
	case f.Type == SearchNumeric && len(b) == 0:
	case f.Type == SearchVector && len(b) == searchVectorLen:
		f.Vector = SearchVectorParams{
			VectorType:     b[0],
			Dim:            binary.BigEndian.Uint16(b[1:]),
			Metric:         b[3],
			InitialCap:     binary.BigEndian.Uint32(b[4:]),
			M:              binary.BigEndian.Uint16(b[8:]),
			EFConstruction: binary.BigEndian.Uint32(b[10:]),
			EFRuntime:      binary.BigEndian.Uint32(b[14:]),
			Epsilon:        DecodeDouble(binary.BigEndian.Uint64(b[18:])),
			Levels:         binary.BigEndian.Uint16(b[26:]),
		}
	default:
		return SearchField{}, corrupt("record of a field of type %d with %d more bytes", f.Type, len(b))
	}
	return f, nil
}

// AppendSearchNodeValue appends the value of a graph node: u16 neighbours · u16 dimensions · f64 each.
func AppendSearchNodeValue(dst []byte, neighbours uint16, vector []float64) []byte {
	dst = binary.BigEndian.AppendUint16(dst, neighbours)
	dst = binary.BigEndian.AppendUint16(dst, uint16(min(len(vector), math.MaxUint16)))
	for _, x := range vector {
		dst = AppendDouble(dst, x)
	}
	return dst
}

// DecodeSearchNodeValue decodes the value of a graph node and appends its vector to dst.
func DecodeSearchNodeValue(dst []float64, b []byte) (neighbours uint16, vector []float64, err error) {
	if len(b) < 4 || len(b)-4 != ScoreLen*int(binary.BigEndian.Uint16(b[2:])) {
		return 0, dst, corrupt("graph node of %d bytes", len(b))
	}
	n, from := int(binary.BigEndian.Uint16(b[2:])), len(dst)
	dst = slices.Grow(dst, n)[:from+n]
	for i := range dst[from:] {
		dst[from+i] = DecodeDouble(binary.BigEndian.Uint64(b[4+ScoreLen*i:]))
	}
	return binary.BigEndian.Uint16(b), dst, nil
}
