package set_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/enginetest"
	"github.com/basaltdb/basalt/engine/set"
	"github.com/basaltdb/basalt/internal/fixture"
)

// recordsOf returns the records that f writes to the WAL, without the namespace and the versions.
func recordsOf(t *testing.T, db *engine.DB, keys [][]byte, f func(tx *engine.Tx) error) []string {
	t.Helper()
	short := strings.NewReplacer(ns+"/", "", "expire 0 version #1 ", "", "expire 0 version #2 ", "", " #1", "", " #2",
		"", " = set", "", ` ""`, "", ` = ""`, "")
	lines := fixture.Lines(t, enginetest.Batches(t, db, func() { update(t, db, keys, f) }))
	for i, l := range lines {
		lines[i] = short.Replace(l)
	}
	return lines
}

// TestBatches compares the records of each write with those that Kvrocks 2.10 writes, in its order.
func TestBatches(t *testing.T) {
	key, dst := []byte("s"), []byte("d")
	keys := [][]byte{key, dst}
	adding := func(members ...string) func(tx *engine.Tx) error {
		return func(tx *engine.Tx) error { _, err := set.Add(tx, key, raw(members...)); return err }
	}
	remove := func(members ...string) func(tx *engine.Tx) error {
		return func(tx *engine.Tx) error { _, err := set.Remove(tx, key, raw(members...)); return err }
	}
	move := func(member string) func(tx *engine.Tx) error {
		return func(tx *engine.Tx) error { _, _, err := set.Move(tx, key, dst, []byte(member)); return err }
	}
	pop := func(n uint64) func(tx *engine.Tx) error {
		return func(tx *engine.Tx) error { return set.Pop(tx, key, n, func([]byte) {}) }
	}
	store := func(to []byte, members ...string) func(tx *engine.Tx) error {
		return func(tx *engine.Tx) error {
			_, err := set.Store(tx, to, func(add func([]byte) bool) error {
				for _, m := range members {
					add([]byte(m))
				}
				return nil
			})
			return err
		}
	}
	const log = `log data "4"`
	for _, c := range []struct {
		name   string
		before []string
		f      func(tx *engine.Tx) error
		want   []string
	}{
		{"new members, in their order", nil, adding("b", "a"), []string{log, `put default "s" "b"`,
			`put default "s" "a"`, `put metadata "s" size 2`}},
		{"one member", nil, adding("a"), []string{log, `put default "s" "a"`, `put metadata "s" size 1`}},
		{"twice the same", nil, adding("a", "b", "a"), []string{log, `put default "s" "a"`, `put default "s" "b"`,
			`put metadata "s" size 2`}},
		{"an old and a new one", []string{"a"}, adding("a", "b"), []string{log, `put default "s" "b"`,
			`put metadata "s" size 2`}},
		{"nothing new", []string{"a"}, adding("a"), nil},
		{"nothing new of several", []string{"a", "b"}, adding("a", "b"), nil},
		{"remove", []string{"a", "b", "c"}, remove("c", "x", "a", "c"),
			[]string{log, `delete default "s" "c"`, `delete default "s" "a"`, `put metadata "s" size 1`}},
		{"remove one", []string{"a", "b"}, remove("a"), []string{log, `delete default "s" "a"`, `put metadata "s" size 1`}},
		{"remove nothing", []string{"a"}, remove("x"), nil},
		{"remove the last", []string{"a"}, remove("a"), []string{log, `delete default "s" "a"`, `delete metadata "s"`}},
		{"remove all", []string{"a", "b"}, remove("a", "b"), []string{log, `delete default "s" "a"`,
			`delete default "s" "b"`, `delete metadata "s"`}},
		{"pop the last", []string{"a"}, pop(1), []string{log, `delete default "s" "a"`, `put metadata "s" size 0`}},
		{"move", []string{"a", "b"}, move("a"),
			[]string{log, `delete default "s" "a"`, `put metadata "s" size 1`, log, `put default "d" "a"`,
				`put metadata "d" size 1`}},
		{"move the last", []string{"a"}, move("a"),
			[]string{log, `delete default "s" "a"`, `delete metadata "s"`, log, `put default "d" "a"`,
				`put metadata "d" size 1`}},
		{"store", []string{"old"}, store(key, "a", "b"), []string{log, `put default "s" "a"`, `put default "s" "b"`,
			`put metadata "s" size 2`}},
		{"store nothing", []string{"old"}, store(key), []string{log, `put metadata "s" size 0`}},
		{"store nothing where nothing is", nil, store(dst), nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			db := enginetest.Open(t)
			if c.before != nil {
				add(t, db, key, c.before...)
			}
			if got := recordsOf(t, db, keys, c.f); !slices.Equal(got, c.want) {
				t.Errorf("records\n%q, want\n%q", got, c.want)
			}
		})
	}
}
