package keys_test

import (
	"fmt"
	"log"
	"os"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/keys"
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

	from, to := []byte("draft"), []byte("final")
	err = db.Update(cf.DefaultNamespace, [][]byte{from, to}, func(tx *engine.Tx) error {
		rec, err := tx.Load(from, cf.TypeHash)
		if err != nil {
			return err
		}
		tx.Put(cf.Default, tx.Subkey(&rec, []byte("title")), []byte("Basalt"))
		rec.Size++
		tx.Save(&rec, nil)
		_, err = keys.Rename(tx, from, to, false)
		return err
	})
	if err != nil {
		log.Fatal(err)
	}
	err = db.View(cf.DefaultNamespace, nil, func(tx *engine.Tx) error {
		return keys.Walk(tx, keys.Range{}, func(e *keys.Entry) bool {
			fmt.Printf("%s is a %s\n", e.Key, e.Meta.Type)
			return true
		})
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output:
	// final is a hash
}
