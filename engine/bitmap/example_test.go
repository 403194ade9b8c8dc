package bitmap_test

import (
	"fmt"
	"log"
	"os"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/bitmap"
)

func Example() {
	dir, err := os.MkdirTemp("", "bitmap")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	db, err := engine.Open(engine.Options{Dir: dir})
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()

	mon, tue, both := []byte("seen:mon"), []byte("seen:tue"), []byte("seen:both")
	err = db.Update(cf.DefaultNamespace, [][]byte{mon, tue, both}, func(tx *engine.Tx) error {
		for _, visit := range []struct {
			day  []byte
			user uint64
		}{{mon, 7}, {mon, 4_000_000_000}, {tue, 4_000_000_000}, {tue, 12}} {
			if _, err := bitmap.SetBit(tx, visit.day, visit.user, true, 0); err != nil {
				return err
			}
		}
		_, err := bitmap.Combine(tx, bitmap.And, both, [][]byte{mon, tue})
		return err
	})
	if err != nil {
		log.Fatal(err)
	}
	err = db.View(cf.DefaultNamespace, [][]byte{both}, func(tx *engine.Tx) error {
		n, err := bitmap.Count(tx, both, bitmap.All)
		if err != nil {
			return err
		}
		user, err := bitmap.Pos(tx, both, true, bitmap.All)
		fmt.Println(n, "came on both days, the first of them is", user)
		return err
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output: 1 came on both days, the first of them is 4000000000
}
