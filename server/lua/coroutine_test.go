package lua

import "testing"

// However calls are nested, in coroutines, in calls that are protected, and in place of operators, the stack of the
// process is not exhausted: that would be its end.
func TestNestedCalls(t *testing.T) {
	e := newEngine(t, 0)
	const failed = "$5\r\nfalse\r\n"
	for _, tt := range []struct{ source, want string }{
		{"local co co = coroutine.create(function() return coroutine.resume(coroutine.create(function() return " +
			"coroutine.resume(co) end)) end) return {select(4, coroutine.resume(co))}",
			"*1\r\n$30\r\ncannot resume normal coroutine\r\n"},
		{"local function f() return coroutine.wrap(f)() end return tostring(pcall(f))", failed},
		{"local function f() local ok, e = coroutine.resume(coroutine.create(f)) if not ok then error(e, 0) end end return " +
			"{select(2, pcall(f))}",
			"*1\r\n$16\r\nC stack overflow\r\n"},
		{"local function f() local ok, e = pcall(f) if not ok then error(e, 0) end end return {select(2, pcall(f))}",
			"*1\r\n$16\r\nC stack overflow\r\n"},
		// Operators that call themselves, and each time shortly before there are too many, another thread.
		{"local n, t = 0 t = setmetatable({}, {__index = function() n = n + 1 if n % 4900 == 0 then return " +
			"coroutine.wrap(function() return t.x end)() end return t.x end}) return tostring(pcall(function() return t.x end))",
			failed},
		{"local n, t = 0 t = setmetatable({}, {__index = function() n = n + 1 if n % 4900 == 0 then local ok, v = " +
			"pcall(function() return t.x end) if not ok then error(v, 0) end end return t.x end}) return " +
			"tostring(pcall(function() return t.x end))", failed},
	} {
		if got := eval(t, e, tt.source); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.source, got, tt.want)
		}
		if got := eval(t, e, "return tostring(pcall(function() return 1 end))"); got != "$4\r\ntrue\r\n" {
			t.Fatalf("after %s: %q", tt.source, got)
		}
	}
}
