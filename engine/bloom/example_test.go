package bloom_test

import (
	"fmt"
	"log"
	"os"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/bloom"
)

func Example() {
	dir, err := os.MkdirTemp("", "bloom")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	db, err := engine.Open(engine.Options{Dir: dir})
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()

	key := []byte("seen")
	err = db.Update(cf.DefaultNamespace, [][]byte{key}, func(tx *engine.Tx) error {
		err := bloom.Reserve(tx, key, bloom.Options{Capacity: 1000, ErrorRate: 0.001, Expansion: 2})
		if err != nil {
			return err
		}
		items := [][]byte{[]byte("tea"), []byte("rain"), []byte("tea")}
		return bloom.Add(tx, key, items, nil, func(r bloom.Result) { fmt.Println("new:", r == bloom.Added) })
	})
	if err != nil {
		log.Fatal(err)
	}
	err = db.View(cf.DefaultNamespace, [][]byte{key}, func(tx *engine.Tx) error {
		return bloom.Exists(tx, key, [][]byte{[]byte("rain"), []byte("sun")}, func(has bool) { fmt.Println("has:", has) })
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output:
	// new: true
	// new: true
	// new: false
	// has: true
	// has: false
}
