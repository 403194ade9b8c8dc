package engine_test

import (
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/hash"
	"github.com/basaltdb/basalt/engine/list"
	"github.com/basaltdb/basalt/engine/zset"
)

// An order is entered in three collections by one transaction: all of it is written, or nothing. A checkpoint is a
// database of its own.
func Example() {
	dir, err := os.MkdirTemp("", "engine")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	db, err := engine.Open(engine.Options{Dir: filepath.Join(dir, "db")})
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()

	order, queue, byPrice := []byte("order:7"), []byte("queue"), []byte("prices")
	keys := [][]byte{order, queue, byPrice} // every key that the transaction reads or writes
	enter := func(tx *engine.Tx) error {
		if _, err := hash.Set(tx, order, [][]byte{[]byte("item"), []byte("lamp"), []byte("price"),
			[]byte("35")}); err != nil {
			return err
		}
		if _, err := list.Push(tx, queue, [][]byte{order}, false, false); err != nil {
			return err
		}
		_, _, err := zset.Add(tx, byPrice, 0, []zset.Entry{{Member: order, Score: 35}})
		return err
	}
	if err := db.Update(cf.DefaultNamespace, keys, enter); err != nil {
		log.Fatal(err)
	}

	// What a transaction wrote before its error is dropped.
	err = db.Update(cf.DefaultNamespace, keys, func(tx *engine.Tx) error {
		if err := enter(tx); err != nil {
			return err
		}
		_, err := list.Push(tx, order, [][]byte{[]byte("not a list")}, false, false)
		return err
	})
	fmt.Println(errors.Is(err, engine.ErrWrongType), err)

	err = db.View(cf.DefaultNamespace, keys, func(tx *engine.Tx) error {
		item, _, err := hash.Get(tx, order, []byte("item"))
		if err != nil {
			return err
		}
		fmt.Printf("%s: %s\n", order, item)
		return list.Range(tx, queue, 0, -1, func(n uint64) { fmt.Println(n, "queued") }, func([]byte) {})
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(db.Count(cf.DefaultNamespace))

	backup := filepath.Join(dir, "backup")
	if err := db.Checkpoint(backup); err != nil {
		log.Fatal(err)
	}
	if err := db.FlushAll(); err != nil {
		log.Fatal(err)
	}
	saved, err := engine.Open(engine.Options{Dir: backup})
	if err != nil {
		log.Fatal(err)
	}
	defer saved.Close()
	fmt.Println(db.Count(cf.DefaultNamespace))
	fmt.Println(saved.Count(cf.DefaultNamespace))
	// Output:
	// true Operation against a key holding the wrong kind of value
	// order:7: lamp
	// 1 queued
	// 3 0
	// 0 0
	// 3 0
}
