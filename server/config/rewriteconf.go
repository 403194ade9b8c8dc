package config

import (
	"strings"
)

// rewriteConf brings a kvrocks.conf up to date. Unlike Kvrocks it keeps a line whose value has not changed as it
// is, and of several lines with the same key only the first.
func rewriteConf(old []byte, st *state) ([]byte, error) {
	tokens := st.fileTokens()
	done := map[string]bool{} // namespaces
	written := map[int]bool{}
	var out strings.Builder
	put := func(key, text string) { out.WriteString(key + " " + quoteConf(text) + "\n") }
	for _, line := range confLines(old) {
		key, text, err := parseConfLine(line)
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
		s, i, ok := find(key)
		if !ok || s.Kind == Multi {
			out.WriteString(line + "\n")
			continue
		}
		if written[i] {
			continue
		}
		written[i] = true
		switch v := st.values[i]; {
		case inFile(s, text, v):
			out.WriteString(line + "\n")
		case v.text != "" || s.Default != "":
			put(s.Name, v.text)
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
	return []byte(out.String()), nil
}
