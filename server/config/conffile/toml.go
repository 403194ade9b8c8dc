package conffile

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/BurntSushi/toml"

	"github.com/basaltdb/basalt/server/config/setting"
)

// A kvrocks.toml has the settings as keys of their own names; the dots of a name are tables. Values may have TOML's
// own types: a Bool is true or false, a number is an integer, a list of words is a string or an array of strings.
// Three tables hold names that are not settings: [namespace] has NAME = "TOKEN", [rename-command] OLD = "NEW", and
// [user] the users of the ACL, see [User].

var (
	errTOMLInline = errors.New("write this table under a heading of its own")
	errTOMLText   = errors.New("is not valid UTF-8")
	ErrUTF8       = errors.New("cannot be written to a TOML file: it is not valid UTF-8")
)

// tomlEntries reads a kvrocks.toml.
func tomlEntries(data []byte) ([]Entry, error) {
	if !utf8.Valid(data) { // the decoder skips a byte-order mark of UTF-16
		return nil, &Error{Err: errTOMLText}
	}
	var tree map[string]any
	if _, err := toml.Decode(string(data), &tree); err != nil {
		if parse, ok := errors.AsType[toml.ParseError](err); ok {
			text := parse.Message
			if text == "" {
				text = parse.Error()
			}
			return nil, &Error{Line: parse.Position.Line, Err: errors.New(text)}
		}
		return nil, &Error{Err: err}
	}
	lineOf := map[string]int{}
	for _, item := range scanTOML(data) {
		name := strings.Join(item.path, ".")
		lineOf[name] = item.line
		if !item.header && data[item.valueStart] == '{' {
			return nil, &Error{Line: item.line, Key: name, Err: errTOMLInline}
		}
	}
	var entries []Entry
	if err := flatten(nil, tree, lineOf, &entries); err != nil {
		return nil, err
	}
	slices.SortStableFunc(entries, func(a, b Entry) int { return cmp.Or(a.Line-b.Line, strings.Compare(a.Key, b.Key)) })
	return entries, nil
}

// flatten turns a table into entries.
func flatten(path []string, tree map[string]any, lineOf map[string]int, entries *[]Entry) error {
	for key, v := range tree {
		here := append(append([]string{}, path...), key)
		name := strings.Join(here, ".")
		if sub, ok := v.(map[string]any); ok {
			if !knownTable(name) {
				return &Error{Line: lineOf[name], Key: name, Err: ErrUnknown}
			}
			if err := flatten(here, sub, lineOf, entries); err != nil {
				return err
			}
			continue
		}
		if len(path) == 0 && IsUserKey(key) {
			return &Error{Line: lineOf[name], Key: name, Err: errUserTable}
		}
		if len(path) == 1 && IsUserKey(path[0]) {
			text, err := tomlUser(key, v)
			if err != nil {
				return &Error{Line: lineOf[name], Key: name, Err: err}
			}
			*entries = append(*entries, Entry{UserKey, text, lineOf[name]})
			continue
		}
		text, err := tomlText(name, v)
		if err != nil {
			return &Error{Line: lineOf[name], Key: name, Err: err}
		}
		e := Entry{name, text, lineOf[name]}
		if old, ok := strings.CutPrefix(name, renameCommand+"."); ok {
			if text == "" {
				text = `""`
			}
			e.Key, e.Text = renameCommand, old+" "+text
		}
		*entries = append(*entries, e)
	}
	return nil
}

// knownTable reports whether settings or names can stand in a table.
func knownTable(name string) bool {
	if strings.HasPrefix(name+".", NamespacePrefix) || strings.EqualFold(name, renameCommand) ||
		IsUserKey(name) {
		return true
	}
	prefix := strings.ToLower(name) + "."
	return slices.ContainsFunc(setting.Names(), func(n string) bool { return strings.HasPrefix(n, prefix) })
}

// tomlText converts a value of TOML to the text of a setting.
func tomlText(name string, v any) (string, error) {
	s, _, known := setting.Find(name)
	switch v := v.(type) {
	case string:
		return v, nil
	case bool:
		if known && s.Kind == setting.Bool {
			return map[bool]string{true: "yes", false: "no"}[v], nil
		}
	case int64:
		if known && s.Kind == setting.Octal {
			return "", errors.New("write octal digits as a string: \"0777\"")
		}
		if known && (s.Kind == setting.Int || s.Kind == setting.Bytes) {
			return strconv.FormatInt(v, 10), nil
		}
	case []any:
		var words []string
		for _, w := range v {
			word, ok := w.(string)
			if !ok {
				return "", errors.New("wants strings in its array")
			}
			words = append(words, word)
		}
		if known && s.Kind == setting.String {
			return strings.Join(words, " "), nil
		}
	}
	switch {
	case !known && !strings.HasPrefix(name, NamespacePrefix) && !strings.HasPrefix(name, renameCommand+"."):
		return "", ErrUnknown
	case !known:
		return "", errors.New("wants a string")
	case s.Kind == setting.Bool:
		return "", errors.New("wants true or false")
	case s.Kind == setting.Int:
		return "", errors.New("wants an integer")
	case s.Kind == setting.Bytes:
		return "", errors.New("wants an integer or a string such as \"512m\"")
	}
	return "", errors.New("wants a string")
}

// TOMLValue writes the value of a setting. asArray keeps a list of words an array.
func TOMLValue(s *setting.Setting, v setting.Value, asArray bool) (string, error) {
	switch s.Kind {
	case setting.Bool:
		return map[int64]string{1: "true", 0: "false"}[v.Num], nil
	case setting.Int, setting.Bytes:
		return strconv.FormatInt(v.Num, 10), nil
	case setting.Octal:
		return `"0` + v.Text + `"`, nil
	}
	words := []string{v.Text}
	if asArray {
		words = strings.Fields(v.Text)
	}
	for i, w := range words {
		q, err := QuoteTOML(w)
		if err != nil {
			return "", err
		}
		words[i] = q
	}
	if asArray {
		return "[" + strings.Join(words, ", ") + "]", nil
	}
	return words[0], nil
}

// QuoteTOML writes a basic string.
func QuoteTOML(s string) (string, error) {
	if !utf8.ValidString(s) {
		return "", ErrUTF8
	}
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r < ' ' || r == 0x7f:
			fmt.Fprintf(&b, `\u%04X`, r)
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String(), nil
}

// TOMLKey writes one part of a key, bare where that is allowed.
func TOMLKey(part string) (string, error) {
	if part == "" || slices.ContainsFunc([]byte(part), func(c byte) bool { return !isBareKey(c) }) {
		return QuoteTOML(part)
	}
	return part, nil
}

func isBareKey(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '_' || c == '-'
}
