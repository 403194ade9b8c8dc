package command

import (
	"strings"
	"testing"
)

// Every container with a HELP subcommand has a text, whose forms name subcommands that exist.
func TestHelp(t *testing.T) {
	containers := 0
	for _, s := range original.All() {
		if s.Subcommand([]byte("help")) == nil {
			continue
		}
		containers++
		if len(helpLines[s.Name]) == 0 {
			t.Errorf("%s: HELP has no text", s.Name)
		}
		for _, line := range helpLines[s.Name] {
			form, _, _ := strings.Cut(line, " ")
			if form != "" && form != "(no" && s.Subcommand([]byte(strings.ToLower(form))) == nil {
				t.Errorf("%s: HELP describes %q, which is no subcommand", s.Name, line)
			}
		}
	}
	if containers != len(helpLines) {
		t.Errorf("%d containers have HELP, help.txt has %d", containers, len(helpLines))
	}
}
