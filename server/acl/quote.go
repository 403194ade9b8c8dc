package acl

import "strings"

// quote writes a rule of a selector so that it is read again as it is, where the inside of a selector is split by
// [resp.SplitArgs]. Only a quote, or a closing parenthesis at its end, make that necessary; the parenthesis is
// written in hexadecimal, as lines are cut into selectors before quotes are looked at.
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
