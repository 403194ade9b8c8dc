package procs

import (
	"fmt"
	"os"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/basaltdb/basalt/internal/require"
)

func TestParseAllowed(t *testing.T) {
	for _, c := range []struct {
		status string
		want   []int
	}{
		{"Name:\tx\nCpus_allowed_list:\t0-3\nMems_allowed_list:\t0\n", []int{0, 1, 2, 3}},
		{"Cpus_allowed_list:\t5\n", []int{5}},
		{"Cpus_allowed_list:\t0,8-9,63", []int{0, 8, 9, 63}},
		{"Cpus_allowed:\tff\n", nil},
		{"Cpus_allowed_list:\t\n", nil},
		{"Cpus_allowed_list:\t3-1\n", nil},
		{"Cpus_allowed_list:\t0-999999999\n", nil},
		{"", nil},
	} {
		got, err := parseAllowed(c.status)
		if !reflect.DeepEqual(got, c.want) || (err != nil) != (c.want == nil) {
			t.Errorf("%q: %v, %v", c.status, got, err)
		}
	}
}

func TestParseUnused(t *testing.T) {
	const two = "cpu  9 9 9 9 9 9 9 9\ncpu0 100 20 30 4000 50 6 7 8 9 10\ncpu1 1 2 3 4 5 6 7 8\nintr 1\n"
	for _, c := range []struct {
		stat  string
		cpus  []int
		niced bool
		want  time.Duration
		err   bool
	}{
		{two, []int{0}, true, 40580 * time.Millisecond, false},
		{two, []int{0}, false, 40780 * time.Millisecond, false},
		{two, []int{1}, true, 170 * time.Millisecond, false},
		{two, []int{0, 1}, true, 40750 * time.Millisecond, false},
		{two, []int{0, 2}, true, 0, true},
		{"cpu0 100 20 30 4000 50 6 7\n", []int{0}, true, 0, true},
		{"cpu0 100 20 x 4000 50 6 7 8\n", []int{0}, true, 0, true},
		{"", []int{0}, true, 0, true},
	} {
		got, err := parseUnused(c.stat, c.cpus, c.niced)
		if got != c.want || (err != nil) != c.err {
			t.Errorf("%q %v: %v, %v", c.stat, c.cpus, got, err)
		}
	}
}

// machine is a /proc of some cores; used are the cores that all processes together use of each.
func machine(allowed string, seconds float64, used ...float64) fstest.MapFS {
	var stat strings.Builder
	stat.WriteString("cpu  0 0 0 0 0 0 0 0 0 0\n") // the sum, which nobody should look at
	for cpu, u := range used {
		fmt.Fprintf(&stat, "cpu%d %.0f 0 0 %.0f 0 0 0 0 0 0\n", cpu, 100*seconds*u, 100*seconds*(1-u))
	}
	stat.WriteString("intr 0\n")
	return fstest.MapFS{
		"stat":        {Data: []byte(stat.String())},
		"self/status": {Data: []byte("Name:\tbasalt\nCpus_allowed_list:\t" + allowed + "\n")},
	}
}

// TestOthers checks that only those processes count that use the cores which this process may use.
func TestOthers(t *testing.T) {
	busy := func(n, of int) []float64 {
		used := make([]float64, of)
		for i := range n {
			used[i] = 1
		}
		return used
	}
	for _, c := range []struct {
		name    string
		allowed string
		used    []float64
		mine    float64
		others  float64
		threads int // after some steps
	}{
		{"alone", "0-3", []float64{0.5, 0.5, 0.5, 0.5}, 2, 0, 4},
		{"a client beside it", "0-1", []float64{1, 1}, 1, 1, 1},
		{"a container of 8 cores of 64, the others busy", "56-63", busy(56, 64), 0.5, -0.5, 8},
		{"the same, all its cores busy with others", "0-7", busy(8, 64), 1, 7, 4},
		{"taskset to 2 of 4, the client on the other 2", "2-3", []float64{1, 1, 0.4, 0.4}, 0.8, 0, 2},
		{"cores apart", "0,3", []float64{1, 1, 1, 0}, 1, 0, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			m, err := newMeter(machine(c.allowed, 0, c.used...), false)
			require.NoError(t, err)
			g := NewGovernor(m.cores())
			threads := 0
			for step := range 6 {
				// Steps of 10 seconds, so that the ticks of the text do not matter.
				others, ok, err := m.others(machine(c.allowed, float64(10*step), c.used...), 10*time.Second, c.mine)
				if err != nil || ok != (step > 0) {
					t.Fatalf("step %d: %v, %v", step, ok, err)
				}
				if !ok {
					continue
				}
				if d := others - c.others; d < -0.01 || d > 0.01 {
					t.Errorf("step %d: others use %.2f cores, not %.2f", step, others, c.others)
				}
				threads = g.Step(c.mine, others)
			}
			if threads != c.threads {
				t.Errorf("%d threads, not %d", threads, c.threads)
			}
			m.forget()
			if _, ok, _ := m.others(machine(c.allowed, 99, c.used...), time.Second, c.mine); ok {
				t.Error("what was forgotten counts")
			}
		})
	}
}

func TestMeterHere(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("there is no /proc")
	}
	m, err := newMeter(os.DirFS("/proc"), isNiced())
	require.NoError(t, err)
	if m.cores() != runtime.NumCPU() {
		t.Errorf("%d cores, the runtime knows %d", m.cores(), runtime.NumCPU())
	}
	if _, _, err := m.others(os.DirFS("/proc"), time.Second, 0); err != nil {
		t.Error(err)
	}
}
