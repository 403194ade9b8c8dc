// Package info holds what INFO and MEMORY show: sections of typed fields, and where the memory of the process is.
//
// A section is registered under its name by whoever has its values; several may add to one section. The fields are
// typed, so that the text of INFO, its JSON form, and other exporters take the same values.
package info

import (
	"encoding/json"
	"strconv"
	"strings"
)

// Kind says what a field is.
type Kind uint8

const (
	Text    Kind = iota // Field.Text
	Flag                // Field.Int: 0 or 1
	Gauge               // a number that rises and falls
	Counter             // a number that only rises, until it is reset
	Record              // Field.Parts
	Comment             // a line of Field.Text for people, no value
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
	// Family and Label are the parts of the Name of a field that exists several times: cmdstat and get of cmdstat_get.
	// They are empty for the others.
	Family, Label string

	Kind Kind
	Unit Unit
	Text string
	// Int is the value of a number, unless Decimals is above 0: then it is Float, and INFO shows so many decimals.
	Int      int64
	Float    float64
	Decimals int
	Parts    []Field

	// spaced says that INFO shows a space before the value, as Kvrocks does for some.
	spaced bool
}

// Value returns a number as it is.
func (f *Field) Value() float64 {
	if f.Decimals > 0 {
		return f.Float
	}
	return float64(f.Int)
}

// appendText appends the value as INFO shows it.
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

// appendJSON appends the value: a string, a number, true or false, or an object of the parts.
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
		panic(err) // strings can be marshaled
	}
	return append(b, text...)
}

// Section is a part of INFO.
type Section struct {
	Name string
	// Fields writes the values of this moment. Keys are those of the namespace.
	Fields func(w *Writer, namespace string)
}

// Sections are all parts of INFO, in the order of their first registration. Register is not called any more when the
// others are; these may be called by several goroutines.
type Sections struct {
	names  []string
	fields map[string][]func(w *Writer, namespace string)
}

// Register adds fields to a section, which is made when it is first named.
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

// Each calls f with the fields of each section for which want is true of its name in lower case. The constant fields of
// Redis that nobody has given a value are added.
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

// Text returns INFO's text of the sections for which want is true: a title, and a line "name:value" for each field.
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

// JSON returns the sections for which want is true as an object of objects.
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
