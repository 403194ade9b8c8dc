package hll_test

import (
	"fmt"
	"log"
	"os"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/hll"
)

func Example() {
	dir, err := os.MkdirTemp("", "hll")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	db, err := engine.Open(engine.Options{Dir: dir})
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()

	monday, tuesday := []byte("visitors:monday"), []byte("visitors:tuesday")
	keys := [][]byte{monday, tuesday}
	err = db.Update(cf.DefaultNamespace, keys, func(tx *engine.Tx) error {
		if _, err := hll.Add(tx, monday, [][]byte{[]byte("ann"), []byte("bob"), []byte("ann")}); err != nil {
			return err
		}
		_, err := hll.Add(tx, tuesday, [][]byte{[]byte("bob"), []byte("eve")})
		return err
	})
	if err != nil {
		log.Fatal(err)
	}
	err = db.View(cf.DefaultNamespace, keys, func(tx *engine.Tx) error {
		one, err := hll.Count(tx, monday)
		if err != nil {
			return err
		}
		both, err := hll.Count(tx, keys...)
		fmt.Println(one, both)
		return err
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output:
	// 2 3
}
