package server

import (
	"slices"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/basaltdb/basalt/server/command"
	"github.com/basaltdb/basalt/server/resp"
	"github.com/basaltdb/basalt/server/wire"
)

// hub knows who has subscribed to what. Channels are those of the whole server, whatever the namespace, as in
// Kvrocks.
//
// A message goes into the outbox of each subscriber at once. The flusher writes it to the sockets, see there. Nobody
// waits for a subscriber; one that does not read is cut off at the output limit.
type hub struct {
	subscriptions atomic.Int64 // of all kinds; 0 = PUBLISH has nothing to look for
	mu            sync.RWMutex
	topics        [3]map[string]*topic // by command.SubscriptionKind
	order         sync.Mutex           // the right to deliver: all subscribers see messages in the same order
}

// topic is a channel, a pattern or a shard channel that somebody has subscribed to.
type topic struct {
	name    string
	pattern *command.Glob
	conns   []*conn
}

// subscriptions are what one connection has subscribed to, by kind.
type subscriptions [3]nameSet

// nameSet is a set of names, in the order in which they came until one is removed.
type nameSet struct {
	names []string
	at    map[string]int // where each is in names; nil while they are few
	bytes int            // what the names take
}

// fewNames is how many names are looked through faster than they are looked up.
const fewNames = 8

func nameBytes(name string) int { return len(name) + int(unsafe.Sizeof(name)) }

func (s *nameSet) index(name string) int {
	if s.at == nil {
		return slices.Index(s.names, name)
	}
	if i, ok := s.at[name]; ok {
		return i
	}
	return -1
}

// add adds a name and reports whether it is new.
func (s *nameSet) add(name string) bool {
	if s.index(name) >= 0 {
		return false
	}
	s.names = append(s.names, name)
	s.bytes += nameBytes(name)
	switch n := len(s.names); {
	case s.at != nil:
		s.at[name] = n - 1
	case n > fewNames:
		s.at = make(map[string]int, 2*n)
		for i, name := range s.names {
			s.at[name] = i
		}
	}
	return true
}

// remove removes a name and reports whether it was there. The last one takes its place.
func (s *nameSet) remove(name string) bool {
	i := s.index(name)
	if i < 0 {
		return false
	}
	s.bytes -= nameBytes(name)
	last := len(s.names) - 1
	s.names[i] = s.names[last]
	s.names[last] = ""
	s.names = s.names[:last]
	if s.at != nil {
		if i < last {
			s.at[s.names[i]] = i
		}
		delete(s.at, name)
	}
	return true
}

// count returns what the confirmation of a subscription says: channels and patterns count together.
func (s *subscriptions) count(kind command.SubscriptionKind) int {
	if kind == command.ShardChannel {
		return len(s[kind].names)
	}
	return len(s[command.Channel].names) + len(s[command.Pattern].names)
}

// Subscribe subscribes to a channel or pattern. confirm writes the confirmation, with how many subscriptions of this
// kind there are; it is on its way before the first message can be.
func (c *run) Subscribe(kind command.SubscriptionKind, name []byte, confirm func(count int)) {
	if c.subs == nil {
		c.subs = &subscriptions{}
	}
	n := string(name)
	added := c.subs[kind].add(n)
	confirm(c.subs.count(kind))
	if !added {
		return
	}
	if !c.inTx() {
		c.batch.Post(c.wire, c.out.Bytes())
		c.out.Reset()
	}
	c.srv.hub.add(kind, n, c.conn)
}

// Unsubscribe is the opposite of Subscribe.
func (c *conn) Unsubscribe(kind command.SubscriptionKind, name []byte) int {
	if c.subs == nil {
		return 0
	}
	if c.subs[kind].remove(string(name)) {
		c.srv.hub.remove(kind, string(name), c)
	}
	n := c.subs.count(kind)
	if c.subs.count(command.Channel)+len(c.subs[command.ShardChannel].names) == 0 {
		c.subs = nil
	}
	return n
}

// Subscriptions returns what the connection has subscribed to.
func (c *conn) Subscriptions(kind command.SubscriptionKind) []string {
	if c.subs == nil {
		return nil
	}
	return slices.Clone(c.subs[kind].names)
}

// UnsubscribeAll ends all subscriptions without a word.
func (c *conn) UnsubscribeAll() {
	if c.subs == nil {
		return
	}
	for kind := range c.subs {
		for _, n := range c.subs[kind].names {
			c.srv.hub.remove(command.SubscriptionKind(kind), n, c)
		}
	}
	c.subs = nil
}

func (h *hub) add(kind command.SubscriptionKind, name string, c *conn) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.topics[kind] == nil {
		h.topics[kind] = map[string]*topic{}
	}
	t := h.topics[kind][name]
	if t == nil {
		t = &topic{name: name}
		if kind == command.Pattern {
			t.pattern = command.CompileGlob([]byte(name))
		}
		h.topics[kind][name] = t
	}
	t.conns = append(t.conns, c)
	h.subscriptions.Add(1)
}

func (h *hub) remove(kind command.SubscriptionKind, name string, c *conn) {
	h.mu.Lock()
	defer h.mu.Unlock()
	t := h.topics[kind][name]
	if t == nil {
		return
	}
	if i := slices.Index(t.conns, c); i >= 0 {
		t.conns = slices.Delete(t.conns, i, i+1)
		h.subscriptions.Add(-1)
	}
	if len(t.conns) == 0 {
		delete(h.topics[kind], name)
	}
}

// message is one message in the forms that subscribers want.
type message struct {
	kind             string
	pattern          *string // nil = it was sent to those of the channel
	channel, payload []byte
	encoded          [2][]byte // RESP2, RESP3
}

func (m *message) writeTo(w *resp.Writer) {
	n := 3
	if m.pattern != nil {
		n = 4
	}
	w.Push(n)
	w.BulkString(m.kind)
	if m.pattern != nil {
		w.BulkString(*m.pattern)
	}
	w.Bulk(m.channel)
	w.Bulk(m.payload)
}

func (m *message) in(proto int) []byte {
	i := proto - 2
	if m.encoded[i] == nil {
		w := resp.Writer{Proto: proto}
		m.writeTo(&w)
		m.encoded[i] = w.Bytes()
	}
	return m.encoded[i]
}

// deliver gives the message to the subscribers of a topic; h.mu is held for reading, and h.order. from is the publisher, nil = the
// server itself.
func (t *topic) deliver(m *message, from *run) {
	var batch *wire.Batch
	if from != nil {
		batch = &from.batch
	}
	for _, c := range t.conns {
		if from != nil && c == from.conn {
			from.batch.PostOwn(m.in(c.sess.Proto))
			continue
		}
		batch.PostShared(c.wire, m.in(c.info.view.Load().proto))
	}
}

// Publish sends a message to the subscribers of a channel, and of the patterns that match it, and returns how many
// they are. With shard it goes to those of the shard channel only.
//
// Inside EXEC and scripts it is sent after the commit.
func (c *run) Publish(channel, payload []byte, shard bool) int {
	if c.inTx() {
		if c.srv.hub.subscriptions.Load() == 0 && c.srv.master.Connected() == 0 {
			return 0
		}
		c.deferred = append(c.deferred, post{slices.Clone(channel), slices.Clone(payload), shard})
		return c.srv.hub.receivers(channel, shard)
	}
	return c.send(channel, payload, shard)
}

// send sends a message at once, also to the subscribers of replicas.
func (c *run) send(channel, payload []byte, shard bool) int {
	n := c.srv.hub.publish(channel, payload, shard, c)
	if !shard {
		c.srv.replicateMessage(channel, payload)
	}
	return n
}

// post is a message that waits for a commit.
type post struct {
	channel, payload []byte
	shard            bool
}

// publishDeferred sends what waited for the commit, unless it has failed.
func (c *run) publishDeferred(err error) {
	for i, p := range c.deferred {
		if err == nil {
			c.send(p.channel, p.payload, p.shard)
		}
		c.deferred[i] = post{}
	}
	c.deferred = c.deferred[:0]
}

// receivers returns how many would receive a message.
func (h *hub) receivers(channel []byte, shard bool) (n int) {
	h.mu.RLock()
	defer h.mu.RUnlock()
	kind := command.Channel
	if shard {
		kind = command.ShardChannel
	}
	if t := h.topics[kind][string(channel)]; t != nil {
		n = len(t.conns)
	}
	if shard {
		return n
	}
	for _, t := range h.topics[command.Pattern] {
		if t.pattern.Match(channel) {
			n += len(t.conns)
		}
	}
	return n
}

func (h *hub) publish(channel, payload []byte, shard bool, from *run) (n int) {
	if h.subscriptions.Load() == 0 {
		return 0
	}
	h.mu.RLock()
	defer h.mu.RUnlock()
	kind, name := command.Channel, "message"
	if shard {
		kind, name = command.ShardChannel, "smessage"
	}
	t := h.topics[kind][string(channel)]
	if t == nil && (shard || len(h.topics[command.Pattern]) == 0) {
		return 0
	}
	h.order.Lock()
	defer h.order.Unlock()
	if t != nil {
		t.deliver(&message{kind: name, channel: channel, payload: payload}, from)
		n += len(t.conns)
	}
	if shard {
		return n
	}
	for _, t := range h.topics[command.Pattern] {
		if t.pattern.Match(channel) {
			t.deliver(&message{kind: "pmessage", pattern: &t.name, channel: channel, payload: payload}, from)
			n += len(t.conns)
		}
	}
	return n
}

// Channels returns the channels or shard channels with subscribers that match, in no particular order.
func (s *Server) Channels(kind command.SubscriptionKind, match func(name []byte) bool) []string {
	s.hub.mu.RLock()
	defer s.hub.mu.RUnlock()
	var names []string
	for n := range s.hub.topics[kind] {
		if match == nil || match([]byte(n)) {
			names = append(names, n)
		}
	}
	return names
}

// Subscribers returns how many have subscribed to a channel.
func (s *Server) Subscribers(kind command.SubscriptionKind, name []byte) int {
	s.hub.mu.RLock()
	defer s.hub.mu.RUnlock()
	if t := s.hub.topics[kind][string(name)]; t != nil {
		return len(t.conns)
	}
	return 0
}

// Topics returns how many channels or patterns have subscribers.
func (s *Server) Topics(kind command.SubscriptionKind) int {
	s.hub.mu.RLock()
	defer s.hub.mu.RUnlock()
	return len(s.hub.topics[kind])
}

// Subscribed reports whether the connection has subscribed to anything.
func (c *conn) Subscribed() bool { return c.subs != nil }
