package command

import (
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/server/resp"
)

var (
	errRandomCount = engine.NewError("ERR",
		"value is out of range, value must between -9223372036854775807 and 9223372036854775807")
	errReplySize = engine.NewError("ERR", "the reply would be too large")
)

// maxRandomReply bounds the reply of a command that draws with a negative count, in bytes: it is as long as the client
// likes, however small the collection is.
const maxRandomReply = 1 << 30

// random makes the handler of HRANDFIELD, SRANDMEMBER or ZRANDMEMBER key [count [word]]. draw calls f with n random
// elements, until f returns false: with distinct they are different. With the word, write writes the value of an
// element.
func random[V any](word string, draw func(c *Ctx, n uint64, distinct, values bool, f func([]byte, V) bool) error,
	write func(*resp.Writer, V)) Handler {
	return func(c *Ctx) error {
		if len(c.Args) == 2 {
			found := false
			err := draw(c, 1, false, false, func(elem []byte, _ V) bool {
				found = true
				c.Out.Bulk(elem)
				return true
			})
			if err == nil && !found {
				c.Out.Null()
			}
			return err
		}
		n, values, err := randomCount(c, word)
		if err != nil {
			return err
		}
		out, fits := newPairs(c.Out, values), true
		err = draw(c, uint64(max(n, -n)), n >= 0, values, func(elem []byte, value V) bool {
			out.begin(elem)
			if values {
				write(c.Out, value)
			}
			fits = n >= 0 || fitsRandom(c, n, out.mark)
			return fits
		})
		if err == nil && !fits {
			err = errReplySize
		}
		out.end()
		return err
	}
}

// randomCount reads the count, and the word if there is one.
func randomCount(c *Ctx, word string) (n int64, values bool, err error) {
	if word == "" && len(c.Args) > 3 {
		return 0, false, ErrSyntax
	}
	n, ok := ParseInt(c.Args[2])
	const most = 1<<63 - 1
	switch {
	case !ok:
		return 0, false, ErrNotInteger
	case n < -most:
		return 0, false, errRandomCount
	case len(c.Args) > 4 || len(c.Args) == 4 && !EqualFold(c.Args[3], word):
		return 0, false, ErrSyntax
	}
	values = len(c.Args) == 4
	if values && (n > most/2 || n < -(most/2)) {
		return 0, false, ErrOutOfRange
	}
	return n, values, nil
}

// fitsRandom reports whether a reply that began at mark has room for more of n random elements. A negative n may exceed
// the bound from the first element on, because even an empty element takes six bytes.
func fitsRandom(c *Ctx, n int64, mark int) bool {
	const least = int64(len("$0\r\n\r\n"))
	return n >= -(maxRandomReply/least) && c.Out.Len()-mark < maxRandomReply && !c.Out.Overflowed()
}

// pairs writes elements, or elements and their values, whose number is not known beforehand: a flat array in RESP2, in
// RESP3 an array of [element, value] arrays.
type pairs struct {
	w      *resp.Writer
	mark   int
	n      int // elements of the outer array
	values bool
	nested bool
}

func newPairs(w *resp.Writer, values bool) *pairs {
	return &pairs{w: w, mark: w.Mark(), values: values, nested: values && w.Proto == 3}
}

// beginPairs writes the header for n elements: end must not be called.
func beginPairs(w *resp.Writer, n int, values bool) pairs {
	p := pairs{w: w, values: values, nested: values && w.Proto == 3}
	if values && !p.nested {
		n *= 2
	}
	w.Array(n)
	return p
}

// begin writes an element; its value, if values are wanted, is written next.
func (p *pairs) begin(elem []byte) {
	p.n++
	if p.nested {
		p.w.Array(2)
	} else if p.values {
		p.n++
	}
	p.w.Bulk(elem)
}

// add writes a member of a sorted set.
func (p *pairs) add(member []byte, score float64) {
	if p.begin(member); p.values {
		p.w.Double(score)
	}
}

// end puts the header in front.
func (p *pairs) end() { p.w.InsertArray(p.mark, p.n) }
