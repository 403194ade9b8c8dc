package list_test

import (
	"fmt"
	"log"
	"os"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/list"
)

func Example() {
	dir, err := os.MkdirTemp("", "list")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	db, err := engine.Open(engine.Options{Dir: dir})
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()

	todo, done := []byte("todo"), []byte("done")
	keys := [][]byte{todo, done}
	err = db.Update(cf.DefaultNamespace, keys, func(tx *engine.Tx) error {
		n, err := list.Push(tx, todo, [][]byte{[]byte("wash"), []byte("cook"), []byte("eat")}, false, false)
		if err != nil {
			return err
		}
		fmt.Println(n, "to do")
		task, _, err := list.Move(tx, todo, done, true, false)
		fmt.Printf("%s is done\n", task)
		return err
	})
	if err != nil {
		log.Fatal(err)
	}
	err = db.View(cf.DefaultNamespace, keys, func(tx *engine.Tx) error {
		return list.Range(tx, todo, 0, -1, func(n uint64) { fmt.Println(n, "left") },
			func(elem []byte) { fmt.Printf("%s\n", elem) })
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output:
	// 3 to do
	// wash is done
	// 2 left
	// cook
	// eat
}
