package main

import (
	"math/rand/v2"
	"strings"

	"github.com/basaltdb/basalt/scripts/internal/loadgen"
)

// row is one thing to measure. Its name begins with that of its suite.
type row struct {
	name     string
	op       *loadgen.Op
	write    *loadgen.Op // in every writeEvery-th request instead of op, if not nil
	keys     choose
	pipeline int
	load     bool    // the filling of the data set itself
	warm     bool    // every key that the row may choose is read first, twice
	bar      float64 // least ratio to Kvrocks, 0 for none
}

// writeEvery makes a fifth of a mixed load writes.
const writeEvery = 5

// suite is a data set and what is measured on it, in this order.
type suite struct {
	data *dataset
	rows []row
}

// ratioBar is the least ratio of each row of the first suite, and meanBar that of their geometric mean.
const (
	ratioBar = 1.2
	meanBar  = 1.6
)

// suites are all that is measured. keys is the number of keys of the first suite.
func suites(keys int) []suite {
	const size = 1000
	return []suite{{
		valuesOf("large", size, keys),
		[]row{
			{name: "load SET P=16", load: true, pipeline: 16, bar: ratioBar},
			{name: "GET uniform P=1", op: get(size), keys: uniform, pipeline: 1, bar: ratioBar},
			{name: "GET uniform P=16", op: get(size), keys: uniform, pipeline: 16, bar: ratioBar},
			{name: "GET hot 5 % P=1", op: get(size), keys: hot, pipeline: 1, warm: true, bar: ratioBar},
			{name: "SET uniform P=1", op: set(size), keys: uniform, pipeline: 1, bar: ratioBar},
			{name: "SET uniform P=16", op: set(size), keys: uniform, pipeline: 16, bar: ratioBar},
			{name: "INCR new P=16", op: incrNew, keys: fresh, pipeline: 16, bar: ratioBar},
		},
	}}
}

// choosing returns what chooses the requests of a row.
func (r row) choosing(d *dataset) func(*rand.Rand) (*loadgen.Op, int) {
	if r.load {
		i := -1
		return func(*rand.Rand) (*loadgen.Op, int) { i++; return d.fill, int(d.order[i]) }
	}
	return func(rnd *rand.Rand) (*loadgen.Op, int) {
		op := r.op
		if r.write != nil && rnd.IntN(writeEvery) == 0 {
			op = r.write
		}
		return op, r.keys(d, rnd)
	}
}

// pick leaves out what only does not name: comma-separated suites, or parts of the names of rows. Loads stay.
func pick(all []suite, only string) []suite {
	if only == "" {
		return all
	}
	var out []suite
	for _, s := range all {
		picked := suite{data: s.data}
		measured := false
		for _, r := range s.rows {
			wanted := false
			for word := range strings.SplitSeq(only, ",") {
				word = strings.ToLower(strings.TrimSpace(word))
				wanted = wanted || word == s.data.name || strings.Contains(strings.ToLower(r.name), word)
			}
			measured = measured || wanted
			if wanted || r.load {
				picked.rows = append(picked.rows, r)
			}
		}
		if measured {
			out = append(out, picked)
		}
	}
	return out
}
