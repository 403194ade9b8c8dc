// Package info implements the output of INFO and MEMORY: sections of typed fields, and a breakdown of the memory of the
// process.
//
// A section is registered under its name by the package that has its values; several may add to one section. The fields
// are typed, so that INFO's text, its JSON form and other exporters use the same values.
package info

import (
	"encoding/json"
	"strconv"
	"strings"
)

// Kind is the kind of a field.
type Kind uint8

const (
	Text    Kind = iota // Field.Text
	Flag                // Field.Int: 0 or 1
	Gauge               // a number that rises and falls
	Counter             // a number that only rises, except when it is reset
	Record              // Field.Parts
	Comment             // a line of Field.Text for human readers, no value
)

// Unit is the unit of a number.
type Unit uint8

const (
	None Unit = iota
	Bytes
	Seconds
	Microseconds
	UnixTime  // seconds since 1970
	Percent   // INFO shows the sign
	PerSec    // events a second
	KiBPerSec // KiB a second
)

// Field is one value of a section.
type Field struct {
	Name string
	// Family and Label are the parts of a Name with several instances: cmdstat and get of cmdstat_get. Other fields
	// have neither.
	Family, Label string

	Kind Kind
	Unit Unit
	Text string
	// Int is the value of a number with Decimals 0. Otherwise the value is Float, shown by INFO with that many
	// decimals.
	Int      int64
	Float    float64
	Decimals int
	Parts    []Field

	// spaced adds a space before the value in INFO, as Kvrocks does for some fields.
	spaced bool
}

// Value returns the value of a number.
func (f *Field) Value() float64 {
	if f.Decimals > 0 {
		return f.Float
	}
	return float64(f.Int)
}

// appendText appends the value as in INFO's text.
func (f *Field) appendText(b []byte) []byte {
	if f.spaced {
		b = append(b, ' ')
	}
	switch f.Kind {
	case Text, Comment:
		return append(b, f.Text...)
	case Record:
		for i := range f.Parts {
			if i > 0 {
				b = append(b, ',')
			}
			b = append(append(b, f.Parts[i].Name...), '=')
			b = f.Parts[i].appendText(b)
		}
		return b
	}
	b = f.appendNumber(b)
	if f.Unit == Percent {
		b = append(b, '%')
	}
	return b
}

func (f *Field) appendNumber(b []byte) []byte {
	if f.Decimals > 0 {
		return strconv.AppendFloat(b, f.Float, 'f', f.Decimals, 64)
	}
	return strconv.AppendInt(b, f.Int, 10)
}

// appendJSON appends the value as JSON: a string, a number, a boolean, or an object of the parts.
func (f *Field) appendJSON(b []byte) []byte {
	switch f.Kind {
	case Text, Comment:
		return appendString(b, f.Text)
	case Flag:
		return strconv.AppendBool(b, f.Int != 0)
	case Record:
		b = append(b, '{')
		for i := range f.Parts {
			if i > 0 {
				b = append(b, ',')
			}
			b = append(appendString(b, f.Parts[i].Name), ':')
			b = f.Parts[i].appendJSON(b)
		}
		return append(b, '}')
	default:
		return f.appendNumber(b)
	}
}

func appendString(b []byte, s string) []byte {
	text, err := json.Marshal(s)
	if err != nil {
		panic(err) // strings can always be marshaled
	}
	return append(b, text...)
}

// Section is one source of fields of a section of INFO.
type Section struct {
	Name string
	// Fields writes the current values. Key counts are those of the namespace.
	Fields func(w *Writer, namespace string)
}

// Sections are all sections of INFO, in the order of their first registration. Register must not be called after any
// other method; the other methods are safe for concurrent use.
type Sections struct {
	names  []string
	fields map[string][]func(w *Writer, namespace string)
}

// Register adds fields to sections. The first registration of a name creates the section.
func (s *Sections) Register(sections ...Section) {
	if s.fields == nil {
		s.fields = map[string][]func(*Writer, string){}
	}
	for _, sec := range sections {
		if _, ok := s.fields[sec.Name]; !ok {
			s.names = append(s.names, sec.Name)
		}
		s.fields[sec.Name] = append(s.fields[sec.Name], sec.Fields)
	}
}

// Each calls f with the fields of each section for which want returns true; want gets the name in lower case. It adds
// Redis's constant fields that the section did not write.
func (s *Sections) Each(want func(section string) bool, namespace string, f func(section string, fields []Field)) {
	for _, name := range s.names {
		if !want(strings.ToLower(name)) {
			continue
		}
		var w Writer
		for _, fields := range s.fields[name] {
			fields(&w, namespace)
		}
		w.addConstants(name)
		f(name, w.fields)
	}
}

// Text returns INFO's text of the wanted sections: a title, and a line "name:value" for each field.
func (s *Sections) Text(want func(section string) bool, namespace string) string {
	var b []byte
	s.Each(want, namespace, func(section string, fields []Field) {
		if len(b) > 0 {
			b = append(b, "\r\n"...)
		}
		b = append(append(append(b, "# "...), section...), "\r\n"...)
		for i := range fields {
			f := &fields[i]
			if f.Kind == Comment {
				b = append(b, "# "...)
			} else {
				b = append(append(b, f.Name...), ':')
			}
			b = append(f.appendText(b), "\r\n"...)
		}
	})
	return string(b)
}

// JSON returns the wanted sections as an object of objects.
func (s *Sections) JSON(want func(section string) bool, namespace string) string {
	b := []byte{'{'}
	s.Each(want, namespace, func(section string, fields []Field) {
		if len(b) > 1 {
			b = append(b, ',')
		}
		b = append(appendString(b, section), ":{"...)
		first := true
		for i := range fields {
			f := &fields[i]
			if f.Kind == Comment {
				continue
			}
			if !first {
				b = append(b, ',')
			}
			first = false
			b = f.appendJSON(append(appendString(b, f.Name), ':'))
		}
		b = append(b, '}')
	})
	return string(append(b, '}'))
}
