package geo

import (
	"testing"

	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/enginetest"
	"github.com/basaltdb/basalt/engine/zset"
	"github.com/basaltdb/basalt/internal/fixture"
)

// show returns records without the namespace and the versions.
func show(t testing.TB, batches [][]byte) []string {
	t.Helper()
	return fixture.Lines(t, batches, ns+"/", "", "expire 0 version #1 ", "", "expire 0 version #2 ", "",
		" #1", "", " #2", "", " = zset", "", ` = ""`, "", ` ""`, "")
}

// TestBatches compares the records of each write with those that Kvrocks 2.10 writes, in its order: what comes last
// is added first, a result is stored in its order.
func TestBatches(t *testing.T) {
	key, dst := []byte("g"), []byte("d")
	keys := [][]byte{key, dst}
	const (
		log     = `log data "5"`
		palermo = `"\xc3(\xb8r*\x0e\xf4T`
		catania = `"\xc3(\xb9\x13\xf1\x1a\x1e\xda`
	)
	adding := func(f zset.Flags, places ...Place) func(tx *engine.Tx) error {
		return func(tx *engine.Tx) error { _, _, err := Add(tx, key, f, places); return err }
	}
	store := func(radius float64) func(tx *engine.Tx) error {
		q := &Query{Shape: Shape{Lon: 15, Lat: 37, Radius: radius, Unit: Kilometre}, Order: Nearest}
		return func(tx *engine.Tx) error { _, err := Store(tx, dst, key, q, false); return err }
	}
	for _, c := range []struct {
		name   string
		before func(tx *engine.Tx) error
		f      func(tx *engine.Tx) error
		want   []string
	}{
		{"new ones", nil, adding(0, sicily[0], sicily[1]), []string{log,
			`put default "g" "Catania" = ` + catania + `"`, `put zset_score "g" ` + catania + `Catania"`,
			`put default "g" "Palermo" = ` + palermo + `"`, `put zset_score "g" ` + palermo +
				`Palermo"`, `put metadata "g" size 2`}},
		{"one moves", adding(0, sicily[0]), adding(0, place("Palermo", 15.087269, 37.502669)), []string{log,
			`delete zset_score "g" ` + palermo + `Palermo"`, `put default "g" "Palermo" = ` + catania +
				`"`, `put zset_score "g" ` + catania + `Palermo"`}},
		{"nothing moves", adding(0, sicily[0]), adding(0, sicily[0]), nil},
		{"XX", nil, adding(zset.XX, sicily[0]), nil},
		{"store", adding(0, sicily[:2]...), store(300), []string{log,
			`put default "d" "Catania" = ` + catania + `"`, `put zset_score "d" ` + catania + `Catania"`,
			`put default "d" "Palermo" = ` + palermo + `"`, `put zset_score "d" ` + palermo +
				`Palermo"`, `put metadata "d" size 2`}},
		{"store nothing", adding(0, sicily[:2]...), store(1), nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			enginetest.WantBatches(t, enginetest.Open(t), keys, c.before, c.f, show, c.want)
		})
	}
}
