package set_test

import (
	"testing"

	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/enginetest"
	"github.com/basaltdb/basalt/engine/set"
	"github.com/basaltdb/basalt/internal/fixture"
)

// show returns records without the namespace and the versions.
func show(t testing.TB, batches [][]byte) []string {
	t.Helper()
	return fixture.Lines(t, batches, ns+"/", "", "expire 0 version #1 ", "", "expire 0 version #2 ", "", " #1", "",
		" #2", "", " = set", "", ` ""`, "", ` = ""`, "")
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
		before func(tx *engine.Tx) error
		f      func(tx *engine.Tx) error
		want   []string
	}{
		{"new members, in their order", nil, adding("b", "a"), []string{log, `put default "s" "b"`,
			`put default "s" "a"`, `put metadata "s" size 2`}},
		{"one member", nil, adding("a"), []string{log, `put default "s" "a"`, `put metadata "s" size 1`}},
		{"twice the same", nil, adding("a", "b", "a"), []string{log, `put default "s" "a"`, `put default "s" "b"`,
			`put metadata "s" size 2`}},
		{"an old and a new one", adding("a"), adding("a", "b"), []string{log, `put default "s" "b"`,
			`put metadata "s" size 2`}},
		{"nothing new", adding("a"), adding("a"), nil},
		{"nothing new of several", adding("a", "b"), adding("a", "b"), nil},
		{"remove", adding("a", "b", "c"), remove("c", "x", "a", "c"),
			[]string{log, `delete default "s" "c"`, `delete default "s" "a"`, `put metadata "s" size 1`}},
		{"remove one", adding("a", "b"), remove("a"), []string{log, `delete default "s" "a"`, `put metadata "s" size 1`}},
		{"remove nothing", adding("a"), remove("x"), nil},
		{"remove the last", adding("a"), remove("a"), []string{log, `delete default "s" "a"`, `delete metadata "s"`}},
		{"remove all", adding("a", "b"), remove("a", "b"), []string{log, `delete default "s" "a"`,
			`delete default "s" "b"`, `delete metadata "s"`}},
		{"pop the last", adding("a"), pop(1), []string{log, `delete default "s" "a"`, `put metadata "s" size 0`}},
		{"move", adding("a", "b"), move("a"),
			[]string{log, `delete default "s" "a"`, `put metadata "s" size 1`, log, `put default "d" "a"`,
				`put metadata "d" size 1`}},
		{"move the last", adding("a"), move("a"),
			[]string{log, `delete default "s" "a"`, `delete metadata "s"`, log, `put default "d" "a"`,
				`put metadata "d" size 1`}},
		{"store", adding("old"), store(key, "a", "b"), []string{log, `put default "s" "a"`, `put default "s" "b"`,
			`put metadata "s" size 2`}},
		{"store nothing", adding("old"), store(key), []string{log, `put metadata "s" size 0`}},
		{"store nothing where nothing is", nil, store(dst), nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			enginetest.WantBatches(t, enginetest.Open(t), keys, c.before, c.f, show, c.want)
		})
	}
}
