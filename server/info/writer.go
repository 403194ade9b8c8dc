package info

import (
	"fmt"
	"strconv"
)

// Writer collects the fields of a section, or the parts of a record.
type Writer struct{ fields []Field }

// Fields returns the collected fields.
func (w *Writer) Fields() []Field { return w.fields }

// Add adds a field of any kind.
func (w *Writer) Add(f Field) { w.fields = append(w.fields, f) }

// Text adds a text.
func (w *Writer) Text(name, value string) { w.Add(Field{Name: name, Kind: Text, Text: value}) }

// Flag adds 1 or 0.
func (w *Writer) Flag(name string, on bool) {
	f := Field{Name: name, Kind: Flag}
	if on {
		f.Int = 1
	}
	w.Add(f)
}

// Gauge adds a number that rises and falls.
func (w *Writer) Gauge(name string, unit Unit, n int64) {
	w.Add(Field{Name: name, Kind: Gauge, Unit: unit, Int: n})
}

// Counter adds a number that only rises.
func (w *Writer) Counter(name string, unit Unit, n int64) {
	w.Add(Field{Name: name, Kind: Counter, Unit: unit, Int: n})
}

// Float adds a number that rises and falls; INFO shows it with two decimals.
func (w *Writer) Float(name string, unit Unit, f float64) {
	w.Add(Field{Name: name, Kind: Gauge, Unit: unit, Float: f, Decimals: 2})
}

// Of adds one instance of a number with a label; INFO shows it as family[label].
func (w *Writer) Of(family, label string, kind Kind, unit Unit, n int64) {
	w.Add(Field{Name: family + "[" + label + "]", Family: family, Label: label, Kind: kind, Unit: unit, Int: n})
}

// Human adds a number of bytes, and a second field with the same number in a readable unit.
func (w *Writer) Human(name string, n int64) {
	w.Gauge(name, Bytes, n)
	w.Text(name+"_human", Human(n))
}

// Percent adds a whole percentage, 0 if whole is 0. INFO shows a space before it, as Kvrocks does.
func (w *Writer) Percent(name string, part, whole int64) {
	f := Field{Name: name, Kind: Gauge, Unit: Percent, spaced: true}
	if whole > 0 {
		f.Int = part * 100 / whole
	}
	w.Add(f)
}

// Record adds numbers that INFO shows in one line, as name:part=value,part=value. label is the part of the name that
// distinguishes records of one family; empty if the family has only one.
func (w *Writer) Record(name, label string, parts func(w *Writer)) {
	var p Writer
	parts(&p)
	f := Field{Name: name, Kind: Record, Parts: p.fields}
	if label != "" {
		f.Label = label
		f.Family = trimLabel(name, label)
	}
	w.Add(f)
}

// trimLabel returns name without the label and the separator at its end.
func trimLabel(name, label string) string {
	family := name[:len(name)-len(label)]
	if n := len(family); n > 0 && family[n-1] == '_' {
		family = family[:n-1]
	}
	return family
}

// Comment adds a line for human readers.
func (w *Writer) Comment(text string) { w.Add(Field{Kind: Comment, Text: text}) }

// Human returns a number of bytes with a unit, in Redis's form: 1.50M.
func Human(n int64) string {
	if n < 1024 {
		return strconv.FormatInt(n, 10) + "B"
	}
	f := float64(n) / 1024
	units := "KMGTP"
	i := 0
	for ; f >= 1024 && i < len(units)-1; i++ {
		f /= 1024
	}
	return fmt.Sprintf("%.2f%c", f, units[i])
}
