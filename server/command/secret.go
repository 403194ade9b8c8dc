package command

import (
	"slices"
	"strconv"
	"strings"
)

// Redacted stands for a secret in what MONITOR and SLOWLOG show.
const Redacted = "(redacted)"

// secretSettings are the settings whose values are passwords.
var secretSettings = []string{"requirepass", "masterauth", "tls-key-file-pass", "tls-client-key-file-pass"}

// Secret reports whether an argument of a command is not to be shown to others: passwords, tokens of namespaces, and
// all that is said of a user. The fact secret of the command tells which ones:
//
//	3            the argument with this index
//	2-           those from this index on
//	AUTH 2       two arguments after this word; several such rules have / between them
//	settings     the values of settings that are passwords
func Secret(spec *Spec, args [][]byte, i int) bool {
	rules := spec.facts.secret
	switch {
	case rules == "":
		return false
	case rules == "settings":
		return i >= 3 && i%2 == 1 && slices.ContainsFunc(secretSettings, func(name string) bool {
			return EqualFold(args[i-1], name)
		})
	}
	for rule := range strings.SplitSeq(rules, " / ") {
		if word, count, ok := strings.Cut(rule, " "); ok {
			n, _ := strconv.Atoi(count)
			for at := max(1, i-n); at < i; at++ {
				if EqualFold(args[at], word) {
					return true
				}
			}
			continue
		}
		index, onward := strings.CutSuffix(rule, "-")
		if n, _ := strconv.Atoi(index); i == n || onward && i > n {
			return true
		}
	}
	return false
}

// AppendQuoted writes a string in double quotes, with backslashes for what cannot be printed, as MONITOR does.
func AppendQuoted(dst, s []byte) []byte {
	const hex = "0123456789abcdef"
	dst = append(dst, '"')
	for _, c := range s {
		switch c {
		case '\\', '"':
			dst = append(dst, '\\', c)
		case '\n':
			dst = append(dst, '\\', 'n')
		case '\r':
			dst = append(dst, '\\', 'r')
		case '\t':
			dst = append(dst, '\\', 't')
		case '\a':
			dst = append(dst, '\\', 'a')
		case '\b':
			dst = append(dst, '\\', 'b')
		default:
			if c < ' ' || c > '~' {
				dst = append(dst, '\\', 'x', hex[c>>4], hex[c&15])
			} else {
				dst = append(dst, c)
			}
		}
	}
	return append(dst, '"')
}
