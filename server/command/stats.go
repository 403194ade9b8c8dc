package command

import (
	"maps"
	"slices"
	"strconv"
	"strings"
)

var statsCommands = []Spec{
	{Name: "stats", Handler: stats, Arity: 1, Flags: ReadOnly},
}

// stats is Kvrocks's STATS.
func stats(c *Ctx) error {
	c.Out.Bulk(appendStatistics(nil, c.Srv.DB.Statistics()))
	return nil
}

// appendStatistics appends RocksDB's statistics as a JSON object, sorted by name as Kvrocks has it: a counter is its
// number; a histogram is an array of its median, its 95th and 99th percentile, its maximum, which are floating-point
// numbers, and how many values it has and their sum.
//
// RocksDB's text has a line for each:
//
//	rocksdb.bytes.written COUNT : 12
//	rocksdb.db.get.micros P50 : 1.000000 P95 : 1.000000 P99 : 1.000000 P100 : 1.000000 COUNT : 1 SUM : 1
func appendStatistics(dst []byte, text string) []byte {
	lines := map[string][]string{}
	for line := range strings.Lines(text) {
		if words := strings.Fields(line); len(words) > 0 {
			lines[words[0]] = words[1:]
		}
	}
	dst = append(dst, '{')
	for i, name := range slices.Sorted(maps.Keys(lines)) {
		var values []string
		for words := lines[name]; len(words) >= 3 && words[1] == ":"; words = words[3:] {
			values = append(values, statistic(words[0], words[2]))
		}
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(strconv.AppendQuote(dst, name), ':')
		if len(values) == 1 {
			dst = append(dst, values[0]...)
		} else {
			dst = append(append(append(dst, '['), strings.Join(values, ",")...), ']')
		}
	}
	return append(dst, '}')
}

// statistic returns a value as JSON.
func statistic(what, value string) string {
	if !strings.HasPrefix(what, "P") {
		if _, err := strconv.ParseUint(value, 10, 64); err != nil {
			return "0"
		}
		return value
	}
	f, err := strconv.ParseFloat(value, 64)
	if err != nil || f != f {
		f = 0
	}
	text := strconv.FormatFloat(f, 'f', -1, 64)
	if !strings.Contains(text, ".") {
		text += ".0"
	}
	return text
}
