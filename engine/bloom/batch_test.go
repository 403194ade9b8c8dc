package bloom_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/bloom"
	"github.com/basaltdb/basalt/engine/enginetest"
	"github.com/basaltdb/basalt/internal/fixture"
)

// metadata finds the size and the number of filters in a rendered metadata record.
var metadata = regexp.MustCompile(`size (\d+) "\\x00\\x(..)`)

// show returns records without the namespace, and of metadata only the size and the number of filters.
func show(t testing.TB, batches [][]byte) (lines []string) {
	t.Helper()
	for _, l := range fixture.Lines(t, batches, ns+"/", "") {
		l, value, _ := strings.Cut(l, " = ")
		if m := metadata.FindStringSubmatch(value); m != nil {
			l += " size " + m[1] + " filters " + m[2]
		}
		lines = append(lines, l)
	}
	return lines
}

// TestBatches compares the records of each write with those that Kvrocks 2.10 writes (redis_bloom_chain.cc), in its
// order. There are two differences: a chain that is made and filled by one command is written once, with both log
// data, where Kvrocks writes it twice in two batches; and a filter that was full before is not written again when
// the chain grows.
func TestBatches(t *testing.T) {
	key := []byte("b")
	o := bloom.Options{Capacity: 5, ErrorRate: 0.1, Expansion: 2}
	adding := func(from, to int) func(tx *engine.Tx) error {
		return func(tx *engine.Tx) error { _, err := add(tx, key, numbers(from, to), &o); return err }
	}
	for _, c := range []struct {
		name   string
		before func(tx *engine.Tx) error
		f      func(tx *engine.Tx) error
		want   []string
	}{
		{"reserve", nil, func(tx *engine.Tx) error { return bloom.Reserve(tx, key, o) },
			[]string{`log data "9 createBloomChain"`, `put metadata "b" size 0 filters 01`, `put default "b" #1 "\x00\x00"`}},
		{"add to none", nil, adding(1, 3),
			[]string{`log data "9 createBloomChain"`, `put metadata "b" size 2 filters 01`,
				`put default "b" #1 "\x00\x00"`, `log data "9 insert"`}},
		{"add one", adding(1, 3), adding(3, 4),
			[]string{`log data "9 insert"`, `put metadata "b" size 3 filters 01`, `put default "b" #1 "\x00\x00"`}},
		{"nothing new", adding(1, 3), adding(1, 3), nil},
		{"grow", adding(1, 3), adding(3, 21),
			[]string{`log data "9 insert"`, `put default "b" #1 "\x00\x00"`, `put metadata "b" size 5 filters 02`,
				`put default "b" #1 "\x00\x01"`, `put metadata "b" size 15 filters 03`,
				`put metadata "b" size 20 filters 03`, `put default "b" #1 "\x00\x02"`}},
		{"grow at once", adding(1, 6), adding(6, 7),
			[]string{`log data "9 insert"`, `put metadata "b" size 5 filters 02`,
				`put metadata "b" size 6 filters 02`, `put default "b" #1 "\x00\x01"`}},
		{"two commands", adding(1, 3), func(tx *engine.Tx) error {
			if err := adding(3, 4)(tx); err != nil {
				return err
			}
			return adding(4, 5)(tx)
		}, []string{`log data "9 insert"`, `put metadata "b" size 4 filters 01`, `put default "b" #1 "\x00\x00"`,
			`log data "9 insert"`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			enginetest.WantBatches(t, enginetest.Open(t), [][]byte{key}, c.before, c.f, show, c.want)
		})
	}
}
