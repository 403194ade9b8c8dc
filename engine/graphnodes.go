package engine

import (
	"math/rand/v2"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine/derived"
)

// The nodes of the graphs of search indexes are kept as derived state: package search decodes them, the transaction
// says which of them are valid. Queries read them as of a snapshot and without locks, so their rule of validity is that
// of [derived.Registry.Now]. Every record of the search family that a transaction writes, whoever made it, begins a
// change of the node that it belongs to; the end of the transaction ends the changes.
//
// A node that the transaction itself has changed is its own until the commit. A rollback forgets what it was changed
// to, and further reads see what the batch holds.

// graphChanges are the nodes that a transaction has changed.
type graphChanges struct {
	list   []changedNode
	at     map[uint64]int // index in list by hash; of several nodes with one hash the first
	hashes []uint64       // of list
	all    bool           // ranges of records were deleted
	bytes  int            // of the states in list

	hits, misses int64 // of look-ups
	keyBuf       []byte
}

// changedNode is a node that a transaction has changed. state is nil when only the records tell the node.
type changedNode struct {
	key   string
	state derived.State
	bytes int
}

// find returns a changed node. If two nodes have one hash, found is true for both, and the state of the second one is
// not known.
func (c *graphChanges) find(h uint64, key []byte) (n *changedNode, found bool) {
	i, found := c.at[h]
	if !found || c.list[i].key != string(key) {
		return nil, found
	}
	return &c.list[i], true
}

// changeNode begins the change of the node that a key of the search family belongs to, if it belongs to one.
func (tx *Tx) changeNode(key []byte) {
	k, err := cf.ParseSearchKey(key)
	if err != nil || k.Kind != cf.SearchFieldData {
		return
	}
	g, err := cf.ParseSearchGraph(k.Data)
	if err != nil {
		return // of another type of field
	}
	c := &tx.graph
	c.keyBuf = cf.AppendSearchNode(append(c.keyBuf[:0], key[:len(key)-len(k.Data)]...), g.Level, g.From)
	h := tx.db.derived.Hash(derived.Nodes, c.keyBuf)
	if n, found := c.find(h, c.keyBuf); found {
		if n != nil {
			c.set(n, nil, 0)
		}
		return
	}
	if c.at == nil {
		c.at = map[uint64]int{}
	}
	c.at[h] = len(c.list)
	c.list = append(c.list, changedNode{key: string(c.keyBuf)})
	c.hashes = append(c.hashes, h)
	tx.db.derived.BeginChange(derived.Nodes, h)
}

func (c *graphChanges) set(n *changedNode, s derived.State, bytes int) {
	c.bytes += bytes - n.bytes
	n.state, n.bytes = s, bytes
}

// changeNodes begins the change of all nodes: a range of records is deleted.
func (tx *Tx) changeNodes() {
	if !tx.graph.all {
		tx.graph.all = true
		tx.db.derived.BeginChangeAll(derived.Nodes)
	}
	tx.doubtNodes()
}

// doubtNodes forgets what nodes were changed to.
func (tx *Tx) doubtNodes() {
	c := &tx.graph
	for i := range c.list {
		c.set(&c.list[i], nil, 0)
	}
}

// nodesDone ends the changes. If they were committed the changed nodes are kept.
func (tx *Tx) nodesDone(committed bool) {
	c := &tx.graph
	r := tx.db.derived
	if c.all {
		c.all = false
		r.EndChangeAll()
	}
	if c.hits+c.misses > 0 {
		r.Count(derived.Nodes, c.hits, c.misses)
		c.hits, c.misses = 0, 0
	}
	if len(c.list) == 0 {
		return
	}
	at := r.EndChanges(c.hashes)
	if committed {
		for i := range c.list {
			if n := &c.list[i]; n.state != nil {
				r.PutAsOf(derived.Nodes, c.hashes[i], []byte(n.key), at, n.state, n.bytes)
			}
		}
	}
	*c = graphChanges{keyBuf: c.keyBuf}
}

// NodeHash returns the hash of the key of a node's record.
func (tx *Tx) NodeHash(key []byte) uint64 { return tx.db.derived.Hash(derived.Nodes, key) }

// NodeTime returns the time as of which nodes are read: that of a snapshot or, with nil, the present. The latter is for
// a transaction that keeps others from changing the graph; it takes the time before it reads.
func (tx *Tx) NodeTime(snap *Snapshot) uint64 {
	if snap != nil {
		return snap.at
	}
	return tx.db.derived.Now()
}

// FindNode returns a node as of a time, if it is kept or the transaction has changed it; nil = only the records tell
// the node. h is the hash of the key.
func (tx *Tx) FindNode(at, h uint64, key []byte) derived.State {
	if len(tx.graph.list) > 0 {
		if n, found := tx.graph.find(h, key); found {
			if n == nil {
				return nil
			}
			return n.state
		}
	}
	s := tx.db.derived.FindAsOf(derived.Nodes, h, key, at)
	if s != nil {
		tx.graph.hits++
	} else {
		tx.graph.misses++
	}
	return s
}

// readsWithoutRoom: while the registry is full, one of so many nodes that are read displaces others.
const readsWithoutRoom = 8

// KeepNode keeps a node that was read from the records as of a time, if there is room. more says that less of the node
// was kept before. The state must be immutable.
func (tx *Tx) KeepNode(at, h uint64, key []byte, s derived.State, bytes int, more bool) {
	if len(tx.graph.list) > 0 {
		if n, found := tx.graph.find(h, key); found {
			if n != nil {
				tx.setNode(n, s, bytes)
			}
			return
		}
	}
	if r := tx.db.derived; more || r.HasRoom(key, bytes) || rand.IntN(readsWithoutRoom) == 0 {
		r.PutAsOf(derived.Nodes, h, key, at, s, bytes)
	}
}

// SetNode says what the transaction has made of a node, after it has written the records.
func (tx *Tx) SetNode(h uint64, key []byte, s derived.State, bytes int) {
	if n, _ := tx.graph.find(h, key); n != nil {
		tx.setNode(n, s, bytes)
	}
}

// setNode bounds the memory of the changed nodes: a transaction may change any number of them.
func (tx *Tx) setNode(n *changedNode, s derived.State, bytes int) {
	if int64(tx.graph.bytes+bytes) > tx.db.derived.MaxState() {
		s, bytes = nil, 0
	}
	tx.graph.set(n, s, bytes)
}
