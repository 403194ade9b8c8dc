package geo

/*
#cgo CFLAGS: -O2
#cgo LDFLAGS: -lm
#cgo noescape basalt_geo_distance
#cgo nocallback basalt_geo_distance
#cgo noescape basalt_geo_circle
#cgo nocallback basalt_geo_circle
#cgo noescape basalt_geo_box
#cgo nocallback basalt_geo_box
#cgo noescape basalt_geo_bounds
#cgo nocallback basalt_geo_bounds
#include "distance.h"
*/
import "C"

import (
	"math"
	"unsafe"
)

// The sines and cosines are those of the C library: Go's sometimes differ in the last bit, and then a distance would
// differ from the one that Redis stores with STOREDIST. One cgo call measures a whole batch of points.

// Distance returns the great-circle distance in metres between two positions in degrees.
func Distance(lon1, lat1, lon2, lat2 float64) float64 {
	return float64(C.basalt_geo_distance(C.double(lon1), C.double(lat1), C.double(lon2), C.double(lat2)))
}

// measure sets the distances of points from the centre of the shape, in metres; NaN for a point outside.
func (s *Shape) measure(points []point) {
	if len(points) == 0 {
		return
	}
	p := (*C.struct_basalt_geo_point)(unsafe.Pointer(&points[0]))
	n, stride := C.size_t(len(points)), C.size_t(unsafe.Sizeof(points[0]))
	if s.Box {
		C.basalt_geo_box(C.double(s.Lon), C.double(s.Lat), C.double(s.Width*s.Unit), C.double(s.Height*s.Unit), p, n, stride)
	} else {
		C.basalt_geo_circle(C.double(s.Lon), C.double(s.Lat), C.double(s.Radius*s.Unit), p, n, stride)
	}
}

// outside reports whether a distance of measure says that the point is outside the shape.
func outside(distance float64) bool { return math.IsNaN(distance) }

// bounds returns the bounding box of the shape, in degrees. It may reach beyond the map.
func (s *Shape) bounds() box {
	width, height := s.Unit*s.Radius, s.Unit*s.Radius
	if s.Box {
		width, height = s.Unit*float64(s.Width/2), s.Unit*float64(s.Height/2)
	}
	var dLat, dLon C.double
	C.basalt_geo_bounds(C.double(s.Lat), C.double(width), C.double(height), &dLon, &dLat)
	return box{s.Lon - float64(dLon), s.Lon + float64(dLon), s.Lat - float64(dLat), s.Lat + float64(dLat)}
}
