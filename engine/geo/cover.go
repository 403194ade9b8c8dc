package geo

import "math"

// Shape is the area of a search: a circle, or a box whose sides run along meridians and parallels.
type Shape struct {
	Lon, Lat float64 // the centre, in degrees
	// A circle has a Radius. With Box, the shape is a box of Width (west to east) and Height. All three are in units
	// and not negative; infinity covers the whole map.
	Radius, Width, Height float64
	Box                   bool
	Unit                  float64 // metres per unit: Metre and the other constants
}

// The units of length, in metres.
const (
	Metre     = 1
	Kilometre = 1000
	Foot      = 0.3048
	Mile      = 1609.34
)

// reach returns the distance from the centre to the farthest point of the shape, in metres.
func (s *Shape) reach() float64 {
	if !s.Box {
		return s.Radius * s.Unit
	}
	w, h := s.Width/2, s.Height/2
	return math.Sqrt(float64(w*w)+float64(h*h)) * s.Unit
}

// halfEquator is half the length of the equator on the Mercator map, in metres.
const halfEquator = 20037726.37

// stepsFor estimates how often the map can be halved so that a cell and its eight neighbours still cover everything
// within reach metres of a position in the central cell. Meridians converge towards the poles, so the cells are larger
// there.
func stepsFor(reach, lat float64) uint {
	if reach == 0 {
		return maxSteps
	}
	steps := -1
	for ; reach < halfEquator; reach *= 2 {
		steps++
	}
	switch lat = math.Abs(lat); {
	case lat > 80:
		steps -= 2
	case lat > 66:
		steps--
	}
	return uint(min(max(steps, 1), maxSteps))
}

// around lists the nine cells of a search in the order of Redis's visit, as offsets in columns and rows from the
// central cell. An unsorted result has this order.
var around = [9][2]int{{0, 0}, {0, 1}, {0, -1}, {1, 0}, {-1, 0}, {1, 1}, {-1, 1}, {1, -1}, {-1, -1}}

// cover appends distinct cells that together contain every position of the shape, in the order of the visit.
func (s *Shape) cover(dst []cell) []cell {
	wanted := s.bounds()
	steps := stepsFor(s.reach(), s.Lat)
	middle := cellAt(s.Lon, s.Lat, steps)
	if steps > 1 && !enough(middle, wanted) {
		steps--
		middle = cellAt(s.Lon, s.Lat, steps)
	}
	edge := middle.bounds()
	last := -1 // the last neighbour that was appended
	for i, d := range around {
		// Where the central cell reaches beyond the shape on one side, the neighbours on that side are not needed. With
		// less than 4 x 4 cells the neighbours on both sides may be the same, so all are kept.
		if steps >= 2 && (d[1] < 0 && edge.minLat < wanted.minLat || d[1] > 0 && edge.maxLat > wanted.maxLat ||
			d[0] < 0 && edge.minLon < wanted.minLon || d[0] > 0 && edge.maxLon > wanted.maxLon) {
			continue
		}
		c := middle.moved(d[0], d[1])
		if last >= 0 && c == dst[last] {
			continue
		}
		if i > 0 {
			last = len(dst)
		}
		dst = append(dst, c)
	}
	return dst
}

// enough reports whether the neighbours of a cell reach as far as the box. They do not at an edge of the map, where
// they are on the opposite side of the map.
func enough(c cell, b box) bool {
	return !(c.moved(0, 1).bounds().maxLat < b.maxLat || c.moved(0, -1).bounds().minLat > b.minLat ||
		c.moved(1, 0).bounds().maxLon < b.maxLon || c.moved(-1, 0).bounds().minLon > b.minLon)
}
