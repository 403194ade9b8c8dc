package difftest

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/basaltdb/basalt/internal/require"
	commands "github.com/basaltdb/basalt/server/command"
)

// TestKeyFlags asks both servers for the keys, with and without their flags, of every command line in the tables. Each
// command that has keys must come at least once with some.
func TestKeyFlags(t *testing.T) {
	redis, basalt := startRedis(t), startBasalt(t)
	c := mustDial(t, redis)
	known := map[string]bool{}
	all := c.must(t, "COMMAND")
	for _, info := range all.elems {
		known[string(info.elems[0].text)] = true
		for _, sub := range subcommands(info) {
			known[string(sub.elems[0].text)] = true
		}
	}

	var lines [][]string
	seen := map[string]bool{}
	add := func(args []string) {
		if key := strings.Join(args, "\x00"); len(args) > 1 && len(key) < 1000 && !seen[key] {
			seen[key] = true
			lines = append(lines, args)
		}
	}
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no tables: %v", err)
	}
	for _, file := range files {
		for _, cmd := range mustReadTable(t, file) {
			add(cmd.args)
		}
	}

	var list []command
	var specs []*commands.Spec
	for _, args := range lines {
		raw := make([][]byte, len(args))
		for i := range args {
			raw[i] = []byte(args[i])
		}
		spec, err := commands.Resolve(raw)
		if err != nil || !known[spec.FullName()] {
			continue
		}
		for _, sub := range []string{"GETKEYSANDFLAGS", "GETKEYS"} {
			list = append(list, newCommand("keys", slices.Concat([]string{"COMMAND", sub}, args)...))
			specs = append(specs, spec)
		}
	}
	want, err := replies(redis, 2, true, list)
	require.NoError(t, err)
	got, err := replies(basalt, 2, true, list)
	require.NoError(t, err)
	found := map[string]bool{}
	reported := map[string]int{}
	for i, s := range specs {
		name := s.FullName()
		if want[i].kind == '*' {
			found[name] = true
		}
		if string(want[i].raw) == string(got[i].raw) || permittedDifference(list[i], want[i], got[i]) {
			continue
		}
		if reported[name]++; reported[name] <= 3 {
			t.Errorf("%s:\n\tredis:  %.300q\n\tbasalt: %.300q", list[i], want[i].raw, got[i].raw)
		}
	}
	for id := range commands.NumSpecs() {
		s := commands.ByID(id)
		if name := s.FullName(); known[name] && s.HasKeys() && s.Flags&commands.PubSub == 0 &&
			!found[name] {
			t.Errorf("no invocation of %s", name)
		}
	}
}
