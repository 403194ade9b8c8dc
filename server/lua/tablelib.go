package lua

import (
	vm "github.com/yuin/gopher-lua"
)

func openTable(st *state, L *vm.LState) {
	st.library(L, "table", map[string]vm.LGFunction{
		"concat": tableConcat, "foreach": tableForEach, "foreachi": tableForEachI, "getn": tableGetN, "insert": tableInsert,
		"maxn": tableMaxN, "remove": tableRemove, "setn": tableSetN, "sort": tableSort,
	}, nil)
}

func tableGetN(L *vm.LState) int { return pushInt(L, border(real(checkTable(L, 1)))) }

func tableSetN(L *vm.LState) int {
	real(checkTable(L, 1))
	raise(L, "'setn' is obsolete")
	return 0
}

func tableMaxN(L *vm.LState) int {
	most := vm.LNumber(0)
	t := real(checkTable(L, 1))
	for k := range pairs(t) {
		if n, ok := k.(vm.LNumber); ok && n > most {
			most = n
		}
	}
	return push(L, most)
}

func tableInsert(L *vm.LState) int {
	t := checkTable(L, 1)
	e := border(t) + 1
	switch L.GetTop() {
	case 2:
		setInt(L, t, e, L.Get(2))
	case 3:
		pos := checkInt32(L, 2)
		e = max(e, pos)
		for i := e; i > pos; i-- { // pos may be far below 1
			if i&63 == 0 {
				work(L, 16)
			}
			setInt(L, t, i, rawGetInt(t, i-1))
		}
		setInt(L, t, pos, L.Get(3))
	default:
		raise(L, "wrong number of arguments to 'insert'")
	}
	return 0
}

func tableRemove(L *vm.LState) int {
	t := real(checkTable(L, 1))
	e := border(t)
	pos := optInt32(L, 2, e)
	if pos < 1 || pos > e {
		return 0
	}
	L.Push(rawGetInt(t, pos))
	work(L, (e-pos)/4)
	for ; pos < e; pos++ {
		setInt(L, t, pos, rawGetInt(t, pos+1))
	}
	setInt(L, t, e, vm.LNil)
	return 1
}

func tableConcat(L *vm.LState) int {
	separator := optString(L, 2, "")
	t := real(checkTable(L, 1))
	i, last := optInt32(L, 3, 1), optInt32(L, 4, border(t))
	size := 0
	for n := i; n <= last; n++ {
		v := rawGetInt(t, n)
		s, ok := v.(vm.LString)
		if !ok && v.Type() != vm.LTNumber {
			raise(L, "invalid value (%s) at index %d in table for 'concat'", v.Type(), n)
		}
		if size += len(s) + len(separator); size > maxString {
			outOfMemory(L)
		}
		work(L, 1)
	}
	charge(L, size)
	b := make([]byte, 0, size)
	for n := i; n <= last; n++ {
		switch v := rawGetInt(t, n).(type) {
		case vm.LString:
			b = append(b, v...)
		case vm.LNumber:
			b = appendNumber(b, float64(v))
		}
		if n < last {
			b = append(b, separator...)
		}
	}
	return pushString(L, string(b))
}

func tableForEach(L *vm.LState) int {
	t, f := real(checkTable(L, 1)), checkFunction(L, 2)
	for k, v, _ := nextKey(t, vm.LNil); k != vm.LNil; k, v, _ = nextKey(t, k) {
		if result := call(L, f, k, v); result != vm.LNil {
			return push(L, result)
		}
	}
	return 0
}

func tableForEachI(L *vm.LState) int {
	t, f := real(checkTable(L, 1)), checkFunction(L, 2)
	n := border(t)
	for i := 1; i <= n; i++ {
		if result := call(L, f, vm.LNumber(i), rawGetInt(t, i)); result != vm.LNil {
			return push(L, result)
		}
	}
	return 0
}

func tableSort(L *vm.LState) int {
	s := sorter{L: L, t: real(checkTable(L, 1))}
	n := border(s.t)
	if !isNoneOrNil(L, 2) {
		s.less = checkFunction(L, 2)
	}
	s.sort(1, n)
	return 0
}

// sorter is the quicksort of Lua 5.1. Its order of comparisons is that of the reference implementation, and so are the
// order of equal elements and the result of an inconsistent comparison.
type sorter struct {
	L    *vm.LState
	t    *vm.LTable
	less *vm.LFunction
}

func (s *sorter) before(a, b vm.LValue) bool {
	work(s.L, 2)
	if s.less == nil {
		return lessThan(s.L, a, b)
	}
	return vm.LVAsBool(call(s.L, s.less, a, b))
}

func (s *sorter) get(i int) vm.LValue { return rawGetInt(s.t, i) }

func (s *sorter) set(i int, v vm.LValue, j int, w vm.LValue) {
	setInt(s.L, s.t, i, v)
	setInt(s.L, s.t, j, w)
}

func (s *sorter) sort(l, u int) {
	for l < u {
		a, b := s.get(l), s.get(u)
		if s.before(b, a) {
			s.set(l, b, u, a)
		}
		if u-l == 1 {
			return
		}
		i := (l + u) / 2
		a, b = s.get(i), s.get(l)
		if s.before(a, b) {
			s.set(i, b, l, a)
		} else {
			b = s.get(u)
			if s.before(b, a) {
				s.set(i, b, u, a)
			}
		}
		if u-l == 2 {
			return
		}
		pivot := s.get(i)
		s.set(i, s.get(u-1), u-1, pivot)
		i = l
		j := u - 1
		for {
			i++
			for a = s.get(i); s.before(a, pivot); a = s.get(i) {
				if i > u {
					raise(s.L, "invalid order function for sorting")
				}
				i++
			}
			j--
			for b = s.get(j); s.before(pivot, b); b = s.get(j) {
				if j < l {
					raise(s.L, "invalid order function for sorting")
				}
				j--
			}
			if j < i {
				break
			}
			s.set(i, b, j, a)
		}
		s.set(u-1, s.get(i), i, s.get(u-1))
		if i-l < u-i {
			j, i, l = l, i-1, i+1
		} else {
			j, i, u = i+1, u, i-1
		}
		s.sort(j, i)
	}
}
