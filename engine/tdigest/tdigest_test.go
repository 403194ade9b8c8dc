package tdigest_test

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/enginetest"
	"github.com/basaltdb/basalt/engine/tdigest"
	"github.com/basaltdb/basalt/internal/require"
)

const ns = cf.DefaultNamespace

func update(t testing.TB, db *engine.DB, key []byte, f func(tx *engine.Tx) error) {
	t.Helper()
	require.NoError(t, db.Update(ns, [][]byte{key, []byte("other")}, f))
}

func create(key []byte, compression uint32) func(tx *engine.Tx) error {
	return func(tx *engine.Tx) error { return tdigest.Create(tx, key, compression) }
}

func adding(key []byte, values ...float64) func(tx *engine.Tx) error {
	return func(tx *engine.Tx) error {
		d, err := tdigest.Open(tx, key)
		if err != nil {
			return err
		}
		return d.Add(values)
	}
}

// look returns the metadata of a t-digest and what it knows.
func look(t testing.TB, db *engine.DB, key []byte) (m cf.TDigestMeta, s *tdigest.Sketch) {
	t.Helper()
	require.NoError(t, db.View(ns, [][]byte{key}, func(tx *engine.Tx) error {
		d, err := tdigest.Open(tx, key)
		if err != nil {
			return err
		}
		m = d.Meta
		s, err = d.Sketch()
		return err
	}))
	return m, s
}

// numbers are from, from+1, ... before to.
func numbers(from, to int) (list []float64) {
	for i := from; i < to; i++ {
		list = append(list, float64(i))
	}
	return list
}

func TestAdd(t *testing.T) {
	db := enginetest.Open(t)
	key := []byte("d")
	update(t, db, key, func(tx *engine.Tx) error {
		if _, err := tdigest.Open(tx, key); !errors.Is(err, tdigest.ErrNotFound) {
			t.Errorf("without the key: %v", err)
		}
		return nil
	})
	update(t, db, key, create(key, 100))
	update(t, db, key, func(tx *engine.Tx) error {
		if err := tdigest.Create(tx, key, 100); !errors.Is(err, tdigest.ErrExists) {
			t.Errorf("created again: %v", err)
		}
		return nil
	})
	want := cf.NewTDigestMeta(100, 610)
	check := func(merged bool, min, max, p50 float64) {
		t.Helper()
		got, s := look(t, db, key)
		if merged {
			if got.Merged == 0 || got.Merged > 110 {
				t.Errorf("%d centroids", got.Merged)
			}
			want.Merged = got.Merged
		}
		if got != want {
			t.Errorf("%+v\nwant %+v", got, want)
		}
		if s.Weight() != float64(want.TotalWeight) || s.Quantile(0) != min || s.Quantile(1) != max ||
			math.Abs(s.Quantile(0.5)-p50) > 0.01*math.Abs(p50)+1 {
			t.Errorf("weight %v, from %v by %v to %v, want %d, %v, %v, %v", s.Weight(), s.Quantile(0),
				s.Quantile(0.5), s.Quantile(1), want.TotalWeight, min, p50, max)
		}
	}
	update(t, db, key, adding(key, numbers(0, 600)...))
	want.Unmerged, want.TotalWeight, want.Observations, want.Min, want.Max = 600, 600, 600, 0, 599
	check(false, 0, 599, 300)
	update(t, db, key, adding(key, numbers(-10, 0)...))
	want.Unmerged, want.TotalWeight, want.Observations, want.Min = 610, 610, 610, -10
	check(false, -10, 599, 295)
	update(t, db, key, adding(key, 600))
	want.Unmerged, want.TotalWeight, want.Observations, want.Max, want.Merges, want.MergedWeight = 0, 611, 611, 600, 1, 611
	check(true, -10, 600, 295)
	update(t, db, key, adding(key, 601, 602))
	want.Unmerged, want.TotalWeight, want.Observations, want.Max = 2, 613, 613, 602
	check(false, -10, 602, 296)
	update(t, db, key, adding(key, numbers(1000, 6000)...))
	want.Unmerged, want.TotalWeight, want.Observations, want.Max, want.Merges, want.MergedWeight = 0, 5613, 5613, 5999, 2,
		5613
	check(true, -10, 5999, 3193)
	update(t, db, key, func(tx *engine.Tx) error {
		d, err := tdigest.Open(tx, key)
		d.Reset()
		return err
	})
	want = cf.NewTDigestMeta(100, 610)
	if got, s := look(t, db, key); got != want || s.Weight() != 0 || !math.IsNaN(s.Min()) {
		t.Errorf("after the reset: %+v, weight %v", got, s.Weight())
	}
	update(t, db, key, adding(key, 5))
	want.Unmerged, want.TotalWeight, want.Observations, want.Min, want.Max = 1, 1, 1, 5, 5
	check(false, 5, 5, 5)
}

func TestMerge(t *testing.T) {
	a, b, c, to := []byte("a"), []byte("b"), []byte("c"), []byte("to")
	for _, tt := range []struct {
		name        string
		sources     [][]byte
		o           tdigest.MergeOptions
		exists      bool // the destination does, with 100 observations of 7 and compression 50
		weight      uint64
		compression uint32
		min, max    float64
	}{
		{"one", [][]byte{a}, tdigest.MergeOptions{}, false, 1000, 100, 0, 999},
		{"an empty one", [][]byte{c}, tdigest.MergeOptions{}, false, 0, 20, math.MaxFloat64, -math.MaxFloat64},
		{"all", [][]byte{a, b, c}, tdigest.MergeOptions{}, false, 1010, 300, -10, 999},
		{"one twice", [][]byte{b, b}, tdigest.MergeOptions{}, false, 20, 300, -10, -1},
		{"into another", [][]byte{a, b}, tdigest.MergeOptions{}, true, 1110, 50, -10, 999},
		{"override", [][]byte{a, b}, tdigest.MergeOptions{Override: true}, true, 1010, 300, -10, 999},
		{"compression", [][]byte{a, b}, tdigest.MergeOptions{Compression: 30}, true, 1110, 30, -10, 999},
		{"override with compression", [][]byte{b}, tdigest.MergeOptions{Override: true, Compression: 30}, true, 10,
			30, -10, -1},
		{"itself", [][]byte{to}, tdigest.MergeOptions{}, true, 200, 50, 7, 7},
		{"itself, override", [][]byte{to}, tdigest.MergeOptions{Override: true}, true, 100, 50, 7, 7},
	} {
		t.Run(tt.name, func(t *testing.T) {
			db := enginetest.Open(t)
			keys := [][]byte{a, b, c, to}
			err := db.Update(ns, keys, func(tx *engine.Tx) error {
				err := errors.Join(tdigest.Create(tx, a, 100), tdigest.Create(tx, b, 300), tdigest.Create(tx, c, 20),
					adding(a, numbers(0, 1000)...)(tx), adding(b, numbers(-10, 0)...)(tx))
				if tt.exists {
					err = errors.Join(err, tdigest.Create(tx, to, 50), adding(to, slices.Repeat([]float64{7}, 100)...)(tx))
				}
				return err
			})
			if err == nil {
				err = db.Update(ns, keys, func(tx *engine.Tx) error { return tdigest.Merge(tx, to, tt.sources, tt.o) })
			}
			require.NoError(t, err)
			m, s := look(t, db, to)
			if m.TotalWeight != tt.weight || m.MergedWeight != tt.weight || m.Observations != tt.weight ||
				m.Unmerged != 0 || m.Compression != tt.compression ||
				m.Min != tt.min || m.Max != tt.max || s.Weight() != float64(tt.weight) {
				t.Errorf("%+v, weight %v", m, s.Weight())
			}
			for _, key := range [][]byte{a, b, c} {
				if m, _ := look(t, db, key); m.TotalWeight != map[string]uint64{"a": 1000, "b": 10, "c": 0}[string(key)] {
					t.Errorf("the source %s has changed: %+v", key, m)
				}
			}
		})
	}
}

func TestMergeErrors(t *testing.T) {
	db := enginetest.Open(t)
	a, to := []byte("a"), []byte("to")
	update(t, db, a, func(tx *engine.Tx) error {
		if err := tdigest.Merge(tx, to, [][]byte{a}, tdigest.MergeOptions{}); !errors.Is(err, tdigest.ErrNotFound) {
			t.Errorf("missing source: %v", err)
		}
		if err := tdigest.Create(tx, a, 100); err != nil {
			return err
		}
		if err := adding(a, 1)(tx); err != nil {
			return err
		}
		for range 62 { // doubles what it has
			if err := tdigest.Merge(tx, a, [][]byte{a}, tdigest.MergeOptions{}); err != nil {
				return err
			}
		}
		if err := tdigest.Merge(tx, a, [][]byte{a}, tdigest.MergeOptions{}); !errors.Is(err, tdigest.ErrOverflow) {
			t.Errorf("too many observations: %v", err)
		}
		if err := adding(a, 1)(tx); !errors.Is(err, tdigest.ErrOverflow) {
			t.Errorf("one too many: %v", err)
		}
		return nil
	})
	if m, s := look(t, db, a); m.TotalWeight != 1<<62 || s.Rank(2) != 1<<62 {
		t.Errorf("%+v, rank %d", m, s.Rank(2))
	}
}

// TestModel adds in steps of all sizes, rolls some back, and compares with the sorted observations.
func TestModel(t *testing.T) {
	db := enginetest.Open(t)
	key := []byte("d")
	r := rand.New(rand.NewPCG(1, 2))
	var all []float64
	update(t, db, key, create(key, 200))
	for range 100 {
		update(t, db, key, func(tx *engine.Tx) error {
			for range 1 + r.IntN(5) {
				var values []float64
				for range 1 + r.IntN(1+r.IntN(2000)) {
					values = append(values, r.NormFloat64())
				}
				mark := tx.Savepoint()
				if err := adding(key, values...)(tx); err != nil {
					return err
				}
				if r.IntN(4) == 0 {
					if err := tx.Rollback(mark); err != nil {
						return err
					}
					continue
				}
				all = append(all, values...)
			}
			return nil
		})
	}
	slices.Sort(all)
	n := float64(len(all))
	m, s := look(t, db, key)
	if m.TotalWeight != uint64(len(all)) || m.Min != all[0] || m.Max != all[len(all)-1] || m.Merges == 0 ||
		m.MergedWeight+m.Unmerged != m.TotalWeight {
		t.Errorf("%+v, %d observations from %v to %v", m, len(all), all[0], all[len(all)-1])
	}
	for q := 0.0; q <= 1; q += 0.01 {
		v := s.Quantile(q)
		at, _ := slices.BinarySearch(all, v)
		if math.Abs(float64(at)/n-q) > 0.01 {
			t.Errorf("p%g is %v, at %g", q*100, v, float64(at)/n)
		}
		if rank := s.Rank(v); math.Abs(float64(rank)-float64(at)) > 0.01*n {
			t.Errorf("the rank of %v is %d, not %d", v, rank, at)
		}
		if c := s.CDF(v); math.Abs(c-q) > 0.01 {
			t.Errorf("the fraction below %v is %v, not %v", v, c, q)
		}
	}
}

func TestWrongTypeAndExpiry(t *testing.T) {
	db := enginetest.Open(t)
	key, other := []byte("s"), []byte("other")
	update(t, db, key, func(tx *engine.Tx) error {
		rec := tx.Fresh(key, cf.TypeString)
		tx.SaveAppend(&rec, []byte("v"))
		return tdigest.Create(tx, other, 100)
	})
	update(t, db, key, func(tx *engine.Tx) error {
		_, open := tdigest.Open(tx, key)
		for what, err := range map[string]error{
			"open": open, "create": tdigest.Create(tx, key, 100),
			"merge from": tdigest.Merge(tx, other, [][]byte{key}, tdigest.MergeOptions{}),
			"merge into": tdigest.Merge(tx, key, [][]byte{other}, tdigest.MergeOptions{}),
		} {
			if !errors.Is(err, engine.ErrWrongType) {
				t.Errorf("%s: %v", what, err)
			}
		}
		rec, err := tx.Load(other, cf.TypeTDigest)
		rec.Expire = uint64(tx.Now()) - 1
		tx.SaveAppend(&rec, rec.Tail)
		return err
	})
	update(t, db, key, func(tx *engine.Tx) error {
		if _, err := tdigest.Open(tx, other); !errors.Is(err, tdigest.ErrNotFound) {
			t.Errorf("expired: %v", err)
		}
		return tdigest.Create(tx, other, 100)
	})
}

func TestCorrupt(t *testing.T) {
	db := enginetest.Open(t)
	key := []byte("d\x00\xff")
	update(t, db, key, create(key, 100))
	update(t, db, key, adding(key, numbers(0, 700)...))
	update(t, db, key, adding(key, 1, 2, 3))
	nan, inf := math.NaN(), math.Inf(1)
	put := func(sub, value []byte) func(tx *engine.Tx, rec *engine.Record) {
		return func(tx *engine.Tx, rec *engine.Record) { tx.Put(cf.Default, tx.Subkey(rec, sub), value) }
	}
	meta := func(change func(m *cf.TDigestMeta)) func(tx *engine.Tx, rec *engine.Record) {
		return func(tx *engine.Tx, rec *engine.Record) {
			m, err := cf.DecodeTDigestMeta(rec.Tail)
			require.NoError(t, err)
			change(&m)
			tx.Save(rec, m.Append(nil))
		}
	}
	one := cf.AppendDouble(nil, 1)
	for name, f := range map[string]func(tx *engine.Tx, rec *engine.Record){
		"tail":                 func(tx *engine.Tx, rec *engine.Record) { tx.Save(rec, rec.Tail[:71]) },
		"one centroid less":    meta(func(m *cf.TDigestMeta) { m.Merged++ }),
		"one centroid more":    meta(func(m *cf.TDigestMeta) { m.Merged-- }),
		"endless centroids":    meta(func(m *cf.TDigestMeta) { m.Merged = math.MaxUint64 }),
		"endless buffer":       meta(func(m *cf.TDigestMeta) { m.Unmerged = math.MaxUint64 }),
		"one observation less": meta(func(m *cf.TDigestMeta) { m.Unmerged++ }),
		"endless weight":       meta(func(m *cf.TDigestMeta) { m.TotalWeight = math.MaxUint64 }),
		"minimum not a number": meta(func(m *cf.TDigestMeta) { m.Min = nan }),
		"maximum not a number": meta(func(m *cf.TDigestMeta) { m.Max = nan }),
		"minimum over maximum": meta(func(m *cf.TDigestMeta) { m.Min = 1e9 }),
		"buffer gone": func(tx *engine.Tx, rec *engine.Record) {
			tx.Delete(cf.Default,
				tx.Subkey(rec, []byte{0}))
		},
		"infinite observation":   put([]byte{0}, slices.Concat(one, cf.AppendDouble(nil, inf), one)),
		"another kind of record": put([]byte{2}, one),
		"subkey cut off":         put([]byte{1, 0x80, 0}, one),
		"mean not a number":      put(cf.AppendTDigestCentroidSub(nil, nan, 0), one),
		"weight missing":         put(cf.AppendTDigestCentroidSub(nil, 5, 0), nil),
		"weight 0":               put(cf.AppendTDigestCentroidSub(nil, 5, 0), cf.AppendDouble(nil, 0)),
		"weight not a number":    put(cf.AppendTDigestCentroidSub(nil, 5, 0), cf.AppendDouble(nil, nan)),
	} {
		dropped := errors.New("dropped")
		err := db.Update(ns, [][]byte{key}, func(tx *engine.Tx) error {
			rec, err := tx.Load(key, cf.TypeTDigest)
			if err != nil {
				return err
			}
			f(tx, &rec)
			for what, use := range map[string]func() error{
				"sketch": func() error {
					d, err := tdigest.Open(tx, key)
					if err == nil {
						_, err = d.Sketch()
					}
					return err
				},
				"add":   func() error { return adding(key, numbers(0, 610)...)(tx) },
				"merge": func() error { return tdigest.Merge(tx, []byte("other"), [][]byte{key}, tdigest.MergeOptions{}) },
			} {
				mark := tx.Savepoint()
				if err := use(); !errors.Is(err, cf.ErrCorrupt) || !strings.HasPrefix(err.Error(), `key "d\x00\xff": `) {
					t.Errorf("%s, %s: %v", name, what, err)
				}
				if tx.Wrote(mark) {
					t.Errorf("%s, %s: something was written before the error", name, what)
				}
			}
			return dropped
		})
		if !errors.Is(err, dropped) {
			t.Fatal(err)
		}
	}
}
