package search_test

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/enginetest"
	"github.com/basaltdb/basalt/engine/hash"
	"github.com/basaltdb/basalt/engine/json"
	"github.com/basaltdb/basalt/engine/keys"
	"github.com/basaltdb/basalt/engine/search"
	"github.com/basaltdb/basalt/engine/set"
	"github.com/basaltdb/basalt/internal/require"
)

const ns = cf.DefaultNamespace

// fixture is a database with indexes.
type fixture struct {
	testing.TB
	db *engine.DB
	r  *search.Registry
}

func open(t testing.TB) fixture {
	db := enginetest.Open(t)
	return fixture{t, db, search.Open(db, func(text string) { t.Log(text) })}
}

// create makes an index with TAG fields t and c (case-sensitive, separated by bars), the NUMERIC fields n and m, and
// the NUMERIC field x that is not indexed.
func (f fixture) create(name string, on cf.Type, prefixes ...string) {
	f.Helper()
	ix := &search.Index{Namespace: ns, Name: name, On: on, Prefixes: enginetest.Bytes(prefixes...)}
	for name, field := range map[string]cf.SearchField{
		"t": {Type: cf.SearchTag, Separator: ','}, "c": {Type: cf.SearchTag, Separator: '|', CaseSensitive: true},
		"n": {Type: cf.SearchNumeric}, "m": {Type: cf.SearchNumeric}, "x": {Type: cf.SearchNumeric, NoIndex: true},
	} {
		if err := ix.Add(search.Field{Name: name, SearchField: field}); err != nil {
			f.Fatal(err)
		}
	}
	if err := f.r.Create(ix, f.update); err != nil {
		f.Fatal(err)
	}
}

func (f fixture) update(keys [][]byte, all bool, do func(tx *engine.Tx) error) error {
	for {
		err := f.try(keys, all, do)
		var lock *search.NeedsLock
		if !errors.As(err, &lock) {
			return err
		}
		keys = append(slices.Clip(keys), lock.Key)
	}
}

func (f fixture) try(keys [][]byte, all bool, do func(tx *engine.Tx) error) error {
	tx := f.db.NewTx()
	tx.Begin(ns)
	defer tx.Release()
	acquire := tx.Acquire
	for _, k := range keys {
		tx.AddLock(k, true)
	}
	if all {
		acquire = tx.AcquireAll
	}
	if err := acquire(); err != nil {
		return err
	}
	if err := do(tx); err != nil {
		return err
	}
	return tx.Commit()
}

// write changes keys, with their entries.
func (f fixture) write(do func(tx *engine.Tx) error, names ...string) {
	f.Helper()
	err := f.update(enginetest.Bytes(names...), false, func(tx *engine.Tx) error {
		var w search.Watch
		for _, k := range names {
			if err := f.r.Before(tx, &w, []byte(k)); err != nil {
				return err
			}
		}
		if err := do(tx); err != nil {
			return err
		}
		return w.After(tx)
	})
	if err != nil {
		f.Fatal(err)
	}
}

func (f fixture) hset(key string, pairs ...string) {
	f.Helper()
	f.write(func(tx *engine.Tx) error {
		_, err := hash.Set(tx, []byte(key), enginetest.Bytes(pairs...))
		return err
	}, key)
}

// run returns the results of a query: key(field=value ...).
func (f fixture) run(q *search.Query, err error) string {
	f.Helper()
	if err != nil {
		return err.Error()
	}
	var got []string
	enginetest.View(f, f.db, nil, func(tx *engine.Tx) error {
		err = f.r.Run(tx, q, func(row *search.Row, fields []*search.Field) bool {
			var values []string
			for _, f := range fields {
				values = append(values, f.Name+"="+string(row.Value(f).Append(nil, f)))
			}
			got = append(got, fmt.Sprintf("%s(%s)", row.Key, strings.Join(values, " ")))
			return true
		})
		return nil
	})
	if err != nil {
		return err.Error()
	}
	return strings.Join(got, " ")
}

func sortBy(q *search.Query, err error, field string, desc bool, offset, count int64) (*search.Query, error) {
	if err == nil {
		q.SortBy(field, desc)
		q.Offset, q.Count = offset, count
	}
	return q, err
}

func (f fixture) hashes() {
	f.create("i", cf.TypeHash, "h:")
	f.hset("h:1", "t", "a,B", "n", "1", "c", "X|y", "x", "7")
	f.hset("h:2", "t", " b,, ,\tc d ", "n", "2.5")
	f.hset("h:3", "n", "-3", "m", "1e20")
	f.hset("h:4", "t", "a", "n", "not a number") // not indexed
	f.hset("other", "t", "a", "n", "1")
}

func TestQueries(t *testing.T) {
	f := open(t)
	f.hashes()
	for _, tt := range []struct{ text, want string }{
		{`*`, "h:1(c=X|y n=1 t=a,B x=7) h:2(n=2.5 t=b,c d) h:3(m=1e+20 n=-3)"},
		{`@t:{a}`, "h:1"},
		{"@t:{" + strings.Repeat("no|", 1000) + "A}", "h:1"},
		{`@t:{ A }`, "h:1"},
		{`@t:{b}`, "h:1 h:2"},
		{`@t:{c\ d}`, "h:2"},
		{`@t:{c d|"a"}`, "h:2 h:1"},
		{`@t:{$p}`, "h:1"},
		{`@t:{none}`, ""},
		{`@c:{X}`, "h:1"},
		{`@c:{x}`, ""},
		{`@n:[1 2.5]`, "h:1 h:2"},
		{`@n:[(1 2.5]`, "h:2"},
		{`@n:[-inf (2.5]`, "h:3 h:1"},
		{`@n:[$one +inf]`, "h:1 h:2"},
		{`@m:[-inf inf]`, "h:3"},
		{`@x:[7 7]`, "h:1"},
		{`-@t:{a}`, "h:2 h:3"},
		{`-@m:[0 inf]`, "h:1 h:2"},
		{`@t:{b} @n:[2 3]`, "h:2"},
		{`@t:{b} -@t:{a}`, "h:2"},
		{`@t:{a} | @n:[-inf 0]`, "h:1 h:3"},
		{`(@t:{b}|@t:{a}) @n:[0 9]`, "h:1 h:2"},
		{`@n:[1 1] | @t:{a|b} | @n:[-3 2]`, "h:1 h:2 h:3"},
	} {
		q, err := search.Parse("i", tt.text, map[string]string{"p": "a", "one": "1"})
		if q != nil && tt.text != "*" {
			q.Return = []string{"m"}
		}
		got := strings.NewReplacer("()", "", "(m=1e+20)", "").Replace(f.run(q, err))
		if got != tt.want {
			t.Errorf("%s: %q, want %q", tt.text, got, tt.want)
		}
	}
	for _, tt := range []struct{ text, want string }{
		{`select n, t from i where t hastag "a"`, "h:1(n=1 t=a,B)"},
		{`SELECT n FROM i WHERE t tagged @p`, "h:1(n=1)"},
		{`select n from i where n > 1 or 0 >= n`, "h:2(n=2.5) h:3(n=-3)"},
		{`select n from i where not (n = 1 or m != 5)`, "h:2(n=2.5)"},
		{`select n from i where n != 1 and true`, "h:2(n=2.5) h:3(n=-3)"},
		{`select n from i where false`, ""},
		{`select n from i order by n`, "h:3(n=-3) h:1(n=1) h:2(n=2.5)"},
		{`select n from i order by n desc limit 1`, "h:2(n=2.5)"},
		{`select n from i order by n asc limit 1, 5`, "h:1(n=1) h:2(n=2.5)"},
		{`select n from i where t hastag "b" order by n desc limit 1, 1`, "h:1(n=1)"},
		{`select n from i where t hastag "b" order by n desc`, "h:2(n=2.5) h:1(n=1)"},
		{`select n from i order by x limit 3`, "h:1(n=1)"},
		{`select n from i limit 2`, "h:1(n=1) h:2(n=2.5)"},
		{`select n from i limit 1,1`, "h:2(n=2.5)"},
		{`select n from i limit 0`, ""},
	} {
		if got := f.run(search.ParseSQL(tt.text, map[string]string{"p": "a"})); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.text, got, tt.want)
		}
	}
}

// TestOldEntries: entries of a key that was removed without them find no other value of the key, and no key twice.
func TestOldEntries(t *testing.T) {
	f := open(t)
	f.create("i", cf.TypeHash)
	f.hset("h", "t", "a", "n", "1")
	err := f.update(enginetest.Bytes("h"), false, func(tx *engine.Tx) error { // as a compaction does after it has expired
		tx.Delete(cf.Metadata, cf.AppendNSKey(nil, ns, []byte("h"), false))
		return nil
	})
	require.NoError(t, err)
	f.hset("h", "t", "c", "n", "3")
	for _, tt := range []struct{ text, want string }{
		{`@t:{a}`, ""}, {`@n:[1 1]`, ""}, {`@t:{a|c}`, "h(n=3 t=c)"}, {`@n:[1 3]`, "h(n=3 t=c)"},
		{`@n:[1 1] | @n:[3 3]`, "h(n=3 t=c)"}, {`@t:{a} | @n:[1 3]`, "h(n=3 t=c)"},
	} {
		if got := f.run(search.Parse("i", tt.text, nil)); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.text, got, tt.want)
		}
	}
}

// TestExpiredField: a write removes the entries of a field that has expired, whose record stays. A later write of the
// same value makes the entries again.
func TestExpiredField(t *testing.T) {
	f := open(t)
	ix := &search.Index{Namespace: ns, Name: "i", On: cf.TypeHash}
	vector := cf.SearchVectorParams{VectorType: search.Float64Vector, Dim: 1, M: 2, EFConstruction: 10, EFRuntime: 10}
	for name, field := range map[string]cf.SearchField{"t": {Type: cf.SearchTag, Separator: ','},
		"n": {Type: cf.SearchNumeric}, "v": {Type: cf.SearchVector, Vector: vector}} {
		require.NoError(t, ix.Add(search.Field{Name: name, SearchField: field}))
	}
	require.NoError(t, f.r.Create(ix, f.update))
	pairs := []string{"t", "a,b", "n", "7", "v", "\x00\x00\x00\x00\x00\x00\xf0?", "other", "0"}
	fields := enginetest.Bytes("t", "n", "v")
	now := time.Now().UnixMilli()
	for _, do := range []func(tx *engine.Tx, key []byte) error{
		func(tx *engine.Tx, key []byte) error {
			_, err := hash.Set(tx, key, enginetest.Bytes(pairs...))
			return err
		},
		func(tx *engine.Tx, key []byte) error {
			_, err := hash.Expire(tx, key, fields, now+300, hash.Always)
			return err
		},
		func(tx *engine.Tx, key []byte) error {
			_, err := hash.Set(tx, key, enginetest.Bytes("other", "1"))
			return err
		},
		func(tx *engine.Tx, key []byte) error {
			_, err := hash.Set(tx, key, enginetest.Bytes(pairs...))
			return err
		},
	} {
		key := []byte("h")
		err := f.update([][]byte{key}, false, func(tx *engine.Tx) error {
			tx.Tick(now)
			var w search.Watch
			err := f.r.Before(tx, &w, key)
			if err == nil {
				err = do(tx, key)
			}
			if err == nil {
				err = w.After(tx)
			}
			return err
		})
		require.NoError(t, err)
		now += 400
	}
	for _, text := range []string{"@t:{a}", "@t:{b}", "@n:[7 7]", "*=>[KNN 1 @v $v]"} {
		q, err := search.Parse("i", text, map[string]string{"v": pairs[5]})
		if q != nil {
			q.Return = []string{"n"}
		}
		if got := f.run(q, err); got != "h(n=7)" {
			t.Errorf("%s: %q", text, got)
		}
	}
}

// TestEntriesOfDroppedField: a compaction of the search family drops the entries of a field that has expired and whose
// record another compaction has dropped.
func TestEntriesOfDroppedField(t *testing.T) {
	f := open(t)
	f.create("i", cf.TypeHash)
	f.hset("h", "t", "a,b", "n", "1", "other", "1")
	f.hset("plain", "t", "a", "n", "1")
	f.write(func(tx *engine.Tx) error {
		_, err := hash.Expire(tx, []byte("h"), enginetest.Bytes("t"), tx.Now()+1e9, hash.Always)
		return err
	}, "h")
	err := f.update(enginetest.Bytes("h"), false, func(tx *engine.Tx) error { // as a compaction does after the expiry
		rec, err := tx.Load([]byte("h"), cf.TypeHash)
		tx.Delete(cf.Default, tx.Subkey(&rec, []byte("t")))
		return err
	})
	require.NoError(t, err)
	entries := strings.Count(f.dump(), "\n")
	require.NoError(t, errors.Join(f.db.FlushMemtable(cf.Search), f.db.CompactRange(cf.Search, nil, nil)))
	if got := strings.Count(f.dump(), "\n"); got != entries-2 {
		t.Errorf("%d records, want %d:\n%s", got+1, entries-1, f.dump())
	}
	if got := f.run(search.ParseSQL("select n from i where n = 1", nil)); got != "h(n=1) plain(n=1)" {
		t.Error(got)
	}
}

// TestEntriesOfDroppedKey: a compaction of the search family drops the entries of a key that had expired, whose record
// another compaction has dropped, and that exists again with another value or type.
func TestEntriesOfDroppedKey(t *testing.T) {
	f := open(t)
	f.create("i", cf.TypeHash)
	for _, key := range []string{"hash", "set", "expires"} {
		f.hset(key, "t", "A,b", "c", "A", "n", "1", "m", "2")
		err := f.update(enginetest.Bytes(key), false, func(tx *engine.Tx) error { // as a compaction does after the expiry
			_, err := tx.Load([]byte(key), cf.TypeHash)
			tx.Delete(cf.Metadata, cf.AppendNSKey(nil, ns, []byte(key), false))
			return err
		})
		require.NoError(t, err)
	}
	f.hset("hash", "t", "x,A", "c", "a", "n", "1")
	f.hset("expires", "t", "x,A", "c", "a", "n", "1")
	f.write(func(tx *engine.Tx) error {
		_, err := hash.Expire(tx, []byte("expires"), enginetest.Bytes("t"), tx.Now()+1e9, hash.Always)
		return err
	}, "expires")
	f.write(func(tx *engine.Tx) error {
		_, err := set.Add(tx, []byte("set"), enginetest.Bytes("member"))
		return err
	}, "set")
	require.NoError(t, errors.Join(f.db.FlushMemtable(cf.Search), f.db.CompactRange(cf.Search, nil, nil)))
	other := open(t) // has never had the former values
	other.create("i", cf.TypeHash)
	other.hset("hash", "t", "x,A", "c", "a", "n", "1")
	other.hset("expires", "t", "x,A", "c", "a", "n", "1")
	if got, want := f.dump(), other.dump(); got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
}

func TestQueryErrors(t *testing.T) {
	f := open(t)
	f.hashes()
	wide := "select * from i where " + strings.Repeat("true or ", 1024) + "true"
	deep := strings.Repeat("(", 200) + "*" + strings.Repeat(")", 200)
	const syntax, long = "invalid syntax", "the query has more than 1024 conditions"
	for text, want := range map[string]string{
		"": syntax, "(": syntax, "@t": syntax, "@t:{a": syntax, "@n:[1": syntax, "* |": syntax, "@t:{a}}": syntax,
		"hello": syntax, `@t:{"\q"}`: syntax, "@n:[1 2 3]": syntax, "*=>[KNN": syntax, "*=>[KNN x @f $v]": syntax,
		deep: "the query is nested too deeply",
		"@t:{" + strings.Repeat("a|", 1023) + "a}": long,
		strings.Repeat("*", 1025):                  long,
		"@z:{a}":                                   "field `z` not found in index `i`",
		"@n:{a}":                                   "field `n` is not a tag field",
		"@t:[1 2]":                                 "field `t` is not a numeric field",
		"@t:[-inf inf]":                            "field `t` is not a numeric field",
		"@t:{}":                                    "tag cannot be an empty string",
		`@t:{"a,b"}`:                               "tag cannot contain the separator `,`",
		"@t:{$q}":                                  "parameter with name `q` not found",
		"@n:[$p 1]":                                "a parameter is not a number",
		"@n:[inf 1]":                               "it's not allowed to set the lower bound as positive infinity",
		"@n:[1 -inf]":                              "it's not allowed to set the upper bound as negative infinity",
		"*=>[KNN 3 @n $v8]":                        "field `n` is not a vector field",
		"*=>[KNN 3 @n $p]":                         "data size is not a multiple of the target type size",
		"*=>[KNN 3 @n $nil]":                       "empty vector is invalid",
	} {
		params := map[string]string{"p": "a", "nil": "", "v8": "12345678"}
		if got := f.run(search.Parse("i", text, params)); got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
	const sides = "the left and right side of numeric comparison should be an identifier and a number"
	for text, want := range map[string]string{
		"": syntax, "select": syntax, "select * from": syntax, "select n m from i": syntax, "select * from i where": syntax,
		"select * from i limit": syntax, "select * from i limit 1.5": syntax, "select * from i order n": syntax,
		`select * from i where t hastag`: syntax, "select * from i where n <-> [1": syntax,
		"select * from i where n = n":                       sides,
		"select * from i where 1 = 1":                       sides,
		"select * from j":                                   "index `j` not found",
		"select z from i":                                   "field `z` not found in index `i`",
		"select * from i order by t":                        "field `t` is not sortable",
		"select * from i order by z":                        "field `z` not found in index `i`",
		"select * from i order by x":                        "SORTBY needs a LIMIT of at most 1000000 keys here",
		"select * from i order by x limit 9007199254740991": "SORTBY needs a LIMIT of at most 1000000 keys here",
		"select * from i where n <-> [1,2] < 3":             "field `n` is not a vector field",
		wide:                                                long,
	} {
		if got := f.run(search.ParseSQL(text, nil)); got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}

func TestExplain(t *testing.T) {
	f := open(t)
	f.hashes()
	for text, want := range map[string]string{
		"select * from i":                      "project *: full-scan i",
		"select n from i where t hastag \"A\"": `project n: (filter t hastag "A": tag-scan t, a)`,
		"select n from i where t hastag \"a\" and n = 1": "project n: " +
			`(filter (and t hastag "a", n = 1): numeric-scan n, [1, 1], asc)`,
		"select n from i where n > 1 and n < 5 and m = 1": "project n: " +
			"(filter (and n > 1, n < 5, m = 1): numeric-scan m, [1, 1], asc)",
		"select n from i where n > 1 order by n desc": `project n: (filter n > 1: numeric-scan n, [1, inf], desc)`,
		"select n from i where n > 1 or x = 1":        `project n: (filter (or n > 1, x = 1): full-scan i)`,
		"select n from i where n = 1 order by m limit 1, 2": "project n: " +
			"(top-n sort m, asc, 1, 2: (filter n = 1: numeric-scan n, [1, 1], asc))",
		"select n from i order by n limit 3": `project n: (limit 0, 3: numeric-scan n, [-inf, inf], asc)`,
	} {
		q, err := search.ParseSQL(text, nil)
		require.NoError(t, err)
		if got, err := f.r.Explain(ns, q); err != nil || got != want {
			t.Errorf("%s: %q, %v, want %q", text, got, err, want)
		}
	}
}

// TestManyTags: the ranges of many tags are read unless they hold more entries than there are keys.
func TestManyTags(t *testing.T) {
	f := open(t)
	f.create("i", cf.TypeHash)
	const n, common = 2000, 12
	tags := func(name string, n int) string {
		var list []string
		for i := range n {
			list = append(list, name+strconv.Itoa(i))
		}
		return strings.Join(list, "|")
	}
	for i := range n {
		all := strings.Split(tags("c", common), "|")
		f.hset(fmt.Sprintf("k%04d", i), "t", fmt.Sprintf("r%d,%s", i, strings.Join(all, ",")))
	}
	for _, id := range []cf.ID{cf.Metadata, cf.Search} {
		require.NoError(t, f.db.FlushMemtable(id))
	}
	for _, tt := range []struct {
		query string
		union bool
		found int
	}{
		{"@t:{" + tags("r", 50) + "}", true, 50},
		{"@t:{" + tags("r", 50) + "} -@t:{r7}", true, 49},
		{"@t:{" + tags("r", 50) + "} | @n:[1 2]", true, 50},
		{"@t:{" + strings.Repeat("c1|", 100) + "c1}", true, n},
		{"@t:{" + tags("c", common) + "}", false, n},
		{"@t:{" + tags("r", 50) + "} | @x:[1 2]", false, 50},
	} {
		q, err := search.Parse("i", tt.query, nil)
		require.NoError(t, err)
		text, err := f.r.Explain(ns, q)
		if err != nil || strings.Contains(text, "full-scan") == tt.union {
			t.Errorf("%.20s...: %v, %s", tt.query, err, text)
		}
		q.Return = []string{}
		if found := strings.Fields(f.run(q, nil)); len(found) != tt.found {
			t.Errorf("%.20s...: %d keys, want %d", tt.query, len(found), tt.found)
		}
	}
}

// dump returns the keys of the search family.
func (f fixture) dump() string {
	var list []string
	enginetest.View(f, f.db, nil, func(tx *engine.Tx) error {
		it := tx.Iter(cf.Search, engine.IterOptions{})
		defer it.Close()
		for it.Next() {
			list = append(list, fmt.Sprintf("%q", it.Key()))
		}
		return it.Err()
	})
	return strings.Join(list, "\n")
}

// TestEntries compares the entries with those that Kvrocks writes, byte for byte, and what an index keeps of a key that
// is deleted.
func TestEntries(t *testing.T) {
	f := open(t)
	f.hset("k:1", "t", "a,B,a", "n", "2")
	f.create("i", cf.TypeHash, "k:") // indexes the key that exists
	definition := f.dump()
	f.write(func(tx *engine.Tx) error { _, err := keys.Del(tx, []byte("k:1")); return err }, "k:1")
	empty := f.dump()
	const data = `"\v__namespace\x03\x00\x00\x00\x01i\x00\x00\x00\x01`
	want := strings.Join([]string{empty,
		data + `n\xc0\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x03k:1"`,
		data + `t\x00\x00\x00\x01a\x00\x00\x00\x03k:1"`,
		data + `t\x00\x00\x00\x01b\x00\x00\x00\x03k:1"`}, "\n")
	if definition != want {
		t.Errorf("%s\nwant\n%s", definition, want)
	}
	reopened := search.Open(f.db, func(text string) { t.Error(text) })
	got, err := reopened.Find(ns, "i")
	if err != nil || got.On != cf.TypeHash || fmt.Sprintf("%s", got.Prefixes) != "[k:]" || len(got.Fields) != 5 ||
		got.Field("c").Separator != '|' || !got.Field("x").NoIndex {
		t.Errorf("%+v, %v", got, err)
	}
	if err := f.update(nil, true, func(tx *engine.Tx) error { return f.r.Drop(tx, "i") }); err != nil || f.dump() != "" ||
		f.r.Any() {
		t.Errorf("dropped: %v, %s", err, f.dump())
	}
}

// TestCreateFails: an index whose entries cannot be written does not exist, and can be made later.
func TestCreateFails(t *testing.T) {
	f := open(t)
	for i := range 300 {
		f.hset(fmt.Sprint("h", i), "t", "red")
	}
	full := errors.New("the disk is full")
	ix := &search.Index{Namespace: ns, Name: "i", On: cf.TypeHash}
	err := ix.Add(search.Field{Name: "t", SearchField: cf.SearchField{Type: cf.SearchTag, Separator: ','}})
	require.NoError(t, err)
	err = f.r.Create(ix, func(keys [][]byte, all bool, do func(tx *engine.Tx) error) error {
		if len(keys) > 0 {
			return full
		}
		return f.update(keys, all, do)
	})
	if _, missing := f.r.Find(ns, "i"); err != full || missing != search.ErrMissing || f.r.Any() {
		t.Errorf("%v; %v", err, missing)
	}
	f.create("i", cf.TypeHash)
}

// doc is the model of a key.
type doc struct {
	tags    []string
	n, m    float64
	has     [3]bool // t, n, m
	invalid bool
}

func (d *doc) pairs() (pairs []string) {
	if d.has[0] {
		pairs = append(pairs, "t", strings.Join(d.tags, ","))
	}
	if d.has[1] {
		pairs = append(pairs, "n", strconv.FormatFloat(d.n, 'g', -1, 64))
	}
	if d.has[2] {
		pairs = append(pairs, "m", strconv.FormatFloat(d.m, 'g', -1, 64))
	}
	if d.invalid {
		pairs = append(pairs, "n", "?")
	}
	return append(pairs, "other", "1")
}

func (d *doc) json() string {
	var parts []string
	for p := d.pairs(); len(p) > 0; p = p[2:] {
		if p[0] == "t" || p[1] == "?" {
			p[1] = strconv.Quote(p[1])
		}
		parts = append(parts, strconv.Quote(p[0])+":"+p[1])
	}
	return "{" + strings.Join(parts, ",") + "}"
}

func randomDoc(g *rand.Rand) *doc {
	d := &doc{n: float64(g.IntN(8) - 4), m: float64(g.IntN(5)) / 2, invalid: g.IntN(12) == 0}
	for range 1 + g.IntN(3) {
		d.tags = append(d.tags, string('a'+rune(g.IntN(4))))
	}
	for i := range d.has {
		d.has[i] = g.IntN(5) > 0
	}
	return d
}

// condition returns a random condition in both languages, and what it means.
func condition(g *rand.Rand, depth int) (redis, sql string, holds func(d *doc) bool) {
	switch k := g.IntN(7); {
	case depth > 0 && k < 2:
		r1, s1, h1 := condition(g, depth-1)
		r2, s2, h2 := condition(g, depth-1)
		if k == 0 {
			return "(" + r1 + " " + r2 + ")", "(" + s1 + " and " + s2 + ")", func(d *doc) bool { return h1(d) && h2(d) }
		}
		return "(" + r1 + "|" + r2 + ")", "(" + s1 + " or " + s2 + ")", func(d *doc) bool { return h1(d) || h2(d) }
	case depth > 0 && k == 2:
		r, s, h := condition(g, depth-1)
		return "-" + r, "not " + s, func(d *doc) bool { return !h(d) }
	case k < 5:
		tag := string('a' + rune(g.IntN(4)))
		return "@t:{" + strings.ToUpper(tag) + "}", `t hastag "` + tag + `"`,
			func(d *doc) bool { return d.has[0] && slices.Contains(d.tags, tag) }
	}
	lo := float64(g.IntN(8)-4) / 2
	hi := lo + float64(g.IntN(4))
	f, i := "n", 1
	if g.IntN(2) == 0 {
		f, i = "m", 2
	}
	return fmt.Sprintf("@%s:[%g (%g]", f, lo, hi), fmt.Sprintf("(%s >= %g and %s < %g)", f, lo, f, hi),
		func(d *doc) bool {
			x := []float64{0, d.n, d.m}[i]
			return d.has[i] && lo <= x && x < hi
		}
}

// TestModel compares random queries after random writes with a plain model over all keys, for hashes and documents.
func TestModel(t *testing.T) {
	for _, on := range []cf.Type{cf.TypeHash, cf.TypeJSON} {
		t.Run(on.String(), func(t *testing.T) {
			g := rand.New(rand.NewPCG(1, uint64(on)))
			f := open(t)
			f.create("i", on, "k", "k1") // prefixes that overlap find no key twice
			model := map[string]*doc{}
			for range 400 {
				key := fmt.Sprintf("k%d", g.IntN(40))
				d := randomDoc(g)
				f.write(func(tx *engine.Tx) error {
					if _, err := keys.Del(tx, []byte(key)); err != nil || g.IntN(4) == 0 {
						delete(model, key)
						return err
					}
					model[key] = d
					if on == cf.TypeJSON {
						_, err := json.Set(tx, []byte(key), json.Root(), []byte(d.json()), 0, json.DefaultOptions)
						return err
					}
					_, err := hash.Set(tx, []byte(key), enginetest.Bytes(d.pairs()...))
					return err
				}, key)
				redis, sql, holds := condition(g, 3)
				var want []string
				for key, d := range model {
					if !d.invalid && holds(d) {
						want = append(want, key+"()")
					}
				}
				slices.Sort(want)
				compare := func(text string, q *search.Query, err error) {
					if q != nil {
						q.Return = []string{"x"}
					}
					got := strings.Fields(f.run(q, err))
					slices.Sort(got)
					if !slices.Equal(got, want) {
						t.Fatalf("%s: %q, want %q", text, got, want)
					}
				}
				q, err := search.Parse("i", redis, nil)
				compare(redis, q, err)
				q, err = search.ParseSQL("select x from i where "+sql, nil)
				compare(sql, q, err)

				// in an order, in part
				desc, offset, count := g.IntN(2) == 0, g.IntN(4), g.IntN(6)
				sorted := slices.DeleteFunc(want, func(k string) bool { return !model[k[:len(k)-2]].has[1] })
				slices.SortFunc(sorted, func(a, b string) int {
					x, y := model[a[:len(a)-2]].n, model[b[:len(b)-2]].n
					c := 0
					switch {
					case x != y:
						c = int(math.Copysign(1, x-y))
					case len(a) != len(b):
						c = len(a) - len(b)
					default:
						c = strings.Compare(a, b)
					}
					if desc {
						return -c
					}
					return c
				})
				want = sorted[min(offset, len(sorted)):min(offset+count, len(sorted))]
				q, err = search.Parse("i", redis, nil)
				if q, err = sortBy(q, err, "n", desc, int64(offset), int64(count)); q != nil {
					q.Return = []string{"x"}
				}
				if got := strings.Fields(f.run(q, err)); !slices.Equal(got, want) {
					t.Fatalf("%s sortby n desc=%v limit %d %d: %q, want %q", redis, desc, offset, count, got, want)
				}
			}
			// The entries are those of an index that is made anew.
			before := f.dump()
			require.NoError(t, f.update(nil, true, func(tx *engine.Tx) error { return f.r.Drop(tx, "i") }))
			if f.create("i", on, "k", "k1"); f.dump() != before {
				t.Error("the entries differ from those of a new index")
			}
		})
	}
}

// TestConcurrent: while writers move keys from one tag to another, every search finds each key exactly once, also while
// an index is being built.
func TestConcurrent(t *testing.T) {
	f := open(t)
	const n = 8
	for i := range n {
		f.hset(fmt.Sprint("k", i), "t", "even", "n", "0")
	}
	f.create("i", cf.TypeHash, "k")
	stop := make(chan struct{})
	var writers sync.WaitGroup
	for w := range 2 {
		writers.Go(func() {
			for i := 1; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				f.hset(fmt.Sprint("k", w*n/2+i%(n/2)), "t", []string{"even", "odd"}[i/n%2], "n", fmt.Sprint(i/n%2))
			}
		})
	}
	for round := range 60 {
		if round == 30 {
			f.create("j", cf.TypeHash, "k")
		}
		for _, index := range []string{"i", "j"}[:1+round/30] {
			for _, text := range []string{"(@t:{even} @n:[0 0]) | (@t:{odd} @n:[1 1])", "*"} {
				if got := strings.Fields(f.run(search.Parse(index, text, nil))); len(got) != 2*n { // key(n=.. t=..)
					t.Errorf("%s in %s: %q", text, index, got)
				}
			}
		}
	}
	close(stop)
	writers.Wait()
	before := strings.Count(f.dump(), "\n")
	f.r.Reload()
	if got := strings.Fields(f.run(search.Parse("j", "@n:[0 1]", nil))); len(got) != 2*n || before != 2*(7+2*n)-1 {
		t.Errorf("%q, %d records", got, before+1)
	}
}

// fuzz fails for a query that is neither parsed nor refused, and runs it where it can be.
func fuzz(t *testing.T, f fixture, q *search.Query, err error) {
	if (q == nil) == (err == nil) {
		t.Errorf("%v, %v", q, err)
	}
	if q != nil {
		f.TB = t
		_, err = f.r.Explain(ns, q)
		if got := f.run(q, nil); err != nil && got != err.Error() {
			t.Errorf("explained: %v, run: %s", err, got)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, text := range []string{`*`, `@t:{a\ b|"c\u0041"|$p} -(@n:[(1 inf]|@n:[$p 2e3])`, `*=>[KNN 3 @v $v]`,
		`@v:[VECTOR_RANGE 1 $v]`, `(*=>[KNN $p @v $v]) @t:{x}`, `@t:{x}|-@v:[VECTOR_RANGE 7 $v]`} {
		f.Add(text)
	}
	docs := documents(f, search.MetricL2)
	f.Fuzz(func(t *testing.T, text string) {
		q, err := search.Parse("i", text, map[string]string{"p": "12345678", "v": blob(1, 2, 3)})
		fuzz(t, docs, q, err)
	})
}

func FuzzParseSQL(f *testing.F) {
	for _, text := range []string{`select * from i where a hastag "b" and not (c < 5 or 3 >= d) order by c desc limit 1,2`,
		`select v,t from i where v <-> [1,2.5,3] < @p order by v <-> [1,2,3] limit 3`,
		`select * from i where true order by v <-> [1,2,3] limit 1, 2`} {
		f.Add(text)
	}
	docs := documents(f, search.MetricCosine)
	f.Fuzz(func(t *testing.T, text string) {
		q, err := search.ParseSQL(text, map[string]string{"p": "1"})
		fuzz(t, docs, q, err)
	})
}
