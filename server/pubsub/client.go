package pubsub

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/basaltdb/basalt/server/command"
	"github.com/basaltdb/basalt/server/wire"
)

// Client is a connection as subscriber and as publisher. Any goroutine may use Out and the protocol; everything else
// is for the connection's own goroutine.
type Client struct {
	Out   *wire.Conn
	proto atomic.Int32   // of the messages; 0 = 2
	subs  *subscriptions // nil = none
	shard atomic.Pointer[shardState]
}

// shardState is the state that the Hub changes for a client that has subscribed to shard channels: the slot of a
// shard channel may leave this node at any time.
type shardState struct {
	n    atomic.Int64 // subscriptions to shard channels that are left
	some atomic.Bool  // there are names in gone
	mu   sync.Mutex
	gone []string // channels that the Hub has removed and subs still has
}

// shardState returns the state. It exists once the client has subscribed to a shard channel.
func (c *Client) shardState() *shardState {
	if c.shard.Load() == nil {
		c.shard.Store(&shardState{})
	}
	return c.shard.Load()
}

// taken notes that the Hub has removed a shard channel, and returns how many are left.
func (c *Client) taken(name string) int64 {
	s := c.shard.Load()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gone = append(s.gone, name)
	s.some.Store(true)
	return s.n.Add(-1)
}

// forgetTaken removes from subs the channels that the Hub has removed.
func (c *Client) forgetTaken() {
	s := c.shard.Load()
	if s == nil || !s.some.Load() {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, name := range s.gone {
		c.subs[command.ShardChannel].remove(name)
	}
	s.gone = nil
	s.some.Store(false)
}

// SetProto sets the protocol of later messages, 2 or 3. A message already on its way may still have the old protocol.
func (c *Client) SetProto(version int) {
	if v := int32(version); c.proto.Load() != v {
		c.proto.Store(v)
	}
}

// Subscribed reports whether the client is subscribed to anything.
func (c *Client) Subscribed() bool {
	if c.subs == nil {
		return false
	}
	if c.forgetTaken(); c.subs.empty() {
		c.subs = nil
	}
	return c.subs != nil
}

// Names returns the names that the client is subscribed to, sorted.
func (c *Client) Names(kind command.SubscriptionKind) []string {
	if !c.Subscribed() {
		return nil
	}
	return slices.Sorted(maps.Keys(c.subs[kind].names))
}

// Sizes returns the number of subscriptions of each kind, and the bytes that their names take.
func (c *Client) Sizes() (n [3]int, bytes int) {
	if c.Subscribed() {
		for kind := range n {
			n[kind] = len(c.subs[kind].names)
			bytes += c.subs[kind].bytes
		}
	}
	return n, bytes
}

// subscriptions are the names that one client is subscribed to, by kind.
type subscriptions [3]nameSet

// count returns the number for the confirmation of a subscription: channels and patterns count together.
func (s *subscriptions) count(kind command.SubscriptionKind) int {
	if kind == command.ShardChannel {
		return len(s[kind].names)
	}
	return len(s[command.Channel].names) + len(s[command.Pattern].names)
}

func (s *subscriptions) empty() bool {
	return s.count(command.Channel)+s.count(command.ShardChannel) == 0
}

// nameSet is a set of names.
type nameSet struct {
	names map[string]struct{}
	bytes int // that the names take
}

// NameBytes returns how many bytes a name takes where it is kept.
func NameBytes(name string) int { return len(name) + int(unsafe.Sizeof(name)) }

func (s *nameSet) add(name string) bool {
	if _, ok := s.names[name]; ok {
		return false
	}
	if s.names == nil {
		s.names = map[string]struct{}{}
	}
	s.names[name] = struct{}{}
	s.bytes += NameBytes(name)
	return true
}

// remove removes a name and reports whether it was in the set.
func (s *nameSet) remove(name string) bool {
	if _, ok := s.names[name]; !ok {
		return false
	}
	delete(s.names, name)
	s.bytes -= NameBytes(name)
	return true
}
