package conffile

import (
	"strings"

	"github.com/basaltdb/basalt/server/config/setting"
)

// rewriteConf updates a kvrocks.conf. Unlike Kvrocks, it keeps unchanged lines, and the comment at the end of a changed
// line. Of several lines with the same key it keeps only the first.
func rewriteConf(old []byte, c *Content, users *userPlaces) []byte {
	tokens := c.Tokens
	done := map[string]bool{} // namespaces
	written := map[int]bool{}
	var out strings.Builder
	put := func(key, text string) { out.WriteString(key + " " + quoteConf(text) + "\n") }
	putComment := func(rest string) {
		if rest = strings.TrimLeft(rest, Blanks); rest != "" {
			out.WriteString(rest + "\n")
		}
	}
	for _, line := range Lines(old) {
		key, text, from, to, err := scanConfLine(line)
		if err != nil || key == "" {
			out.WriteString(line + "\n")
			continue
		}
		if name, ok := CutNamespace(key); ok {
			if token, ok := tokens[name]; ok && !done[name] && token == text {
				done[name] = true
				out.WriteString(line + "\n")
			}
			continue
		}
		if IsUserKey(key) {
			have, err := ParseUser(text)
			u, stays, goes := users.replace(have)
			switch {
			case stays || err != nil:
				out.WriteString(line + "\n")
			case !goes:
				out.WriteString(line[:from] + u.line() + "\n")
			}
			continue
		}
		s, i, ok := setting.Find(key)
		if !ok || s.Kind == setting.Multi {
			out.WriteString(line + "\n")
			continue
		}
		if written[i] {
			putComment(line[to:])
			continue
		}
		written[i] = true
		switch v := c.Values[i]; {
		case inFile(s, text, v):
			out.WriteString(line + "\n")
		case v.Text != "" || s.Default != "":
			head := line[:from]
			if from == to {
				head += " "
			}
			out.WriteString(head + quoteConf(v.Text) + line[to:] + "\n")
		default:
			putComment(line[to:])
		}
	}
	for _, i := range c.missing(written) {
		put(setting.Table[i].Name, c.Values[i].Text)
	}
	for _, name := range sortedKeys(tokens) {
		if !done[name] {
			put(NamespacePrefix+name, tokens[name])
		}
	}
	for _, u := range users.rest() {
		out.WriteString(UserKey + " " + u.line() + "\n")
	}
	return []byte(out.String())
}
