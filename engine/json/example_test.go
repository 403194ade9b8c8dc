package json_test

import (
	"fmt"
	"log"
	"os"
	"strings"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/json"
)

func Example() {
	dir, err := os.MkdirTemp("", "json")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	db, err := engine.Open(engine.Options{Dir: dir})
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()

	key := []byte("shop")
	prices, err := json.ParsePath("$.books[?(@.price < 10)].price")
	if err != nil {
		log.Fatal(err)
	}
	err = db.Update(cf.DefaultNamespace, [][]byte{key}, func(tx *engine.Tx) error {
		text := []byte(`{"books": [{"title": "Moby Dick", "price": 8.99}, {"title": "Ulysses", "price": 12}]}`)
		if _, err := json.Set(tx, key, json.Root(), text, json.Always, json.DefaultOptions); err != nil {
			return err
		}
		_, err := json.Calculate(tx, key, prices, json.Add, []byte("1"), json.DefaultOptions)
		return err
	})
	if err != nil {
		log.Fatal(err)
	}
	err = db.View(cf.DefaultNamespace, [][]byte{key}, func(tx *engine.Tx) error {
		doc, err := json.Open(tx, key, json.NewBudget(0))
		if err != nil {
			return err
		}
		values, err := doc.Select(prices)
		if err != nil {
			return err
		}
		for _, v := range values {
			fmt.Printf("%s: %s\n", v.TypeName(), json.Append(nil, v))
		}
		text, err := doc.AppendText(nil)
		fmt.Printf("%s\n", text)
		return err
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output:
	// number: 9.99
	// {"books":[{"title":"Moby Dick","price":9.99},{"title":"Ulysses","price":12}]}
}

func ExampleParsePath() {
	for _, s := range []string{"$.a[0]", ".a[0]", "$..b"} {
		p, err := json.ParsePath(s)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(p, p.Legacy())
	}
	_, err := json.ParsePath("$.a[")
	text, _, _ := strings.Cut(err.Error(), ", expected")
	fmt.Println(text)
	// Output:
	// $.a[0] false
	// $.a[0] true
	// $..b false
	// Error occurred on position 4, "$.a[ <<<<----"
}
