package geo

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

// The scores, positions and geohashes are those of redis-server 7.0.
func TestPositions(t *testing.T) {
	for _, tt := range []struct {
		lon, lat         float64
		score            float64
		hash             string
		wantLon, wantLat string
	}{
		{13.361389, 38.115556, 3479099956230698, "sqc8b49rny0", "13.36138933897018433", "38.11555639549629859"},
		{15.087269, 37.502669, 3479447370796909, "sqdtr74hyu0", "15.08726745843887329", "37.50266842333162032"},
		{-122.4194, 37.7749, 1367859919124626, "9q8yyk8ytp0", "-122.41940170526504517", "37.77490001056577995"},
		{0, 0, 3377699720527872, "s0000000000", "0.00000268220901489", "0.00000126736058093"},
		{-180, -85.05112878, 0, "00bh0hbj200", "-179.99999731779098511", "-85.05112751263942528"},
		// The eastern edge is a column of its own, with scores of 53 bits and more.
		{180, 85.05112878, 13510798882111488, "bp05b5048p0", "180.00000000000000000", "85.05112877999999910"},
		{180, 0, 10133099161583616, "80000000000", "180.00000000000000000", "0.00000126736058093"},
	} {
		score := Score(tt.lon, tt.lat)
		if score != tt.score {
			t.Errorf("%v %v: score %.0f, want %.0f", tt.lon, tt.lat, score, tt.score)
		}
		lon, lat := Position(score)
		if lon, lat := fmt.Sprintf("%.17f", lon), fmt.Sprintf("%.17f", lat); lon != tt.wantLon || lat != tt.wantLat {
			t.Errorf("%v %v: position %s %s, want %s %s", tt.lon, tt.lat, lon, lat, tt.wantLon, tt.wantLat)
		}
		if hash := string(AppendHash(nil, score)); hash != tt.hash {
			t.Errorf("%v %v: geohash %s, want %s", tt.lon, tt.lat, hash, tt.hash)
		}
	}
}

func TestOnMap(t *testing.T) {
	for _, tt := range []struct {
		lon, lat float64
		want     bool
	}{
		{0, 0, true}, {-180, 85.05112878, true}, {180, -85.05112878, true},
		{180.0000001, 0, false}, {-180.0000001, 0, false}, {0, 85.05112879, false}, {0, -85.05112879, false},
		{math.Inf(1), 0, false}, {0, math.NaN(), false}, {math.NaN(), 0, false},
	} {
		if got := OnMap(tt.lon, tt.lat); got != tt.want {
			t.Errorf("%v %v: %v", tt.lon, tt.lat, got)
		}
	}
}

// What C makes of doubles that are no scores on amd64.
func TestToBits(t *testing.T) {
	for f, want := range map[float64]uint64{
		0: 0, 1.9: 1, 1 << 52: 1 << 52, 1 << 63: 1 << 63, 1<<63 + 2048: 1<<63 + 2048, 1 << 64: 0, 1e300: 0, math.Inf(1): 0,
		-0.5: 0, -1: math.MaxUint64, -1 << 63: 1 << 63, -1e300: 1 << 63, math.Inf(-1): 1 << 63,
	} {
		if got := toBits(f); got != want {
			t.Errorf("%v: %#x, want %#x", f, got, want)
		}
	}
}

func TestSpread(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for range 1000 {
		a, b := r.Uint32(), r.Uint32()
		var want uint64
		for i := range 32 {
			want |= uint64(a>>i&1)<<(2*i) | uint64(b>>i&1)<<(2*i+1)
		}
		if got := spread(a) | spread(b)<<1; got != want {
			t.Fatalf("%#x %#x: %#x, want %#x", a, b, got, want)
		}
		if gather(want) != a || gather(want>>1) != b {
			t.Fatalf("%#x: %#x %#x, want %#x %#x", want, gather(want), gather(want>>1), a, b)
		}
	}
}

// A cell holds the scores of the positions within its edges, and no others.
func TestCells(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 1))
	for range 5000 {
		steps := uint(1 + r.IntN(maxSteps))
		c := cellAt(r.Float64()*360-180, (r.Float64()*2-1)*MaxLat, steps)
		b := c.bounds()
		// Neighbours share their edges.
		if east := c.moved(1, 0); east.col != 0 && east.bounds().minLon != b.maxLon {
			t.Fatalf("%v: east of %v begins at %v", c, b.maxLon, east.bounds().minLon)
		}
		if north := c.moved(0, 1); north.row != 0 && north.bounds().minLat != b.maxLat {
			t.Fatalf("%v: north of %v begins at %v", c, b.maxLat, north.bounds().minLat)
		}
		if back := c.moved(1, -1).moved(-1, 1); back != c {
			t.Fatalf("%v: there and back is %v", c, back)
		}
		lon, lat := b.minLon+r.Float64()*(b.maxLon-b.minLon), b.minLat+r.Float64()*(b.maxLat-b.minLat)
		lo, hi := c.scores()
		if s := Score(lon, lat); s < lo || s >= hi {
			t.Fatalf("%v: %v %v has the score %.0f, the cell those from %.0f to %.0f", c, lon, lat, s, lo, hi)
		}
		if s := Score(c.moved(1, 0).bounds().minLon, lat); s >= lo && s < hi {
			t.Fatalf("%v: the eastern neighbour's score %.0f is from %.0f to %.0f", c, s, lo, hi)
		}
	}
}

func TestMovedWraps(t *testing.T) {
	last := cell{3, 3, 2}
	for _, tt := range []struct {
		from       cell
		cols, rows int
		want       cell
	}{
		{last, 1, 0, cell{0, 3, 2}}, {last, 0, 1, cell{3, 0, 2}}, {cell{0, 0, 2}, -1, -1, last},
		// One beyond the last: the edge of the map.
		{cell{4, 1, 2}, 0, 1, cell{4, 2, 2}}, {cell{4, 1, 2}, -1, 0, cell{3, 1, 2}}, {cell{4, 1, 2}, 1, 0, cell{1, 1, 2}},
	} {
		if got := tt.from.moved(tt.cols, tt.rows); got != tt.want {
			t.Errorf("%v moved by %d %d is %v, want %v", tt.from, tt.cols, tt.rows, got, tt.want)
		}
	}
}

func TestPositionIsClose(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 1))
	for range 2000 {
		lon, lat := r.Float64()*360-180, (r.Float64()*2-1)*MaxLat
		posLon, posLat := Position(Score(lon, lat))
		if d := Distance(lon, lat, posLon, posLat); d > 0.4 {
			t.Fatalf("%v %v is read as %v %v, %v metres away", lon, lat, posLon, posLat, d)
		}
	}
}

// Distances that need no formula.
func TestDistance(t *testing.T) {
	const quarter = math.Pi / 2 * 6372797.560856
	for _, tt := range []struct{ lon1, lat1, lon2, lat2, want float64 }{
		{0, 0, 0, 0, 0}, {5, 10, 5, 10, 0}, {0, 0, 90, 0, quarter}, {0, 0, 180, 0, 2 * quarter}, {-90, 0, 90, 0, 2 * quarter},
		{7, 45, 7, -45, quarter}, {-180, 30, 180, 30, 0},
	} {
		got := Distance(tt.lon1, tt.lat1, tt.lon2, tt.lat2)
		if math.Abs(got-tt.want) > 1e-7 {
			t.Errorf("%v: %v, want %v", tt, got, tt.want)
		}
	}
	// Rounding must not lead beyond the antipodes.
	r := rand.New(rand.NewPCG(4, 1))
	for range 20000 {
		lon, lat := r.Float64()*180-180, (r.Float64()*2-1)*MaxLat
		if d := Distance(lon, lat, lon+180, -lat); math.IsNaN(d) || math.Abs(d-2*quarter) > 1 {
			t.Fatalf("%v %v to its antipodes: %v", lon, lat, d)
		}
	}
}

func FuzzPosition(f *testing.F) {
	for _, s := range []float64{0, 3479099956230698, -1, 1e300, math.Inf(1), 1.5} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, score float64) {
		lon, lat := Position(score)
		if !OnMap(lon, lat) {
			t.Errorf("%v is at %v %v", score, lon, lat)
		}
		if h := AppendHash(nil, score); len(h) != HashLen {
			t.Errorf("%v: geohash %q", score, h)
		}
		if score >= 0 && score < 1<<52 && Score(lon, lat) != math.Trunc(score) {
			t.Errorf("%v is at %v %v, which has the score %v", score, lon, lat, Score(lon, lat))
		}
	})
}
