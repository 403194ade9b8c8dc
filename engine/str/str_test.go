package str_test

import (
	"bytes"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/enginetest"
	"github.com/basaltdb/basalt/engine/keys"
	"github.com/basaltdb/basalt/engine/str"
	"github.com/basaltdb/basalt/internal/require"
)

const (
	ns    = cf.DefaultNamespace
	limit = 1 << 20
)

var list = enginetest.Bytes

// update runs f in a transaction that has the lock of the key k.
func update(t testing.TB, db *engine.DB, f func(tx *engine.Tx) error) {
	t.Helper()
	require.NoError(t, db.Update(ns, list("k"), f))
}

// value returns what is at k: "-" when there is nothing, with @ and the expiry when it has one.
func value(t testing.TB, db *engine.DB) (text string) {
	t.Helper()
	require.NoError(t, db.View(ns, list("k"), func(tx *engine.Tx) error {
		rec, err := tx.LoadAny([]byte("k"))
		switch {
		case !rec.Exists:
			text = "-"
		case rec.Type != cf.TypeString:
			text = rec.Type.String()
		case rec.Expire != 0:
			text = string(rec.Tail) + "@"
		default:
			text = string(rec.Tail)
		}
		return err
	}))
	return text
}

// clearKey deletes k.
func clearKey(t testing.TB, db *engine.DB) {
	t.Helper()
	update(t, db, func(tx *engine.Tx) error {
		rec, err := tx.LoadAny([]byte("k"))
		tx.Drop(&rec)
		return err
	})
}

// setHash makes k a hash with one field.
func setHash(t testing.TB, db *engine.DB) {
	t.Helper()
	update(t, db, func(tx *engine.Tx) error {
		rec := tx.Fresh([]byte("k"), cf.TypeHash)
		tx.Put(cf.Default, tx.Subkey(&rec, []byte("f")), []byte("v"))
		rec.Size = 1
		tx.SaveAppend(&rec, nil)
		return nil
	})
}

func TestSet(t *testing.T) {
	const later = math.MaxInt64
	db := enginetest.Open(t)
	for _, tt := range []struct {
		name   string
		before string // "" = no key, "hash" = a hash, ...@ = with an expiry
		o      str.SetOptions
		done   bool
		old    string // "-" = none
		after  string
		err    error
	}{
		{name: "new", done: true, old: "-", after: "v"},
		{name: "over", before: "old", done: true, old: "-", after: "v"},
		{name: "over a hash", before: "hash", done: true, old: "-", after: "v"},
		{name: "takes off the expiry", before: "old@", done: true, old: "-", after: "v"},
		{name: "keeps the expiry", before: "old@", o: str.SetOptions{KeepTTL: true}, done: true, old: "-", after: "v@"},
		{name: "keeps none", before: "old", o: str.SetOptions{KeepTTL: true}, done: true, old: "-", after: "v"},
		{name: "expiry", before: "old", o: str.SetOptions{Expire: later}, done: true, old: "-", after: "v@"},
		{name: "expiry passed", before: "old", o: str.SetOptions{Expire: 1}, done: true, old: "-", after: "-"},
		{name: "expiry passed, new", o: str.SetOptions{Expire: 1}, done: true, old: "-", after: "-"},
		{name: "missing", o: str.SetOptions{IfMissing: true}, done: true, old: "-", after: "v"},
		{name: "not missing", before: "old", o: str.SetOptions{IfMissing: true}, old: "-", after: "old"},
		{name: "not missing, a hash", before: "hash", o: str.SetOptions{IfMissing: true}, old: "-", after: "hash"},
		{name: "there", before: "old", o: str.SetOptions{IfExists: true}, done: true, old: "-", after: "v"},
		{name: "not there", o: str.SetOptions{IfExists: true}, old: "-", after: "-"},
		{name: "get", before: "old", o: str.SetOptions{Get: true}, done: true, old: "old", after: "v"},
		{name: "get nothing", o: str.SetOptions{Get: true}, done: true, old: "-", after: "v"},
		{name: "get without set", before: "old", o: str.SetOptions{Get: true, IfMissing: true}, old: "old", after: "old"},
		{name: "get a hash", before: "hash", o: str.SetOptions{Get: true}, old: "-", after: "hash", err: engine.ErrWrongType},
	} {
		t.Run(tt.name, func(t *testing.T) {
			clearKey(t, db)
			switch {
			case tt.before == "hash":
				setHash(t, db)
			case tt.before != "":
				text, hasTTL := strings.CutSuffix(tt.before, "@")
				var o str.SetOptions
				if hasTTL {
					o.Expire = later - 1
				}
				update(t, db, func(tx *engine.Tx) error {
					_, err := str.Set(tx, []byte("k"), []byte(text), o)
					return err
				})
			}
			err := db.Update(ns, list("k"), func(tx *engine.Tx) error {
				res, err := str.Set(tx, []byte("k"), []byte("v"), tt.o)
				old := "-"
				if res.Existed {
					old = string(res.Old)
				}
				if res.Done != tt.done || old != tt.old {
					t.Errorf("done %v, old %q", res.Done, old)
				}
				return err
			})
			if !errors.Is(err, tt.err) {
				t.Errorf("error %v", err)
			}
			if got := value(t, db); got != tt.after {
				t.Errorf("the key holds %q, want %q", got, tt.after)
			}
		})
	}
}

// TestForm: a record in the old form keeps it when its value changes, and gets the new one when it is replaced.
func TestForm(t *testing.T) {
	db := enginetest.Open(t)
	for _, tt := range []struct {
		name   string
		narrow bool
		change func(tx *engine.Tx, key []byte) error
	}{
		{"append", true, func(tx *engine.Tx, key []byte) error {
			_, err := str.Append(tx, key, []byte("1"),
				limit)
			return err
		}},
		{"setrange", true, func(tx *engine.Tx, key []byte) error {
			_, err := str.SetRange(tx, key, 0, []byte("7"), limit)
			return err
		}},
		{"incr", true, func(tx *engine.Tx, key []byte) error { _, err := str.IncrBy(tx, key, 1); return err }},
		{"incrbyfloat", true, func(tx *engine.Tx, key []byte) error {
			_, err := str.IncrByFloat(tx, key, []byte("1"))
			return err
		}},
		{"set", false, func(tx *engine.Tx, key []byte) error {
			_, err := str.Set(tx, key, []byte("5"), str.SetOptions{})
			return err
		}},
		{"keepttl", false, func(tx *engine.Tx, key []byte) error {
			_, err := str.Set(tx, key, []byte("5"), str.SetOptions{KeepTTL: true})
			return err
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			update(t, db, func(tx *engine.Tx) error {
				rec := tx.Fresh([]byte("k"), cf.TypeString)
				rec.Narrow = true
				tx.SaveAppend(&rec, []byte("10"))
				return nil
			})
			update(t, db, func(tx *engine.Tx) error { return tt.change(tx, []byte("k")) })
			update(t, db, func(tx *engine.Tx) error {
				rec, err := tx.Load([]byte("k"), cf.TypeString)
				if rec.Narrow != tt.narrow || !rec.Exists {
					t.Errorf("narrow %v, exists %v", rec.Narrow, rec.Exists)
				}
				return err
			})
		})
	}
}

func TestIncrByLimits(t *testing.T) {
	db := enginetest.Open(t)
	for _, tt := range []struct {
		value string
		by    int64
		want  string
		err   error
	}{
		{"0", 0, "0", nil},
		{"-1", 1, "0", nil},
		{"9223372036854775806", 1, "9223372036854775807", nil},
		{"9223372036854775807", 1, "", str.ErrOverflow},
		{"9223372036854775807", math.MinInt64, "-1", nil},
		{"-9223372036854775808", 0, "-9223372036854775808", nil},
		{"-9223372036854775808", -1, "", str.ErrOverflow},
		{"-1", math.MinInt64, "", str.ErrOverflow},
		{"0", math.MinInt64, "-9223372036854775808", nil},
		{"9223372036854775808", 0, "", str.ErrNotInteger},
		{"-9223372036854775809", 0, "", str.ErrNotInteger},
		{"99999999999999999999999", 0, "", str.ErrNotInteger},
		{"", 1, "", str.ErrNotInteger},
		{"-", 1, "", str.ErrNotInteger},
		{"-0", 1, "", str.ErrNotInteger},
		{"01", 1, "", str.ErrNotInteger},
		{"+1", 1, "", str.ErrNotInteger},
		{"1 ", 1, "", str.ErrNotInteger},
		{"1a", 1, "", str.ErrNotInteger},
	} {
		update(t, db, func(tx *engine.Tx) error {
			_, err := str.Set(tx, []byte("k"), []byte(tt.value), str.SetOptions{})
			return err
		})
		err := db.Update(ns, list("k"), func(tx *engine.Tx) error {
			_, err := str.IncrBy(tx, []byte("k"), tt.by)
			return err
		})
		want := tt.want
		if tt.err != nil {
			want = tt.value
		}
		if got := value(t, db); !errors.Is(err, tt.err) || got != want {
			t.Errorf("%q + %d: %q, %v", tt.value, tt.by, got, err)
		}
	}
}

func TestLengthLimit(t *testing.T) {
	db := enginetest.Open(t)
	const most = 600
	for _, tt := range []struct {
		name string
		f    func(tx *engine.Tx, key []byte) (int, error)
		n    int
		err  error
	}{
		{"append up to it", func(tx *engine.Tx, key []byte) (int, error) {
			return str.Append(tx, key, bytes.Repeat([]byte{'x'}, most-3), most)
		}, most, nil},
		{"append beyond it", func(tx *engine.Tx, key []byte) (int, error) {
			return str.Append(tx, key, bytes.Repeat([]byte{'x'}, most-2), most)
		}, 0, str.ErrTooLong},
		{"set range up to it", func(tx *engine.Tx, key []byte) (int, error) {
			return str.SetRange(tx, key, most-2,
				[]byte("xy"), most)
		}, most, nil},
		{"set range beyond it", func(tx *engine.Tx, key []byte) (int, error) {
			return str.SetRange(tx, key, most-1,
				[]byte("xy"), most)
		}, 0, str.ErrTooLong},
		{"set range far beyond it", func(tx *engine.Tx, key []byte) (int, error) {
			return str.SetRange(tx, key, math.MaxInt64, []byte("xy"), most)
		}, 0, str.ErrTooLong},
		{"set range of nothing", func(tx *engine.Tx, key []byte) (int,
			error) {
			return str.SetRange(tx, key, math.MaxInt64, nil, most)
		}, 3, nil},
	} {
		update(t, db, func(tx *engine.Tx) error {
			_, err := str.Set(tx, []byte("k"), []byte("abc"), str.SetOptions{})
			return err
		})
		err := db.Update(ns, list("k"), func(tx *engine.Tx) error {
			n, err := tt.f(tx, []byte("k"))
			if n != tt.n {
				t.Errorf("%s: length %d", tt.name, n)
			}
			return err
		})
		want := max(tt.n, 3)
		if got := value(t, db); !errors.Is(err, tt.err) || len(got) != want || !strings.HasPrefix(got, "abc") {
			t.Errorf("%s: %v, %d bytes", tt.name, err, len(got))
		}
	}
}

func TestCompare(t *testing.T) {
	db := enginetest.Open(t)
	run := func(f func(tx *engine.Tx, key []byte) (str.Match, error)) (m str.Match) {
		t.Helper()
		update(t, db, func(tx *engine.Tx) (err error) {
			m, err = f(tx, []byte("k"))
			return err
		})
		return m
	}
	cas := func(old, value string, expire int64) str.Match {
		t.Helper()
		return run(func(tx *engine.Tx, key []byte) (str.Match, error) {
			return str.CompareAndSet(tx, key, []byte(old), []byte(value), expire)
		})
	}
	cad := func(old string) str.Match {
		t.Helper()
		return run(func(tx *engine.Tx, key []byte) (str.Match, error) {
			return str.CompareAndDelete(tx, key, []byte(old))
		})
	}
	check := func(got, want str.Match, text string) {
		t.Helper()
		if v := value(t, db); got != want || v != text {
			t.Errorf("%d, %q; want %d, %q", got, v, want, text)
		}
	}
	check(cas("", "v", 0), str.Missing, "-")
	check(cad(""), str.Missing, "-")
	update(t, db, func(tx *engine.Tx) error {
		_, err := str.Set(tx, []byte("k"), []byte("a"), str.SetOptions{Expire: math.MaxInt64})
		return err
	})
	check(cas("b", "c", 0), str.Differs, "a@")
	check(cad("b"), str.Differs, "a@")
	check(cas("a", "b", 0), str.Equal, "b") // the expiry goes
	check(cas("b", "c", math.MaxInt64), str.Equal, "c@")
	check(cad("c"), str.Equal, "-")
	update(t, db, func(tx *engine.Tx) error { str.MSet(tx, list("k", "x")); return nil })
	check(cas("x", "y", 1), str.Equal, "-")
}

// TestBatches: the write batches are those of Kvrocks, log data included.
func TestBatches(t *testing.T) {
	db := enginetest.Open(t)
	for _, tt := range []struct {
		name string
		f    func(tx *engine.Tx) error
		want string
	}{
		{"set", func(tx *engine.Tx) error {
			_, err := str.Set(tx, []byte("k"), []byte("1"), str.SetOptions{})
			return err
		}, "log 1, put metadata k"},
		{"append", func(tx *engine.Tx) error {
			_, err := str.Append(tx, []byte("k"), []byte("1"),
				limit)
			return err
		}, "log 1, put metadata k"},
		{"incr", func(tx *engine.Tx) error { _, err := str.IncrBy(tx, []byte("k"), 1); return err }, "log 1, put metadata k"},
		{"mset", func(tx *engine.Tx) error { str.MSet(tx, list("k", "1", "j", "2")); return nil },
			"log 1, put metadata k, put metadata j"},
		{"getdel", func(tx *engine.Tx) error { _, _, err := str.GetDel(tx, []byte("k")); return err }, "delete metadata k"},
		{"cad", func(tx *engine.Tx) error {
			_, err := str.CompareAndDelete(tx, []byte("j"), []byte("2"))
			return err
		}, "delete metadata j"},
	} {
		seq := db.LatestSequence()
		require.NoError(t, db.Update(ns, list("k", "j"), tt.f))
		if got := enginetest.LastBatch(t, db, seq+1); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
}

// TestAllocations: the hot functions do not allocate.
func TestAllocations(t *testing.T) {
	db := enginetest.Open(t)
	tx := db.NewTx()
	key, val := []byte("k"), []byte("12345")
	for name, f := range map[string]func() error{
		"get":    func() error { _, _, err := str.Get(tx, key); return err },
		"set":    func() error { _, err := str.Set(tx, key, val, str.SetOptions{}); return err },
		"incr":   func() error { _, err := str.IncrBy(tx, key, 1); return err },
		"append": func() error { _, err := str.Append(tx, key, val[:0], limit); return err },
	} {
		n := testing.AllocsPerRun(100, func() {
			tx.Begin(ns)
			require.NoError(t, f())
			tx.Release()
		})
		if n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}

// TestPartsOfLongValue: the length and the ranges of a value of which only a part is read.
func TestPartsOfLongValue(t *testing.T) {
	db := enginetest.Open(t)
	key := []byte("k")
	value := bytes.Repeat([]byte("abcdefghijk"), 20_000)
	n := int64(len(value))
	update := func(f func(tx *engine.Tx) error) {
		t.Helper()
		require.NoError(t, db.Update("", [][]byte{key}, f))
	}
	update(func(tx *engine.Tx) error {
		_, err := str.Set(tx, key, value, str.SetOptions{})
		return err
	})
	for _, r := range [][2]int64{{0, 0}, {0, 10}, {n - 5, n - 1}, {-5, -1}, {n / 2, n/2 + 3}, {0, -1},
		{-1 << 62, 1 << 62}, {5, 4}, {-1, -5}, {n, n + 5}, {-n, -n}} {
		update(func(tx *engine.Tx) error {
			if got, err := str.Len(tx, key); err != nil || got != len(value) {
				t.Errorf("length %d, %v", got, err)
			}
			begin, end := r[0], r[1]
			if begin < 0 {
				begin = max(begin+n, 0)
			}
			if end < 0 {
				end = max(end+n, 0)
			}
			end = min(end, n-1)
			var want []byte
			if begin <= end {
				want = value[begin : end+1]
			}
			got, err := str.Range(tx, key, r[0], r[1])
			if err != nil || !bytes.Equal(got, want) {
				t.Errorf("from %d to %d: %d bytes, want %d, %v", r[0], r[1], len(got), len(want), err)
			}
			return nil
		})
	}
}

// TestCountingWritesOnce: what one transaction counts up many times is one record, behind what else was written to
// the key.
func TestCountingWritesOnce(t *testing.T) {
	db := enginetest.Open(t)
	k := []byte("k")
	incr := func(tx *engine.Tx, by int64, want int64) {
		t.Helper()
		if n, err := str.IncrBy(tx, k, by); n != want || err != nil {
			t.Errorf("%d, %v, want %d", n, err, want)
		}
	}
	seq := db.LatestSequence()
	update(t, db, func(tx *engine.Tx) error {
		str.MSet(tx, [][]byte{k, []byte("10")})
		incr(tx, 1, 11)
		incr(tx, 1, 12)
		if _, err := keys.Expire(tx, k, math.MaxInt64/2, 0); err != nil {
			return err
		}
		incr(tx, 1, 13)
		incr(tx, 1, 14)
		outer := tx.Savepoint()
		mark := tx.SavepointIn(outer)
		incr(tx, 1, 15)
		if !tx.Wrote(mark) {
			t.Error("it has written nothing")
		}
		mark = tx.SavepointIn(outer)
		incr(tx, 1, 16)
		if err := tx.Rollback(mark); err != nil {
			return err
		}
		incr(tx, 2, 17)
		if err := tx.Rollback(outer); err != nil {
			return err
		}
		incr(tx, 2, 16)
		incr(tx, 100, 116)
		return nil
	})
	const set = "log 1, put metadata k"
	// what was undone is forgotten
	want := strings.Join([]string{set, set, "log 0 8, put metadata k", set, set, set}, ", ")
	if got := enginetest.LastBatch(t, db, seq+1); got != want {
		t.Errorf("the batch is %s, want %s", got, want)
	}
	update(t, db, func(tx *engine.Tx) error {
		incr(tx, 0, 116)
		return nil
	})
}
