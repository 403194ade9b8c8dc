package command

import (
	"bytes"
	"math"
	"strconv"

	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/geo"
	"github.com/basaltdb/basalt/engine/zset"
	"github.com/basaltdb/basalt/server/resp"
)

var geoCommands = []Spec{
	{Name: "geoadd", Handler: geoadd, Arity: -5, Flags: Write | DenyOOM},
	{Name: "geodist", Handler: geodist, Arity: -4, Flags: ReadOnly},
	{Name: "geohash", Handler: geohash, Arity: -2, Flags: ReadOnly},
	{Name: "geopos", Handler: geopos, Arity: -2, Flags: ReadOnly | Repeatable},
	{Name: "geosearch", Handler: geoSearchForm(formSearch), Arity: -7, Flags: ReadOnly | Repeatable},
	{Name: "geosearchstore", Handler: geoSearchForm(formStore), Arity: -8, Flags: Write | DenyOOM,
		Keys: destinationAndSource},
	{Name: "georadius", Handler: geoSearchForm(formPosition), Arity: -6, Flags: Write | DenyOOM | MovableKeys,
		Keys: georadiusKeys},
	{Name: "georadius_ro", Handler: geoSearchForm(formPosition), Arity: -6, Flags: ReadOnly | Repeatable},
	{Name: "georadiusbymember", Handler: geoSearchForm(formMember), Arity: -5,
		Flags: Write | DenyOOM | MovableKeys, Keys: georadiusKeys},
	{Name: "georadiusbymember_ro", Handler: geoSearchForm(formMember), Arity: -5, Flags: ReadOnly | Repeatable},
}

// georadiusKeys finds the key that the result is stored in, after STORE or STOREDIST; the last one counts. As in
// Redis, keys after STORE come first.
func georadiusKeys(args [][]byte, add func(argIndex int, write bool)) error {
	add(1, false)
	for _, option := range []string{"STORE", "STOREDIST"} {
		for i := 5; i+1 < len(args); i++ {
			if !EqualFold(args[i], "STORE") && !EqualFold(args[i], "STOREDIST") {
				continue
			}
			if EqualFold(args[i], option) {
				add(i+1, true)
			}
			i++
		}
	}
	return nil
}

var (
	errGeoMember = engine.NewError("ERR", "could not decode requested zset member")
	errGeoUnit   = engine.NewError("ERR", "unsupported unit provided. please use M, KM, FT, MI")
	errGeoRadius = engine.NewError("ERR", "need numeric radius")
	errGeoWidth  = engine.NewError("ERR", "need numeric width")
	errGeoHeight = engine.NewError("ERR", "need numeric height")
	errGeoCircle = engine.NewError("ERR", "radius cannot be negative")
	errGeoBox    = engine.NewError("ERR", "height or width cannot be negative")
	errGeoCount  = engine.NewError("ERR", "COUNT must be > 0")
	errGeoAny    = engine.NewError("ERR", "the ANY argument requires COUNT argument")
)

// geoPosition reads a longitude and a latitude.
func geoPosition(args [][]byte) (lon, lat float64, err error) {
	lon, ok := ParseFloat(args[0])
	if !ok {
		return 0, 0, ErrNotFloat
	}
	if lat, ok = ParseFloat(args[1]); !ok {
		return 0, 0, ErrNotFloat
	}
	if !geo.OnMap(lon, lat) {
		return 0, 0, engine.NewError("ERR", "invalid longitude,latitude pair "+cFloat(lon)+","+cFloat(lat))
	}
	return lon, lat, nil
}

// cFloat is what C prints for "%f".
func cFloat(f float64) string {
	switch {
	case math.IsInf(f, 1):
		return "inf"
	case math.IsInf(f, -1):
		return "-inf"
	}
	return strconv.FormatFloat(f, 'f', 6, 64)
}

// geoUnit reads a unit of length.
func geoUnit(arg []byte) (metres float64, err error) {
	switch {
	case EqualFold(arg, "M"):
		return geo.Metre, nil
	case EqualFold(arg, "KM"):
		return geo.Kilometre, nil
	case EqualFold(arg, "FT"):
		return geo.Foot, nil
	case EqualFold(arg, "MI"):
		return geo.Mile, nil
	}
	return 0, errGeoUnit
}

// writeDistance writes four digits after the decimal point, in RESP3 too. The number is scaled before it is rounded,
// as Redis does it; no distance is so long that it would not fit.
func writeDistance(w *resp.Writer, d float64) {
	n := int64(math.RoundToEven(d * 10000))
	var text [32]byte
	b := strconv.AppendInt(text[:0], n/10000, 10)
	b = append(b, '.')
	for unit := int64(1000); unit > 0; unit /= 10 {
		b = append(b, '0'+byte(n/unit%10))
	}
	w.Bulk(b)
}

// writeCoordinate writes up to 17 digits after the decimal point, without trailing zeros: Redis prints it with the
// precision of a long double.
func writeCoordinate(w *resp.Writer, f float64) {
	var text [32]byte
	b := bytes.TrimRight(strconv.AppendFloat(text[:0], f, 'f', 17, 64), "0")
	if b = bytes.TrimSuffix(b, []byte(".")); string(b) == "-0" {
		b = b[1:]
	}
	if w.Proto != 3 {
		w.Bulk(b)
		return
	}
	w.Raw([]byte{','})
	w.Raw(b)
	w.Raw([]byte("\r\n"))
}

func writePosition(w *resp.Writer, lon, lat float64) {
	w.Array(2)
	writeCoordinate(w, lon)
	writeCoordinate(w, lat)
}

func geoadd(c *Ctx) error {
	var nx, xx, changes bool
	o := options{args: c.Args[2:]}
	for o.flag("NX", &nx) || o.flag("XX", &xx) || o.flag("CH", &changes) {
	}
	args := o.args
	if len(args) == 0 || len(args)%3 != 0 || nx && xx {
		return ErrSyntax
	}
	var f zset.Flags
	if nx {
		f = zset.NX
	} else if xx {
		f = zset.XX
	}
	var few [4]geo.Place
	places := few[:0]
	if n := len(args) / 3; n > len(few) {
		places = make([]geo.Place, 0, n)
	}
	for ; len(args) > 0; args = args[3:] {
		lon, lat, err := geoPosition(args)
		if err != nil {
			return err
		}
		places = append(places, geo.Place{Member: args[2], Lon: lon, Lat: lat})
	}
	added, changed, err := geo.Add(c.Tx, c.Args[1], f, places)
	if changes {
		added += changed
	}
	return replyInt(c, added, err)
}

func geodist(c *Ctx) error {
	unit := float64(geo.Metre)
	switch {
	case len(c.Args) > 5:
		return ErrSyntax
	case len(c.Args) == 5:
		var err error
		if unit, err = geoUnit(c.Args[4]); err != nil {
			return err
		}
	}
	d, found, err := geo.DistanceOf(c.Tx, c.Args[1], c.Args[2], c.Args[3])
	if err != nil {
		return err
	}
	if found {
		writeDistance(c.Out, d/unit)
	} else {
		c.Out.Null()
	}
	return nil
}

func geohash(c *Ctx) error {
	c.Out.Array(len(c.Args) - 2)
	return geo.Scores(c.Tx, c.Args[1], c.Args[2:], func(score float64, found bool) {
		if !found {
			c.Out.Null()
			return
		}
		var text [geo.HashLen]byte
		c.Out.Bulk(geo.AppendHash(text[:0], score))
	})
}

func geopos(c *Ctx) error {
	c.Out.Array(len(c.Args) - 2)
	return geo.Scores(c.Tx, c.Args[1], c.Args[2:], func(score float64, found bool) {
		if !found {
			c.Out.NullArray()
			return
		}
		lon, lat := geo.Position(score)
		writePosition(c.Out, lon, lat)
	})
}
