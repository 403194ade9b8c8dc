package hash_test

import (
	"fmt"
	"log"
	"os"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/hash"
)

func Example() {
	dir, err := os.MkdirTemp("", "hash")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	db, err := engine.Open(engine.Options{Dir: dir})
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()

	key := []byte("user:1")
	keys := [][]byte{key}
	err = db.Update(cf.DefaultNamespace, keys, func(tx *engine.Tx) error {
		added, err := hash.Set(tx, key, [][]byte{[]byte("name"), []byte("ann"), []byte("visits"), []byte("41")})
		if err != nil {
			return err
		}
		fmt.Println("added", added)
		visits, err := hash.IncrBy(tx, key, []byte("visits"), 1)
		fmt.Println("visits", visits)
		return err
	})
	if err != nil {
		log.Fatal(err)
	}
	err = db.View(cf.DefaultNamespace, keys, func(tx *engine.Tx) error {
		return hash.Each(tx, key, false, func(n uint64) { fmt.Println(n, "fields") }, func(field, value []byte) {
			fmt.Printf("%s = %s\n", field, value)
		})
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output:
	// added 2
	// visits 42
	// 2 fields
	// name = ann
	// visits = 42
}
