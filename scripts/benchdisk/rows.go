package main

import (
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/basaltdb/basalt/scripts/internal/loadgen"
)

// kind is the way in which a row is measured.
type kind int

const (
	steady     kind = iota
	load            // filling the data set
	compacting      // while COMPACT runs
	restarted       // from the start of the server, with empty caches
)

// row is one measurement.
type row struct {
	name     string
	kind     kind
	read     *loadgen.Op
	write    *loadgen.Op // instead of read if read is nil, otherwise in every writeEvery-th request
	keys     choose
	pipeline int
	warm     bool    // every key that the row may choose is read twice before
	brief    bool    // a third of the time is sufficient
	bar      float64 // min ratio to Kvrocks, 0 = none
}

// writeEvery makes a fifth of the requests of a mixed load writes.
const writeEvery = 5

// suite is a data set with its rows, in order.
type suite struct {
	data *dataset
	rows []row
}

// ratioBar is the min ratio of each row of the main table, and meanBar that of their geometric mean.
const (
	ratioBar = 1.2
	meanBar  = 1.6
)

// suites returns all suites. keys is the number of keys of the suite "large". The others have about as many bytes, or
// half of that, so that none fits into the memory. A quick run leaves out the rows of the other suites at P = 1.
func suites(keys int, quick bool) []suite {
	const small, large, big = 100, 1000, 16 << 10
	all := []suite{
		{valuesOf("large", large, keys), slices.Concat(
			[]row{
				{name: "load SET P=16", kind: load, pipeline: 16, bar: ratioBar},
				{name: "GET uniform P=1", read: get(large), keys: uniform, pipeline: 1, bar: ratioBar},
				{name: "GET uniform P=16", read: get(large), keys: uniform, pipeline: 16, bar: ratioBar},
				{name: "GET hot 5 % P=1", read: get(large), keys: hot, pipeline: 1, warm: true, bar: ratioBar},
				{name: "SET uniform P=1", write: set(large), keys: uniform, pipeline: 1, bar: ratioBar},
				{name: "SET uniform P=16", write: set(large), keys: uniform, pipeline: 16, bar: ratioBar},
				{name: "INCR new P=16", write: incrNew, keys: fresh, pipeline: 16, bar: ratioBar},
			},
			each(row{name: "GET zipfian", read: get(large), keys: zipfian}),
			each(row{name: "SET zipfian", write: set(large), keys: zipfian}),
			each(row{name: "GET/SET 4:1 uniform", read: get(large), write: set(large), keys: uniform}),
			each(row{name: "GET/SET 4:1 zipfian", read: get(large), write: set(large), keys: zipfian}),
			[]row{
				{name: "GET while compacting P=16", kind: compacting, read: get(large), keys: uniform, pipeline: 16},
				{name: "GET zipfian, restarted P=16", kind: restarted, read: get(large), keys: zipfian, pipeline: 16},
			},
		)},
		{valuesOf("small", small, 3*keys), slices.Concat(
			[]row{{name: "load SET P=16", kind: load, pipeline: 16}},
			both("GET", get(small), nil), both("SET", nil, set(small)), both("GET/SET 4:1", get(small), set(small)))},
		{valuesOf("big", big, keys/30), slices.Concat(
			[]row{{name: "load SET P=4", kind: load, pipeline: 4}},
			both("GET", get(big), nil), both("SET", nil, set(big)), both("GET/SET 4:1", get(big), set(big)))},
		{hashes(keys / 30), slices.Concat(
			[]row{{name: "load HSET of 100 P=4", kind: load, pipeline: 4}},
			both("HGET", hget, nil), both("HGETALL", hgetall, nil), both("HSET", nil, hset),
			both("HGET/HSET 4:1", hget, hset))},
		{sortedSets(keys / 30), slices.Concat(
			[]row{{name: "load ZADD of 100 P=4", kind: load, pipeline: 4}},
			both("ZSCORE", zscore, nil), both("ZRANGE", zrange, nil), both("ZADD", nil, zadd),
			both("ZSCORE/ZADD 4:1", zscore, zadd))},
	}
	for i := 1; i < len(all) && quick; i++ {
		all[i].rows = slices.DeleteFunc(all[i].rows, func(r row) bool { return r.pipeline == 1 })
	}
	return all
}

// each returns the row at pipelines of 1 and 16.
func each(r row) []row {
	one, many := r, r
	one.name, one.pipeline, one.brief = r.name+" P=1", 1, true
	many.name, many.pipeline, many.brief = r.name+" P=16", 16, true
	return []row{one, many}
}

// both returns rows with uniform and with zipfian keys.
func both(name string, read, write *loadgen.Op) []row {
	return append(each(row{name: name + " uniform", read: read, write: write, keys: uniform}),
		each(row{name: name + " zipfian", read: read, write: write, keys: zipfian})...)
}

// choosing returns the function that chooses the requests of a row.
func (r row) choosing(d *dataset) func(*rand.Rand) (*loadgen.Op, int) {
	if r.kind == load {
		i := -1
		return func(*rand.Rand) (*loadgen.Op, int) { i++; return d.fill, int(d.order[i]) }
	}
	return func(rnd *rand.Rand) (*loadgen.Op, int) {
		op := r.read
		if op == nil || r.write != nil && rnd.IntN(writeEvery) == 0 {
			op = r.write
		}
		return op, r.keys(d, rnd)
	}
}

// pick removes the rows that only does not name. only contains parts of "suite row", comma-separated. Loads stay.
func pick(all []suite, only string) []suite {
	var out []suite
	for _, s := range all {
		picked, measured := suite{data: s.data}, false
		for _, r := range s.rows {
			name := strings.ToLower(s.data.name + " " + r.name)
			wanted := slices.ContainsFunc(strings.Split(strings.ToLower(only), ","), func(part string) bool {
				return strings.Contains(name, strings.TrimSpace(part))
			})
			measured = measured || wanted
			if wanted || r.kind == load {
				picked.rows = append(picked.rows, r)
			}
		}
		if measured {
			out = append(out, picked)
		}
	}
	return out
}
