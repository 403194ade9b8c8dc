package zset_test

import (
	"fmt"
	"log"
	"os"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/zset"
)

func Example() {
	dir, err := os.MkdirTemp("", "zset")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	db, err := engine.Open(engine.Options{Dir: dir})
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()

	key := []byte("scores")
	keys := [][]byte{key}
	err = db.Update(cf.DefaultNamespace, keys, func(tx *engine.Tx) error {
		added, _, err := zset.Add(tx, key, 0, []zset.Entry{
			{Member: []byte("ann"), Score: 30},
			{Member: []byte("bob"), Score: 10},
			{Member: []byte("cid"), Score: 20},
		})
		fmt.Println("added", added)
		return err
	})
	if err != nil {
		log.Fatal(err)
	}
	err = db.View(cf.DefaultNamespace, keys, func(tx *engine.Tx) error {
		rank, score, _, err := zset.Rank(tx, key, []byte("cid"), true)
		if err != nil {
			return err
		}
		fmt.Println("cid has", score, "and rank", rank)
		best := zset.Query{Start: 0, Stop: 1, Reverse: true}
		return zset.Range(tx, key, &best, func(member []byte, score float64) {
			fmt.Printf("%s %v\n", member, score)
		})
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output:
	// added 3
	// cid has 20 and rank 1
	// ann 30
	// cid 20
}
