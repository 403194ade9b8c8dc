package json_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/enginetest"
	"github.com/basaltdb/basalt/engine/json"
	"github.com/basaltdb/basalt/internal/require"
)

// model is what the arrays of a document should be: $.a and $.o.a.
type model [2][]int

func (m *model) text() string {
	list := func(a []int) string {
		s := make([]string, len(a))
		for i, n := range a {
			s[i] = strconv.Itoa(n)
		}
		return "[" + strings.Join(s, ",") + "]"
	}
	return `{"a":` + list(m[0]) + `,"n":1,"o":{"a":` + list(m[1]) + `,"s":"x"}}`
}

// at is the index that i stands for in an array of n elements, the nearest one when it is beyond an end.
func at(i, n int) int {
	if i < 0 {
		i += n
	}
	return max(0, min(i, n-1))
}

// TestArrayModel runs random commands on arrays and compares them with slices, in both formats.
func TestArrayModel(t *testing.T) {
	for _, format := range []cf.JSONFormat{cf.JSONText, cf.JSONCBOR} {
		g := rand.New(rand.NewPCG(7, uint64(format)))
		db := enginetest.Open(t)
		o := json.DefaultOptions
		o.Format = format
		key := []byte("j")
		m := model{{1}, {2}}
		update := func(f func(tx *engine.Tx) error) error { return db.Update(ns, keysOf("j"), f) }
		require.NoError(t, update(func(tx *engine.Tx) error {
			_, err := json.Set(tx, key, json.Root(), []byte(m.text()), json.Always, o)
			return err
		}))
		next := 100
		for i := range 2000 {
			// One path selects both arrays, the others one, and what is not an array.
			paths := []struct {
				path  string
				which []int // -1: it is none
			}{{"$..a", []int{0, 1}}, {"$.a", []int{0}}, {"$.o.a", []int{1}}, {"$['n','a']", []int{-1, 0}}, {"$.o.*",
				[]int{1, -1}}, {"$.nope", nil}}
			p := paths[g.IntN(len(paths))]
			x, y := g.IntN(14)-7, g.IntN(14)-7
			var got, want string
			var err error
			failed := false
			command := g.IntN(5)
			elems := make([]int, 1+g.IntN(3))
			var texts [][]byte
			for j := range elems {
				elems[j] = next
				texts = append(texts, strconv.AppendInt(nil, int64(next), 10))
				next++
			}
			expect := func(f func(a []int) ([]int, string)) {
				after := m
				for _, w := range p.which {
					if w < 0 {
						want += "- "
						continue
					}
					var s string
					if after[w], s = f(slices.Clone(after[w])); s == "!" {
						failed = true
						return
					}
					want += s + " "
				}
				m = after
			}
			lengths := func(results []json.Result[int], e error) error {
				for _, r := range results {
					if r.Fits {
						got += fmt.Sprint(r.Value, " ")
					} else {
						got += "- "
					}
				}
				err = e
				return e
			}
			run := func(tx *engine.Tx) error {
				jp := path(t, p.path)
				switch command {
				case 0:
					return lengths(json.ArrAppend(tx, key, jp, texts, o))
				case 1:
					return lengths(json.ArrInsert(tx, key, jp, int64(x), texts, o))
				case 2:
					return lengths(json.ArrTrim(tx, key, jp, int64(x), int64(y), o))
				case 3:
					var results []json.Result[*json.Value]
					if results, err = json.ArrPop(tx, key, jp, int64(x), o); err != nil {
						return err
					}
					for _, r := range results {
						switch {
						case !r.Fits:
							got += "- "
						case r.Value == nil:
							got += "null "
						default:
							got += string(json.Append(nil, r.Value)) + " "
						}
					}
					return nil
				}
				doc, err := json.Open(tx, key, json.NewBudget(0))
				if err != nil {
					return err
				}
				values, err := doc.Select(jp)
				if err != nil {
					return err
				}
				needle := json.IntOf(int64(next - 4 - g.IntN(10)))
				for _, v := range values {
					if v.Kind() != json.Array {
						got += "- "
						continue
					}
					j, err := doc.IndexOf(v, &needle, int64(x), int64(y))
					if err != nil {
						return err
					}
					got += fmt.Sprint(j, " ")
				}
				expect(func(a []int) ([]int, string) {
					from, to := at(x, len(a)), y
					switch {
					case y == 0 || y > len(a):
						to = len(a)
					case y < 0:
						to = len(a) + y
					}
					for j := from; j < to; j++ {
						if int64(a[j]) == needle.Int() {
							return a, fmt.Sprint(j)
						}
					}
					return a, "-1"
				})
				return nil
			}
			if e := update(run); e != nil && err == nil {
				t.Fatal(e)
			}
			switch command {
			case 0:
				expect(func(a []int) ([]int, string) { a = append(a, elems...); return a, fmt.Sprint(len(a)) })
			case 1:
				expect(func(a []int) ([]int, string) {
					j := x
					if j < 0 {
						j += len(a)
					}
					if j < 0 || j > len(a) {
						return nil, "!"
					}
					a = slices.Insert(a, j, elems...)
					return a, fmt.Sprint(len(a))
				})
			case 2:
				expect(func(a []int) ([]int, string) {
					if len(a) == 0 || x >= len(a) || at(x, len(a)) > at(y, len(a)) {
						return nil, "0"
					}
					a = a[at(x, len(a)) : at(y, len(a))+1]
					return a, fmt.Sprint(len(a))
				})
			case 3:
				expect(func(a []int) ([]int, string) {
					if len(a) == 0 {
						return a, "null"
					}
					j := at(x, len(a))
					s := fmt.Sprint(a[j])
					return slices.Delete(a, j, j+1), s
				})
			}
			if failed != errors.Is(err, json.ErrInsertAt) || !failed && got != want {
				t.Fatalf("step %d: command %d of %s with %d, %d: %q %v, want %q", i, command, p.path, x, y, got, err, want)
			}
			if g.IntN(10) == 0 || i == 1999 {
				require.NoError(t, db.View(ns, keysOf("j"), func(tx *engine.Tx) error {
					doc, err := json.Open(tx, key, json.NewBudget(0))
					if err != nil {
						return err
					}
					text, err := doc.AppendText(nil)
					if string(text) != m.text() || doc.Format() != format {
						t.Fatalf("step %d: %s, want %s", i, text, m.text())
					}
					return err
				}))
			}
		}
	}
}
