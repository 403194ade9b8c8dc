// Package glob matches names with the patterns of Redis.
package glob

// Pattern is a compiled glob pattern as KEYS, the MATCH option and PSUBSCRIBE take
// it:
//
//   - any number of bytes
//     ?       one byte
//     [abc]   one byte of the set; [a-z] a range, its ends in either order;
//     [^abc] one byte that is not in it; a backslash quotes a byte of the
//     set; a set without a closing bracket ends with the pattern
//     \x      the byte x itself; a backslash at the very end stands for itself
//
// Matching takes time in O(len(pattern) * len(subject)), whatever the pattern.
type Pattern struct {
	tokens  []token
	sets    [][4]uint64 // 256-bit sets, by index from the tokens
	prefix  []byte
	any     bool // the pattern is *
	literal bool // no wildcard: prefix is the whole of it
}

type token struct {
	kind kind
	lit  byte // for oneByte
	set  int  // for oneOfSet: index in Pattern.sets
}

type kind uint8

const (
	oneByte  kind = iota
	anyByte       // ?
	oneOfSet      // [...]
	anyBytes      // *, runs of them taken as one
)

// Compile compiles a pattern, which it does not keep. Every pattern is valid.
func Compile(pattern []byte) *Pattern {
	g := &Pattern{tokens: make([]token, 0, len(pattern))}
	for i := 0; i < len(pattern); i++ {
		switch c := pattern[i]; c {
		case '*':
			if n := len(g.tokens); n == 0 || g.tokens[n-1].kind != anyBytes {
				g.tokens = append(g.tokens, token{kind: anyBytes})
			}
		case '?':
			g.tokens = append(g.tokens, token{kind: anyByte})
		case '[':
			var set [4]uint64
			set, i = parseSet(pattern, i+1)
			g.tokens = append(g.tokens, token{kind: oneOfSet, set: len(g.sets)})
			g.sets = append(g.sets, set)
		default:
			if c == '\\' && i+1 < len(pattern) {
				i++
				c = pattern[i]
			}
			g.tokens = append(g.tokens, token{kind: oneByte, lit: c})
		}
	}
	n := 0
	for n < len(g.tokens) && g.tokens[n].kind == oneByte {
		g.prefix = append(g.prefix, g.tokens[n].lit)
		n++
	}
	g.literal = n == len(g.tokens)
	g.any = string(pattern) == "*"
	return g
}

// parseSet reads a set from p[i], the byte after the opening bracket. end is
// the index of the last byte that belongs to it.
func parseSet(p []byte, i int) (set [4]uint64, end int) {
	negate := i < len(p) && p[i] == '^'
	if negate {
		i++
	}
	for ; i < len(p) && p[i] != ']'; i++ {
		first, last := p[i], p[i]
		switch {
		case p[i] == '\\' && i+1 < len(p):
			i++
			first, last = p[i], p[i]
		case i+2 < len(p) && p[i+1] == '-':
			last = p[i+2]
			i += 2
		}
		if first > last {
			first, last = last, first
		}
		for c := int(first); c <= int(last); c++ {
			set[c>>6] |= 1 << (c & 63)
		}
	}
	if negate {
		for k := range set {
			set[k] = ^set[k]
		}
	}
	return set, min(i, len(p)-1)
}

// Match reports whether the whole of s matches.
func (g *Pattern) Match(s []byte) bool {
	if g.any {
		return true
	}
	if len(s) < len(g.prefix) || string(s[:len(g.prefix)]) != string(g.prefix) {
		return false
	}
	if g.literal {
		return len(s) == len(g.prefix)
	}
	if len(s) == 0 {
		return len(g.tokens) == 0 // a quirk of Redis: ** and the like do not match
	}
	// After a mismatch only the last star needs to take one byte more: what
	// stands before it has matched at the leftmost place already.
	t, i := len(g.prefix), len(g.prefix)
	star, from := -1, 0
	for i < len(s) {
		if t < len(g.tokens) {
			if g.tokens[t].kind == anyBytes {
				t++
				star, from = t, i
				continue
			}
			if g.matchOne(g.tokens[t], s[i]) {
				t++
				i++
				continue
			}
		}
		if star < 0 {
			return false
		}
		from++
		t, i = star, from
	}
	for t < len(g.tokens) && g.tokens[t].kind == anyBytes {
		t++
	}
	return t == len(g.tokens)
}

func (g *Pattern) matchOne(t token, c byte) bool {
	switch t.kind {
	case oneByte:
		return t.lit == c
	case oneOfSet:
		return g.sets[t.set][c>>6]&(1<<(c&63)) != 0
	}
	return true
}

// Prefix returns the literal bytes that everything that matches starts with. An
// iteration can be bounded to them. The caller must not change them.
func (g *Pattern) Prefix() []byte { return g.prefix }

// Literal reports whether the pattern has no wildcard, so that only Prefix itself matches.
func (g *Pattern) Literal() bool { return g.literal }

// MatchesAll reports whether the pattern is a lone star.
func (g *Pattern) MatchesAll() bool { return g.any }
