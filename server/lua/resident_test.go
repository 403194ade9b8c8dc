package lua

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	vm "github.com/yuin/gopher-lua"

	"github.com/basaltdb/basalt/server/resp"
)

// undoing is a host whose command "again" undoes the run.
type undoing struct{ echo }

func (h *undoing) Call(args [][]byte, out *resp.Writer) error {
	if string(args[0]) == "again" {
		return fmt.Errorf("wrapped: %w", ErrAgain)
	}
	return h.echo.Call(args, out)
}

func loadLibrary(t testing.TB, e *Engine, body string) *Library {
	t.Helper()
	l, err := e.Library([]byte("#!lua name=l\n" + body))
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// fcall calls a function of a library and returns its reply, or its error.
func fcall(e *Engine, h Host, l *Library, name string, final bool, args ...string) (string, error) {
	for _, f := range l.Functions {
		if f.Name() != name {
			continue
		}
		r := &Run{Function: f, Host: h, Out: &resp.Writer{}, Final: final}
		for _, a := range args {
			r.Args = append(r.Args, []byte(a))
		}
		err := e.Run(r)
		return string(r.Out.Bytes()), err
	}
	panic("no function " + name)
}

// Only a library whose functions may keep something needs a virtual machine of its own.
func TestWhichLibrariesAreResident(t *testing.T) {
	e := newEngine(t, 0)
	for _, tt := range []struct {
		body     string
		resident bool
	}{
		{"redis.register_function('f', function() return 1 end)", false},
		{"local a, b = 'x', 2 local function g() return a end redis.register_function('f', function() return g() .. b end)",
			false},
		{"local n = 0 n = n + 1 redis.register_function('f', function() return n end)", false},
		{"local log = redis.log redis.register_function('f', function() log(1, 'x') local n = 0 local function g() n = n + " +
			"1 end g() return n end)", false},
		{"local n = 0 redis.register_function('f', function() n = n + 1 return n end)", true},
		{"local n = 0 local function g() return function() n = n + 1 end end redis.register_function('f', function() g()() " +
			"return n end)", true},
		{"local t = {} redis.register_function('f', function() return #t end)", true},
		{"local it = ('abc'):gmatch('.') redis.register_function('f', function() return it() end)", true},
		{"local f f = function() f = nil end redis.register_function('f', f)", true},
		{"local M = {} function M.f() return 1 end redis.register_function('f', M.f)", false},
	} {
		if l := loadLibrary(t, e, tt.body); l.Resident() != tt.resident {
			t.Errorf("%s: resident is %v", tt.body, l.Resident())
		}
	}
}

// stateful is a library whose function get shows all that the others change.
const stateful = `
local n, s, t, list, closures, holder = 0, 'a', {x = {1, 2}}, {1, 2, 3}, {}, nil
local function show(v)
	if type(v) ~= 'table' then return tostring(v) end
	local parts = {}
	for k, e in pairs(v) do parts[#parts + 1] = tostring(k) .. '=' .. show(e) end
	return '{' .. table.concat(parts, ',') .. '}' .. (getmetatable(v) and '!' or '')
end
local changes = {
	counter = function() n = n + 1 end,
	text = function() s = s .. 'b' end,
	field = function() t.x[2] = 5 t.y = 'new' end,
	gone = function() t.x = nil end,
	replaced = function() t = {z = true} end,
	cleared = function() for i = #list, 1, -1 do list[i] = nil end end,
	removed = function() table.remove(list, 1) table.insert(list, 'end') end,
	sorted = function() table.sort(list, function(a, b) return a > b end) end,
	meta = function() setmetatable(t, {}) end,
	made = function() local c = 10 holder = function() c = c + 1 return c end end,
	called = function() if holder then holder() end end,
	nested = function() closures.deep = closures.deep or {{}} closures.deep[1].n = (closures.deep[1].n or 0) + 1 end,
}
redis.register_function('change', function(keys, args)
	changes[args[1]]()
	if args[2] then pcall(redis.call, args[2]) redis.call(args[2]) end
end)
redis.register_function('get', function()
	local before = holder and holder() return show({n, s, t, list, closures, before})
end)
redis.register_function('fail', function() n = n + 1 error('failed') end)
`

// A run that is undone leaves no trace in the variables; one that is not, or that fails, keeps what it has done.
func TestUndoneRunsLeaveNoTrace(t *testing.T) {
	e := newEngine(t, 0)
	undone, plain := loadLibrary(t, e, stateful), loadLibrary(t, e, stateful)
	h := &undoing{}
	both := func(name string, args ...string) string {
		t.Helper()
		a, err := fcall(e, h, undone, name, false, args...)
		b, err2 := fcall(e, h, plain, name, false, args...)
		if a != b || fmt.Sprint(err) != fmt.Sprint(err2) {
			t.Fatalf("%s %q: %q %v, want %q %v", name, args, a, err, b, err2)
		}
		return a
	}
	last := both("get")
	for _, change := range strings.Fields("counter text field gone replaced nested nested sorted removed meta made " +
		"called called cleared") {
		if _, err := fcall(e, h, undone, "change", false, change, "again"); !errors.Is(err, ErrAgain) {
			t.Fatalf("%s: %v", change, err)
		}
		both("get")
		both("change", change)
		if now := both("get"); now == last {
			t.Errorf("%s changes nothing: %q", change, now)
		} else {
			last = now
		}
	}
	if _, err := fcall(e, h, plain, "fail", false); err == nil {
		t.Error("it does not fail")
	}
	if got, _ := fcall(e, h, plain, "get", false); got == last {
		t.Error("what a function that fails has done is gone")
	}
	if _, err := fcall(e, h, plain, "change", false, "counter", "abort"); err == nil || errors.Is(err, ErrAgain) {
		t.Errorf("%v", err)
	}
}

// What is too much to be saved, or cannot be, is changed by final runs only.
func TestLargeVariablesNeedFinalRuns(t *testing.T) {
	e := newEngine(t, 0)
	h := &echo{}
	l := loadLibrary(t, e, `local t, co = {}, nil
redis.register_function('fill', function(k, a) for i = 1, tonumber(a[1]) do t[i] = i end return #t end)
redis.register_function('empty', function() t = {} end)
redis.register_function('co', function() co = coroutine.wrap(function()
	for i = 1, 100 do coroutine.yield(i) end end) return co() end)
redis.register_function('next', function() return co() end)
redis.register_function('stop', function() co = nil end)`)
	call := func(name string, final bool, want string, args ...string) {
		t.Helper()
		got, err := fcall(e, h, l, name, final, args...)
		if err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	exclusive := ErrExclusive.Error()
	call("fill", false, ":100\r\n", "100")
	call("fill", false, ":5000\r\n", "5000")
	call("fill", false, exclusive, "1")
	call("fill", true, ":5000\r\n", "1")
	call("empty", true, "$-1\r\n")
	for i := range 500 {
		got, err := fcall(e, h, l, "fill", false, "1")
		if err == nil {
			if got != ":1\r\n" {
				t.Errorf("%q", got)
			}
			break
		}
		if fcall(e, h, l, "empty", true); i == 499 {
			t.Error("a library that keeps little goes on to be exclusive")
		}
	}
	call("co", false, ":1\r\n")
	call("next", false, exclusive)
	call("next", true, ":2\r\n")
	call("stop", true, "$-1\r\n")
}

// A table whose keys change does not grow.
func TestKeysThatAreGoneAreForgotten(t *testing.T) {
	e := newEngine(t, 0)
	for _, kept := range []int{3, 3000} {
		l := loadLibrary(t, e, fmt.Sprintf(`local t, n, from = {}, 0, 1
redis.register_function('f', function() n = n + 1 t['k' .. n] = n
	if n - from >= %d then t['k' .. from] = nil from = from + 1 end return n end)`, kept))
		for range 10000 {
			if _, err := fcall(e, &echo{}, l, "f", true); err != nil {
				t.Fatal(err)
			}
			if _, err := fcall(e, &echo{}, l, "f", false); err != nil && err != ErrExclusive {
				t.Fatal(err)
			}
		}
		var table *vm.LTable
		for _, t := range l.resident.tables {
			table = t
		}
		if n := len(contentsOf(table).keys); n > 3*kept+1000 {
			t.Errorf("%d keys are there of %d values", n, kept)
		}
	}
}

// All calls see the same variables, whoever makes them.
func TestCallsTakeTurns(t *testing.T) {
	e := newEngine(t, 0)
	l := loadLibrary(t, e,
		"local n, t = 0, {n = 0} redis.register_function('f', function() n = n + 1 redis.call('one') t.n = t.n + 1 "+
			"return n - t.n end)")
	const callers, calls = 8, 500
	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() {
			for range calls {
				if got, err := fcall(e, &echo{}, l, "f", i%2 == 0); err != nil || got != ":0\r\n" {
					t.Errorf("%q %v", got, err)
					return
				}
			}
		})
	}
	wg.Wait()
	if v := l.resident.cells[0].Value(); v != vm.LNumber(callers*calls) {
		t.Errorf("%v calls of %d are counted", v, callers*calls)
	}
}

// Who waits for a function that lasts gets BUSY as soon as that counts as slow; those who come when it has ended do
// not.
func TestWaitingForASlowFunction(t *testing.T) {
	limit := 20 * time.Millisecond
	e := New(Options{MemoryLimit: func() int64 { return 0 }, TimeLimit: func() time.Duration { return limit },
		Version: "7.2.5", States: 1})
	l := loadLibrary(t, e,
		"local n = 0 redis.register_function('f', function(k, a) n = n + 1 while a[1] do end return n end)")
	slow := make(chan error)
	go func() {
		_, err := fcall(e, &echo{}, l, "f", false, "slow")
		slow <- err
	}()
	for len(l.resident.turn) == 0 {
		time.Sleep(time.Millisecond)
	}
	for range 2 { // one that waits, and one that comes later
		if _, err := fcall(e, &echo{}, l, "f", false); err != errBusyFunction {
			t.Errorf("%v, want BUSY", err)
		}
	}
	if got := eval(t, e, "return 1"); got != ":1\r\n" {
		t.Errorf("a script has to wait for a function of a library that is resident: %q", got)
	}
	if f, ok := e.Running(); !ok || !f.Function || f.Name != "f" || f.Command[1] != "f" {
		t.Errorf("%+v runs", f)
	}
	if err := e.Kill(true); err != nil {
		t.Error(err)
	}
	if err := <-slow; err == nil || !strings.Contains(err.Error(), "killed") {
		t.Errorf("%v", err)
	}
	if got, err := fcall(e, &echo{}, l, "f", false); err != nil || got != ":2\r\n" {
		t.Errorf("%q %v: what the function had done until it was killed counts", got, err)
	}
}

// A function that has run for long leaves the variables where they are, when its stacks are given back.
func TestResidentRests(t *testing.T) {
	e := newEngine(t, 0)
	l := loadLibrary(t, e, fmt.Sprintf(`local n = 0
redis.register_function('f', function(k, a)
	if a[1] then for i = 1, %d do end end
	n = n + 1
	return {n, coroutine.running() == nil, coroutine.wrap(function() return coroutine.running() ~= nil end)()}
end)`, worn))
	for i := range 4 {
		args := []string{"long"}[:i%2]
		if got, err := fcall(e, &echo{}, l, "f", false, args...); err != nil ||
			got != fmt.Sprintf("*3\r\n:%d\r\n:1\r\n:1\r\n", i+1) {
			t.Errorf("%q %v", got, err)
		}
	}
}
