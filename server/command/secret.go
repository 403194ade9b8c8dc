package command

import "bytes"

// Redacted stands for a secret in what MONITOR and SLOWLOG show.
const Redacted = "(redacted)"

// secretSettings are the settings whose values are passwords.
var secretSettings = [][]byte{[]byte("requirepass"), []byte("masterauth"), []byte("tls-key-file-pass"),
	[]byte("tls-client-key-file-pass")}

// Secret reports whether an argument of a command is not to be shown to others: passwords, tokens of namespaces, and
// all that is said of a user.
func Secret(spec *Spec, args [][]byte, i int) bool {
	switch spec.Name {
	case "auth":
		return spec.Parent == nil && i > 0
	case "hello":
		// HELLO version [AUTH user password] [SETNAME name]
		for at := 2; at < len(args) && at < i; at++ {
			switch {
			case EqualFold(args[at], "AUTH"):
				if i-at <= 2 {
					return true
				}
				at += 2
			case EqualFold(args[at], "SETNAME"):
				at++
			}
		}
		return false
	case "migrate":
		// The password follows AUTH, a user and a password follow AUTH2.
		for at := 6; at < i; at++ {
			if EqualFold(args[at], "AUTH") && i == at+1 || EqualFold(args[at], "AUTH2") && i-at <= 2 {
				return true
			}
		}
		return false
	case "namespace":
		// NAMESPACE ADD|SET name token
		return i == 3
	}
	switch spec.FullName() {
	case "config|set":
		if i < 3 || i%2 == 0 {
			return false
		}
		for _, name := range secretSettings {
			if bytes.EqualFold(args[i-1], name) {
				return true
			}
		}
	case "acl|setuser", "acl|deluser", "acl|getuser":
		return i >= 2
	case "namespace|add", "namespace|set":
		return i == 3
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
