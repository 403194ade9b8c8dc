package lua

import (
	"strings"
	"testing"
	"time"
)

// Taking the last element of an array away, in the ways that scripts have.
func TestPop(t *testing.T) {
	e := newEngine(t, 0)
	for _, tt := range []struct{ source, want string }{
		{"local t={1,2,3} t[#t]=nil return {#t, t[1], t[2], t[3]==nil and 1}", "*4\r\n:2\r\n:1\r\n:2\r\n:1\r\n"},
		{"local t={} t[#t]=nil return #t", ":0\r\n"},
		{"local t={[0]=5} t[#t]=nil return {#t, t[0]==nil and 1}", "*2\r\n:0\r\n:1\r\n"},
		{"local t={1,nil,3,nil} t[#t]=nil return {#t, t[1], t[3]==nil and 1}", "*3\r\n:1\r\n:1\r\n:1\r\n"},
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
	for _, pop := range []string{"t[#t]=nil", "table.remove(t)"} {
		e := newEngine(t, 0)
		got := evalOn(t, e, &echo{limit: time.Minute}, "local t={} for i=1,300000 do t[i]=i end for i=1,300000 do "+pop+" end return #t")
		if got != ":0\r\n" {
			t.Errorf("%s: %q", pop, got)
		}
	}
}
