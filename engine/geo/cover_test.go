package geo

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

func TestSteps(t *testing.T) {
	for _, tt := range []struct {
		reach, lat float64
		want       uint
	}{
		{0, 0, 26}, {1e-300, 0, 26}, {0.1, 0, 26}, {1, 0, 24}, {1000, 0, 14}, {1000, 66, 14}, {1000, 66.1, 13}, {1000,
			-66.1, 13}, {1000, 80.1, 12}, {1000, -81, 12},
		{5e6, 0, 2}, {5.1e6, 0, 1}, {halfEquator, 0, 1}, {1e12, 85, 1}, {math.Inf(1), 0, 1},
	} {
		if got := stepsFor(tt.reach, tt.lat); got != tt.want {
			t.Errorf("%v metres at %v: %d steps, want %d", tt.reach, tt.lat, got, tt.want)
		}
	}
}

// middleOf returns the longitude or latitude of the middle of a column or row, on a map of so many degrees.
func middleOf(i, steps int, degrees float64) float64 {
	return (float64(i)+0.5)*degrees/float64(int(1)<<steps) - degrees/2
}

// The cells are named by their columns and rows.
func TestCover(t *testing.T) {
	type at = [2]uint32
	for _, tt := range []struct {
		name  string
		shape Shape
		steps uint
		want  []at
	}{
		// The middle is in the south west of its cell: no neighbours to the north and east.
		{"a circle", Shape{Lon: 0.001, Lat: 0.001, Radius: 1, Unit: Kilometre}, 14,
			[]at{{8192, 8192}, {8192, 8191}, {8191, 8192}, {8191, 8191}}},
		// Cells are wider than high: in the middle of one, a circle reaches beyond it to the north and south only.
		{"from the middle of a cell", Shape{Lon: middleOf(524318, 20, 360), Lat: middleOf(524317, 20, 2*MaxLat),
			Radius: 10, Unit: Metre}, 20,
			[]at{{524318, 524317}, {524318, 524318}, {524318, 524316}}},
		{"nothing but a point", Shape{Lon: 13, Lat: 38, Unit: Metre}, 26, []at{{35977807, 48546219}}},
		// Near the pole cells are narrow: all nine, in the order of the visit.
		{"a box in the north", Shape{Lon: middleOf(128, 8, 360), Lat: middleOf(226, 8, 2*MaxLat), Box: true,
			Width: 100, Height: 100, Unit: Kilometre}, 8,
			[]at{{128, 226}, {128, 227}, {128, 225}, {129, 226}, {127, 226}, {129, 227}, {127, 227}, {129, 225}, {127, 225}}},
		// The same size further north: cells are halved less often, and still narrow.
		{"nearer to the pole", Shape{Lon: middleOf(32, 6, 360), Lat: middleOf(62, 6, 2*MaxLat), Box: true, Width: 100,
			Height: 100, Unit: Kilometre}, 6, []at{{32, 62}, {33, 62}, {31, 62}}},
		// North of the last row is the first one, where nothing is found. Redis reads it too.
		{"at the edge", Shape{Lon: 1, Lat: 85, Radius: 200, Unit: Kilometre}, 3, []at{{4, 7}, {4, 0}, {3, 7}, {3, 0}}},
		{"half the globe", Shape{Lon: 1, Lat: 1, Radius: 9000, Unit: Kilometre}, 1, []at{{1, 1}, {1, 0}, {0, 1}, {0, 0}}},
		{"everything", Shape{Lon: -1, Lat: -1, Radius: math.Inf(1), Unit: Metre}, 1, []at{{0, 0}, {0, 1}, {1, 0}, {1, 1}}},
	} {
		cells := tt.shape.cover(nil)
		var got []at
		for _, c := range cells {
			got = append(got, at{c.col, c.row})
			if c.steps != tt.steps {
				t.Errorf("%s: %d steps, want %d", tt.name, c.steps, tt.steps)
			}
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
}

// randomShape is a shape of any size up to some hundred kilometres, away from the edges of the map: Redis does not
// search on the other side of them.
func randomShape(r *rand.Rand) Shape {
	size := func() float64 { return math.Pow(10, r.Float64()*6-1) }
	s := Shape{Lon: r.Float64()*300 - 150, Lat: r.Float64()*120 - 60, Unit: []float64{Metre, Foot, Mile / 100}[r.IntN(3)]}
	if r.IntN(2) == 0 {
		s.Radius = size()
	} else {
		s.Box, s.Width, s.Height = true, size(), size()
	}
	return s
}

// No position inside a shape is outside its cells, and no cell comes twice.
func TestCoverIsComplete(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 1))
	for range 3000 {
		s := randomShape(r)
		cells := s.cover(nil)
		if len(cells) > 9 {
			t.Fatalf("%+v: %d cells", s, len(cells))
		}
		for i, c := range cells {
			if slices.Contains(cells[:i], c) {
				t.Fatalf("%+v: %v comes twice", s, c)
			}
		}
		b := s.bounds()
		inside := 0
		for range 50 {
			p := point{lon: b.minLon + r.Float64()*(b.maxLon-b.minLon), lat: b.minLat + r.Float64()*(b.maxLat-b.minLat)}
			score := Score(p.lon, p.lat)
			one := []point{p}
			if s.measure(one); outside(one[0].distance) {
				continue
			}
			inside++
			if !slices.ContainsFunc(cells, func(c cell) bool { lo, hi := c.scores(); return score >= lo && score < hi }) {
				t.Fatalf("%+v: %v %v, %v metres away, is in none of %v", s, p.lon, p.lat, one[0].distance, cells)
			}
		}
		if inside == 0 {
			t.Fatalf("%+v: no position of 50 in its bounds is inside", s)
		}
	}
}
