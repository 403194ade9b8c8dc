package conffile

import (
	"bytes"
	"cmp"
	"slices"
	"strings"

	"github.com/BurntSushi/toml"

	"github.com/basaltdb/basalt/server/config/setting"
)

// tomlEdit replaces the bytes start to end of a file.
type tomlEdit struct {
	start, end int
	text       string
}

// rewriteTOML updates a kvrocks.toml.
func rewriteTOML(old []byte, c *Content, users *userPlaces) ([]byte, error) {
	var tree map[string]any
	if _, err := toml.Decode(string(old), &tree); err != nil {
		return nil, err
	}
	if len(old) > 0 && old[len(old)-1] != '\n' {
		old = append(slices.Clone(old), '\n')
	}
	w := &tomlWriter{items: scanTOML(old)}
	tokens := c.Tokens
	done := map[string]bool{} // namespaces
	written := map[int]bool{}
	for _, item := range w.items {
		if item.header {
			continue
		}
		name := strings.Join(item.path, ".")
		in := tomlLookup(tree, item.path)
		if ns, ok := strings.CutPrefix(name, NamespacePrefix); ok {
			token, keep := tokens[ns]
			switch {
			case !keep:
				w.edits = append(w.edits, tomlEdit{item.lineStart, item.lineEnd, ""})
				continue
			case in != token:
				text, err := QuoteTOML(token)
				if err != nil {
					return nil, err
				}
				w.edits = append(w.edits, tomlEdit{item.valueStart, item.valueEnd, text})
			}
			done[ns] = true
			continue
		}
		if len(item.path) == 2 && IsUserKey(item.path[0]) {
			if err := w.user(item, in, users); err != nil {
				return nil, err
			}
			continue
		}
		s, i, ok := setting.Find(name)
		if !ok || s.Kind == setting.Multi {
			continue
		}
		written[i] = true
		text, err := tomlText(name, in)
		if err == nil && inFile(s, text, c.Values[i]) {
			continue
		}
		if text, err = TOMLValue(s, c.Values[i], old[item.valueStart] == '['); err != nil {
			return nil, err
		}
		w.edits = append(w.edits, tomlEdit{item.valueStart, item.valueEnd, text})
	}
	for _, i := range c.missing(written) {
		text, err := TOMLValue(setting.Table[i], c.Values[i], false)
		if err != nil {
			return nil, err
		}
		if err := w.add(strings.Split(setting.Table[i].Name, "."), text); err != nil {
			return nil, err
		}
	}
	for _, name := range sortedKeys(tokens) {
		if done[name] {
			continue
		}
		text, err := QuoteTOML(tokens[name])
		if err != nil {
			return nil, err
		}
		if err := w.add([]string{"namespace", name}, text); err != nil {
			return nil, err
		}
	}
	for _, u := range users.rest() {
		text, err := QuoteTOML(JoinArgs(u.Rules))
		if err != nil {
			return nil, err
		}
		if err := w.add([]string{UserKey, u.Name}, text); err != nil {
			return nil, err
		}
	}
	return w.apply(old), nil
}

// user updates the entry of a user.
func (w *tomlWriter) user(item tomlItem, in any, users *userPlaces) error {
	text, err := tomlUser(item.path[1], in)
	if err != nil {
		return err
	}
	have, err := ParseUser(text)
	if err != nil {
		return err
	}
	u, stays, goes := users.replace(have)
	switch {
	case stays:
	case goes:
		w.edits = append(w.edits, tomlEdit{item.lineStart, item.lineEnd, ""})
	default:
		text, err := QuoteTOML(JoinArgs(u.Rules))
		if err != nil {
			return err
		}
		w.edits = append(w.edits, tomlEdit{item.valueStart, item.valueEnd, text})
	}
	return nil
}

// tomlLookup finds the value of a path; nil = none.
func tomlLookup(tree map[string]any, path []string) any {
	for _, part := range path[:len(path)-1] {
		sub, ok := tree[part].(map[string]any)
		if !ok {
			return nil
		}
		tree = sub
	}
	return tree[path[len(path)-1]]
}

// tomlWriter collects the changes of one file.
type tomlWriter struct {
	items  []tomlItem
	edits  []tomlEdit
	heads  []string            // tables that are added, in order
	bodies map[string][]string // their lines
}

// add adds a key to the file: to its table if the file has it, next to dotted keys of the same table, or to a new table
// at the end.
func (w *tomlWriter) add(path []string, text string) error {
	in, key := path[:len(path)-1], path[len(path)-1:]
	at, section := -1, []string(nil) // where, and in which table that is
	if len(in) == 0 {
		at = 0
	}
	var current []string
	found := len(in) == 0
	for _, item := range w.items {
		if item.header {
			current = item.path
		}
		switch {
		case slices.Equal(current, in) && (found || item.header):
			found, at, section = true, item.lineEnd, in
		case !found && !item.header && len(current) <= len(in) && slices.Equal(in[:len(current)], current) &&
			len(item.path) > len(in) && slices.Equal(item.path[:len(in)], in):
			at, section = item.lineEnd, current
		}
	}
	if at >= 0 {
		line, err := dotted(append(slices.Clone(in[len(section):]), key...))
		if err == nil {
			w.edits = append(w.edits, tomlEdit{at, at, line + " = " + text + "\n"})
		}
		return err
	}
	head, err := dotted(in)
	if err != nil {
		return err
	}
	line, err := dotted(key)
	if err != nil {
		return err
	}
	if w.bodies[head] == nil {
		if w.bodies == nil {
			w.bodies = map[string][]string{}
		}
		w.heads = append(w.heads, head)
	}
	w.bodies[head] = append(w.bodies[head], line+" = "+text)
	return nil
}

// dotted writes a key of several parts.
func dotted(path []string) (string, error) {
	var parts []string
	for _, p := range path {
		part, err := TOMLKey(p)
		if err != nil {
			return "", err
		}
		parts = append(parts, part)
	}
	return strings.Join(parts, "."), nil
}

// apply applies the changes.
func (w *tomlWriter) apply(old []byte) []byte {
	slices.SortStableFunc(w.edits, func(a, b tomlEdit) int { // an insertion before a deletion at the same place
		return cmp.Or(a.start-b.start, a.end-b.end)
	})
	var out bytes.Buffer
	pos := 0
	for _, e := range w.edits {
		out.Write(old[pos:e.start])
		out.WriteString(e.text)
		pos = e.end
	}
	out.Write(old[pos:])
	for _, head := range w.heads {
		out.WriteString("\n[" + head + "]\n" + strings.Join(w.bodies[head], "\n") + "\n")
	}
	return out.Bytes()
}
