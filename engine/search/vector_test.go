package search_test

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/enginetest"
	"github.com/basaltdb/basalt/engine/hash"
	"github.com/basaltdb/basalt/engine/json"
	"github.com/basaltdb/basalt/engine/keys"
	"github.com/basaltdb/basalt/engine/search"
	"github.com/basaltdb/basalt/internal/require"
)

// blob returns a vector as clients write it.
func blob(v ...float64) string {
	var b []byte
	for _, x := range v {
		b = binary.LittleEndian.AppendUint64(b, math.Float64bits(x))
	}
	return string(b)
}

// createVectors makes an index over all hashes, or documents, with a VECTOR field v, and a TAG field t.
func (f fixture) createVectors(on cf.Type, p cf.SearchVectorParams) {
	f.Helper()
	p.VectorType, p.EFRuntime, p.Epsilon = search.Float64Vector, max(p.EFRuntime, 10), 0.01
	p.M, p.EFConstruction = cmp.Or(p.M, 16), cmp.Or(p.EFConstruction, 200)
	ix := &search.Index{Namespace: ns, Name: "i", On: on}
	for name, field := range map[string]cf.SearchField{"v": {Type: cf.SearchVector, Vector: p},
		"t": {Type: cf.SearchTag, Separator: ','}} {
		if err := ix.Add(search.Field{Name: name, SearchField: field}); err != nil {
			f.Fatal(err)
		}
	}
	if err := f.r.Create(ix, f.update); err != nil {
		f.Fatal(err)
	}
}

// graph reads the graph of the field v of the index i, and checks that the records fit together. It returns the nodes
// of each level, with their neighbours.
func (f fixture) graph() (levels []map[string][]string) {
	f.Helper()
	var field cf.SearchField
	counts := map[int]map[string]int{}
	edges := map[int]map[string][]string{}
	enginetest.View(f, f.db, nil, func(tx *engine.Tx) error {
		raw, _, err := tx.Get(cf.Search, cf.AppendSearchField(nil, ns, cf.SearchFieldMeta, []byte("i"), []byte("v")))
		if err != nil {
			return err
		}
		if field, err = cf.DecodeSearchField(raw); err != nil {
			return err
		}
		it := tx.Iter(cf.Search, engine.IterOptions{
			Prefix: cf.AppendSearchField(nil, ns, cf.SearchFieldData, []byte("i"), []byte("v"))})
		defer it.Close()
		for it.Next() {
			g, err := cf.ParseSearchGraph(it.Key())
			if err != nil {
				return err
			}
			level, from := int(g.Level), string(g.From)
			if counts[level] == nil {
				counts[level], edges[level] = map[string]int{}, map[string][]string{}
			}
			if g.Edge {
				edges[level][from] = append(edges[level][from], string(g.To))
				continue
			}
			n, v, err := cf.DecodeSearchNodeValue(nil, it.Value())
			if err != nil || len(v) != int(field.Vector.Dim) {
				f.Errorf("node %q has %d numbers, %v", from, len(v), err)
			}
			counts[level][from] = int(n)
		}
		return it.Err()
	})
	if n := int(field.Vector.Levels); n != len(counts) {
		f.Errorf("the field counts %d levels, nodes are in %d", n, len(counts))
	}
	for level := range len(counts) {
		nodes := map[string][]string{}
		for key, n := range counts[level] {
			to := edges[level][key]
			nodes[key] = to
			if len(to) != n {
				f.Errorf("level %d, %q: %d edges, the node counts %d", level, key, len(to), n)
			}
			if _, below := counts[0][key]; !below {
				f.Errorf("level %d, %q: no node in level 0", level, key)
			}
			if level > 0 {
				if _, below := counts[level-1][key]; !below {
					f.Errorf("level %d, %q: no node in the level below", level, key)
				}
			}
		}
		for from, list := range edges[level] {
			for _, to := range list {
				if _, exists := counts[level][to]; !exists || from == to {
					f.Errorf("level %d: an edge from %q to %q, which does not exist or is the same", level, from, to)
				}
				if !slices.Contains(edges[level][to], from) {
					f.Errorf("level %d: an edge from %q to %q, but none back", level, from, to)
				}
			}
			if _, exists := counts[level][from]; !exists {
				f.Errorf("level %d: edges from %q, which does not exist", level, from)
			}
		}
		reached := map[string]bool{}
		for key := range nodes {
			for reach := []string{key}; len(reach) > 0; reach = reach[1:] {
				if !reached[reach[0]] {
					reached[reach[0]] = true
					reach = append(reach, nodes[reach[0]]...)
				}
			}
			break
		}
		if len(reached) != len(nodes) {
			f.Errorf("level %d: %d of %d nodes are connected", level, len(reached), len(nodes))
		}
		levels = append(levels, nodes)
	}
	return levels
}

func (f fixture) knn(k int, v []float64) (keys []string) {
	f.Helper()
	q, err := search.Parse("i", fmt.Sprintf("*=>[KNN %d @v $v]", k), map[string]string{"v": blob(v...)})
	if q != nil {
		q.Return = []string{"t"}
	}
	for _, key := range strings.Fields(f.run(q, err)) {
		key, _, _ = strings.Cut(key, "(")
		keys = append(keys, key)
	}
	return keys
}

// distance is the model of the metrics.
func distance(metric uint8, a, b []float64) float64 {
	var squares, dot, na, nb float64
	for i := range a {
		squares += (a[i] - b[i]) * (a[i] - b[i])
		dot += a[i] * b[i]
		na += a[i] * a[i]
		nb += b[i] * b[i]
	}
	return []float64{math.Sqrt(squares), -dot, 1 - dot/math.Sqrt(na*nb)}[metric]
}

// exact returns the k keys nearest to v.
func exact(metric uint8, model map[string][]float64, v []float64, k int) []string {
	list := slices.SortedFunc(maps.Keys(model), func(a, b string) int {
		return cmp.Or(cmp.Compare(distance(metric, v, model[a]), distance(metric, v, model[b])), cmp.Compare(a, b))
	})
	return list[:min(k, len(list))]
}

func randomVector(g *rand.Rand, dim int) []float64 {
	v := make([]float64, dim)
	for i := range v {
		v[i] = g.NormFloat64()
	}
	return v
}

// TestGraphInvariants: after random insertions, changes and deletions every edge has one back, no edge leads to a node
// that is gone, the counts are right, and searches find every key.
func TestGraphInvariants(t *testing.T) {
	for _, metric := range []uint8{search.MetricL2, search.MetricIP, search.MetricCosine} {
		t.Run(fmt.Sprint(metric), func(t *testing.T) {
			search.DrawLevels(1)
			g := rand.New(rand.NewPCG(uint64(metric), 3))
			f := open(t)
			f.createVectors(cf.TypeHash, cf.SearchVectorParams{Dim: 3, Metric: metric, M: 3, EFConstruction: 20, EFRuntime: 400})
			model := map[string][]float64{}
			for round := range 600 {
				key := fmt.Sprint("k", g.IntN(150))
				if v := randomVector(g, 3); g.IntN(3) > 0 {
					if g.IntN(10) == 0 {
						v = []float64{1, 2, 3} // equal vectors
					}
					f.hset(key, "v", blob(v...))
					model[key] = v
				} else {
					f.write(func(tx *engine.Tx) error { _, err := keys.Del(tx, []byte(key)); return err }, key)
					delete(model, key)
				}
				if round%50 > 0 {
					continue
				}
				levels := f.graph()
				var nodes []string
				if len(levels) > 0 {
					nodes = slices.Sorted(maps.Keys(levels[0]))
				}
				if want := slices.Sorted(maps.Keys(model)); !slices.Equal(nodes, want) {
					t.Fatalf("nodes %q, want %q", nodes, want)
				}
				v := randomVector(g, 3)
				if got, want := f.knn(len(model), v), exact(metric, model, v, len(model)); !slices.Equal(got, want) {
					t.Fatalf("%q, want %q", got, want)
				}
			}
			for key := range model {
				f.write(func(tx *engine.Tx) error { _, err := keys.Del(tx, []byte(key)); return err }, key)
			}
			if levels := f.graph(); len(levels) != 0 {
				t.Errorf("%d levels are left", len(levels))
			}
		})
	}
}

// TestRecall compares the nearest neighbours with those of a search of all keys, for vectors at random and in clusters
// that are written one after the other. The seeds are fixed, so chance has no part in the result.
func TestRecall(t *testing.T) {
	n, dim := 2000, 16
	if testing.Short() {
		n = 600
	}
	for _, tt := range []struct {
		name   string
		metric uint8
		spread float64 // of a cluster; 0 = no clusters
	}{{"L2", search.MetricL2, 0}, {"cosine", search.MetricCosine, 0}, {"IP", search.MetricIP, 0},
		{"clusters", search.MetricL2, 0.01}} {
		t.Run(tt.name, func(t *testing.T) {
			search.DrawLevels(2)
			g := rand.New(rand.NewPCG(4, 4))
			f := open(t)
			f.createVectors(cf.TypeHash, cf.SearchVectorParams{Dim: uint16(dim), Metric: tt.metric, EFRuntime: 50})
			model := map[string][]float64{}
			var center []float64
			for i := range n {
				v := randomVector(g, dim)
				if tt.spread > 0 {
					if i%100 == 0 {
						center = randomVector(g, dim)
					}
					for j := range v {
						v[j] = center[j] + tt.spread*v[j]
					}
				}
				key := fmt.Sprint("k", i)
				f.hset(key, "v", blob(v...))
				model[key] = v
			}
			found, wanted := 0, 0
			for range 100 {
				v := randomVector(g, dim)
				if tt.spread > 0 {
					v = model[fmt.Sprint("k", g.IntN(n))]
				}
				got := f.knn(10, v)
				for _, key := range exact(tt.metric, model, v, 10) {
					wanted++
					if slices.Contains(got, key) {
						found++
					}
				}
			}
			recall := float64(found) / float64(wanted)
			t.Logf("recall %.3f", recall)
			if recall < 0.9 {
				t.Errorf("recall %.3f", recall)
			}
			f.graph()
		})
	}
}

// TestGraphRecords compares the records of a graph with those of Kvrocks's format, byte for byte: a node is
// u16 neighbours · u16 dimensions · f64 each, an edge has a record for each direction.
func TestGraphRecords(t *testing.T) {
	search.Draw(0.8, 0.1) // with M = 2 the first key is in the levels 0 to 2, the second one in level 0
	f := open(t)
	f.createVectors(cf.TypeHash, cf.SearchVectorParams{Dim: 1, M: 2})
	f.hset("a", "v", blob(1))
	f.hset("b", "v", blob(-2))
	const (
		prefix = "\v__namespace\x03\x00\x00\x00\x01i\x00\x00\x00\x01v"
		one    = "\xbf\xf0\x00\x00\x00\x00\x00\x00"
		two    = "\x3f\xff\xff\xff\xff\xff\xff\xff"
	)
	want := []string{
		prefix + "\x00\x00\x01\x00\x00\x00\x01a=\x00\x01\x00\x01" + one,
		prefix + "\x00\x00\x01\x00\x00\x00\x01b=\x00\x01\x00\x01" + two,
		prefix + "\x00\x00\x02\x00\x00\x00\x01a\x00\x00\x00\x01b=",
		prefix + "\x00\x00\x02\x00\x00\x00\x01b\x00\x00\x00\x01a=",
	}
	for _, level := range []string{"\x00\x01", "\x00\x02"} {
		want = append(want, prefix+level+"\x01\x00\x00\x00\x01a=\x00\x00\x00\x01"+one)
	}
	var got []string
	enginetest.View(t, f.db, nil, func(tx *engine.Tx) error {
		it := tx.Iter(cf.Search, engine.IterOptions{Lower: []byte(prefix)})
		defer it.Close()
		for it.Next() {
			got = append(got, string(it.Key())+"="+string(it.Value()))
		}
		return it.Err()
	})
	if levels := len(f.graph()); !slices.Equal(got, want) || levels != 3 {
		t.Errorf("%d levels: %q\nwant %q", levels, got, want)
	}
}

// documents makes the documents of Kvrocks's own test.
func documents(t testing.TB, metric uint8) fixture {
	search.DrawLevels(1)
	f := open(t)
	f.createVectors(cf.TypeJSON, cf.SearchVectorParams{Dim: 3, Metric: metric})
	for key, text := range map[string]string{"k1": `{"t":"x,y","v":[2,3,4]}`, "k2": `{"t":"x,z","v":[12,13,14]}`,
		"k3": `{"t":"y,z","v":[23,24,25]}`, "none": `{"t":"x"}`, "short": `{"t":"x","v":[1,2]}`} {
		f.write(func(tx *engine.Tx) error {
			_, err := json.Set(tx, []byte(key), json.Root(), []byte(text), 0, json.DefaultOptions)
			return err
		}, key)
	}
	return f
}

func TestVectorQueries(t *testing.T) {
	f := documents(t, search.MetricL2)
	params := map[string]string{"a": blob(13, 14, 15), "b": blob(16, 17, 18), "c": blob(2, 3, 4), "k": "2", "far": "1e9"}
	for _, tt := range []struct{ text, want string }{
		{`*=>[KNN 1 @v $a]`, "k2(t=x,z v=12.000000, 13.000000, 14.000000)"},
		{`*=>[KNN 0 @v $a]`, ""},
		{`*=>[KNN $k @v $a]`, "k2 k3"},
		{`* => [ KNN 9 @v $c ]`, "k1 k2 k3"},
		{`(*=>[KNN 3 @v $c]) @t:{z}`, "k2 k3"},
		{`@t:{z} (*=>[KNN 2 @v $c])`, "k2"}, // the condition filters the two nearest ones
		{`@v:[VECTOR_RANGE 7 $b]`, "k2"},
		{`@v:[VECTOR_RANGE 0 $c]`, "k1"},
		{`@v:[VECTOR_RANGE $far $b]`, "k2 k3 k1"},
		{`@t:{z} @v:[VECTOR_RANGE 18 $c]`, "k2"},
		{`@t:{y} | @v:[VECTOR_RANGE 7 $b]`, "k1 k3 k2"},
		{`-@v:[VECTOR_RANGE 7 $b]`, "k1 k3 none"},
	} {
		q, err := search.Parse("i", tt.text, params)
		if q != nil && !strings.HasPrefix(tt.want, "k2(") {
			q.Return = []string{}
		}
		got := strings.ReplaceAll(f.run(q, err), "()", "")
		if got != tt.want {
			t.Errorf("%s: %q, want %q", tt.text, got, tt.want)
		}
	}
	for _, tt := range []struct{ text, want string }{
		{`select v from i order by v <-> [13,14,15] limit 1`, "k2(v=12.000000, 13.000000, 14.000000)"},
		{`select t from i order by v <-> [2, 3, 4] limit 1, 5`, "k2(t=x,z) k3(t=y,z)"},
		{`select t from i where true order by v <-> [2,3,4] limit 2`, "k1(t=x,y) k2(t=x,z)"},
		{`select t from i where false order by v <-> [2,3,4] limit 2`, ""},
		{`select t from i where v <-> [16,17,18] < 7`, "k2(t=x,z)"},
		{`select t from i where t hastag "z" and v <-> [2,3,4] < @r`, "k2(t=x,z)"},
	} {
		if got := f.run(search.ParseSQL(tt.text, map[string]string{"r": "18"})); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.text, got, tt.want)
		}
	}
}

// TestSortNearest sorts the nearest keys by a number, with limits whose sum is no int64.
func TestSortNearest(t *testing.T) {
	f := open(t)
	ix := &search.Index{Namespace: ns, Name: "i", On: cf.TypeHash}
	vector := cf.SearchVectorParams{VectorType: search.Float64Vector, Dim: 1, M: 16, EFConstruction: 200, EFRuntime: 10}
	for name, field := range map[string]cf.SearchField{"n": {Type: cf.SearchNumeric},
		"v": {Type: cf.SearchVector, Vector: vector}} {
		require.NoError(t, ix.Add(search.Field{Name: name, SearchField: field}))
	}
	require.NoError(t, f.r.Create(ix, f.update))
	for i, key := range []string{"a", "b", "c"} {
		f.hset(key, "n", fmt.Sprint(i), "v", blob(float64(i)))
	}
	for _, tt := range []struct {
		offset, count int64
		want          string
	}{
		{0, -1, "c() b() a()"}, {1, 1, "b()"}, {1, math.MaxInt64, "b() a()"}, {3, math.MaxInt64, ""},
		{math.MaxInt64, 1, ""}, {math.MaxInt64, math.MaxInt64, ""},
	} {
		q, err := search.Parse("i", "*=>[KNN 100 @v $v]", map[string]string{"v": blob(0)})
		require.NoError(t, err)
		q.Return, q.Offset, q.Count = []string{}, tt.offset, tt.count
		q.SortBy("n", true)
		if got := f.run(q, nil); got != tt.want {
			t.Errorf("LIMIT %d %d: %q, want %q", tt.offset, tt.count, got, tt.want)
		}
	}
}

func TestVectorErrors(t *testing.T) {
	const (
		combined = "KNN search cannot be combined with other query expressions"
		size     = "vector should be of size `3` for field `v`"
		negative = "range cannot be a negative number for l2 distance metric"
		between  = "range has to be between 0 and 2 for cosine distance metric"
		missing  = "field `z` not found in index `i`"
	)
	for metric, texts := range map[uint8]map[string]string{
		search.MetricL2: {
			`@v:[VECTOR_RANGE -1 $a]`:              negative,
			`@v:[VECTOR_RANGE 1 $one]`:             size,
			`@v:[VECTOR_RANGE 1 $none]`:            "parameter with name `none` not found",
			`@v:[VECTOR_RANGE 1 $odd]`:             "data size is not a multiple of the target type size",
			`@v:[VECTOR_RANGE 1 $nil]`:             "empty vector is invalid",
			`@t:[VECTOR_RANGE 1 $a]`:               "field `t` is not a vector field",
			`@v:{x}`:                               "field `v` is not a tag field",
			`@v:[1 2]`:                             "field `v` is not a numeric field",
			`*=>[KNN 1 @v $one]`:                   size,
			`*=>[KNN 1.5 @v $a]`:                   "invalid syntax",
			`*=>[KNN -1 @v $a]`:                    "invalid syntax",
			`*=>[KNN $nil @v $a]`:                  "a parameter is not a number",
			`*=>[KNN 1 @z $a]`:                     missing,
			`*=>[KNN 1000001 @v $a]`:               "KNN search finds at most 1000000 keys",
			`(*=>[KNN 1 @v $a]) | @t:{x}`:          combined,
			`-(*=>[KNN 1 @v $a])`:                  combined,
			`(*=>[KNN 1 @v $a])(*=>[KNN 1 @v $a])`: combined,
			`@t:{x}=>[KNN 1 @v $a]`:                "invalid syntax", // a filter in front is not supported by Kvrocks
		},
		search.MetricCosine: {`@v:[VECTOR_RANGE -1 $a]`: between, `@v:[VECTOR_RANGE 2.1 $a]`: between},
		search.MetricIP:     {`@v:[VECTOR_RANGE -1 $a] @z:{a}`: missing},
	} {
		f := documents(t, metric)
		for text, want := range texts {
			q, err := search.Parse("i", text, map[string]string{"a": blob(1, 2, 3), "one": blob(1), "odd": "123", "nil": ""})
			if got := f.run(q, err); got != want {
				t.Errorf("%s: %q, want %q", text, got, want)
			}
		}
	}
	f := documents(t, search.MetricL2)
	for text, want := range map[string]string{
		"select t from i order by v": "field `v` is a vector field according to metadata and does expect " +
			"a vector parameter",
		"select t from i order by t <-> [1,2,3] limit 1": "field `t` is not sortable",
		"select t from i order by z <-> [1,2,3] limit 1": missing,
		"select t from i order by v <-> [1,2] limit 1":   size,
		"select t from i order by v <-> [1,2,3]": "expect a LIMIT clause for vector field to construct " +
			"a KNN search",
		"select t from i where v <-> [1,2] < 3":                             size,
		"select t from i where v <-> [] < 3":                                "invalid syntax",
		`select t from i where t hastag "x" order by v <-> [1,2,3] limit 1`: combined,
	} {
		if got := f.run(search.ParseSQL(text, nil)); got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}

func TestVectorExplain(t *testing.T) {
	f := documents(t, search.MetricL2)
	for text, want := range map[string]string{
		"select t from i order by v <-> [13,14,1.5] limit 1, 2": "project t: (limit 1, 2: " +
			"hnsw-vector-knn-scan v, [13.000000, 14.000000, 1.500000], 3)",
		"select * from i where v <-> [1,2,3] < 0.5": "project *: (filter v <-> [1.000000, 2.000000, 3.000000] < 0.5: " +
			"hnsw-vector-range-scan v, [1.000000, 2.000000, 3.000000], 0.5)",
	} {
		q, err := search.ParseSQL(text, nil)
		require.NoError(t, err)
		if got, err := f.r.Explain(ns, q); err != nil || got != want {
			t.Errorf("%s: %q, %v, want %q", text, got, err, want)
		}
	}
	q, err := search.Parse("i", "(*=>[KNN 3 @v $v]) @t:{z}", map[string]string{"v": blob(1, 2, 3)})
	require.NoError(t, err)
	const want = `project *: (filter t hastag "z": hnsw-vector-knn-scan v, [1.000000, 2.000000, 3.000000], 3)`
	if got, err := f.r.Explain(ns, q); err != nil || got != want {
		t.Errorf("%q, %v", got, err)
	}
}

// TestVectorsOfOneBatch: an insertion sees those before it in the same transaction, and a rollback takes all of them
// back.
func TestVectorsOfOneBatch(t *testing.T) {
	search.DrawLevels(6)
	f := open(t)
	f.createVectors(cf.TypeHash, cf.SearchVectorParams{Dim: 2, M: 2})
	f.hset("k0", "v", blob(0, 0))
	var names []string
	for i := range 30 {
		names = append(names, fmt.Sprint("k", i))
	}
	before := f.dump()
	err := f.update(enginetest.Bytes(names...), false, func(tx *engine.Tx) error {
		mark := tx.Savepoint()
		set := func(i int) error {
			var w search.Watch
			key := []byte(names[i])
			if err := f.r.Before(tx, &w, key); err != nil {
				return err
			}
			if _, err := hash.Set(tx, key, enginetest.Bytes("v", blob(float64(i%7), float64(i)))); err != nil {
				return err
			}
			return w.After(tx)
		}
		for i := range names {
			if err := set(i); err != nil {
				return err
			}
		}
		if err := tx.Rollback(mark); err != nil {
			return err
		}
		for i := 10; i < 30; i++ {
			if err := set(i); err != nil {
				return err
			}
		}
		q, err := search.Parse("i", "*=>[KNN 2 @v $v]", map[string]string{"v": blob(0, 10)})
		if err != nil {
			return err
		}
		var got []string
		err = f.r.Run(tx, q, func(row *search.Row, _ []*search.Field) bool {
			got = append(got, string(row.Key))
			return true
		})
		if want := []string{"k10", "k14"}; !slices.Equal(got, want) {
			t.Errorf("within the transaction: %q, want %q", got, want)
		}
		return err
	})
	require.NoError(t, err)
	if levels := f.graph(); len(levels[0]) != 21 {
		t.Errorf("%d nodes", len(levels[0]))
	}
	for _, name := range names {
		f.write(func(tx *engine.Tx) error { _, err := keys.Del(tx, []byte(name)); return err }, name)
	}
	f.hset("k0", "v", blob(0, 0))
	if after := f.dump(); !strings.HasPrefix(after, before[:strings.Index(before, "\n")]) || len(f.graph()[0]) != 1 {
		t.Error(after)
	}
	if err := f.update(nil, true, func(tx *engine.Tx) error { return f.r.Drop(tx, "i") }); err != nil || f.dump() != "" {
		t.Errorf("dropped: %v, %s", err, f.dump())
	}
}

// TestConcurrentVectors: clients that change vectors at once, while an index is being built, leave a graph that fits
// together, and no search finds a key twice or misses one that stays where it is.
func TestConcurrentVectors(t *testing.T) {
	f := open(t)
	f.hset("fixed", "v", blob(100, 100))
	for i := range 20 {
		f.hset(fmt.Sprint("k", i), "v", blob(float64(i), 0))
	}
	var writers sync.WaitGroup
	for w := range 3 {
		writers.Go(func() {
			g := rand.New(rand.NewPCG(uint64(w), 7))
			for i := range 60 {
				key := fmt.Sprintf("w%d:%d", w, i%20)
				if i%20 == 19 {
					f.write(func(tx *engine.Tx) error { _, err := keys.Del(tx, []byte(key)); return err }, key)
				} else {
					f.hset(key, "v", blob(randomVector(g, 2)...))
				}
			}
		})
	}
	f.createVectors(cf.TypeHash, cf.SearchVectorParams{Dim: 2, M: 4, EFConstruction: 50, EFRuntime: 100})
	for range 20 {
		got := f.knn(5, []float64{99, 99})
		if len(got) != 5 || got[0] != "fixed" || len(slices.Compact(slices.Sorted(slices.Values(got)))) != 5 {
			t.Errorf("%q", got)
		}
	}
	writers.Wait()
	if levels := f.graph(); len(levels[0]) != 21+3*19 {
		t.Errorf("%d nodes", len(levels[0]))
	}
}

// TestKeysThatACompactionRemoves: a compaction drops the entries of a key that expired long ago, but keeps its node,
// which searches skip; when the key is made anew it has all of them.
func TestKeysThatACompactionRemoves(t *testing.T) {
	search.DrawLevels(8)
	f := open(t)
	f.createVectors(cf.TypeHash, cf.SearchVectorParams{Dim: 1})
	for i := range 14 {
		f.hset(fmt.Sprint("k", i), "v", blob(float64(i)), "t", fmt.Sprint("tag", i))
	}
	expire := func(keys ...string) {
		err := f.update(enginetest.Bytes(keys...), false, func(tx *engine.Tx) error {
			for _, key := range keys {
				rec, err := tx.LoadAny([]byte(key))
				if err != nil {
					return err
				}
				rec.Expire = 1000 // in the first second after the epoch
				tx.SaveAppend(&rec, rec.Tail)
			}
			return nil
		})
		require.NoError(t, err)
	}
	compact := func(ids ...cf.ID) {
		for _, id := range ids {
			require.NoError(t, f.db.FlushMemtable(id))
			require.NoError(t, f.db.CompactRange(id, nil, nil))
		}
	}
	tags := func() (n int) {
		enginetest.View(t, f.db, nil, func(tx *engine.Tx) error {
			return f.r.Tags(tx, "i", "t", func([]byte) bool { n++; return true })
		})
		return n
	}
	var gone []string
	for i := range 12 {
		gone = append(gone, fmt.Sprint("k", i))
	}
	expire(gone...)
	compact(cf.Search)
	if n := tags(); n != 2 {
		t.Errorf("%d tags, want 2", n)
	}
	if got := f.knn(2, []float64{0}); !slices.Equal(got, []string{"k12", "k13"}) {
		t.Errorf("%q", got)
	}
	f.hset("k0", "v", blob(0), "t", "tag0") // the record of the expired key is there
	compact(cf.Metadata, cf.Search)
	f.hset("k1", "v", blob(100), "t", "tag1") // it is gone
	f.hset("k2", "t", "tag2")
	if n := tags(); n != 5 {
		t.Errorf("%d tags, want 5", n)
	}
	if got := f.knn(4, []float64{2}); !slices.Equal(got, []string{"k0", "k12", "k13", "k1"}) {
		t.Errorf("%q", got)
	}
	f.graph()
}

// each changes keys one by one in one transaction.
func (f fixture) each(names []string, do func(tx *engine.Tx, key []byte) error) {
	f.Helper()
	require.NoError(f, f.update(enginetest.Bytes(names...), false, func(tx *engine.Tx) error {
		for _, name := range names {
			if err := f.one(tx, []byte(name), do); err != nil {
				return err
			}
		}
		return nil
	}))
}

// one changes a key, with its entries.
func (f fixture) one(tx *engine.Tx, key []byte, do func(tx *engine.Tx, key []byte) error) error {
	var w search.Watch
	if err := f.r.Before(tx, &w, key); err != nil {
		return err
	}
	if err := do(tx, key); err != nil {
		return err
	}
	return w.After(tx)
}
