package acl

import "strings"

// quote returns a rule of a selector in a form that [resp.SplitArgs], which splits the inside of a selector, reads back
// unchanged. That is only necessary for a quote, or for a closing parenthesis at the end. The parenthesis is written in
// hexadecimal, because lines are split into selectors before quotes are interpreted.
func quote(rule string) string {
	if !strings.ContainsAny(rule, `"'`) && !strings.HasSuffix(rule, ")") {
		return rule
	}
	var b strings.Builder
	b.WriteByte('"')
	for i := range len(rule) {
		switch c := rule[i]; c {
		case '"', '\\':
			b.WriteByte('\\')
			b.WriteByte(c)
		case ')':
			b.WriteString(`\x29`)
		default:
			b.WriteByte(c)
		}
	}
	b.WriteByte('"')
	return b.String()
}
