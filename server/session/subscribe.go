package session

import (
	"slices"

	"github.com/basaltdb/basalt/server/command"
	"github.com/basaltdb/basalt/server/pubsub"
)

// Subscribe subscribes to a channel or pattern. confirm writes the confirmation, with the number of subscriptions of
// this kind, which is sent before the first message: inside EXEC with the whole reply.
func (c *run) Subscribe(kind command.SubscriptionKind, name []byte, confirm func(count int)) {
	defer func() {
		if kind == command.ShardChannel && c.moved() {
			c.srv.dropShardChannels(c.topology)
		}
	}()
	if c.inTx() {
		c.holding = true
		c.wire.HoldMessages()
	}
	posted := false
	c.srv.Hub.Add(&c.subs, kind, string(name), &c.batch, func(count int, added bool) (post []byte) {
		confirm(count)
		if posted = added && !c.inTx(); posted {
			post = c.out.Bytes()
		}
		return post
	})
	if posted {
		c.out.Reset()
	}
	// A change of the user since the check of the command has closed the subscribers that it found.
	if a := c.sess.Account; a != nil && !a.User().MayAccessChannel(name, kind == command.Pattern) {
		c.closeAfterReply = true
	}
}

// Unsubscribe ends a subscription and returns how many subscriptions of this kind are left.
func (c *conn) Unsubscribe(kind command.SubscriptionKind, name []byte) int {
	return c.srv.Hub.Remove(&c.subs, kind, string(name))
}

// UnsubscribeAll ends all subscriptions without confirmations.
func (c *conn) UnsubscribeAll() { c.srv.Hub.RemoveAll(&c.subs) }

// Subscriptions returns the names of the channels or patterns that the connection is subscribed to.
func (c *conn) Subscriptions(kind command.SubscriptionKind) []string { return c.subs.Names(kind) }

// Subscribed reports whether the connection is subscribed to anything.
func (c *conn) Subscribed() bool { return c.subs.Subscribed() }

// Publish sends a message to the subscribers of a channel, and of the patterns that match the channel, and returns how
// many clients receive it. With shard it goes to the subscribers of the shard channel only.
//
// Inside EXEC and scripts it is sent after the commit.
func (c *run) Publish(channel, payload []byte, shard bool) int {
	if !c.inTx() {
		return c.publishNow(pubsub.Message{Channel: channel, Payload: payload, Shard: shard})
	}
	if c.srv.Hub.Len() == 0 && !c.srv.Replicating() && c.srv.Broadcast == nil {
		return 0
	}
	m := pubsub.Message{Channel: slices.Clone(channel), Payload: slices.Clone(payload), Shard: shard}
	c.deferred = append(c.deferred, m)
	return c.srv.Hub.Receivers(channel, shard)
}

// publishNow sends a message, also to the subscribers of replicas and of other nodes of the cluster.
func (c *run) publishNow(m pubsub.Message) int {
	if c.srv.Broadcast != nil && !c.sess.Relayed && c.srv.Broadcast(m.Channel, m.Payload, m.Shard) {
		return c.srv.Hub.Receivers(m.Channel, m.Shard)
	}
	n := c.srv.Hub.Publish(m, &c.subs, &c.batch)
	if !m.Shard {
		c.srv.ReplicateMessage(m.Channel, m.Payload, c.fed)
	}
	return n
}

// publishDeferred sends the messages that waited for the commit, unless the commit has failed.
func (c *run) publishDeferred(err error) {
	for i, m := range c.deferred {
		if err == nil {
			c.publishNow(m)
		}
		c.deferred[i] = pubsub.Message{}
	}
	c.deferred = c.deferred[:0]
}
