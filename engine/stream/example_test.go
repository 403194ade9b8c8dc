package stream_test

import (
	"fmt"
	"log"
	"os"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/stream"
)

func Example() {
	dir, err := os.MkdirTemp("", "stream")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	db, err := engine.Open(engine.Options{Dir: dir})
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()

	orders, billing := []byte("orders"), []byte("billing")
	keys := [][]byte{orders}
	err = db.Update(cf.DefaultNamespace, keys, func(tx *engine.Tx) error {
		for i, item := range []string{"tea", "cups", "kettle"} {
			o := stream.AddOptions{NewID: stream.NewID{ID: stream.ID{Ms: uint64(1000 + i)}}}
			if _, _, err := stream.Add(tx, orders, [][]byte{[]byte("item"), []byte(item)}, &o); err != nil {
				return err
			}
		}
		return stream.CreateGroup(tx, orders, billing, stream.GroupStart{EntriesRead: stream.UnknownReads}, false)
	})
	if err != nil {
		log.Fatal(err)
	}

	err = db.Update(cf.DefaultNamespace, keys, func(tx *engine.Tx) error {
		group, err := stream.OpenGroup(tx, orders, billing)
		if err != nil {
			return err
		}
		var done []stream.ID
		o := stream.ReadOptions{Count: 2}
		begin := func() { fmt.Println("new:") }
		_, err = group.Read([]byte("ann"), &o, begin, func(e *stream.Entry, _ stream.Delivered) bool {
			fmt.Printf("%s", stream.AppendID(nil, e.ID))
			for s, ok := e.Next(); ok; s, ok = e.Next() {
				fmt.Printf(" %s", s)
			}
			fmt.Println()
			done = append(done, e.ID)
			return true
		})
		if err != nil {
			return err
		}
		_, err = stream.Ack(tx, orders, billing, done[:1])
		return err
	})
	if err != nil {
		log.Fatal(err)
	}

	err = db.View(cf.DefaultNamespace, keys, func(tx *engine.Tx) error {
		groups, err := stream.Groups(tx, orders)
		if err != nil {
			return err
		}
		for _, g := range groups {
			fmt.Printf("%s: %d pending, %d to come\n", g.Name, g.Pending, g.Lag)
		}
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output:
	// new:
	// 1000-0 item tea
	// 1001-0 item cups
	// billing: 1 pending, 1 to come
}
