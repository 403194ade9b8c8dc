package config

import (
	"strings"
)

// rewriteConf brings a kvrocks.conf up to date. Unlike Kvrocks it keeps a line whose value has not changed, and keeps
// the comment at the end of a line whose value has changed. Of several lines with the same key it keeps only the
// first.
func rewriteConf(old []byte, st *state, users *fileUsers) ([]byte, error) {
	tokens := st.fileTokens()
	done := map[string]bool{} // namespaces
	written := map[int]bool{}
	var out strings.Builder
	put := func(key, text string) { out.WriteString(key + " " + quoteConf(text) + "\n") }
	putComment := func(rest string) {
		if rest = strings.TrimLeft(rest, blanks); rest != "" {
			out.WriteString(rest + "\n")
		}
	}
	for _, line := range confLines(old) {
		key, text, from, to, err := scanConfLine(line)
		if err != nil || key == "" {
			out.WriteString(line + "\n")
			continue
		}
		if len(key) > len(namespacePrefix) && strings.EqualFold(key[:len(namespacePrefix)], namespacePrefix) {
			name := key[len(namespacePrefix):]
			if token, ok := tokens[name]; ok && !done[name] && token == text {
				done[name] = true
				out.WriteString(line + "\n")
			}
			continue
		}
		if isUserKey(key) {
			have, err := parseUser(text)
			u, stays, goes := users.replace(have)
			switch {
			case stays || err != nil:
				out.WriteString(line + "\n")
			case !goes:
				out.WriteString(line[:from] + u.line() + "\n")
			}
			continue
		}
		s, i, ok := find(key)
		if !ok || s.Kind == Multi {
			out.WriteString(line + "\n")
			continue
		}
		if written[i] {
			putComment(line[to:])
			continue
		}
		written[i] = true
		switch v := st.values[i]; {
		case inFile(s, text, v):
			out.WriteString(line + "\n")
		case v.text != "" || s.Default != "":
			head := line[:from]
			if from == to {
				head += " "
			}
			out.WriteString(head + quoteConf(v.text) + line[to:] + "\n")
		default:
			putComment(line[to:])
		}
	}
	for _, i := range missing(st, written) {
		put(table[i].Name, st.values[i].text)
	}
	for _, name := range sortedKeys(tokens) {
		if !done[name] {
			put(namespacePrefix+name, tokens[name])
		}
	}
	for _, u := range users.rest() {
		out.WriteString(userKey + " " + u.line() + "\n")
	}
	return []byte(out.String()), nil
}
