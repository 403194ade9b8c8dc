package command

import (
	"strings"
	"testing"
)

// TestKeyFlagsTable: every name is that of a command with keys, and stands there once.
func TestKeyFlagsTable(t *testing.T) {
	seen := map[string]bool{}
	for text, names := range commandKeyFlags {
		for _, word := range strings.Fields(text) {
			if mode := parseKeyFlags(word) & (keyRO | keyRW | keyOW | keyRM); mode == 0 || mode&(mode-1) != 0 {
				t.Errorf("%s: not one of RO, RW, OW and RM", word)
			}
		}
		for _, name := range strings.Fields(names) {
			if seen[name] {
				t.Errorf("%s stands there twice", name)
			}
			seen[name] = true
			container, sub, _ := strings.Cut(name, "|")
			s := Lookup([]byte(container))
			if s != nil && sub != "" {
				s = s.Subcommand([]byte(sub))
			}
			if s == nil {
				t.Errorf("there is no command %s", name)
			} else if s.First == 0 && s.Keys == nil {
				t.Errorf("%s has no keys", name)
			}
		}
	}
}
