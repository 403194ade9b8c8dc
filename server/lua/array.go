package lua

import (
	"math/bits"

	vm "github.com/yuin/gopher-lua"
)

// A table of the virtual machine has an array for t[1], t[2], ..., whose last element is never nil here: nil at its end makes
// it shorter. What #t says of a table with nil in the middle depends in Lua 5.1 on how large it has made the array of the
// table. That is the capacity of the array here:
//
//   - of a constructor, the number of its elements without a key; beyond 16, rounded up to four significant bits;
//   - when t[#t+1] does not fit any more, the next power of two;
//   - when the table has no room for one more name, see rehash;
//   - when t[n] is set with n beyond that, so that there is a gap, Lua keeps the value elsewhere, mostly. The capacity is one
//     more than a power of two then, which tells such an array from others.

const (
	// maxArrayIndex is the first index that has no place in an array.
	maxArrayIndex = 1 << 22
	// smallIndex: up to it an array grows without asking, 4 KiB.
	smallIndex = 256
	// placeBytes is what a place of an array takes, with the space that is kept for more.
	placeBytes = 20
	// leastGap is the least power of two for arrays with gaps.
	leastGap = 32
)

func init() { vm.MaxArrayIndex = maxArrayIndex }

// arrayIndex returns the index that a key has in the array of a table.
func arrayIndex(key vm.LValue) (int, bool) {
	k, ok := key.(vm.LNumber)
	if !ok || !(k >= 1 && k < maxArrayIndex) {
		return 0, false
	}
	n := int(k)
	return n, vm.LNumber(n) == k
}

func powerOfTwo(n int) int { return 1 << bits.Len(uint(n-1)) }

// setIndex sets t[n], for 1 <= n < maxArrayIndex, without metamethods. What the array takes is charged before it grows.
func setIndex(L *vm.LState, t *vm.LTable, n int, value vm.LValue) {
	c := contentsOf(t)
	length := len(c.array)
	switch {
	case n < length || n == length && value != vm.LNil:
		c.array[n-1] = value
	case n == length:
		c.array[n-1] = nil // so that the place behind the end does not hold it
		for n--; n > 0 && c.array[n-1] == vm.LNil; n-- {
			c.array[n-1] = nil
		}
		c.array = c.array[:n]
	case value == vm.LNil: // there is nothing
	case n <= cap(c.array):
		c.array = c.array[:n]
		for i := length; i < n-1; i++ {
			c.array[i] = vm.LNil
		}
		c.array[n-1] = value
	default:
		size := powerOfTwo(n)
		switch {
		case length == 0 && n > 1 && n == cap(c.array)+1: // a constructor whose elements without a key come later
			size = n
		case n > length+1:
			size = max(size, leastGap) + 1
		}
		if size > smallIndex {
			charge(L, (size-length)*placeBytes)
		}
		grow(c, n, size)
		c.array[n-1] = value
	}
}

// grow makes an array of n places, nil where there was none, with room for size.
func grow(c *contents, n, size int) {
	array := make([]vm.LValue, n, size)
	for i := copy(array, c.array); i < n; i++ {
		array[i] = vm.LNil
	}
	c.array = array
}

// appendList sets t[after+1], t[after+2], ... of a constructor.
func appendList(L *vm.LState, t *vm.LTable, after int, values []vm.LValue) {
	c := contentsOf(t)
	n := after + len(values)
	if n > cap(c.array) {
		if n > smallIndex {
			charge(L, n*placeBytes)
		}
		grow(c, n, n)
	} else {
		length := len(c.array)
		c.array = c.array[:max(n, length)]
		for i := length; i < after; i++ {
			c.array[i] = vm.LNil
		}
	}
	copy(c.array[after:], values)
	trim(c)
}

// setKey sets t[key] for a key that has no place in an array, without metamethods. Where there is no room for one more key,
// Lua makes the whole table anew; the room is the capacity of the list of keys.
func setKey(t *vm.LTable, key, value vm.LValue) {
	c := contentsOf(t)
	if value != vm.LNil && len(c.keys) == cap(c.keys) && len(c.array) > 0 {
		if _, ok := c.k2i[key]; !ok {
			rehash(c)
		}
	}
	t.RawSet(key, value)
}

// rehash gives an array the size that Lua 5.1 gives it when it makes the table anew: the largest power of two of whose places
// more than half are taken. What is behind it is in a gap then.
func rehash(c *contents) {
	size, taken := 0, 0
	i := 0
	for most := 1; most/2 < len(c.array); most *= 2 {
		for ; i < most && i < len(c.array); i++ {
			if c.array[i] != vm.LNil {
				taken++
			}
		}
		if taken > most/2 {
			size = most
		}
	}
	n := len(c.array)
	if size < n {
		size = max(powerOfTwo(n), leastGap) + 1
	}
	if size != cap(c.array) {
		grow(c, n, size)
	}
}

// trim takes nil from the end of an array.
func trim(c *contents) {
	n := len(c.array)
	for n > 0 && (c.array[n-1] == vm.LNil || c.array[n-1] == nil) {
		n--
		c.array[n] = nil
	}
	c.array = c.array[:n]
}

// border is #t without metamethods: an index n with t[n] ~= nil and t[n+1] == nil, or 0, by the search of Lua 5.1.
func border(t *vm.LTable) int {
	c := contentsOf(t)
	if n := len(c.array); n > 0 && c.array[n-1] == vm.LNil { // a function of the virtual machine has left it
		trim(c)
	}
	array := c.array
	n, size := len(array), cap(array)
	if n == size {
		return n
	}
	present := func(i int) bool { return i <= n && array[i-1] != vm.LNil }
	i, j := 0, size
	if size > leastGap && size == powerOfTwo(size-1)+1 {
		for j = 1; present(j); j *= 2 {
			i = j
		}
	} else if n == 0 {
		return 0
	}
	for j-i > 1 {
		if m := (i + j) / 2; present(m) {
			i = m
		} else {
			j = m
		}
	}
	return i
}

// nextKey returns the key after another one, and its value; nil after the last one. ok is false when the table never had the
// key: a loop may take away what it comes by.
func nextKey(t *vm.LTable, key vm.LValue) (k, v vm.LValue, ok bool) {
	c := contentsOf(t)
	i, at := 0, 0
	if n, isIndex := arrayIndex(key); isIndex {
		if n > cap(c.array) {
			return nil, nil, false
		}
		i = n
	} else if key != vm.LNil {
		if at, ok = c.k2i[key]; !ok {
			return nil, nil, false
		}
		i = len(c.array)
		at++
	}
	for ; i < len(c.array); i++ {
		if v := c.array[i]; v != vm.LNil {
			return number(float64(i + 1)), v, true
		}
	}
	for ; at < len(c.keys); at++ {
		if v := t.RawGetH(c.keys[at]); v != vm.LNil {
			return c.keys[at], v, true
		}
	}
	return vm.LNil, vm.LNil, true
}
