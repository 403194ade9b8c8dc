package lua

import (
	"maps"
	"math/rand/v2"
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
		{"local n=0 local t=setmetatable({1,2},{__newindex=function() n=n+1 end}) t[#t]=nil return {#t, n}", "*2\r\n:1\r\n:0\r\n"},
		{"local n=0 local t=setmetatable({},{__newindex=function(_,k) n=n+1 end}) t[#t]=nil return n", ":1\r\n"},
		{"local u={1,2} local t={} t[#u]=nil return #u", ":2\r\n"},
		{"local n=0 local t={1,2,3} for k,v in pairs(t) do n=n+v t[#t]=nil end return {n, #t}", "*2\r\n:3\r\n:1\r\n"},
		{"local t={1,2,3} return {table.remove(t), table.remove(t,1), #t, t[1]}", "*4\r\n:3\r\n:1\r\n:1\r\n:2\r\n"},
		{"local t={1,2,3} t[3]=nil return {table.remove(t), #t}", "*2\r\n:2\r\n:1\r\n"},
		{"local t={1,2,3,nil,5} t[5]=nil return {table.remove(t), #t, table.remove(t), #t}", "*4\r\n:3\r\n:2\r\n:2\r\n:1\r\n"},
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
		got := evalOn(t, e, &echo{limit: time.Minute}, "local n,t=300000,{} for i=1,n do t[i]=i end for i=1,300000 do "+pop+" end return #t")
		if got != ":0\r\n" {
			t.Errorf("%s: %q", pop, got)
		}
	}
}

// Whatever is stored, a table has what a map has that was given the same; #t is a border, and next comes by each key once.
func TestArraysHoldWhatIsStored(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	L := newState(newEngine(t, 0)).main
	for range 300 {
		table, want := newTable(r.IntN(5), 0), map[int]bool{}
		size := 1 << (1 + r.IntN(8))
		for range 3 * size {
			n := 1 + r.IntN(size)
			if r.IntN(3) == 0 { // as scripts mostly do
				n = border(table) + r.IntN(2)
			}
			if n == 0 {
				continue
			}
			if r.IntN(3) == 0 {
				setIndex(L, table, n, vm.LNil)
				delete(want, n)
			} else {
				setIndex(L, table, n, vm.LTrue)
				want[n] = true
			}
			if b := border(table); b != 0 && !want[b] || want[b+1] {
				t.Fatalf("#t is %d with %v", b, want)
			}
		}
		met := map[int]bool{}
		for k, v, ok := nextKey(table, vm.LNil); k != vm.LNil; k, v, ok = nextKey(table, k) {
			n := int(k.(vm.LNumber))
			if !ok || v != vm.LTrue || met[n] {
				t.Fatalf("next comes by %v = %v, %v", k, v, ok)
			}
			met[n] = true
		}
		if !maps.Equal(met, want) {
			t.Fatalf("%v is there, want %v", met, want)
		}
	}
}

// In Lua 5.1 #t depends on how large the array of a table is: these are the sizes there.
func TestArraySizes(t *testing.T) {
	e := newEngine(t, 0)
	var table *vm.LTable
	st := newState(e)
	st.global.RawSetString("size", st.main.NewFunction(func(L *vm.LState) int {
		table = L.CheckTable(1)
		return 0
	}))
	for _, tt := range []struct {
		source string
		want   int
	}{
		{"size{}", 0}, {"size{1, 2, 3}", 3}, {"size{1, nil, 3, nil}", 4}, {"size{(function() return 1, 2, 3 end)()}", 3}, {"size{x = 1}", 0},
		{"local t = {} t[1] = 1 size(t)", 1}, {"local t = {} for i = 1, 5 do t[i] = i end size(t)", 8}, {"local t = {1, 2, 3} t[4] = 4 size(t)", 4},
		{"size{" + strings.Repeat("1,", 15) + "}", 15}, {"size{" + strings.Repeat("1,", 17) + "}", 18}, {"size{" + strings.Repeat("1,", 100) + "}", 104},
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
