package luac

import "fmt"

// parser compiles a chunk by recursive descent. It panics with an *Error where the chunk is invalid.
type parser struct {
	scanner
	token token
	ahead token // tokenEOF = no token was read ahead
	// lastLine is the line of the scanner when it advanced beyond the last token.
	lastLine  int
	level     int // of nesting
	fn        *function
	functions int32
	variables []variable // in scope; those of the innermost function are last
	changes   []change
}

func (p *parser) next() {
	p.lastLine = p.line
	if p.ahead.kind != tokenEOF {
		p.token, p.ahead.kind = p.ahead, tokenEOF
		return
	}
	p.scan(&p.token)
}

func (p *parser) failf(near tokenKind, format string, args ...any) {
	p.fail(fmt.Sprintf(format, args...), near)
}

// failWhole ends the parsing with an error without position.
func (p *parser) failWhole(message string) { panic(&Error{Chunk: p.chunk, Text: message}) }

// failHere ends the parsing with an error near the token.
func (p *parser) failHere(message string) { p.fail(message, p.token.kind) }

// acceptToken advances if the token has a kind.
func (p *parser) acceptToken(kind tokenKind) bool {
	if p.token.kind != kind {
		return false
	}
	p.next()
	return true
}

// check requires the token to have a kind.
func (p *parser) check(kind tokenKind) {
	if p.token.kind != kind {
		p.failf(p.token.kind, "'%s' expected", kind)
	}
}

// expect requires the token to have a kind, and advances.
func (p *parser) expect(kind tokenKind) {
	p.check(kind)
	p.next()
}

// expectClosing requires the token that closes another one at a line, and advances.
func (p *parser) expectClosing(kind, opening tokenKind, line int) {
	if p.token.kind != kind && line != p.line {
		p.failf(p.token.kind, "'%s' expected (to close '%s' at line %d)", kind, opening, line)
	}
	p.expect(kind)
}

// name requires a name, and advances.
func (p *parser) name() symbolID {
	p.check(tokenName)
	id := p.token.symbol
	p.next()
	return id
}

// enterLevel counts a nesting level, for which Lua's parser recurses.
func (p *parser) enterLevel() {
	if p.level++; p.level > maxLevels {
		p.fail("chunk has too many syntax levels", 0)
	}
}

// endsBlock reports whether no statement follows in a block.
func (p *parser) endsBlock() bool {
	switch p.token.kind {
	case tokenElse, tokenElseif, tokenEnd, tokenUntil, tokenEOF:
		return true
	}
	return false
}

// statements parses up to the end of a block.
func (p *parser) statements() {
	p.enterLevel()
	for last := false; !last && !p.endsBlock(); {
		last = p.statement()
		p.acceptToken(';')
		p.fn.free = int32(p.fn.active)
	}
	p.level--
}

// body parses the statements of a block with its own variables.
func (p *parser) body() {
	var b block
	p.enterBlock(&b, false)
	p.statements()
	p.leaveBlock()
}
