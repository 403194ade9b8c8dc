package search

import (
	"errors"
	"strings"
)

// ParseSQL reads a query in Kvrocks's subset of SQL:
//
//	select * | f, g  from index  [where condition]  [order by f [asc | desc] | f <-> [1, 2.5]]
//	                                                [limit [offset,] count]
//
// A condition compares a NUMERIC field with a number (f < 5, 5 >= f, = != < <= > >=), asks for a tag (f hastag "a"), or
// for a vector within a distance (f <-> [1, 2.5] < 3); it is true or false, or joins conditions by and, or, not and
// parentheses. @p is a parameter in place of a number or a string. Keywords are written in any case.
func ParseSQL(text string, params map[string]string) (*Query, error) {
	s := &scanner{text: text, params: params}
	q, err := s.statement()
	if err == nil && !s.end() {
		err = errSyntax
	}
	if err != nil {
		return nil, reply(err)
	}
	return q, nil
}

// keyword skips a word if it is next.
func (s *scanner) keyword(word string) bool {
	from := s.at
	if strings.EqualFold(s.word(), word) {
		return true
	}
	s.at = from
	return false
}

func (s *scanner) statement() (*Query, error) {
	q := &Query{Count: -1, where: &expr{op: opAll}}
	if !s.keyword("select") {
		return nil, errSyntax
	}
	for all := s.eat("*"); !all; {
		f := s.word()
		if f == "" {
			return nil, errSyntax
		}
		q.Return = append(q.Return, f)
		all = !s.eat(",")
	}
	if !s.keyword("from") {
		return nil, errSyntax
	}
	if q.Index = s.word(); q.Index == "" {
		return nil, errSyntax
	}
	var err error
	if s.keyword("where") {
		if q.where, err = s.either(); err != nil {
			return nil, err
		}
	}
	if s.keyword("order") {
		if !s.keyword("by") {
			return nil, errSyntax
		}
		f := s.word()
		if f == "" {
			return nil, errSyntax
		}
		if s.eat("<->") {
			q.SortBy(f, false)
			q.order.vec, err = s.literal()
		} else if q.SortBy(f, s.keyword("desc")); !q.order.desc {
			s.keyword("asc")
		}
	}
	if err == nil && s.keyword("limit") {
		n, ok := s.count()
		if ok && s.eat(",") {
			q.Offset = n
			n, ok = s.count()
		}
		if q.Count = n; !ok {
			return nil, errSyntax
		}
	}
	return q, err
}

// count reads digits.
func (s *scanner) count() (int64, bool) {
	x, ok := s.number()
	if !ok || x < 0 || x >= 1<<53 || x != float64(int64(x)) {
		return 0, false
	}
	return int64(x), true
}

// literal reads the numbers of a vector.
func (s *scanner) literal() (v []float64, err error) {
	for ok := s.eat("["); ok; ok = s.eat(",") {
		x, number := s.number()
		if !number {
			return nil, errSyntax
		}
		v = append(v, x)
	}
	if v == nil || !s.eat("]") {
		return nil, errSyntax
	}
	return v, nil
}

func (s *scanner) either() (*expr, error) {
	return joined(opOr, s.both, func() bool { return s.keyword("or") })
}

func (s *scanner) both() (*expr, error) {
	return joined(opAnd, s.condition, func() bool { return s.keyword("and") })
}

func (s *scanner) condition() (*expr, error) {
	if err := s.nest(); err != nil {
		return nil, err
	}
	defer func() { s.depth-- }()
	switch {
	case s.eat("("):
		e, err := s.either()
		if err == nil && !s.eat(")") {
			err = errSyntax
		}
		return e, err
	case s.keyword("not"):
		e, err := s.condition()
		return &expr{op: opNot, of: []*expr{e}}, err
	case s.keyword("true"):
		return &expr{op: opAll}, nil
	case s.keyword("false"):
		return &expr{op: opNone}, nil
	}
	name := s.word()
	switch {
	case name == "":
		x, ok, err := s.numberOr("@")
		if !ok || err != nil {
			return nil, orSyntax(err)
		}
		c := s.comparison()
		if name = s.word(); c == "" || name == "" {
			return nil, errSides
		}
		return &expr{op: opCompare, name: name, cmp: flip.Replace(c), num: x}, nil
	case s.keyword("hastag"), s.keyword("tagged"):
		tag, ok, err := s.quoted()
		if !ok && err == nil {
			tag, ok, err = s.param("@")
		}
		if !ok {
			err = orSyntax(err)
		}
		return &expr{op: opTag, name: name, tag: tag}, err
	case s.eat("<->"):
		v, err := s.literal()
		if err == nil && !s.eat("<") {
			err = errSyntax
		}
		if err != nil {
			return nil, err
		}
		x, ok, err := s.numberOr("@")
		if !ok {
			err = orSyntax(err)
		}
		return &expr{op: opRange, name: name, num: x, vec: v}, err
	}
	c := s.comparison()
	if c == "" {
		return nil, errSyntax
	}
	x, ok, err := s.numberOr("@")
	if !ok {
		if err == nil {
			err = errSides
		}
		return nil, err
	}
	return &expr{op: opCompare, name: name, cmp: c, num: x}, nil
}

var errSides = errors.New("the left and right side of numeric comparison should be an identifier and a number")

// comparison reads a comparison, "" if none is next.
func (s *scanner) comparison() string {
	for _, c := range []string{"!=", "<=", ">=", "=", "<", ">"} {
		if s.eat(c) {
			return c
		}
	}
	return ""
}

// flip exchanges the sides of a comparison.
var flip = strings.NewReplacer("<", ">", ">", "<")
