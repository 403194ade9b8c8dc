package offline

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/batch"
	"github.com/basaltdb/basalt/engine/bloom"
	"github.com/basaltdb/basalt/engine/cuckoo"
	"github.com/basaltdb/basalt/engine/enginetest"
	"github.com/basaltdb/basalt/engine/hash"
	"github.com/basaltdb/basalt/engine/list"
	"github.com/basaltdb/basalt/engine/set"
	"github.com/basaltdb/basalt/engine/str"
	"github.com/basaltdb/basalt/engine/zset"
	"github.com/basaltdb/basalt/internal/require"
)

// damage is one thing that is wrong in a database, made by writing past all checks.
type damage struct {
	name string
	do   func(d *damager)
	// find is what Check says, mend what Repair has done; empty = nothing. A problem that Repair leaves stays.
	find, mend string
}

// damager writes records.
type damager struct {
	t     *testing.T
	ns    string
	r     *engine.ReadOnly
	batch batch.Builder
}

// meta returns the metadata record of a key, decoded, and the prefix of its subkeys.
func (d *damager) meta(key string) (nsKey []byte, m cf.Meta, tail, prefix []byte) {
	nsKey = cf.AppendNSKey(nil, d.ns, []byte(key), false)
	raw, found, err := d.r.Get(cf.Metadata, nsKey, nil)
	if err == nil && found {
		m, tail, err = cf.DecodeMeta(raw)
	}
	if err != nil || !found {
		d.t.Fatal(key, found, err)
	}
	return nsKey, m, tail, cf.AppendSubkeyPrefix(nil, nsKey, false, m.Version)
}

func (d *damager) size(key string, n uint64) {
	nsKey, m, tail, _ := d.meta(key)
	m.Size = n
	d.batch.Put(cf.Metadata, nsKey, append(m.Append(nil), tail...))
}

func (d *damager) sub(key string, sub ...byte) []byte {
	_, _, _, prefix := d.meta(key)
	return append(prefix, sub...)
}

func score(f float64, member string) []byte { return append(cf.AppendDouble(nil, f), member...) }

var damages = []damage{
	{"a hash with a wrong size", func(d *damager) { d.size("hash", 7) },
		"wrong-count: hash hash: the record says 7 fields, there are 3", "the record says 3 now"},
	{"a field too many", func(d *damager) { d.batch.Put(cf.Default, d.sub("set", 'x'), nil) },
		"wrong-count: set set: the record says 3 members, there are 4", "the record says 4 now"},
	{"a set without members", func(d *damager) {
		for _, m := range "abc" {
			d.batch.Delete(cf.Default, d.sub("set", byte(m)))
		}
	}, "missing-members: set set: no member is there, the size is 3", "the record was dropped"},
	{"a member that is not in the index", func(d *damager) {
		d.batch.Delete(cf.ZSetScore, d.sub("zset", score(2, "b")...))
	}, "wrong-score-index: zset zset: member b is not in the score index", "it was added to the index"},
	{"a score of nobody", func(d *damager) {
		d.batch.Put(cf.ZSetScore, d.sub("zset", score(8, "b")...), nil)
	}, "wrong-score-index: zset zset: the score index has member b with another score", "the record was dropped"},
	{"a member that is only in the index", func(d *damager) { d.batch.Delete(cf.Default, d.sub("zset", 'c')) },
		"wrong-score-index: zset zset: member c is only in the score index", "the member was restored"},
	{"a score that is none", func(d *damager) { d.batch.Put(cf.Default, d.sub("zset", 'a'), []byte("1")) },
		"bad-value: zset zset: member a: corrupt record: double of 1 bytes", "the record was dropped"},
	{"a list with a gap", func(d *damager) {
		d.batch.Delete(cf.Default, d.sub("list", binary.BigEndian.AppendUint64(nil, cf.ListOrigin+1)...))
	}, "wrong-count: list list: the record says 4 elements at 4 indexes, there are 3", "the record says 3 now"},
	{"a record of nothing", func(d *damager) {
		nsKey, _, _, _ := d.meta("str")
		d.batch.Put(cf.Metadata, nsKey, []byte{0x81, 1})
	}, "bad-record: str: corrupt record: metadata record of 2 bytes, a string has at least 9", "the record was dropped"},
	{"a type that does not exist", func(d *damager) {
		nsKey, _, _, _ := d.meta("str")
		d.batch.Put(cf.Metadata, nsKey, make([]byte, 30))
	}, "bad-record: str: corrupt record: type 0", "the record was dropped"},
	{"a type of the future", func(d *damager) {
		nsKey, _, _, _ := d.meta("str")
		d.batch.Put(cf.Metadata, nsKey, append([]byte{0x8f}, make([]byte, 24)...))
	}, "unknown-type: unknown str: type 15 of a newer version", ""},
	{"a key of no namespace", func(d *damager) { d.batch.Put(cf.Metadata, []byte("\xffshort"), []byte("x")) },
		`bad-key: "\xffshort": corrupt record`, "the record was dropped"},
	{"a subkey of no key", func(d *damager) { d.batch.Put(cf.Default, []byte("\x02ab"), nil) },
		`bad-key: "\x02ab": corrupt record`, "the record was dropped"},
	{"a score without a member's set", func(d *damager) {
		d.batch.Put(cf.ZSetScore, d.sub("hash", score(1, "f")...), nil)
	}, "unreachable: hash hash: a subkey in family zset_score, where a hash has none", "the record was dropped"},
	{"a bloom filter that is gone", func(d *damager) { d.batch.Delete(cf.Default, d.sub("bloom", 0, 0)) },
		"missing-members: MBbloom-- bloom: no member is there, the size is 0", "the record was dropped"},
	{"a bloom filter that is short", func(d *damager) { d.batch.Put(cf.Default, d.sub("bloom", 0, 0), []byte("x")) },
		"missing-members: MBbloom-- bloom: the record says 1 filters of 128 bytes, there are 1 of 1; delete the key", ""},
	{"a cuckoo filter with a wrong size", func(d *damager) { d.size("cuckoo", 5) },
		"wrong-count: MBbloomCF cuckoo: the record says 5 items, there are 2", "the record says 2 now"},
	{"a cuckoo filter with a short page", func(d *damager) {
		d.batch.Put(cf.Default, d.sub("cuckoo", 0, 0, 0, 0, 0, 0), []byte("x"))
	}, "bad-value: MBbloomCF cuckoo: page 0 of filter 0 of 1 bytes instead of 2048; delete the key", ""},
	{"a script with another name", func(d *damager) {
		d.batch.Put(cf.Propagate, []byte("lua_f_0123"), []byte("return 1"))
	}, "bad-propagate: lua_f_0123: the script's SHA-1 is", "the record was dropped"},
	{"a function without its library", func(d *damager) {
		d.batch.Put(cf.Propagate, []byte("lua_func_lib_f"), []byte("lib"))
	}, "bad-propagate: lua_func_lib_f: the library lib of the function is missing", "the record was dropped"},
	{"an index of nothing", func(d *damager) { d.batch.Put(cf.Search, []byte("\x01a\x09"), nil) },
		`bad-search: "\x01a\t": corrupt record`, ""},
}

// fill makes a key of each kind that is damaged, in a namespace.
func fill(t *testing.T, db *engine.DB, ns string) {
	words := enginetest.Bytes
	update := func(key string, f func(tx *engine.Tx, key []byte) error) {
		require.NoError(t, db.Update(ns, words(key), func(tx *engine.Tx) error { return f(tx, []byte(key)) }))
	}
	update("str", func(tx *engine.Tx, key []byte) error { str.MSet(tx, [][]byte{key, []byte("v")}); return nil })
	update("hash", func(tx *engine.Tx, key []byte) error {
		_, err := hash.Set(tx, key, words("a", "1", "b", "2", "c", "3"))
		return err
	})
	update("set", func(tx *engine.Tx, key []byte) error { _, err := set.Add(tx, key, words("a", "b", "c")); return err })
	update("zset", func(tx *engine.Tx, key []byte) error {
		_, _, err := zset.Add(tx, key, 0, []zset.Entry{{Member: []byte("a"), Score: 1}, {Member: []byte("b"), Score: 2},
			{Member: []byte("c"), Score: 2}})
		return err
	})
	update("list", func(tx *engine.Tx, key []byte) error {
		_, err := list.Push(tx, key, words("p", "q", "r", "s"), false, false)
		return err
	})
	update("cuckoo", func(tx *engine.Tx, key []byte) error {
		return cuckoo.Add(tx, key, words("a", "b"), false, &cuckoo.DefaultOptions, func(cuckoo.Result) {})
	})
	update("bloom", func(tx *engine.Tx, key []byte) error {
		return bloom.Reserve(tx, key, bloom.Options{ErrorRate: 0.01, Capacity: 100, Expansion: 2})
	})
}

// damaged makes a database with each damage in a namespace of its own, n0, n1, ...
func damaged(t *testing.T, damages []damage) (dir string) {
	t.Helper()
	dir = t.TempDir() + "/db"
	db := enginetest.OpenPlain(t, engine.Options{Dir: dir})
	for i, tt := range damages {
		ns := fmt.Sprint("n", i)
		fill(t, db, ns)
		r := db.ReadOnly()
		d := &damager{t: t, ns: ns, r: r}
		tt.do(d)
		err := db.WriteUncounted(d.batch.Bytes())
		r.Close()
		require.NoError(t, err)
	}
	require.NoError(t, db.CloseUncounted())
	return dir
}

// of returns the problem of one damage.
func (r *Report) of(i int, find string) *Problem {
	for _, p := range r.Problems {
		if p.Namespace == "" || p.Namespace == fmt.Sprint("n", i) {
			p.Namespace = ""
			if strings.HasPrefix(p.String(), find) {
				return &p
			}
		}
	}
	return nil
}

func TestRepair(t *testing.T) {
	dir := damaged(t, damages)
	found := check(t, dir)
	repaired, err := Repair(t.Context(), dir, Options{})
	require.NoError(t, err)
	again := check(t, dir)
	left := 0
	for i, tt := range damages {
		before, p, after := found.of(i, tt.find), repaired.of(i, tt.find), again.of(i, tt.find)
		if before == nil || p == nil || p.Repair != tt.mend || (after == nil) != (tt.mend != "") {
			t.Errorf("%s: %+v, %+v, %+v", tt.name, before, p, after)
		}
		if tt.mend == "" {
			left++
		}
	}
	if len(again.Problems) != left {
		t.Errorf("left: %+v", again.Problems)
	}
	if again.Types["string"].Keys != int64(len(damages))-3 {
		t.Errorf("strings: %+v", again.Types["string"])
	}
	text, err := os.ReadFile(repaired.Dropped)
	var line map[string]string
	if err != nil || json.Unmarshal(bytes.SplitN(text, []byte("\n"), 2)[0], &line) != nil || line["key"] == "" {
		t.Errorf("%q, %v", text, err)
	}
	if n := strings.Count(string(text), "\n"); n != 11 {
		t.Errorf("%d records were dropped:\n%s", n, text)
	}
}

// After a repair the elements of the list are those that were left, in their order.
func TestRepairedList(t *testing.T) {
	dir := damaged(t, []damage{{do: func(d *damager) {
		d.batch.Delete(cf.Default, d.sub("list", binary.BigEndian.AppendUint64(nil, cf.ListOrigin+1)...))
		d.batch.Put(cf.Default, d.sub("list", 0, 0, 0, 0, 0, 0, 0, 1), []byte("left"))
	}}})
	if g := check(t, dir).Garbage; g.Outside != 1 {
		t.Errorf("%+v", g)
	}
	if _, err := Repair(t.Context(), dir, Options{}); err != nil {
		t.Fatal(err)
	}
	db := enginetest.OpenWith(t, engine.Options{Dir: dir})
	db.View("n0", enginetest.Bytes("list"), func(tx *engine.Tx) error {
		var got []string
		err := list.Range(tx, []byte("list"), 0, -1, func(uint64) {}, func(v []byte) { got = append(got, string(v)) })
		if err != nil || !slices.Equal(got, []string{"p", "r", "s"}) {
			t.Errorf("%v, %v", got, err)
		}
		return nil
	})
}
