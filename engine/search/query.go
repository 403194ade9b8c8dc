package search

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/basaltdb/basalt/engine"
)

type op uint8

const (
	opAll     op = iota // every key
	opNone              // no key
	opTag               // the field has the tag
	opCompare           // the field compares so with the number
	opRange             // the field is a vector within the distance num from vec
	opNearest           // the field is one of the k vectors nearest to vec
	opNot
	opAnd
	opOr
)

// expr is a condition on a row.
type expr struct {
	op    op
	name  string // of the field
	field *Field // found by check
	tag   string
	key   []byte // of a tag: how an entry has it, found by check
	cmp   string // = != < <= > >=
	num   float64
	vec   []float64
	k     int64
	of    []*expr // of opNot, opAnd, opOr
}

// order is how results are sorted.
type order struct {
	name  string
	field *Field
	desc  bool
	vec   []float64 // by the distance from it; nil = by the number
}

// Query is a parsed query.
type Query struct {
	Index string
	// Return are the fields to reply with; nil = all.
	Return []string
	// Offset and Count are the rows to reply with; Count < 0 = all.
	Offset, Count int64

	where *expr
	order *order
}

// SortBy sorts the results by a NUMERIC field. Keys without the field are left out.
func (q *Query) SortBy(field string, desc bool) { q.order = &order{name: field, desc: desc} }

const (
	// maxNested is the max nesting of parentheses and negations.
	maxNested = 128
	// maxConditions is the max number of conditions of a query: each takes some 200 bytes, and is checked for each row.
	maxConditions = 1024
)

var (
	errSyntax = errors.New("invalid syntax")
	errNested = errors.New("the query is nested too deeply")
	errLong   = fmt.Errorf("the query has more than %d conditions", maxConditions)
)

func reply(err error) error {
	if err == nil {
		return nil
	}
	return engine.NewError("ERR", err.Error())
}

// scanner reads the parts of a query from a text.
type scanner struct {
	text       string
	at         int
	depth      int
	conditions int
	params     map[string]string
}

func (s *scanner) blanks() {
	for s.at < len(s.text) && strings.IndexByte(" \t\r\n", s.text[s.at]) >= 0 {
		s.at++
	}
}

// eat skips blanks, and the text if it is next.
func (s *scanner) eat(text string) bool {
	s.blanks()
	if !strings.HasPrefix(s.text[s.at:], text) {
		return false
	}
	s.at += len(text)
	return true
}

func (s *scanner) end() bool {
	s.blanks()
	return s.at == len(s.text)
}

func letter(c byte) bool { return c == '_' || 'a' <= c|0x20 && c|0x20 <= 'z' }
func digit(c byte) bool  { return '0' <= c && c <= '9' }

// word reads an identifier, "" if none is next.
func (s *scanner) word() string {
	s.blanks()
	from := s.at
	for s.at < len(s.text) && (letter(s.text[s.at]) || s.at > from && digit(s.text[s.at])) {
		s.at++
	}
	return s.text[from:s.at]
}

// name reads the mark and an identifier behind it.
func (s *scanner) name(mark string) (string, bool) {
	from := s.at
	if s.eat(mark) && s.at < len(s.text) && letter(s.text[s.at]) {
		return s.word(), true
	}
	s.at = from
	return "", false
}

// number reads a decimal number.
func (s *scanner) number() (float64, bool) {
	s.blanks()
	from := s.at
	digits := func() bool {
		from := s.at
		for s.at < len(s.text) && digit(s.text[s.at]) {
			s.at++
		}
		return s.at > from
	}
	is := func(set string) bool {
		if s.at < len(s.text) && strings.IndexByte(set, s.text[s.at]) >= 0 {
			s.at++
			return true
		}
		return false
	}
	is("-")
	ok := digits()
	if ok {
		if at := s.at; is(".") && !digits() {
			s.at = at
		}
		if at := s.at; is("eE") {
			if is("+-"); !digits() {
				s.at = at
			}
		}
		if x, err := strconv.ParseFloat(s.text[from:s.at], 64); err == nil {
			return x, true
		}
	}
	s.at = from
	return 0, false
}

// param reads a parameter behind the mark, and returns its value.
func (s *scanner) param(mark string) (value string, ok bool, err error) {
	name, ok := s.name(mark)
	if !ok {
		return "", false, nil
	}
	value, known := s.params[name]
	if !known {
		return "", false, fmt.Errorf("parameter with name `%s` not found", name)
	}
	return value, true, nil
}

// numberOr reads a number or a parameter.
func (s *scanner) numberOr(mark string) (float64, bool, error) {
	if x, ok := s.number(); ok {
		return x, true, nil
	}
	text, ok, err := s.param(mark)
	if err != nil || !ok {
		return 0, false, err
	}
	x, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsNaN(x) {
		return 0, false, errors.New("a parameter is not a number")
	}
	return x, true, nil
}

// quoted reads a string in double quotes.
func (s *scanner) quoted() (string, bool, error) {
	if !s.eat(`"`) {
		return "", false, nil
	}
	var b strings.Builder
	for s.at < len(s.text) {
		c := s.text[s.at]
		s.at++
		switch {
		case c == '"':
			return b.String(), true, nil
		case c < 0x20:
			return "", false, errSyntax
		case c != '\\':
			b.WriteByte(c)
			continue
		}
		if s.at == len(s.text) {
			break
		}
		c = s.text[s.at]
		s.at++
		const from, to = `"\bfnrt`, "\"\\\b\f\n\r\t"
		switch i := strings.IndexByte(from, c); {
		case i >= 0:
			b.WriteByte(to[i])
		case c == 'u' && s.at+4 <= len(s.text):
			r, err := strconv.ParseUint(s.text[s.at:s.at+4], 16, 16)
			if err != nil {
				return "", false, errSyntax
			}
			b.WriteRune(rune(r))
			s.at += 4
		default:
			return "", false, errSyntax
		}
	}
	return "", false, errSyntax
}

func (s *scanner) nest() error {
	if s.depth++; s.depth > maxNested {
		return errNested
	}
	return s.one()
}

// one counts one condition.
func (s *scanner) one() error {
	if s.conditions++; s.conditions > maxConditions {
		return errLong
	}
	return nil
}

// join makes one condition of several.
func join(o op, of []*expr) *expr {
	if len(of) == 1 {
		return of[0]
	}
	return &expr{op: o, of: of}
}

// Parse reads a query in RediSearch's language:
//
//   - every key
//     @f:{a | "b" | $p}        the TAG field f has one of the tags; \ escapes a character
//     @f:[1 (5]  @f:[-inf $p]  the NUMERIC field f is in the range; ( excludes the bound
//     @f:[VECTOR_RANGE 7 $v]   the vector of the field f is at most that far from the vector of the parameter
//     *=>[KNN 3 @f $v]         the nearest vectors; in parentheses, other conditions may follow or precede it
//     a b   a | b   -a   (a)   and, or, not; "and" binds tighter than "or"
func Parse(index, text string, params map[string]string) (*Query, error) {
	s := &scanner{text: text, params: params}
	e, err := s.whole()
	if err == nil && !s.end() {
		err = errSyntax
	}
	if err != nil {
		return nil, reply(err)
	}
	return &Query{Index: index, where: e, Count: -1}, nil
}

// whole reads a query, or what is in parentheses.
func (s *scanner) whole() (*expr, error) {
	e, err := s.nearest()
	if e == nil && err == nil {
		e, err = s.or()
	}
	return e, err
}

// nearest reads *=>[KNN k @f $v], nil if it is not next.
func (s *scanner) nearest() (*expr, error) {
	if from := s.at; !s.eat("*") || !s.eat("=>") {
		s.at = from
		return nil, nil
	}
	if !s.eat("[") || !s.eat("KNN") {
		return nil, errSyntax
	}
	k, ok := s.count()
	if !ok {
		text, found, err := s.param("$")
		if !found {
			return nil, orSyntax(err)
		}
		if k, err = strconv.ParseInt(text, 10, 64); err != nil || k < 0 {
			return nil, errors.New("a parameter is not a number")
		}
	}
	name, ok := s.name("@")
	if !ok {
		return nil, errSyntax
	}
	v, err := s.vector()
	if err != nil {
		return nil, err
	}
	return &expr{op: opNearest, name: name, vec: v, k: k}, nil
}

// orSyntax returns the error, or that of what is not there.
func orSyntax(err error) error {
	if err == nil {
		err = errSyntax
	}
	return err
}

// vector reads the parameter with a vector, and the bracket behind it.
func (s *scanner) vector() ([]float64, error) {
	text, ok, err := s.param("$")
	switch {
	case err != nil:
		return nil, err
	case !ok:
		return nil, errSyntax
	case len(text)%8 != 0:
		return nil, errors.New("data size is not a multiple of the target type size")
	case len(text) == 0:
		return nil, errors.New("empty vector is invalid")
	case !s.eat("]"):
		return nil, errSyntax
	}
	return vectorOf(text), nil
}

// vectorOf decodes the numbers of a vector, as clients write them: little-endian float64.
func vectorOf[T string | []byte](b T) []float64 {
	v := make([]float64, len(b)/8)
	for i := range v {
		v[i] = math.Float64frombits(binary.LittleEndian.Uint64([]byte(b[8*i:])))
	}
	return v
}

// joined reads conditions as long as more follow.
func joined(o op, condition func() (*expr, error), more func() bool) (*expr, error) {
	var of []*expr
	for {
		e, err := condition()
		if err != nil {
			return nil, err
		}
		if of = append(of, e); !more() {
			return join(o, of), nil
		}
	}
}

func (s *scanner) or() (*expr, error) {
	return joined(opOr, s.and, func() bool { return s.eat("|") })
}

func (s *scanner) and() (*expr, error) {
	return joined(opAnd, s.unary, func() bool { return !s.end() && s.text[s.at] != '|' && s.text[s.at] != ')' })
}

func (s *scanner) unary() (*expr, error) {
	if err := s.nest(); err != nil {
		return nil, err
	}
	defer func() { s.depth-- }()
	switch {
	case s.eat("*"):
		return &expr{op: opAll}, nil
	case s.eat("-"):
		e, err := s.unary()
		return &expr{op: opNot, of: []*expr{e}}, err
	case s.eat("("):
		e, err := s.whole()
		if err == nil && !s.eat(")") {
			err = errSyntax
		}
		return e, err
	}
	name, ok := s.name("@")
	if !ok || !s.eat(":") {
		return nil, errSyntax
	}
	switch {
	case s.eat("{"):
		return s.tags(name)
	case s.eat("["):
		if s.eat("VECTOR_RANGE") {
			x, ok, err := s.numberOr("$")
			if !ok || err != nil {
				return nil, orSyntax(err)
			}
			v, err := s.vector()
			return &expr{op: opRange, name: name, num: x, vec: v}, err
		}
		return s.interval(name)
	}
	return nil, errSyntax
}

// tags reads the tags up to the closing brace.
func (s *scanner) tags(name string) (*expr, error) {
	var of []*expr
	for {
		tag, ok, err := s.quoted()
		if !ok && err == nil {
			tag, ok, err = s.param("$")
		}
		if !ok && err == nil {
			tag = s.bareTag()
		}
		if err == nil {
			err = s.one()
		}
		if err != nil {
			return nil, err
		}
		of = append(of, &expr{op: opTag, name: name, tag: tag})
		if s.eat("}") {
			return join(opOr, of), nil
		}
		if !s.eat("|") {
			return nil, errSyntax
		}
	}
}

// bareTag reads a tag without quotes: up to a bar or a brace, without blanks around it. A backslash takes the character
// behind it as it is.
func (s *scanner) bareTag() string {
	s.blanks()
	var b strings.Builder
	keep := 0 // the length up to the last character that is not a blank, or is escaped
	for ; s.at < len(s.text); s.at++ {
		c := s.text[s.at]
		escaped := c == '\\' && s.at+1 < len(s.text)
		if escaped {
			s.at++
			c = s.text[s.at]
		} else if c == '|' || c == '}' || c == '{' {
			break
		}
		b.WriteByte(c)
		if escaped || strings.IndexByte(" \t\r\n", c) < 0 {
			keep = b.Len()
		}
	}
	return b.String()[:keep]
}

// interval reads the bounds of a range up to the closing bracket.
func (s *scanner) interval(name string) (*expr, error) {
	var of []*expr
	for i, c := range []string{">", "<"} {
		if s.eat("-inf") || s.eat("inf") || s.eat("+inf") {
			positive := s.text[s.at-4] != '-'
			if positive && i == 0 {
				return nil, errors.New("it's not allowed to set the lower bound as positive infinity")
			}
			if !positive && i == 1 {
				return nil, errors.New("it's not allowed to set the upper bound as negative infinity")
			}
			continue
		}
		if !s.eat("(") {
			c += "="
		}
		x, ok, err := s.numberOr("$")
		if !ok || err != nil {
			return nil, orSyntax(err)
		}
		of = append(of, &expr{op: opCompare, name: name, cmp: c, num: x})
	}
	if !s.eat("]") {
		return nil, errSyntax
	}
	if len(of) == 0 {
		return &expr{op: opAll, name: name}, nil
	}
	return join(opAnd, of), nil
}
