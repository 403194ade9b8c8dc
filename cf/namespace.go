package cf

import (
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// databasePrefix begins the names of the namespaces that hold the databases of redis-databases, as Kvrocks 2.15 names
// them: database 0 is the default namespace, the namespace of database n is "db" followed by n in decimal.
const databasePrefix = "db"

// DatabaseNamespace returns the namespace of a database by its number.
func DatabaseNamespace(n int) string {
	if n == 0 {
		return DefaultNamespace
	}
	return databasePrefix + strconv.Itoa(n)
}

// NamespaceDatabase returns the number of the database that a namespace holds. ok is false when the name is not that of
// a database.
func NamespaceDatabase(ns string) (n int, ok bool) {
	if ns == DefaultNamespace {
		return 0, true
	}
	digits, ok := strings.CutPrefix(ns, databasePrefix)
	if !ok {
		return 0, false
	}
	n64, err := strconv.ParseInt(digits, 10, 32)
	if n = int(n64); err != nil || n <= 0 || DatabaseNamespace(n) != ns {
		return 0, false
	}
	return n, true
}

// AppendNamespaces appends the value of [PropagateNamespaces]: a JSON object that gives the namespace of each token,
// sorted by token, without blanks, as Kvrocks's JSON library (jsoncons) prints it. AppendNamespaces fails when a name
// or token is not UTF-8: Kvrocks could not read it back.
func AppendNamespaces(dst []byte, tokens map[string]string) ([]byte, error) {
	names := make(map[string]string, len(tokens))
	for name, token := range tokens {
		if !utf8.ValidString(name) || !utf8.ValidString(token) {
			return dst, errors.New("only UTF-8 text can be kept in the database")
		}
		names[token] = name
	}
	dst = append(dst, '{')
	for i, token := range slices.Sorted(maps.Keys(names)) {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(appendJSONString(dst, token), ':')
		dst = appendJSONString(dst, names[token])
	}
	return append(dst, '}'), nil
}

// DecodeNamespaces reads the value of [PropagateNamespaces] and returns the token of each namespace. For a namespace
// with several tokens, which Kvrocks does not create, it returns the token that sorts first.
func DecodeNamespaces(value []byte) (map[string]string, error) {
	var names map[string]string
	if !utf8.Valid(value) {
		return nil, corrupt("namespaces: not UTF-8")
	}
	if err := json.Unmarshal(value, &names); err != nil {
		return nil, corrupt("namespaces: %v", err)
	}
	tokens := make(map[string]string, len(names))
	for _, token := range slices.Sorted(maps.Keys(names)) {
		name := names[token]
		if len(name) == 0 || len(name) > 255 {
			return nil, corrupt("namespaces: a name of %d bytes", len(name))
		}
		if _, ok := tokens[name]; !ok {
			tokens[name] = token
		}
	}
	return tokens, nil
}

// appendJSONString appends a quoted string. Escapes have upper-case digits, as those of jsoncons.
func appendJSONString(dst []byte, s string) []byte {
	const digits = "0123456789ABCDEF"
	short := map[byte]byte{'"': '"', '\\': '\\', '\b': 'b', '\f': 'f', '\n': 'n', '\r': 'r', '\t': 't'}
	dst = append(dst, '"')
	for _, c := range []byte(s) {
		switch e, ok := short[c]; {
		case ok:
			dst = append(dst, '\\', e)
		case c < ' ' || c == 0x7f:
			dst = append(dst, '\\', 'u', '0', '0', digits[c>>4], digits[c&15])
		default:
			dst = append(dst, c)
		}
	}
	return append(dst, '"')
}
