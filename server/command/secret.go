package command

import (
	"slices"
	"strconv"
	"strings"
)

// Redacted replaces a secret in the output of MONITOR and SLOWLOG.
const Redacted = "(redacted)"

// secretSettings are the settings whose values are passwords.
var secretSettings = []string{"requirepass", "masterauth", "tls-key-file-pass", "tls-client-key-file-pass"}

// Secret reports whether an argument of a command must be hidden from others: passwords, tokens of namespaces, and
// all rules of a user. The fact secret of the command tells which ones:
//
//	3            the argument with this index
//	2-           the arguments from this index on
//	AUTH 2       two arguments after this word; several such rules have / between them
//	SETNAME -1   the argument after this word is none of the words of the other rules, and no secret
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
	if index, onward := strings.CutSuffix(rules, "-"); index[0] >= '0' && index[0] <= '9' {
		n, _ := strconv.Atoi(index)
		return i == n || onward && i > n
	}
	for at := 1; at < i; at++ {
		n := secretsAfter(rules, args[at])
		if i <= at+n {
			return true
		}
		at += max(n, -n)
	}
	return false
}

// secretsAfter returns how many arguments after a word are secrets; a negative number counts arguments that are not.
func secretsAfter(rules string, word []byte) int {
	for rule := range strings.SplitSeq(rules, " / ") {
		if w, count, _ := strings.Cut(rule, " "); EqualFold(word, w) {
			n, _ := strconv.Atoi(count)
			return n
		}
	}
	return 0
}
