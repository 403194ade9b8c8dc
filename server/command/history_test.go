package command

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/basaltdb/basalt/engine/enginetest"
)

// versionOf makes a version of Redis comparable.
func versionOf(t *testing.T, text string) (v [3]int) {
	t.Helper()
	parts := strings.Split(text, ".")
	if len(parts) != 3 {
		t.Fatalf("version %q", text)
	}
	for i := range v {
		var err error
		if v[i], err = strconv.Atoi(parts[i]); err != nil {
			t.Fatalf("version %q", text)
		}
	}
	return v
}

// TestHistories: the tables of COMMAND DOCS are about commands that there are, in the order of the versions.
func TestHistories(t *testing.T) {
	since := map[string]string{}
	var walk func(s *Spec)
	walk = func(s *Spec) {
		since[s.FullName()] = s.Since
		for i := range s.Sub {
			walk(&s.Sub[i])
		}
	}
	for _, s := range All() {
		walk(s)
	}
	for name, list := range histories {
		if _, ok := since[name]; !ok {
			t.Errorf("%s is no command", name)
		}
		var last [3]int // some changes are said to be older than the command
		for _, h := range list {
			v := versionOf(t, h.version)
			if slices.Compare(v[:], last[:]) < 0 || h.change == "" {
				t.Errorf("%s: %s comes after %v", name, h.version, last)
			}
			last = v
		}
	}
	for name := range deprecated {
		if replacements[name] == "" {
			t.Errorf("%s is replaced by nothing", name)
		}
	}
	for name := range replacements {
		if deprecated[name] == "" {
			t.Errorf("%s is not deprecated", name)
		}
	}
	for name := range systemCommands {
		if _, ok := since[name]; !ok {
			t.Errorf("%s is no command", name)
		}
	}
}

func TestCommandDocsHistory(t *testing.T) {
	db := enginetest.Open(t)
	for name, want := range map[string][]string{
		"getset":         {"doc_flags [deprecated] deprecated_since 6.2.0 replaced_by `SET`, `GET` arguments"},
		"bitpos":         {"history [[7.0.0 `BYTE` and `BIT`.]] arguments"},
		"georadius":      {"replaced_by `GEOSEARCH` or `GEOSEARCHSTORE`, `BYRADIUS` history [[6.2.0 `ANY` after `COUNT`.] [7.0.0 Units in capital letters.]]"},
		"restore-asking": {"doc_flags [syscmd] history [[3.0.0 `REPLACE`.]"},
		"client":         {"history [[6.2.0 The mode, with `WRITE`.]]"},
	} {
		got := readable(t, do3(t, db, "COMMAND", "DOCS", name))
		for _, w := range want {
			if !strings.Contains(got, w) {
				t.Errorf("%s: %s is not in\n%s", name, w, got)
			}
		}
	}
}
