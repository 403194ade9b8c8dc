package difftest

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// TestScanIterations walks every kind of SCAN to its end on both servers. The
// cursors differ; what the walk finds must not.
func TestScanIterations(t *testing.T) {
	redis, basalt := startRedis(t), startBasalt(t)
	var fill []command
	for i := range 1200 {
		n := fmt.Sprintf("%04d", i)
		fill = append(fill,
			newCommand("fill", "HSET", "hash", "f:"+n, n),
			newCommand("fill", "SADD", "set", "m:"+n),
			newCommand("fill", "ZADD", "zset", n, "m:"+n),
			newCommand("fill", "SET", "key:"+n, n))
	}
	fill = append(fill, newCommand("fill", "SET", "glob[1]*", ""), newCommand("fill", "SET", "\x00\xff", ""),
		newCommand("fill", "FLUSHALL"))
	fill = append([]command{fill[len(fill)-1]}, fill[:len(fill)-1]...)
	diff(t, redis, basalt, 2, true, fill)
	for _, scan := range [][]string{
		{"SCAN"}, {"HSCAN", "hash"}, {"SSCAN", "set"}, {"ZSCAN", "zset"}, {"HSCAN", "missing"},
	} {
		for _, options := range []string{
			"", "COUNT 1", "COUNT 7", "COUNT 500", "COUNT 100000",
			"MATCH *", "MATCH ?:00*", "MATCH *7", "MATCH *[1-3]?", "MATCH key:000[^0-4]", "MATCH m:001* COUNT 10",
			"MATCH m:0001", "MATCH nothing*", `MATCH glob\[*`, "MATCH glob[1*", "MATCH \x00*", "TYPE string", "TYPE hash",
			"TYPE ZSET COUNT 100", "TYPE list", "MATCH *1 TYPE string COUNT 1000",
		} {
			if strings.Contains(options, "TYPE") && scan[0] != "SCAN" {
				continue
			}
			want, err := walk(redis, scan, strings.Fields(options))
			if err != nil {
				t.Fatal(err)
			}
			got, err := walk(basalt, scan, strings.Fields(options))
			if err != nil {
				t.Errorf("%v %s: %v", scan, options, err)
				continue
			}
			if !slices.Equal(want, got) {
				t.Errorf("%v %s: %d elements, redis has %d: %.200q, %.200q", scan, options, len(got), len(want), got, want)
			}
		}
	}
}

// walk returns what a scan finds, each element once, in order.
func walk(srv target, scan, options []string) ([]string, error) {
	c, err := dial(srv.Addr(), 2)
	if err != nil {
		return nil, err
	}
	defer c.close()
	size := 1
	if scan[0] == "HSCAN" || scan[0] == "ZSCAN" {
		size = 2
	}
	cursor := "0"
	var found []string
	for range 10000 {
		r, err := c.do(slices.Concat(scan, []string{cursor}, options)...)
		if err != nil {
			return nil, err
		}
		if len(r.elems) != 2 || len(r.elems[1].elems)%size != 0 {
			return nil, fmt.Errorf("reply %q", r.raw)
		}
		for pair := range slices.Chunk(r.elems[1].elems, size) {
			var text []string
			for _, e := range pair {
				text = append(text, string(e.text))
			}
			found = append(found, strings.Join(text, "="))
		}
		if cursor = string(r.elems[0].text); cursor == "0" {
			slices.Sort(found)
			return slices.Compact(found), nil
		}
	}
	return nil, fmt.Errorf("the walk does not end")
}
