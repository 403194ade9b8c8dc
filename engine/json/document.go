package json

import (
	"fmt"
	"unsafe"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
)

// Options control how documents are written.
type Options struct {
	Format   cf.JSONFormat
	MaxDepth int // max nested arrays and objects, at most MaxDepth
	MaxBytes int // max size of a stored document
}

// DefaultOptions are a server's defaults.
var DefaultOptions = Options{Format: cf.JSONText, MaxDepth: 1024, MaxBytes: 512 << 20}

// Errors that become replies.
var (
	ErrNoKey     = engine.NewError("ERR", "could not perform this operation on a key that doesn't exist")
	ErrNewAtRoot = engine.NewError("ERR", "new objects must be created at the root")
	ErrNotStatic = engine.NewError("ERR", "wrong static path")
	ErrIndex     = engine.NewError("ERR", "array index out of range")
	ErrInsertAt  = engine.NewError("ERR", "index out of bounds")
	ErrNumber    = engine.NewError("ERR", "bad input number")
	ErrOverflow  = engine.NewError("ERR", "result is not a number")
	ErrTooLarge  = engine.NewError("ERR", "the document would be too large")
	ErrTooDeep   = engine.NewError("ERR", tooDeep)
)

// Document is a key's document in one transaction. It is decoded when it is first needed.
type Document struct {
	tx     *engine.Tx
	rec    engine.Record
	format cf.JSONFormat
	tail   []byte // of the record: the format and the encoded document; empty = the document does not exist
	top    *box   // nil = not decoded; otherwise its single element is the document
	left   *Budget
}

// Open reads a key. A key of another type gives [engine.ErrWrongType]. Path evaluations draw on the budget left, which
// grows with the length of the document ([ErrTooMuchWork]).
func Open(tx *engine.Tx, key []byte, left *Budget) (*Document, error) {
	d := &Document{tx: tx, left: left}
	var err error
	if d.rec, err = tx.Load(key, cf.TypeJSON); err != nil {
		return nil, err
	}
	if d.rec.Exists {
		d.tail = d.rec.Tail
		if d.format, _, err = cf.SplitJSONTail(d.tail); err != nil {
			return nil, d.corrupt(err)
		}
	}
	left.add(len(d.tail))
	return d, nil
}

// Decode decodes the tail of a metadata record into a document that can only be read. Its values alias the tail.
func Decode(tail []byte, left *Budget) (*Document, error) {
	format, body, err := cf.SplitJSONTail(tail)
	if err != nil {
		return nil, err
	}
	v, err := ParseStored(format, aliased(body))
	if err != nil {
		return nil, fmt.Errorf("%w: %v", cf.ErrCorrupt, err)
	}
	left.add(len(tail))
	return &Document{format: format, tail: tail, top: &box{vals: []Value{v}}, left: left}, nil
}

// ParseStored decodes the body of a stored document. Strings alias s.
func ParseStored(format cf.JSONFormat, s string) (Value, error) {
	if format == cf.JSONCBOR {
		return ParseCBOR(s, MaxDepth)
	}
	return Parse(s, MaxDepth)
}

// locateIn opens a document, whose key must exist (ErrNoKey), and returns the places of the results of a path. args is
// the length of the arguments in bytes.
func locateIn(tx *engine.Tx, key []byte, p *Path, args int) (*Document, []place, error) {
	d, err := Open(tx, key, NewBudget(args))
	if err != nil {
		return nil, nil, err
	}
	if !d.Exists() {
		return nil, nil, ErrNoKey
	}
	places, err := d.locate(p)
	return d, places, err
}

// corrupt returns the error for a record that cannot be decoded. It does not wrap err, whose text alone would not help
// users.
func (d *Document) corrupt(err error) error {
	return fmt.Errorf("key %q: %w: %v", d.tx.UserKey(&d.rec), cf.ErrCorrupt, err)
}

// Exists reports whether the document exists. The methods below require that.
func (d *Document) Exists() bool { return len(d.tail) > 0 }

// Format returns how the document is stored.
func (d *Document) Format() cf.JSONFormat { return d.format }

// Size returns the size of the stored document in bytes.
func (d *Document) Size() int { return len(d.body()) }

func (d *Document) body() []byte { return d.tail[1:] }

// SizeOf returns the size of a part of the document in bytes, in the document's stored format.
func (d *Document) SizeOf(v *Value) (int, error) {
	if err := d.left.take(count(v)); err != nil {
		return 0, err
	}
	// Another program may have written a shorter form: 1e15 takes 18 bytes here.
	var b []byte
	err := appendTo(&b, v, d.format, 8*len(d.tail))
	return len(b), err
}

// place decodes the document and returns its place.
func (d *Document) place() (place, error) {
	if d.top != nil {
		return place{in: d.top}, nil
	}
	// Strings of the values alias the text. The transaction's memory is valid only until the record is saved, so the
	// text is copied.
	v, err := ParseStored(d.format, string(d.body()))
	if err != nil {
		return place{}, d.corrupt(err)
	}
	d.top = &box{vals: []Value{v}}
	return place{in: d.top}, nil
}

// Select returns the results of a path.
func (d *Document) Select(p *Path) ([]*Value, error) {
	places, err := d.locate(p)
	if err != nil {
		return nil, err
	}
	values := make([]*Value, len(places))
	for i, at := range places {
		values[i] = at.value()
	}
	return values, nil
}

// First returns the first result of a path, nil if none exists.
func (d *Document) First(p *Path) (*Value, error) {
	root, err := d.place()
	if err != nil {
		return nil, err
	}
	var one [1]place
	w := walk{root: root, left: d.left, out: one[:0], max: 1}
	if _, err := w.from(root, p.segments); err != nil || w.n == 0 {
		return nil, err
	}
	return w.out[0].value(), nil
}

func (d *Document) locate(p *Path) ([]place, error) {
	root, err := d.place()
	if err != nil {
		return nil, err
	}
	return p.locate(root, d.left)
}

// AppendText appends the text of the whole document. It is faster than [Printer.Value] of [Document.First].
func (d *Document) AppendText(dst []byte) ([]byte, error) {
	if d.format == cf.JSONText && d.top == nil {
		// The text is already compact, unless the record is corrupt.
		dst, err := compact(dst, aliased(d.body()), MaxDepth, true)
		if err != nil {
			return dst, d.corrupt(err)
		}
		return dst, nil
	}
	root, err := d.place()
	if err != nil {
		return dst, err
	}
	return Append(dst, root.value()), nil
}

// replace makes text the content of the document.
func (d *Document) replace(text []byte, o *Options) error {
	tail := cf.AppendJSONTail(make([]byte, 0, 1+len(text)), o.Format)
	if o.Format == cf.JSONText {
		// Compact does not retain the text.
		var err error
		if tail, err = Compact(tail, aliased(text), o.MaxDepth); err != nil {
			return err
		}
	} else {
		v, err := Parse(string(text), o.MaxDepth)
		if err != nil {
			return err
		}
		tail = AppendCBOR(tail, &v)
	}
	if len(tail) > o.MaxBytes {
		return ErrTooLarge
	}
	d.format, d.tail, d.top = o.Format, tail, nil
	return nil
}

// encode encodes the values, if decoded, into the record's tail. The values must not be used afterwards.
func (d *Document) encode(o *Options) error {
	if d.top == nil {
		return nil
	}
	tail := cf.AppendJSONTail(make([]byte, 0, len(d.tail)+len(d.tail)/8+64), o.Format)
	if err := appendTo(&tail, &d.top.vals[0], o.Format, o.MaxBytes); err != nil {
		return err
	}
	d.tail, d.format, d.top = tail, o.Format, nil
	return nil
}

// save writes the document.
func (d *Document) save(o *Options) error {
	if err := d.encode(o); err != nil {
		return err
	}
	d.tx.LogData(cf.LogJSON)
	d.tx.SaveAppend(&d.rec, d.tail)
	return nil
}

// drop deletes the key.
func (d *Document) drop() {
	d.tx.LogData(cf.LogJSON)
	d.tx.Drop(&d.rec)
}

// appendTo appends an encoded value of at most limit bytes.
func appendTo(dst *[]byte, v *Value, f cf.JSONFormat, limit int) error {
	if f == cf.JSONCBOR {
		*dst = appendCBOR(*dst, v, limit)
	} else {
		w := Printer{Dst: *dst, Limit: limit}
		w.Value(v)
		*dst = w.Dst
	}
	if len(*dst) > limit {
		return ErrTooLarge
	}
	return nil
}

// aliased returns bytes as a string without copying them. The string must not outlive the content of the bytes.
func aliased(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }
