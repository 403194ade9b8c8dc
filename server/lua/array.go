package lua

import (
	"iter"
	"math/bits"
	"slices"

	vm "github.com/yuin/gopher-lua"
)

// A table has an array for t[1], t[2], ... and a hash table for the other keys. The size of the array follows the rules
// of Lua 5.1, because #t of a table with holes, and the order of pairs, depend on it: the size is the capacity of the
// array here. The last element of the array is never nil: all places from its length on are.
//
// The elements of the array and the values of other keys are in the virtual machine's fields, except that positive
// integers without a place in the array are stored among the other keys.

const (
	maxArrayBits = 26
	maxArray     = 1 << maxArrayBits // places
	// smallArray is the size up to which an array grows without a memory check: 4 KiB.
	smallArray = 256
	// placeBytes is the memory of an array place, including reserved capacity.
	placeBytes = 20
)

// nodesKey is the key under which a table stores its nodes, among its keys that are not strings. Scripts cannot access
// it.
var nodesKey = &vm.LUserData{}

// arrayIndex returns key as an integer, if an array could have a place for it.
func arrayIndex(key vm.LValue) (int, bool) {
	k, ok := key.(vm.LNumber)
	if !ok || !(k >= 1 && k <= maxArray) {
		return 0, false
	}
	n := int(k)
	return n, vm.LNumber(n) == k
}

func powerOfTwo(n int) int { return 1 << bits.Len(uint(n-1)) }

// newTable returns a table with array places, and with nodes for others keys.
func newTable(array, others int) *vm.LTable {
	t := tables.CreateTable(array, 0)
	if others > 0 {
		c := contentsOf(t)
		c.strdict = make(map[string]vm.LValue, others)
		c.keys = make([]vm.LValue, 0, powerOfTwo(others))
	}
	return t
}

// tables creates tables: that needs no state, but is a method of one.
var tables vm.LState

// hash returns the nodes of a table. While they are nil, the table has never lost a key, and keys holds all keys
// without a place in the array, in insertion order. The nodes can be computed from that and from the size of the
// constructor, see began; a table with an array has not been rehashed since.
func (c *contents) hash() *hashPart {
	if c.dict == nil {
		return nil
	}
	if u, ok := c.dict[nodesKey].(*vm.LUserData); ok {
		return u.Value.(*hashPart)
	}
	return nil
}

// began returns the number of keys for which a table without nodes was created. That is the capacity of keys. If it was
// 0 and keys exist, the capacity is one less than a power of two, from 3 on.
func (c *contents) began() int {
	if n := cap(c.keys); n&(n-1) == 0 {
		return n
	}
	return 0
}

// note appends a key to those of a table without nodes, if the nodes can still be computed from them.
func (c *contents) note(key vm.LValue) bool {
	began := c.began()
	if _, ok := arrayIndex(key); ok || len(c.keys) >= began && (began > 0 || cap(c.array) > 0) {
		return false
	}
	if len(c.keys) == cap(c.keys) {
		keys := make([]vm.LValue, len(c.keys), max(3, 2*cap(c.keys)+1))
		copy(keys, c.keys)
		c.keys = keys
	}
	c.keys = append(c.keys, key)
	return true
}

// open returns the nodes of a table, or new ones, which are not stored yet.
func (c *contents) open() *hashPart {
	if h := c.hash(); h != nil {
		return h
	}
	h := &hashPart{full: true}
	h.allocate(c.began())
	for _, key := range c.keys {
		h.add(nil, c, key, hashKey(key))
	}
	h.full = false
	return h
}

// keep stores the nodes of a table.
func (c *contents) keep(h *hashPart) {
	if c.keys, c.k2i = nil, nil; len(h.nodes) == 0 {
		return
	}
	if c.dict == nil {
		c.dict = map[vm.LValue]vm.LValue{}
	}
	if _, ok := c.dict[nodesKey]; !ok {
		c.dict[nodesKey] = &vm.LUserData{Value: h}
	}
}

// other returns the value of a key without a place in the array.
func (c *contents) other(key vm.LValue) (v vm.LValue) {
	if s, ok := key.(vm.LString); ok {
		v = c.strdict[string(s)]
	} else {
		v = c.dict[key]
	}
	if v == nil {
		return vm.LNil
	}
	return v
}

// put sets the value of a key without a place in the array. The caller handles the nodes.
func (c *contents) put(key, value vm.LValue) {
	if s, ok := key.(vm.LString); ok {
		if c.strdict == nil {
			c.strdict = map[string]vm.LValue{}
		}
		c.strdict[string(s)] = value
		return
	}
	if c.dict == nil {
		c.dict = map[vm.LValue]vm.LValue{}
	}
	c.dict[key] = value
}

// rawGet returns t[key], without metamethods.
func rawGet(t *vm.LTable, key vm.LValue) vm.LValue {
	c := contentsOf(t)
	if n, ok := arrayIndex(key); ok && n <= len(c.array) {
		return c.array[n-1]
	}
	return c.other(key)
}

// rawGetInt returns t[n], without metamethods.
func rawGetInt(t *vm.LTable, n int) vm.LValue {
	c := contentsOf(t)
	if uint(n-1) < uint(len(c.array)) {
		return c.array[n-1]
	}
	if len(c.dict) == 0 {
		return vm.LNil
	}
	return c.other(vm.LNumber(n))
}

// store sets t[key] for a valid key, without metamethods. It charges memory to L unless L is nil.
func store(L *vm.LState, t *vm.LTable, key, value vm.LValue) {
	if n, ok := arrayIndex(key); ok {
		setIndex(L, t, n, value)
	} else {
		setKey(L, contentsOf(t), key, value)
	}
}

// storeInt is store for a key n >= 1.
func storeInt(L *vm.LState, t *vm.LTable, n int, value vm.LValue) {
	if n <= maxArray {
		setIndex(L, t, n, value)
	} else {
		store(L, t, vm.LNumber(n), value)
	}
}

// storeName sets a field of a table of the server.
func storeName(t *vm.LTable, name string, value vm.LValue) { store(nil, t, vm.LString(name), value) }

// setIndex is store for 1 <= n <= maxArray.
func setIndex(L *vm.LState, t *vm.LTable, n int, value vm.LValue) {
	c := contentsOf(t)
	switch length := len(c.array); {
	case n == cap(c.array)+1 && n == length+1 && value != vm.LNil && c.dict == nil && cap(c.keys) == 0 &&
		!slices.ContainsFunc(c.array, isNil): // the table has only a full array
		growArray(L, c, powerOfTwo(n)) // as rehash would
		setPlace(c, n, value)
	case n > cap(c.array):
		setKey(L, c, vm.LNumber(n), value)
	case value != vm.LNil:
		setPlace(c, n, value)
	case n < length:
		c.array[n-1] = value
	case n == length:
		c.array[n-1] = value
		trim(c)
	}
}

// addField is storeName for a key that the table probably does not have.
func addField(t *vm.LTable, key, value vm.LValue) {
	c := contentsOf(t)
	name := string(key.(vm.LString))
	if isNil(value) || c.dict != nil {
		store(nil, t, key, value)
		return
	}
	if c.strdict == nil {
		c.strdict = map[string]vm.LValue{}
	}
	n := len(c.strdict)
	if c.strdict[name] = value; len(c.strdict) > n && !c.note(key) {
		delete(c.strdict, name)
		store(nil, t, key, value)
	}
}

func setPlace(c *contents, n int, value vm.LValue) {
	if length := len(c.array); n > length {
		c.array = c.array[:n]
		for i := length; i < n-1; i++ {
			c.array[i] = vm.LNil
		}
	}
	c.array[n-1] = value
}

// setKey is store for a key without a place in the array.
func setKey(L *vm.LState, c *contents, key, value vm.LValue) {
	if c.other(key) != vm.LNil {
		if value != vm.LNil {
			c.put(key, value)
			return
		}
		c.keep(c.open())
		if s, ok := key.(vm.LString); ok {
			delete(c.strdict, string(s))
		} else {
			delete(c.dict, key)
		}
		return
	}
	h := c.hash()
	if h == nil {
		if value != vm.LNil && c.note(key) {
			c.put(key, value)
			return
		}
		h = c.open()
	}
	inArray := false
	if h.find(key) < 0 { // Lua adds a node even for a nil value
		inArray = h.add(L, c, key, hashKey(key))
	}
	c.keep(h)
	switch {
	case value == vm.LNil:
	case inArray:
		setPlace(c, int(key.(vm.LNumber)), value)
	default:
		c.put(key, value)
	}
}

// growArray adds places to the array of a table and charges their memory.
func growArray(L *vm.LState, c *contents, places int) {
	if places > smallArray && L != nil {
		charge(L, (places-cap(c.array))*placeBytes)
	}
	array := make([]vm.LValue, len(c.array), places)
	copy(array, c.array)
	c.array = array
}

// appendList sets t[after+1], t[after+2], ... for a constructor.
func appendList(L *vm.LState, t *vm.LTable, after int, values []vm.LValue) {
	c := contentsOf(t)
	n := after + len(values)
	if n > cap(c.array) {
		if len(c.keys) > 0 || c.hash() != nil { // it is made anew, so the order may change
			h := c.open()
			h.resize(L, c, n, len(h.nodes))
			c.keep(h)
		} else {
			growArray(L, c, n)
		}
	}
	for i, v := range values {
		setIndex(L, t, after+i+1, v)
	}
}

// trim takes nil from the end of an array.
func trim(c *contents) {
	n := len(c.array)
	for n > 0 && (c.array[n-1] == vm.LNil || c.array[n-1] == nil) {
		n--
		c.array[n] = nil // so that the place does not hold it
	}
	c.array = c.array[:n]
}

// border is #t without metamethods: an index n with t[n] ~= nil and t[n+1] == nil, or 0, by the search of Lua 5.1.
func border(t *vm.LTable) int {
	c := contentsOf(t)
	if n := len(c.array); n > 0 && c.array[n-1] == vm.LNil { // the virtual machine makes the table arg of a function
		trim(c)
	}
	n, size := len(c.array), cap(c.array)
	if n < size { // the last place is nil
		return search(0, size, func(i int) bool { return i <= n && c.array[i-1] != vm.LNil })
	}
	if len(c.dict) == 0 { // so there are no integers in nodes
		return size
	}
	i, j := size, size+1
	present := func(i int) bool { return c.other(vm.LNumber(i)) != vm.LNil }
	for present(j) {
		i = j
		if j *= 2; j > 1<<31-1 { // made on purpose
			for i = 1; rawGetInt(t, i) != vm.LNil; i++ {
			}
			return i - 1
		}
	}
	return search(i, j, func(i int) bool { return rawGetInt(t, i) != vm.LNil })
}

// search returns an index from i to before j behind which there is none, where that of i is there or 0, and that of j
// not.
func search(i, j int, present func(int) bool) int {
	for j-i > 1 {
		if m := (i + j) / 2; present(m) {
			i = m
		} else {
			j = m
		}
	}
	return i
}

// nextKey returns the key after another one, and its value; nil after the last one. ok is false when the table never
// had the key: a loop may take away what it comes by.
func nextKey(t *vm.LTable, key vm.LValue) (k, v vm.LValue, ok bool) {
	c := contentsOf(t)
	h := c.hash()
	i, at := 0, 0
	if n, isIndex := arrayIndex(key); isIndex && n <= cap(c.array) {
		i = n
	} else if key != vm.LNil {
		i = len(c.array)
		if h == nil && len(c.keys) == 1 && c.keys[0] == key {
			return vm.LNil, vm.LNil, true
		}
		if h == nil {
			h = c.open()
			c.keep(h)
		}
		if at = h.find(key); at < 0 {
			return nil, nil, false
		}
		at++
	}
	for ; i < len(c.array); i++ {
		if v := c.array[i]; v != vm.LNil {
			return number(float64(i + 1)), v, true
		}
	}
	if h == nil {
		switch len(c.keys) {
		case 0:
			return vm.LNil, vm.LNil, true
		case 1: // there is no order
			return c.keys[0], c.other(c.keys[0]), true
		}
		h = c.open()
		c.keep(h)
	}
	for ; at < len(h.nodes); at++ {
		if k := h.nodes[at].key; k != nil {
			if v := c.other(k); v != vm.LNil {
				h.last = at
				return k, v, true
			}
		}
	}
	return vm.LNil, vm.LNil, true
}

// pairs goes through a table in the order of nextKey. The table must not be changed meanwhile.
func pairs(t *vm.LTable) iter.Seq2[vm.LValue, vm.LValue] {
	c := contentsOf(t)
	return func(yield func(key, value vm.LValue) bool) {
		for i, v := range c.array {
			if v != vm.LNil && !yield(number(float64(i+1)), v) {
				return
			}
		}
		h := c.hash()
		if h == nil {
			if len(c.keys) == 1 { // there is no order
				yield(c.keys[0], c.other(c.keys[0]))
			}
			if len(c.keys) < 2 {
				return
			}
			h = c.open()
			c.keep(h)
		}
		h.each(c, yield)
	}
}

// each goes through a table and leaves it as it is, unlike pairs, which makes its nodes. The keys that have no place
// in the array come in the order of the nodes if the table has nodes, otherwise in the order in which they were added.
func each(t *vm.LTable) iter.Seq2[vm.LValue, vm.LValue] {
	c := contentsOf(t)
	return func(yield func(key, value vm.LValue) bool) {
		for i, v := range c.array {
			if v != vm.LNil && !yield(number(float64(i+1)), v) {
				return
			}
		}
		if h := c.hash(); h != nil {
			h.each(c, yield)
			return
		}
		for _, k := range c.keys {
			if !yield(k, c.other(k)) {
				return
			}
		}
	}
}

// setInt sets t[n] without metamethods.
func setInt(L *vm.LState, t *vm.LTable, n int, value vm.LValue) {
	if isReadOnly(t) {
		raiseReadOnly(L)
	}
	store(L, t, vm.LNumber(n), value)
}
