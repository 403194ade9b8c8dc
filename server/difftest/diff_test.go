package difftest

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/basaltdb/basalt/internal/require"
)

// maxReported bounds the differences that one test reports.
const maxReported = 40

func TestTables(t *testing.T) {
	redis, basalt := startRedis(t), startBasalt(t)
	total := 0
	for _, file := range tableFiles(t) {
		commands := mustReadTable(t, file)
		total += len(commands)
		diffEveryWay(t, filepath.Base(file), redis, basalt, commands)
	}
	if total < 2800 {
		t.Errorf("only %d commands in the tables", total)
	}
}

// TestTablesAreDeterministic runs the tables against two redis-servers: a
// difference there is one of the table, not of basalt.
func TestTablesAreDeterministic(t *testing.T) {
	one, other := startRedis(t), startRedis(t)
	for _, file := range tableFiles(t) {
		diff(t, one, other, 2, true, mustReadTable(t, file))
	}
}

func TestTemplates(t *testing.T) {
	redis, basalt := startRedis(t), startBasalt(t)
	fixture := mustReadTable(t, "testdata/fixture.txt")
	byFamily := map[string][]command{}
	var families []string
	for _, template := range mustReadTable(t, "testdata/templates.txt") {
		f := familyOf(template.name())
		if byFamily[f] == nil {
			families = append(families, f)
		}
		byFamily[f] = append(byFamily[f], mutate(template, fixture)...)
	}
	for i, f := range families {
		t.Run(f, func(t *testing.T) {
			for _, proto := range protocols(i) {
				diff(t, redis, basalt, proto, true, byFamily[f])
			}
		})
	}
}

func TestRandomCommands(t *testing.T) {
	redis, basalt := startRedis(t), startBasalt(t)
	rounds, length := 20, 1500
	if testing.Short() {
		rounds = 4
	}
	for seed := range rounds {
		commands := randomCommands(uint64(seed), length)
		diffTo(t, fmt.Sprintf("seed %d", seed), redis, basalt, 2+seed%2, seed%4 < 2, commands)
	}
}

// protocols are those in which the i-th of several tests is compared: in turn one of them when the tests are to be
// short.
func protocols(i int) []int {
	if testing.Short() {
		return []int{2 + i%2}
	}
	return []int{2, 3}
}

// diffEveryWay compares in both protocols, in pipelines and one by one; each of these once when the tests are to be
// short.
func diffEveryWay(t *testing.T, name string, redis, basalt target, commands []command) {
	for _, proto := range []int{2, 3} {
		for _, pipelined := range []bool{false, true} {
			if testing.Short() && pipelined != (proto == 2) {
				continue
			}
			way := map[bool]string{false: "single", true: "pipelined"}[pipelined]
			t.Run(fmt.Sprintf("%s/RESP%d/%s", name, proto, way), func(t *testing.T) {
				diff(t, redis, basalt, proto, pipelined, commands)
			})
		}
	}
}

func diff(t *testing.T, redis, basalt target, proto int, pipelined bool, commands []command) {
	t.Helper()
	diffTo(t, "", redis, basalt, proto, pipelined, commands)
}

// diffTo runs the commands on both and reports every reply that differs.
func diffTo(t *testing.T, prefix string, redis, basalt target, proto int, pipelined bool, commands []command) {
	t.Helper()
	began := time.Now()
	want, err := replies(redis, proto, pipelined, commands)
	if err != nil {
		t.Fatalf("redis: %v", err)
	}
	got, err := replies(basalt, proto, pipelined, commands)
	if err != nil {
		t.Errorf("basalt: %v", err)
	}
	reported, took := 0, time.Since(began)
	for i := range got {
		if text := compareReplies(commands[i], want[i], got[i], took); text != "" {
			if reported++; reported > maxReported {
				t.Errorf("%s and more", prefix)
				return
			}
			t.Errorf("%s %s", prefix, text)
		}
	}
}

// connect is dial for the time of a test.
func connect(t testing.TB, addr string, proto int) *client {
	t.Helper()
	c, err := dial(addr, proto)
	require.NoError(t, err)
	t.Cleanup(c.close)
	return c
}

func replies(srv target, proto int, pipelined bool, commands []command) ([]reply, error) {
	c, err := dial(srv.Addr(), proto)
	if err != nil {
		return nil, err
	}
	defer c.close()
	if pipelined {
		return c.pipelined(commands, rand.New(rand.NewPCG(uint64(proto), uint64(len(commands)))))
	}
	return c.each(commands)
}

func tableFiles(t *testing.T) []string {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal("no tables", err)
	}
	return slices.DeleteFunc(files, func(f string) bool {
		return strings.HasSuffix(f, "fixture.txt") || strings.HasSuffix(f, "templates.txt")
	})
}

func mustReadTable(t *testing.T, file string) []command {
	t.Helper()
	commands, err := readTable(file)
	require.NoError(t, err)
	return commands
}

// familyOf is the data type that a command is about, by its name.
func familyOf(name string) string {
	switch {
	case strings.HasPrefix(name, "H") && name != "HELLO":
		return "hash"
	case strings.HasPrefix(name, "Z"):
		return "zset"
	case name == "SADD" || name == "SREM" || name == "SMOVE" || name == "SPOP" || name == "SCARD" ||
		name == "SSCAN" || name == "SRANDMEMBER" ||
		strings.HasPrefix(name, "SI") || strings.HasPrefix(name, "SU") && name != "SUBSTR" ||
		strings.HasPrefix(name, "SD") || strings.HasPrefix(name, "SM"):
		return "set"
	case strings.HasPrefix(name, "L") && name != "LCS" || strings.HasPrefix(name, "RP"):
		return "list"
	case slices.Contains(strings.Fields("GET SET SETEX PSETEX SETNX GETSET GETDEL GETEX MGET MSET MSETNX APPEND STRLEN "+
		"SETRANGE GETRANGE SUBSTR INCR DECR INCRBY DECRBY INCRBYFLOAT LCS"), name):
		return "string"
	}
	return "generic"
}
