package resp

import (
	"bytes"
	"slices"
	"strconv"
)

// The limits that a zero field of Limits stands for.
const (
	DefaultMaxArgs   = 1 << 20
	DefaultMaxBulk   = 512 << 20
	DefaultMaxInline = 64 << 10

	unauthMaxArgs = 10
	unauthMaxBulk = 16 << 10
)

// Limits bounds what a client may send. A zero field means the default.
type Limits struct {
	// MaxArgs is the most arguments of a command, its name included.
	MaxArgs int
	// MaxBulk is the most bytes of one argument.
	MaxBulk int64
	// MaxInline is the most bytes of an inline command and of the line of a length, line ends not counted.
	MaxInline int
	// Unauthenticated lowers MaxArgs to 10 and MaxBulk to 16 KiB, so that a
	// connection that has not sent its password yet cannot fill the memory.
	Unauthenticated bool
}

// Decoder cuts commands from the bytes of one client connection. It reads both forms:
//
//	*<args>\r\n followed by <args> times $<length>\r\n<bytes>\r\n
//	an inline command: words on a line that ends with \n or \r\n
//
// The words of an inline command may be quoted, with the escapes \n \r \t \b \a
// \xHH and \<any byte> between double quotes and \' between single ones.
//
// The Decoder works on a buffer that the caller owns and copies nothing. Of a command that is not complete yet it keeps
// the place it has come to, so that each byte is looked at once however the stream is chopped. The zero Decoder has the
// default limits; Limits may be changed between two commands.
type Decoder struct {
	Limits

	// The state of an incomplete command, as offsets from its first byte.
	active bool   // the count was read
	left   int    // arguments that are still to come
	pos    int    // the first byte that was not taken in
	bulk   int    // length of the argument at pos, -1 when its length was not read
	spans  []span // the arguments so far
	seen   int    // the bytes before it have no line end from pos on
	need   int    // see Need
}

type span struct{ from, to int }

// Next cuts one command from the start of buf and appends its arguments to args. They alias buf and must be used before
// it changes. n is the number of bytes that the command took: the next command starts at buf[n].
//
//   - n > 0: a command, or no arguments for what is skipped in silence: an empty
//     line, a count of zero or less.
//   - n == 0 and no error: buf does not hold the whole command. Call again with
//     more bytes; buf may have moved but must start with the same bytes.
//   - an error, always a *ProtocolError: the stream is lost.
//
// Words with quotes are unquoted in place, so bytes of buf before n may change.
func (d *Decoder) Next(buf []byte, args [][]byte) (out [][]byte, n int, err error) {
	d.need = 1
	if len(buf) == 0 {
		return args, 0, nil
	}
	if buf[0] != '*' {
		return d.inline(buf, args)
	}
	if !d.active {
		count, next, st := d.length(buf, 0)
		switch st {
		case lineIncomplete:
			return args, 0, nil
		case lineTooBig:
			return args, 0, errCountTooBig
		case lineInvalid:
			return args, 0, errCount
		}
		if count > int64(d.maxArgs()) {
			return args, 0, errCount
		}
		if d.Unauthenticated && count > unauthMaxArgs {
			return args, 0, errCountUnauth
		}
		d.seen = 0
		if count <= 0 {
			return args, next, nil
		}
		d.left, d.pos, d.bulk = int(count), next, -1
		// Most commands come whole. If this one does not, what is here is read again, once, to note the offsets.
		if out, n, ok := d.whole(buf, args); ok {
			return out, n, nil
		}
		d.active = true
	}
	if err := d.resume(buf); err != nil || d.left > 0 {
		return args, 0, err
	}
	args = slices.Grow(args, len(d.spans))
	for _, s := range d.spans {
		args = append(args, buf[s.from:s.to:s.to])
	}
	n = d.pos
	d.Reset()
	return args, n, nil
}

// Need returns how many more bytes, at the least, the incomplete command wants. It is what the client announced, up to
// MaxBulk: a caller should not allocate much more than has arrived so far on the strength of it.
func (d *Decoder) Need() int { return d.need }

// Reset forgets an incomplete command.
func (d *Decoder) Reset() {
	const keep = 1024 // spans that stay allocated: 16 KiB
	if cap(d.spans) > keep {
		d.spans = nil
	}
	d.active, d.left, d.pos, d.spans, d.seen, d.need = false, 0, 0, d.spans[:0], 0, 1
}

// whole reads the d.left arguments from d.pos when all are there and well
// formed; anything else is left to resume. It changes no state.
func (d *Decoder) whole(buf []byte, args [][]byte) (out [][]byte, n int, ok bool) {
	pos := d.pos
	out = args
	limit := d.maxBulk()
	if d.Unauthenticated {
		limit = min(limit, unauthMaxBulk)
	}
	for range d.left {
		if pos+3 >= len(buf) || buf[pos] != '$' {
			return args, 0, false
		}
		first := pos + 1
		size := int64(buf[first] - '0')
		if size > 9 {
			return args, 0, false
		}
		i := first + 1
		for i < len(buf) && i < first+18 {
			c := buf[i] - '0'
			if c > 9 {
				break
			}
			size = size*10 + int64(c)
			i++
		}
		if i+1 >= len(buf) || buf[i] != '\r' || buf[i+1] != '\n' || buf[first] == '0' && i > first+1 || size > limit {
			return args, 0, false
		}
		from := i + 2
		to := from + int(size)
		if to+2 > len(buf) || buf[to] != '\r' || buf[to+1] != '\n' {
			return args, 0, false
		}
		out = append(out, buf[from:to:to])
		pos = to + 2
	}
	return out, pos, true
}

// resume takes in arguments until there are no more bytes or d.left is 0.
func (d *Decoder) resume(buf []byte) error {
	for d.left > 0 {
		if d.bulk < 0 {
			if d.pos >= len(buf) {
				return nil
			}
			if buf[d.pos] != '$' {
				return errNotBulk(buf[d.pos])
			}
			size, next, st := d.length(buf, d.pos)
			switch {
			case st == lineIncomplete:
				return nil
			case st == lineTooBig:
				return errBulkCountTooBig
			case st == lineInvalid || size < 0 || size > d.maxBulk():
				return errBulk
			case d.Unauthenticated && size > unauthMaxBulk:
				return errBulkUnauth
			}
			d.bulk, d.pos, d.seen = int(size), next, 0
		}
		end := d.pos + d.bulk
		if len(buf) > end && buf[end] != '\r' || len(buf) > end+1 && buf[end+1] != '\n' {
			return errBulkEnd
		}
		if len(buf) < end+2 {
			d.need = end + 2 - len(buf)
			return nil
		}
		d.spans = append(d.spans, span{d.pos, end})
		d.pos, d.bulk = end+2, -1
		d.left--
	}
	return nil
}

type lineState uint8

const (
	lineOK lineState = iota
	lineIncomplete
	lineTooBig
	lineInvalid
)

// length reads the number between the type byte at buf[pos] and CRLF; next is
// the offset after it. It is -1 for all negative numbers.
func (d *Decoder) length(buf []byte, pos int) (n int64, next int, st lineState) {
	from := max(pos+1, d.seen)
	end := bytes.IndexByte(buf[from:], '\r')
	if end < 0 {
		d.seen = len(buf)
		if len(buf)-pos > d.maxInline() {
			return 0, 0, lineTooBig
		}
		return 0, 0, lineIncomplete
	}
	end += from
	if end-pos > d.maxInline() {
		return 0, 0, lineTooBig
	}
	n, ok := parseLength(buf[pos+1 : end])
	switch {
	case !ok:
		return 0, 0, lineInvalid
	case end+1 == len(buf):
		d.seen = end
		return 0, 0, lineIncomplete
	case buf[end+1] != '\n':
		return 0, 0, lineInvalid
	}
	return n, end + 2, lineOK
}

// parseLength reads a decimal integer without plus, blanks or leading zeros.
func parseLength(b []byte) (int64, bool) {
	digits := b
	if len(b) > 0 && b[0] == '-' {
		digits = b[1:]
	}
	if len(digits) == 0 || len(digits) > 19 || digits[0] == '0' && len(b) > 1 {
		return 0, false
	}
	n, err := strconv.ParseUint(string(digits), 10, 64)
	if len(digits) < len(b) {
		return -1, err == nil && n <= 1<<63
	}
	return int64(n), err == nil && n < 1<<63
}

func (d *Decoder) maxArgs() int {
	if d.MaxArgs > 0 {
		return d.MaxArgs
	}
	return DefaultMaxArgs
}

func (d *Decoder) maxBulk() int64 {
	if d.MaxBulk > 0 {
		return d.MaxBulk
	}
	return DefaultMaxBulk
}

func (d *Decoder) maxInline() int {
	if d.MaxInline > 0 {
		return d.MaxInline
	}
	return DefaultMaxInline
}
