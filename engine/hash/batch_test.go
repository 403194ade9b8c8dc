package hash_test

import (
	"testing"

	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/enginetest"
	"github.com/basaltdb/basalt/engine/hash"
	"github.com/basaltdb/basalt/internal/fixture"
)

// show returns records without the namespace, the key and the version.
func show(t testing.TB, batches [][]byte) []string {
	t.Helper()
	return fixture.Lines(t, batches, ns+`/"h" `, "", "#1 ", "", "expire 0 version ", "")
}

// TestBatches compares the records of each write with those that Kvrocks 2.10 writes, in its order.
func TestBatches(t *testing.T) {
	key := []byte("h")
	set := func(pairs ...string) func(tx *engine.Tx) error {
		return func(tx *engine.Tx) error { _, err := hash.Set(tx, key, raw(pairs...)); return err }
	}
	missing := func(pairs ...string) func(tx *engine.Tx) error {
		return func(tx *engine.Tx) error { _, err := hash.SetMissing(tx, key, raw(pairs...)); return err }
	}
	remove := func(fields ...string) func(tx *engine.Tx) error {
		return func(tx *engine.Tx) error { _, err := hash.Delete(tx, key, raw(fields...)); return err }
	}
	incr := func(field string, by int64) func(tx *engine.Tx) error {
		return func(tx *engine.Tx) error { _, err := hash.IncrBy(tx, key, []byte(field), by); return err }
	}
	const log = `log data "2"`
	meta := func(n string) string { return `put metadata = hash size ` + n + ` ""` }
	for _, c := range []struct {
		name   string
		before func(tx *engine.Tx) error
		f      func(tx *engine.Tx) error
		want   []string
	}{
		{"new fields, the last one first", nil, set("f", "v", "g", "w"),
			[]string{log, `put default "g" = "w"`, `put default "f" = "v"`, meta("2")}},
		{"one field", nil, set("f", "v"), []string{log, `put default "f" = "v"`, meta("1")}},
		{"twice the same, the last value counts", nil, set("f", "1", "g", "2", "f", "3"),
			[]string{log, `put default "f" = "3"`, `put default "g" = "2"`, meta("2")}},
		{"another value", set("f", "v"), set("f", "w"), []string{log, `put default "f" = "w"`}},
		{"the same value", set("f", "v"), set("f", "v"), nil},
		{"the same value and another", set("f", "v", "g", "w"), set("f", "x", "g", "w"),
			[]string{log, `put default "f" = "x"`}},
		{"twice the same, the last as it was", set("f", "v"), set("f", "x", "f", "v"), nil},
		{"an old and a new one", set("f", "v"), set("f", "x", "g", "w"),
			[]string{log, `put default "g" = "w"`, `put default "f" = "x"`, meta("2")}},
		{"only what is missing", set("f", "v"), missing("f", "x", "g", "w"),
			[]string{log, `put default "g" = "w"`, meta("2")}},
		{"nothing is missing", set("f", "v"), missing("f", "x"), nil},
		{"delete", set("f", "1", "g", "2", "h", "3"), remove("h", "x", "f", "h"),
			[]string{log, `delete default "h"`, `delete default "f"`, meta("1")}},
		{"delete one", set("f", "1", "g", "2"), remove("g"), []string{log, `delete default "g"`, meta("1")}},
		{"delete nothing", set("f", "1"), remove("x", "y"), nil},
		{"delete the last", set("f", "1"), remove("f"), []string{log, `delete default "f"`, meta("0")}},
		{"increment", set("f", "1"), incr("f", 2), []string{log, `put default "f" = "3"`}},
		{"increment of nothing", set("f", "1"), incr("g", 2), []string{log, `put default "g" = "2"`, meta("2")}},
		{"increment by zero", set("f", "1"), incr("f", 0), []string{log, `put default "f" = "1"`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			enginetest.WantBatches(t, enginetest.Open(t), [][]byte{key}, c.before, c.f, show, c.want)
		})
	}
}
