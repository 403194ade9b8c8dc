package lua

import (
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	vm "github.com/yuin/gopher-lua"
)

// Taking the last element of an array away, in the ways that scripts have.
func TestPop(t *testing.T) {
	e := newEngine(t, 0)
	for _, tt := range []struct{ source, want string }{
		{"local t={1,2,3} t[#t]=nil return {#t, t[1], t[2], t[3]==nil and 1}", "*4\r\n:2\r\n:1\r\n:2\r\n:1\r\n"},
		{"local t={} t[#t]=nil return #t", ":0\r\n"},
		{"local t={[0]=5} t[#t]=nil return {#t, t[0]==nil and 1}", "*2\r\n:0\r\n:1\r\n"},
		{"local t={1,nil,3,nil} t[#t]=nil return {#t, tostring(t[1]), t[3]}", "*3\r\n:0\r\n$3\r\nnil\r\n:3\r\n"},
		{"local t={1,2,x=3} t[#t]=nil t[#t]=nil t[#t]=nil return {#t, t.x}", "*2\r\n:0\r\n:3\r\n"},
		{"local t={1,2,3} t[#t]=nil t[#t+1]=9 return t", "*3\r\n:1\r\n:2\r\n:9\r\n"},
		{"local n=0 local t=setmetatable({1,2},{__newindex=function() n=n+1 end}) t[#t]=nil return {#t, n}",
			"*2\r\n:1\r\n:0\r\n"},
		{"local n=0 local t=setmetatable({},{__newindex=function(_,k) n=n+1 end}) t[#t]=nil return n", ":1\r\n"},
		{"local u={1,2} local t={} t[#u]=nil return #u", ":2\r\n"},
		{"local n=0 local t={1,2,3} for k,v in pairs(t) do n=n+v t[#t]=nil end return {n, #t}", "*2\r\n:3\r\n:1\r\n"},
		{"local t={1,2,3} return {table.remove(t), table.remove(t,1), #t, t[1]}", "*4\r\n:3\r\n:1\r\n:1\r\n:2\r\n"},
		{"local t={1,2,3} t[3]=nil return {table.remove(t), #t}", "*2\r\n:2\r\n:1\r\n"},
		{"local t={1,2,3,nil,5} t[5]=nil return {table.remove(t), #t, table.remove(t), #t}",
			"*4\r\n:3\r\n:2\r\n:2\r\n:1\r\n"},
		{"math[#math]=nil", "-ERR user_script:1: Attempt to modify a readonly table script: "},
		{"local x=5 x[#x]=nil", "-ERR user_script:1: attempt to get length of local 'x' (a number value)"},
		{"\nx[#x]=nil", "-ERR user_script:2: Script attempted to access nonexistent global variable 'x' script: "},
	} {
		if got := eval(t, e, tt.source); !strings.HasPrefix(got, tt.want) {
			t.Errorf("%s: %q, want %q", tt.source, got, tt.want)
		}
	}
}

// A stack of 300,000 elements is emptied in time in its height: in the square of that it would be minutes.
func TestPopIsNotQuadratic(t *testing.T) {
	for _, pop := range []string{"t[#t]=nil", "table.remove(t)", "t[n]=nil n=n-1 if #t~=n then error('border') end"} {
		e := newEngine(t, 0)
		got := evalOn(t, e, &echo{limit: time.Minute},
			"local n,t=300000,{} for i=1,n do t[i]=i end for i=1,300000 do "+pop+" end return #t")
		if got != ":0\r\n" {
			t.Errorf("%s: %q", pop, got)
		}
	}
}

// What is added by the short ways, an element behind a full array or a field to a new table, leaves the table as it
// is made by rehash and by the nodes: with the same array, the same border and the same order.
func TestShortWaysToAdd(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 300 {
		array, others := r.IntN(4)*r.IntN(2), r.IntN(4)*r.IntN(2)
		short, long := newTable(array, others), newTable(array, others)
		next := 1
		for range r.IntN(60) {
			key, value := vm.LValue(vm.LNumber(next)), vm.LValue(vm.LNumber(r.IntN(100)))
			switch r.IntN(12) {
			case 0:
				value = vm.LNil
			case 1:
				key = vm.LNumber(1 + r.IntN(2*next))
			case 2, 3:
				key = vm.LString("f" + strconv.Itoa(r.IntN(20)))
			default:
				next++
			}
			n, isIndex := arrayIndex(key)
			if c := contentsOf(long); isIndex && n > cap(c.array) {
				setKey(nil, c, key, value)
			} else {
				store(nil, long, key, value)
			}
			if isIndex {
				storeInt(nil, short, n, value)
			} else {
				addField(short, key, value)
			}
			if a, b := contentsOf(short), contentsOf(long); cap(a.array) != cap(b.array) || border(short) != border(long) {
				t.Fatalf("after %v = %v there are %d places and #t is %d, want %d and %d", key, value, cap(a.array), border(short),
					cap(b.array), border(long))
			}
		}
		var got, want []vm.LValue
		for k, v := range pairs(short) {
			got = append(got, k, v)
		}
		for k, v := range pairs(long) {
			want = append(want, k, v)
		}
		if !slices.Equal(got, want) {
			t.Fatalf("pairs gives %v, want %v", got, want)
		}
	}
}

// Whatever is stored, a table has what a map has that was given the same; #t is a border, and next comes by each key
// once. What was saved of a table is restored with the order of its keys.
func TestTablesHoldWhatIsStored(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	L := newState(newEngine(t, 0)).main
	for range 500 {
		table, want := newTable(r.IntN(5), r.IntN(5)), map[vm.LValue]vm.LValue{}
		size := 1 << (1 + r.IntN(8))
		names := r.IntN(3) // how many of the keys are none
		for i := range 3 * size {
			var key vm.LValue = vm.LNumber(1 + r.IntN(size))
			switch {
			case r.IntN(3) < names:
				key = []vm.LValue{vm.LString(strconv.Itoa(r.IntN(size))), vm.LNumber(-r.IntN(size)),
					vm.LNumber(r.IntN(size)) + 0.5, vm.LTrue, vm.LFalse, table}[r.IntN(6)]
			case r.IntN(3) == 0: // as scripts mostly do
				key = vm.LNumber(border(table) + 1)
			}
			var value vm.LValue = vm.LNumber(i)
			if r.IntN(3) == 0 {
				value = vm.LNil
				delete(want, key)
			} else {
				want[key] = value
			}
			store(L, table, key, value)
			if b := border(table); b != 0 && want[vm.LNumber(b)] == nil || want[vm.LNumber(b+1)] != nil {
				t.Fatalf("#t is %d with %v", b, want)
			}
			if r.IntN(size) == 0 {
				checkTraversals(t, table, want)
			}
		}
		w := walk{r: &resident{known: map[any]bool{}, seen: map[any]bool{}}, save: true}
		w.table(table)
		order := checkTraversals(t, table, want)
		for key := range want {
			store(L, table, key, vm.LNil)
		}
		store(L, table, vm.LString("new"), vm.LTrue)
		w.r.restore()
		if restored := checkTraversals(t, table, want); !slices.Equal(restored, order) {
			t.Fatalf("%v is restored, want %v", restored, order)
		}
	}
}

// checkTraversals compares what the ways to go through a table come by, and returns the keys in the order of next.
func checkTraversals(t *testing.T, table *vm.LTable, want map[vm.LValue]vm.LValue) (keys []vm.LValue) {
	t.Helper()
	all := maps.Collect(each(table))
	for k, v, ok := nextKey(table, vm.LNil); k != vm.LNil; k, v, ok = nextKey(table, k) {
		if !ok || rawGet(table, k) != v {
			t.Fatalf("next comes by %v = %v, %v", k, v, ok)
		}
		keys = append(keys, k)
	}
	if got := maps.Collect(pairs(table)); !maps.Equal(got, want) || !maps.Equal(all, want) || len(keys) != len(want) {
		t.Fatalf("%v is there, and %v, %d in all; want %v", got, all, len(keys), want)
	}
	i := 0
	for k := range pairs(table) {
		if k != keys[i] {
			t.Fatalf("%v comes as number %d, want %v", k, i, keys[i])
		}
		i++
	}
	return keys
}

// In Lua 5.1 #t depends on how large the array of a table is: these are the sizes there.
func TestArraySizes(t *testing.T) {
	e := newEngine(t, 0)
	var table *vm.LTable
	st := newState(e)
	storeName(st.global, "size", st.main.NewFunction(func(L *vm.LState) int {
		table = L.CheckTable(1)
		return 0
	}))
	for _, tt := range []struct {
		source string
		want   int
	}{
		{"size{}", 0}, {"size{1, 2, 3}", 3}, {"size{1, nil, 3, nil}", 4}, {"size{(function() return 1, 2, 3 end)()}",
			3}, {"size{x = 1}", 0},
		{"local t = {} t[1] = 1 size(t)", 1}, {"local t = {} for i = 1, 5 do t[i] = i end size(t)",
			8}, {"local t = {1, 2, 3} t[4] = 4 size(t)", 4},
		{"size{" + strings.Repeat("1,", 15) + "}", 15}, {"size{" + strings.Repeat("1,", 17) + "}", 18}, {"size{" +
			strings.Repeat("1,", 100) + "}", 104},
	} {
		c, err := compile([]byte(tt.source), "test", 1)
		if err != nil {
			t.Fatal(err)
		}
		st.main.Push(st.function(c))
		if err := st.main.PCall(0, 0, nil); err != nil {
			t.Fatalf("%s: %v", tt.source, err)
		}
		if got := cap(contentsOf(table).array); got != tt.want {
			t.Errorf("%s: room for %d, want %d", tt.source, got, tt.want)
		}
	}
}
