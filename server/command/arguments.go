package command

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/basaltdb/basalt/server/resp"
)

// argument is an argument of a command as COMMAND DOCS describes it.
type argument struct {
	name, kind        string
	keySpec           int    // number of the key specification of the argument, -1 = none
	shown             string // in place of the name, for people
	token             string // before the argument, or the whole argument
	hasToken          bool
	since, deprecated string
	flags             []string
	parts             []argument
}

// parseArguments reads the arguments of a command, with blanks between them. An argument is
//
//	name:type [key specification's number] [~shown] [=TOKEN] [?] [*] [+] [@since] [!deprecated since] [(arguments)]
//
// without the blanks. Types: s string, i integer, d double, k key, p pattern, u Unix time, t the token alone, o one
// of the arguments, b all of them. ? = may be missing, * = may be repeated, + = the token is repeated too. Words with
// characters other than letters, digits, - and _ are quoted.
func parseArguments(text string) ([]argument, error) {
	p := argumentParser{rest: text}
	list, err := p.list()
	if err == nil && p.rest != "" {
		err = fmt.Errorf("%q is left", p.rest)
	}
	return list, err
}

// argumentParser reads the notation of parseArguments.
type argumentParser struct{ rest string }

var argumentKinds = map[byte]string{'s': "string", 'i': "integer", 'd': "double", 'k': "key", 'p': "pattern",
	'u': "unix-time", 't': "pure-token",
	'o': "oneof", 'b': "block"}

func (p *argumentParser) list() (list []argument, err error) {
	for {
		a, err := p.one()
		if err != nil {
			return nil, err
		}
		list = append(list, a)
		if !p.take(' ') {
			return list, nil
		}
	}
}

func (p *argumentParser) one() (a argument, err error) {
	a = argument{keySpec: -1, name: p.word("-_")}
	if a.name == "" || !p.take(':') || p.rest == "" {
		return a, fmt.Errorf("a name and a type are missing before %q", p.rest)
	}
	a.kind = argumentKinds[p.rest[0]]
	p.rest = p.rest[1:]
	if n, err := strconv.Atoi(p.word("")); err == nil {
		a.keySpec = n
	}
	if p.take('~') {
		a.shown = p.text()
	}
	if a.hasToken = p.take('='); a.hasToken {
		a.token = p.text()
	}
	for _, f := range []struct {
		mark byte
		name string
	}{{'?', "optional"}, {'*', "multiple"}, {'+', "multiple_token"}} {
		if p.take(f.mark) {
			a.flags = append(a.flags, f.name)
		}
	}
	if p.take('@') {
		a.since = p.word(".")
	}
	if p.take('!') {
		a.deprecated = p.word(".")
	}
	if p.take('(') {
		if a.parts, err = p.list(); err == nil && !p.take(')') {
			err = fmt.Errorf("a ) is missing before %q", p.rest)
		}
	}
	if nests := a.kind == "oneof" || a.kind == "block"; err == nil && (a.kind == "" || nests != (a.parts != nil)) {
		err = fmt.Errorf("%s has no type that fits", a.name)
	}
	return a, err
}

// take skips a character if it comes next.
func (p *argumentParser) take(c byte) bool {
	if p.rest == "" || p.rest[0] != c {
		return false
	}
	p.rest = p.rest[1:]
	return true
}

// word reads letters, digits and some other characters.
func (p *argumentParser) word(others string) string {
	n := 0
	for n < len(p.rest) {
		if c := p.rest[n] | 0x20; !(c >= 'a' && c <= 'z' || p.rest[n] >= '0' && p.rest[n] <= '9' ||
			strings.IndexByte(others, p.rest[n]) >= 0) {
			break
		}
		n++
	}
	word := p.rest[:n]
	p.rest = p.rest[n:]
	return word
}

// text reads a word, or a quoted string.
func (p *argumentParser) text() string {
	if !p.take('"') {
		return p.word("-_")
	}
	text, rest, _ := strings.Cut(p.rest, `"`)
	p.rest = rest
	return text
}

func writeArguments(w *resp.Writer, list []argument) {
	w.Array(len(list))
	for i := range list {
		list[i].write(w)
	}
}

func (a *argument) write(w *resp.Writer) {
	mark, n := w.Mark(), 0
	field := func(name, value string) {
		stringField(w, name, value)
		n++
	}
	field("name", a.name)
	field("type", a.kind)
	if a.parts == nil {
		shown := a.shown
		if shown == "" {
			shown = a.name
		}
		field("display_text", shown)
	}
	if a.keySpec >= 0 {
		intField(w, "key_spec_index", a.keySpec)
		n++
	}
	if a.hasToken {
		field("token", a.token)
	}
	if a.since != "" {
		field("since", a.since)
	}
	if a.deprecated != "" {
		field("deprecated_since", a.deprecated)
	}
	if len(a.flags) > 0 {
		w.BulkString("flags")
		writeWords(w, a.flags)
		n++
	}
	if a.parts != nil {
		w.BulkString("arguments")
		writeArguments(w, a.parts)
		n++
	}
	w.InsertMap(mark, n)
}
