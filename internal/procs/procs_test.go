package procs

import (
	"slices"
	"testing"
	"time"
)

func TestGovernor(t *testing.T) {
	type step struct {
		own, others float64
		want        int
	}
	steady := func(own, others float64, want ...int) []step {
		var s []step
		for _, w := range want {
			s = append(s, step{own, others, w})
		}
		return s
	}
	pause := func(n, want int) []step { return slices.Repeat(steady(0.1, 0, want), n) }
	for _, c := range []struct {
		name  string
		cores int
		steps [][]step
	}{
		{"alone it has all cores", 4, [][]step{steady(4, 0, 4, 4, 4)}},
		{"a client that needs a core gets it", 2, [][]step{steady(1, 1, 2, 1, 1)}},
		{"one that needs little does not", 2, [][]step{steady(1.4, 0.6, 2, 2, 2, 2)}},
		{"nor does one that seems to need much once", 2, [][]step{steady(1.4, 0.4, 2, 2, 2, 2), steady(1.4, 0.9, 2),
			steady(1.4, 0.4, 2, 2)}},
		{"between the limits nothing changes", 2, [][]step{steady(1, 1, 2, 1), steady(1, 0.65, 1, 1, 1, 1, 1, 1)}},
		{"what others no longer need is taken back", 2, [][]step{steady(1, 1, 2, 1), steady(1, 0.1, 2, 2, 2)}},
		{"soon even if they need something", 2, [][]step{steady(1, 1, 2, 1, 1, 1), steady(1, 0.4, 1, 2, 2, 2)}},
		{"a pause changes nothing", 2, [][]step{steady(1, 1, 2, 1), steady(0.1, 1.9, 1, 1), steady(1, 1, 1)}},
		{"a long one does", 2, [][]step{steady(1, 1, 2, 1), pause(forget-1, 1), steady(0.1, 0, 2), steady(1, 1, 2, 1)}},
		{"half of the cores are its own", 8, [][]step{steady(1, 7, 8, 4, 4, 4)}},
		{"of many cores each counts", 32, [][]step{steady(20, 3, 32, 29, 29, 29), steady(20, 0, 31, 31, 32, 32, 32, 32)}},
		{"others may be counted below nothing", 2, [][]step{steady(2, -0.3, 2, 2)}},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := NewGovernor(c.cores)
			n := 0
			for _, part := range c.steps {
				for _, s := range part {
					if got := g.Step(s.own, s.others); got != s.want {
						t.Errorf("step %d (own %.1f, others %.1f): %d threads, want %d", n, s.own, s.others, got, s.want)
					}
					n++
				}
			}
		})
	}
}

func TestUsageGrows(t *testing.T) {
	before, _ := usage()
	for start, now := time.Now(), before; now == before; now, _ = usage() {
		if time.Since(start) > time.Minute {
			t.Fatal("a minute of work took no CPU time")
		}
	}
}
