package lua

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// Constructors of any length, with and without keys between, and with several values at the end, have what the elements
// say. The check is made in Lua, by indexes.
func TestConstructors(t *testing.T) {
	e := newEngine(t, 0)
	list := func(from, to int) string {
		var b strings.Builder
		for i := from; i <= to; i++ {
			fmt.Fprintf(&b, "%d,", i%97)
		}
		return b.String()
	}
	// The elements are i%97 each; f returns the three that follow n, g none, and h three of which the second is nil.
	const check = `
local function check(t, n, keys)
	for i=1,n do if t[i] ~= i%97 then return 'at '..i..' '..tostring(t[i]) end end
	if t[n+1] ~= nil then return 'more than '..n end
	for k,v in pairs(keys or {}) do if t[k] ~= v then return tostring(k)..' is '..tostring(t[k]) end end
	return 'ok'
end
local function f(n) return (n+1)%97, (n+2)%97, (n+3)%97 end
local function g() end
local function v(...) return ... end
`
	for _, n := range []int{0, 1, 2, 49, 50, 51, 99, 100, 101, 150, 1000, 25500, 25551, 51050} {
		one := max(n/2, 1)
		for _, tt := range []struct{ constructor, want string }{
			{fmt.Sprintf("{%s}", list(1, n)), fmt.Sprintf("check(t,%d)", n)},
			{fmt.Sprintf("{%s f(%d)}", list(1, n), n), fmt.Sprintf("check(t,%d)", n+3)},
			{fmt.Sprintf("{%s (f(%d))}", list(1, n), n), fmt.Sprintf("check(t,%d)", n+1)},
			{fmt.Sprintf("{%s g()}", list(1, n)), fmt.Sprintf("check(t,%d)", n)},
			{fmt.Sprintf("{%s ...}", list(1, n)), fmt.Sprintf("check(t,%d)", n)},
			{fmt.Sprintf("{%s v(f(%d))}", list(1, n), n), fmt.Sprintf("check(t,%d)", n+3)},
			{fmt.Sprintf("{%s x=g, y='z'}", list(1, n)), fmt.Sprintf("check(t,%d,{x=g,y='z'})", n)},
			{fmt.Sprintf("{x='a', %s y='z', f(%d)}", list(1, n), n), fmt.Sprintf("check(t,%d,{x='a',y='z'})", n+3)},
			{fmt.Sprintf("{%s x='a', %s ['y']='z', %s}", list(1, one), list(one+1, n), ""),
				fmt.Sprintf("check(t,%d,{x='a',y='z'})", max(n, 1))},
			{fmt.Sprintf("{%s x='a', %s}", list(1, one), list(one+1, n)), fmt.Sprintf("check(t,%d,{x='a'})", max(n, 1))},
			{fmt.Sprintf("{%s [g]='a', %s f(%d)}", list(1, min(one, 50)), list(min(one, 50)+1, min(n, 5000)),
				max(min(n, 5000), 1)), fmt.Sprintf("check(t,%d,{[g]='a'})", max(min(n, 5000), 1)+3)},
			{fmt.Sprintf("{%s [g]='a', %s}", list(1, min(one, 50)), list(min(one, 50)+1, min(n, 5000))),
				fmt.Sprintf("check(t,%d,{[g]='a'})", max(min(n, 5000), 1))},
			{fmt.Sprintf("{%s x='a', %s f(%d)}", list(1, one), list(one+1, n), max(n, 1)),
				fmt.Sprintf("check(t,%d,{x='a'})", max(n, 1)+3)},
		} {
			if n == 0 && strings.HasPrefix(tt.constructor, "{1,") {
				continue
			}
			if got := eval(t, e, check+"local t="+tt.constructor+" return "+tt.want); got != "$2\r\nok\r\n" {
				t.Errorf("%d elements, %.30s...%s: %q", n, tt.constructor, tt.constructor[max(0, len(tt.constructor)-20):], got)
			}
		}
	}
	for _, tt := range []struct{ source, want string }{
		// The order of evaluation, and a function's own arguments.
		{"local s='' local function w(x) s=s..x return x end local t={" + strings.Repeat("w(1),", 50) +
			"x=w(2), w(3), y=w(4), w(5)} return {s, #t}",
			"*2\r\n$54\r\n" + strings.Repeat("1", 50) + "2345\r\n:52\r\n"},
		{"local function w(...) return {" + strings.Repeat("0,", 50) +
			"...} end return {#w(1,2,3), w(7,8,9)[52], #w()}", "*3\r\n:53\r\n:8\r\n:50\r\n"},
		{"local function h() return 1,nil,3 end local t={" + strings.Repeat("0,", 100) +
			"h()} return {t[101], t[102]==nil and 1, t[103]}", "*3\r\n:1\r\n:1\r\n:3\r\n"},
		{"local function h() return 1,2 end local t={" + strings.Repeat("h(),", 50) + "x=h(), " +
			strings.Repeat("h(),", 50) + "h()} return {#t,t.x}", "*2\r\n:102\r\n:1\r\n"},
		{"local function h() return 1,2 end local t={" + strings.Repeat("h(),", 50) + "[2.5]=h(), " +
			strings.Repeat("h(),", 50) + "h()} return {#t,t[2.5]}", "*2\r\n:102\r\n:1\r\n"},
		{"math=nil", "-ERR user_script:1: Attempt to modify a readonly table script: "},
		{"local t={" + strings.Repeat("0,", 50) + "f=function() return {" + strings.Repeat("0,", 50) +
			"unpack({1,2})} end} return #t.f()", ":52\r\n"},
	} {
		if got := eval(t, e, tt.source); !strings.HasPrefix(got, tt.want) {
			t.Errorf("%.60s: %.200q, want %q", tt.source, got, tt.want)
		}
	}
}

// The compiler takes time in proportion to the length of the source.
func TestCompileCost(t *testing.T) {
	e := newEngine(t, 0)
	many := func(n int, format string) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, format, i)
		}
		return b.String()
	}
	for _, tt := range []struct{ name, source, want string }{
		{"strings", "return #{" + many(60000, "'a%d',") + "}", ":60000"},
		{"numbers", "return #{" + many(60000, "%d.5,") + "}", ":60000"},
		{"globals", "if KEYS then return 1 end " + many(60000, "a%d=1 "), ":1"},
		{"fields", "local t={} " + many(60000, "t.a%d=1 ") + "return t.a59999", ":1"},
		{"methods", "local t=KEYS if t then return 1 end " + many(60000, "t:a%d() "), ":1"},
		{"functions", "local t={} " + many(60000, "function t:a%d() end "), "$-1"},
		{"many functions", "local x,y,z " + many(20, "x=function() "+strings.ReplaceAll(many(10000, "y='a%d' "), "%",
			"%%")+" end z=%d ") + "return z", ":19"},
		{"a table of data", "return #{" + many(12000, "'a%d',") + "}", ":12000"},
		{"one constant", "return #{" + many(100000, "'a',--%d\n") + "}", ":100000"},
		{"a long string", "return #'" + many(100000, "abc%d") + "'", ":788890"},
		{"small functions", "local x " + many(20000, "x=function() return %d end ") + " return x()", ":19999"},
	} {
		done := make(chan string, 1)
		go func() { done <- eval(t, e, tt.source) }()
		got, ok := within(time.Minute, done)
		if !ok {
			t.Fatalf("%s: it is still being compiled", tt.name)
		}
		if !strings.Contains(got, tt.want) {
			t.Errorf("%s: %.200q, want %q", tt.name, got, tt.want)
		}
	}
}
