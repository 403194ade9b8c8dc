package sortedint_test

import (
	"fmt"
	"log"
	"os"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/sortedint"
)

func Example() {
	dir, err := os.MkdirTemp("", "sortedint")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	db, err := engine.Open(engine.Options{Dir: dir})
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()

	feed := []byte("feed:ann")
	err = db.Update(cf.DefaultNamespace, [][]byte{feed}, func(tx *engine.Tx) error {
		added, err := sortedint.Add(tx, feed, []uint64{300, 100, 200, 100, 400})
		fmt.Println("added", added)
		return err
	})
	if err != nil {
		log.Fatal(err)
	}
	// The latest ids, two a page: each page begins below the last id of the one before.
	page := sortedint.All
	page.Reverse, page.Limit = true, 2
	for range 2 {
		err = db.View(cf.DefaultNamespace, [][]byte{feed}, func(tx *engine.Tx) error {
			last := uint64(0)
			err := sortedint.Each(tx, feed, page, func(id uint64) {
				fmt.Println(id)
				last = id
			})
			page = page.Below(last)
			return err
		})
		if err != nil {
			log.Fatal(err)
		}
	}
	// Output:
	// added 4
	// 400
	// 300
	// 200
	// 100
}
