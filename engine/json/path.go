package json

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/basaltdb/basalt/engine"
)

// Limits of a path.
const (
	maxPath   = 64 << 10 // bytes
	maxNested = 64       // max nesting of parentheses, brackets and negations in filters
)

// Path is a parsed path. It is immutable and safe for concurrent use.
type Path struct {
	original string
	text     string // as a JSONPath
	legacy   bool
	segments []segment
}

// segment is a step of a path: from a value to the children that its selectors select.
type segment struct {
	descend bool // apply to the value and to all values in it
	sels    []selector
}

type selectorKind uint8

const (
	byName  selectorKind = iota
	byIndex              // negative = from the end
	bySlice
	byAny
	byFilter
)

// selector selects children. A selector that does not fit the kind of the value selects none.
type selector struct {
	kind       selectorKind
	name       string // byName
	start, end int64  // byIndex: start; bySlice
	step       int64
	from, to   bool // bySlice: start and end are given
	filter     *expr
}

// rootPath and legacyRoot are the paths of the whole document; legacyRoot is the default of JSON commands.
var (
	rootPath   = Path{original: "$", text: "$"}
	legacyRoot = Path{original: ".", text: "$", legacy: true}
)

// Root returns the legacy path of the whole document, the default of JSON commands.
func Root() *Path { return &legacyRoot }

// ParsePath parses a path. A path that is $, or that begins with $ followed by a dot or a bracket, is a JSONPath. All
// other paths are legacy paths: ".a[0]", "a[0]" and "." mean $.a[0], $.a[0] and $, but only their first result.
//
//	$                        the document
//	.name  ['name']          a member; ["name"], .["name"] too
//	[0]  [-1]                an element, the last one
//	.*  [*]                  all members or elements
//	[1:5]  [::-1]            elements: start, end (exclusive), step
//	[0,2]  ['a','b',1:2]     all that one of several selectors chooses
//	..name  ..[0]  ..*       the same for the value and all values in it
//	[?(@.a > 1 && @.b)]      the children for which a filter is true
//
// A name after a dot consists of ASCII letters, digits, -_`~+#%$^/: and all that is not ASCII.
//
// A filter on an array or object tests its children; on another value it tests the value itself (but after two dots,
// the value is tested as a child). It compares with == != < <= > >= and =~ (a regular expression in RE2 syntax, which
// matches anywhere in the string unless anchored) and combines with && || ! and parentheses. Operands are numbers,
// strings in either quotes, true, false, null, paths from the child (@) or the document ($), and the functions
// length(), count(), value(), match() and search() of RFC 9535. A path operand that does not have exactly one result
// counts as nothing: it does not exist and equals nothing.
func ParsePath(s string) (*Path, error) {
	if len(s) > maxPath {
		return nil, engine.NewError("ERR", fmt.Sprintf("path of more than %d bytes", maxPath))
	}
	switch s {
	case "$":
		return &rootPath, nil
	case ".":
		return &legacyRoot, nil
	}
	p := &Path{original: s, text: s}
	if p.legacy = s == "" || s[0] != '$' || len(s) > 1 && s[1] != '.' && s[1] != '['; p.legacy {
		if p.text = "$." + s; s != "" && s[0] == '.' {
			p.text = "$" + s
		}
	}
	pp := pathParser{s: p.text, i: 1}
	var err error
	if !utf8.ValidString(s) {
		return nil, pp.fail("UTF-8")
	}
	if p.segments, err = pp.segments(); err != nil {
		return nil, err
	}
	if pp.i < len(pp.s) {
		return nil, pp.fail("'.'", "'..'", "'['", "the end")
	}
	return p, nil
}

// Legacy reports whether the path is a legacy path.
func (p *Path) Legacy() bool { return p.legacy }

// IsRoot reports whether the path is that of the whole document.
func (p *Path) IsRoot() bool { return len(p.segments) == 0 }

// String returns the path as a JSONPath.
func (p *Path) String() string { return p.text }

// Original returns the path as the client wrote it.
func (p *Path) Original() string { return p.original }

// static reports whether the form of the path guarantees at most one result.
func (p *Path) static() bool {
	for i := range p.segments {
		s := &p.segments[i]
		if s.descend || len(s.sels) != 1 || s.sels[0].kind > byIndex {
			return false
		}
	}
	return true
}

// pathParser parses a path.
type pathParser struct {
	s      string
	i      int
	nested int
}

// fail returns the error for an unexpected token.
func (p *pathParser) fail(expected ...string) error {
	const context = 100 // max bytes of the path shown on each side
	at := fmt.Sprintf("\"%s ---->>>> %s\"", p.s[max(0, p.i-context):p.i], p.s[p.i:min(len(p.s), p.i+context)])
	if p.i == len(p.s) {
		at = fmt.Sprintf("\"%s <<<<----\"", p.s[max(0, p.i-context):])
	}
	return engine.NewError("ERR", fmt.Sprintf("Error occurred on position %d, %s, expected one of the following: %s.",
		p.i, at, strings.Join(expected, ", ")))
}

func (p *pathParser) space() {
	for p.i < len(p.s) && p.s[p.i] == ' ' {
		p.i++
	}
}

// eat skips blanks and consumes a token if it is next.
func (p *pathParser) eat(token string) bool {
	p.space()
	if strings.HasPrefix(p.s[p.i:], token) {
		p.i += len(token)
		return true
	}
	return false
}

// enter increments the nesting depth; leave decrements it.
func (p *pathParser) enter() error {
	if p.nested++; p.nested > maxNested {
		return engine.NewError("ERR", fmt.Sprintf("filters of more than %d levels", maxNested))
	}
	return nil
}

func (p *pathParser) leave() { p.nested-- }

// segments parses all segments that follow.
func (p *pathParser) segments() ([]segment, error) {
	var segs []segment
	for {
		from := p.i
		seg := segment{}
		var err error
		switch {
		case p.eat(".."):
			seg.descend = true
			err = p.dotted(&seg)
		case p.eat("."):
			err = p.dotted(&seg)
		case p.eat("["):
			err = p.bracket(&seg)
		case len(segs) == 0 && p.i < len(p.s) && (nameByte(p.s[p.i]) || p.s[p.i] == '*') && from > 1:
			err = p.dotted(&seg) // in a filter the dot after @ and $ is optional
		default:
			return segs, nil
		}
		if err != nil {
			return nil, err
		}
		segs = append(segs, seg)
	}
}

func nameByte(c byte) bool {
	return c >= utf8.RuneSelf || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' ||
		strings.IndexByte("-_`~+#%$^/:", c) >= 0
}

// dotted parses a name, * or a bracket after a dot.
func (p *pathParser) dotted(seg *segment) error {
	if p.eat("[") {
		return p.bracket(seg)
	}
	p.space()
	if p.eat("*") {
		seg.sels = []selector{{kind: byAny}}
		return nil
	}
	from := p.i
	for p.i < len(p.s) && nameByte(p.s[p.i]) {
		p.i++
	}
	if p.i == from {
		return p.fail("<string>", "'*'", "'['")
	}
	seg.sels = []selector{{kind: byName, name: p.s[from:p.i]}}
	return nil
}

// bracket parses selectors up to the closing bracket.
func (p *pathParser) bracket(seg *segment) error {
	if err := p.enter(); err != nil {
		return err
	}
	defer p.leave()
	for {
		sel, err := p.selector()
		if err != nil {
			return err
		}
		seg.sels = append(seg.sels, sel)
		if p.eat("]") {
			return nil
		}
		if !p.eat(",") {
			return p.fail("','", "']'")
		}
	}
}

func (p *pathParser) selector() (selector, error) {
	p.space()
	if p.i == len(p.s) {
		return selector{}, p.expected()
	}
	switch c := p.s[p.i]; {
	case c == '*':
		p.i++
		return selector{kind: byAny}, nil
	case c == '\'' || c == '"':
		name, err := p.quoted()
		return selector{kind: byName, name: name}, err
	case c == '?':
		p.i++
		f, err := p.filter()
		return selector{kind: byFilter, filter: f}, err
	case c == '-' || c == ':' || c >= '0' && c <= '9':
		return p.slice()
	}
	return selector{}, p.expected()
}

func (p *pathParser) expected() error {
	return p.fail("'<number>[,<number>,...]'", "'<string>[,<string>,...]'", "['start:end:steps']", "'*'",
		"'[?(filter_expression)]'")
}

// integer parses a decimal integer if one is next.
func (p *pathParser) integer() (n int64, ok bool, err error) {
	p.space()
	from := p.i
	i := p.i
	if i < len(p.s) && p.s[i] == '-' {
		i++
	}
	digits := i
	for i < len(p.s) && p.s[i] >= '0' && p.s[i] <= '9' {
		i++
	}
	if i == digits {
		if i > from {
			return 0, false, p.fail("'<number>'")
		}
		return 0, false, nil
	}
	n, err = strconv.ParseInt(p.s[from:i], 10, 64)
	if err != nil || p.s[digits] == '0' && i > digits+1 {
		return 0, false, p.fail("'<number>'")
	}
	p.i = i
	return n, true, nil
}

func (p *pathParser) slice() (sel selector, err error) {
	if sel.start, sel.from, err = p.integer(); err != nil {
		return sel, err
	}
	if !p.eat(":") {
		sel.kind = byIndex
		return sel, nil
	}
	sel.kind, sel.step = bySlice, 1
	if sel.end, sel.to, err = p.integer(); err != nil {
		return sel, err
	}
	if p.eat(":") {
		at := p.i
		step, ok, err := p.integer()
		if err != nil {
			return sel, err
		}
		if ok {
			if sel.step = step; step == 0 {
				p.i = at
				return sel, p.fail("a step that is not 0")
			}
		}
	}
	return sel, nil
}

// quoted parses a string in single or double quotes.
func (p *pathParser) quoted() (string, error) {
	quote := p.s[p.i]
	from := p.i + 1
	end := from
	for end < len(p.s) && p.s[end] != quote && p.s[end] != '\\' {
		end++
	}
	if end < len(p.s) && p.s[end] == quote {
		p.i = end + 1
		return p.s[from:end], nil
	}
	buf := []byte(p.s[from:end])
	for end < len(p.s) && p.s[end] != quote {
		if p.s[end] != '\\' {
			buf = append(buf, p.s[end])
			end++
			continue
		}
		if end+1 < len(p.s) && (p.s[end+1] == '\'' || p.s[end+1] == '"') {
			buf = append(buf, p.s[end+1])
			end += 2
			continue
		}
		// The other escapes are JSON's.
		e := parser{s: p.s, i: end}
		var err error
		if buf, err = e.escape(buf); err != nil {
			p.i = end
			return "", p.fail("an escape sequence")
		}
		end = e.i
	}
	if end >= len(p.s) {
		p.i = len(p.s)
		return "", p.fail(strconv.QuoteRune(rune(quote)))
	}
	p.i = end + 1
	return string(buf), nil
}
