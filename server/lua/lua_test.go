package lua

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/basaltdb/basalt/server/resp"
)

// echo is a host whose commands reply what they are called with.
type echo struct{ logged []string }

func (h *echo) Call(args [][]byte, out *resp.Writer) error {
	switch strings.ToLower(string(args[0])) {
	case "raw":
		out.Raw(args[1])
	case "abort":
		return errors.New("aborted")
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

func newEngine(t testing.TB, memory int64) *Engine {
	t.Helper()
	return New(Options{MemoryLimit: func() int64 { return memory }, TimeLimit: func() time.Duration { return 0 }, Version: "7.2.5", States: 4})
}

// eval runs a script and returns its reply, or the text of its error.
func eval(t testing.TB, e *Engine, source string, keysAndArgs ...[]string) string {
	t.Helper()
	s, err := e.Script([]byte(source))
	if err != nil {
		return "-" + err.Error()
	}
	r := &Run{Script: s, Host: &echo{}, Out: &resp.Writer{}}
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

func TestSmoke(t *testing.T) {
	e := newEngine(t, 0)
	for _, c := range [][2]string{
		{"return 1", ":1\r\n"},
		{"return 1/3 .. ''", "$16\r\n0.33333333333333\r\n"},
		{"local n=0 local function inc() n=n+1 end inc() pcall(error,'x') inc() return n", ":2\r\n"},
		{"return redis.call('a','b')", "*2\r\n$1\r\na\r\n$1\r\nb\r\n"},
		{"return cjson.encode({1,2,{a=1}})", "$13\r\n[1,2,{\"a\":1}]\r\n"},
		{"x=1", "-ERR user_script:1: Attempt to modify a readonly table script: "},
		{"KEYS=1", "-ERR user_script:1: Attempt to modify a readonly table script: "},
		{"return x", "-ERR user_script:1: Script attempted to access nonexistent global variable 'x' script: "},
		{"local a return a.b", "-ERR user_script:1: attempt to index a nil value script: "},
		{"error('x')", "-ERR user_script:1: x script: "},
		{"local t={} t.x=1 return string.format('%5.2f',t.x)..('x'):rep(3)", "$8\r\n 1.00xxx\r\n"},
		{"local co=coroutine.wrap(function(a) local b=coroutine.yield(a+1) return b*2 end) return {co(1),co(10)}", "*2\r\n:2\r\n:20\r\n"},
	} {
		// An error goes on with the script's name, which follows from its text.
		if got := eval(t, e, c[0]); got != c[1] && !(c[1][0] == '-' && strings.HasPrefix(got, c[1])) {
			t.Errorf("%s: %q, want %q", c[0], got, c[1])
		}
	}
}

func BenchmarkEval(b *testing.B) {
	e := newEngine(b, 1<<28)
	for name, source := range map[string]string{
		"one":     "return redis.call('one', KEYS[1])",
		"calls":   "local s=0 for i=1,1000 do s=s+redis.call('one',KEYS[1],'field','1') end return s",
		"compute": `local function fib(n) if n<2 then return n end return fib(n-1)+fib(n-2) end local s=0 for i=1,20000 do s=(s*31+i)%1000003 end local t={} for i=1,2000 do t[i]=(i*7919)%2003 end table.sort(t) local b={} for i=1,500 do b[#b+1]='k'..i end return fib(16)+s+#table.concat(b)`,
		"cjson":   `local d='{"id":12345,"name":"job","opts":{"delay":100,"attempts":3,"tags":["a","b","c"]},"data":{"x":1.5,"y":[1,2,3,4,5,6,7,8]}}' for i=1,100 do local t=cjson.decode(d) t.id=i local e=cjson.encode(t) end return 1`,
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			var w resp.Writer
			r := &Run{Host: &echo{}, Out: &w, Keys: [][]byte{[]byte("key")}}
			for b.Loop() {
				r.Script, _ = e.Script([]byte(source))
				w.Reset()
				if err := e.Run(r); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
