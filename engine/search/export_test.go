package search

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
)

// DrawLevels makes the levels of new nodes follow from a seed.
func DrawLevels(seed uint64) { random = rand.New(rand.NewPCG(seed, 0)).Float64 }

// Draw makes the levels of new nodes follow from numbers of [0, 1), taken in turn.
func Draw(numbers ...float64) {
	random = func() float64 {
		x := numbers[0]
		numbers = numbers[1:]
		return x
	}
}

// CheckNodes compares the nodes of a graph that are in memory with their records, as of a snapshot or, with nil, of the
// present. gone are keys that may have no node. It returns how many nodes were in memory, and how many there are.
func (r *Registry) CheckNodes(tx *engine.Tx, snap *engine.Snapshot, index, field string, gone ...string) (kept, all int,
	err error) {
	ix, err := r.Find(tx.Namespace(), index)
	if err != nil {
		return 0, 0, err
	}
	g, err := ix.graph(tx, snap, ix.Field(field))
	if err != nil {
		return 0, 0, err
	}
	for level := range int(g.field.Vector.Levels) {
		keys, err := g.scan(cf.AppendSearchNodePrefix(slices.Clip(g.prefix), uint16(level)), 0)
		if err != nil {
			return 0, 0, err
		}
		for _, key := range gone {
			v := g.visit(level, key)
			if n := g.find(level, &v); n != nil && !slices.Contains(keys, key) {
				return 0, 0, fmt.Errorf("level %d, %q: a node is in memory that has no record", level, key)
			}
		}
		for _, key := range keys {
			all++
			v := g.visit(level, key)
			n := g.find(level, &v)
			if n == nil {
				continue
			}
			kept++
			list := tx.Keys()
			list.Add(g.nodeKey(level, key))
			records, err := g.get(list)
			if err != nil {
				return 0, 0, err
			}
			degree, vector, err := cf.DecodeSearchNodeValue(nil, records[0])
			if err != nil {
				return 0, 0, err
			}
			if n.key != key || n.degree != int(degree) || !slices.EqualFunc(n.vector, vector, sameBits) {
				return 0, 0, fmt.Errorf("level %d, %q: %q with %d edges and %v is in memory, the record has %d and %v",
					level, key, n.key, n.degree, n.vector, degree, vector)
			}
			if !n.linked {
				continue
			}
			to, err := g.scan(cf.AppendSearchEdgePrefix(slices.Clip(g.prefix), uint16(level), []byte(key)), 0)
			if err != nil {
				return 0, 0, err
			}
			if inMemory := slices.Collect(n.edges.all()); !slices.Equal(inMemory, to) {
				return 0, 0, fmt.Errorf("level %d, %q: edges to %q are in memory, to %q in the records", level, key,
					inMemory, to)
			}
		}
	}
	return kept, all, nil
}
