package json

const hexDigits = "0123456789abcdef"

// appendString appends a string in quotes. Only quotes, backslashes and control characters are escaped.
func appendString(dst []byte, s string) []byte {
	dst = append(dst, '"')
	from := 0
	for i := range len(s) {
		c := s[i]
		if plain[c] {
			continue
		}
		dst = append(dst, s[from:i]...)
		from = i + 1
		switch c {
		case '"', '\\':
			dst = append(dst, '\\', c)
		case '\b':
			dst = append(dst, '\\', 'b')
		case '\f':
			dst = append(dst, '\\', 'f')
		case '\n':
			dst = append(dst, '\\', 'n')
		case '\r':
			dst = append(dst, '\\', 'r')
		case '\t':
			dst = append(dst, '\\', 't')
		default:
			dst = append(dst, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
		}
	}
	return append(append(dst, s[from:]...), '"')
}

// Append appends the text of a value without white space.
func Append(dst []byte, v *Value) []byte {
	w := Printer{Dst: dst}
	w.Value(v)
	return w.Dst
}

// Format is the white space of JSON.GET. The zero Format uses none.
type Format struct {
	Indent  string // before an element or member, once a level
	Newline string // before an element, member or closing bracket
	Space   string // between a colon and the value
}

// Printer writes values as text up to a size limit: the values that a path selects can contain each other, so their
// text may be far longer than the document.
type Printer struct {
	Format
	Dst   []byte
	Limit int // max bytes of Dst, 0 = no limit. Printing stops soon after; see Full
	level int
}

// Full reports whether the limit was exceeded; then Dst is incomplete.
func (w *Printer) Full() bool { return w.Limit > 0 && len(w.Dst) > w.Limit }

func (w *Printer) newline() {
	if w.Newline == "" && w.Indent == "" {
		return
	}
	w.Dst = append(w.Dst, w.Newline...)
	for range w.level {
		w.Dst = append(w.Dst, w.Indent...)
		if w.Full() {
			return
		}
	}
}

// Open begins an array or object; bracket opens it.
func (w *Printer) Open(bracket byte) {
	w.Dst = append(w.Dst, bracket)
	w.level++
}

// Next begins an element of an array.
func (w *Printer) Next(first bool) {
	if !first {
		w.Dst = append(w.Dst, ',')
	}
	w.newline()
}

// Name begins a member of an object.
func (w *Printer) Name(name string, first bool) {
	w.Next(first)
	w.Dst = appendString(w.Dst, name)
	w.Dst = append(w.Dst, ':')
	w.Dst = append(w.Dst, w.Space...)
}

// Close ends an array or object.
func (w *Printer) Close(bracket byte, empty bool) {
	w.level--
	if !empty {
		w.newline()
	}
	w.Dst = append(w.Dst, bracket)
}

// Value writes a value.
func (w *Printer) Value(v *Value) {
	switch v.kind {
	case Null:
		w.Dst = append(w.Dst, "null"...)
	case Bool:
		if v.Bool() {
			w.Dst = append(w.Dst, "true"...)
		} else {
			w.Dst = append(w.Dst, "false"...)
		}
	case String:
		w.Dst = appendString(w.Dst, v.text)
	case Array:
		w.Open('[')
		for i := range v.box.vals {
			if w.Full() {
				return
			}
			w.Next(i == 0)
			w.Value(&v.box.vals[i])
		}
		w.Close(']', len(v.box.vals) == 0)
	case Object:
		w.Open('{')
		for i := range v.box.vals {
			if w.Full() {
				return
			}
			w.Name(v.box.keys[i], i == 0)
			w.Value(&v.box.vals[i])
		}
		w.Close('}', len(v.box.vals) == 0)
	default:
		w.Dst = appendNumber(w.Dst, v)
	}
}

// depth returns the nesting depth of arrays and objects in a value, or limit + 1 if it exceeds limit.
func depth(v *Value, limit int) int {
	if v.box == nil {
		return 0
	}
	if limit <= 0 {
		return 1
	}
	deepest := 0
	for i := range v.box.vals {
		if v.box.vals[i].box == nil {
			continue
		}
		if deepest = max(deepest, depth(&v.box.vals[i], limit-1)); deepest >= limit {
			break
		}
	}
	return deepest + 1
}
