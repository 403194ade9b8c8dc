// Command toredis copies the data of a basalt (or a Kvrocks) into a Redis and keeps that up to date: what kvrocks2redis
// does, as an example of how to use basalt's replication.
//
//	toredis -from 127.0.0.1:6666 [-from-auth PASSWORD] -to 127.0.0.1:6379 [-to-auth PASSWORD]
//
// It connects as a replica and learns from the write batches which keys change. A key that has changed is read whole,
// as it is then, and put into the Redis in the place of the old one: DUMP and RESTORE. So every type that Redis has
// takes the same way, what is done twice does no harm, and the Redis becomes equal to the source as soon as it has
// caught up. While it has not, keys may be newer than others; keys of one group of batches change at once.
//
// How far it is, is in the Redis, as a string with the name of -position: "<sequence number> <replication id>". When
// toredis is started again it goes on there. Without it, or when the source's log does not reach back so far, it copies
// all keys first, and deletes what the source does not have.
//
// Database n of the source (redis-databases) becomes database n. Other namespaces, and types that Redis lacks, are
// left out with a warning, and so are messages, scripts and functions. A large collection is copied whole whenever
// something in it changes.
package main

import (
	"context"
	"flag"
	"log"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	var c copier
	flag.StringVar(&c.from.addr, "from", "127.0.0.1:6666", "address of the basalt or Kvrocks")
	flag.StringVar(&c.from.password, "from-auth", "", "its requirepass")
	flag.StringVar(&c.to.addr, "to", "127.0.0.1:6379", "address of the Redis")
	flag.StringVar(&c.to.password, "to-auth", "", "its requirepass")
	flag.StringVar(&c.position, "position", "toredis:position", "key of the Redis that says how far the copy is")
	flag.IntVar(&c.databases, "databases", 16, "number of databases to copy at the beginning")
	flag.BoolVar(&c.slots, "slots", false, "the source has cluster-enabled yes")
	flag.Parse()
	c.log = log.New(os.Stderr, "", log.LstdFlags)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	for {
		err := c.run(ctx)
		if ctx.Err() != nil {
			return
		}
		c.log.Print(err, "; it goes on in a second")
		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Second):
		}
	}
}
