package command

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/basaltdb/basalt/engine/enginetest"
)

// versionOf returns the three numbers of a version of Redis.
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

// TestFacts: facts are about existing commands, the versions of a history are in order, and a deprecated command has a
// replacement.
func TestFacts(t *testing.T) {
	for name, f := range factsOf {
		if original.byFullName([]byte(name)) == nil {
			t.Errorf("the command %s does not exist", name)
		}
		if f.summary == "" || f.since == "" {
			t.Errorf("%s has no summary or no version", name)
		}
		versionOf(t, f.since)
		var last [3]int // not the version of the command: Redis lists some changes as older than the command
		for _, h := range f.history {
			v := versionOf(t, h.version)
			if slices.Compare(v[:], last[:]) < 0 || h.change == "" {
				t.Errorf("%s: %s comes after %v", name, h.version, last)
			}
			last = v
		}
		if (f.deprecated == "") != (f.replaced == "") {
			t.Errorf("%s is deprecated since %q and replaced by %q", name, f.deprecated, f.replaced)
		}
	}
}

func TestFactNotation(t *testing.T) {
	for text, wrong := range map[string]string{
		"a\n\tsummary x\n\t\ty\n": "",
		"keys 1 1 1\n\na\n":       "",
		"a\n\na\n":                "a is described twice",
		"a\n\tsumary x\n":         "no such fact",
		"a\n\tkeys 0 1 1\n":       "no place of keys",
		"a\n\tkeys 1 1\n":         "EOF",
		"a\n\tkeys #x\n":          "invalid syntax",
		"a\n\targuments key\n":    "a name and a type are missing",
	} {
		all := map[string]*facts{}
		err := readFamily(all, "family", text)
		if wrong == "" && err != nil || wrong != "" && (err == nil || !strings.Contains(err.Error(), wrong)) {
			t.Errorf("%q: %v, want %q", text, err, wrong)
		}
		if wrong == "" && all["a"].group != "family" {
			t.Errorf("%q: %+v", text, all["a"])
		}
	}
}

func TestCommandDocsHistory(t *testing.T) {
	db := enginetest.Open(t)
	for name, want := range map[string][]string{
		"getset": {"doc_flags [deprecated] deprecated_since 6.2.0 replaced_by `SET`, `GET` arguments"},
		"bitpos": {"history [[7.0.0 `BYTE` and `BIT`.]] arguments"},
		"georadius": {"replaced_by `GEOSEARCH` or `GEOSEARCHSTORE`, `BYRADIUS` history [[6.2.0 `ANY` after `COUNT`.] " +
			"[7.0.0 Units in capital letters.]]"},
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
