package pubsub

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/basaltdb/basalt/server/command"
	"github.com/basaltdb/basalt/server/glob"
	"github.com/basaltdb/basalt/server/resp"
	"github.com/basaltdb/basalt/server/wire"
)

// Hub knows the subscribers of all topics. The zero Hub has no subscribers. Any goroutine may call its methods, but
// only with the Client of its own connection.
type Hub struct {
	subscriptions atomic.Int64 // of all kinds; 0 = PUBLISH need not search
	mu            sync.RWMutex
	topics        [3]map[string]*topic // by command.SubscriptionKind
	order         sync.Mutex           // the right to deliver: all subscribers see messages in the same order
}

// topic is a channel, a pattern or a shard channel with subscribers.
type topic struct {
	name    string
	pattern *glob.Pattern
	clients []*Client
}

// Add subscribes a client to a channel or pattern. confirm is called with the number of the client's subscriptions
// (to channels and patterns, or to shard channels); added says whether this subscription is new. Add posts what confirm
// returns, if anything, to the client before the first message.
//
// Nobody publishes between that and the subscription: a message on another channel may send the confirmation at once,
// and who has read it must not miss what is published from then on.
func (h *Hub) Add(c *Client, kind command.SubscriptionKind, name string, batch *wire.Batch,
	confirm func(count int, added bool) (post []byte)) {
	if c.subs == nil {
		c.subs = &subscriptions{}
	}
	c.forgetTaken()
	added := c.subs[kind].add(name)
	if added && kind == command.ShardChannel {
		c.shardState().n.Add(1)
	}
	post := confirm(c.subs.count(kind), added)
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(post) > 0 {
		batch.Post(c.Out, post)
	}
	if added {
		h.add(kind, name, c)
	}
}

// Remove ends a subscription, if it exists, and returns how many are left, as Add counts them.
func (h *Hub) Remove(c *Client, kind command.SubscriptionKind, name string) int {
	if !c.Subscribed() {
		return 0
	}
	if c.subs[kind].remove(name) && h.remove(kind, name, c) && kind == command.ShardChannel {
		c.shardState().n.Add(-1)
	}
	n := c.subs.count(kind)
	if c.subs.empty() {
		c.subs = nil
	}
	return n
}

// RemoveAll ends all subscriptions of a client.
func (h *Hub) RemoveAll(c *Client) {
	if c.subs == nil {
		return
	}
	for kind := range c.subs {
		for name := range c.subs[kind].names {
			h.remove(command.SubscriptionKind(kind), name, c)
		}
	}
	c.subs = nil
	c.shard.Store(nil)
}

// Len returns how many subscriptions of all clients exist.
func (h *Hub) Len() int { return int(h.subscriptions.Load()) }

// add notes a subscription; h.mu must be held.
func (h *Hub) add(kind command.SubscriptionKind, name string, c *Client) {
	if h.topics[kind] == nil {
		h.topics[kind] = map[string]*topic{}
	}
	t := h.topics[kind][name]
	if t == nil {
		t = &topic{name: name}
		if kind == command.Pattern {
			t.pattern = glob.Compile([]byte(name))
		}
		h.topics[kind][name] = t
	}
	t.clients = append(t.clients, c)
	h.subscriptions.Add(1)
}

// remove reports whether the client was still subscribed.
func (h *Hub) remove(kind command.SubscriptionKind, name string, c *Client) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	t := h.topics[kind][name]
	if t == nil {
		return false
	}
	i := slices.Index(t.clients, c)
	if i >= 0 {
		t.clients = slices.Delete(t.clients, i, i+1)
		h.subscriptions.Add(-1)
	}
	if len(t.clients) == 0 {
		delete(h.topics[kind], name)
	}
	return i >= 0
}

// RemoveShardChannel ends all subscriptions to a shard channel that another node now serves, and notifies the
// clients.
func (h *Hub) RemoveShardChannel(name string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.order.Lock() // as in Publish
	defer h.order.Unlock()
	t := h.topics[command.ShardChannel][name]
	if t == nil {
		return
	}
	delete(h.topics[command.ShardChannel], name)
	h.subscriptions.Add(-int64(len(t.clients)))
	var none *wire.Batch
	for _, c := range t.clients {
		w := resp.Writer{Proto: max(int(c.proto.Load()), 2)}
		w.Push(3)
		w.BulkString("sunsubscribe")
		w.BulkString(name)
		w.Int(c.taken(name))
		none.Post(c.Out, w.Bytes())
	}
}

// Message is a message to the subscribers of a channel, and to the subscribers of patterns that match the channel;
// with Shard to the subscribers of the shard channel only.
type Message struct {
	Channel, Payload []byte
	Shard            bool
}

// delivery is a message to the subscribers of one topic, in the encodings that they need.
type delivery struct {
	*Message
	kind    string
	pattern *string   // nil = the topic is no pattern
	encoded [2][]byte // RESP2, RESP3
}

func (m *delivery) writeTo(w *resp.Writer) {
	n := 3
	if m.pattern != nil {
		n = 4
	}
	w.Push(n)
	w.BulkString(m.kind)
	if m.pattern != nil {
		w.BulkString(*m.pattern)
	}
	w.Bulk(m.Channel)
	w.Bulk(m.Payload)
}

func (m *delivery) in(proto int) []byte {
	proto = max(proto, 2)
	i := proto - 2
	if m.encoded[i] == nil {
		w := resp.Writer{Proto: proto}
		m.writeTo(&w)
		m.encoded[i] = w.Bytes()
	}
	return m.encoded[i]
}

// to delivers the message to the subscribers of a topic; h.mu must be held for reading, and h.order too.
func (m *delivery) to(t *topic, from *Client, batch *wire.Batch) {
	for _, c := range t.clients {
		message := m.in(int(c.proto.Load()))
		if c == from {
			batch.PostOwn(message)
		} else {
			batch.PostShared(c.Out, message)
		}
	}
}

// Receivers returns how many clients would receive a message.
func (h *Hub) Receivers(channel []byte, shard bool) (n int) {
	if h.Len() == 0 {
		return 0
	}
	h.mu.RLock()
	defer h.mu.RUnlock()
	kind := command.Channel
	if shard {
		kind = command.ShardChannel
	}
	if t := h.topics[kind][string(channel)]; t != nil {
		n = len(t.clients)
	}
	if shard {
		return n
	}
	for _, t := range h.topics[command.Pattern] {
		if t.pattern.Match(channel) {
			n += len(t.clients)
		}
	}
	return n
}

// Publish sends a message, and returns how many clients receive it. from is the publisher: its run flushes batch, and
// a message to the publisher itself goes through PostOwn. For messages of the server itself both are nil.
func (h *Hub) Publish(m Message, from *Client, batch *wire.Batch) (n int) {
	if h.Len() == 0 {
		return 0
	}
	h.mu.RLock()
	defer h.mu.RUnlock()
	kind, name := command.Channel, "message"
	if m.Shard {
		kind, name = command.ShardChannel, "smessage"
	}
	t := h.topics[kind][string(m.Channel)]
	if t == nil && (m.Shard || len(h.topics[command.Pattern]) == 0) {
		return 0
	}
	h.order.Lock()
	defer h.order.Unlock()
	if t != nil {
		(&delivery{Message: &m, kind: name}).to(t, from, batch)
		n += len(t.clients)
	}
	if m.Shard {
		return n
	}
	for _, t := range h.topics[command.Pattern] {
		if t.pattern.Match(m.Channel) {
			(&delivery{Message: &m, kind: "pmessage", pattern: &t.name}).to(t, from, batch)
			n += len(t.clients)
		}
	}
	return n
}

// Channels returns the channels or shard channels with subscribers that match, in no particular order.
func (h *Hub) Channels(kind command.SubscriptionKind, match func(name []byte) bool) []string {
	h.mu.RLock()
	defer h.mu.RUnlock()
	var names []string
	for n := range h.topics[kind] {
		if match == nil || match([]byte(n)) {
			names = append(names, n)
		}
	}
	return names
}

// Select returns the clients with a subscription that match accepts.
func (h *Hub) Select(match func(kind command.SubscriptionKind, name string) bool) map[*Client]bool {
	h.mu.RLock()
	defer h.mu.RUnlock()
	found := map[*Client]bool{}
	for kind, topics := range h.topics {
		for name, t := range topics {
			if match(command.SubscriptionKind(kind), name) {
				for _, c := range t.clients {
					found[c] = true
				}
			}
		}
	}
	return found
}

// Subscribers returns how many clients are subscribed to a channel.
func (h *Hub) Subscribers(kind command.SubscriptionKind, name []byte) int {
	h.mu.RLock()
	defer h.mu.RUnlock()
	if t := h.topics[kind][string(name)]; t != nil {
		return len(t.clients)
	}
	return 0
}

// Topics returns how many channels or patterns have subscribers.
func (h *Hub) Topics(kind command.SubscriptionKind) int {
	h.mu.RLock()
	defer h.mu.RUnlock()
	return len(h.topics[kind])
}
