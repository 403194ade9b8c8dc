package main

import (
	"slices"
	"testing"
)

func TestCount(t *testing.T) {
	const good = "[ok]: A in B (1 ms)\n[err]: C D in tests/unit/x.tcl\nExpected '[ok]: no'\n[ignore]: E: Tag: slow " +
		"denied\n" +
		"[ok]: F (2 ms)\n[1/1 done]: unit/x (1 seconds)\n\n                   The End\n\n*** [err]: C D in tests/unit/x.tcl\n"
	ok, errs, ended := count(good)
	if ok != 2 || !slices.Equal(errs, []string{"C D"}) || !ended {
		t.Errorf("%d passed, %q failed, ended: %v", ok, errs, ended)
	}
	for _, out := range []string{"", "[ok]: A (1 ms)\n", "[exception]: Executing test client: BUSY.\nThe End\n"} {
		if _, _, ended := count(out); ended {
			t.Errorf("%q counts as a unit that has ended", out)
		}
	}
}
