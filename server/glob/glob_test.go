package glob

import (
	"bytes"
	"strings"
	"testing"
)

func TestMatch(t *testing.T) {
	for _, c := range []struct {
		pattern string
		yes, no []string
	}{
		{"*", []string{"", "a", "abc"}, nil},
		{"**", []string{"a", "abc"}, []string{""}},
		{"", []string{""}, []string{"a"}},
		{"abc", []string{"abc"}, []string{"", "ab", "abcd", "ABC"}},
		{"a*", []string{"a", "ab"}, []string{"", "ba"}},
		{"*c", []string{"c", "abc", "cc"}, []string{"", "ca"}},
		{"a*b*c", []string{"abc", "axbxc", "abbcc"}, []string{"acb", "ab"}},
		{"*ab*ab", []string{"abab", "aabbab"}, []string{"ab", "aba"}},
		{"h?llo", []string{"hello", "h\x00llo"}, []string{"hllo", "heello"}},
		{"??", []string{"ab"}, []string{"a", "abc"}},
		{"h[ae]llo", []string{"hello", "hallo"}, []string{"hillo", "hllo"}},
		{"h[^e]llo", []string{"hallo"}, []string{"hello", "hllo"}},
		{"h[a-c]llo", []string{"hallo", "hbllo", "hcllo"}, []string{"hdllo", "h-llo"}},
		{"h[c-a]llo", []string{"hbllo"}, []string{"hdllo"}},
		{"[a-]", []string{"]", "a", "_"}, []string{"-", "b"}}, // a range from a to ]
		{"[-a]", []string{"-", "a"}, []string{"b"}},
		{`[\]]`, []string{"]"}, []string{`\`}},
		{`[\^a]`, []string{"^", "a"}, []string{"b"}},
		{"[]a", nil, []string{"]a", "a", ""}}, // an empty set matches nothing
		{"[^]", []string{"]", "a"}, []string{"", "ab"}},
		{"[abc", []string{"a", "b", "c"}, []string{"[abc", ""}},
		{"[", nil, []string{"[", ""}},
		{`[\`, []string{`\`}, []string{"["}},
		{`\*`, []string{"*"}, []string{"a", `\*`}},
		{`\[a\]`, []string{"[a]"}, []string{"a"}},
		{`a\`, []string{`a\`}, []string{"a"}},
		{"\xff[\x80-\xfe]", []string{"\xff\x80", "\xff\xfe"}, []string{"\xff\xff", "\xff\x7f"}},
		{"*[ab]?c*", []string{"zzazczz", "bbc"}, []string{"ac", "zzc"}},
	} {
		g := Compile([]byte(c.pattern))
		for _, s := range c.yes {
			if !g.Match([]byte(s)) {
				t.Errorf("%q does not match %q", c.pattern, s)
			}
		}
		for _, s := range c.no {
			if g.Match([]byte(s)) {
				t.Errorf("%q matches %q", c.pattern, s)
			}
		}
	}
}

func TestGlobPrefix(t *testing.T) {
	for _, c := range []struct {
		pattern, prefix string
		literal, all    bool
	}{
		{"user:*", "user:", false, false},
		{"user:1", "user:1", true, false},
		{`a\*b?`, "a*b", false, false},
		{"[a]b", "", false, false},
		{"*", "", false, true},
		{"**", "", false, false},
		{"", "", true, false},
	} {
		g := Compile([]byte(c.pattern))
		if string(g.Prefix()) != c.prefix || g.Literal() != c.literal || g.MatchesAll() != c.all {
			t.Errorf("%q: prefix %q literal %v all %v", c.pattern, g.Prefix(), g.Literal(), g.MatchesAll())
		}
	}
}

// TestGlobIsPolynomial would not end with a matcher that tries every way to
// spread the stars.
func TestGlobIsPolynomial(t *testing.T) {
	g := Compile([]byte(strings.Repeat("a*", 1000) + "b"))
	if g.Match(bytes.Repeat([]byte("a"), 10000)) {
		t.Error("matches")
	}
}

func TestMatchDoesNotAllocate(t *testing.T) {
	g := Compile([]byte("user:*[0-9]?x"))
	s := []byte("user:abc12x")
	if a := testing.AllocsPerRun(100, func() { g.Match(s) }); a != 0 {
		t.Errorf("%v allocations", a)
	}
}

func FuzzGlob(f *testing.F) {
	for _, p := range []string{"a*b", "[a-c]?", `\`, "[^", `[\`, "**a**", "[a-"} {
		f.Add([]byte(p), []byte("abc"))
	}
	f.Fuzz(func(t *testing.T, pattern, s []byte) {
		if len(pattern) > 12 || len(s) > 12 {
			return // the reference is exponential
		}
		g := Compile(pattern)
		got := g.Match(s)
		want := globReference(pattern, s)
		if len(s) == 0 && len(pattern) > 1 {
			want = false
		}
		if got != want {
			t.Fatalf("%q on %q: %v, want %v", pattern, s, got, want)
		}
		if got && !bytes.HasPrefix(s, g.Prefix()) {
			t.Fatalf("%q matches %q in spite of prefix %q", pattern, s, g.Prefix())
		}
	})
}

// globReference defines the meaning by recursion over the pattern's text.
func globReference(p, s []byte) bool {
	if len(p) == 0 {
		return len(s) == 0
	}
	switch {
	case p[0] == '*':
		return globReference(p[1:], s) || len(s) > 0 && globReference(p, s[1:])
	case p[0] == '?':
		return len(s) > 0 && globReference(p[1:], s[1:])
	case p[0] == '[':
		if len(s) == 0 {
			return false
		}
		p = p[1:]
		negate := len(p) > 0 && p[0] == '^'
		if negate {
			p = p[1:]
		}
		in := false
		for len(p) > 0 && p[0] != ']' {
			switch {
			case p[0] == '\\' && len(p) >= 2:
				in = in || p[1] == s[0]
				p = p[2:]
			case len(p) >= 3 && p[1] == '-':
				in = in || p[0] <= s[0] && s[0] <= p[2] || p[2] <= s[0] && s[0] <= p[0]
				p = p[3:]
			default:
				in = in || p[0] == s[0]
				p = p[1:]
			}
		}
		if len(p) > 0 {
			p = p[1:]
		}
		return in != negate && globReference(p, s[1:])
	case p[0] == '\\' && len(p) >= 2:
		p = p[1:]
	}
	return len(s) > 0 && p[0] == s[0] && globReference(p[1:], s[1:])
}
