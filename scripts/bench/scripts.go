package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"time"

	"github.com/basaltdb/basalt/scripts/internal/launch"
	"github.com/basaltdb/basalt/scripts/internal/redisclient"
	"github.com/basaltdb/basalt/scripts/internal/tool"
)

// script is a Lua script whose CPU time is measured: that of the whole server process, divided by the calls. EVALSHA
// calls it from few clients with pipelines, so that the network matters little.
type script struct {
	name   string
	source string
	keys   int     // number of declared keys, whose names contain random numbers
	target float64 // max ratio to redis-server; 0 = none
}

const (
	scriptClients  = 8
	scriptPipeline = 16
	scriptKeys     = 10_000 // random numbers are below it
	scriptKey      = "script:__rand_int__:"
)

// Each pair of calls is a GET and a SET of the same key.
const thirtyCalls = `for i = 1, 15 do local k = %s redis.call('SET', k, (redis.call('GET', k) or 0) + 1) end`

// job is a typical document of a job queue.
const job = `{"id":12345,"name":"job","opts":{"delay":100,"attempts":3,"tags":["a","b","c"]},` +
	`"data":{"x":1.5,"y":[1,2,3,4,5,6,7,8]}}`

// scriptRows returns the scripts, in the order of the report. Each script that only computes takes redis-server about a
// millisecond.
func scriptRows() []script {
	return []script{
		{name: "Lua return 1", source: `return 1`},
		{name: "Lua INCR", source: `return redis.call('INCR', KEYS[1])`, keys: 1, target: 1.5},
		{name: "Lua 30 calls of one key", source: `for i = 1, 30 do redis.call('INCR', KEYS[1]) end`, keys: 1, target: 1.5},
		{name: "Lua 30 declared calls", source: fmt.Sprintf(thirtyCalls, `KEYS[i]`), keys: 15, target: 1.5},
		{name: "Lua 30 reads",
			source: `for i = 1, 15 do redis.call('GET', KEYS[i]) redis.call('STRLEN', KEYS[i]) end`, keys: 15},
		{name: "Lua 30 undeclared calls", source: fmt.Sprintf(thirtyCalls, `ARGV[1] .. i`), target: 2},
		{name: "Lua cjson decode", source: `for i = 1, 100 do cjson.decode('` + job + `') end`, target: 1.5},
		{name: "Lua cjson encode", source: `local t = cjson.decode('` + job +
			`') for i = 1, 100 do cjson.encode(t) end`, target: 1.5},
		{name: "Lua cmsgpack", source: `local t = cjson.decode('` + job + `')
			for i = 1, 100 do cmsgpack.unpack(cmsgpack.pack(t)) end`, target: 1.5},

		{name: "Lua empty loop", source: `for i = 1, 200000 do end`},
		{name: "Lua byte and sub", source: `local s, n = ('abcdefghij'):rep(100), 0
			for i = 1, #s do n = n + s:byte(i) + #s:sub(i, i + 3) end return n`},
		{name: "Lua fib",
			source: `local function fib(n) if n < 2 then return n end return fib(n - 1) + fib(n - 2) end return fib(18)`},
		{name: "Lua pairs", source: `local t, n = {}, 0 for i = 1, 100 do t['k' .. i] = i end
			for i = 1, 100 do for k, v in pairs(t) do n = n + v end end return n`},
		{name: "Lua table fields",
			source: `local t = {a = 1, b = 2} for i = 1, 20000 do t.a = t.a + t.b t[1] = i end return t.a`},
		{name: "Lua pcall", source: `local function f(x) return x end local n = 0
			for i = 1, 3000 do local ok, v = pcall(f, i) n = n + v end return n`},
		{name: "Lua sort", source: `local t = {} for i = 1, 2000 do t[i] = (i * 7919) % 2003 end table.sort(t) return t[1]`},
		{name: "Lua format",
			source: `local s for i = 1, 2000 do s = string.format('%d:%s:%5.2f', i, 'name', i / 3) end return s`},
		{name: "Lua concat", source: `local t = {} for i = 1, 2000 do t[#t + 1] = 'k' .. i end return #table.concat(t, ',')`},
	}
}

// scriptResult has the CPU time of one call in microseconds for each repetition.
type scriptResult struct {
	Script string    `json:"script"`
	Calls  int       `json:"calls"`
	Basalt []float64 `json:"basalt"`
	Redis  []float64 `json:"redis"`
	Target float64   `json:"target,omitempty"`
	Error  string    `json:"error,omitempty"`
}

func (r scriptResult) ratio() float64 { return tool.Median(r.Basalt) / tool.Median(r.Redis) }

// processorTime returns the CPU time that the server's process has used. The server must run on this host.
func (s *side) processorTime() (time.Duration, error) {
	pid, err := s.serverInfo("process_id")
	if err != nil {
		return 0, err
	}
	n, err := strconv.Atoi(pid)
	if err != nil {
		return 0, err
	}
	return launch.CPUTime(n)
}

func (s *side) serverInfo(field string) (string, error) {
	if err := s.load.c.SetDeadline(time.Now().Add(measureTimeout)); err != nil {
		return "", err
	}
	info, err := s.load.c.Do("INFO", "server")
	if err != nil {
		return "", err
	}
	if value := redisclient.Field(info.String(), field); value != "" {
		return value, nil
	}
	return "", fmt.Errorf("INFO server has no %s", field)
}

// runScript calls a script. It returns the CPU time of one call in microseconds, and the calls per second.
func (s *side) runScript(r script, calls int) (usec, rate float64, err error) {
	sha, err := s.load.c.Do("SCRIPT", "LOAD", r.source)
	if err != nil {
		return 0, 0, err
	}
	args := []string{"-c", strconv.Itoa(scriptClients), "-P", strconv.Itoa(scriptPipeline),
		"-r", strconv.Itoa(scriptKeys), "-n", strconv.Itoa(calls), "EVALSHA", sha.String(), strconv.Itoa(r.keys)}
	for i := range r.keys {
		args = append(args, scriptKey+strconv.Itoa(i+1))
	}
	if r.keys == 0 {
		args = append(args, scriptKey)
	}
	before, err := s.processorTime()
	if err != nil {
		return 0, 0, err
	}
	if rate, err = s.benchmark(args); err != nil {
		return 0, 0, err
	}
	after, err := s.processorTime()
	return float64((after - before).Microseconds()) / float64(calls), rate, err
}

// compareScript measures a script on both servers.
func compareScript(basalt, redis *side, r script, p plan) scriptResult {
	res := scriptResult{Script: r.name, Target: r.target}
	figures, n, err := p.run([]*side{basalt, redis}, 4*scriptClients*scriptPipeline,
		func(s *side, n int) (usec, rate float64, err error) { return s.runScript(r, n) })
	res.Basalt, res.Redis, res.Calls = figures[basalt], figures[redis], n
	if err != nil {
		res.Error = err.Error()
	}
	return res
}

// compareScripts measures scripts and prints the results.
func compareScripts(ctx context.Context, basalt, redis *side, scripts []script, p plan) ([]scriptResult, error) {
	var all []scriptResult
	for i, r := range scripts {
		if ctx.Err() != nil {
			return all, errors.New("interrupted")
		}
		if i == 0 {
			fmt.Printf("\n%-22s %10s %10s %8s %8s   microseconds of processor time per script\n", "EVALSHA", "basalt", "redis",
				"ratio", "target")
		}
		res := compareScript(basalt, redis, r, p)
		printScript(os.Stdout, res)
		all = append(all, res)
	}
	return all, nil
}

func printScript(w io.Writer, r scriptResult) {
	if r.Error != "" {
		fmt.Fprintf(w, "%-22s %.100s\n", r.Script, r.Error)
		return
	}
	fmt.Fprintf(w, "%-22s %10.2f %10.2f %8.2f", r.Script, tool.Median(r.Basalt), tool.Median(r.Redis), r.ratio())
	switch {
	case r.Target == 0:
	case r.ratio() > r.Target:
		fmt.Fprintf(w, "   %.2f  ABOVE", r.Target)
	default:
		fmt.Fprintf(w, "   %.2f", r.Target)
	}
	fmt.Fprintln(w)
}
