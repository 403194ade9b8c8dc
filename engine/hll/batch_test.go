package hll

import (
	"slices"
	"strings"
	"testing"

	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/enginetest"
	"github.com/basaltdb/basalt/internal/fixture"
)

// TestRecordedBatches makes the HyperLogLogs of the recorded data directory, and compares the batches with those that
// Kvrocks made, byte for byte.
func TestRecordedBatches(t *testing.T) {
	recorded := map[string][]string{}
	for _, b := range fixture.WAL(t) {
		lines := fixture.Lines(t, [][]byte{b.Rep})
		for _, key := range []string{"hll:a", "hll:b", "hll:merged"} {
			last := lines[len(lines)-1]
			if strings.HasPrefix(last, `put metadata `+ns+`/"`+key+`"`) {
				recorded[key] = lines
			}
		}
	}
	db := enginetest.Open(t)
	a, b, merged := []byte("hll:a"), []byte("hll:b"), []byte("hll:merged")
	keys := [][]byte{a, b, merged}
	for _, step := range []struct {
		key string
		f   func(tx *engine.Tx) error
	}{
		{"hll:a", func(tx *engine.Tx) error {
			_, err := Add(tx, a, raw("e1", "e2", "e3", "e4", "e5", "e6", "e7", "e8", "e9", "e10"))
			return err
		}},
		{"hll:b", func(tx *engine.Tx) error { _, err := Add(tx, b, raw("e5", "e6", "e11", "e12")); return err }},
		{"hll:merged", func(tx *engine.Tx) error { return Merge(tx, merged, a, b) }},
	} {
		want := recorded[step.key]
		if len(want) < 3 {
			t.Fatalf("%s: %d records in the recording", step.key, len(want))
		}
		got := fixture.Lines(t, enginetest.Batches(t, db, func() { update(t, db, keys, step.f) }))
		if !slices.Equal(got, want) {
			t.Errorf("%s: records\n%.2000q, want\n%.2000q", step.key, got, want)
		}
	}
}

// TestBatches compares the keys of the records of each write. Unlike in Kvrocks, what a merge does not change is not
// written again, and adding no elements makes the key.
func TestBatches(t *testing.T) {
	h, other := []byte("h"), []byte("o")
	keys := [][]byte{h, other}
	add := func(key []byte, elements ...string) func(tx *engine.Tx) error {
		return func(tx *engine.Tx) error { _, err := Add(tx, key, raw(elements...)); return err }
	}
	merge := func(tx *engine.Tx) error { return Merge(tx, h, other) }
	const log, meta = `log data "11"`, `put metadata "h"`
	show := func(t testing.TB, batches [][]byte) []string {
		lines := fixture.Lines(t, batches, ns+"/", "", " #1", "")
		for i, l := range lines {
			lines[i], _, _ = strings.Cut(l, " = ")
		}
		return lines
	}
	for _, c := range []struct {
		name   string
		before []func(tx *engine.Tx) error
		f      func(tx *engine.Tx) error
		want   []string
	}{
		{"one", nil, add(h, "e11"), []string{log, `put default "h" "2"`, meta}},
		{"segments in the order of their numbers", nil, add(h, "e1", "e12", "e11"),
			[]string{log, `put default "h" "2"`, `put default "h" "6"`, `put default "h" "15"`, meta}},
		{"nothing new", []func(tx *engine.Tx) error{add(h, "a", "b")}, add(h, "b", "a"), nil},
		{"no elements", nil, add(h), []string{log, meta}},
		{"no elements, but it is there", []func(tx *engine.Tx) error{add(h)}, add(h), nil},
		{"merge", []func(tx *engine.Tx) error{add(h, "a"), add(other, "a", "e11")}, merge,
			[]string{log, `put default "h" "2"`, meta}},
		{"merge nothing new", []func(tx *engine.Tx) error{add(h, "a"), add(other, "a")}, merge, []string{log, meta}},
		{"merge nothing at all", nil, merge, []string{log, meta}},
	} {
		t.Run(c.name, func(t *testing.T) {
			db := enginetest.Open(t)
			for _, f := range c.before {
				update(t, db, keys, f)
			}
			enginetest.WantBatches(t, db, keys, nil, c.f, show, c.want)
		})
	}
}
