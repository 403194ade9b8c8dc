package geo

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/enginetest"
	"github.com/basaltdb/basalt/engine/set"
	"github.com/basaltdb/basalt/engine/zset"
)

var sicily = []Place{
	place("Palermo", 13.361389, 38.115556), place("Catania", 15.087269, 37.502669), place("Agrigento", 13.583333,
		37.316667),
	place("Enna", 14.279, 37.567), place("Messina", 15.554, 38.193),
}

func TestSearch(t *testing.T) {
	db := enginetest.Open(t)
	key := []byte("sicily")
	add(t, db, key, sicily...)
	around := Shape{Lon: 14.279, Lat: 37.567, Radius: 100, Unit: Kilometre}
	box := Shape{Lon: 14.279, Lat: 37.567, Box: true, Width: 300, Height: 60, Unit: Kilometre}
	for _, tt := range []struct {
		name string
		q    Query
		want string
	}{
		{"nearest first", Query{Shape: around, Order: Nearest}, "Enna Agrigento Catania"},
		{"furthest first", Query{Shape: around, Order: Furthest}, "Catania Agrigento Enna"},
		{"some of the nearest", Query{Shape: around, Order: Nearest, Count: 2}, "Enna Agrigento"},
		{"some of the furthest", Query{Shape: around, Order: Furthest, Count: 2}, "Catania Agrigento"},
		{"a count alone means the nearest", Query{Shape: around, Count: 1}, "Enna"},
		{"more than there are", Query{Shape: around, Count: 100, Order: Nearest}, "Enna Agrigento Catania"},
		{"any", Query{Shape: around, Count: 100, Any: true, Order: Nearest}, "Enna Agrigento Catania"},
		{"a box", Query{Shape: box, Order: Nearest}, "Enna Agrigento Catania"},
		{"a flat box", Query{Shape: Shape{Lon: 14.279, Lat: 37.567, Box: true, Width: 300, Height: 20,
			Unit: Kilometre}, Order: Nearest}, "Enna Catania"},
		{"a narrow box", Query{Shape: Shape{Lon: 14.279, Lat: 37.567, Box: true, Width: 130, Height: 300,
			Unit: Kilometre}, Order: Nearest}, "Enna Agrigento"},
		{"another unit", Query{Shape: Shape{Lon: 14.279, Lat: 37.567, Radius: 43, Unit: Mile}, Order: Nearest},
			"Enna Agrigento"},
		{"nothing", Query{Shape: Shape{Lon: 100, Lat: 0, Radius: 100, Unit: Kilometre}}, ""},
		{"everything", Query{Shape: Shape{Lon: 14.279, Lat: 37.567, Radius: math.Inf(1), Unit: Metre},
			Order: Nearest}, "Enna Agrigento Catania Palermo Messina"},
	} {
		view(t, db, key, func(tx *engine.Tx) error {
			got, err := names(tx, key, &tt.q)
			if strings.Join(got, " ") != tt.want {
				t.Errorf("%s: %v, want %s", tt.name, got, tt.want)
			}
			return err
		})
	}
	view(t, db, key, func(tx *engine.Tx) error {
		return Search(tx, key, &Query{Shape: around, Order: Furthest, Count: 1}, func(f *Found) {
			lon, lat := Position(Score(15.087269, 37.502669))
			d := Distance(around.Lon, around.Lat, lon, lat) / Kilometre
			if want := (Found{f.Member, Score(15.087269, 37.502669), lon, lat, d}); string(f.Member) != "Catania" ||
				fmt.Sprint(*f) != fmt.Sprint(want) {
				t.Errorf("%+v, want %+v", *f, want)
			}
		})
	})
}

func TestWrongTypes(t *testing.T) {
	db := enginetest.Open(t)
	key, dst := []byte("set"), []byte("dst")
	update(t, db, [][]byte{key, dst}, func(tx *engine.Tx) error {
		_, err := set.Add(tx, key, [][]byte{[]byte("a")})
		if err != nil {
			return err
		}
		q := Query{Shape: Shape{Radius: 1, Unit: Metre}}
		_, searchErr := names(tx, key, &q)
		_, storeErr := Store(tx, dst, key, &q, false)
		_, _, addErr := Add(tx, key, 0, sicily)
		_, _, distErr := DistanceOf(tx, key, key, key)
		_, _, _, posErr := PositionOf(tx, key, key)
		for i, err := range []error{searchErr, storeErr, addErr, distErr, posErr} {
			if err != engine.ErrWrongType {
				t.Errorf("%d: %v", i, err)
			}
		}
		return nil
	})
}

func TestStore(t *testing.T) {
	db := enginetest.Open(t)
	key, dst := []byte("sicily"), []byte("dst")
	keys := [][]byte{key, dst}
	add(t, db, key, sicily...)
	near := &Query{Shape: Shape{Lon: 14.279, Lat: 37.567, Radius: 100, Unit: Kilometre}}
	nowhere := &Query{Shape: Shape{Lon: 100, Lat: 0, Radius: 1, Unit: Metre}}
	check := func(dst []byte, q *Query, byDistance bool, want string) {
		t.Helper()
		update(t, db, keys, func(tx *engine.Tx) error {
			n, err := Store(tx, dst, key, q, byDistance)
			if err != nil {
				return err
			}
			var got []string
			err = zset.Range(tx, dst, &zset.Query{Stop: -1, Count: -1}, func(m []byte, score float64) {
				s := fmt.Sprintf("%s:%.0f", m, score)
				if byDistance {
					s = fmt.Sprintf("%s:%.4f", m, score)
				}
				got = append(got, s)
			})
			if text := strings.Join(got, " "); text != want || n != len(got) {
				t.Errorf("%d: %s, want %s", n, text, want)
			}
			return err
		})
	}
	check(dst, near, false, "Agrigento:3479030013248308 Enna:3479423986080125 Catania:3479447370796909")
	check(dst, near, true, "Enna:0.0000 Agrigento:67.4497 Catania:71.6476")
	check(dst, nowhere, false, "")
	update(t, db, keys, func(tx *engine.Tx) error {
		rec, err := tx.LoadAny(dst)
		if rec.Exists {
			t.Error("an empty result is there")
		}
		return err
	})
	check(key, near, true, "Enna:0.0000 Agrigento:67.4497 Catania:71.6476")
}

// searched is what a search must find, by going over everything.
func searched(all []Place, q *Query) map[string]bool {
	found := map[string]bool{}
	for _, p := range all {
		lon, lat := Position(Score(p.Lon, p.Lat))
		one := []point{{lon: lon, lat: lat}}
		if q.Shape.measure(one); !outside(one[0].distance) {
			found[string(p.Member)] = true
		}
	}
	return found
}

// TestModel compares searches with going over all members, while members are added, moved and removed, committed
// and not.
func TestModel(t *testing.T) {
	db := enginetest.Open(t)
	r := rand.New(rand.NewPCG(6, 1))
	key := []byte("g")
	where := map[string]Place{}
	some := func() Place {
		s := randomShape(r)
		if len(where) > 0 && r.IntN(3) > 0 { // near another one
			for _, p := range where {
				s.Lon, s.Lat = min(max(p.Lon+r.NormFloat64()*0.01, -150), 150), min(max(p.Lat+r.NormFloat64()*0.01, -60), 60)
				break
			}
		}
		return place(fmt.Sprintf("m%d", r.IntN(2000)), s.Lon, s.Lat)
	}
	for range 60 {
		update(t, db, [][]byte{key}, func(tx *engine.Tx) error {
			for range 30 {
				p := some()
				_, had := where[string(p.Member)]
				added, changed, err := Add(tx, key, 0, []Place{p})
				if err != nil {
					return err
				}
				if had && added != 0 || !had && (added != 1 || changed != 0) {
					t.Errorf("%d added, %d changed; it was there: %v", added, changed, had)
				}
				where[string(p.Member)] = p
			}
			for name := range where {
				delete(where, name)
				if n, err := zset.Remove(tx, key, [][]byte{[]byte(name)}); err != nil || n != 1 {
					return fmt.Errorf("remove: %d %w", n, err)
				}
				break
			}
			return compare(t, tx, r, key, where)
		})
		view(t, db, key, func(tx *engine.Tx) error { return compare(t, tx, r, key, where) })
	}
}

func compare(t *testing.T, tx *engine.Tx, r *rand.Rand, key []byte, where map[string]Place) error {
	var all []Place
	for _, p := range where {
		all = append(all, p)
	}
	slices.SortFunc(all, func(a, b Place) int { return strings.Compare(string(a.Member), string(b.Member)) })
	for range 5 {
		q := Query{Shape: randomShape(r), Order: Order(r.IntN(3))}
		p := all[r.IntN(len(all))]
		q.Shape.Lon, q.Shape.Lat = p.Lon, p.Lat
		want := searched(all, &q)
		if r.IntN(2) == 0 {
			q.Count, q.Any = 1+r.IntN(40), r.IntN(2) == 0
		}
		var last *Found
		seen := map[string]bool{}
		err := Search(tx, key, &q, func(f *Found) {
			name := string(f.Member)
			if !want[name] || seen[name] {
				t.Errorf("%+v: %s was found: inside %v, before %v", q, name, want[name], seen[name])
			}
			seen[name] = true
			order := q.Order
			if order == Unsorted && q.Count > 0 && !q.Any {
				order = Nearest
			}
			if last != nil && (order == Nearest && f.Distance < last.Distance || order == Furthest &&
				f.Distance > last.Distance) {
				t.Errorf("%+v: %v after %v", q, f.Distance, last.Distance)
			}
			again := *f
			last = &again
		})
		if err != nil {
			return err
		}
		n := len(want)
		if q.Count > 0 {
			n = min(n, q.Count)
		}
		if len(seen) != n {
			return fmt.Errorf("%+v: %d found, want %d", q, len(seen), n)
		}
	}
	return nil
}

// TestReadsOnlyTheCells puts records that cannot be read in front of and behind the cells of a search: it must not
// meet them, and a search that does says in which key they are.
func TestReadsOnlyTheCells(t *testing.T) {
	db := enginetest.Open(t)
	key := []byte("sicily")
	add(t, db, key, sicily...)
	q := Query{Shape: Shape{Lon: 14.279, Lat: 37.567, Radius: 100, Unit: Kilometre}, Order: Nearest}
	var lowest, highest float64 = math.Inf(1), 0
	for _, c := range q.Shape.cover(nil) {
		lo, hi := c.scores()
		lowest, highest = min(lowest, lo), max(highest, hi)
	}
	update(t, db, [][]byte{key}, func(tx *engine.Tx) error {
		rec, err := tx.Load(key, cf.TypeZSet)
		for _, score := range []float64{lowest, highest + (1 << 20)} {
			// before all keys of that score, and behind those of scores that are much lower
			short := cf.AppendDouble(nil, score)[:7]
			tx.Put(cf.ZSetScore, tx.Subkey(&rec, short), nil)
		}
		return err
	})
	view(t, db, key, func(tx *engine.Tx) error {
		got, err := names(tx, key, &q)
		if err == nil && strings.Join(got, " ") != "Enna Agrigento Catania" {
			err = fmt.Errorf("%q", got)
		}
		return err
	})
	err := db.View(ns, [][]byte{key}, func(tx *engine.Tx) error {
		_, err := names(tx, key, &Query{Shape: Shape{Lon: 14, Lat: 37, Radius: 20000, Unit: Kilometre}})
		return err
	})
	if !errors.Is(err, cf.ErrCorrupt) || !strings.Contains(err.Error(), `key "sicily"`) {
		t.Errorf("a search that meets the records: %v", err)
	}
}

func TestCorruptScores(t *testing.T) {
	db := enginetest.Open(t)
	key, member := []byte("sicily"), []byte("Enna")
	add(t, db, key, sicily...)
	update(t, db, [][]byte{key}, func(tx *engine.Tx) error {
		rec, err := tx.Load(key, cf.TypeZSet)
		tx.Put(cf.Default, tx.Subkey(&rec, member), []byte("short"))
		return err
	})
	for name, f := range map[string]func(tx *engine.Tx) error{
		"Scores":     func(tx *engine.Tx) error { return Scores(tx, key, [][]byte{member}, func(float64, bool) {}) },
		"PositionOf": func(tx *engine.Tx) error { _, _, _, err := PositionOf(tx, key, member); return err },
		"DistanceOf": func(tx *engine.Tx) error { _, _, err := DistanceOf(tx, key, member, member); return err },
		"Add":        func(tx *engine.Tx) error { _, _, err := Add(tx, key, 0, sicily); return err },
	} {
		err := db.Update(ns, [][]byte{key}, f)
		if !errors.Is(err, cf.ErrCorrupt) || !strings.Contains(err.Error(), `key "sicily"`) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// What partialSort puts to the front is what sorting everything does.
func TestPartialSort(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 1))
	for range 2000 {
		points := make([]point, 1+r.IntN(200))
		for i := range points {
			points[i] = point{distance: float64(r.IntN(1 + r.IntN(300))), seq: i}
		}
		want := slices.Clone(points)
		slices.SortFunc(want, func(a, b point) int { return cmp.Compare(a.distance, b.distance) })
		n := 1 + r.IntN(len(points))
		partialSort(points, n, func(a, b *point) int { return cmp.Compare(a.distance, b.distance) })
		seen := map[int]bool{}
		for i, p := range points {
			if i < n && p.distance != want[i].distance {
				t.Fatalf("%d of %d: %v at %d, want %v", n, len(points), p.distance, i, want[i].distance)
			}
			seen[p.seq] = true
		}
		if len(seen) != len(points) {
			t.Fatalf("%d of %d points are left", len(seen), len(points))
		}
	}
}
