package command

import (
	"fmt"
	"strings"

	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/server/glob"
)

// SubscriptionKind is a kind of subscription.
type SubscriptionKind uint8

// The kinds.
const (
	Channel SubscriptionKind = iota
	Pattern
	ShardChannel
)

const (
	subscribeFlags = PubSub | NoScript | Loading | Stale | Solo
	publishFlags   = PubSub | Loading | Stale | Fast
)

var pubsubCommands = []Spec{
	{Name: "publish", Handler: publish, Arity: 3, Flags: publishFlags | MayReplicate},
	{Name: "mpublish", Handler: mpublish, Arity: -3, Flags: publishFlags | MayReplicate},
	{Name: "spublish", Handler: spublish, Arity: 3, Flags: publishFlags | MayReplicate},
	{Name: "subscribe", Handler: subscribe, Arity: -2, Flags: subscribeFlags},
	{Name: "unsubscribe", Handler: unsubscribe, Arity: -1, Flags: subscribeFlags},
	{Name: "psubscribe", Handler: psubscribe, Arity: -2, Flags: subscribeFlags},
	{Name: "punsubscribe", Handler: punsubscribe, Arity: -1, Flags: subscribeFlags},
	{Name: "ssubscribe", Handler: ssubscribe, Arity: -2, Flags: subscribeFlags},
	{Name: "sunsubscribe", Handler: sunsubscribe, Arity: -1, Flags: subscribeFlags},
	{Name: "pubsub", Arity: -2, Sub: []Spec{
		{Name: "channels", Handler: pubsubChannels, Arity: -2, Flags: PubSub | Loading | Stale},
		{Name: "numsub", Handler: pubsubNumSub, Arity: -2, Flags: PubSub | Loading | Stale},
		{Name: "numpat", Handler: pubsubNumPat, Arity: 2, Flags: PubSub | Loading | Stale},
		{Name: "shardchannels", Handler: pubsubShardChannels, Arity: -2, Flags: PubSub | Loading | Stale},
		{Name: "shardnumsub", Handler: pubsubShardNumSub, Arity: -2, Flags: PubSub | Loading | Stale},
		{Name: "help", Handler: help, Arity: 2, Flags: Loading | Stale},
	}},
}

func publish(c *Ctx) error {
	c.Out.Int(int64(c.publish(c.Args[1], c.Args[2], false)))
	return nil
}

func spublish(c *Ctx) error {
	c.Out.Int(int64(c.publish(c.Args[1], c.Args[2], true)))
	return nil
}

func mpublish(c *Ctx) error {
	n := 0
	for _, m := range c.Args[2:] {
		n += c.publish(c.Args[1], m, false)
	}
	c.Out.Int(int64(n))
	return nil
}

func (c *Ctx) publish(channel, message []byte, shard bool) int {
	return c.Sess.Control.Publish(channel, message, shard)
}

func subscribe(c *Ctx) error { return subscribeTo(c, Channel, "subscribe") }

func psubscribe(c *Ctx) error { return subscribeTo(c, Pattern, "psubscribe") }

// ssubscribe is refused in a transaction. Redis allows the older SUBSCRIBE and PSUBSCRIBE there for compatibility.
func ssubscribe(c *Ctx) error {
	if c.NoBlock {
		return errShardInside
	}
	return subscribeTo(c, ShardChannel, "ssubscribe")
}

var errShardInside = engine.NewError("ERR", "SSUBSCRIBE isn't allowed for a DENY BLOCKING client")

func unsubscribe(c *Ctx) error { return unsubscribeFrom(c, Channel, "unsubscribe") }

func punsubscribe(c *Ctx) error { return unsubscribeFrom(c, Pattern, "punsubscribe") }

func sunsubscribe(c *Ctx) error { return unsubscribeFrom(c, ShardChannel, "sunsubscribe") }

// subscribeTo confirms each name with a message of its own.
func subscribeTo(c *Ctx, kind SubscriptionKind, confirm string) error {
	for _, name := range c.Args[1:] {
		c.Sess.Control.Subscribe(kind, name, func(count int) { confirmSubscription(c, confirm, name, count) })
	}
	return nil
}

func unsubscribeFrom(c *Ctx, kind SubscriptionKind, confirm string) error {
	names := c.Args[1:]
	if len(names) == 0 {
		for _, n := range c.Sess.Control.Subscriptions(kind) {
			names = append(names, []byte(n))
		}
		if len(names) == 0 {
			confirmSubscription(c, confirm, nil, c.Sess.Control.Unsubscribe(kind, nil))
		}
	}
	for _, name := range names {
		confirmSubscription(c, confirm, name, c.Sess.Control.Unsubscribe(kind, name))
	}
	return nil
}

func confirmSubscription(c *Ctx, confirm string, name []byte, count int) {
	c.Out.Push(3)
	c.Out.BulkString(confirm)
	if name == nil {
		c.Out.Null()
	} else {
		c.Out.Bulk(name)
	}
	c.Out.Int(int64(count))
}

func pubsubChannels(c *Ctx) error { return listChannels(c, Channel) }

func pubsubShardChannels(c *Ctx) error { return listChannels(c, ShardChannel) }

func listChannels(c *Ctx, kind SubscriptionKind) error {
	var match func([]byte) bool
	switch len(c.Args) {
	case 2:
	case 3:
		match = glob.Compile(c.Args[2]).Match
	default:
		return pubsubSyntax(c)
	}
	names := c.Srv.PubSub.Channels(kind, match)
	c.Out.Array(len(names))
	for _, n := range names {
		c.Out.BulkString(n)
	}
	return nil
}

func pubsubNumSub(c *Ctx) error { return countSubscribers(c, Channel) }

func pubsubShardNumSub(c *Ctx) error { return countSubscribers(c, ShardChannel) }

func countSubscribers(c *Ctx, kind SubscriptionKind) error {
	c.Out.Array(2 * (len(c.Args) - 2))
	for _, name := range c.Args[2:] {
		c.Out.Bulk(name)
		c.Out.Int(int64(c.Srv.PubSub.Subscribers(kind, name)))
	}
	return nil
}

func pubsubNumPat(c *Ctx) error {
	c.Out.Int(int64(c.Srv.PubSub.Topics(Pattern)))
	return nil
}

func pubsubSyntax(c *Ctx) error {
	return engine.NewError("ERR",
		fmt.Sprintf("unknown subcommand or wrong number of arguments for '%s'. Try PUBSUB HELP.", shorten(c.Args[1], echoed)))
}

// AllowedWhileSubscribed reports whether a client that speaks RESP2 and has subscriptions may run a command: in
// RESP2 its messages could not be told from replies.
func AllowedWhileSubscribed(s *Spec) bool {
	switch s.Name {
	case "subscribe", "unsubscribe", "psubscribe", "punsubscribe", "ssubscribe", "sunsubscribe", "ping", "quit", "reset":
		return s.Parent == nil
	}
	return false
}

// Confirms reports whether the reply to a command consists of messages, which are sent whatever the mode of CLIENT
// REPLY.
func Confirms(s *Spec) bool {
	return s.Flags&PubSub != 0 && strings.HasSuffix(s.full, "subscribe")
}

// ErrSubscribed is the error for other commands.
func ErrSubscribed(s *Spec) error {
	return engine.NewError("ERR",
		fmt.Sprintf("Can't execute '%s': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this "+
			"context", s.FullName()))
}
