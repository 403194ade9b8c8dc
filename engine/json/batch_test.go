package json_test

import (
	"strings"
	"testing"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/enginetest"
	"github.com/basaltdb/basalt/engine/json"
	"github.com/basaltdb/basalt/internal/fixture"
	"github.com/basaltdb/basalt/internal/require"
)

const ns = cf.DefaultNamespace

var keysOf = enginetest.Bytes

func path(t testing.TB, s string) *json.Path {
	t.Helper()
	p, err := json.ParsePath(s)
	require.NoError(t, err)
	return p
}

// TestBatches: every write is one record, after the log data, as Kvrocks 2.10 writes it (redis_json.cc; the first is
// recorded). What changes nothing writes nothing.
func TestBatches(t *testing.T) {
	o := json.DefaultOptions
	bin := o
	bin.Format = cf.JSONCBOR
	key := []byte("j")
	text := func(s string) []byte { return []byte(s) }
	put := func(doc string) []string { return []string{`log data "10"`, `put metadata "j" = ` + doc} }
	start := func(tx *engine.Tx) error {
		_, err := json.Set(tx, key, json.Root(), text(`{"a":[1,2],"b":true,"n":1,"s":"x"}`), json.Always, o)
		return err
	}
	type step = func(tx *engine.Tx) error
	ignore := func(_ any, err error) error { return err }
	cases := []struct {
		name   string
		before step
		f      step
		want   []string
	}{
		{"set", nil, func(tx *engine.Tx) error {
			return ignore(json.Set(tx, key, json.Root(), text(` { "a" : 1 } `), json.Always, o))
		}, put(`ReJSON-RL expire 0 "\x00{\"a\":1}"`)},
		{"set as CBOR", nil, func(tx *engine.Tx) error {
			return ignore(json.Set(tx, key, json.Root(), text(`{"a":1}`), json.Always, bin))
		}, put(`ReJSON-RL expire 0 "\x01\xa1aa\x01"`)},
		{"set with NX", start, func(tx *engine.Tx) error {
			return ignore(json.Set(tx, key, json.Root(), text(`1`), json.IfMissing, o))
		}, nil},
		{"set a path", start, func(tx *engine.Tx) error {
			return ignore(json.Set(tx, key, path(t, "$.a[*]"), text(`"y"`), json.Always, o))
		}, put(`ReJSON-RL expire 0 "\x00{\"a\":[\"y\",\"y\"],\"b\":true,\"n\":1,\"s\":\"x\"}"`)},
		{"text becomes CBOR", start, func(tx *engine.Tx) error {
			return ignore(json.Set(tx, key, path(t, "$.a"), text(`0`), json.Always, bin))
		}, put(`ReJSON-RL expire 0 "\x01\xa4aa\x00ab\xf5an\x01asax"`)},
		{"append", start, func(tx *engine.Tx) error {
			return ignore(json.ArrAppend(tx, key, path(t, "$.a"), keysOf("3", "[]"), o))
		}, put(`ReJSON-RL expire 0 "\x00{\"a\":[1,2,3,[]],\"b\":true,\"n\":1,\"s\":\"x\"}"`)},
		{"append to no array", start, func(tx *engine.Tx) error {
			return ignore(json.ArrAppend(tx, key, path(t, "$.b"), keysOf("3"), o))
		}, nil},
		{"pop from an empty array", start, func(tx *engine.Tx) error {
			return ignore(json.ArrPop(tx, key, path(t, "$.nope"), 0, o))
		}, nil},
		{"two in one transaction", start, func(tx *engine.Tx) error {
			if err := ignore(json.Toggle(tx, key, path(t, "$.b"), o)); err != nil {
				return err
			}
			return ignore(json.Toggle(tx, key, path(t, "$.b"), o))
		}, append(put(`ReJSON-RL expire 0 "\x00{\"a\":[1,2],\"b\":false,\"n\":1,\"s\":\"x\"}"`),
			put(`ReJSON-RL expire 0 "\x00{\"a\":[1,2],\"b\":true,\"n\":1,\"s\":\"x\"}"`)...)},
		{"delete a path", start, func(tx *engine.Tx) error { return ignore(json.Delete(tx, key, path(t, "$.a"), o)) },
			put(`ReJSON-RL expire 0 "\x00{\"b\":true,\"n\":1,\"s\":\"x\"}"`)},
		{"delete nothing", start, func(tx *engine.Tx) error { return ignore(json.Delete(tx, key, path(t, "$.x"), o)) }, nil},
		{"delete the key", start, func(tx *engine.Tx) error { return ignore(json.Delete(tx, key, json.Root(), o)) },
			[]string{`log data "10"`, `delete metadata "j"`}},
		{"delete no key", nil, func(tx *engine.Tx) error { return ignore(json.Delete(tx, key, json.Root(), o)) }, nil},
		{"clear", start, func(tx *engine.Tx) error { return ignore(json.Clear(tx, key, json.Root(), o)) },
			put(`ReJSON-RL expire 0 "\x00{}"`)},
		{"merge", start, func(tx *engine.Tx) error {
			return ignore(json.Merge(tx, key, json.Root(), text(`{"a":null,"b":null,"c":{"d":null}}`), o))
		}, put(`ReJSON-RL expire 0 "\x00{\"n\":1,\"s\":\"x\",\"c\":{}}"`)},
		{"several", start, func(tx *engine.Tx) error {
			return json.MSet(tx, []json.Item{{Key: key, Path: path(t, "$.a"), Text: text("0")},
				{Key: []byte("k"), Path: json.Root(), Text: text("1")},
				{Key: key, Path: path(t, "$.n"), Text: text("5")}}, o)
		}, append(put(`ReJSON-RL expire 0 "\x00{\"a\":0,\"b\":true,\"n\":5,\"s\":\"x\"}"`),
			`put metadata "k" = ReJSON-RL expire 0 "\x001"`)},
	}
	show := func(t testing.TB, batches [][]byte) []string { return fixture.Lines(t, batches, ns+"/", "") }
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			enginetest.WantBatches(t, enginetest.Open(t), keysOf("j", "k"), c.before, c.f, show, c.want)
		})
	}
}

// TestFailedWrites: a function that returns an error has written nothing.
func TestFailedWrites(t *testing.T) {
	db := enginetest.Open(t)
	o := json.DefaultOptions
	o.MaxBytes, o.MaxDepth = 200, 4
	key := []byte("j")
	require.NoError(t, db.Update(ns, keysOf("j"), func(tx *engine.Tx) error {
		_, err := json.Set(tx, key, json.Root(), []byte(`{"a":[1,[2]],"n":1e308,"s":"x"}`), json.Always, o)
		return err
	}))
	long := []byte(`"` + strings.Repeat("x", 150) + `"`)
	for name, f := range map[string]func(tx *engine.Tx) error{
		"bad text": func(tx *engine.Tx) error {
			_, err := json.Set(tx, key, json.Root(), []byte("{"), json.Always, o)
			return err
		},
		"long text": func(tx *engine.Tx) error {
			_, err := json.Set(tx, key, json.Root(), []byte("["+string(long)+","+string(long)+"]"), json.Always, o)
			return err
		},
		"grows too large": func(tx *engine.Tx) error {
			_, err := json.Set(tx, key, path(t, "$.*"), long, json.Always, o)
			return err
		},
		"too deep": func(tx *engine.Tx) error {
			_, err := json.Set(tx, key, path(t, "$.a[1][0]"), []byte("[[]]"), json.Always, o)
			return err
		},
		"deep element": func(tx *engine.Tx) error {
			_, err := json.ArrAppend(tx, key, path(t, "$..*"), keysOf("[[]]"), o)
			return err
		},
		"deep patch": func(tx *engine.Tx) error {
			_, err := json.Merge(tx, key, path(t, "$..*"), []byte(`{"a":{"b":{}}}`), o)
			return err
		},
		"overflow": func(tx *engine.Tx) error {
			_, err := json.Calculate(tx, key, path(t, "$..*"), json.Multiply, []byte("10"), o)
			return err
		},
		"index": func(tx *engine.Tx) error {
			_, err := json.ArrInsert(tx, key, path(t, "$..*"), 2, keysOf("1"), o)
			return err
		},
		"no key": func(tx *engine.Tx) error { _, err := json.Clear(tx, []byte("k"), json.Root(), o); return err },
		"one of several": func(tx *engine.Tx) error {
			return json.MSet(tx, []json.Item{{Key: []byte("k"), Path: json.Root(), Text: []byte("1")},
				{Key: key, Path: path(t, "$.a"), Text: []byte("?")}}, o)
		},
		"several too large": func(tx *engine.Tx) error {
			return json.MSet(tx, []json.Item{{Key: []byte("k"), Path: json.Root(), Text: []byte("1")},
				{Key: key, Path: path(t, "$.*"), Text: long}}, o)
		},
	} {
		var err error
		batches := enginetest.Batches(t, db, func() { err = db.Update(ns, keysOf("j", "k"), f) })
		if err == nil || len(batches) > 0 {
			t.Errorf("%s: %v, %q", name, err, batches)
		}
	}
}
