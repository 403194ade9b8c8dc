package session_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/basaltdb/basalt/server/servertest"
)

// The sections commandstats and errorstats of INFO count the commands that scripts call like redis-server 7.0.15.
func TestScriptStatistics(t *testing.T) {
	const wrong = "errorstat_WRONGTYPE=count=1 "
	for _, tt := range []struct{ script, want string }{
		{"redis.call('set','a','b') return 1", "eval=1,0,0 set=1,0,0"},
		{"for i=1,3 do redis.call('get','s') end", "eval=1,0,0 get=3,0,0"},
		{"return redis.pcall('hset','s','b','c')", wrong + "eval=1,0,1 hset=1,0,1"},
		{"redis.pcall('hset','s','b','c')", wrong + "eval=1,0,0 hset=1,0,1"},
		{"redis.call('hset','s','b','c')", wrong + "eval=1,0,1 hset=1,0,1"},
		{"local r=redis.pcall('hset','s','b','c') error(r)", wrong + "eval=1,0,1 hset=1,0,1"},
		{"return {1,redis.pcall('hset','s','b','c')}", wrong + "eval=1,0,1 hset=1,0,1"},
		{"return redis.error_reply('MYERR x')", "errorstat_MYERR=count=1 eval=1,0,1"},
		{"return redis.error_reply('My')", "errorstat_ERR=count=1 eval=1,0,1"},
		{"return {redis.error_reply('IN x')}", "errorstat_IN=count=1 eval=1,0,1"},
		{"error('boom')", "errorstat_ERR=count=1 eval=1,0,1"},
		{"error({err='ZZ boom'})", "errorstat_ZZ=count=1 eval=1,0,1"},
		{"redis.call('nosuch')", "errorstat_ERR=count=1 eval=1,0,1"},
		{"redis.call('get')", "errorstat_ERR=count=1 eval=1,0,1 get=0,1,0"},
		{"redis.pcall('get') redis.pcall('multi')", "errorstat_ERR=count=2 eval=1,0,0 get=0,1,0 multi=0,1,0"},
	} {
		t.Run(tt.script, func(t *testing.T) {
			c := servertest.Start(t).Dial(t)
			c.Want("SET s x", "+OK\r\n")
			c.Want("CONFIG RESETSTAT", "+OK\r\n")
			c.Do("EVAL", tt.script, "0")
			fields, _ := servertest.ParseInfo(t, c.Do("INFO", "everything"))
			var got []string
			for _, name := range []string{"ERR", "IN", "MYERR", "WRONGTYPE", "ZZ"} {
				if v := fields["errorstat_"+name]; v != "" {
					got = append(got, "errorstat_"+name+"="+v)
				}
			}
			stat := regexp.MustCompile(`^calls=(\d+),usec=\d+,usec_per_call=[\d.]+,rejected_calls=(\d+),failed_calls=(\d+)$`)
			for _, name := range []string{"eval", "get", "hset", "multi", "set"} {
				v := fields["cmdstat_"+name]
				if v == "" {
					continue
				}
				m := stat.FindStringSubmatch(v)
				if m == nil {
					t.Fatalf("%s: %q", name, v)
				}
				got = append(got, name+"="+strings.Join(m[1:], ","))
				if latency := fields["latency_percentiles_usec_"+name]; (latency != "") != (m[1] != "0") {
					t.Errorf("%s: latencystats %q", name, latency)
				}
			}
			if s := strings.Join(got, " "); s != tt.want {
				t.Errorf("%s\nwant %s", s, tt.want)
			}
		})
	}
}

// The commands of a script that is undone and run again with more locks are counted once.
func TestScriptStatisticsOfASecondTry(t *testing.T) {
	h := servertest.StartApart(t, []string{"held", "free"}, "lua-time-limit", "600000") // no client gets BUSY
	a, b, c := h.Dial(t), h.Dial(t), h.Dial(t)
	a.Send(servertest.Encode("EVAL", "redis.call('SET','held','1') "+endless, "1", "held"))
	servertest.Eventually(t, "the script holds its lock", h.Sessions().Scripts.Active)
	b.Send(servertest.Encode("EVAL", "redis.call('INCR','free') return redis.call('INCR','held')", "0"))
	began := func() bool {
		fields, _ := servertest.ParseInfo(t, c.Do("INFO", "latencystats"))
		return fields["latency_percentiles_usec_incr"] != "" // the latencies are recorded also for a try that is undone
	}
	servertest.Eventually(t, "the second script has been tried", began)
	c.Want("SCRIPT KILL", "+OK\r\n")
	a.Reply()
	if r := b.Reply(); r != ":1\r\n" {
		t.Errorf("%q", r)
	}
	servertest.Eventually(t, "each command is counted once", func() bool {
		fields, _ := servertest.ParseInfo(t, c.Do("INFO", "commandstats"))
		return strings.HasPrefix(fields["cmdstat_incr"], "calls=2,") && strings.HasPrefix(fields["cmdstat_eval"], "calls=2,")
	})
}

func TestInfoOfScripts(t *testing.T) {
	c := servertest.Start(t).Dial(t)
	number := func(name string) string {
		fields, _ := servertest.ParseInfo(t, c.Do("INFO", "memory"))
		v, ok := fields[name]
		if !ok {
			t.Errorf("no field %s", name)
		}
		return v
	}
	for _, name := range []string{"number_of_cached_scripts", "number_of_functions", "number_of_libraries",
		"used_memory_scripts_eval", "used_memory_functions",
		"used_memory_scripts", "used_memory_vm_functions"} {
		if v := number(name); v != "0" {
			t.Errorf("%s is %s", name, v)
		}
	}
	c.Want("EVAL return(1) 0", ":1\r\n")
	c.Want("EVAL return(2) 0", ":2\r\n")
	if r := c.Do("FUNCTION", "LOAD",
		"#!lua name=l\nredis.register_function('f',function() end) "+
			"redis.register_function('g',function() end)"); r[0] != '$' {
		t.Fatal(r)
	}
	for name, want := range map[string]string{"number_of_cached_scripts": "2", "number_of_functions": "2",
		"number_of_libraries": "1"} {
		if v := number(name); v != want {
			t.Errorf("%s is %s, want %s", name, v, want)
		}
	}
	for _, name := range []string{"used_memory_lua", "used_memory_vm_eval", "used_memory_lua_human",
		"used_memory_scripts_eval", "used_memory_vm_total",
		"used_memory_vm_total_human", "used_memory_functions", "used_memory_scripts", "used_memory_scripts_human"} {
		if v := number(name); v == "0" || v == "0B" {
			t.Errorf("%s is %s", name, v)
		}
	}
}

// FLUSHDB needs all locks: the transaction runs again from its beginning, but every command counts once.
func TestStatisticsOfRepeatedTransaction(t *testing.T) {
	c := servertest.Start(t).Dial(t)
	c.Want("CONFIG RESETSTAT", "+OK\r\n")
	c.Want("MULTI", "+OK\r\n")
	c.Want("INCR a", "+QUEUED\r\n")
	c.Do("EVAL", "return redis.call('PUBLISH', 'x', 'y')", "0")
	c.Do("EVAL", "return redis.call('FLUSHDB')", "0")
	c.Want("EXEC", "*3\r\n:1\r\n:0\r\n+OK\r\n")
	fields, _ := servertest.ParseInfo(t, c.Do("INFO", "commandstats"))
	for name, want := range map[string]string{"incr": "1", "publish": "1", "eval": "2", "flushdb": "1", "exec": "1"} {
		if got := fields["cmdstat_"+name]; !strings.HasPrefix(got, "calls="+want+",") {
			t.Errorf("%s: %s, want %s calls", name, got, want)
		}
	}
}
