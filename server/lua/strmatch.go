package lua

import (
	"strings"

	vm "github.com/yuin/gopher-lua"
)

const (
	maxCaptures   = 32
	maxMatchDepth = 200 // max nested repetitions and captures of a pattern

	captureUnfinished = -1
	capturePosition   = -2
)

// matcher matches a Lua pattern against a string with backtracking. Every step counts as an instruction, so that a
// script can be stopped during a match.
type matcher struct {
	L        *vm.LState
	src, pat string
	level    int
	depth    int
	capture  [maxCaptures]struct{ start, len int }
}

func (m *matcher) fail(format string, args ...any) { raise(m.L, format, args...) }

// ends reports whether the pattern ends at p, where a C string would end.
func (m *matcher) ends(p int) bool { return p >= len(m.pat) || m.pat[p] == 0 }

// classEnd returns the end of the single-character class at p.
func (m *matcher) classEnd(p int) int {
	if p >= len(m.pat) {
		return p
	}
	c := m.pat[p]
	p++
	switch c {
	case '%':
		if m.ends(p) {
			m.fail("malformed pattern (ends with '%s')", "%")
		}
		return p + 1
	case '[':
		if p < len(m.pat) && m.pat[p] == '^' {
			p++
		}
		for first := true; first || p >= len(m.pat) || m.pat[p] != ']'; first = false {
			if m.ends(p) {
				m.fail("malformed pattern (missing ']')")
			}
			c := m.pat[p]
			p++
			if c == '%' && !m.ends(p) {
				p++
			}
		}
		return p + 1
	}
	return p
}

func matchClass(c, class byte) bool {
	var in bool
	switch class | 0x20 {
	case 'a':
		in = isLetter(c)
	case 'c':
		in = c < 32 || c == 127
	case 'd':
		in = isDigit(c)
	case 'l':
		in = c >= 'a' && c <= 'z'
	case 'p':
		in = c > 32 && c < 127 && !isLetter(c) && !isDigit(c)
	case 's':
		in = c == ' ' || c >= 9 && c <= 13
	case 'u':
		in = c >= 'A' && c <= 'Z'
	case 'w':
		in = isLetter(c) || isDigit(c)
	case 'x':
		in = digit(c) < 16
	case 'z':
		in = c == 0
	default:
		return class == c
	}
	if !isLetter(class) {
		return class == c
	}
	if class&0x20 == 0 {
		return !in
	}
	return in
}

func isLetter(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' }
func isDigit(c byte) bool  { return c >= '0' && c <= '9' }

// matchSet matches a byte against the set between the brackets at p and end.
func (m *matcher) matchSet(c byte, p, end int) bool {
	in := true
	p++
	if m.pat[p] == '^' {
		in = false
		p++
	}
	for ; p < end; p++ {
		switch {
		case m.pat[p] == '%':
			p++
			if matchClass(c, m.pat[p]) {
				return in
			}
		case p+2 < end && m.pat[p+1] == '-':
			if m.pat[p] <= c && c <= m.pat[p+2] {
				return in
			}
			p += 2
		case m.pat[p] == c:
			return in
		}
	}
	return !in
}

func (m *matcher) single(s, p, end int) bool {
	if s >= len(m.src) {
		return false
	}
	c := m.src[s]
	switch m.pat[p] {
	case '.':
		return true
	case '%':
		return matchClass(c, m.pat[p+1])
	case '[':
		return m.matchSet(c, p, end-1)
	}
	return m.pat[p] == c
}

// match matches the pattern from p at s and returns the end of the match, -1 if none exists.
func (m *matcher) match(s, p int) int {
	if m.depth++; m.depth > maxMatchDepth {
		m.fail("pattern too complex")
	}
	defer func() { m.depth-- }()
	for {
		work(m.L, 1)
		if p >= len(m.pat) {
			return s
		}
		switch m.pat[p] {
		case 0: // a pattern ends there, like a C string
			return s
		case '(':
			if p+1 < len(m.pat) && m.pat[p+1] == ')' {
				return m.startCapture(s, p+2, capturePosition)
			}
			return m.startCapture(s, p+1, captureUnfinished)
		case ')':
			return m.endCapture(s, p+1)
		case '%':
			if p+1 < len(m.pat) {
				switch c := m.pat[p+1]; {
				case c == 'b':
					if s = m.balance(s, p+2); s < 0 {
						return -1
					}
					p += 4
					continue
				case c == 'f':
					p += 2
					if p >= len(m.pat) || m.pat[p] != '[' {
						m.fail("missing '[' after '%s' in pattern", "%f")
					}
					end := m.classEnd(p)
					var before, after byte
					if s > 0 {
						before = m.src[s-1]
					}
					if s < len(m.src) {
						after = m.src[s]
					}
					if m.matchSet(before, p, end-1) || !m.matchSet(after, p, end-1) {
						return -1
					}
					p = end
					continue
				case isDigit(c):
					if s = m.backReference(s, c); s < 0 {
						return -1
					}
					p += 2
					continue
				}
			}
		case '$':
			if m.ends(p + 1) {
				if s == len(m.src) {
					return s
				}
				return -1
			}
		}
		end := m.classEnd(p)
		var repeat byte
		if end < len(m.pat) {
			repeat = m.pat[end]
		}
		switch repeat {
		case '?':
			if m.single(s, p, end) {
				if r := m.match(s+1, end+1); r >= 0 {
					return r
				}
			}
			p = end + 1
		case '*':
			return m.maxExpand(s, p, end, 0)
		case '+':
			return m.maxExpand(s, p, end, 1)
		case '-':
			return m.minExpand(s, p, end)
		default:
			if !m.single(s, p, end) {
				return -1
			}
			s, p = s+1, end
		}
	}
}

func (m *matcher) maxExpand(s, p, end, least int) int {
	n := 0
	for m.single(s+n, p, end) {
		n++
	}
	work(m.L, n/8)
	for ; n >= least; n-- {
		if r := m.match(s+n, end+1); r >= 0 {
			return r
		}
	}
	return -1
}

func (m *matcher) minExpand(s, p, end int) int {
	for {
		if r := m.match(s, end+1); r >= 0 {
			return r
		}
		if !m.single(s, p, end) {
			return -1
		}
		s++
	}
}

func (m *matcher) startCapture(s, p, what int) int {
	if m.level >= maxCaptures {
		m.fail("too many captures")
	}
	m.capture[m.level].start, m.capture[m.level].len = s, what
	m.level++
	r := m.match(s, p)
	if r < 0 {
		m.level--
	}
	return r
}

func (m *matcher) endCapture(s, p int) int {
	open := -1
	for i := m.level - 1; i >= 0; i-- {
		if m.capture[i].len == captureUnfinished {
			open = i
			break
		}
	}
	if open < 0 {
		m.fail("invalid pattern capture")
	}
	m.capture[open].len = s - m.capture[open].start
	r := m.match(s, p)
	if r < 0 {
		m.capture[open].len = captureUnfinished
	}
	return r
}

func (m *matcher) balance(s, p int) int {
	if m.ends(p) || m.ends(p+1) {
		m.fail("unbalanced pattern")
	}
	if s >= len(m.src) || m.src[s] != m.pat[p] {
		return -1
	}
	open, closing, depth := m.pat[p], m.pat[p+1], 1
	for i := s + 1; i < len(m.src); i++ {
		switch m.src[i] {
		case closing:
			if depth--; depth == 0 {
				work(m.L, (i-s)/8)
				return i + 1
			}
		case open:
			depth++
		}
	}
	work(m.L, (len(m.src)-s)/8)
	return -1
}

func (m *matcher) backReference(s int, c byte) int {
	i := int(c) - '1'
	if i < 0 || i >= m.level || m.capture[i].len == captureUnfinished {
		m.fail("invalid capture index")
	}
	cp := m.capture[i]
	if cp.len < 0 { // a position capture is compared as its special length, which no string has
		return -1
	}
	if text := m.src[cp.start : cp.start+cp.len]; strings.HasPrefix(m.src[s:], text) {
		work(m.L, len(text)/8)
		return s + len(text)
	}
	return -1
}

// value returns capture i of a match from s to e; without captures, capture 0 is the whole match.
func (m *matcher) value(i, s, e int) vm.LValue {
	if i >= m.level {
		if i != 0 {
			m.fail("invalid capture index")
		}
		return substring(m.L, m.src, s, e)
	}
	c := m.capture[i]
	switch c.len {
	case captureUnfinished:
		m.fail("unfinished capture")
	case capturePosition:
		return vm.LNumber(c.start + 1)
	}
	return substring(m.L, m.src, c.start, c.start+c.len)
}

func (m *matcher) pushCaptures(s, e int, whole bool) int {
	n := m.level
	if n == 0 && whole {
		n = 1
	}
	for i := range n {
		m.L.Push(m.value(i, s, e))
	}
	return n
}

// find is string.find, and without positions string.match.
func find(L *vm.LState, positions bool) int {
	s, p := checkString(L, 1), checkString(L, 2)
	init := position(optInt(L, 3, 1), len(s)) - 1
	init = min(max(init, 0), len(s))
	if text, _, _ := strings.Cut(p, "\x00"); positions && (vm.LVAsBool(L.Get(4)) ||
		!strings.ContainsAny(text, "^$*+?.([%-")) {
		i := strings.Index(s[init:], p)
		if i < 0 {
			return push(L, vm.LNil)
		}
		return push(L, vm.LNumber(init+i+1), vm.LNumber(init+i+len(p)))
	}
	m := matcher{L: L, src: s, pat: p}
	at := 0
	if strings.HasPrefix(p, "^") {
		at = 1
	}
	for ; ; init++ {
		m.level = 0
		if e := m.match(init, at); e >= 0 {
			if positions {
				return push(L, vm.LNumber(init+1), vm.LNumber(e)) + m.pushCaptures(init, e, false)
			}
			return m.pushCaptures(init, e, true)
		}
		if init >= len(s) || at == 1 {
			return push(L, vm.LNil)
		}
	}
}

func strGMatch(L *vm.LState) int {
	s, p := checkString(L, 1), checkString(L, 2)
	at := 0
	L.Push(L.NewClosure(func(L *vm.LState) int {
		m := matcher{L: L, src: s, pat: p}
		for ; at <= len(s); at++ {
			m.level = 0
			if e := m.match(at, 0); e >= 0 {
				start := at
				at = e
				if e == start {
					at++
				}
				return m.pushCaptures(start, e, true)
			}
		}
		return 0
	}, vm.LString(s), vm.LString(p)))
	return 1
}

func strGSub(L *vm.LState) int {
	s, p := checkString(L, 1), checkString(L, 2)
	most := optInt32(L, 4, len(s)+1)
	repl := L.Get(3)
	switch repl.(type) {
	case vm.LNumber, vm.LString, *vm.LTable, *vm.LFunction:
	default:
		argError(L, 3, "string/function/table expected")
	}
	m := matcher{L: L, src: s, pat: p}
	at := 0
	if strings.HasPrefix(p, "^") {
		at = 1
	}
	var b []byte
	charged, pos, n := 0, 0, 0
	for n < most {
		m.level = 0
		e := m.match(pos, at)
		if e >= 0 {
			n++
			b = m.replace(b, repl, pos, e)
		}
		if e >= 0 && e > pos {
			pos = e
		} else if pos < len(s) {
			b = append(b, s[pos])
			pos++
		} else {
			break
		}
		if len(b)-charged > 4096 {
			charge(L, len(b)-charged)
			charged = len(b)
		}
		if at == 1 {
			break
		}
	}
	if n == 0 {
		L.Push(vm.LString(s))
	} else {
		charge(L, len(s)-min(pos, len(s)))
		if pos < len(s) {
			b = append(b, s[pos:]...)
		}
		pushBytes(L, b)
	}
	pushInt(L, n)
	return 2
}

// replace appends the replacement of the match from s to e.
func (m *matcher) replace(b []byte, repl vm.LValue, s, e int) []byte {
	var v vm.LValue
	switch r := repl.(type) {
	case *vm.LFunction:
		m.L.Push(r)
		n := m.pushCaptures(s, e, true)
		m.L.Call(n, 1)
		v = m.L.Get(-1)
		m.L.Pop(1)
	case *vm.LTable:
		v = index(m.L, r, m.value(0, s, e))
	default:
		text, _ := toString(r)
		return m.template(b, text, s, e)
	}
	if vm.LVIsFalse(v) {
		return append(b, m.src[s:e]...)
	}
	text, ok := toString(v)
	if !ok {
		m.fail("invalid replacement value (a %s)", v.Type())
	}
	return append(b, text...)
}

func (m *matcher) template(b []byte, text string, s, e int) []byte {
	for i := 0; i < len(text); i++ {
		c := text[i]
		if c != '%' {
			b = append(b, c)
			continue
		}
		i++
		switch {
		case i == len(text):
			return append(b, 0)
		case !isDigit(text[i]):
			b = append(b, text[i])
		case text[i] == '0':
			b = append(b, m.src[s:e]...)
		default:
			v, _ := toString(m.value(int(text[i]-'1'), s, e))
			b = append(b, v...)
		}
		if len(b) > maxString {
			outOfMemory(m.L)
		}
	}
	return b
}
