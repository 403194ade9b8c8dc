package maintenance

import "testing"

func TestGCPercent(t *testing.T) {
	const mb = 1 << 20
	for _, c := range []struct {
		live, planned uint64
		want          int
	}{
		{0, 152 * mb, 800},        // nothing was collected yet: at 32 MiB and a bit
		{8 * mb, 152 * mb, 400},   // 32 MiB of garbage
		{50 * mb, 152 * mb, 100},  // as much as is live
		{100 * mb, 152 * mb, 52},  // what the plan leaves
		{140 * mb, 152 * mb, 25},  // a quarter
		{4000 * mb, 152 * mb, 25}, // far beyond the plan
		{4 * mb, 16 * mb, 300},    // in a small container
		{12 * mb, 16 * mb, 33},
		{4 * mb, 0, 25},
	} {
		if have := gcPercent(c.live, c.planned); have != c.want {
			t.Errorf("%d MiB live of %d MiB: %d, not %d", c.live/mb, c.planned/mb, have, c.want)
		}
	}
}

func TestGCPaceFollows(t *testing.T) {
	var set []int
	p := newGCPace(1 << 40)
	if p.set == nil {
		t.Skip("GOGC is set")
	}
	p.set = func(n int) int { set = append(set, n); return 0 }
	p.percent = 1
	p.adjust()
	p.adjust()
	if len(set) != 1 || set[0] < 100 || set[0] > 800 {
		t.Errorf("GOGC was set to %v", set)
	}
	t.Setenv("GOGC", "50")
	if p := newGCPace(1 << 40); p.set != nil {
		t.Error("it does not mind GOGC in the environment")
	}
}
