package lua

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"
)

// Whatever a script makes, it is stopped before it has made much more than the limit. Each of these would make
// gigabytes; what they have made when they are stopped is counted by the allocator, so that neither the machine nor
// the collector matters.
func TestMemoryLimit(t *testing.T) {
	const limit = 8 << 20
	e := New(Options{MemoryLimit: func() int64 { return limit }, Version: "7.2.5", States: 1, TimeLimit: noLimit})
	nested := func(what string) string { return "local t = {} while true do t = {t, " + what + "} end" }
	for name, source := range map[string]string{
		"one string":     "return #('x'):rep(400000000)",
		"doubled string": "local s = 'x' while true do s = s .. s end",
		"strings":        "local t = {} while true do t[#t+1] = ('x'):rep(100) .. #t end",
		"names":          "local t, i = {}, 0 while true do i = i + 1 t['k' .. i] = i end",
		"nodes": "local t, i = {a = 1}, 0 while true do i = i + 1 t['k' .. i] = i if i % 1000 == 0 then " +
			"next(t) end end",
		"hash part":      "local t, i = {}, 0 while true do i = i + 1 t[-i] = i end",
		"fractions":      "local t, i = {}, 0 while true do i = i + 1 t[i + 0.5] = i end",
		"tables as keys": "local t = {} while true do t[{}] = true end",
		"nested tables":  nested("{}"),
		"closures":       nested("function() return t end"),
		"coroutines":     nested("coroutine.create(function() end)"),
		"running coroutines": "local t = {} while true do local co = coroutine.wrap(function() coroutine.yield() end) co() " +
			"t = {t, co} end",
		"source":      "return loadstring(('a=1 '):rep(150000))",
		"long reply":  "return redis.call('many')",
		"large reply": "return redis.call('raw', '*1000000\\r\\n' .. (':1\\r\\n'):rep(1000000))",
	} {
		t.Run(name, func(t *testing.T) {
			runtime.GC()
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			got := eval(t, e, source)
			runtime.ReadMemStats(&after)
			if !strings.HasPrefix(got, "-ERR "+errMemory.Text) {
				t.Errorf("reply %.200q, want that it is stopped", got)
			}
			// An array that grows leaves behind what it was: about five times what it holds at last.
			if all := after.TotalAlloc - before.TotalAlloc; all > 12*limit {
				t.Errorf("%d MiB allocated with a limit of %d", all>>20, limit>>20)
			}
		})
	}
}

// A table takes memory for what is in it, however large its indexes are.
func TestSparseTables(t *testing.T) {
	const limit = 8 << 20
	e := New(Options{MemoryLimit: func() int64 { return limit }, Version: "7.2.5", States: 1, TimeLimit: noLimit})
	eval(t, e, "return 1") // makes the state
	// unrolled repeats a statement without a loop: the fewer instructions, the fewer looks at the memory.
	unrolled := func(format string) string {
		var b strings.Builder
		b.WriteString("local keep, n, t = {}, 4000000\n")
		for i := range 50 {
			fmt.Fprintf(&b, "do local i = %d "+format+" end\n", i+1)
		}
		return b.String()
	}
	for name, source := range map[string]string{
		"variable index":       unrolled("t = {} t[n] = 1 keep[i] = t"),
		"constant index":       unrolled("t = {} t[4000000] = 1 keep[i] = t"),
		"nil":                  unrolled("t = {} t[n+2] = nil t[n] = 1 keep[i] = t"),
		"several places":       unrolled("t = {} local x t[n], x = 1, 2 keep[i] = t"),
		"values of a call":     unrolled("t = {} t[n], t[1] = (function() return 1, 2 end)() keep[i] = t"),
		"behind a field":       unrolled("t = {a={}} t.a[n] = 1 keep[i] = t"),
		"constructor":          unrolled("keep[i] = {[n] = 1}"),
		"constant constructor": unrolled("keep[i] = {[4000000] = 1}"),
		"index of a call":      unrolled("keep[i] = {[(function() return n, 2 end)()] = 1}"),
		"__newindex":           unrolled("t = {} setmetatable({}, {__newindex = t})[n] = 1 keep[i] = t"),
		"own metatable":        unrolled("t = setmetatable({}, {__index = {}}) t[n] = 1 keep[i] = t"),
		"rawset":               unrolled("t = {} rawset(t, n, 1) keep[i] = t"),
		"table.insert":         unrolled("t = {} pcall(table.insert, t, n, 1) keep[i] = t"),
		"cmsgpack.unpack":      unrolled(`keep[i] = cmsgpack.unpack('\129\206\000\061\009\000\001')`),
		"in a coroutine":       unrolled("coroutine.wrap(function() t = {} t[n] = 1 keep[i] = t end)()"),
		"in pcall":             unrolled("pcall(function() t = {} t[n] = 1 keep[i] = t end)"),
		"growing holes": "local keep = {} for i = 1, 100 do local t = {} for j = 4, 16 do t[2^j * 60] = j end " +
			"keep[i] = t end",
	} {
		t.Run(name, func(t *testing.T) {
			runtime.GC()
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			got := eval(t, e, source)
			runtime.ReadMemStats(&after)
			if got != "$-1\r\n" {
				t.Errorf("reply %.200q", got)
			}
			if all := after.TotalAlloc - before.TotalAlloc; all > limit/2 { // an array of 4,000,000 places is 64 MiB
				t.Errorf("%d KiB allocated", all>>10)
			}
		})
	}
}

// Assignments, whether they are rewritten or not, do what they say.
func TestStores(t *testing.T) {
	e := newEngine(t, 0)
	for _, c := range []struct{ source, want string }{
		{"local t={} local i=2 t[i]=5 return t[2]", ":5\r\n"},
		{"local t={1,2} local i,j=1,2 t[i],t[j]=t[j],t[i] return t", "*2\r\n:2\r\n:1\r\n"},
		{"local i,t=1,{0,0,0} i,t[i]=i+1,20 return {i,t[1],t[2]}", "*3\r\n:2\r\n:20\r\n:0\r\n"},
		{"local t,u={}, {} t[1+0],t,u.x=7,u,t return {t==u, u.x[1]}", "*2\r\n:1\r\n:7\r\n"},
		{"local t={} local k='a' t[k],t.b=1 return {t.a, t.b==nil}", "*2\r\n:1\r\n:1\r\n"},
		{"local t={} local i=1 t[i],t[i+1]=(function() return 1,2,3 end)() return t", "*2\r\n:1\r\n:2\r\n"},
		{"local t={} local i=1 t[i]=(function() return 1,2 end)() return t", "*1\r\n:1\r\n"},
		{"local t={} local i=1 t[i]=1,2 return t", "*1\r\n:1\r\n"},
		{"local t={} local function f(...) local k=1 t[k]=... end f(4,5) return t", "*1\r\n:4\r\n"},
		{"local t={} local function f(...) local k=1 t[k],t[k+1]=... end f(4,5) return t", "*2\r\n:4\r\n:5\r\n"},
		{"local t={} t[(function() return 1,2 end)()]=3 return t", "*1\r\n:3\r\n"},
		{"local k=2 return #{[k]=1,[k-1]=2}", ":2\r\n"},
		{"local log='' local function f(x) log=log..x return x end local t={} t[f('a')],t[f('b')]=f('c'),f('d') return log",
			"$4\r\nabcd\r\n"},
		{"local u={} local t=setmetatable({},{__newindex=u}) local k=1 t[k]=2 return {rawget(t,1)==nil,u[1]}",
			"*2\r\n:1\r\n:2\r\n"},
		{"local a={} local t=setmetatable({},{__newindex=function(t,k,v) rawset(t,k,v*2) end}) local k=1 t[k]=2 return t[1]",
			":4\r\n"},
		{"local t={} t[1.5]=1 t[-1]=2 t[0]=3 t[2^40]=4 return {t[1.5],t[-1],t[0],t[2^40]}", "*4\r\n:1\r\n:2\r\n:3\r\n:4\r\n"},
		{"local t={} local n=4000000 t[n]=nil return #t", ":0\r\n"},
		{"local t={} for i=1,70000 do t[i]=i end return {#t,t[70000]}", "*2\r\n:70000\r\n:70000\r\n"},
		{"local ok,e=pcall(function() local t,k={} t[k]=1 end) return e", "$33\r\nuser_script:1: table index is nil\r\n"},
		{"local ok,e=pcall(function() local t,k={},0/0 t[k]=1 end) return e", "$33\r\nuser_script:1: table index is NaN\r\n"},
		{"local ok,e=pcall(function() local k=1 string[k]=1 end) return e",
			"$49\r\nuser_script:1: Attempt to modify a readonly table\r\n"},
		{"local t={n=3} while t.n>0 do t[t.n]=t.n t.n=t.n-1 end return t", "*3\r\n:1\r\n:2\r\n:3\r\n"},
	} {
		got := eval(t, e, c.source)
		if got != c.want {
			t.Errorf("%s: %q, want %q", c.source, got, c.want)
		}
	}
}

func noLimit() time.Duration { return 0 }
