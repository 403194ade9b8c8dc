package engine

import "testing"

// TestPeeks: blind writes stop asking memory when it cannot tell, and ask again soon after it can.
func TestPeeks(t *testing.T) {
	asked := func(p *peeks, writes int, told bool) (n int) {
		for range writes {
			if p.worth() {
				n++
				p.learn(told)
			}
		}
		return n
	}
	p := new(peeks)
	if n := asked(p, 1000, true); n != 1000 {
		t.Errorf("%d of 1,000 writes asked while memory told", n)
	}
	asked(p, 500, false)
	if n := asked(p, 16000, false); n < 500 || n > 2000 { // 1,000 are expected, with a deviation of 31
		t.Errorf("%d of 16,000 writes asked in vain", n)
	}
	asked(p, 4000, true)
	if n := asked(p, 1000, true); n != 1000 {
		t.Errorf("%d of 1,000 writes asked after memory could tell again", n)
	}
}
