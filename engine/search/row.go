package search

import (
	"bytes"
	"math"
	"strconv"
	"strings"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/json"
)

// Value is the value of a field of a key.
type Value struct {
	Exists bool
	Num    float64   // of NUMERIC
	Tags   [][]byte  // of TAG, as they are written
	Vector []float64 // of VECTOR
}

// Row is an indexed key with the values of its fields.
type Row struct {
	Key    []byte
	Values []Value // by the order of Index.Fields

	ended bool // the key, or a field of it, has expired: its entries may be missing
}

// Value returns the value of a field of the index.
func (r *Row) Value(f *Field) *Value { return &r.Values[f.at] }

// Append appends the text of a value, as Kvrocks replies with it.
func (v *Value) Append(dst []byte, f *Field) []byte {
	switch f.Type {
	case cf.SearchTag:
		return append(dst, bytes.Join(v.Tags, []byte{f.Separator})...)
	case cf.SearchNumeric:
		return appendNumber(dst, v.Num)
	}
	return appendVector(dst, v.Vector)
}

// appendVector appends the numbers of a vector with six decimals, as Kvrocks does.
func appendVector(dst []byte, v []float64) []byte {
	for i, x := range v {
		if i > 0 {
			dst = append(dst, ", "...)
		}
		dst = strconv.AppendFloat(dst, x, 'f', 6, 64)
	}
	return dst
}

// appendNumber appends the shortest decimal that is the number, with an exponent below 1e-4 and from 1e16 on.
func appendNumber(dst []byte, x float64) []byte {
	switch a := math.Abs(x); {
	case math.IsInf(x, 0):
		return append(dst, strings.ToLower(strings.TrimPrefix(strconv.FormatFloat(x, 'g', -1, 64), "+"))...)
	case a != 0 && (a < 1e-4 || a >= 1e16):
		return strconv.AppendFloat(dst, x, 'e', -1, 64)
	}
	return strconv.AppendFloat(dst, x, 'f', -1, 64)
}

// rows reads the rows of keys with batched reads, from a snapshot or, with nil, from the present. Keys that are
// missing, have expired at the time now, have another type, or are not indexed because of a field, are left out.
func (ix *Index) rows(tx *engine.Tx, snap *engine.Snapshot, now int64, keys [][]byte) ([]Row, error) {
	get := func(id cf.ID, l *engine.KeyList) ([][]byte, error) {
		if snap != nil {
			return tx.MultiGetAt(snap, id, l)
		}
		return tx.MultiGet(id, l)
	}
	slots := tx.DB().Slots()
	list := tx.Keys()
	var buf []byte
	for _, key := range keys {
		buf = cf.AppendNSKey(buf[:0], ix.Namespace, key, slots)
		list.Add(buf)
	}
	records, err := get(cf.Metadata, list)
	if err != nil {
		return nil, err
	}
	rows := make([]Row, 0, len(keys))
	var ttl []bool // whether the fields of the row's hash may expire
	list = tx.Keys()
	for i, raw := range records {
		if raw == nil {
			continue
		}
		meta, tail, err := cf.DecodeMeta(raw)
		if err != nil || meta.Type != ix.On || !meta.Live(now) {
			continue
		}
		row := Row{Key: keys[i], Values: make([]Value, len(ix.Fields)), ended: !meta.Live(tx.Now())}
		if ix.On == cf.TypeJSON {
			if ix.fromJSON(&row, tail) {
				rows = append(rows, row)
			}
			continue
		}
		_, expires, err := cf.DecodeHashTail(tail)
		if err != nil {
			continue
		}
		rows, ttl = append(rows, row), append(ttl, expires)
		buf = cf.AppendNSKey(buf[:0], ix.Namespace, keys[i], slots)
		sub := cf.AppendSubkeyPrefix(nil, buf, slots, meta.Version)
		for _, f := range ix.Fields {
			list.Add(append(sub[:len(sub):len(sub)], f.Name...))
		}
	}
	if ix.On == cf.TypeJSON || len(rows) == 0 {
		return rows, nil
	}
	values, err := get(cf.Default, list)
	if err != nil {
		return nil, err
	}
	kept := rows[:0]
	for i, row := range rows {
		if ix.fromHash(&row, values[i*len(ix.Fields):], ttl[i], now, tx.Now()) {
			kept = append(kept, row)
		}
	}
	return kept, nil
}

// fromHash fills in a row from the records of the fields, as of the time now. It reports whether the key is indexed.
func (ix *Index) fromHash(row *Row, values [][]byte, ttl bool, now, present int64) bool {
	for i, f := range ix.Fields {
		b := values[i]
		if b == nil {
			continue
		}
		if ttl {
			expire, v, err := cf.DecodeHashValue(b)
			if err != nil {
				return false
			}
			if cf.FieldExpired(expire, now) {
				continue
			}
			row.ended = row.ended || cf.FieldExpired(expire, present)
			b = v
		}
		if !row.Values[i].parse(f, b) && !f.NoIndex {
			return false
		}
	}
	return true
}

// parse reads the value of a hash field.
func (v *Value) parse(f *Field, b []byte) bool {
	switch f.Type {
	case cf.SearchTag:
		v.Tags = split(b, f.Separator)
	case cf.SearchNumeric:
		x, err := strconv.ParseFloat(string(b), 64)
		if err != nil || math.IsNaN(x) || bytes.IndexByte(b, '_') >= 0 {
			return false
		}
		v.Num = x
	case cf.SearchVector:
		if len(b) != 8*int(f.Vector.Dim) {
			return false
		}
		v.Vector = vectorOf(b)
	}
	v.Exists = true
	return true
}

// split cuts a text at the separators, and removes blanks around the parts. Empty parts are left out.
func split(b []byte, separator byte) [][]byte {
	var parts [][]byte
	for p := range bytes.SplitSeq(b, []byte{separator}) {
		if p = bytes.Trim(p, " \t\r\n\v\f"); len(p) > 0 {
			parts = append(parts, p)
		}
	}
	return parts
}

// fromJSON fills in a row from a document. It reports whether the key is indexed.
func (ix *Index) fromJSON(row *Row, tail []byte) bool {
	doc, err := json.Decode(tail, json.NewBudget(0))
	if err != nil {
		return false
	}
	for i, f := range ix.Fields {
		found, err := doc.Select(f.path)
		if err != nil {
			return false
		}
		if len(found) == 1 && !row.Values[i].convert(f, found[0]) && !f.NoIndex {
			return false
		}
	}
	return true
}

// convert reads the value of a part of a document.
func (v *Value) convert(f *Field, j *json.Value) bool {
	switch f.Type {
	case cf.SearchTag:
		switch {
		case j.Kind() == json.String:
			v.Tags = split([]byte(j.Text()), f.Separator)
		case j.Kind() == json.Array:
			for i := range j.Len() {
				if j.At(i).Kind() != json.String {
					return false
				}
				v.Tags = append(v.Tags, []byte(j.At(i).Text()))
			}
		default:
			return false
		}
	case cf.SearchNumeric:
		if !j.IsNumber() {
			return false
		}
		v.Num = j.Float()
	case cf.SearchVector:
		if j.Kind() != json.Array || j.Len() != int(f.Vector.Dim) {
			return false
		}
		for i := range j.Len() {
			if !j.At(i).IsNumber() {
				return false
			}
			v.Vector = append(v.Vector, j.At(i).Float())
		}
	}
	v.Exists = true
	return true
}

// isTag reports whether a tag has this key, see [cf.SearchField.TagKey].
func (f *Field) isTag(tag, key []byte) bool {
	if f.CaseSensitive || len(tag) != len(key) {
		return bytes.Equal(tag, key)
	}
	for i, c := range tag {
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		if c != key[i] {
			return false
		}
	}
	return true
}
