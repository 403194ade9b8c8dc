package lua

import (
	"bytes"
	"crypto/sha1"
	"encoding/hex"
	"strings"
	"sync/atomic"

	"github.com/basaltdb/basalt/server/resp"
)

// Flags are the flags in the first line of a script, or in the registration of a function.
type Flags uint8

// The flags, as Redis 7 names them.
const (
	NoWrites Flags = 1 << iota
	AllowOOM
	AllowStale
	NoCluster
	AllowCrossSlotKeys
)

var flagNames = []struct {
	name string
	flag Flags
}{{"no-writes", NoWrites}, {"allow-oom", AllowOOM}, {"allow-stale", AllowStale}, {"no-cluster",
	NoCluster}, {"allow-cross-slot-keys", AllowCrossSlotKeys}}

func parseFlag(name string) Flags {
	for _, f := range flagNames {
		if f.name == name {
			return f.flag
		}
	}
	return 0
}

func (f Flags) Names() []string {
	var names []string
	for _, n := range flagNames {
		if f&n.flag != 0 {
			names = append(names, n.name)
		}
	}
	return names
}

// Script is a compiled script. It is safe for concurrent use.
type Script struct {
	sha    string
	source string
	flags  Flags
	code   *code
	used   atomic.Int64 // for the cache: greater = used more recently
}

// SHA returns the SHA-1 of the source in hexadecimal.
func (s *Script) SHA() string { return s.sha }

// Flags returns the flags in the script's first line.
func (s *Script) Flags() Flags { return s.flags }

// Declares reports whether the script's first line has flags.
func (s *Script) Declares() bool { return strings.HasPrefix(s.source, "#!") }

// sourceName is Redis's name for the source of a script in errors.
const sourceName = "user_script"

// SHA returns the name of a script: the SHA-1 of its source, 40 hexadecimal digits.
func SHA(source []byte) string {
	sum := sha1.Sum(source)
	return hex.EncodeToString(sum[:])
}

func newScript(source []byte) (*Script, error) {
	flags, declares, err := Declared(source)
	if err != nil {
		return nil, err
	}
	s := &Script{sha: SHA(source), source: string(source), flags: flags}
	if declares {
		source = source[bytes.IndexByte(source, '\n'):] // keep the line end, so that line numbers are right
	}
	c, err := compile(source, sourceName, 0)
	if err != nil {
		return nil, &Error{Text: "ERR Error compiling script (new function): " + err.Error()}
	}
	s.code = c
	return s, nil
}

// Declared parses the first line of a script: "#!lua" and the script's flags. ok is false if it does not begin with
// "#!".
func Declared(source []byte) (flags Flags, ok bool, err error) {
	if !bytes.HasPrefix(source, []byte("#!")) {
		return 0, false, nil
	}
	line, _, ok := bytes.Cut(source, []byte("\n"))
	if !ok {
		return 0, true, &Error{Text: "ERR Invalid script shebang"}
	}
	words, ok := resp.SplitArgs(bytes.Clone(line), nil)
	if !ok || len(words) == 0 {
		return 0, true, &Error{Text: "ERR Invalid engine in script shebang"}
	}
	if string(words[0]) != "#!lua" {
		return 0, true, &Error{Text: "ERR Unexpected engine in script shebang: " + string(words[0])}
	}
	for _, w := range words[1:] {
		list, ok := strings.CutPrefix(string(w), "flags=")
		if !ok {
			return 0, true, &Error{Text: "ERR Unknown lua shebang option: " + string(w)}
		}
		if list == "" {
			continue
		}
		for name := range strings.SplitSeq(list, ",") {
			f := parseFlag(name)
			if f == 0 {
				return 0, true, &Error{Text: "ERR Unexpected flag in script shebang: " + name}
			}
			flags |= f
		}
	}
	return flags, true, nil
}
