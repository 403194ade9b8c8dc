package procs

import (
	"runtime"
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
		{"nor does one that seems to need much once", 2, [][]step{steady(1.4, 0.4, 2, 2, 2, 2), steady(1.4, 0.9, 2), steady(1.4, 0.4, 2, 2)}},
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

func TestParseUnused(t *testing.T) {
	for _, c := range []struct {
		stat  string
		niced bool
		want  time.Duration
		err   bool
	}{
		{"cpu  100 20 30 4000 50 6 7 8 9 10\ncpu0 1 2 3\n", true, 40580 * time.Millisecond, false},
		{"cpu  100 20 30 4000 50 6 7 8", true, 40580 * time.Millisecond, false},
		{"cpu  100 20 30 4000 50 6 7 8", false, 40780 * time.Millisecond, false},
		{"cpu  100 20 30 4000 50 6 7\n", true, 0, true},
		{"cpu0 100 20 30 4000 50 6 7 8\n", true, 0, true},
		{"cpu  100 20 x 4000 50 6 7 8\n", true, 0, true},
		{"", true, 0, true},
	} {
		got, err := parseUnused(c.stat, c.niced)
		if got != c.want || (err != nil) != c.err {
			t.Errorf("parseUnused(%q) = %v, %v", c.stat, got, err)
		}
	}
	if runtime.GOOS == "linux" {
		if unused, err := unusedTime(true); err != nil || unused <= 0 {
			t.Errorf("unusedTime() = %v, %v", unused, err)
		}
		if n, err := onlineCores(); err != nil || n < runtime.NumCPU() {
			t.Errorf("onlineCores() = %d, %v; the process may use %d", n, err, runtime.NumCPU())
		}
	}
}

func TestOwnTimeGrows(t *testing.T) {
	before := ownTime()
	for start := time.Now(); ownTime() == before; {
		if time.Since(start) > time.Minute {
			t.Fatal("a minute of work took no CPU time")
		}
	}
}
