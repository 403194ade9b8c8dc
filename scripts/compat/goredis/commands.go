package main

import (
	"context"
	"errors"
	"fmt"
	"sort"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// values reads each type of reply that go-redis has a decoder for.
func values(ctx context.Context, c *redis.Client) error {
	_, missing := c.Get(ctx, "missing").Result()
	wrongType := first(c.Set(ctx, "string", "v", 0).Err(), c.HGet(ctx, "string", "f").Err())
	score, noScore := c.ZAddArgsIncr(ctx, "zset", redis.ZAddArgs{Members: []redis.Z{{Score: 1.5, Member: "a"}}}).Result()
	var row struct {
		Name  string  `redis:"name"`
		Count int     `redis:"count"`
		Share float64 `redis:"share"`
	}
	return first(
		same("GET of a missing key", missing, redis.Nil),
		same("HGET of a string", fmt.Sprint(wrongType), "WRONGTYPE Operation against a key holding the wrong kind of value"),
		noScore,
		same("ZADD INCR", score, 1.5),
		c.ZAdd(ctx, "zset", redis.Z{Score: 3, Member: "b"}).Err(),
		same("ZRANGE WITHSCORES", c.ZRangeWithScores(ctx, "zset", 0, -1).Val(),
			[]redis.Z{{Score: 1.5, Member: "a"}, {Score: 3, Member: "b"}}),
		same("ZPOPMIN", c.ZPopMin(ctx, "zset", 1).Val(), []redis.Z{{Score: 1.5, Member: "a"}}),
		c.HSet(ctx, "hash", "name", "n", "count", 7, "share", 0.25).Err(),
		c.HGetAll(ctx, "hash").Scan(&row),
		same("HGETALL into a struct", fmt.Sprint(row), "{n 7 0.25}"),
		same("HMGET", c.HMGet(ctx, "hash", "name", "none").Val(), []any{"n", nil}),
		same("HINCRBYFLOAT", c.HIncrByFloat(ctx, "hash", "share", 0.5).Val(), 0.75),
		c.SAdd(ctx, "set", "x", "y").Err(),
		same("SMEMBERS", c.SMembersMap(ctx, "set").Val(), map[string]struct{}{"x": {}, "y": {}}),
		same("SMISMEMBER", c.SMIsMember(ctx, "set", "x", "z").Val(), []bool{true, false}),
		c.RPush(ctx, "list", 1, 2, 3, 2).Err(),
		same("LPOS COUNT", c.LPosCount(ctx, "list", "2", 0, redis.LPosArgs{}).Val(), []int64{1, 3}),
		same("SET NX", c.SetNX(ctx, "string", "w", 0).Val(), false),
		same("GETDEL", c.GetDel(ctx, "string").Val(), "v"),
		c.Set(ctx, "short", "v", 90*time.Second).Err(),
		same("TTL", c.TTL(ctx, "short").Val().Round(10*time.Second), 90*time.Second),
		same("TTL of a missing key", c.TTL(ctx, "missing").Val(), time.Duration(-2)),
		same("TYPE", c.Type(ctx, "zset").Val(), "zset"),
		c.GeoAdd(ctx, "geo", &redis.GeoLocation{Name: "Palermo", Longitude: 13.361389, Latitude: 38.115556},
			&redis.GeoLocation{Name: "Catania", Longitude: 15.087269, Latitude: 37.502669}).Err(),
		same("GEODIST", c.GeoDist(ctx, "geo", "Palermo", "Catania", "km").Val(), 166.2742),
		same("PFADD", c.PFAdd(ctx, "hll", "a", "b").Val(), int64(1)),
		same("BITCOUNT", c.SetBit(ctx, "bits", 7, 1).Val()+c.BitCount(ctx, "bits", nil).Val(), int64(1)),
	)
}

// pipelines reads 1,000 replies, some of which are errors, of one batch.
func pipelines(ctx context.Context, c *redis.Client) error {
	const n = 1000
	cmds, err := c.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i := range n {
			p.Set(ctx, "k"+strconv.Itoa(i), i, 0)
			p.Get(ctx, "k"+strconv.Itoa(i))
		}
		p.LPush(ctx, "k0", "x")
		p.Get(ctx, "missing")
		return nil
	})
	if err == nil || len(cmds) != 2*n+2 {
		return fmt.Errorf("pipeline: %d replies and error %v, want %d and WRONGTYPE", len(cmds), err, 2*n+2)
	}
	for i := range n {
		if err := same("GET in a pipeline", cmds[2*i+1].(*redis.StringCmd).Val(), strconv.Itoa(i)); err != nil {
			return err
		}
	}
	return same("GET of a missing key in a pipeline", cmds[2*n+1].Err(), redis.Nil)
}

// transactions runs MULTI and EXEC, with an error while queueing and one while executing.
func transactions(ctx context.Context, c *redis.Client) error {
	var incr *redis.IntCmd
	_, err := c.TxPipelined(ctx, func(p redis.Pipeliner) error {
		p.Set(ctx, "n", 41, 0)
		incr = p.Incr(ctx, "n")
		p.Expire(ctx, "n", time.Hour)
		return nil
	})
	if err := first(err, same("INCR in MULTI", incr.Val(), int64(42))); err != nil {
		return err
	}
	cmds, err := c.TxPipelined(ctx, func(p redis.Pipeliner) error {
		p.LPush(ctx, "n", "x")
		p.Incr(ctx, "n")
		return nil
	})
	if err == nil || cmds[1].(*redis.IntCmd).Val() != 43 {
		return fmt.Errorf("a command that fails in EXEC: error %v, the next command %v; want WRONGTYPE and 43", err, cmds[1])
	}
	_, err = c.TxPipelined(ctx, func(p redis.Pipeliner) error {
		p.Incr(ctx, "n")
		p.Do(ctx, "nosuchcommand")
		return nil
	})
	if err == nil {
		return errors.New("a transaction with an unknown command was executed")
	}
	return same("after an aborted transaction", c.Get(ctx, "n").Val(), "43")
}

// watch lets clients increment one counter with optimistic locking and counts what arrived.
func watch(ctx context.Context, c *redis.Client) error {
	const clients, each = 8, 10
	var wg sync.WaitGroup
	errs := make(chan error, clients)
	for range clients {
		wg.Go(func() {
			for range each {
				var err error = redis.TxFailedErr
				for errors.Is(err, redis.TxFailedErr) {
					err = c.Watch(ctx, func(tx *redis.Tx) error {
						n, err := tx.Get(ctx, "counter").Int()
						if err != nil && err != redis.Nil {
							return err
						}
						_, err = tx.TxPipelined(ctx, func(p redis.Pipeliner) error {
							p.Set(ctx, "counter", n+1, 0)
							return nil
						})
						return err
					}, "counter")
				}
				if err != nil {
					errs <- err
					return
				}
			}
		})
	}
	wg.Wait()
	select {
	case err := <-errs:
		return err
	default:
	}
	return same("a counter incremented with WATCH", c.Get(ctx, "counter").Val(), strconv.Itoa(clients*each))
}

// blockingPops waits for what another client pushes.
func blockingPops(ctx context.Context, c *redis.Client) error {
	_, err := c.BLPop(ctx, time.Second, "none").Result()
	if err := same("BLPOP that times out", err, redis.Nil); err != nil {
		return err
	}
	got := make(chan string, 3)
	go func() { got <- fmt.Sprint(c.BLPop(ctx, 10*time.Second, "none", "list").Result()) }()
	go func() { got <- fmt.Sprint(c.BZPopMin(ctx, 10*time.Second, "zset").Result()) }()
	go func() { got <- fmt.Sprint(c.BLMove(ctx, "from", "to", "LEFT", "RIGHT", 10*time.Second).Result()) }()
	if err := blocked(ctx, c, 3); err != nil {
		return err
	}
	if err := first(c.RPush(ctx, "list", "a").Err(), c.ZAdd(ctx, "zset", redis.Z{Score: 2, Member: "m"}).Err(),
		c.RPush(ctx, "from", "moved").Err()); err != nil {
		return err
	}
	all := []string{<-got, <-got, <-got}
	sort.Strings(all)
	key, elements, err := c.LMPop(ctx, "left", 10, "none", "to").Result()
	return first(
		same("what blocked clients got", all, []string{"&{{2 m} zset} <nil>", "[list a] <nil>", "moved<nil>"}),
		err, same("LMPOP", fmt.Sprint(key, elements), "to[moved]"))
}

// iterators goes through the keys of a database and the elements of collections.
func iterators(ctx context.Context, c *redis.Client) error {
	const n = 1500
	_, err := c.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i := range n {
			s := strconv.Itoa(i)
			p.Set(ctx, "iter:"+s, s, 0)
			p.HSet(ctx, "hash", "f"+s, s)
			p.SAdd(ctx, "set", "m"+s)
			p.ZAdd(ctx, "zset", redis.Z{Score: float64(i), Member: "m" + s})
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, it := range []struct {
		name string
		it   *redis.ScanIterator
		step int // replies for each element: HSCAN and ZSCAN give two
	}{
		{"SCAN", c.Scan(ctx, 0, "iter:*", 100).Iterator(), 1},
		{"SCAN TYPE", c.ScanType(ctx, 0, "*", 100, "string").Iterator(), 1},
		{"HSCAN", c.HScan(ctx, "hash", 0, "f*", 100).Iterator(), 2},
		{"SSCAN", c.SScan(ctx, "set", 0, "m*", 100).Iterator(), 1},
		{"ZSCAN", c.ZScan(ctx, "zset", 0, "m*", 100).Iterator(), 2},
	} {
		seen := map[string]bool{}
		for it.it.Next(ctx) {
			seen[it.it.Val()] = true
			for range it.step - 1 {
				it.it.Next(ctx)
			}
		}
		if err := first(it.it.Err(), same(it.name, len(seen), n)); err != nil {
			return err
		}
	}
	return nil
}

// administration reads what clients and tools ask about a server.
func administration(ctx context.Context, c *redis.Client) error {
	commands, err := c.Command(ctx).Result()
	if err != nil {
		return err
	}
	get := commands["get"]
	if get == nil || get.FirstKeyPos != 1 || !get.ReadOnly {
		return fmt.Errorf("COMMAND: GET is %+v", get)
	}
	info, err := c.ClientInfo(ctx).Result()
	if err != nil {
		return err
	}
	maxClients, err := c.ConfigGet(ctx, "maxclients").Result()
	if err != nil || maxClients["maxclients"] == "" {
		return fmt.Errorf("CONFIG GET maxclients: %v, %v", maxClients, err)
	}
	keys, err := c.CommandGetKeys(ctx, "EVAL", "x", 2, "a", "b", "c").Result()
	// CLIENT SETINFO is of Redis 7.2
	noSetInfo := strings.HasPrefix(field(c.Info(ctx, "server").Val(), "redis_version"), "7.0.")
	now := c.Time(ctx).Val()
	if d := time.Since(now); d < -time.Minute || d > time.Minute {
		return fmt.Errorf("TIME: %v", now)
	}
	return first(err,
		same("COMMAND GETKEYS", keys, []string{"a", "b"}),
		same("CLIENT INFO: name", info.Name, "compat"),
		same("CLIENT INFO: library", info.LibName != "" && info.LibVer != "" || noSetInfo, true),
		same("DBSIZE", c.DBSize(ctx).Val(), int64(0)),
		c.Info(ctx, "server", "clients", "memory").Err(),
		c.SlowLogGet(ctx, 10).Err(),
		same("DUMP and RESTORE", first(c.Set(ctx, "k", "v", 0).Err(),
			c.Restore(ctx, "copy", 0, c.Dump(ctx, "k").Val()).Err()), nil),
		same("the restored key", c.Get(ctx, "copy").Val(), "v"),
	)
}

// blocked waits until n clients are blocked.
func blocked(ctx context.Context, c *redis.Client, n int) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		info, err := c.Info(ctx, "clients").Result()
		if err != nil {
			return err
		}
		if field(info, "blocked_clients") == strconv.Itoa(n) {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%d clients are to be blocked; INFO says:\n%s", n, info)
		case <-tick.C:
		}
	}
}
