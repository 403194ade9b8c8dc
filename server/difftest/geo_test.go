package difftest

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
)

// TestRandomGeo compares searches among random positions: everywhere, at the edges of the map, in clusters and
// several at the same place.
func TestRandomGeo(t *testing.T) {
	redis, basalt := startRedis(t), startBasalt(t)
	rounds := 12
	if testing.Short() {
		rounds = 4
	}
	for seed := range rounds {
		diffTo(t, fmt.Sprintf("seed %d", seed), redis, basalt, 2+seed%2, true,
			geoCommands(uint64(seed), 40<<(seed%4*2), 1000))
	}
}

// geoCommands adds so many positions and searches for them n times.
func geoCommands(seed uint64, size, n int) []command {
	g := geoGenerator{rand.New(rand.NewPCG(seed, 99))}
	var centres [][2]float64
	for range 4 {
		centres = append(centres, g.anywhere())
	}
	// Cells are chosen by the latitude; the largest shapes beside these parallels need all nine of them.
	for _, lat := range []float64{60, 66, 80} {
		centres = append(centres, [2]float64{g.anywhere()[0], (lat + g.Float64()*2 - 1) * float64(1-2*g.IntN(2))})
	}
	var out []command
	add := func(args ...string) { out = append(out, newCommand(strconv.Itoa(len(out)), args...)) }
	add("FLUSHALL")
	for i := range size {
		p := g.position(centres)
		add("GEOADD", "g", degrees(p[0]), degrees(p[1]), "m"+strconv.Itoa(i))
	}
	add("ZRANGE", "g", "0", "-1", "WITHSCORES")
	member := func() string { return "m" + strconv.Itoa(g.IntN(size)) }
	for i := range n {
		switch g.IntN(12) {
		case 0:
			add("GEODIST", "g", member(), member(), g.unit())
		case 1:
			add("GEOPOS", "g", member(), member())
			add("GEOHASH", "g", member(), member())
		case 2:
			add(append([]string{"GEOSEARCHSTORE", "d", "g"}, g.search(centres, member(), true)...)...)
			add("ZRANGE", "d", "0", "-1", "WITHSCORES")
		case 3:
			p := g.position(centres)
			add("GEORADIUS", "g", degrees(p[0]), degrees(p[1]), g.length(), "m", "WITHDIST", "COUNT", strconv.Itoa(1+g.IntN(30)))
		case 4:
			p := g.position(centres)
			add("GEOADD", "g", "CH", degrees(p[0]), degrees(p[1]), member())
		default:
			add(append([]string{"GEOSEARCH", "g"}, g.search(centres, member(), false)...)...)
		}
		if i%100 == 99 {
			add("ZREM", "g", member())
		}
	}
	return out
}

type geoGenerator struct{ *rand.Rand }

func degrees(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }

func (g geoGenerator) anywhere() [2]float64 {
	return [2]float64{g.Float64()*360 - 180, (g.Float64()*2 - 1) * 85.05112878}
}

// position is near one of the centres, anywhere or at an edge of the map.
func (g geoGenerator) position(centres [][2]float64) [2]float64 {
	switch k := g.IntN(10); {
	case k < 6 && len(centres) > 0:
		c := centres[g.IntN(len(centres))]
		spread := math.Pow(10, float64(g.IntN(7)-5))
		return [2]float64{min(max(c[0]+g.NormFloat64()*spread, -180), 180),
			min(max(c[1]+g.NormFloat64()*spread, -85.05112878), 85.05112878)}
	case k == 6 && len(centres) > 0:
		return centres[g.IntN(len(centres))]
	case k == 7:
		p := g.anywhere()
		edges := [2][]float64{{-180, 180, -179.999999, 179.999999, 0, 90},
			{-85.05112878, 85.05112878, -85.0511, 85.0511, 0, 66.5}}
		for i := range p {
			if g.IntN(2) == 0 {
				p[i] = edges[i][g.IntN(len(edges[i]))]
			}
		}
		return p
	}
	return g.anywhere()
}

func (g geoGenerator) unit() string { return [...]string{"m", "m", "m", "km", "ft", "mi"}[g.IntN(6)] }

// length is from 0.01 to some ten million, or one of the limits.
func (g geoGenerator) length() string {
	if g.IntN(20) == 0 {
		return [...]string{"0", "1e-9", "20037726.37", "40000000", "1e12", "inf"}[g.IntN(6)]
	}
	if g.IntN(2) == 0 { // as large as a cluster in metres
		return strconv.FormatFloat(111e3*math.Pow(10, float64(g.IntN(5)-3))*(0.5+2*g.Float64()), 'g', -1, 64)
	}
	return strconv.FormatFloat(math.Pow(10, g.Float64()*9.5-2), 'g', -1, 64)
}

// search has the arguments of GEOSEARCH or, with store, of GEOSEARCHSTORE behind the keys.
func (g geoGenerator) search(centres [][2]float64, member string, store bool) []string {
	var parts []string
	if g.IntN(3) == 0 {
		parts = append(parts, "FROMMEMBER "+member)
	} else {
		p := g.position(centres)
		parts = append(parts, "FROMLONLAT "+degrees(p[0])+" "+degrees(p[1]))
	}
	if g.IntN(2) == 0 {
		parts = append(parts, "BYRADIUS "+g.length()+" "+g.unit())
	} else {
		parts = append(parts, "BYBOX "+g.length()+" "+g.length()+" "+g.unit())
	}
	switch g.IntN(4) {
	case 0:
		parts = append(parts, "COUNT "+strconv.Itoa(1+g.IntN(50)))
	case 1:
		parts = append(parts, "COUNT "+strconv.Itoa(1+g.IntN(50))+" ANY")
	}
	options := []string{"ASC", "DESC", "WITHDIST", "WITHHASH", "WITHCOORD"}
	if store {
		options = []string{"ASC", "DESC", "STOREDIST"}
	}
	for _, o := range options {
		if g.IntN(3) == 0 {
			parts = append(parts, o)
		}
	}
	g.Shuffle(len(parts), func(i, j int) { parts[i], parts[j] = parts[j], parts[i] })
	return strings.Fields(strings.Join(parts, " "))
}
