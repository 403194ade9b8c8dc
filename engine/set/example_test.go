package set_test

import (
	"fmt"
	"log"
	"os"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/set"
)

func Example() {
	dir, err := os.MkdirTemp("", "set")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	db, err := engine.Open(engine.Options{Dir: dir})
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()

	ann, bob := []byte("likes:ann"), []byte("likes:bob")
	keys := [][]byte{ann, bob}
	err = db.Update(cf.DefaultNamespace, keys, func(tx *engine.Tx) error {
		added, err := set.Add(tx, ann, [][]byte{[]byte("tea"), []byte("rain"), []byte("tea")})
		if err != nil {
			return err
		}
		fmt.Println("added", added)
		_, err = set.Add(tx, bob, [][]byte{[]byte("tea"), []byte("sun")})
		return err
	})
	if err != nil {
		log.Fatal(err)
	}
	err = db.View(cf.DefaultNamespace, keys, func(tx *engine.Tx) error {
		return set.Union(tx, keys, func(member []byte) bool {
			fmt.Printf("%s\n", member)
			return true
		})
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output:
	// added 2
	// rain
	// sun
	// tea
}
