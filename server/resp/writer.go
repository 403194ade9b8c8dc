package resp

import (
	"slices"
	"strconv"
	"strings"
)

// Writer is an append-only buffer of replies in the Redis serialization
// protocol. The zero Writer is ready to use; a Proto other than 3 means RESP2.
//
// Aggregates are written as a header with the element count, followed by the elements, each by its own call. Where the
// count is known only afterwards, the header is put in later: see InsertArray. The Writer does not check that as many
// elements follow as a header announced.
//
// A long reply may leave in pieces while it is written: see Stream. The buffer may be bounded: see Limit.
//
// A Writer is not safe for concurrent use.
type Writer struct {
	// Proto is the protocol version, 2 or 3, of the replies to come.
	Proto int

	buf []byte
	// A long reply is in several pieces: a buffer that grows is copied again and again, and takes up to 2.25 times the
	// memory of what is in it. What is before buf:
	done   [][]byte
	before int // bytes in done

	to    Taker // of Stream
	left  bool  // it was called
	limit int   // of Limit
	over  bool  // it was exceeded
}

// Taker takes what is in a Writer, see [Writer.Stream].
type Taker interface{ TakeReply() }

// streamChunk is how many bytes a reply has before a part of it leaves.
const streamChunk = 256 << 10

// Stream lets TakeReply be called before a bulk string is written when there are more than 256 KiB in the buffer: it
// may send them and Reset the Writer. EndStream or Mark ends that: what follows a mark must stay.
func (w *Writer) Stream(to Taker) { w.to, w.left = to, false }

// EndStream ends what Stream has begun, and reports whether a part of the reply may have left.
func (w *Writer) EndStream() (left bool) {
	left = w.left
	w.to, w.left = nil, false
	return left
}

// Limit bounds the buffer to n bytes, or to 256 KiB if that is more; 0 = no bound. Bulk strings that come when there
// are more bytes in the buffer are dropped, and Overflowed reports it. A reply that has overflowed must not be sent.
func (w *Writer) Limit(n int) { w.limit, w.over = n, false }

// Overflowed reports whether something was dropped since Limit was called.
func (w *Writer) Overflowed() bool { return w.over }

// long is called before a bulk string is written when there are many bytes in the buffer. They may leave then. It
// reports whether there is room for more.
func (w *Writer) long() bool {
	if w.to != nil && !w.over {
		w.left = true
		w.to.TakeReply()
	}
	w.over = w.over || w.limit > 0 && w.Len() > w.limit
	if !w.over && len(w.buf) > streamChunk {
		w.done, w.before = append(w.done, w.buf), w.before+len(w.buf)
		w.buf = make([]byte, 0, streamChunk+streamChunk/4)
	}
	return !w.over
}

// Parts returns what is in the Writer, in order, and empties it. The parts belong to the caller; last is valid as Bytes
// is.
func (w *Writer) Parts() (parts [][]byte, last []byte) {
	parts, last = w.done, w.buf
	w.Reset()
	return parts, last
}

// OK writes the simple string OK.
func (w *Writer) OK() { w.buf = append(w.buf, "+OK\r\n"...) }

// SimpleString writes s as a simple string. CR and LF in s become spaces.
func (w *Writer) SimpleString(s string) {
	w.buf = append(w.buf, '+')
	w.line(s)
	w.crlf()
}

// Error writes the error reply "-code text". CR and LF in text become spaces, at its end they are left out.
// With an empty code the reply is text alone.
func (w *Writer) Error(code, text string) {
	w.buf = append(w.buf, '-')
	if code != "" {
		w.line(code)
		w.buf = append(w.buf, ' ')
	}
	w.line(strings.TrimRight(text, "\r\n"))
	w.crlf()
}

// Int writes an integer.
func (w *Writer) Int(n int64) {
	switch n {
	case 0:
		w.buf = append(w.buf, ":0\r\n"...)
	case 1:
		w.buf = append(w.buf, ":1\r\n"...)
	default:
		w.header(':', n)
	}
}

// Bulk writes b as a bulk string. A nil b is the empty string, not a null.
func (w *Writer) Bulk(b []byte) {
	if w.before+len(w.buf) > streamChunk && !w.long() {
		return
	}
	w.header('$', int64(len(b)))
	w.buf = append(w.buf, b...)
	w.crlf()
}

func (w *Writer) BulkString(s string) {
	if w.before+len(w.buf) > streamChunk && !w.long() {
		return
	}
	w.header('$', int64(len(s)))
	w.buf = append(w.buf, s...)
	w.crlf()
}

// BulkInt writes the decimal digits of n as a bulk string.
func (w *Writer) BulkInt(n int64) {
	var text [20]byte
	w.Bulk(strconv.AppendInt(text[:0], n, 10))
}

// Null writes the null: a null bulk string in RESP2.
func (w *Writer) Null() {
	if w.Proto == 3 {
		w.buf = append(w.buf, "_\r\n"...)
		return
	}
	w.buf = append(w.buf, "$-1\r\n"...)
}

// NullArray writes the null where RESP2 has a null array.
func (w *Writer) NullArray() {
	if w.Proto == 3 {
		w.buf = append(w.buf, "_\r\n"...)
		return
	}
	w.buf = append(w.buf, "*-1\r\n"...)
}

// Array writes the header of an array of n elements.
func (w *Writer) Array(n int) { w.header('*', int64(n)) }

// Map writes the header of a map of n pairs; in RESP2 that is an array of 2n elements.
func (w *Writer) Map(n int) {
	if w.Proto == 3 {
		w.header('%', int64(n))
		return
	}
	w.header('*', 2*int64(n))
}

// Attribute writes the header of n pairs that tell something about the reply that follows. RESP2 has no such thing:
// nothing may be written there.
func (w *Writer) Attribute(n int) { w.header('|', int64(n)) }

// Set writes the header of a set of n elements; in RESP2 that is an array.
func (w *Writer) Set(n int) { w.header(w.setType(), int64(n)) }

// Push writes the header of an out-of-band message of n elements; in RESP2 that is an array.
func (w *Writer) Push(n int) {
	if w.Proto == 3 {
		w.header('>', int64(n))
		return
	}
	w.header('*', int64(n))
}

// Double writes f in the form of AppendDouble: a double in RESP3, a bulk string in RESP2.
func (w *Writer) Double(f float64) {
	if w.Proto == 3 {
		w.buf = append(w.buf, ',')
		w.buf = AppendDouble(w.buf, f)
		w.crlf()
		return
	}
	var text [32]byte
	w.Bulk(AppendDouble(text[:0], f))
}

// Decimal writes a number in decimal digits: a double in RESP3, a bulk string in RESP2.
func (w *Writer) Decimal(text []byte) {
	if w.Proto != 3 {
		w.Bulk(text)
		return
	}
	w.buf = append(w.buf, ',')
	w.buf = append(w.buf, text...)
	w.crlf()
}

// Bool writes a boolean; in RESP2 that is the integer 1 or 0.
func (w *Writer) Bool(b bool) {
	switch {
	case w.Proto == 3 && b:
		w.buf = append(w.buf, "#t\r\n"...)
	case w.Proto == 3:
		w.buf = append(w.buf, "#f\r\n"...)
	case b:
		w.buf = append(w.buf, ":1\r\n"...)
	default:
		w.buf = append(w.buf, ":0\r\n"...)
	}
}

// Verbatim writes s as a verbatim string of the given format, which is three characters ("txt", "mkd"): a shorter
// format is filled up with spaces, a longer one cut. In RESP2 it is a bulk string of s alone.
func (w *Writer) Verbatim(format, s string) {
	if w.Proto != 3 {
		w.BulkString(s)
		return
	}
	w.header('=', int64(len(s)+4))
	for i := range 3 {
		c := byte(' ')
		if i < len(format) {
			c = format[i]
		}
		w.buf = append(w.buf, c)
	}
	w.buf = append(w.buf, ':')
	w.buf = append(w.buf, s...)
	w.crlf()
}

// BigNumber writes the decimal digits s as a big number; in RESP2 that is a bulk string.
func (w *Writer) BigNumber(s string) {
	if w.Proto != 3 {
		w.BulkString(s)
		return
	}
	w.buf = append(w.buf, '(')
	w.line(s)
	w.crlf()
}

// Raw writes b as it is; b is whole replies in the protocol of the receiver.
func (w *Writer) Raw(b []byte) { w.buf = append(w.buf, b...) }

// Mark returns a position in the buffer for Truncate and the Insert methods.
func (w *Writer) Mark() int {
	w.to = nil
	return w.Len()
}

// Truncate drops all that was written after mark.
func (w *Writer) Truncate(mark int) {
	for mark < w.before {
		n := len(w.done) - 1
		w.buf, w.done[n] = w.done[n], nil
		w.done, w.before = w.done[:n], w.before-len(w.buf)
	}
	w.buf = w.buf[:mark-w.before]
	w.over = w.over && mark > w.limit // else all that was dropped came behind mark
}

// Len returns the number of bytes in the buffer.
func (w *Writer) Len() int { return w.before + len(w.buf) }

// Cap returns how many bytes the buffer can hold.
func (w *Writer) Cap() int { return w.before + cap(w.buf) }

// Bytes returns the buffer. It is valid until the next call of any method that writes, truncates or resets.
func (w *Writer) Bytes() []byte {
	if len(w.done) > 0 {
		w.buf = slices.Concat(append(w.done, w.buf)...)
		w.done, w.before = nil, 0
	}
	return w.buf
}

// Reset empties the buffer and keeps its memory and Proto.
func (w *Writer) Reset() { w.buf, w.done, w.before = w.buf[:0], nil, 0 }

// Release empties the buffer and gives its memory back when it holds more than
// limit bytes, so that one large reply does not stay with an idle connection.
func (w *Writer) Release(limit int) {
	w.Reset()
	if cap(w.buf) > limit {
		w.buf = nil
	}
}

// InsertArray puts the header of an array of n elements in at mark; the elements are what was written after it.
func (w *Writer) InsertArray(mark, n int) { w.insert(mark, '*', int64(n)) }

// InsertRaw puts whole replies, or headers, in at mark.
func (w *Writer) InsertRaw(mark int, b []byte) { w.put(mark, b) }

// InsertInt puts an integer in at mark.
func (w *Writer) InsertInt(mark int, n int64) { w.insert(mark, ':', n) }

// InsertMap is InsertArray for a map of n pairs.
func (w *Writer) InsertMap(mark, n int) {
	if w.Proto == 3 {
		w.insert(mark, '%', int64(n))
		return
	}
	w.insert(mark, '*', 2*int64(n))
}

// InsertSet is InsertArray for a set of n elements.
func (w *Writer) InsertSet(mark, n int) { w.insert(mark, w.setType(), int64(n)) }

func (w *Writer) setType() byte {
	if w.Proto == 3 {
		return '~'
	}
	return '*'
}

// insert moves what follows mark once, by the length of the header.
func (w *Writer) insert(mark int, kind byte, n int64) {
	var head [24]byte
	h := append(head[:0], kind)
	h = strconv.AppendInt(h, n, 10)
	w.put(mark, append(h, '\r', '\n'))
}

func (w *Writer) put(mark int, h []byte) {
	in := &w.buf
	if mark < w.before {
		i := 0
		for ; mark > len(w.done[i]); i++ {
			mark -= len(w.done[i])
		}
		in, w.before = &w.done[i], w.before+len(h)
	} else {
		mark -= w.before
	}
	*in = slices.Insert(*in, mark, h...)
}

func (w *Writer) header(kind byte, n int64) {
	w.buf = append(w.buf, kind)
	w.buf = strconv.AppendInt(w.buf, n, 10)
	w.crlf()
}

func (w *Writer) crlf() { w.buf = append(w.buf, '\r', '\n') }

// line appends s with every CR and LF as a space: they would end the reply.
func (w *Writer) line(s string) {
	for i := range len(s) {
		c := s[i]
		if c == '\r' || c == '\n' {
			c = ' '
		}
		w.buf = append(w.buf, c)
	}
}
