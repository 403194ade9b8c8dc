// Command goredis runs go-redis, the usual Redis client of Go programs, against a server: what an application does with
// it, in RESP2 and RESP3. It exits with status 1 and says what was wrong at the first check that fails.
//
// usage: goredis HOST:PORT
//
// It deletes what is in the server's database.
package main

import (
	"context"
	"fmt"
	"os"
	"reflect"
	"time"

	"github.com/redis/go-redis/v9"
)

// checks are run in this order, each on an empty database.
var checks = []struct {
	name string
	run  func(context.Context, *redis.Client) error
}{
	{"values", values},
	{"pipelines", pipelines},
	{"transactions", transactions},
	{"watch", watch},
	{"pub/sub", pubSub},
	{"streams", streams},
	{"consumer groups", groups},
	{"blocking pops", blockingPops},
	{"iterators", iterators},
	{"administration", administration},
	{"scripts", scripts},
	{"functions", functions},
}

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: goredis HOST:PORT")
		os.Exit(2)
	}
	failed := false
	for _, protocol := range []int{2, 3} {
		for _, c := range checks {
			if err := check(protocol, c.run); err != nil {
				fmt.Fprintf(os.Stderr, "go-redis, RESP%d, %s: %v\n", protocol, c.name, err)
				failed = true
			}
		}
	}
	if failed {
		os.Exit(1)
	}
	fmt.Printf("go-redis: %d checks in RESP2 and RESP3\n", len(checks))
}

// check runs one check on an empty database with its own client.
func check(protocol int, run func(context.Context, *redis.Client) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	client := redis.NewClient(&redis.Options{
		Addr: os.Args[1], Protocol: protocol, ClientName: "compat", MaxRetries: -1,
		ReadTimeout: 20 * time.Second,
	})
	defer client.Close()
	if err := client.FlushDB(ctx).Err(); err != nil {
		return err
	}
	return run(ctx, client)
}

// same returns an error unless got is deeply equal to want.
func same(what string, got, want any) error {
	if !reflect.DeepEqual(got, want) {
		return fmt.Errorf("%s: got %#v, want %#v", what, got, want)
	}
	return nil
}

// first returns the first error that is not nil.
func first(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
