package server

import (
	"strings"
	"sync"
	"testing"
)

// keeping is a library that counts its calls in a local variable.
const keeping = `#!lua name=l
local n, t = 0, {}
redis.register_function('count', function(keys, args)
	n = n + 1
	t[n % 7] = n
	if args[1] then redis.call(unpack(args)) end
	return n
end)
redis.register_function{function_name = 'read', callback = function() return n end, flags = {'no-writes'}}
redis.register_function('fail', function() n = n + 1 error('failed') end)
redis.register_function('last', function(keys) n = n + 1 redis.call('SET', keys[1], '1') ` + endless + ` end)`

func TestFunctionsKeepTheirVariables(t *testing.T) {
	h := start(t)
	c := h.dial(t)
	load := func(args ...string) {
		t.Helper()
		if r := c.do(append([]string{"FUNCTION", "LOAD"}, args...)...); r[0] != '$' {
			t.Fatal(r)
		}
	}
	load(keeping)
	if fields, _ := parseInfo(t, c.do("INFO", "memory")); fields["used_memory_vm_functions"] == "0" {
		t.Error("the library's virtual machine is not counted")
	}
	const clients, calls = 8, 200
	var wg sync.WaitGroup
	for range clients {
		o := h.dial(t)
		wg.Go(func() {
			for range calls {
				if r := o.do("FCALL", "count", "1", "k", "INCR", "k"); r[0] != ':' {
					t.Errorf("%q", r)
				}
			}
		})
	}
	wg.Wait()
	c.want("GET k", "$4\r\n1600\r\n")
	c.want("FCALL_RO read 0", ":1600\r\n")

	// What fails has counted, and what is undone has not.
	if r := c.do("FCALL", "fail", "0"); !strings.HasPrefix(r,
		"-ERR user_function:10: failed script: fail, on @user_function:10.") {
		t.Errorf("%q", r)
	}
	c.want("FCALL read 0", ":1601\r\n")
	if r := c.do("FCALL", "count", "0", "NOSUCH"); r[0] != '-' {
		t.Errorf("%q", r)
	}
	c.want("FCALL read 0", ":1602\r\n")
	for _, cmd := range []string{"MULTI", "FCALL count 0", "FCALL count 0 SET a 1",
		"EVAL return(redis.call('FLUSHALL')) 0"} {
		c.do(strings.Fields(cmd)...)
	}
	c.want("EXEC", "*3\r\n:1603\r\n:1604\r\n+OK\r\n") // the script needs all locks
	c.want("FCALL count 0 FLUSHALL", ":1605\r\n")

	// Another one of that name is refused before its code runs.
	if r := c.do("FUNCTION", "LOAD", "#!lua name=l\nthis is no Lua"); r != "-ERR Library 'l' already exists\r\n" {
		t.Errorf("a second library: %q", r)
	}

	// They are there until the library goes.
	load("REPLACE", keeping)
	c.want("FCALL count 0", ":1\r\n")
	load("REPLACE", strings.Replace(keeping, "name=l", "name=l ", 1))
	c.want("FCALL count 0", ":1\r\n")
	c.want("FCALL count 0", ":2\r\n")
	load("#!lua name=other\nlocal n = 100 redis.register_function('other', function() n = n + 1 return n end)")
	c.want("FCALL count 0", ":3\r\n")
	c.want("FCALL other 0", ":101\r\n")
	dump := c.do("FUNCTION", "DUMP")
	dump = dump[strings.Index(dump, "\n")+1 : len(dump)-2]
	c.want("FUNCTION DELETE l", "+OK\r\n")
	if r := c.do("FUNCTION", "RESTORE", dump); r[0] != '-' {
		t.Errorf("%q: there is a library of that name", r)
	}
	c.want("FCALL other 0", ":102\r\n")
	if r := c.do("FUNCTION", "RESTORE", dump, "REPLACE"); r != "+OK\r\n" {
		t.Errorf("%q", r)
	}
	c.want("FCALL count 0", ":1\r\n")
	c.want("FCALL other 0", ":101\r\n")
	c.do("MULTI")
	c.do("FUNCTION", "LOAD", "REPLACE", keeping)
	c.do("FCALL", "count", "0")
	c.want("EXEC", "*2\r\n$1\r\nl\r\n:1\r\n")
	c.want("FCALL count 0", ":2\r\n")
	c.want("FUNCTION FLUSH", "+OK\r\n")
	load(keeping)
	c.want("FCALL count 0", ":1\r\n")
}

// A function that meets the lock of another is undone and comes again: that is one call.
func TestFunctionThatComesAgainCountsOnce(t *testing.T) {
	h := start(t, "lua-time-limit", "600000") // nobody is to be turned away
	a, b, c := h.dial(t), h.dial(t), h.dial(t)
	if r := a.do("FUNCTION", "LOAD", keeping); r[0] != '$' {
		t.Fatal(r)
	}
	a.send(encode("EVAL", "redis.call('SET','held','1') "+endless, "1", "held"))
	eventually(t, "the script holds its lock", h.scripts.Active)
	b.send(encode("FCALL", "count", "0", "EVAL-is-no-command"))
	b.reply()
	b.send(encode("FCALL", "count", "1", "free", "INCR", "held"))
	h.arrived(t, b, len(encode("FCALL", "count", "1", "free", "INCR", "held")))
	c.want("FCALL read 0", ":1\r\n") // no lock is waited for in a function's turn
	c.want("SCRIPT KILL", "+OK\r\n")
	a.reply()
	if r := b.reply(); r != ":2\r\n" {
		t.Errorf("%q", r)
	}
	c.want("GET held", "$1\r\n1\r\n")
}

// While a function lasts, those that need its variables get BUSY, and what does not need them, or its keys, goes on.
func TestSlowFunctionOfALibraryWithVariables(t *testing.T) {
	h := startApart(t, []string{"held", "free"}, "lua-time-limit", "1")
	a, b := h.dial(t), h.dial(t)
	if r := a.do("FUNCTION", "LOAD", keeping); r[0] != '$' {
		t.Fatal(r)
	}
	a.send(encode("FCALL", "last", "1", "held"))
	eventually(t, "the function is slow", h.scripts.Slow)
	const busy = "-BUSY Redis is busy running a script. You can only call FUNCTION KILL or SHUTDOWN NOSAVE.\r\n"
	b.want("FCALL count 1 free", busy)
	b.want("FCALL_RO read 0", busy)
	b.want("SET held 2", busy)
	b.want("EVAL return(1) 0", ":1\r\n")
	b.want("SET free 1", "+OK\r\n")
	if r := b.do("FUNCTION", "STATS"); !strings.HasPrefix(r,
		"*4\r\n$14\r\nrunning_script\r\n*6\r\n$4\r\nname\r\n$4\r\nlast\r\n$7\r\ncommand\r\n*4\r\n$5\r\nFCALL\r\n$4\r\nlast\r\n$1\r\n1\r\n$4\r\nheld\r\n$11\r\nduration_ms\r\n:") {
		t.Errorf("%q", r)
	}
	b.want("FUNCTION KILL", "+OK\r\n")
	a.reply()
	b.want("FCALL count 0", ":2\r\n")
	b.want("EXISTS held", ":0\r\n")
}
