package command

import (
	"fmt"
	"testing"

	"github.com/basaltdb/basalt/engine/enginetest"
	"github.com/basaltdb/basalt/server/resp"
)

const geoWrongType = "-WRONGTYPE Operation against a key holding the wrong kind of value"

// The examples are those of the Redis documentation.
func TestGeoCommands(t *testing.T) {
	runZSetCases(t, []zsetCase{
		{"GEOADD Sicily 13.361389 38.115556 Palermo 15.087269 37.502669 Catania", ":2", ""},
		{"GEODIST Sicily Palermo Catania", "$11 166274.1516", ""},
		{"GEODIST Sicily Palermo Catania km", "$8 166.2742", ""},
		{"GEODIST Sicily Palermo Catania MI", "$8 103.3182", ""},
		{"GEODIST Sicily Palermo Catania ft", "$11 545518.8700", ""},
		{"GEODIST Sicily Foo Bar", "$-1", "_"},
		{"GEODIST missing Foo Bar", "$-1", "_"},
		{"GEODIST Sicily Palermo Catania x", "-ERR unsupported unit provided. please use M, KM, FT, MI", ""},
		{"GEOHASH Sicily Palermo Catania nosuch", "*3 $11 sqc8b49rny0 $11 sqdtr74hyu0 $-1",
			"*3 $11 sqc8b49rny0 $11 sqdtr74hyu0 _"},
		{"GEOPOS Sicily Palermo nosuch", "*2 *2 $20 13.36138933897018433 $20 38.11555639549629859 *-1",
			"*2 *2 ,13.36138933897018433 ,38.11555639549629859 _"},
		{"GEOPOS missing a", "*1 *-1", "*1 _"},
		{"GEORADIUS Sicily 15 37 200 km WITHDIST", "*2 *2 $7 Palermo $8 190.4424 *2 $7 Catania $7 56.4413", ""},
		{"GEORADIUS Sicily 15 37 200 km WITHCOORD ASC COUNT 1",
			"*1 *2 $7 Catania *2 $20 15.08726745843887329 $20 37.50266842333162032",
			"*1 *2 $7 Catania *2 ,15.08726745843887329 ,37.50266842333162032"},
		{"GEORADIUS Sicily 15 37 200 km WITHHASH WITHDIST WITHCOORD COUNT 1",
			"*1 *4 $7 Catania $7 56.4413 :3479447370796909 *2 $20 15.08726745843887329 $20 37.50266842333162032",
			"*1 *4 $7 Catania $7 56.4413 :3479447370796909 *2 ,15.08726745843887329 ,37.50266842333162032"},
		{"GEOADD Sicily 13.583333 37.316667 Agrigento", ":1", ""},
		{"GEORADIUSBYMEMBER Sicily Agrigento 100 km", "*2 $9 Agrigento $7 Palermo", ""},
		{"GEORADIUSBYMEMBER_RO Sicily Agrigento 100 km DESC", "*2 $7 Palermo $9 Agrigento", ""},
		{"GEORADIUS_RO Sicily 15 37 200 km STORE x", "-ERR syntax error", ""},
		{"GEOADD Sicily 12.758489 38.788135 edge1 17.241510 38.788135 edge2", ":2", ""},
		{"GEOSEARCH Sicily FROMLONLAT 15 37 BYRADIUS 200 km ASC", "*3 $7 Catania $9 Agrigento $7 Palermo", ""},
		{"GEOSEARCH Sicily FROMLONLAT 15 37 BYBOX 400 400 km ASC WITHDIST COUNT 2",
			"*2 *2 $7 Catania $7 56.4413 *2 $9 Agrigento $8 130.4235", ""},
		{"GEOSEARCH Sicily FROMMEMBER Palermo BYRADIUS 0 m WITHDIST", "*1 *2 $7 Palermo $6 0.0000", ""},
		{"GEOSEARCH Sicily FROMLONLAT 100 0 BYRADIUS 1 km", "*0", ""},
		{"GEOSEARCH missing FROMLONLAT 15 37 BYRADIUS 200 km", "*0", ""},
		{"GEOSEARCHSTORE key1 Sicily FROMLONLAT 15 37 BYBOX 400 400 km ASC COUNT 3", ":3", ""},
		{"GEOSEARCH key1 FROMLONLAT 15 37 BYBOX 400 400 km ASC WITHHASH",
			"*3 *2 $7 Catania :3479447370796909 *2 $9 Agrigento :3479030013248308 *2 $7 Palermo :3479099956230698", ""},
		{"GEOSEARCHSTORE key2 Sicily FROMLONLAT 15 37 BYBOX 400 400 km ASC COUNT 3 STOREDIST", ":3", ""},
		{"ZRANGE key2 0 -1", "*3 $7 Catania $9 Agrigento $7 Palermo", ""},
		{"GEORADIUS Sicily 15 37 100 km STORE key2", ":1", ""},
		{"ZRANGE key2 0 -1", "*1 $7 Catania", ""},
		{"GEORADIUS Sicily 15 37 1 m STORE key2", ":0", ""},
		{"EXISTS key2", ":0", ""},
		{"TYPE Sicily", "+zset", ""},
	})
}

func TestGeoErrors(t *testing.T) {
	const syntax = "-ERR syntax error"
	runZSetCases(t, []zsetCase{
		{"GEOADD g 1 1 a 2 2 b", ":2", ""},
		{"GEOADD g NX CH 5 5 a 6 6 c", ":1", ""},
		{"GEOADD g XX CH 5 5 a 6 6 d", ":1", ""},
		{"GEOADD g CH 5 5 a 2 3 b", ":1", ""},
		{"GEOADD g NX XX 1 1 a", syntax, ""},
		{"GEOADD g 1 1 a 2", syntax, ""},
		{"GEOADD g CH CH CH", syntax, ""},
		{"GEOADD g x 1 a", "-ERR value is not a valid float", ""},
		{"GEOADD g 200 100 a", "-ERR invalid longitude,latitude pair 200.000000,100.000000", ""},
		{"GEOADD g inf -inf a", "-ERR invalid longitude,latitude pair inf,-inf", ""},
		{"GEOADD g 1 1 e 200 100 a", "-ERR invalid longitude,latitude pair 200.000000,100.000000", ""},
		{"ZSCORE g e", "$-1", "_"},
		{"GEOADD g 1", "-ERR wrong number of arguments for 'geoadd' command", ""},
		{"SET s v", "+OK", ""},
		{"GEOADD s 1 1 a", geoWrongType, ""},
		{"GEOPOS s a", geoWrongType, ""},
		{"GEOHASH s a", geoWrongType, ""},
		{"GEODIST s a b", geoWrongType, ""},
		{"GEOSEARCH s x x x x x", geoWrongType, ""},
		{"GEORADIUS s x x x x", geoWrongType, ""},
		{"GEOSEARCHSTORE d s FROMMEMBER a BYRADIUS 1 m", geoWrongType, ""},
		{"GEOSEARCH g FROMMEMBER nosuch BYRADIUS 1 m", "-ERR could not decode requested zset member", ""},
		{"GEOSEARCH g FROMMEMBER a BYRADIUS x m", "-ERR need numeric radius", ""},
		{"GEOSEARCH g FROMMEMBER a BYRADIUS -1 m", "-ERR radius cannot be negative", ""},
		{"GEOSEARCH g FROMMEMBER a BYBOX x 1 m", "-ERR need numeric width", ""},
		{"GEOSEARCH g FROMMEMBER a BYBOX 1 x m", "-ERR need numeric height", ""},
		{"GEOSEARCH g FROMMEMBER a BYBOX 1 -1 m", "-ERR height or width cannot be negative", ""},
		{"GEOSEARCH g FROMMEMBER a BYBOX 1 1 x", "-ERR unsupported unit provided. please use M, KM, FT, MI", ""},
		{"GEOSEARCH g FROMMEMBER a FROMLONLAT 1 1 BYRADIUS 1 m", syntax, ""},
		{"GEOSEARCH g FROMMEMBER a BYRADIUS 1 m BYBOX 1 1 m", syntax, ""},
		{"GeoSearch g BYRADIUS 1 m ASC COUNT 1",
			"-ERR exactly one of FROMMEMBER or FROMLONLAT can be specified for GeoSearch", ""},
		{"GEOSEARCH g FROMMEMBER a ASC COUNT 1", "-ERR exactly one of BYRADIUS and BYBOX can be specified for GEOSEARCH", ""},
		{"GEOSEARCH g FROMMEMBER a BYRADIUS 1 m ANY", "-ERR the ANY argument requires COUNT argument", ""},
		{"GEOSEARCH g FROMMEMBER a BYRADIUS 1 m COUNT 0", "-ERR COUNT must be > 0", ""},
		{"GEOSEARCH g FROMMEMBER a BYRADIUS 1 m COUNT x", "-ERR value is not an integer or out of range", ""},
		{"GEOSEARCH g FROMMEMBER a BYRADIUS 1 m COUNT", syntax, ""},
		{"GEOSEARCH g FROMMEMBER a BYRADIUS 1 m STORE d", syntax, ""},
		{"GEOSEARCHSTORE d g FROMMEMBER a BYRADIUS 1 m WITHDIST",
			"-ERR GEOSEARCHSTORE is not compatible with WITHDIST, WITHHASH and WITHCOORD options", ""},
		{"GEORADIUS g 1 1 1 m WITHHASH STORE d",
			"-ERR STORE option in GEORADIUS is not compatible with WITHDIST, WITHHASH and WITHCOORD options", ""},
		{"EXISTS d", ":0", ""},
	})
}

func TestWriteDistance(t *testing.T) {
	for _, tt := range []struct {
		d    float64
		want string
	}{
		{0, "0.0000"}, {0.00004, "0.0000"}, {0.00005, "0.0000"}, {0.00015, "0.0001"}, {0.00025, "0.0002"}, {0.9999,
			"0.9999"}, {0.99996, "1.0000"}, {12.5, "12.5000"},
		{166274.15156960033, "166274.1516"}, {20020741.4, "20020741.4000"}, {65684847.1, "65684847.1000"},
	} {
		var w resp.Writer
		writeDistance(&w, tt.d)
		if got, want := string(w.Bytes()), fmt.Sprintf("$%d\r\n%s\r\n", len(tt.want), tt.want); got != want {
			t.Errorf("%v: %q, want %q", tt.d, got, want)
		}
	}
}

func TestWriteCoordinate(t *testing.T) {
	for _, tt := range []struct {
		f    float64
		want string
	}{
		{0, "0"}, {180, "180"}, {-180, "-180"}, {0.5, "0.5"}, {-0.25, "-0.25"}, {10, "10"}, {1e-17,
			"0.00000000000000001"}, {-1e-18, "0"},
		{85.05112878, "85.0511287799999991"}, {13.361389338970184, "13.36138933897018433"},
	} {
		w := resp.Writer{Proto: 3}
		writeCoordinate(&w, tt.f)
		if got := string(w.Bytes()); got != ","+tt.want+"\r\n" {
			t.Errorf("%v: %q, want %s", tt.f, got, tt.want)
		}
	}
}

// The keys of a command, which are locked, are all keys that the command may read or write.
func TestGeoKeys(t *testing.T) {
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"GEORADIUS", "g", "1", "1", "1", "m"}, "[{1 false}]"},
		{[]string{"GEORADIUS", "g", "1", "1", "1", "m", "STORE"}, "[{1 false}]"},
		{[]string{"GEORADIUS", "g", "1", "1", "1", "m", "ASC", "store", "d"}, "[{1 false} {8 true}]"},
		{[]string{"GEORADIUS", "g", "1", "1", "1", "m", "STORE", "STOREDIST", "STOREDIST", "e"},
			"[{1 false} {7 true} {9 true}]"},
		{[]string{"GEORADIUSBYMEMBER", "g", "m", "1", "m", "STOREDIST", "d"}, "[{1 false} {6 true}]"},
		{[]string{"GEOSEARCHSTORE", "d", "g", "FROMMEMBER", "a", "BYRADIUS", "1", "m"}, "[{1 true} {2 false}]"},
	} {
		args := bytesOf(tt.args...)
		if got := fmt.Sprint(Lookup(args[0]).AppendKeys(nil, args)); got != tt.want {
			t.Errorf("%q: %s, want %s", tt.args, got, tt.want)
		}
	}
}

func BenchmarkGeoSearch(b *testing.B) {
	db := enginetest.Open(b)
	for i := range 1000 {
		do(b, db, "GEOADD", "g", fmt.Sprint(float64(i%100)/100), fmt.Sprint(float64(i)/1000), fmt.Sprint("m", i))
	}
	b.ReportAllocs()
	for range b.N {
		do(b, db, "GEOSEARCH", "g", "FROMLONLAT", "0.5", "0.5", "BYRADIUS", "10", "km", "ASC")
	}
}
