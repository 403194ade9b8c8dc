package search

import (
	"math"
	"math/rand/v2"
	"slices"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
)

// graph is the HNSW graph of a VECTOR field (Malkov and Yashunin, "Efficient and robust approximate nearest neighbor
// search using Hierarchical Navigable Small World graphs", 2016), as a transaction sees it.
//
// Each key with a vector has a node in level 0, and in all levels up to one that is drawn when the node is made. An
// edge connects two nodes of a level: it has a record in each direction. The record of a node counts its edges. The
// record of the field counts the levels. Searches begin at the first node, by its key, of the highest level.
//
// A graph that changes must be locked, see [Index.lockGraphs]. Everything is read through the transaction, so that an
// insertion sees those before it in the same batch, and a rollback needs no care. The engine keeps decoded nodes in
// memory as far as there is room, and knows which of them are valid.
type graph struct {
	tx      *engine.Tx
	snap    *engine.Snapshot // nil = the present
	at      uint64           // as of when nodes are read, see engine.Tx.NodeTime
	f       *Field
	prefix  []byte             // of the keys of the records
	meta    []byte             // the key of the field's record
	field   cf.SearchField     // the field's record
	changes map[string]*change // the nodes of a level whose edges are changing
	query   bool               // nodes are found for their keys: they are held without their vectors

	keyBuf  []byte // see nodeKey
	missing []int  // see read
	// touched keeps the compiler from removing loads that only fill the CPU caches.
	touched float64
}

// graph returns the graph of a field, as of a snapshot or, with nil, of the present.
func (ix *Index) graph(tx *engine.Tx, snap *engine.Snapshot, f *Field) (*graph, error) {
	g := &graph{tx: tx, snap: snap, at: tx.NodeTime(snap), f: f, prefix: ix.fieldData(f),
		meta: cf.AppendSearchField(nil, ix.Namespace, cf.SearchFieldMeta, []byte(ix.Name), []byte(f.Name))}
	list := tx.Keys()
	list.Add(g.meta)
	records, err := g.get(list)
	if err != nil {
		return nil, err
	}
	g.field = f.SearchField
	g.field.Vector.Levels = 0
	if records[0] != nil {
		if g.field, err = cf.DecodeSearchField(records[0]); err != nil {
			return nil, err
		}
	}
	return g, nil
}

func (g *graph) get(list *engine.KeyList) ([][]byte, error) {
	if g.snap != nil {
		return g.tx.MultiGetAt(g.snap, cf.Search, list)
	}
	return g.tx.MultiGet(cf.Search, list)
}

// m returns the number of edges that a new node gets in a level, and limit how many a node may have before edges are
// removed. An M below 2, with which the levels have no end, works as 2.
func (g *graph) m() int { return max(2, int(g.field.Vector.M)) }

func (g *graph) limit(level int) int {
	if level == 0 {
		return 2 * g.m()
	}
	return g.m()
}

// scan returns the sized strings with which the keys under a prefix end, at most limit of them; 0 = all.
func (g *graph) scan(prefix []byte, limit int) (keys []string, err error) {
	it := g.tx.Iter(cf.Search, engine.IterOptions{Prefix: prefix, KeysOnly: true, Limit: limit, Snapshot: g.snap})
	defer it.Close()
	for (limit == 0 || len(keys) < limit) && it.Next() {
		if key, rest, err := cf.CutSized(it.Key()); err == nil && len(rest) == 0 {
			keys = append(keys, string(key))
		}
	}
	return keys, it.Err()
}

// first returns the first node of a level, none if it has no nodes.
func (g *graph) first(level int) ([]string, error) {
	return g.scan(cf.AppendSearchNodePrefix(slices.Clip(g.prefix), uint16(level)), 1)
}

// maxHeld bounds the vectors that an insertion holds in memory.
const maxHeld = 4096

func bounded(ef uint32, most int) int { return min(max(1, int(ef)), most) }

// random draws a number of [0, 1). Tests replace it.
var random = rand.Float64

// insert adds the node of a key, which must not exist.
func (g *graph) insert(key string, v []float64) error {
	// The number of levels is distributed exponentially, as in Kvrocks: 1/m of the nodes of a level are in the next.
	top := int(-math.Log(1-random()) / math.Log(float64(g.m())))
	p := newPoint(g.field.Vector.Metric, v)
	self := &node{key: key, vector: v, square: p.square, linked: true}
	levels := int(g.field.Vector.Levels)
	from, err := g.descend(&p, min(top, max(levels-1, 0)))
	if err != nil {
		return err
	}
	for level := min(top, levels-1); level >= 0; level-- {
		if len(from) == 0 {
			if from, err = g.first(level); err != nil {
				return err
			}
		}
		near, err := g.search(level, &p, from, bounded(g.field.Vector.EFConstruction, maxHeld), math.Inf(-1))
		if err != nil {
			return err
		}
		if err := g.connect(level, self, near); err != nil {
			return err
		}
		from = from[:0]
		for _, n := range near {
			from = append(from, n.key)
		}
	}
	for level := levels; level <= top; level++ {
		g.put(level, self, 0)
		g.set(level, self.with(0, true, ""))
	}
	if top >= levels {
		g.setLevels(top + 1)
	}
	return nil
}

// connect writes a new node and its edges to some of the nodes that a search has found, which are sorted by distance.
//
// A node that has enough edges gives one up for that to the new node, and the new node takes it over: the node at its
// other end stays connected, and as many edges lead to it as before. So each level remains one connected graph, in
// which searches can reach every node, and only the records of nodes with room for an edge are written anew.
func (g *graph) connect(level int, self *node, near []found) error {
	key := self.key
	p := g.point(self)
	added := &change{node: self, linked: true}
	g.changes = map[string]*change{key: added}
	linked := map[string]bool{}
	link := func(c *change) {
		if !linked[c.node.key] {
			linked[c.node.key] = true
			g.edge(level, added, c, true)
		}
	}
	chosen, _ := g.diverse(near, g.m())
	for i, f := range chosen {
		c := g.changing(f.node)
		if linked[f.key] {
			continue
		}
		if limit := g.limit(level); c.degree >= limit {
			e, err := g.neighbours(level, c.node.key, c.node)
			if err != nil {
				return err
			}
			others, err := g.distances(level, c.node, e)
			if err != nil {
				return err
			}
			q := g.point(c.node)
			others = append(others, found{key: key, node: self, distance: q.to(&p)})
			slices.SortFunc(others, byDistance)
			kept, rest := g.diverse(others, limit)
			order := append(kept, rest...)
			if i > 0 && order[len(order)-1].key == key {
				continue // but the nearest node always gets an edge
			}
			for _, o := range slices.Backward(order) {
				if o.key != key && c.degree >= limit {
					other := g.changing(o.node)
					g.edge(level, c, other, false)
					link(other)
				}
			}
		}
		link(c)
	}
	g.settle(level)
	return nil
}

// distances returns the neighbours of a node that exist, with their distances from it.
func (g *graph) distances(level int, n *node, e edges) ([]found, error) {
	list := make([]visit, 0, n.degree)
	for key := range e.all() {
		list = append(list, g.visit(level, key))
	}
	if err := g.read(level, list); err != nil {
		return nil, err
	}
	others := make([]found, 0, len(list)+1)
	p := g.point(n)
	for _, v := range list {
		if v.node != nil {
			q := g.point(v.node)
			others = append(others, found{key: v.node.key, node: v.node, distance: p.to(&q)})
		}
	}
	return others, nil
}

// remove deletes the node of a key, if it exists. The nodes to which it had edges stay connected.
func (g *graph) remove(key string) error {
	for level := range int(g.field.Vector.Levels) {
		n, err := g.readOne(level, key)
		if err != nil || n == nil && level == 0 {
			return err
		}
		if n == nil {
			break
		}
		e, err := g.neighbours(level, key, n)
		if err != nil {
			return err
		}
		around, err := g.distances(level, n, e)
		if err != nil {
			return err
		}
		g.changes = map[string]*change{}
		for _, f := range around {
			g.changing(f.node)
		}
		removed := &change{node: n}
		for neighbour := range e.all() {
			c := g.changes[neighbour]
			if c == nil { // it does not exist
				c = &change{node: &node{key: neighbour}}
			}
			g.edge(level, removed, c, false)
		}
		if err := g.bridge(level, around); err != nil {
			return err
		}
		g.settle(level)
		g.tx.Delete(cf.Search, g.nodeKey(level, key))
	}
	levels := int(g.field.Vector.Levels)
	for ; levels > 0; levels-- {
		if first, err := g.first(levels - 1); err != nil || len(first) > 0 {
			g.setLevels(levels)
			return err
		}
	}
	g.setLevels(0)
	return nil
}

// bridge connects nodes that lose a common neighbour by a minimum spanning tree (Prim's algorithm).
func (g *graph) bridge(level int, nodes []found) error {
	if len(nodes) < 2 {
		return nil
	}
	points := make([]point, len(nodes))
	parent := make([]int, len(nodes)) // the nearest node of the tree
	for i := range nodes {
		points[i], nodes[i].distance = g.point(nodes[i].node), math.Inf(1)
	}
	var pairs [][2]*change
	list := g.tx.Keys()
	for last, left := 0, nodes[1:]; len(left) > 0; left = left[1:] {
		at := len(nodes) - len(left)
		best := at
		for i := at; i < len(nodes); i++ {
			if d := points[last].to(&points[i]); d < nodes[i].distance {
				nodes[i].distance, parent[i] = d, last
			}
			if nodes[i].distance < nodes[best].distance {
				best = i
			}
		}
		nodes[at], nodes[best] = nodes[best], nodes[at]
		points[at], points[best] = points[best], points[at]
		parent[at], parent[best] = parent[best], parent[at]
		last = at
		a, b := g.changes[nodes[parent[at]].key], g.changes[nodes[at].key]
		pairs = append(pairs, [2]*change{a, b})
		list.Add(cf.AppendSearchEdge(slices.Clip(g.prefix), uint16(level), []byte(a.node.key), []byte(b.node.key)))
	}
	exist, err := g.get(list)
	if err != nil {
		return err
	}
	for i, e := range pairs {
		if exist[i] == nil {
			g.edge(level, e[0], e[1], true)
		}
	}
	return nil
}

// setLevels writes the number of levels, if it changes.
func (g *graph) setLevels(n int) {
	if v := &g.field.Vector; int(v.Levels) != n {
		v.Levels = uint16(n)
		g.tx.Put(cf.Search, g.meta, g.field.Append(nil))
	}
}
