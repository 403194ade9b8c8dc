package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// pubSub subscribes to channels, patterns and shard channels and reads what is published.
func pubSub(ctx context.Context, c *redis.Client) error {
	sub := c.Subscribe(ctx, "news")
	defer sub.Close()
	if err := first(sub.PSubscribe(ctx, "p.*"), sub.Ping(ctx, "here")); err != nil {
		return err
	}
	want := []string{"subscribe: news", "psubscribe: p.*", "Pong<here>"}
	for _, w := range want {
		m, err := sub.ReceiveTimeout(ctx, 5*time.Second)
		if err := first(err, same("a reply of SUBSCRIBE", fmt.Sprint(m), w)); err != nil {
			return err
		}
	}
	const n = 200
	for i := range n {
		if err := same("PUBLISH", c.Publish(ctx, "news", i).Val(), int64(1)); err != nil {
			return err
		}
	}
	if err := same("PUBLISH to a pattern", c.Publish(ctx, "p.x", "last").Val(), int64(1)); err != nil {
		return err
	}
	messages := sub.Channel()
	for i := range n {
		if err := next(messages, fmt.Sprintf("Message<news: %d>", i)); err != nil {
			return err
		}
	}
	if err := next(messages, "Message<p.x: last>"); err != nil {
		return err
	}
	shard := c.SSubscribe(ctx, "shard")
	defer shard.Close()
	if _, err := shard.Receive(ctx); err != nil {
		return err
	}
	return first(
		same("SPUBLISH", c.SPublish(ctx, "shard", "s").Val(), int64(1)),
		next(shard.Channel(), "Message<shard: s>"),
		same("PUBSUB CHANNELS", c.PubSubChannels(ctx, "*").Val(), []string{"news"}),
		same("PUBSUB NUMSUB", c.PubSubNumSub(ctx, "news", "none").Val(), map[string]int64{"news": 1, "none": 0}),
		same("PUBSUB NUMPAT", c.PubSubNumPat(ctx).Val(), int64(1)),
	)
}

// next reads one message of a subscription.
func next(messages <-chan *redis.Message, want string) error {
	select {
	case m := <-messages:
		return same("a message", m.String(), want)
	case <-time.After(10 * time.Second):
		return fmt.Errorf("the message %q did not arrive", want)
	}
}

// streams adds entries, reads ranges of them and waits for new ones.
func streams(ctx context.Context, c *redis.Client) error {
	for _, id := range []string{"1-1", "1-2", "2-0"} {
		err := c.XAdd(ctx, &redis.XAddArgs{Stream: "s", ID: id, Values: []any{"id", id}}).Err()
		if err != nil {
			return err
		}
	}
	entry := func(id string) redis.XMessage { return redis.XMessage{ID: id, Values: map[string]any{"id": id}} }
	type result struct {
		streams []redis.XStream
		err     error
	}
	read := make(chan result, 1)
	go func() {
		s, err := c.XRead(ctx, &redis.XReadArgs{Streams: []string{"s", "$"}, Block: 10 * time.Second}).Result()
		read <- result{s, err}
	}()
	if err := first(blocked(ctx, c, 1),
		c.XAdd(ctx, &redis.XAddArgs{Stream: "s", ID: "3-0", Values: []any{"id", "3-0"}}).Err()); err != nil {
		return err
	}
	got := <-read
	_, timeout := c.XRead(ctx, &redis.XReadArgs{Streams: []string{"s", "$"}, Block: 20 * time.Millisecond}).Result()
	info, err := c.XInfoStreamFull(ctx, "s", 0).Result()
	return first(
		got.err, same("XREAD BLOCK", got.streams, []redis.XStream{{Stream: "s", Messages: []redis.XMessage{entry("3-0")}}}),
		same("XREAD BLOCK that times out", timeout, redis.Nil),
		same("XRANGE", c.XRange(ctx, "s", "(1-1", "2").Val(), []redis.XMessage{entry("1-2"), entry("2-0")}),
		same("XREVRANGE", c.XRevRangeN(ctx, "s", "+", "-", 1).Val(), []redis.XMessage{entry("3-0")}),
		err, same("XINFO STREAM FULL", fmt.Sprintf("%d %s %d", info.Length, info.LastGeneratedID, len(info.Entries)),
			"4 3-0 4"),
		same("XTRIM", c.XTrimMaxLen(ctx, "s", 2).Val(), int64(2)),
		same("XDEL", c.XDel(ctx, "s", "2-0").Val(), int64(1)),
		same("XLEN", c.XLen(ctx, "s").Val(), int64(1)),
	)
}

// groups shares a stream among the consumers of a group, one of which leaves its entries to another.
func groups(ctx context.Context, c *redis.Client) error {
	const n = 20
	if err := c.XGroupCreateMkStream(ctx, "s", "g", "0").Err(); err != nil {
		return err
	}
	again := c.XGroupCreate(ctx, "s", "g", "0").Err()
	if again == nil || !strings.HasPrefix(again.Error(), "BUSYGROUP ") {
		return fmt.Errorf("XGROUP CREATE again: %v, want BUSYGROUP", again)
	}
	for i := range n {
		if err := c.XAdd(ctx, &redis.XAddArgs{Stream: "s", Values: map[string]any{"i": i}}).Err(); err != nil {
			return err
		}
	}
	seen := map[string]bool{}
	take := func(consumer string, count int64) ([]redis.XMessage, error) {
		s, err := c.XReadGroup(ctx, &redis.XReadGroupArgs{Group: "g", Consumer: consumer, Streams: []string{"s", ">"},
			Count: count, Block: time.Second}).Result()
		if err != nil {
			return nil, err
		}
		return s[0].Messages, nil
	}
	good, err := take("good", n/2)
	if err != nil {
		return err
	}
	for _, m := range good {
		seen[m.ID] = true
		if err := same("XACK", c.XAck(ctx, "s", "g", m.ID).Val(), int64(1)); err != nil {
			return err
		}
	}
	left, err := take("gone", n)
	if err != nil {
		return err
	}
	pending, err := c.XPendingExt(ctx, &redis.XPendingExtArgs{Stream: "s", Group: "g", Start: "-", End: "+",
		Count: n}).Result()
	if err := first(err, same("XPENDING", len(pending), n/2),
		same("XPENDING: consumer", pending[0].Consumer, "gone"),
		same("XPENDING summary", c.XPending(ctx, "s", "g").Val().Consumers, map[string]int64{"gone": n / 2})); err != nil {
		return err
	}
	claimed, _, err := c.XAutoClaim(ctx, &redis.XAutoClaimArgs{Stream: "s", Group: "g", Consumer: "good", Start: "0",
		Count: n}).Result()
	if err != nil {
		return err
	}
	for _, m := range claimed {
		seen[m.ID] = true
	}
	infos, err := c.XInfoGroups(ctx, "s").Result()
	if err := first(err, same("entries left by a consumer", len(left), n/2), same("XAUTOCLAIM", len(claimed), n/2),
		same("entries that were seen", len(seen), n),
		same("XINFO GROUPS", fmt.Sprintf("%+v", infos[0]),
			fmt.Sprintf("{Name:g Consumers:2 Pending:10 LastDeliveredID:%s EntriesRead:20 Lag:0}",
				left[len(left)-1].ID))); err != nil {
		return err
	}
	_, err = take("good", 1)
	return same("XREADGROUP with nothing new", err, redis.Nil)
}

// scripts runs Lua: by text, by digest, and with replies of each kind.
func scripts(ctx context.Context, c *redis.Client) error {
	incr := redis.NewScript(`
		local n = redis.call("INCRBY", KEYS[1], ARGV[1])
		redis.call("HSET", KEYS[2], "last", n)
		return {n, redis.call("HGETALL", KEYS[2]), redis.status_reply("FINE"), cjson.encode({a = 1}), false, 3.9}`)
	c.ScriptFlush(ctx)
	want := []any{int64(5), []any{"last", "5"}, "FINE", `{"a":1}`, nil, int64(3)}
	got, err := incr.Run(ctx, c, []string{"n", "h"}, 5).Result() // EVALSHA, then EVAL
	if err := first(err, same("EVAL", got, want)); err != nil {
		return err
	}
	if err := incr.EvalSha(ctx, c, []string{"n", "h"}, 5).Err(); err != nil {
		return fmt.Errorf("EVALSHA: %w", err)
	}
	failing := c.Eval(ctx, `return redis.error_reply("MINE it failed")`, nil).Err()
	if failing == nil {
		return errors.New("a script that returns an error did not fail")
	}
	_, unknown := c.EvalSha(ctx, strings.Repeat("0", 40), nil).Result()
	readOnly := c.EvalRO(ctx, `return redis.call("SET", KEYS[1], "v")`, []string{"k"}).Err()
	return first(
		same("error_reply", failing.Error(), "MINE it failed"),
		same("EVALSHA of an unknown script", strings.HasPrefix(fmt.Sprint(unknown), "NOSCRIPT "), true),
		same("a write in EVAL_RO", readOnly != nil, true),
		same("SCRIPT EXISTS", c.ScriptExists(ctx, incr.Hash(), strings.Repeat("0", 40)).Val(), []bool{true, false}),
		same("a counter of a script", c.Get(ctx, "n").Val(), "10"),
	)
}

func functions(ctx context.Context, c *redis.Client) error {
	const library = "#!lua name=compat\n" +
		"redis.register_function('twice', function(keys, args) return redis.call('INCRBY', keys[1], args[1] * 2) end)\n" +
		"redis.register_function{function_name='look', callback=function(keys) return redis.call('GET', keys[1]) end, " +
		"flags={'no-writes'}}\n"
	name, err := c.FunctionLoadReplace(ctx, library).Result()
	if err := first(err, same("FUNCTION LOAD", name, "compat"),
		same("FCALL", c.FCall(ctx, "twice", []string{"n"}, 4).Val(), int64(8)),
		same("FCALL_RO", c.FCallRO(ctx, "look", []string{"n"}).Val(), "8")); err != nil {
		return err
	}
	list, err := c.FunctionList(ctx, redis.FunctionListQuery{LibraryNamePattern: "comp*"}).Result()
	if err := first(err, same("FUNCTION LIST", len(list), 1), same("its functions", len(list[0].Functions),
		2)); err != nil {
		return err
	}
	return c.FunctionDelete(ctx, "compat").Err()
}

// field returns the value of a field of INFO's reply, or "".
func field(info, name string) string {
	for line := range strings.Lines(info) {
		if k, v, ok := strings.Cut(strings.TrimSpace(line), ":"); ok && k == name {
			return v
		}
	}
	return ""
}
