package tdigest_test

import (
	"fmt"
	"log"
	"os"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/tdigest"
)

func Example() {
	dir, err := os.MkdirTemp("", "tdigest")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	db, err := engine.Open(engine.Options{Dir: dir})
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()

	key := []byte("latency")
	err = db.Update(cf.DefaultNamespace, [][]byte{key}, func(tx *engine.Tx) error {
		if err := tdigest.Create(tx, key, tdigest.DefaultCompression); err != nil {
			return err
		}
		d, err := tdigest.Open(tx, key)
		if err != nil {
			return err
		}
		return d.Add([]float64{1, 2, 2, 3, 3, 3, 4, 4, 4, 4, 5, 5, 5, 5, 5})
	})
	if err != nil {
		log.Fatal(err)
	}
	err = db.View(cf.DefaultNamespace, [][]byte{key}, func(tx *engine.Tx) error {
		d, err := tdigest.Open(tx, key)
		if err != nil {
			return err
		}
		s, err := d.Sketch()
		if err != nil {
			return err
		}
		fmt.Println("median", s.Quantile(0.5))
		fmt.Println("from", s.Min(), "to", s.Max())
		fmt.Println("smaller than 4:", s.Rank(4))
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output:
	// median 4
	// from 1 to 5
	// smaller than 4: 8
}
