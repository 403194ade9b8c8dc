package stream

import (
	"bytes"
	"math"
	"strconv"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
)

// ID identifies an entry: milliseconds, usually since the epoch, and a sequence number within the millisecond. Its text
// form is <ms>-<seq>.
type ID = cf.StreamID

// The least and the greatest id. No entry has the least one.
var (
	MinID = ID{}
	MaxID = ID{Ms: math.MaxUint64, Seq: math.MaxUint64}
)

var ErrInvalidID = engine.NewError("ERR", "Invalid stream ID specified as stream command argument")

// Next returns the id after id; false when none exists.
func Next(id ID) (ID, bool) {
	switch {
	case id.Seq < math.MaxUint64:
		return ID{Ms: id.Ms, Seq: id.Seq + 1}, true
	case id.Ms < math.MaxUint64:
		return ID{Ms: id.Ms + 1}, true
	}
	return ID{}, false
}

// Prev returns the id before id; false when none exists.
func Prev(id ID) (ID, bool) {
	switch {
	case id.Seq > 0:
		return ID{Ms: id.Ms, Seq: id.Seq - 1}, true
	case id.Ms > 0:
		return ID{Ms: id.Ms - 1, Seq: math.MaxUint64}, true
	}
	return MaxID, false
}

// AppendID appends the text form of an id, at most 41 bytes.
func AppendID(dst []byte, id ID) []byte {
	dst = strconv.AppendUint(dst, id.Ms, 10)
	dst = append(dst, '-')
	return strconv.AppendUint(dst, id.Seq, 10)
}

func text(id ID) string { return string(AppendID(nil, id)) }

// maxIDText is the length from which Redis refuses an id without parsing it.
const maxIDText = 128

// ParseID parses <ms>-<seq>, or <ms> alone, which gets the sequence number missing.
func ParseID(b []byte, missing uint64) (ID, error) {
	id, _, err := parse(b, missing, false)
	return id, err
}

// ParseIDOrEnd is ParseID that also accepts - and + for the least and the greatest id.
func ParseIDOrEnd(b []byte, missing uint64) (ID, error) {
	if len(b) == 1 {
		switch b[0] {
		case '-':
			return MinID, nil
		case '+':
			return MaxID, nil
		}
	}
	return ParseID(b, missing)
}

// ParseBound parses an end of an interval: the forms of ParseIDOrEnd, or a parenthesis and a form of ParseID. The
// latter sets open: the interval does not include the id.
func ParseBound(b []byte, missing uint64) (id ID, open bool, err error) {
	if len(b) > 1 && b[0] == '(' {
		id, err = ParseID(b[1:], missing)
		return id, true, err
	}
	id, err = ParseIDOrEnd(b, missing)
	return id, false, err
}

// The errors for open intervals that contain no id.
var (
	errStart = engine.NewError("ERR", "invalid start ID for the interval")
	errEnd   = engine.NewError("ERR", "invalid end ID for the interval")
)

// ParseStart parses the lower end of an interval and returns the first id in it.
func ParseStart(b []byte) (ID, error) {
	id, open, err := ParseBound(b, 0)
	if err == nil && open {
		var ok bool
		if id, ok = Next(id); !ok {
			err = errStart
		}
	}
	return id, err
}

// ParseEnd parses the upper end of an interval and returns the last id in it.
func ParseEnd(b []byte) (ID, error) {
	id, open, err := ParseBound(b, math.MaxUint64)
	if err == nil && open {
		var ok bool
		if id, ok = Prev(id); !ok {
			err = errEnd
		}
	}
	return id, err
}

// ParseNewID parses the id of a new entry: *, <ms>-* or a form of ParseID.
func ParseNewID(b []byte) (NewID, error) {
	if len(b) == 1 && b[0] == '*' {
		return NewID{Auto: AutoID}, nil
	}
	id, auto, err := parse(b, 0, true)
	n := NewID{ID: id}
	if auto {
		n.Auto = AutoSeq
	}
	return n, err
}

// parse parses an id; with autoSeq the sequence number may be a star.
func parse(b []byte, missing uint64, autoSeq bool) (id ID, auto bool, err error) {
	if len(b) >= maxIDText {
		return ID{}, false, ErrInvalidID
	}
	if i := bytes.IndexByte(b, 0); i >= 0 { // Redis reads it as a C string
		b = b[:i]
	}
	ms, seq, both := bytes.Cut(b, dash)
	var ok bool
	if id.Ms, ok = number(ms); !ok {
		return ID{}, false, ErrInvalidID
	}
	switch {
	case !both:
		id.Seq = missing
	case autoSeq && len(seq) == 1 && seq[0] == '*':
		auto = true
	default:
		if id.Seq, ok = number(seq); !ok {
			return ID{}, false, ErrInvalidID
		}
	}
	return id, auto, nil
}

var dash = []byte("-")

// number parses a number as Redis parses the parts of an id: by the rules of C's strtoull, which accept leading blanks,
// a sign and zeros. A minus sign negates modulo 2^64; but the shortest form of a negative int64 is refused.
func number(b []byte) (n uint64, ok bool) {
	full := b
	for len(b) > 0 && (b[0] == ' ' || b[0] >= '\t' && b[0] <= '\r') {
		b = b[1:]
	}
	negative := len(b) > 0 && b[0] == '-'
	if len(b) > 0 && (b[0] == '-' || b[0] == '+') {
		b = b[1:]
	}
	if len(b) == 0 {
		return 0, false
	}
	for _, c := range b {
		d := uint64(c - '0')
		if d > 9 || n > math.MaxUint64/10 {
			return 0, false
		}
		n *= 10
		if n > math.MaxUint64-d {
			return 0, false
		}
		n += d
	}
	if !negative {
		return n, true
	}
	if n > 0 && n <= 1<<63 && full[0] == '-' && b[0] != '0' {
		return 0, false // a negative number
	}
	return -n, true
}
