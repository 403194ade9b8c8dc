package main

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/basaltdb/basalt/scripts/internal/redisclient"
)

// Key n is of kind n % kinds: 0 to 5 are strings, 6 is a hash, 7 a list, 8 a set
// and 9 a sorted set. A collection has about members members at most. It begins with
// half of them, which is what the operations keep in the long run: data that grows
// would look like a leak.
const (
	kinds   = 10
	members = 16
)

// operation appends a command to the connection's pipeline: for key n, or for a key that rng chooses.
type operation func(c *redisclient.Conn, n int, rng *rand.Rand, value string) error

// load creates key n.
func load(c *redisclient.Conn, n int, _ *rand.Rand, value string) error {
	command := [...]string{6: "HSET", 7: "RPUSH", 8: "SADD", 9: "ZADD"}[n%kinds]
	if command == "" {
		return c.Send("SET", name(n), value)
	}
	args := []string{command, name(n)}
	for i := range members / 2 {
		member := strconv.Itoa(i)
		args = append(args, map[string][]string{
			"HSET": {"f" + member, value}, "RPUSH": {value}, "SADD": {"m" + member}, "ZADD": {member, "m" + member},
		}[command]...)
	}
	return c.Send(args...)
}

// mix returns an operation that reads or writes a random key below keys, and ignores n.
func mix(keys int) operation {
	return func(c *redisclient.Conn, _ int, rng *rand.Rand, value string) error {
		return c.Send(mixed(rng.IntN(keys), rng, value)...)
	}
}

// mixed returns a random command for key n.
func mixed(n int, rng *rand.Rand, value string) []string {
	key, draw := name(n), rng.IntN(10)
	member := strconv.Itoa(rng.IntN(members))
	switch n % kinds {
	case 6:
		return [][]string{
			{"HSET", key, "f" + member, value}, {"HGET", key, "f" + member}, {"HGETALL", key},
			{"HDEL", key, "f" + member}, {"HINCRBY", key, "n", "1"},
		}[draw/2]
	case 7:
		// Pushes and pops are equally frequent; LTRIM bounds the list when pushes are ahead.
		return [][]string{
			{"RPUSH", key, value}, {"LPUSH", key, value}, {"LPOP", key}, {"RPOP", key},
			{"LRANGE", key, "0", "-1"}, {"LTRIM", key, "0", strconv.Itoa(members - 1)},
			{"LLEN", key}, {"LINDEX", key, "0"}, {"RPUSH", key, value}, {"LPOP", key},
		}[draw]
	case 8:
		return [][]string{
			{"SADD", key, "m" + member}, {"SREM", key, "m" + member}, {"SISMEMBER", key, "m" + member},
			{"SMEMBERS", key}, {"SCARD", key},
		}[draw/2]
	case 9:
		return [][]string{
			{"ZADD", key, strconv.Itoa(rng.IntN(1000)), "m" + member}, {"ZREM", key, "m" + member},
			{"ZRANGE", key, "0", "-1", "WITHSCORES"}, {"ZINCRBY", key, "1", "m" + member}, {"ZSCORE", key, "m" + member},
		}[draw/2]
	default:
		return [][]string{
			{"SET", key, value}, {"GET", key}, {"SET", key, value}, {"GET", key}, {"GET", key},
			{"STRLEN", key}, {"SET", key, value, "EX", "1000000"}, {"GETRANGE", key, "0", "9"}, {"DEL", key}, {"SET",
				key, value},
		}[draw]
	}
}

func name(n int) string { return fmt.Sprintf("key:%09d", n) }

// phase runs n operations on all connections together, and counts the replies in
// done, which may be nil. Connection i of k runs the operations i, i+k, i+2k, ...
func phase(o options, addr string, op operation, n int, done *atomic.Int64) error {
	if done == nil {
		done = new(atomic.Int64)
	}
	errs := make(chan error, o.connections)
	var wg sync.WaitGroup
	for i := range o.connections {
		wg.Go(func() {
			if err := runConnection(o, addr, op, i, n, done); err != nil {
				errs <- err
			}
		})
	}
	wg.Wait()
	close(errs)
	return <-errs
}

// runConnection runs the operations first, first+k, first+2k, ... below n on one of k connections.
func runConnection(o options, addr string, op operation, first, n int, done *atomic.Int64) error {
	c, err := redisclient.Dial(addr, time.Minute)
	if err != nil {
		return err
	}
	defer c.Close()
	seed := o.seed
	if seed == 0 {
		seed = rand.Uint64()
	}
	rng := rand.New(rand.NewPCG(seed, uint64(first)))
	value := strings.Repeat("v", o.valueSize)
	for i := first; i < n; {
		for ; i < n && c.Pending() < o.depth; i += o.connections {
			if err := op(c, i, rng, value); err != nil {
				return err
			}
		}
		c.SetDeadline(time.Now().Add(time.Minute))
		if err := c.Flush(); err != nil {
			return err
		}
		sent := c.Pending()
		if err := c.Drain(); err != nil {
			return err
		}
		done.Add(int64(sent))
	}
	return nil
}

// families is the number of column families that fill write buffers: metadata,
// default, zset_score and stream. The other families have few records.
const families = 4

// configuredBudget returns the max total size of block cache, row cache, write
// buffers and derived state in bytes, by the server's configuration.
func configuredBudget(c *redisclient.Conn) (int, error) {
	get := func(name string) (int, error) {
		l, err := c.Strings("CONFIG", "GET", name)
		if err != nil {
			return 0, err
		}
		if len(l) != 2 {
			return 0, fmt.Errorf("CONFIG GET %s: the server has no such setting", name)
		}
		return strconv.Atoi(l[1])
	}
	values := map[string]int{}
	for _, name := range []string{
		"rocksdb.block_cache_size", "rocksdb.row_cache_size", "rocksdb.write_buffer_size", "rocksdb.max_write_buffer_number",
		"derived-state-size",
	} {
		v, err := get(name)
		if err != nil {
			return 0, err
		}
		if v == 0 && name != "rocksdb.row_cache_size" {
			return 0, fmt.Errorf("%s is 0: the server chooses the size", name)
		}
		values[name] = v
	}
	return mib * (values["rocksdb.block_cache_size"] + values["rocksdb.row_cache_size"] +
		values["derived-state-size"] +
		families*values["rocksdb.write_buffer_size"]*values["rocksdb.max_write_buffer_number"]), nil
}
