package command

import (
	"strings"

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
	{Name: "publish", Handler: publish(false), Arity: 3, Flags: publishFlags | MayReplicate},
	{Name: "mpublish", Handler: publish(false), Arity: -3, Flags: publishFlags | MayReplicate},
	{Name: "spublish", Handler: publish(true), Arity: 3, Flags: publishFlags | MayReplicate},
	{Name: "subscribe", Handler: subscribe(Channel), Arity: -2, Flags: subscribeFlags},
	{Name: "unsubscribe", Handler: unsubscribe(Channel), Arity: -1, Flags: subscribeFlags},
	{Name: "psubscribe", Handler: subscribe(Pattern), Arity: -2, Flags: subscribeFlags},
	{Name: "punsubscribe", Handler: unsubscribe(Pattern), Arity: -1, Flags: subscribeFlags},
	{Name: "ssubscribe", Handler: subscribe(ShardChannel), Arity: -2, Flags: subscribeFlags},
	{Name: "sunsubscribe", Handler: unsubscribe(ShardChannel), Arity: -1, Flags: subscribeFlags},
	{Name: "pubsub", Arity: -2, Sub: []Spec{
		{Name: "channels", Handler: pubsubChannels(Channel), Arity: -2, Flags: PubSub | Loading | Stale},
		{Name: "numsub", Handler: pubsubNumSub(Channel), Arity: -2, Flags: PubSub | Loading | Stale},
		{Name: "numpat", Handler: pubsubNumPat, Arity: 2, Flags: PubSub | Loading | Stale},
		{Name: "shardchannels", Handler: pubsubChannels(ShardChannel), Arity: -2, Flags: PubSub | Loading | Stale},
		{Name: "shardnumsub", Handler: pubsubNumSub(ShardChannel), Arity: -2, Flags: PubSub | Loading | Stale},
		{Name: "help", Handler: help, Arity: 2, Flags: Loading | Stale},
	}},
}

// publish makes the handler of PUBLISH, SPUBLISH or Kvrocks's MPUBLISH channel message ...
func publish(shard bool) Handler {
	return func(c *Ctx) error {
		n := 0
		for _, message := range c.Args[2:] {
			n += c.Sess.Control.Publish(c.Args[1], message, shard)
		}
		return replyInt(c, n, nil)
	}
}

// subscribe makes the handler of a command that confirms each name with a message of its own. SSUBSCRIBE is refused in
// a transaction; Redis allows the older SUBSCRIBE and PSUBSCRIBE there for compatibility.
func subscribe(kind SubscriptionKind) Handler {
	return func(c *Ctx) error {
		if kind == ShardChannel && c.NoBlock {
			return errorf("SSUBSCRIBE isn't allowed for a DENY BLOCKING client")
		}
		for _, name := range c.Args[1:] {
			c.Sess.Control.Subscribe(kind, name, func(count int) { confirmSubscription(c, name, count) })
		}
		return nil
	}
}

func unsubscribe(kind SubscriptionKind) Handler {
	return func(c *Ctx) error {
		names := c.Args[1:]
		if len(names) == 0 {
			for _, n := range c.Sess.Control.Subscriptions(kind) {
				names = append(names, []byte(n))
			}
			if len(names) == 0 {
				confirmSubscription(c, nil, c.Sess.Control.Unsubscribe(kind, nil))
			}
		}
		for _, name := range names {
			confirmSubscription(c, name, c.Sess.Control.Unsubscribe(kind, name))
		}
		return nil
	}
}

func confirmSubscription(c *Ctx, name []byte, count int) {
	c.Out.Push(3)
	c.Out.BulkString(c.Spec.Name)
	bulkOrNull(c, name, name != nil)
	c.Out.Int(int64(count))
}

func pubsubChannels(kind SubscriptionKind) Handler {
	return func(c *Ctx) error {
		var match func([]byte) bool
		switch len(c.Args) {
		case 2:
		case 3:
			match = glob.Compile(c.Args[2]).Match
		default:
			return wrongSubcommand(c)
		}
		writeBulks(c.Out, c.Srv.PubSub.Channels(kind, match))
		return nil
	}
}

func pubsubNumSub(kind SubscriptionKind) Handler {
	return func(c *Ctx) error {
		c.Out.Array(2 * (len(c.Args) - 2))
		for _, name := range c.Args[2:] {
			c.Out.Bulk(name)
			c.Out.Int(int64(c.Srv.PubSub.Subscribers(kind, name)))
		}
		return nil
	}
}

func pubsubNumPat(c *Ctx) error {
	return replyInt(c, c.Srv.PubSub.Topics(Pattern), nil)
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
	return errorf("Can't execute '%s': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this "+
		"context", s.FullName())
}
