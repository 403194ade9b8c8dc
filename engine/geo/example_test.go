package geo_test

import (
	"fmt"
	"log"
	"os"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/geo"
)

func Example() {
	dir, err := os.MkdirTemp("", "geo")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	db, err := engine.Open(engine.Options{Dir: dir})
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()

	key := []byte("cities")
	keys := [][]byte{key}
	err = db.Update(cf.DefaultNamespace, keys, func(tx *engine.Tx) error {
		_, _, err := geo.Add(tx, key, 0, []geo.Place{
			{Member: []byte("Palermo"), Lon: 13.361389, Lat: 38.115556},
			{Member: []byte("Catania"), Lon: 15.087269, Lat: 37.502669},
			{Member: []byte("Rome"), Lon: 12.496366, Lat: 41.902782},
		})
		return err
	})
	if err != nil {
		log.Fatal(err)
	}
	err = db.View(cf.DefaultNamespace, keys, func(tx *engine.Tx) error {
		metres, _, err := geo.DistanceOf(tx, key, []byte("Palermo"), []byte("Catania"))
		if err != nil {
			return err
		}
		fmt.Printf("%.0f m\n", metres)
		q := geo.Query{Shape: geo.Shape{Lon: 15, Lat: 37, Radius: 200, Unit: geo.Kilometre}, Order: geo.Nearest}
		return geo.Search(tx, key, &q, func(f *geo.Found) { fmt.Printf("%s: %.1f km\n", f.Member, f.Distance) })
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output:
	// 166274 m
	// Catania: 56.4 km
	// Palermo: 190.4 km
}
