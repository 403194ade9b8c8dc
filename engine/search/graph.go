package search

import (
	"bytes"
	"cmp"
	"container/heap"
	"encoding/binary"
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
// insertion sees those before it in the same batch, and a rollback needs no care.
type graph struct {
	tx     *engine.Tx
	snap   *engine.Snapshot // nil = the present
	f      *Field
	prefix []byte           // of the keys of the records
	meta   []byte           // the key of the field's record
	field  cf.SearchField   // the field's record
	counts map[string]*node // the nodes of a level whose number of edges is changing
	query  bool             // nodes are found for their keys: they are held without their vectors
}

// node is a node of a level.
type node struct {
	key      string
	raw      []byte // the record
	distance float64
	stored   bool // raw is in the database
	edges    int  // number of edges, where it has changed
}

func (n *node) degree() int { return int(binary.BigEndian.Uint16(n.raw)) }

// graph returns the graph of a field, as of a snapshot or, with nil, of the present.
func (ix *Index) graph(tx *engine.Tx, snap *engine.Snapshot, f *Field) (*graph, error) {
	g := &graph{tx: tx, snap: snap, f: f, prefix: ix.fieldData(f),
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

func (g *graph) nodeKey(level int, key string) []byte {
	return cf.AppendSearchNode(slices.Clip(g.prefix), uint16(level), []byte(key))
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

// read reads nodes of a level, with their distances from p. Missing nodes are left out.
func (g *graph) read(level int, keys []string, p *point) ([]*node, error) {
	list := g.tx.Keys()
	for _, key := range keys {
		list.Add(g.nodeKey(level, key))
	}
	records, err := g.get(list)
	if err != nil {
		return nil, err
	}
	nodes := make([]*node, 0, len(keys))
	var v []float64
	for i, raw := range records {
		if raw == nil {
			continue
		}
		n := &node{key: keys[i], raw: raw, stored: true}
		if _, v, err = cf.DecodeSearchNodeValue(v[:0], raw); err != nil {
			continue
		}
		n.distance = p.to(v)
		nodes = append(nodes, n)
	}
	return nodes, nil
}

// point returns the vector of a node.
func (g *graph) point(n *node) point {
	_, v, _ := cf.DecodeSearchNodeValue(nil, n.raw) // read has decoded it before
	return newPoint(g.field.Vector.Metric, v)
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

// neighbours returns the keys of the nodes to which a node has edges.
func (g *graph) neighbours(level int, key string) ([]string, error) {
	return g.scan(cf.AppendSearchEdgePrefix(slices.Clip(g.prefix), uint16(level), []byte(key)), 0)
}

// first returns the first node of a level, none if it has no nodes.
func (g *graph) first(level int) ([]string, error) {
	return g.scan(cf.AppendSearchNodePrefix(slices.Clip(g.prefix), uint16(level)), 1)
}

// near is a heap of nodes, the nearest or the farthest at the top.
type near struct {
	list     []*node
	farthest bool
}

func byDistance(a, b *node) int {
	return cmp.Or(cmp.Compare(a.distance, b.distance), cmp.Compare(a.key, b.key))
}

func (h *near) Len() int           { return len(h.list) }
func (h *near) Less(i, j int) bool { return (byDistance(h.list[i], h.list[j]) < 0) != h.farthest }
func (h *near) Swap(i, j int)      { h.list[i], h.list[j] = h.list[j], h.list[i] }
func (h *near) Push(x any)         { h.list = append(h.list, x.(*node)) }
func (h *near) Pop() any {
	last := h.list[len(h.list)-1]
	h.list = h.list[:len(h.list)-1]
	return last
}

var errManyNear = engine.NewError("ERR", "too many vectors are within the range")

// search follows the edges of a level from some nodes towards p, and returns the nearest nodes that it has found, in
// order: ef of them, and all that are at most radius away.
func (g *graph) search(level int, p *point, from []string, ef int, radius float64) ([]*node, error) {
	seen := map[string]bool{}
	var explore near
	found := near{farthest: true}
	add := func(keys []string) error {
		fresh := keys[:0:0]
		for _, key := range keys {
			if !seen[key] {
				seen[key] = true
				fresh = append(fresh, key)
			}
		}
		nodes, err := g.read(level, fresh, p)
		for _, n := range nodes {
			if found.Len() >= ef && n.distance > radius && byDistance(n, found.list[0]) > 0 {
				continue
			}
			if g.query {
				n.raw = nil
			}
			heap.Push(&explore, n)
			heap.Push(&found, n)
			if found.Len() > ef && found.list[0].distance > radius {
				heap.Pop(&found)
			}
			if found.Len() > max(ef, maxSorted) {
				return errManyNear
			}
		}
		return err
	}
	err := add(from)
	for err == nil && explore.Len() > 0 {
		n := heap.Pop(&explore).(*node)
		if found.Len() >= ef && n.distance > radius && byDistance(n, found.list[0]) > 0 {
			break
		}
		var keys []string
		if keys, err = g.neighbours(level, n.key); err == nil {
			err = add(keys)
		}
	}
	slices.SortFunc(found.list, byDistance)
	return found.list, err
}

// descend returns the nodes from which a search of a level begins: it goes down to the level from the highest one.
func (g *graph) descend(p *point, level int) (from []string, err error) {
	for at := int(g.field.Vector.Levels) - 1; at >= level; at-- {
		if len(from) == 0 {
			if from, err = g.first(at); err != nil {
				return nil, err
			}
		}
		if at == level || len(from) == 0 {
			continue
		}
		found, err := g.search(at, p, from, bounded(g.field.Vector.EFRuntime, maxHeld), math.Inf(-1))
		if err != nil {
			return nil, err
		}
		if from = nil; len(found) > 0 {
			from = []string{found[0].key}
		}
	}
	return from, nil
}

// nearest returns the nodes nearest to p, and all that are at most radius away.
func (g *graph) nearest(p *point, ef int, radius float64) ([]*node, error) {
	from, err := g.descend(p, 0)
	if err != nil || len(from) == 0 {
		return nil, err
	}
	return g.search(0, p, from, ef, radius)
}

// diverse returns up to n nodes to which edges should lead from a point, of candidates that are sorted by distance:
// those that are nearer to the point than to every chosen node, and have another vector. So edges lead in all
// directions, also out of a cluster. rest are the others.
func (g *graph) diverse(candidates []*node, n int) (chosen, rest []*node) {
	var points []point
	var v []float64
	for i, c := range candidates {
		if len(chosen) == n {
			return chosen, append(rest, candidates[i:]...)
		}
		_, v, _ = cf.DecodeSearchNodeValue(v[:0], c.raw)
		if slices.ContainsFunc(points, func(p point) bool {
			return p.to(v) < c.distance || slices.Equal(p.v, v)
		}) {
			rest = append(rest, c)
		} else {
			chosen, points = append(chosen, c), append(points, g.point(c))
		}
	}
	return chosen, rest
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
		found, err := g.search(level, &p, from, bounded(g.field.Vector.EFConstruction, maxHeld), math.Inf(-1))
		if err != nil {
			return err
		}
		if err := g.connect(level, key, v, found); err != nil {
			return err
		}
		from = from[:0]
		for _, n := range found {
			from = append(from, n.key)
		}
	}
	for level := levels; level <= top; level++ {
		g.tx.Put(cf.Search, g.nodeKey(level, key), cf.AppendSearchNodeValue(nil, 0, v))
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
func (g *graph) connect(level int, key string, v []float64, found []*node) error {
	self := &node{key: key, raw: cf.AppendSearchNodeValue(nil, 0, v)}
	g.counts = map[string]*node{key: self}
	linked := map[string]bool{}
	link := func(n *node) {
		if !linked[n.key] {
			linked[n.key] = true
			g.edge(level, self, n, true)
		}
	}
	chosen, _ := g.diverse(found, g.m())
	for i, c := range chosen {
		if c = g.changing(c); linked[c.key] {
			continue
		}
		if limit := g.limit(level); c.edges >= limit {
			keys, err := g.neighbours(level, c.key)
			if err != nil {
				return err
			}
			p := g.point(c)
			near, err := g.read(level, keys, &p)
			if err != nil {
				return err
			}
			near = append(near, &node{key: key, raw: self.raw, distance: p.to(v)})
			slices.SortFunc(near, byDistance)
			kept, rest := g.diverse(near, limit)
			order := append(kept, rest...)
			if i > 0 && order[len(order)-1].key == key {
				continue // but the nearest node always gets an edge
			}
			for _, n := range slices.Backward(order) {
				if n.key != key && c.edges >= limit {
					n = g.changing(n)
					g.edge(level, c, n, false)
					link(n)
				}
			}
		}
		link(c)
	}
	g.count(level)
	return nil
}

// changing returns a node with its number of edges, for edge.
func (g *graph) changing(n *node) *node {
	if known := g.counts[n.key]; known != nil {
		return known
	}
	n.edges = n.degree()
	g.counts[n.key] = n
	return n
}

// edge writes or deletes the edge between two nodes that changing has returned.
func (g *graph) edge(level int, a, b *node, exists bool) {
	for _, end := range [2][2]*node{{a, b}, {b, a}} {
		key := cf.AppendSearchEdge(slices.Clip(g.prefix), uint16(level), []byte(end[0].key), []byte(end[1].key))
		if exists {
			g.tx.Put(cf.Search, key, nil)
			end[0].edges++
		} else {
			g.tx.Delete(cf.Search, key)
			end[0].edges--
		}
	}
}

// count writes the records of the nodes whose number of edges has changed.
func (g *graph) count(level int) {
	for _, n := range g.counts {
		if n.edges == n.degree() && n.stored {
			continue
		}
		raw := bytes.Clone(n.raw)
		binary.BigEndian.PutUint16(raw, uint16(max(0, min(n.edges, math.MaxUint16))))
		g.tx.Put(cf.Search, g.nodeKey(level, n.key), raw)
	}
	g.counts = nil
}

// remove deletes the node of a key, if it exists. The nodes to which it had edges stay connected.
func (g *graph) remove(key string) error {
	var none point // no distance matters
	for level := range int(g.field.Vector.Levels) {
		nodes, err := g.read(level, []string{key}, &none)
		if err != nil {
			return err
		}
		if len(nodes) == 0 {
			break
		}
		keys, err := g.neighbours(level, key)
		if err != nil {
			return err
		}
		near, err := g.read(level, keys, &none)
		if err != nil {
			return err
		}
		g.counts = map[string]*node{}
		for _, n := range near {
			g.changing(n)
		}
		for _, neighbour := range keys {
			n := g.counts[neighbour]
			if n == nil { // it does not exist
				n = &node{key: neighbour}
			}
			g.edge(level, nodes[0], n, false)
		}
		if err := g.bridge(level, near); err != nil {
			return err
		}
		g.count(level)
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
func (g *graph) bridge(level int, nodes []*node) error {
	if len(nodes) < 2 {
		return nil
	}
	points := make([]point, len(nodes))
	parent := make([]int, len(nodes)) // the nearest node of the tree
	for i, n := range nodes {
		points[i], n.distance = g.point(n), math.Inf(1)
	}
	var edges [][2]*node
	list := g.tx.Keys()
	for last, left := 0, nodes[1:]; len(left) > 0; left = left[1:] {
		at := len(nodes) - len(left)
		best := at
		for i := at; i < len(nodes); i++ {
			if d := points[last].to(points[i].v); d < nodes[i].distance {
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
		e := [2]*node{nodes[parent[at]], nodes[at]}
		edges = append(edges, e)
		list.Add(cf.AppendSearchEdge(slices.Clip(g.prefix), uint16(level), []byte(e[0].key), []byte(e[1].key)))
	}
	exist, err := g.get(list)
	if err != nil {
		return err
	}
	for i, e := range edges {
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
