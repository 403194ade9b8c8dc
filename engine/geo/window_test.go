package geo

import (
	"math"
	"math/rand/v2"
	"testing"
)

// TestWindowHoldsTheShape: no position that is measured to be in a shape is outside of its window, and the window of a
// small shape is small.
func TestWindowHoldsTheShape(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	inside := 0
	for range 20000 {
		s := Shape{Lon: r.Float64()*360 - 180, Lat: r.Float64()*170 - 85, Unit: Metre, Box: r.IntN(2) == 0}
		size := func() float64 { return math.Exp(r.Float64() * math.Log(3e7)) }
		s.Radius, s.Width, s.Height = size(), size(), size()
		if r.IntN(50) == 0 {
			s.Radius, s.Width = math.Inf(1), math.Inf(1)
		}
		w := s.window()
		dLat, dLon := s.extent()
		points := make([]point, 50)
		for i := range points {
			// Near the edges of the window, where there is one.
			near := func(middle, d, low, high float64) float64 {
				if v := middle + d*(2.2*r.Float64()-1.1); v >= low && v <= high && r.IntN(4) > 0 {
					return v
				}
				return low + r.Float64()*(high-low)
			}
			p := Score(near(s.Lon, dLon, MinLon, MaxLon), near(s.Lat, dLat, MinLat, MaxLat))
			points[i].score = p
			points[i].lon, points[i].lat = Position(p)
		}
		s.measure(points)
		for _, p := range points {
			if outside(p.distance) {
				continue
			}
			inside++
			if !w.has(toBits(p.score)) {
				t.Fatalf("%+v: %v, %v is inside but not in %+v", s, p.lon, p.lat, w)
			}
			for steps := uint(1); steps <= maxSteps; steps += 5 {
				if touched, _ := w.cuts(cellAt(p.lon, p.lat, steps)); !touched {
					t.Fatalf("%+v: the cell of %v, %v after %d steps is not touched", s, p.lon, p.lat, steps)
				}
			}
		}
	}
	if inside < 100_000 {
		t.Errorf("only %d positions were inside", inside)
	}
	s := Shape{Lon: 10, Lat: 60, Radius: 1000, Unit: Metre}
	w := s.window()
	if width := float64(w.maxCol-w.minCol) * 360 / (1 << maxSteps); width > 0.037 { // 2 km at 60 degrees
		t.Errorf("a circle of 1 km is %v degrees wide", width)
	}
	if w.has(toBits(Score(10.1, 60))) || w.has(toBits(Score(10, 60.1))) {
		t.Error("5 km from the middle is in the window of 1 km")
	}
}

// TestCutsTellsWhatIsInside compares with the corners of the cell.
func TestCutsTellsWhatIsInside(t *testing.T) {
	s := Shape{Lon: 13, Lat: 52, Radius: 3000, Unit: Metre}
	w := s.window()
	seen := map[[2]bool]int{}
	for steps := uint(8); steps <= 20; steps++ {
		middle := cellAt(13, 52, steps)
		for _, d := range around {
			c := middle.moved(d[0], d[1])
			touched, inside := w.cuts(c)
			free := 2 * (maxSteps - c.steps)
			first, last := c.bits()<<free, c.bits()<<free|(1<<free-1)
			if corners := w.has(first) && w.has(last); corners != inside {
				t.Errorf("%+v: inside is %v, its corners say %v", c, inside, corners)
			}
			if inside && !touched {
				t.Errorf("%+v is inside but not touched", c)
			}
			seen[[2]bool{touched, inside}]++
		}
	}
	if len(seen) != 3 {
		t.Errorf("not all cases came up: %v", seen)
	}
}
