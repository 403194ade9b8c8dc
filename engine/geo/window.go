package geo

import "math"

// window is a range of columns and rows of the smallest cells, bounds included, that contains every position of a
// shape. It may be too large: it saves reading and measuring distant points, and the measuring decides.
type window struct {
	minCol, maxCol, minRow, maxRow uint32
	// The same bounds as bits of a score: the bits of the columns and those of the rows.
	loCol, hiCol, loRow, hiRow uint64
}

const (
	colBits = 0xaaaaaaaaaaaaaaaa
	rowBits = 0x5555555555555555

	// earthRadius is the radius that Redis's distances use, in metres.
	earthRadius = 6372797.560856
	// windowMargin widens a window, in cells of at most 0.6 metres: more than all rounding errors.
	windowMargin = 4
)

// window returns the window around the shape.
func (s *Shape) window() window {
	const edge = 1 << maxSteps // column or row of the map's eastern or northern edge
	w := window{maxCol: edge, maxRow: edge}
	dLat, dLon := s.extent()
	w.minRow, w.maxRow = cellsBetween(s.Lat-dLat, s.Lat+dLat, MinLat, MaxLat)
	if s.Lon-dLon > MinLon && s.Lon+dLon < MaxLon { // otherwise it crosses the map's edge
		w.minCol, w.maxCol = cellsBetween(s.Lon-dLon, s.Lon+dLon, MinLon, MaxLon)
	}
	w.loCol, w.hiCol = spread(w.minCol)<<1, spread(w.maxCol)<<1
	w.loRow, w.hiRow = spread(w.minRow), spread(w.maxRow)
	return w
}

// extent returns the max distance of positions in the shape from its centre, in degrees of latitude and longitude;
// infinity when the shape comes near a pole.
func (s *Shape) extent() (lat, lon float64) {
	const degrees, full = 180 / math.Pi, 0.999
	if !s.Box {
		angle := s.Radius * s.Unit / earthRadius
		if !(angle < math.Pi/2) {
			return math.Inf(1), math.Inf(1)
		}
		lat, lon = angle*degrees, math.Inf(1)
		if reach := math.Sin(angle) / math.Cos(s.Lat/degrees); reach < full {
			lon = math.Asin(reach) * degrees
		}
		return lat, lon
	}
	lat, lon = s.Height*s.Unit/2/earthRadius*degrees, math.Inf(1)
	if math.IsNaN(lat) {
		lat = math.Inf(1)
	}
	// The width counts along the parallel of each position: it spans the most degrees on the parallel nearest to a
	// pole.
	far := min(math.Abs(s.Lat)+lat, MaxLat+1)
	if angle := s.Width * s.Unit / 4 / earthRadius; angle < math.Pi/2 {
		if reach := math.Sin(angle) / math.Cos(far/degrees); reach < full {
			lon = 2 * math.Asin(reach) * degrees
		}
	}
	return lat, lon
}

// cellsBetween returns the first and the last column (or row) of the smallest cells between two longitudes (latitudes),
// widened by the margin.
func cellsBetween(from, to, min, max float64) (first, last uint32) {
	const edge = 1 << maxSteps
	at := func(v, margin float64) uint32 {
		c := math.Floor((v-min)/(max-min)*edge) + margin
		if !(c > 0) {
			return 0
		}
		if c > edge {
			return edge
		}
		return uint32(c)
	}
	return at(from, -windowMargin), at(to, windowMargin)
}

// has reports whether a position, given as the bits of its score, is in the window.
func (w *window) has(bits uint64) bool {
	col, row := bits&colBits, bits&rowBits
	return col >= w.loCol && col <= w.hiCol && row >= w.loRow && row <= w.hiRow
}

// cuts reports whether a cell and the window intersect, and whether the window contains the whole cell.
func (w *window) cuts(c cell) (touched, inside bool) {
	free := maxSteps - c.steps
	minCol, maxCol := uint64(c.col)<<free, uint64(c.col+1)<<free-1
	minRow, maxRow := uint64(c.row)<<free, uint64(c.row+1)<<free-1
	left, right, bottom, top := uint64(w.minCol), uint64(w.maxCol), uint64(w.minRow), uint64(w.maxRow)
	touched = minCol <= right && maxCol >= left && minRow <= top && maxRow >= bottom
	inside = minCol >= left && maxCol <= right && minRow >= bottom && maxRow <= top
	return touched, inside
}
