package search

import (
	"cmp"
	"encoding/binary"
	"iter"
	"math"
	"slices"
	"strings"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine/derived"
)

// node is a node of a level, decoded. It is immutable: transactions share the nodes that the engine keeps, see
// FindNode of engine.Tx.
type node struct {
	derived.Entry
	vector []float64
	square float64 // the inner product of vector with itself
	key    string
	degree int  // how many edges its record counts
	linked bool // edges is known
	edges  edges
}

// edges are the keys of the neighbours of a node, each behind its length as a varint, in the order of the records.
type edges string

func (e edges) all() iter.Seq[string] {
	return func(yield func(string) bool) {
		for len(e) > 0 {
			n, size := int(e[0]), 1
			if n >= 0x80 { // few keys are so long
				var long uint64
				long, size = binary.Uvarint([]byte(e[:min(len(e), binary.MaxVarintLen64)]))
				n = int(long)
			}
			if !yield(string(e[size : size+n])) {
				return
			}
			e = e[size+n:]
		}
	}
}

func encode(keys []string) edges {
	var b []byte
	for _, key := range keys {
		b = append(binary.AppendUvarint(b, uint64(len(key))), key...)
	}
	return edges(b)
}

// byRecord compares keys as the records of edges are sorted.
func byRecord(a, b string) int { return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b)) }

// decodeNode decodes the record of a node.
func decodeNode(key string, raw []byte) (*node, error) {
	degree, v, err := cf.DecodeSearchNodeValue(nil, raw)
	if err != nil {
		return nil, err
	}
	return &node{key: strings.Clone(key), vector: v, square: dot(v, v), degree: int(degree)}, nil
}

func (n *node) with(degree int, linked bool, e edges) *node {
	return &node{key: n.key, vector: n.vector, square: n.square, degree: degree, linked: linked, edges: e}
}

// size returns the approximate memory of a node in bytes, beside its bookkeeping.
func (n *node) size() int { return 96 + 8*cap(n.vector) + len(n.edges) + len(n.key) }

// point returns the node's vector for distances.
func (g *graph) point(n *node) point { return point{g.field.Vector.Metric, n.vector, n.square} }

// visit is a node that is looked up.
type visit struct {
	key  string
	hash uint64 // of the node's key
	node *node  // nil = it does not exist
}

func (g *graph) visit(level int, key string) visit {
	return visit{key: key, hash: g.tx.NodeHash(g.nodeKey(level, key))}
}

// nodeKey returns the key of a node's record, valid until the next call.
func (g *graph) nodeKey(level int, key string) []byte {
	b := cf.AppendSearchNodePrefix(append(g.keyBuf[:0], g.prefix...), uint16(level))
	b = binary.BigEndian.AppendUint32(b, uint32(len(key)))
	g.keyBuf = append(b, key...)
	return g.keyBuf
}

// find looks for a node in memory.
func (g *graph) find(level int, v *visit) *node {
	if c := g.changes[v.key]; c != nil {
		return c.node
	}
	n, _ := g.tx.FindNode(g.at, v.hash, g.nodeKey(level, v.key)).(*node)
	return n
}

// keep keeps a node in memory if there is room; more says that its vector is there already.
func (g *graph) keep(level int, hash uint64, n *node, more bool) {
	g.tx.KeepNode(g.at, hash, g.nodeKey(level, n.key), n, n.size(), more)
}

func (g *graph) read(level int, list []visit) error {
	missing := g.missing[:0]
	for i := range list {
		if list[i].node = g.find(level, &list[i]); list[i].node == nil {
			missing = append(missing, i)
		}
	}
	for i := range list { // all at once: each of them waits for the memory
		if n := list[i].node; n != nil && len(n.vector) > 0 {
			g.touched += n.vector[0] + n.vector[len(n.vector)/2]
		}
	}
	if g.missing = missing; len(missing) == 0 {
		return nil
	}
	keys := g.tx.Keys()
	for _, i := range missing {
		keys.Add(g.nodeKey(level, list[i].key))
	}
	records, err := g.get(keys)
	if err != nil {
		return err
	}
	for j, i := range missing {
		if records[j] == nil {
			continue
		}
		n, err := decodeNode(list[i].key, records[j])
		if err != nil {
			continue // what cannot be read is as what does not exist
		}
		list[i].node = n
		g.keep(level, list[i].hash, n, false)
	}
	return nil
}

func (g *graph) readOne(level int, key string) (*node, error) {
	list := []visit{g.visit(level, key)}
	err := g.read(level, list)
	return list[0].node, err
}

// neighbours returns the keys of the nodes to which a node has edges. n is the node, nil if the caller does not have
// it.
func (g *graph) neighbours(level int, key string, n *node) (edges, error) {
	c := g.changes[key]
	switch {
	case c != nil && c.linked:
		return encode(c.edges), nil
	case c == nil && n != nil && n.linked:
		return n.edges, nil
	}
	v := g.visit(level, key)
	var kept *node
	if c == nil {
		if kept = g.find(level, &v); kept != nil && kept.linked {
			return kept.edges, nil
		}
		n = cmp.Or(kept, n)
	}
	keys, err := g.scan(cf.AppendSearchEdgePrefix(slices.Clip(g.prefix), uint16(level), []byte(key)), 0)
	if err != nil {
		return "", err
	}
	e := encode(keys)
	switch {
	case c != nil:
		c.linked, c.edges = true, keys
	case n != nil:
		g.keep(level, v.hash, n.with(n.degree, true, e), kept != nil)
	}
	return e, nil
}

// change is a node whose edges are changing.
type change struct {
	node   *node
	stored bool // the node has a record
	degree int
	linked bool // edges is known
	edges  []string
}

// changing returns a node for edge.
func (g *graph) changing(n *node) *change {
	if c := g.changes[n.key]; c != nil {
		return c
	}
	c := &change{node: n, stored: true, degree: n.degree, linked: n.linked}
	if n.linked {
		c.edges = slices.AppendSeq(make([]string, 0, n.degree+1), n.edges.all())
	}
	g.changes[n.key] = c
	return c
}

// edge writes or deletes the edge between two nodes that changing has returned.
func (g *graph) edge(level int, a, b *change, exists bool) {
	for _, end := range [2][2]*change{{a, b}, {b, a}} {
		from, to := end[0], end[1].node.key
		key := cf.AppendSearchEdge(slices.Clip(g.prefix), uint16(level), []byte(from.node.key), []byte(to))
		i, found := slices.BinarySearchFunc(from.edges, to, byRecord)
		if exists {
			g.tx.Put(cf.Search, key, nil)
			from.degree++
			if from.linked && !found {
				from.edges = slices.Insert(from.edges, i, to)
			}
		} else {
			g.tx.Delete(cf.Search, key)
			from.degree--
			if from.linked && found {
				from.edges = slices.Delete(from.edges, i, i+1)
			}
		}
	}
}

// settle writes the records of the nodes whose number of edges has changed, and ends the changes of a level.
func (g *graph) settle(level int) {
	for _, c := range g.changes {
		degree := max(0, min(c.degree, math.MaxUint16))
		if degree != c.node.degree || !c.stored {
			g.put(level, c.node, degree)
		}
		g.set(level, c.node.with(degree, c.linked, encode(c.edges)))
	}
	g.changes = nil
}

// put writes the record of a node.
func (g *graph) put(level int, n *node, degree int) {
	g.tx.Put(cf.Search, g.nodeKey(level, n.key), cf.AppendSearchNodeValue(nil, uint16(degree), n.vector))
}

// set says what has become of a node whose records the transaction has written.
func (g *graph) set(level int, n *node) {
	v := g.visit(level, n.key)
	g.tx.SetNode(v.hash, g.nodeKey(level, n.key), n, n.size())
}
