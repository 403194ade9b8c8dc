package lua

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/basaltdb/basalt/internal/require"
	"github.com/basaltdb/basalt/server/resp"
)

// echo is a host whose commands reply what they are called with.
type echo struct {
	logged []string
	limit  time.Duration // what lasts longer is ended; 0 = never
}

func (h *echo) Call(args [][]byte, out *resp.Writer) error {
	switch strings.ToLower(string(args[0])) {
	case "raw":
		out.Raw(args[1])
	case "abort":
		return errors.New("aborted")
	case "many":
		hundred := strings.Repeat("x", 100)
		out.Array(1_000_000)
		for range 1_000_000 {
			out.BulkString(hundred)
		}
	case "one":
		out.Int(1)
	default:
		out.Array(len(args))
		for _, a := range args {
			out.Bulk(a)
		}
	}
	return nil
}

func (h *echo) Allowed(args [][]byte) (bool, bool) { return true, string(args[0]) != "nope" }
func (h *echo) Log(level int, message string)      { h.logged = append(h.logged, message) }
func (h *echo) Failed(string, bool)                {}
func (h *echo) Lasts(took time.Duration, _ bool) error {
	if h.limit > 0 && took > h.limit {
		return errors.New("it took too long")
	}
	return nil
}

func newEngine(t testing.TB, memory int64) *Engine {
	t.Helper()
	return New(Options{MemoryLimit: func() int64 { return memory }, TimeLimit: func() time.Duration { return 0 },
		Version: "7.2.5", States: 4})
}

// eval runs a script and returns its reply, or the text of its error.
func eval(t testing.TB, e *Engine, source string, keysAndArgs ...[]string) string {
	t.Helper()
	return evalOn(t, e, &echo{}, source, keysAndArgs...)
}

func evalOn(t testing.TB, e *Engine, h Host, source string, keysAndArgs ...[]string) string {
	t.Helper()
	s, err := e.Script([]byte(source))
	if err != nil {
		return "-" + err.Error()
	}
	r := &Run{Script: s, Host: h, Out: &resp.Writer{}}
	for i, list := range keysAndArgs {
		for _, a := range list {
			if i == 0 {
				r.Keys = append(r.Keys, []byte(a))
			} else {
				r.Args = append(r.Args, []byte(a))
			}
		}
	}
	if err := e.Run(r); err != nil {
		return "-" + err.Error()
	}
	return string(r.Out.Bytes())
}

func TestResults(t *testing.T) {
	e := newEngine(t, 0)
	for _, c := range []struct{ source, want string }{
		{"return 1", ":1\r\n"},
		{"return 1/3 .. ''", "$16\r\n0.33333333333333\r\n"},
		{"return redis.call('a','b')", "*2\r\n$1\r\na\r\n$1\r\nb\r\n"},
		{"return redis.call('a',0.1,-0.0,2^60)", "*4\r\n$1\r\na\r\n$3\r\n0.1\r\n$1\r\n0\r\n$19\r\n1152921504606846976\r\n"},
		{"return redis.call('a',1/3,1e-7,-1e23,1/0)",
			"*5\r\n$1\r\na\r\n$18\r\n0.3333333333333333\r\n$4\r\n1e-7\r\n$6\r\n-1e+23\r\n$3\r\ninf\r\n"},
		{"return redis.call(1/3,1e20,1e-9,-1.5e300)",
			"*4\r\n$18\r\n0.3333333333333333\r\n$5\r\n1e+20\r\n$4\r\n1e-9\r\n$9\r\n-1.5e+300\r\n"},
		{"return redis.error_reply(1)", "-ERR wrong number or type of arguments\r\n"},
		{"return redis.status_reply(1)", "-ERR wrong number or type of arguments\r\n"},
		{"return {err='-E x'}", "--E x\r\n"},
		{"return tostring(cmsgpack.unpack('\\207'..('\\255'):rep(8)))", "$2\r\n-1\r\n"},
		{"return redis.call('raw','+OK\\r\\n')", "+OK\r\n"},
		{"return redis.call('raw','-ERR x\\r\\n')",
			"-ERR x script: 81e9a1aeb8e5a4cd6b0a7e7f4ae1f3d5ba1b0f1f, on @user_script:1."},
		{"return redis.pcall('raw','-ERR x\\r\\n')", "-ERR x\r\n"},
		{"return redis.call('raw','*2\\r\\n$-1\\r\\n*-1\\r\\n')", "*2\r\n$-1\r\n$-1\r\n"},
		{"redis.setresp(3) return redis.call('raw','%1\\r\\n+a\\r\\n,1.5\\r\\n').map", "*0\r\n"},
		{"redis.setresp(3) return type(redis.call('raw','_\\r\\n'))", "$3\r\nnil\r\n"},
		{"local n=0 local function inc() n=n+1 end inc() pcall(error,'x') inc() return n", ":2\r\n"},
		{"local f do local x=1 f=function() x=x+1 return x end pcall(function() f() error('y') end) x=x+10 end return f()",
			":13\r\n"},
		{"local t={} t.x=1 return string.format('%5.2f',t.x)..('x'):rep(3)", "$8\r\n 1.00xxx\r\n"},
		{"local co=coroutine.wrap(function(a) local b=coroutine.yield(a+1) return b*2 end) return {co(1),co(10)}",
			"*2\r\n:2\r\n:20\r\n"},
		{"local co=coroutine.wrap(function() error({err='E x'}) end) return select(2,pcall(co))", "$3\r\nE x\r\n"},
		{"return {(function() return 1,2 end)() .. '', (function() return 3,4 end)()}", "*3\r\n$1\r\n1\r\n:3\r\n:4\r\n"},
		{"local function f(...) return ... .. 'x' end return f('a','b')", "$2\r\nax\r\n"},
	} {
		if got := eval(t, e, c.source); !strings.HasPrefix(c.want, "-ERR x script") && got != c.want ||
			strings.HasPrefix(c.want, "-ERR x script") && !strings.HasPrefix(got, "-ERR x script: ") {
			t.Errorf("%s: %q, want %q", c.source, got, c.want)
		}
	}
}

// KEYS and ARGV begin anew with each script, whatever the one before has done to them.
func TestKeysBeginAnew(t *testing.T) {
	e := New(Options{MemoryLimit: func() int64 { return 0 }, TimeLimit: func() time.Duration { return 0 }, States: 1})
	const (
		change = `for _, t in ipairs({KEYS, ARGV}) do
				t.x, t[3], t[1], t[100] = 1, 'c', nil, 2
				setmetatable(t, {__index = function() return 'stale' end})
			end return 0`
		look = `local n = 0 for _ in pairs(KEYS) do n = n + 1 end for _ in pairs(ARGV) do n = n + 1 end
			return {n, #KEYS, KEYS[1] or '-', KEYS[2] or '-', tostring(KEYS.x), tostring(getmetatable(KEYS)),
				#ARGV, ARGV[1] or '-', ARGV[3] or '-', tostring(ARGV.x)}`
	)
	for _, source := range []string{change, "error(KEYS[1])", change} {
		eval(t, e, source, []string{"a", "b"}, []string{"1"})
		want := "*10\r\n:1\r\n:1\r\n$1\r\nk\r\n$1\r\n-\r\n$3\r\nnil\r\n" +
			"$3\r\nnil\r\n:0\r\n$1\r\n-\r\n$1\r\n-\r\n$3\r\nnil\r\n"
		if got := eval(t, e, look, []string{"k"}); got != want {
			t.Errorf("after %s: %q, want %q", source, got, want)
		}
	}
}

// What one script does must not be seen by the next one, whatever it tries.
func TestSandbox(t *testing.T) {
	e := New(Options{MemoryLimit: func() int64 { return 0 }, TimeLimit: func() time.Duration { return 0 },
		Version: "7.2.5", States: 1})
	const probe = `local t = {}
		for _, l in ipairs({_G, string, table, math, bit, struct, cjson, cmsgpack, redis, coroutine}) do
			for k in pairs(l) do t[#t+1] = tostring(k) end
		end
		table.sort(t)
		return table.concat(t, ',') .. ('a'):upper() .. tostring(1) .. type(redis.call) ..
			cjson.encode({1/3}) .. #KEYS .. tostring(pcall(error)) .. type(next)`
	want := eval(t, e, probe)
	if len(want) < 1000 {
		t.Fatalf("%q", want)
	}
	for _, s := range []string{
		"tostring = 1", "local function f() tostring = nil end f()", "KEYS = nil", "string.upper = error", "redis.call = nil",
		"_G.next = nil", "_G.new = 1", "rawset(_G, 'next', 1)", "rawset(string, 'upper', 1)", "rawset(redis, 'call', 1)",
		"table.insert(string, 1)", "table.insert(_G, 1, 2)", "table.remove(_G)", "table.sort(_G)", "setmetatable(_G, nil)",
		"setmetatable(string, {__index = function() end})", "getmetatable('').__index = {}",
		"getmetatable('').__index.upper = error", "rawset(getmetatable(''), '__index', {})", "getmetatable(_G).__index = nil",
		"rawset(getmetatable(_G), '__index', nil)", "getmetatable(_G).__newindex = nil",
		"setmetatable(getmetatable(_G), nil)", "local mt = getmetatable(string) mt.x = 1", "cjson.encode_number_precision(2)",
		"cjson.new().encode_number_precision(3)", "cjson.encode_max_depth(1)", "_G['\\0concat'] = nil",
		"rawset(_G, '\\0concat', nil)", "loadstring('next = nil')()", "loadstring('string.upper = nil')()",
		"load(function() return nil end)() tostring = nil",
		"local e = coroutine.create(function() KEYS = 1 end) assert(coroutine.resume(e))",
		"coroutine.wrap(function() string.x = 1 end)()", "pcall(function() redis.call = 1 end) error('x')",
		"KEYS[1] = 'x' ARGV.y = 1 error('x')", "math.pi = 3", "table.foreach(_G, function(k) _G[k] = nil end)",
	} {
		if got := eval(t, e, s); !strings.HasPrefix(got, "-") && !strings.HasPrefix(s, "cjson") &&
			!strings.HasPrefix(s, "table.remove") && !strings.HasPrefix(s, "table.sort") {
			t.Errorf("%s: %q", s, got)
		}
		if got := eval(t, e, probe); got != want {
			t.Fatalf("after %s: %q, want %q", s, got, want)
		}
	}
	for _, name := range strings.Fields("os io debug require dofile loadfile print module package channel _printregs") {
		if got := eval(t, e, "return "+name); !strings.Contains(got, "nonexistent global variable '"+name+"'") {
			t.Errorf("%s: %q", name, got)
		}
	}
	for _, s := range []string{"return loadstring('\\27Lua')", "return redis.register_function"} {
		if got := eval(t, e, s); got != "$-1\r\n" {
			t.Errorf("%s: %q", s, got)
		}
	}
}

func TestBounds(t *testing.T) {
	e := newEngine(t, 64<<20)
	for _, s := range []string{
		"return ('x'):rep(2^30)", "return ('x'):rep(2^29):rep(100)",
		"local t={} for i=1,300 do t[i]=('x'):rep(1e7) end return table.concat(t)",
		"local function f() return 1+f() end return f()", "local function f() return pcall(f) end return 1+f()",
		"return unpack({},1,1e8)", "return {unpack({},1,1e6)}", "local t={} t[1]=t return cjson.encode(t)",
		"return cjson.decode(('['):rep(1e6))", "return loadstring(('('):rep(1e5)..'1')()",
		"return loadstring('return '..('-'):rep(1)..('not '):rep(1e5)..'1')()",
		"return loadstring('return 1'..(' ..1'):rep(1e5))()", "return loadstring('return 1'..('+x'):rep(1e5))()",
		"return cmsgpack.unpack('\\221\\255\\255\\255\\255')", "return cmsgpack.unpack(('\\145'):rep(1e5))",
		"local s=('a'):rep(250) return s:find(('a?'):rep(250)..('a'):rep(250)..'b') or error('none')",
		"local t=setmetatable({},{__index=function(t,k) return t[k+1] end}) return t[1]",
		"local a=setmetatable({},{}) getmetatable(a).__index=a return a.x or error('no')",
		"return ('x'):rep(1e6):gsub('.', ('y'):rep(1e6))", "return string.format(('%99.99f'):rep(1e5), 1)",
		"return struct.pack('i2147483648',1)", "return struct.unpack('c2147483647','x')",
		"local function f(...) return f(1,...) end return f()",
		"local co co=coroutine.wrap(function() return co() end) return co()",
		"local function f() return coroutine.wrap(f)() end return f()",
		"local t={} for i=1,1e9 do t[i]=coroutine.create(function() end) end", "while true do table.insert({1},-2^31,1) end",
	} {
		done := make(chan string, 1)
		go func() { done <- eval(t, e, s) }()
		if got, ok := within(2*time.Second, done); ok {
			if !strings.HasPrefix(got, "-") {
				t.Errorf("%s: %.100q", s, got)
			}
			continue
		}
		e.Kill(false)
		got, ok := within(time.Minute, done)
		if !ok {
			t.Fatalf("%s cannot be killed", s)
		}
		t.Logf("%s had to be killed: %.100q", s, got)
	}
	if got := eval(t, e, "return 1"); got != ":1\r\n" {
		t.Errorf("%q", got)
	}
}

// within waits for a result, at most so long. Time in which the process is stopped does not count.
func within(d time.Duration, done <-chan string) (result string, ok bool) {
	const tick = 10 * time.Millisecond
	for range d / tick {
		select {
		case result := <-done:
			return result, true
		case <-time.After(tick):
		}
	}
	return "", false
}

// A host that wants to end a script ends it, whatever the script catches.
func TestAbort(t *testing.T) {
	e := newEngine(t, 0)
	for _, s := range []string{"redis.call('abort')", "pcall(redis.call,'abort') return 1",
		"redis.pcall('abort') return 1", "return {xpcall(function() redis.call('abort') end, function() end)}",
		"coroutine.resume(coroutine.create(function() redis.call('abort') end)) return 1",
		"while true do pcall(redis.call,'abort') end"} {
		if got := eval(t, e, s); got != "-aborted" {
			t.Errorf("%s: %q", s, got)
		}
	}
}

func TestCacheIsBounded(t *testing.T) {
	e := newEngine(t, 0)
	for i := range 5000 {
		if _, err := e.Script(fmt.Appendf(nil, "return %d", i)); err != nil {
			t.Fatal(err)
		}
	}
	if n, size := e.Cached(); n > maxScripts || n < maxScripts/2 || size > 20*n {
		t.Errorf("%d scripts, %d bytes", n, size)
	}
}

func fuzzEval(f *testing.F, source string, seeds ...string) {
	for _, s := range seeds {
		f.Add(s)
	}
	e := newEngine(f, 64<<20)
	h := &echo{limit: 100 * time.Millisecond} // by the clock of the run itself, whenever it begins
	f.Fuzz(func(t *testing.T, s string) {
		if source == "" {
			if got := evalOn(t, e, h, s); strings.Contains(got, "runtime error") && !strings.Contains(s, "error") {
				t.Errorf("%q: %q", s, got)
			}
			return
		}
		if got := evalOn(t, e, h, source, nil, []string{s, s}); strings.Contains(got, "runtime error") {
			t.Errorf("%q: %q", s, got)
		}
	})
}

func FuzzScript(f *testing.F) {
	golden, err := os.ReadFile("testdata/errors.txt")
	if err != nil {
		f.Fatal(err)
	}
	for line := range strings.Lines(string(golden)) {
		if line[0] != '\t' && line[0] != '#' {
			f.Add(line)
		}
	}
	fuzzEval(f, "", "return 1", "local t={} for i=1,3 do t[#t+1]=i..'x' end return t", "return redis.call('a', 1)",
		"#!lua flags=no-writes\nreturn KEYS[1]", "local goto = 1 return function(...) return ... end")
}

func FuzzJSONDecode(f *testing.F) {
	fuzzEval(f, "return cjson.encode(cjson.decode(ARGV[1]))", `{"a":[1,2.5e3,"x\u00e9",null,true]}`, `[[[`,
		`"\ud83d\ude00"`, "0x1f", "-inf")
}

func FuzzMsgPackUnpack(f *testing.F) {
	fuzzEval(f, "return cmsgpack.pack(cmsgpack.unpack(ARGV[1]))", "\x93\x01\xa1a\xc0", "\xdd\xff\xff\xff\xff",
		"\x81\xa1a\xcb\x3f\xf8\x00\x00\x00\x00\x00\x00")
}

func FuzzStruct(f *testing.F) {
	fuzzEval(f, "return {struct.unpack(ARGV[1], ARGV[2]:rep(8))}", ">I2i4d", "bc0s", "!8 hHlL", "i32f")
}

func FuzzPattern(f *testing.F) {
	fuzzEval(f, "return {ARGV[2]:rep(2):gsub(ARGV[1],'%0'), ARGV[2]:find(ARGV[1])}", "(%a+)=(%d*)", "[^]%w-z]",
		"%b()", "%f[%a]", "(()a*?")
}

// sources are what BenchmarkEval runs.
var sources = []struct{ name, text string }{
	{"nothing", "return 1"},
	{"one", "return redis.call('one', KEYS[1])"},
	{"calls", "local s=0 for i=1,1000 do s=s+redis.call('one',KEYS[1],'field','1') end return s"},
	{"strings", "local s=0 for i=1,1000 do s=#redis.call('echo',KEYS[1],'field'..i) end return s"},
	{"compute", `local function fib(n) if n<2 then return n end return fib(n-1)+fib(n-2) end
		local s=0 for i=1,20000 do s=(s*31+i)%1000003 end local t={} for i=1,2000 do t[i]=(i*7919)%2003 end table.sort(t)
		local b={} for i=1,500 do b[#b+1]='k'..i end return fib(16)+s+#table.concat(b)`},
	{"decode", jobs + `for i=1,100 do cjson.decode(d) end return 1`},
	{"encode", jobs + `local t=cjson.decode(d) for i=1,100 do cjson.encode(t) end return 1`},
	{"pack", jobs + `local t=cjson.decode(d) for i=1,100 do cmsgpack.pack(t) end return 1`},
	{"unpack", jobs + `local p=cmsgpack.pack(cjson.decode(d)) for i=1,100 do cmsgpack.unpack(p) end return 1`},
	{"loop", "for i=1,200000 do end"},
	{"bytes", "local s,n=('abcdefghij'):rep(100),0 for i=1,#s do n=n+s:byte(i)+#s:sub(i,i+3) end return n"},
	{"fib", "local function fib(n) if n<2 then return n end return fib(n-1)+fib(n-2) end return fib(18)"},
	{"pairs",
		"local t,n={},0 for i=1,100 do t['k'..i]=i end for i=1,100 do for k,v in pairs(t) do n=n+v end end return n"},
	{"fields", "local t={a=1,b=2} for i=1,20000 do t.a=t.a+t.b t[1]=i end return t.a"},
	{"pcall", "local function f(x) return x end local n=0 for i=1,3000 do local ok,v=pcall(f,i) n=n+v end return n"},
	{"sort", "local t={} for i=1,2000 do t[i]=(i*7919)%2003 end table.sort(t) return t[1]"},
	{"format", "local s for i=1,2000 do s=string.format('%d:%s:%5.2f',i,'name',i/3) end return s"},
	{"concat", "local t={} for i=1,2000 do t[#t+1]='k'..i end return #table.concat(t,',')"},
}

const jobs = `local d='{"id":12345,"name":"job","opts":{"delay":100,"attempts":3,"tags":["a","b","c"]},` +
	`"data":{"x":1.5,"y":[1,2,3,4,5,6,7,8]}}' `

func BenchmarkEval(b *testing.B) {
	e := newEngine(b, 1<<28)
	for _, source := range sources {
		b.Run(source.name, func(b *testing.B) {
			b.ReportAllocs()
			var w resp.Writer
			r := &Run{Host: &echo{}, Out: &w, Keys: [][]byte{[]byte("key")}}
			for b.Loop() {
				r.Script, _ = e.Script([]byte(source.text))
				w.Reset()
				require.NoError(b, e.Run(r))
			}
		})
	}
}

// What a script costs that does nothing.
func TestScriptsAllocateLittle(t *testing.T) {
	e := newEngine(t, 1<<28)
	script, err := e.Script([]byte("return 1"))
	require.NoError(t, err)
	var w resp.Writer
	r := &Run{Script: script, Host: &echo{}, Out: &w}
	n := testing.AllocsPerRun(100, func() {
		w.Reset()
		if err := e.Run(r); err != nil {
			t.Error(err)
		}
	})
	if n > 7 {
		t.Errorf("%v allocations", n)
	}
}

// StateBytes is about what a virtual machine takes, half to double.
func TestStateBytes(t *testing.T) {
	e := newEngine(t, 0)
	const n = 50
	var states [n]*state
	states[0] = newState(e) // what is made once
	var before, after runtime.MemStats
	for range 2 { // the first leaves what was in a pool
		runtime.GC()
	}
	runtime.ReadMemStats(&before)
	for i := 1; i < n; i++ {
		states[i] = newState(e)
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if each := int(after.HeapAlloc-before.HeapAlloc) / (n - 1); each < StateBytes/2 || each > StateBytes*2 {
		t.Errorf("a virtual machine takes %d bytes, StateBytes is %d", each, StateBytes)
	}
	runtime.KeepAlive(states)
}

func BenchmarkFCall(b *testing.B) {
	e := newEngine(b, 1<<28)
	for name, source := range map[string]string{
		"one":     "redis.register_function('f', function(keys) return redis.call('one', keys[1]) end)",
		"counter": "local n = 0 redis.register_function('f', function(keys) n = n + 1 return redis.call('one', keys[1]) end)",
		"table": "local t = {n = 0} redis.register_function('f', function(keys) t.n = t.n + 1 return redis.call('one', " +
			"keys[1]) end)",
	} {
		l, err := e.Library([]byte("#!lua name=l\n" + source))
		require.NoError(b, err)
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			var w resp.Writer
			r := &Run{Function: l.Functions[0], Host: &echo{}, Out: &w, Keys: [][]byte{[]byte("key")}}
			for b.Loop() {
				w.Reset()
				require.NoError(b, e.Run(r))
			}
		})
	}
}
