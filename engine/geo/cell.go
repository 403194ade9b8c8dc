package geo

import "math"

// The area in which positions can be stored: all longitudes, and the latitudes of the square Mercator map (EPSG:3857),
// which excludes the poles.
const (
	MinLon = -180.0
	MaxLon = 180.0
	MinLat = -85.05112878
	MaxLat = 85.05112878
)

// maxSteps is how many times the map is halved in each direction: 26 bits for the column and 26 for the row are the 52
// bits that a double holds exactly.
const maxSteps = 26

// cell is a rectangle of the map after it was halved steps times in each direction: 2^steps columns from west to east
// and as many rows from south to north.
//
// The eastern and the northern edge of the map lie in column and row 2^steps, one beyond the last. Redis stores the
// positions there the same way, with scores of more than 52 bits.
type cell struct {
	col, row uint32
	steps    uint
}

// box is a rectangle in degrees.
type box struct{ minLon, maxLon, minLat, maxLat float64 }

// offset returns the position of v between min and max, in units of 2^-steps of that range. The conversions to float64,
// here and below, keep the compiler from fusing operations: every step is rounded, as in Redis.
func offset(v, min, max float64, steps uint) uint32 {
	part := float64((v - min) / (max - min))
	return uint32(uint64(float64(part * float64(uint64(1)<<steps))))
}

// cellAt returns the cell that holds a position on the map.
func cellAt(lon, lat float64, steps uint) cell {
	return cell{offset(lon, MinLon, MaxLon, steps), offset(lat, MinLat, MaxLat, steps), steps}
}

// bits interleaves column and row: the highest bit of the column first, then that of the row, and so on. So the halves
// of a cell share a prefix.
func (c cell) bits() uint64 { return spread(c.col)<<1 | spread(c.row) }

// scores returns the scores [min, max) of the positions in the cell: its bits fill the high end of the 52 bits, and the
// lower bits may have any value.
func (c cell) scores() (min, max float64) {
	free := 2 * (maxSteps - c.steps)
	return float64(c.bits() << free), float64((c.bits() + 1) << free)
}

// finest returns the max steps with which the parts of the cell still have distinct scores. The scores at the eastern
// edge of the map take 54 bits, and a double rounds them to even numbers: two or more of four neighbours have the same
// score.
func (c cell) finest() uint {
	if c.col>>c.steps != 0 {
		return maxSteps - 1
	}
	return maxSteps
}

func (c cell) bounds() box {
	const width, height = MaxLon - MinLon, MaxLat - MinLat
	n := float64(uint64(1) << c.steps)
	edge := func(i uint32, min, size float64) float64 { return min + float64(float64(float64(i)/n)*size) }
	return box{edge(c.col, MinLon, width), edge(c.col+1, MinLon, width), edge(c.row, MinLat, height),
		edge(c.row+1, MinLat, height)}
}

// moved returns the cell that is cols columns to the east and rows rows to the north. The map is closed in both
// directions: north of the last row is the first one.
func (c cell) moved(cols, rows int) cell {
	mask := uint32(1)<<c.steps - 1
	if cols != 0 {
		c.col = (c.col + uint32(cols)) & mask
	}
	if rows != 0 {
		c.row = (c.row + uint32(rows)) & mask
	}
	return c
}

// spread moves bit i to bit 2i.
func spread(v uint32) uint64 {
	x := uint64(v)
	x = (x | x<<16) & 0x0000ffff0000ffff
	x = (x | x<<8) & 0x00ff00ff00ff00ff
	x = (x | x<<4) & 0x0f0f0f0f0f0f0f0f
	x = (x | x<<2) & 0x3333333333333333
	return (x | x<<1) & 0x5555555555555555
}

// gather is the inverse of spread; odd bits are ignored.
func gather(x uint64) uint32 {
	x &= 0x5555555555555555
	x = (x | x>>1) & 0x3333333333333333
	x = (x | x>>2) & 0x0f0f0f0f0f0f0f0f
	x = (x | x>>4) & 0x00ff00ff00ff00ff
	x = (x | x>>8) & 0x0000ffff0000ffff
	return uint32(x | x>>16)
}

// OnMap reports whether a position can be stored. Longitude and latitude are in degrees.
func OnMap(lon, lat float64) bool {
	return lon >= MinLon && lon <= MaxLon && lat >= MinLat && lat <= MaxLat
}

// Score returns the score of a position on the map: the number of its cell, an integer.
func Score(lon, lat float64) float64 { return float64(cellAt(lon, lat, maxSteps).bits()) }

// Position returns the centre of the cell that a score stands for. It is at most 0.4 metres from the position that gave
// the score. A score that is no position is converted to an integer as C does it on amd64, so that other sorted sets
// give the same positions as in Redis.
func Position(score float64) (lon, lat float64) {
	bits := toBits(score)
	b := cell{gather(bits >> 1), gather(bits), maxSteps}.bounds()
	lon = min(max((b.minLon+b.maxLon)/2, MinLon), MaxLon)
	lat = min(max((b.minLat+b.maxLat)/2, MinLat), MaxLat)
	return lon, lat
}

// toBits truncates f to an integer. Negative numbers give their two's complement; numbers below the range of int64 give
// 1<<63, and those from 1<<64 on give 0.
func toBits(f float64) uint64 {
	const half = 1 << 63
	if f >= half {
		if f -= half; f >= half {
			return 0
		}
		return uint64(f) ^ half
	}
	if f < -half || math.IsNaN(f) {
		return half
	}
	return uint64(int64(f))
}

// hashAlphabet are the digits of a geohash.
const hashAlphabet = "0123456789bcdefghjkmnpqrstuvwxyz"

// HashLen is the length of what [AppendHash] appends.
const HashLen = 11

// AppendHash appends the standard geohash (see geohash.org) of the position that a score stands for. The standard map
// reaches to the poles, so its cells differ from those of the scores. It is halved 26 times here too; that gives 10
// digits and 2 bits, and the last digit is always 0.
func AppendHash(dst []byte, score float64) []byte {
	lon, lat := Position(score)
	bits := cell{offset(lon, -180, 180, maxSteps), offset(lat, -90, 90, maxSteps), maxSteps}.bits()
	for shift := 47; shift > 0; shift -= 5 {
		dst = append(dst, hashAlphabet[bits>>shift&31])
	}
	return append(dst, '0')
}
