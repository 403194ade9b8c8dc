package session_test

import (
	"strings"
	"sync"
	"testing"

	"github.com/basaltdb/basalt/server/servertest"
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
	h := servertest.Start(t)
	c := h.Dial(t)
	load := func(args ...string) {
		t.Helper()
		if r := c.Do(append([]string{"FUNCTION", "LOAD"}, args...)...); r[0] != '$' {
			t.Fatal(r)
		}
	}
	load(keeping)
	if fields, _ := servertest.ParseInfo(t, c.Do("INFO", "memory")); fields["used_memory_vm_functions"] == "0" {
		t.Error("the library's virtual machine is not counted")
	}
	const clients, calls = 8, 200
	var wg sync.WaitGroup
	for range clients {
		o := h.Dial(t)
		wg.Go(func() {
			for range calls {
				if r := o.Do("FCALL", "count", "1", "k", "INCR", "k"); r[0] != ':' {
					t.Errorf("%q", r)
				}
			}
		})
	}
	wg.Wait()
	c.Want("GET k", "$4\r\n1600\r\n")
	c.Want("FCALL_RO read 0", ":1600\r\n")

	// A failed function keeps its changes to variables; a function that is undone does not.
	if r := c.Do("FCALL", "fail", "0"); !strings.HasPrefix(r,
		"-ERR user_function:10: failed script: fail, on @user_function:10.") {
		t.Errorf("%q", r)
	}
	c.Want("FCALL read 0", ":1601\r\n")
	if r := c.Do("FCALL", "count", "0", "NOSUCH"); r[0] != '-' {
		t.Errorf("%q", r)
	}
	c.Want("FCALL read 0", ":1602\r\n")
	c.DoAll("MULTI;FCALL count 0;FCALL count 0 SET a 1;EVAL return(redis.call('FLUSHALL')) 0")
	c.Want("EXEC", "*3\r\n:1603\r\n:1604\r\n+OK\r\n") // the script needs all locks
	c.Want("FCALL count 0 FLUSHALL", ":1605\r\n")

	// A second library with this name is refused before its code runs.
	if r := c.Do("FUNCTION", "LOAD", "#!lua name=l\nthis is no Lua"); r != "-ERR Library 'l' already exists\r\n" {
		t.Errorf("a second library: %q", r)
	}

	// The variables exist until the library is replaced or deleted.
	load("REPLACE", keeping)
	c.Want("FCALL count 0", ":1\r\n")
	load("REPLACE", strings.Replace(keeping, "name=l", "name=l ", 1))
	c.Want("FCALL count 0", ":1\r\n")
	c.Want("FCALL count 0", ":2\r\n")
	load("#!lua name=other\nlocal n = 100 redis.register_function('other', function() n = n + 1 return n end)")
	c.Want("FCALL count 0", ":3\r\n")
	c.Want("FCALL other 0", ":101\r\n")
	dump := c.Do("FUNCTION", "DUMP")
	dump = dump[strings.Index(dump, "\n")+1 : len(dump)-2]
	c.Want("FUNCTION DELETE l", "+OK\r\n")
	if r := c.Do("FUNCTION", "RESTORE", dump); r[0] != '-' {
		t.Errorf("%q, although a library with this name exists", r)
	}
	c.Want("FCALL other 0", ":102\r\n")
	if r := c.Do("FUNCTION", "RESTORE", dump, "REPLACE"); r != "+OK\r\n" {
		t.Errorf("%q", r)
	}
	c.Want("FCALL count 0", ":1\r\n")
	c.Want("FCALL other 0", ":101\r\n")
	c.Do("MULTI")
	c.Do("FUNCTION", "LOAD", "REPLACE", keeping)
	c.Do("FCALL", "count", "0")
	c.Want("EXEC", "*2\r\n$1\r\nl\r\n:1\r\n")
	c.Want("FCALL count 0", ":2\r\n")
	c.Want("FUNCTION FLUSH", "+OK\r\n")
	load(keeping)
	c.Want("FCALL count 0", ":1\r\n")
}

// A function that lacks a lock is undone and run again: its variables have the changes of one call.
func TestFunctionThatRunsAgainCountsOnce(t *testing.T) {
	h := servertest.Start(t, "lua-time-limit", "600000") // no client gets BUSY
	a, b, c := h.Dial(t), h.Dial(t), h.Dial(t)
	if r := a.Do("FUNCTION", "LOAD", keeping); r[0] != '$' {
		t.Fatal(r)
	}
	a.Send(servertest.Encode("EVAL", "redis.call('SET','held','1') "+endless, "1", "held"))
	servertest.Eventually(t, "the script holds its lock", h.Sessions().Scripts.Active)
	b.Send(servertest.Encode("FCALL", "count", "0", "EVAL-is-no-command"))
	b.Reply()
	b.Send(servertest.Encode("FCALL", "count", "1", "free", "INCR", "held"))
	h.Arrived(t, b, len(servertest.Encode("FCALL", "count", "1", "free", "INCR", "held")))
	c.Want("FCALL read 0", ":1\r\n") // the waiting function does not occupy the library
	c.Want("SCRIPT KILL", "+OK\r\n")
	a.Reply()
	if r := b.Reply(); r != ":2\r\n" {
		t.Errorf("%q", r)
	}
	c.Want("GET held", "$1\r\n1\r\n")
}

// While a function runs, commands that need the variables of its library, or its keys, get BUSY; other commands run.
func TestSlowFunctionOfALibraryWithVariables(t *testing.T) {
	h := servertest.StartApart(t, []string{"held", "free"}, "lua-time-limit", "1")
	a, b := h.Dial(t), h.Dial(t)
	if r := a.Do("FUNCTION", "LOAD", keeping); r[0] != '$' {
		t.Fatal(r)
	}
	a.Send(servertest.Encode("FCALL", "last", "1", "held"))
	servertest.Eventually(t, "the function is slow", h.Sessions().Scripts.Slow)
	const busy = "-BUSY Redis is busy running a script. You can only call FUNCTION KILL or SHUTDOWN NOSAVE.\r\n"
	b.Want("FCALL count 1 free", busy)
	b.Want("FCALL_RO read 0", busy)
	b.Want("SET held 2", busy)
	b.Want("EVAL return(1) 0", ":1\r\n")
	b.Want("SET free 1", "+OK\r\n")
	if r := b.Do("FUNCTION", "STATS"); !strings.HasPrefix(r,
		"*4\r\n$14\r\nrunning_script\r\n*6\r\n$4\r\nname\r\n$4\r\nlast\r\n$7\r\ncommand\r\n*4\r\n$5\r\nFCALL\r\n$4\r\n"+
			"last\r\n$1\r\n1\r\n$4\r\nheld\r\n$11\r\nduration_ms\r\n:") {
		t.Errorf("%q", r)
	}
	b.Want("FUNCTION KILL", "+OK\r\n")
	a.Reply()
	b.Want("FCALL count 0", ":2\r\n")
	b.Want("EXISTS held", ":0\r\n")
}
