package main

import (
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/basaltdb/basalt/scripts/internal/tool"
)

// report contains all results.
type report struct {
	Killed []string       `json:"killed,omitempty"` // rows in which a server was killed because memory was exhausted
	Note   string         `json:"note,omitempty"`
	Keys   int            `json:"keys"`
	Memory int64          `json:"memory_bytes"`
	Cache  int64          `json:"cache_bytes"`
	Disk   []diskRate     `json:"disk"`
	Rows   []*rowResult   `json:"rows"`
	Space  []*spaceResult `json:"space"`
	Bars   []barResult    `json:"bars"`
}

// rowResult is the result of one row; figures have one entry per round.
type rowResult struct {
	Suite   string    `json:"suite"`
	Name    string    `json:"row"`
	Basalt  []figures `json:"basalt"`
	Kvrocks []figures `json:"kvrocks"`
	bar     float64
}

// spaceResult is the size of a suite's data after all rows, in the last round.
type spaceResult struct {
	Suite   string `json:"suite"`
	Basalt  *space `json:"basalt"`
	Kvrocks *space `json:"kvrocks"`
}

// barResult is the result of a bar.
type barResult struct {
	Name  string  `json:"bar"`
	Value float64 `json:"value"`
	Least float64 `json:"least"` // the min, or the max if Most
	Most  bool    `json:"at_most,omitempty"`
}

func (b barResult) holds() bool {
	if b.Most {
		return b.Value <= b.Least
	}
	return b.Value >= b.Least
}

// add adds the figures of a suite's rows, in order. The last rows may be missing, and then the space, too.
func (rep *report) add(product string, s suite, rows []figures, used space) {
	for i, r := range s.rows[:len(rows)] {
		res := rep.row(s.data.name, r.name)
		if res == nil {
			res = &rowResult{Suite: s.data.name, Name: r.name, bar: r.bar}
			rep.Rows = append(rep.Rows, res)
		}
		if product == "basalt" {
			res.Basalt = append(res.Basalt, rows[i])
		} else {
			res.Kvrocks = append(res.Kvrocks, rows[i])
		}
	}
	if used.Logical == 0 {
		return
	}
	i := slices.IndexFunc(rep.Space, func(sp *spaceResult) bool { return sp.Suite == s.data.name })
	if i < 0 {
		i = len(rep.Space)
		rep.Space = append(rep.Space, &spaceResult{Suite: s.data.name})
	}
	if product == "basalt" {
		rep.Space[i].Basalt = &used
	} else {
		rep.Space[i].Kvrocks = &used
	}
}

// row returns the result of a row, nil if it has none.
func (rep *report) row(suite, name string) *rowResult {
	i := slices.IndexFunc(rep.Rows, func(r *rowResult) bool { return r.Suite == suite && r.Name == name })
	if i < 0 {
		return nil
	}
	return rep.Rows[i]
}

func rate(f figures) float64 { return f.Rate }
func p99(f figures) float64  { return f.P99 }

// median returns the median of one figure over the rounds; NaN if it has none.
func median(all []figures, of func(figures) float64) float64 {
	v := make([]float64, len(all))
	for i, f := range all {
		v[i] = of(f)
	}
	return tool.Median(v)
}

// ratio returns NaN unless both servers were measured.
func (r *rowResult) ratio() float64 { return median(r.Basalt, rate) / median(r.Kvrocks, rate) }

// strayBytes is the max number of bytes that a blind write may read apart from compactions: less than a block in a
// hundred requests, for other work of the server.
const strayBytes = 100

// judge fills in the bars for which figures exist.
func (rep *report) judge() {
	rep.Bars = nil
	bar := func(name string, value, least float64, most bool) {
		if !math.IsNaN(value) {
			rep.Bars = append(rep.Bars, barResult{name, value, least, most})
		}
	}
	var ratios []float64
	for _, r := range rep.Rows {
		if r.bar == 0 || math.IsNaN(r.ratio()) {
			continue
		}
		ratios = append(ratios, r.ratio())
		bar(r.Name+": throughput to Kvrocks", r.ratio(), r.bar, false)
		bar(r.Name+": p99 to Kvrocks", median(r.Basalt, p99)/median(r.Kvrocks, p99), 1, true)
	}
	if len(ratios) > 0 {
		bar(fmt.Sprintf("geometric mean of %d rows", len(ratios)), tool.GeometricMean(ratios), meanBar, false)
	}
	for _, name := range []string{"SET uniform P=1", "SET uniform P=16"} {
		if r := rep.row("large", name); r != nil {
			beyond := func(f figures) float64 { return max(f.ReadAll-f.Compaction, 0) }
			bar(name+": bytes read a request beyond compactions", median(r.Basalt, beyond), strayBytes, true)
		}
	}
	if r := rep.row("large", "GET uniform P=16"); r != nil && len(rep.Disk) > 0 {
		// The block size of basalt is 16 KiB.
		deep := rep.Disk[len(rep.Disk)-1]
		bar(fmt.Sprintf("GET uniform P=16 to the disk's reads of %d KiB at depth %d", deep.Bytes>>10, deep.Depth),
			median(r.Basalt, rate)/deep.Rate, 0.5, false)
	}
}

// printProgress prints the figures of one server as soon as they exist.
func printProgress(product, suite, row string, f figures) {
	fmt.Printf("%-8s %-5s %-28s %8.0f/s  p50 %6.2f p99 %7.2f p99.9 %7.2f ms  read %6.0f written %6.0f B  cpu %6.1f us"+
		"  rss %4.0f MiB  settled %2.0f s\n",
		product, suite, row, f.Rate, f.P50, f.P99, f.P999, f.Read, f.Written, f.CPU, f.Peak, f.Settling)
	if f.Warm != nil {
		fmt.Printf("%-8s %-5s started in %.2f s, 90 %% of its speed in second %d: %v\n",
			product, suite, f.Warm.Start, f.Warm.Seconds, f.Warm.PerSecond)
	}
}

// The columns of the table: a figure of basalt beside that of Kvrocks.
var columns = []struct {
	title string
	of    func(figures) float64
	form  string
}{
	{"requests/s", rate, "%.0f"},
	{"p50 ms", func(f figures) float64 { return f.P50 }, "%.2f"},
	{"p99 ms", p99, "%.2f"},
	{"p99.9 ms", func(f figures) float64 { return f.P999 }, "%.1f"},
	{"read B/req", func(f figures) float64 { return f.Read }, "%.0f"},
	{"written B/req", func(f figures) float64 { return f.Written }, "%.0f"},
	{"compacted B/req", func(f figures) float64 { return f.Compaction }, "%.0f"},
	{"CPU us/req", func(f figures) float64 { return f.CPU }, "%.1f"},
	{"peak MiB", func(f figures) float64 { return f.Peak }, "%.0f"},
}

// print prints the table and the bars.
func (rep *report) print(w io.Writer) {
	rep.judge()
	rounds := 0
	for _, r := range rep.Rows {
		rounds = max(rounds, len(r.Basalt), len(r.Kvrocks))
	}
	fmt.Fprintf(w, "\nbasalt / Kvrocks, medians of %d\n%-34s %6s", rounds, "", "ratio")
	for _, c := range columns {
		fmt.Fprintf(w, " %15s", c.title)
	}
	fmt.Fprintln(w)
	var ratios []float64
	for _, r := range rep.Rows {
		fmt.Fprintf(w, "%-5s %-28s %6s", r.Suite, r.Name, number("%.2f", r.ratio()))
		if !math.IsNaN(r.ratio()) {
			ratios = append(ratios, r.ratio())
		}
		for _, c := range columns {
			pair := number(c.form, median(r.Basalt, c.of)) + "/" + number(c.form, median(r.Kvrocks, c.of))
			fmt.Fprintf(w, " %15s", pair)
		}
		fmt.Fprintln(w)
	}
	if len(ratios) > 0 {
		fmt.Fprintf(w, "geometric mean over %d rows: %.2f\n", len(ratios), tool.GeometricMean(ratios))
	}
	rep.printSpace(w)
	if len(rep.Bars) > 0 {
		fmt.Fprintln(w, "\nbars")
	}
	for _, b := range rep.Bars {
		sign, verdict := "at least", "holds"
		if b.Most {
			sign = "at most "
		}
		if !b.holds() {
			verdict = "MISSED"
		}
		fmt.Fprintf(w, "%-66s %8.2f   %s %6.2f   %s\n", b.Name, b.Value, sign, b.Least, verdict)
	}
}

func (rep *report) printSpace(w io.Writer) {
	const line = "%-5s %9s %9s %9s %9s %9s\n"
	fmt.Fprintf(w, "\nspace after all rows, MiB\n"+line, "", "", "logical", "tables", "ratio", "rest")
	for _, sp := range rep.Space {
		for i, s := range []*space{sp.Basalt, sp.Kvrocks} {
			if s != nil {
				name := []string{"basalt", "kvrocks"}[i]
				size := func(bytes int64) string { return fmt.Sprint(bytes / mib) }
				fmt.Fprintf(w, line, sp.Suite, name, size(s.Logical), size(s.Tables),
					fmt.Sprintf("%.2f", float64(s.Tables)/float64(s.Logical)), size(s.Rest))
			}
		}
	}
}

// number formats a figure; a missing one is "-".
func number(form string, v float64) string {
	if math.IsNaN(v) {
		return "-"
	}
	return fmt.Sprintf(form, v)
}
