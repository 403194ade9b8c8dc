package json

import (
	"math"
	"strings"
	"unicode/utf8"

	"github.com/basaltdb/basalt/engine"
)

// ErrTooMuchWork: a path, or what a command does with its results, takes more steps or memory than a command may take.
// The limits are many millions, and grow with the document and the arguments.
var ErrTooMuchWork = engine.NewError("ERR", "the path takes too much work or has too many results")

// The limits of a command: a basic allowance, and an addition for each byte of its documents and arguments. A step is
// one examined child.
const (
	baseSteps    = 1 << 24
	stepsPerByte = 4
	baseResults  = 1 << 20
)

// Budget is what one command may still use. All documents of the command share it.
type Budget struct {
	steps   int64
	results int64 // max results of each path
}

// NewBudget returns the budget of a command whose arguments have args bytes.
func NewBudget(args int) *Budget {
	b := &Budget{steps: baseSteps, results: baseResults}
	b.add(args)
	return b
}

func (l *Budget) add(bytes int) {
	l.steps += stepsPerByte * int64(bytes)
	l.results += int64(bytes)
}

// take uses n steps.
func (l *Budget) take(n int64) error {
	if l.steps -= n; l.steps < 0 {
		return ErrTooMuchWork
	}
	return nil
}

// place is the position of a value: element or member i of an array or object. The document itself is element 0 of an
// enclosing array.
type place struct {
	in    *box
	i     int32
	depth int32 // number of arrays and objects of the document that contain the value
}

func child(of place, b *box, i int) place { return place{b, int32(i), of.depth + 1} }

func (p place) value() *Value { return &p.in.vals[p.i] }

// walk is one evaluation of a path.
type walk struct {
	root   place
	left   *Budget
	out    []place
	max    int   // max number of results, 0 = no limit
	count  bool  // only count the results
	n      int64 // number of results
	reCopy *pattern
}

// locate returns the places of a path's results in the document at root: a value before its content, after two dots the
// children of a value before their own children, and the results of several selectors in brackets in the order of the
// selectors. A value can occur twice.
func (p *Path) locate(root place, left *Budget) ([]place, error) {
	w := walk{root: root, left: left}
	if _, err := w.from(root, p.segments); err != nil {
		return nil, err
	}
	return w.out, nil
}

// from evaluates segments on a value; more is false when no more results are needed.
func (w *walk) from(at place, segs []segment) (more bool, err error) {
	if len(segs) == 0 {
		w.n++
		if w.n > w.left.results {
			return false, ErrTooMuchWork
		}
		if !w.count {
			w.out = append(w.out, at)
		}
		return w.max == 0 || w.n < int64(w.max), nil
	}
	if segs[0].descend {
		return w.descend(at, segs)
	}
	return w.step(at, segs)
}

// descend applies a segment to a value and then to all values in it.
func (w *walk) descend(at place, segs []segment) (more bool, err error) {
	if more, err = w.step(at, segs); !more || err != nil {
		return false, err
	}
	b := at.value().box
	if b == nil {
		return true, nil
	}
	if err := w.left.take(int64(len(b.vals))); err != nil {
		return false, err
	}
	for i := range b.vals {
		if b.vals[i].box == nil {
			continue // it has no children
		}
		if more, err = w.descend(child(at, b, i), segs); !more || err != nil {
			return false, err
		}
	}
	return true, nil
}

// step applies the selectors of a segment to a value, and the following segments to the selected children.
func (w *walk) step(at place, segs []segment) (more bool, err error) {
	v, rest := at.value(), segs[1:]
	sels := segs[0].sels
	if err := w.left.take(int64(len(sels))); err != nil {
		return false, err
	}
	for s := range sels {
		sel := &sels[s]
		b := v.box
		switch sel.kind {
		case byName:
			if v.kind != Object {
				continue
			}
			if i := b.find(sel.name); i >= 0 {
				more, err = w.from(child(at, b, i), rest)
			} else {
				continue
			}
		case byIndex:
			if v.kind != Array {
				continue
			}
			i := sel.start
			if i < 0 {
				i += int64(len(b.vals))
			}
			if i < 0 || i >= int64(len(b.vals)) {
				continue
			}
			more, err = w.from(child(at, b, int(i)), rest)
		case bySlice:
			if v.kind != Array {
				continue
			}
			more, err = w.slice(at, b, sel, rest)
		case byAny:
			if b == nil {
				continue
			}
			more, err = w.all(at, b, nil, rest)
		case byFilter:
			if b != nil {
				more, err = w.all(at, b, sel.filter, rest)
				break
			}
			ok, ferr := w.test(sel.filter, at)
			if ferr != nil {
				return false, ferr
			}
			if !ok {
				continue
			}
			more, err = w.from(at, rest)
		}
		if !more || err != nil {
			return false, err
		}
	}
	return true, nil
}

// all continues with the children for which a filter is true, or with all children.
func (w *walk) all(at place, b *box, filter *expr, rest []segment) (more bool, err error) {
	if err := w.left.take(int64(len(b.vals))); err != nil {
		return false, err
	}
	for i := range b.vals {
		if filter != nil {
			ok, err := w.test(filter, child(at, b, i))
			if err != nil {
				return false, err
			}
			if !ok {
				continue
			}
		}
		if more, err = w.from(child(at, b, i), rest); !more || err != nil {
			return false, err
		}
	}
	return true, nil
}

// slice continues with the elements of a slice; its bounds are those of RFC 9535.
func (w *walk) slice(at place, b *box, sel *selector, rest []segment) (more bool, err error) {
	n := int64(len(b.vals))
	bound := func(given bool, i, otherwise, low, high int64) int64 {
		switch {
		case !given:
			return otherwise
		case i < 0:
			i += n
		}
		return min(max(i, low), high)
	}
	if sel.step > 0 {
		from, to := bound(sel.from, sel.start, 0, 0, n), bound(sel.to, sel.end, n, 0, n)
		for i := from; i < to; {
			if more, err = w.element(at, b, i, rest); !more || err != nil {
				return false, err
			}
			if sel.step > to-i {
				break
			}
			i += sel.step
		}
		return true, nil
	}
	from, to := bound(sel.from, sel.start, n-1, -1, n-1), bound(sel.to, sel.end, -1, -1, n-1)
	for i := from; i > to; {
		if more, err = w.element(at, b, i, rest); !more || err != nil {
			return false, err
		}
		if sel.step < to-i {
			break
		}
		i += sel.step
	}
	return true, nil
}

func (w *walk) element(at place, b *box, i int64, rest []segment) (more bool, err error) {
	if err := w.left.take(1); err != nil {
		return false, err
	}
	return w.from(child(at, b, int(i)), rest)
}

// test evaluates a filter on a child.
func (w *walk) test(e *expr, at place) (bool, error) {
	if err := w.left.take(1); err != nil {
		return false, err
	}
	switch e.op {
	case opNot:
		ok, err := w.test(e.args[0], at)
		return !ok && err == nil, err
	case opAnd, opOr:
		for _, arg := range e.args {
			ok, err := w.test(arg, at)
			if err != nil || ok == (e.op == opOr) {
				return ok, err
			}
		}
		return e.op == opAnd, nil
	case opExists:
		v, err := w.operand(e.args[0], at)
		return v != nil, err
	}
	left, err := w.operand(e.args[0], at)
	if err != nil {
		return false, err
	}
	right, err := w.operand(e.args[1], at)
	if err != nil {
		return false, err
	}
	switch e.op {
	case opRegexp, opMatch, opSearch:
		return w.matches(e, left, right)
	}
	return w.compare(e.op, left, right)
}

// operand evaluates an operand of a filter; nil means no value.
func (w *walk) operand(e *expr, at place) (*Value, error) {
	switch e.op {
	case opLiteral:
		return &e.literal, nil
	case opPath, opCount:
		if !e.current {
			at = w.root
		}
		if e.op == opPath && len(e.path) == 0 {
			return at.value(), nil
		}
		var two [2]place
		sub := walk{root: w.root, left: w.left, out: two[:0], max: 2}
		if e.op == opCount {
			sub.max, sub.count = 0, true
		}
		if _, err := sub.from(at, e.path); err != nil {
			return nil, err
		}
		if e.op == opCount {
			v := IntOf(sub.n)
			return &v, nil
		}
		if sub.n != 1 {
			return nil, nil
		}
		return sub.out[0].value(), nil
	}
	// length
	v, err := w.operand(e.args[0], at)
	if v == nil || err != nil {
		return nil, err
	}
	n := v.Len()
	switch {
	case v.kind == String:
		if err := w.left.take(int64(len(v.text)) / 64); err != nil {
			return nil, err
		}
		n = utf8.RuneCountInString(v.text)
	case v.box == nil:
		return nil, nil
	}
	length := IntOf(int64(n))
	return &length, nil
}

// compare compares two values. Values that are not comparable are neither equal nor ordered.
func (w *walk) compare(op operator, a, b *Value) (bool, error) {
	if a == nil || b == nil {
		return op == opNotEqual, nil
	}
	if op == opEqual || op == opNotEqual {
		if err := w.left.take(price(a, b)); err != nil {
			return false, err
		}
		return equal(a, b, true) == (op == opEqual), nil
	}
	if err := w.left.take(shallowPrice(a, b)); err != nil {
		return false, err
	}
	c := 0
	switch {
	case a.IsNumber() && b.IsNumber():
		c = compareNumbers(a, b)
	case a.kind != b.kind:
		return false, nil
	case a.kind == String:
		c = strings.Compare(a.text, b.text)
	case a.kind == Bool:
		c = int(a.num) - int(b.num)
	case a.kind != Null:
		return false, nil
	}
	switch op {
	case opLess:
		return c < 0, nil
	case opLessEqual:
		return c <= 0, nil
	case opGreater:
		return c > 0, nil
	}
	return c >= 0, nil
}

// shallowPrice is the cost of a comparison of scalars, in steps.
func shallowPrice(a, b *Value) int64 {
	n := int64(min(len(a.text), len(b.text))) / 64
	if a.kind == BigInt || b.kind == BigInt {
		n += int64(max(len(a.text), len(b.text))) / 2
	}
	return n
}

// price is an upper bound of the cost of a comparison, in steps. A comparison examines at most as much as the smaller
// value has, and stops at the first difference; so it is cheap for values of different kinds or lengths.
func price(a, b *Value) int64 {
	if a.box == nil || b.box == nil || a.kind != b.kind || len(a.box.vals) != len(b.box.vals) {
		return shallowPrice(a, b)
	}
	n := int64(len(a.box.vals))
	for i := range a.box.vals {
		v := &a.box.vals[i]
		n += int64(len(v.text)) / 64
		if v.kind == BigInt {
			n += int64(len(v.text)) / 2
		}
		if v.box != nil {
			n += price(v, v)
		}
		if n > math.MaxInt32 {
			break
		}
	}
	return n
}

// matches matches a string against a regular expression.
func (w *walk) matches(e *expr, s, re *Value) (bool, error) {
	if s == nil || re == nil || s.kind != String || re.kind != String {
		return false, nil
	}
	p := e.pattern
	if p == nil {
		// The pattern is part of the document. Usually it is the same for all children, so the last one is cached.
		whole := e.op == opMatch
		if p = w.reCopy; p == nil || p.source != re.text || p.whole != whole {
			if err := w.left.take(256 + 16*int64(len(re.text))); err != nil {
				return false, err
			}
			p = compilePattern(re.text, whole)
			if p.err != nil {
				return false, p.err
			}
			if err := w.left.take(4 * p.size); err != nil {
				return false, err
			}
			w.reCopy = p
		}
	}
	if p.re == nil {
		return false, nil
	}
	if err := w.left.take(1 + int64(len(s.text))*(8+p.size)/8); err != nil {
		return false, err
	}
	return p.re.MatchString(s.text), nil
}
