package difftest

import "testing"

// geoTemplates and hllTemplates are well-formed commands on the keys of testdata/fixture.txt, of which every argument
// is dropped, doubled and replaced in turn.
var geoTemplates = []string{
	"GEOADD z CH 1 1 a 2 2 b", "GEOADD g NX 1 1 a", "GEOPOS z a b", "GEOHASH z a b", "GEODIST z a b km",
	"GEOSEARCH z FROMMEMBER a BYRADIUS 100 m ASC COUNT 2 ANY WITHDIST WITHHASH WITHCOORD",
	"GEOSEARCH z FROMLONLAT 1 1 BYBOX 100 100 km DESC COUNT 5",
	"GEOSEARCHSTORE d z FROMMEMBER a BYRADIUS 100 m ASC COUNT 2 STOREDIST",
	"GEOSEARCHSTORE d z FROMLONLAT 1 1 BYBOX 100 100 km ANY COUNT 5",
	"GEORADIUS z 1 1 100 km WITHDIST COUNT 3 ASC", "GEORADIUS z 1 1 100 km COUNT 3 STORE d",
	"GEORADIUS_RO z 1 1 100 km WITHCOORD", "GEORADIUSBYMEMBER z a 100 km WITHHASH COUNT 1 DESC",
	"GEORADIUSBYMEMBER z a 100 km STOREDIST d", "GEORADIUSBYMEMBER_RO z a 100 km WITHDIST",
}

var hllTemplates = []string{
	"PFADD p a b c", "PFADD p", "PFCOUNT p", "PFCOUNT p q missing", "PFMERGE q p missing", "PFMERGE q", "PFDEBUG GETREG p",
	"PFDEBUG TODENSE p",
}

func TestGeoTemplates(t *testing.T) { diffTemplates(t, geoTemplates, nil) }

func TestHyperLogLogTemplates(t *testing.T) {
	// Without the conversion, redis-server would have a sparse one.
	diffTemplates(t, hllTemplates, []string{"PFADD p a b", "PFDEBUG TODENSE p", "PFADD q b c", "PFDEBUG GETREG q"})
}

// diffTemplates compares the mutations of templates, each after the fixture and more lines.
func diffTemplates(t *testing.T, templates, more []string) {
	redis, basalt := startRedis(t), startBasalt(t)
	fixture := mustReadTable(t, "testdata/fixture.txt")
	for _, line := range more {
		fixture = append(fixture, mustSplit(t, line))
		if fixture[len(fixture)-1].name() == "PFDEBUG" {
			fixture[len(fixture)-1].mode = kind
		}
	}
	var commands []command
	for _, line := range templates {
		commands = append(commands, mutate(mustSplit(t, line), fixture)...)
	}
	diff(t, redis, basalt, 2, true, commands)
	diff(t, redis, basalt, 3, true, commands)
}

func mustSplit(t *testing.T, line string) command {
	t.Helper()
	words, err := splitLine(line)
	if err != nil {
		t.Fatal(err)
	}
	return newCommand(line, words...)
}
