package engine_test

import (
	"fmt"
	"log"
	"os"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/hash"
)

// The program of README.md.
func Example_readme() {
	dir, err := os.MkdirTemp("", "readme")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)

	db, err := engine.Open(engine.Options{Dir: dir})
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	err = db.Update(cf.DefaultNamespace, [][]byte{[]byte("user:1")}, func(tx *engine.Tx) error {
		_, err := hash.Set(tx, []byte("user:1"), [][]byte{[]byte("name"), []byte("Ada")})
		return err
	})
	fmt.Println(err, db.KeyCount(cf.DefaultNamespace).Keys)
	// Output: <nil> 1
}
