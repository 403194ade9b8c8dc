package main

import (
	"fmt"
	"io"
	"slices"

	"github.com/basaltdb/basalt/scripts/internal/tool"
)

// targets are the min ratios to redis-server at the pipeline lengths of targetPipelines. A row without an entry counts
// in the geometric means only.
var targets = map[string][3]float64{
	"SET":       {0.75, 0.55, 0.40},
	"GET":       {0.85, 0.70, 0.55},
	"INCR":      {0.70, 0.35, 0.30},
	"LPUSH":     {0.70, 0.35, 0.30},
	"SADD":      {0.70, 0.35, 0.30},
	"HSET":      {0.70, 0.35, 0.30},
	"HINCRBY":   {0.70, 0.35, 0.30},
	"ZADD":      {0.70, 0.35, 0.30},
	"SPOP":      {0.60, 0.25, 0.20},
	"XADD":      {0, 0.40, 0},
	"PFADD":     {0, 0.40, 0},
	"GEOSEARCH": {0, 0.40, 0},
	"ZPOPMIN":   {0.60, 0.25, 0.20},
	"LPOP":      {0.60, 0.25, 0.20},

	"PUBLISH_100": {0.80, 0.80, 0},
}

var (
	targetPipelines = [3]int{1, 16, 64}
	meanTarget      = [3]float64{0.75, 0.40, 0.35}
	pointTarget     = [3]float64{0.90, 0.75, 0.75} // of the core types' commands without ranges
)

// The targets of repeated range reads, and of range reads spread over many collections, for every pipeline length.
const (
	rangeTarget  = 0.65
	spreadTarget = 0.90
)

// target returns the target for a pipeline length; 0 = none.
func target(t [3]float64, pipeline int) float64 {
	if i := slices.Index(targetPipelines[:], pipeline); i >= 0 {
		return t[i]
	}
	return 0
}

// mean is a geometric mean over the rows of one pipeline length.
type mean struct {
	Pipeline int     `json:"pipeline"`
	Over     string  `json:"over"`
	Rows     int     `json:"rows"`
	Ratio    float64 `json:"ratio"`
	Target   float64 `json:"target"`
}

// means returns the means over the measured rows.
func means(results []result, pipeline int) []mean {
	var all, points, reads, spread []float64
	for _, r := range results {
		switch {
		case r.Error != "" || r.Pipeline != pipeline:
		case r.spreadRange:
			spread = append(spread, r.ratio())
		case r.Other:
		case r.RangeRead:
			all, reads = append(all, r.ratio()), append(reads, r.ratio())
		default:
			all, points = append(all, r.ratio()), append(points, r.ratio())
		}
	}
	var out []mean
	for _, m := range []struct {
		over   string
		ratios []float64
		target float64
	}{
		{"all commands", all, target(meanTarget, pipeline)},
		{"point commands", points, target(pointTarget, pipeline)},
		{"range reads", reads, rangeTarget},
		{"spread range reads", spread, spreadTarget},
	} {
		if len(m.ratios) > 0 {
			out = append(out, mean{pipeline, m.over, len(m.ratios), tool.GeometricMean(m.ratios), m.target})
		}
	}
	return out
}

// verdict returns the end of a report line: the target and whether it was missed.
func verdict(ratio, target float64) string {
	switch {
	case target == 0:
		return ""
	case ratio < target:
		return fmt.Sprintf("   %.2f  BELOW", target)
	default:
		return fmt.Sprintf("   %.2f", target)
	}
}

func printResult(w io.Writer, r result) {
	if r.Error != "" {
		fmt.Fprintf(w, "%-18s %.100s\n", r.Command, r.Error)
		return
	}
	if len(r.Redis) == 0 {
		fmt.Fprintf(w, "%-18s %12.0f %12s\n", r.Command, tool.Median(r.Basalt), "-")
		return
	}
	fmt.Fprintf(w, "%-18s %12.0f %12.0f %8.2f %s\n", r.Command, tool.Median(r.Basalt), tool.Median(r.Redis), r.ratio(),
		verdict(r.ratio(), r.target))
}

func printFamilyHeader(w io.Writer, pipeline int) {
	fmt.Fprintf(w, "\nP = %-14d", pipeline)
	for _, title := range [len(variants)]string{
		fmt.Sprintf("over %d", spreadOver), "repeating", fmt.Sprintf("1 write per %d", readsPerWrite),
	} {
		fmt.Fprintf(w, " %28s", title)
	}
	fmt.Fprintf(w, " %8s\n%-18s", "target", "")
	for range variants {
		fmt.Fprintf(w, " %10s %10s %6s", "basalt", "redis", "ratio")
	}
	fmt.Fprintln(w)
}

// printFamily prints the measured variants of one family side by side.
func printFamily(w io.Writer, results []result) {
	name, end := results[0].Family, ""
	fmt.Fprintf(w, "%-18s", name)
	for _, variant := range variants {
		i := slices.IndexFunc(results, func(r result) bool { return r.Command == name+"_"+variant })
		if i < 0 || results[i].Error != "" {
			fmt.Fprintf(w, " %28s", "-")
			continue
		}
		r := results[i]
		fmt.Fprintf(w, " %10.0f %10.0f %6.2f", tool.Median(r.Basalt), tool.Median(r.Redis), r.ratio())
		end += verdict(r.ratio(), r.target)
	}
	fmt.Fprintln(w, end)
}
