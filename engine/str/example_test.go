package str_test

import (
	"fmt"
	"log"
	"os"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/str"
)

func Example() {
	dir, err := os.MkdirTemp("", "basalt")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	db, err := engine.Open(engine.Options{Dir: dir + "/db"})
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()

	key := []byte("visits")
	for range 3 {
		err = db.Update(cf.DefaultNamespace, [][]byte{key}, func(tx *engine.Tx) error {
			n, err := str.IncrBy(tx, key, 1)
			fmt.Println(n)
			return err
		})
		if err != nil {
			log.Fatal(err)
		}
	}
	err = db.View(cf.DefaultNamespace, [][]byte{key}, func(tx *engine.Tx) error {
		value, found, err := str.Get(tx, key)
		fmt.Printf("%s %v\n", value, found)
		return err
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output:
	// 1
	// 2
	// 3
	// 3 true
}
