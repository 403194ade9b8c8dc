package difftest

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
)

// reply is one reply as it came. Raw is all its bytes, those of its elements
// included.
type reply struct {
	kind byte // the type byte: + - : $ * _ , # = ( % ~ > !
	null bool // $-1 or *-1
	text []byte
	// elems are the elements of an aggregate; a map has keys and values in turn.
	elems []reply
	raw   []byte
}

// readReply reads one reply of RESP2 or RESP3. It trusts its peer.
func readReply(r *bufio.Reader) (reply, error) {
	line, err := r.ReadBytes('\n')
	if err != nil {
		if err == io.EOF && len(line) > 0 {
			err = io.ErrUnexpectedEOF
		}
		return reply{}, err
	}
	if len(line) < 3 || line[len(line)-2] != '\r' {
		return reply{}, fmt.Errorf("reply line %q", line)
	}
	out := reply{kind: line[0], text: line[1 : len(line)-2], raw: line}
	switch out.kind {
	case '+', '-', ':', '_', ',', '#', '(':
		return out, nil
	case '$', '=', '!', '*', '%', '~', '>':
	default:
		return reply{}, fmt.Errorf("reply of unknown type %q", line)
	}
	n, err := strconv.Atoi(string(out.text))
	if err != nil {
		return reply{}, fmt.Errorf("reply length %q: %w", line, err)
	}
	if n < 0 {
		out.null = true
		return out, nil
	}
	switch out.kind {
	case '$', '=', '!':
		body := make([]byte, n+2)
		if _, err := io.ReadFull(r, body); err != nil {
			return reply{}, err
		}
		out.text = body[:n]
		out.raw = append(out.raw, body...)
		return out, nil
	case '%':
		n *= 2
	}
	for range n {
		e, err := readReply(r)
		if err != nil {
			return reply{}, err
		}
		out.elems = append(out.elems, e)
		out.raw = append(out.raw, e.raw...)
	}
	return out, nil
}

func (r reply) aggregate() bool { return bytes.IndexByte([]byte("*%~>"), r.kind) >= 0 && !r.null }

// sorted returns the aggregate with its elements, taken in groups of size, in
// the order of their bytes. A map counts as pairs whatever size is.
func (r reply) sorted(size int) reply {
	if !r.aggregate() {
		return r
	}
	if r.kind == '%' {
		size = 2
	}
	if len(r.elems)%size != 0 {
		size = 1
	}
	var groups [][]reply
	for g := range slices.Chunk(r.elems, size) {
		groups = append(groups, g)
	}
	slices.SortFunc(groups, func(a, b []reply) int {
		for i := range a {
			if c := bytes.Compare(a[i].raw, b[i].raw); c != 0 {
				return c
			}
		}
		return 0
	})
	head, _, _ := bytes.Cut(r.raw, []byte("\n"))
	out := reply{kind: r.kind, text: r.text, elems: slices.Concat(groups...), raw: append(slices.Clone(head), '\n')}
	for _, e := range out.elems {
		out.raw = append(out.raw, e.raw...)
	}
	return out
}

// shape is the reply without its contents: types, the lengths of aggregates,
// nulls and errors.
func (r reply) shape() string {
	switch {
	case r.null:
		return string(r.kind) + "-1"
	case r.kind == '-':
		return string(r.raw)
	case !r.aggregate():
		return string(r.kind)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%c%d(", r.kind, len(r.elems))
	for _, e := range r.elems {
		b.WriteString(e.shape())
	}
	return b.String() + ")"
}
