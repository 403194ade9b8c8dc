package json

import (
	"regexp"
	"regexp/syntax"

	"github.com/basaltdb/basalt/engine"
)

// operator is the operation of a filter expression.
type operator uint8

const (
	opLiteral operator = iota
	opPath             // the only result of a path
	opExists           // whether a path or function has a result
	opNot
	opAnd
	opOr
	opEqual
	opNotEqual
	opLess
	opLessEqual
	opGreater
	opGreaterEqual
	opRegexp
	opLength
	opCount
	opMatch
	opSearch
)

// expr is a node of a filter's syntax tree.
type expr struct {
	op      operator
	args    []*expr
	literal Value
	path    []segment // opPath, opCount
	current bool      // the path begins at the child (@), not at the document ($)
	pattern *pattern  // opRegexp, opMatch, opSearch with a literal pattern
}

// logical reports whether the expression is a test rather than a value.
func (e *expr) logical() bool {
	return e.op >= opExists && e.op <= opRegexp || e.op == opMatch || e.op == opSearch
}

// comparisons are the comparison operators. An operator comes before its prefixes.
var comparisons = []struct {
	token string
	op    operator
}{{"==", opEqual}, {"!=", opNotEqual}, {">=", opGreaterEqual}, {"<=", opLessEqual}, {">", opGreater}, {"<",
	opLess}, {"=~", opRegexp}}

// filter parses alternatives: && binds more tightly than ||.
func (p *pathParser) filter() (*expr, error) { return p.chain("||", opOr, p.conjunction) }

func (p *pathParser) conjunction() (*expr, error) { return p.chain("&&", opAnd, p.test) }

func (p *pathParser) chain(token string, op operator, operand func() (*expr, error)) (*expr, error) {
	e, err := operand()
	if err != nil {
		return nil, err
	}
	for p.eat(token) {
		f, err := operand()
		if err != nil {
			return nil, err
		}
		if e.op != op {
			e = &expr{op: op, args: []*expr{e}}
		}
		e.args = append(e.args, f)
	}
	return e, nil
}

// test parses a comparison, a negation, a group, or a single operand, which is tested for existence.
func (p *pathParser) test() (*expr, error) {
	if err := p.enter(); err != nil {
		return nil, err
	}
	defer p.leave()
	if p.eat("(") {
		e, err := p.filter()
		if err != nil {
			return nil, err
		}
		if !p.eat(")") {
			return nil, p.fail("'&&'", "'||'", "')'")
		}
		return e, nil
	}
	if p.i < len(p.s) && p.s[p.i] == '!' {
		p.i++
		e, err := p.test()
		return &expr{op: opNot, args: []*expr{e}}, err
	}
	left, err := p.operand()
	if err != nil {
		return nil, err
	}
	for _, c := range comparisons {
		if !p.eat(c.token) {
			continue
		}
		at := p.i
		if left.logical() {
			return nil, p.fail("'&&'", "'||'", "the end of the filter")
		}
		right, err := p.operand()
		if err != nil {
			return nil, err
		}
		if right.logical() {
			p.i = at
			return nil, p.fail("a value")
		}
		e := &expr{op: c.op, args: []*expr{left, right}}
		if c.op == opRegexp {
			err = p.compile(e, at)
		}
		return e, err
	}
	if left.logical() {
		return left, nil
	}
	return &expr{op: opExists, args: []*expr{left}}, nil
}

var functions = map[string]struct {
	op   operator
	args int
}{"length": {opLength, 1}, "count": {opCount, 1}, "value": {opPath, 1}, "match": {opMatch, 2}, "search": {opSearch, 2}}

// operand parses a literal, a path or a function call.
func (p *pathParser) operand() (*expr, error) {
	p.space()
	if p.i == len(p.s) {
		return nil, p.expectedOperand()
	}
	switch c := p.s[p.i]; {
	case c == '@' || c == '$':
		p.i++
		segs, err := p.segments()
		return &expr{op: opPath, path: segs, current: c == '@'}, err
	case c == '\'' || c == '"':
		s, err := p.quoted()
		return &expr{literal: StringOf(s)}, err
	case c == '-' || c >= '0' && c <= '9':
		n := parser{s: p.s, i: p.i}
		fraction, err := n.number()
		if err != nil {
			return nil, p.fail("'<number>'")
		}
		v, ok := parseNumber(p.s[p.i:n.i], fraction)
		if !ok {
			return nil, p.fail("'<number>'")
		}
		p.i = n.i
		return &expr{literal: v}, nil
	}
	from := p.i
	for p.i < len(p.s) && p.s[p.i] >= 'a' && p.s[p.i] <= 'z' {
		p.i++
	}
	word := p.s[from:p.i]
	switch word {
	case "true", "false":
		return &expr{literal: BoolOf(word == "true")}, nil
	case "null":
		return &expr{}, nil
	}
	f, ok := functions[word]
	if !ok || !p.eat("(") {
		p.i = from
		return nil, p.expectedOperand()
	}
	return p.call(f.op, f.args)
}

func (p *pathParser) expectedOperand() error {
	return p.fail("'@'", "'$'", "'<number>'", "'<string>'", "true", "false", "null", "a function")
}

// call parses the arguments of a function.
func (p *pathParser) call(op operator, n int) (*expr, error) {
	if err := p.enter(); err != nil {
		return nil, err
	}
	defer p.leave()
	e := &expr{op: op}
	at := p.i
	for i := range n {
		if i > 0 && !p.eat(",") {
			return nil, p.fail("','")
		}
		at = p.i
		arg, err := p.operand()
		if err != nil {
			return nil, err
		}
		if arg.logical() || (op == opCount || op == opPath) && arg.op != opPath {
			p.i = at
			return nil, p.fail("a value")
		}
		e.args = append(e.args, arg)
	}
	if !p.eat(")") {
		return nil, p.fail("')'")
	}
	switch op {
	case opCount:
		e.path, e.current, e.args = e.args[0].path, e.args[0].current, nil
	case opPath:
		return e.args[0], nil
	case opMatch, opSearch:
		return e, p.compile(e, at)
	}
	return e, nil
}

// compile compiles the pattern of an expression if it is a literal.
func (p *pathParser) compile(e *expr, at int) error {
	right := e.args[1]
	if right.op != opLiteral || right.literal.kind != String {
		return nil
	}
	e.pattern = compilePattern(right.literal.text, e.op == opMatch)
	if e.pattern.err != nil {
		p.i = at
		return e.pattern.err
	}
	return nil
}

// pattern is a regular expression and the cost of using it.
type pattern struct {
	source string
	whole  bool
	re     *regexp.Regexp // nil = invalid: it matches nothing
	size   int64          // approximate number of instructions
	err    error          // set if the expression is too large
}

// Limits of a regular expression: bytes of source, and instructions after all repetitions are expanded.
const (
	maxPattern     = 4 << 10
	maxPatternSize = 10_000
)

// errPattern is the error for an expression that exceeds the limits.
var errPattern = engine.NewError("ERR", "the regular expression is too large")

// compilePattern compiles a regular expression; with whole it must match the whole string. An invalid expression
// matches nothing, as in RedisJSON.
func compilePattern(source string, whole bool) *pattern {
	p := &pattern{source: source, whole: whole}
	if len(source) > maxPattern {
		p.err = errPattern
		return p
	}
	tree, err := syntax.Parse(source, syntax.Perl)
	if err != nil {
		return p
	}
	// The size must be known before repetitions are expanded, which could take a lot of memory.
	if p.size = patternSize(tree); p.size > maxPatternSize {
		p.err = errPattern
		return p
	}
	if whole {
		source = `\A(?:` + source + `)\z`
	}
	p.re, _ = regexp.Compile(source)
	return p
}

func patternSize(re *syntax.Regexp) int64 {
	size := int64(1)
	if re.Op == syntax.OpLiteral || re.Op == syntax.OpCharClass {
		size += int64(len(re.Rune))
	}
	for _, sub := range re.Sub {
		size += patternSize(sub)
	}
	if re.Op == syntax.OpRepeat {
		size *= int64(max(re.Max, re.Min, 1))
	}
	return min(size, 2*maxPatternSize)
}
