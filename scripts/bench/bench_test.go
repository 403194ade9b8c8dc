package main

import (
	"bytes"
	"math"
	"math/rand/v2"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/basaltdb/basalt/internal/require"
	"github.com/basaltdb/basalt/scripts/internal/launch"
	"github.com/basaltdb/basalt/scripts/internal/redisclient"
)

func TestParseRate(t *testing.T) {
	const header = `"test","rps","avg_latency_ms"` + "\n"
	for _, tt := range []struct {
		name, text string
		want       float64
		ok         bool
	}{
		{"one row", header + `"SPOP","425531.94","1.404"` + "\n", 425531.94, true},
		{"the last row counts", header + `"LPUSH (needed)","1.00","1"` + "\n" +
			`"LRANGE_100 (first, 100)","62500.00","9"` + "\n", 62500, true},
		{"quotes and commas in the name", header + `"JSON.SET k $ {"a":[1,2],"b":"c"}","17.50","9"` + "\n", 17.5, true},
		{"no result", header, 0, false},
		{"nothing", "", 0, false},
		{"no number", header + `"GET","fast","1"` + "\n", 0, false},
		{"zero", header + `"GET","0.00","1"` + "\n", 0, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := parseRate(tt.text)
			if got != tt.want || (err == nil) != tt.ok {
				t.Errorf("got %v, %v", got, err)
			}
		})
	}
}

func TestMeansAndVerdicts(t *testing.T) {
	results := []result{
		{Command: "SET", Pipeline: 16, Basalt: []float64{50, 10, 60}, Redis: []float64{100, 90, 110}, target: 0.55},
		{Command: "HGETALL_1000", Pipeline: 16, Basalt: []float64{8}, Redis: []float64{10}, RangeRead: true},
		{Command: "GET", Pipeline: 16, Error: "basalt: no"},
		{Command: "GET", Pipeline: 1, Basalt: []float64{1}, Redis: []float64{1}},
		{Command: "X_spread", Pipeline: 16, Basalt: []float64{1}, Redis: []float64{4}, Other: true, spreadRange: true},
		{Command: "Y_spread", Pipeline: 16, Basalt: []float64{1}, Redis: []float64{9}, Other: true},
	}
	got := means(results, 16)
	if len(got) != 4 || got[0].Rows != 2 || got[1].Rows != 1 || got[2].Rows != 1 || got[3].Rows != 1 {
		t.Fatalf("got %+v", got)
	}
	if want := math.Sqrt(0.5 * 0.8); math.Abs(got[0].Ratio-want) > 1e-9 {
		t.Errorf("mean over all is %v, want %v", got[0].Ratio, want)
	}
	for i, want := range []mean{{Ratio: 0.5, Target: pointTarget[1]}, {Ratio: 0.8, Target: rangeTarget},
		{Ratio: 0.25, Target: spreadTarget}} {
		if m := got[i+1]; math.Abs(m.Ratio-want.Ratio) > 1e-9 || m.Target != want.Target {
			t.Errorf("mean over %s: %+v, want %v of %v", m.Over, m, want.Ratio, want.Target)
		}
	}
	var out bytes.Buffer
	for _, r := range results {
		printResult(&out, r)
	}
	lines := strings.Split(out.String(), "\n")
	for i, below := range []bool{true, false, false, false} { // SET needs 0.55 at P = 16
		if strings.Contains(lines[i], "BELOW") != below {
			t.Errorf("line %q: marked below is not %v", lines[i], below)
		}
	}
}

func TestPick(t *testing.T) {
	got, scripts, err := pick("get, SET, lua fib")
	if err != nil || len(got) != 2 || got[0].name != "SET" || got[1].name != "GET" || len(scripts) != 1 ||
		scripts[0].name != "Lua fib" {
		t.Errorf("got %v, %v, %v", got, scripts, err)
	}
	if got, scripts, err := pick("lua"); err != nil || len(got) != 0 || len(scripts) != len(scriptRows()) {
		t.Errorf("got %v, %v, %v", got, scripts, err)
	}
	if _, _, err := pick("SET,NOSUCH"); err == nil || !strings.Contains(err.Error(), "NOSUCH") {
		t.Errorf("got %v, want an error that names the row", err)
	}
	seen := map[string]bool{}
	for _, r := range rows() {
		if seen[r.name] {
			t.Errorf("two rows are called %s", r.name)
		}
		seen[r.name] = true
	}
	for name := range targets {
		if !seen[name] {
			t.Errorf("there is a target for %s but no such row", name)
		}
	}
}

// TestScripts runs each script once on redis-server: it replies no error, and processor time is told.
func TestScripts(t *testing.T) {
	s := redisSide(t)
	for _, r := range scriptRows() {
		if _, rate, err := s.runScript(r, 1); err != nil || rate <= 0 {
			t.Errorf("%s: %v a second, %v", r.name, rate, err)
		}
	}
	var out bytes.Buffer
	printScript(&out, scriptResult{Script: "x", Basalt: []float64{3, 1, 2}, Redis: []float64{1}, Target: 1.5})
	printScript(&out, scriptResult{Script: "y", Basalt: []float64{1}, Redis: []float64{2}, Target: 1.5})
	want := "x 2.00 1.00 2.00 1.50 ABOVE y 1.00 2.00 0.50 1.50"
	if got := strings.Join(strings.Fields(out.String()), " "); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// redisSide is a redis-server that ends with the test.
func redisSide(t *testing.T) *side {
	t.Helper()
	server, err := launch.Start(launch.Redis, t.TempDir())
	require.NoError(t, err)
	t.Cleanup(server.Kill)
	s, err := newSide("redis", server.Addr)
	require.NoError(t, err)
	return s
}

// fewer has the spread rows read a few collections only, until the test ends.
func fewer(t *testing.T) {
	before := spreadOver
	spreadOver = 50
	t.Cleanup(func() { spreadOver = before })
}

// TestFamilies: a family has its three rows in order, is printed in one line, and stands for them in -commands.
func TestFamilies(t *testing.T) {
	picked, _, err := pick("zrank_of_100")
	if err != nil || len(picked) != len(variants) {
		t.Fatalf("got %v, %v", picked, err)
	}
	var results []result
	for i, r := range picked {
		if want := "ZRANK_of_100_" + variants[i]; r.name != want || (r.writes != nil) != (i == 2) {
			t.Errorf("row %d is %+v, want %s", i, r, want)
		}
		results = append(results, result{Command: r.name, Family: r.family, target: target(r.targets(), 16),
			Basalt: []float64{float64(1 + i)}, Redis: []float64{10}})
	}
	var out bytes.Buffer
	printFamily(&out, results)
	want := "ZRANK_of_100 1 10 0.10 2 10 0.20 3 10 0.30 0.60 BELOW"
	if got := strings.Join(strings.Fields(out.String()), " "); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestOperation: numbers take the place of every __rand_int__, wherever the request lies in the buffer.
func TestOperation(t *testing.T) {
	op := operation([]string{"SETBIT", "k:__rand_int__", "0.__rand_int__"}, 10)
	got := string(op.Encode(op.Encode(nil, rand.New(rand.NewPCG(1, 2)), 0), rand.New(rand.NewPCG(1, 2)), 0))
	one := regexp.MustCompile(`^(\*3\r\n\$6\r\nSETBIT\r\n\$14\r\nk:0{11}\d\r\n\$14\r\n0\.0{11}\d\r\n){2}$`)
	if !one.MatchString(got) {
		t.Errorf("got %q", got)
	}
}

// TestEveryRowFindsItsData runs each row once on redis-server and checks that the
// command did what the row is there to measure: pops that find their collection
// empty, or reads of keys that are not there, would be fast for the wrong reason.
func TestEveryRowFindsItsData(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	fewer(t)
	s := redisSide(t)
	s.load.c.SetDeadline(time.Now().Add(time.Minute))
	number := func(section, field string) float64 {
		v, err := s.load.c.Do("INFO", section)
		require.NoError(t, err)
		return atof(t, redisclient.Field(v.String(), field))
	}
	const n = 200
	for _, r := range rows() {
		if r.alone {
			continue // redis-server does not know the command
		}
		if err := s.prepare(r, n); err != nil {
			t.Fatalf("%s: %v", r.name, err)
		}
		misses := number("stats", "keyspace_misses")
		saved := r
		saved.fill = nil // as left by prepare above
		if _, err := s.measure(saved, 1, n); err != nil {
			t.Errorf("%s: %v", r.name, err)
		}
		if d := number("stats", "keyspace_misses") - misses; d > 0 && r.fill != nil && r.name != "DEL" {
			t.Errorf("%s: %v of %d look-ups found no key", r.name, d, n)
		}
	}
}

// TestFillsHaveTheirOwnTime: the deadline of an earlier fill does not end a later one.
func TestFillsHaveTheirOwnTime(t *testing.T) {
	s := redisSide(t)
	picked, _, err := pick("LPOP,XREADGROUP,XACK") // those that make as much as there are requests
	require.NoError(t, err)
	for _, r := range picked {
		s.load.c.SetDeadline(time.Unix(1, 0))
		if err := s.prepare(r, 10); err != nil {
			t.Fatalf("%s: %v", r.name, err)
		}
	}
}

func atof(t *testing.T, s string) float64 {
	t.Helper()
	f, err := strconv.ParseFloat(s, 64)
	require.NoError(t, err)
	return f
}

func TestComplaint(t *testing.T) {
	for in, want := range map[string]string{
		"WARNING: Could not fetch server CONFIG\nError from server: ERR no\nmore\n": "ERR no",
		"Could not connect\n": "Could not connect",
		"":                    "",
	} {
		if got := complaint(in); got != want {
			t.Errorf("complaint(%q) = %q, want %q", in, got, want)
		}
	}
}
