package lua

import (
	"math"
	"math/bits"
	"unsafe"

	vm "github.com/yuin/gopher-lua"
)

// The order in which pairs visits the keys of a table is that of Lua's hash table, and so is the output of
// cjson.encode. The order depends on the keys, on their insertion order, and on the sizes that the table has had. To
// have the same order, the hash table is built as in Lua 5.1 (ltable.c): an array of nodes, whose length is a power of
// two. Each key has a main position. If that is taken by a key in its own main position, the new key gets the last free
// node; otherwise the other key is moved there. If no node is free, the whole table is rebuilt, see rehash.
//
// The nodes hold only the keys: the values are in the maps of the virtual machine. Most tables are never traversed, so
// they have no nodes, but a list of their keys in insertion order, see contents.hash.

// hashPart is the hash part of a table in Lua.
type hashPart struct {
	nodes []node
	free  int // all nodes from here on are taken
	last  int // the node that the traversal visited last
	// full says that all keys have values, so that no value needs to be looked up.
	full bool
}

type node struct {
	key  vm.LValue // nil of a free one
	hash keyHash
	next int32 // next node of the same main position, or of a key that was moved; -1 = none
}

// keyHash determines the main position of a key.
type keyHash struct {
	n      uint32
	modulo bool // modulo a number that is not a power of two
}

func hashKey(key vm.LValue) keyHash {
	switch k := key.(type) {
	case vm.LString:
		return keyHash{n: hashString(string(k))}
	case vm.LNumber:
		if k == 0 { // -0 too
			return keyHash{modulo: true}
		}
		b := math.Float64bits(float64(k))
		return keyHash{uint32(b) + uint32(b>>32), true}
	case vm.LBool:
		if k {
			return keyHash{n: 1}
		}
		return keyHash{}
	case *vm.LTable:
		return hashPointer(unsafe.Pointer(k))
	case *vm.LFunction:
		return hashPointer(unsafe.Pointer(k))
	case *vm.LState:
		return hashPointer(unsafe.Pointer(k))
	}
	return keyHash{modulo: true} // cjson.null, a null pointer in Redis
}

// hashPointer hashes the address of a table, as Lua does; there the order is unpredictable, too.
func hashPointer(p unsafe.Pointer) keyHash { return keyHash{uint32(uintptr(p)), true} }

// hashString is the hash function of Lua 5.1, except that it uses every byte even of long strings, as in Redis.
func hashString(s string) uint32 {
	h := uint32(len(s))
	for i := len(s) - 1; i >= 0; i-- {
		h ^= h<<5 + h>>2 + uint32(s[i])
	}
	return h
}

// allocate allocates nodes for a number of keys.
func (h *hashPart) allocate(size int) {
	h.nodes, h.free = nil, 0
	if size > 0 {
		h.nodes = make([]node, powerOfTwo(size))
		h.free = len(h.nodes)
		for i := range h.nodes {
			h.nodes[i].next = -1
		}
	}
}

func (h *hashPart) position(k keyHash) int {
	size := uint32(len(h.nodes))
	if k.modulo {
		return int(k.n % ((size - 1) | 1))
	}
	return int(k.n & (size - 1))
}

// find returns the node of a key, -1 if it has none.
func (h *hashPart) find(key vm.LValue) int {
	if h.last < len(h.nodes) && h.nodes[h.last].key == key {
		return h.last
	}
	if len(h.nodes) == 0 {
		return -1
	}
	hash := hashKey(key)
	for i := h.position(hash); i >= 0; i = int(h.nodes[i].next) {
		if n := &h.nodes[i]; n.hash == hash && n.key == key {
			return i
		}
	}
	return -1
}

func (h *hashPart) live(c *contents, n *node) bool {
	return n.key != nil && (h.full || c.other(n.key) != vm.LNil)
}

// add adds a node for a key without one. inArray says that the table was rebuilt and the key now has a place in the
// array instead. Memory and time are charged to L unless it is nil.
func (h *hashPart) add(L *vm.LState, c *contents, key vm.LValue, hash keyHash) (inArray bool) {
	at := -1
	if len(h.nodes) > 0 {
		at = h.position(hash)
	}
	if at < 0 || h.live(c, &h.nodes[at]) {
		free := h.takeFree()
		if free < 0 {
			h.rehash(L, c, key)
			if n, ok := arrayIndex(key); ok && n <= cap(c.array) {
				return true
			}
			return h.add(L, c, key, hash)
		}
		if main := h.position(h.nodes[at].hash); main != at {
			for int(h.nodes[main].next) != at {
				main = int(h.nodes[main].next)
			}
			h.nodes[main].next = int32(free)
			h.nodes[free] = h.nodes[at]
			h.nodes[at].next = -1
		} else {
			h.nodes[free].next = h.nodes[at].next
			h.nodes[at].next = int32(free)
			at = free
		}
	}
	n := &h.nodes[at]
	n.key, n.hash = key, hash
	return false
}

func (h *hashPart) takeFree() int {
	for h.free > 0 {
		h.free--
		if h.nodes[h.free].key == nil {
			return h.free
		}
	}
	return -1
}

// indexCounts are the numbers of keys from 2^(i-1)+1 to 2^i.
type indexCounts [maxArrayBits + 1]int

// countIndex counts a key that could be in an array and returns 1 for it, otherwise 0.
func (n *indexCounts) countIndex(key vm.LValue) int {
	if k, ok := arrayIndex(key); ok {
		n[bits.Len(uint(k-1))]++
		return 1
	}
	return 0
}

// rehash rebuilds a table with room for one more key: the array gets the largest power of two of places more than half
// of which are used; the other keys get nodes.
func (h *hashPart) rehash(L *vm.LState, c *contents, key vm.LValue) {
	var counts indexCounts
	indexes := 0
	for i, v := range c.array {
		if v != vm.LNil {
			counts[bits.Len(uint(i))]++
			indexes++
		}
	}
	all := indexes
	for i := range h.nodes {
		if n := &h.nodes[i]; h.live(c, n) {
			indexes += counts.countIndex(n.key)
			all++
		}
	}
	indexes += counts.countIndex(key)
	all++

	array, inArray, below := 0, 0, 0
	for i, size := 0, 1; size/2 < indexes; i, size = i+1, size*2 {
		if counts[i] > 0 {
			if below += counts[i]; below > size/2 {
				array, inArray = size, below
			}
		}
		if below == indexes {
			break
		}
	}
	h.resize(L, c, array, all-inArray)
}

// nodeBytes is the size of a node.
const nodeBytes = 32

// resize sets the size of the array and allocates nodes for a number of keys.
func (h *hashPart) resize(L *vm.LState, c *contents, array, nodes int) {
	if L != nil && nodes+len(h.nodes) > smallArray {
		work(L, (nodes+len(h.nodes)+len(c.array))/16)
		if nodes > 0 {
			charge(L, powerOfTwo(nodes)*nodeBytes)
		}
	}
	if array > cap(c.array) {
		growArray(L, c, array)
	}
	old, full := h.nodes, h.full
	h.allocate(nodes)
	h.full = true // those that are added have values
	if was := c.array; array < cap(was) {
		c.array = make([]vm.LValue, min(len(was), array), array)
		copy(c.array, was)
		trim(c)
		for i := array; i < len(was); i++ {
			if v := was[i]; v != vm.LNil {
				key := vm.LNumber(i + 1)
				h.add(nil, c, key, hashKey(key))
				c.put(key, v)
			}
		}
	}
	for i := len(old) - 1; i >= 0; i-- {
		key := old[i].key
		if key == nil {
			continue
		}
		v := c.other(key)
		if v == vm.LNil {
			continue
		}
		if n, ok := arrayIndex(key); ok && n <= array {
			delete(c.dict, key)
			setPlace(c, n, v)
			continue
		}
		h.add(nil, c, key, old[i].hash)
	}
	h.full = full
}

// each calls yield for each key with a value, until yield returns false.
func (h *hashPart) each(c *contents, yield func(key, value vm.LValue) bool) {
	for i := range h.nodes {
		if k := h.nodes[i].key; k != nil {
			if v := c.other(k); v != vm.LNil && !yield(k, v) {
				return
			}
		}
	}
}
