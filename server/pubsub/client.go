package pubsub

import (
	"slices"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/basaltdb/basalt/server/command"
	"github.com/basaltdb/basalt/server/wire"
)

// Client is a connection as subscriber and as publisher. Out and the protocol belong to all; everything else is for the
// connection's own goroutine.
type Client struct {
	Out   *wire.Conn
	proto atomic.Int32   // of the messages; 0 = 2
	subs  *subscriptions // nil = none
	shard atomic.Pointer[shardState]
}

// shardState is what the Hub changes of a client that has subscribed to shard channels: the slot of one may leave this
// node at any time.
type shardState struct {
	n    atomic.Int64 // shard channels that are left
	some atomic.Bool  // there are names in gone
	mu   sync.Mutex
	gone []string // channels that the Hub has taken away, and subs still has
}

// shardState returns the state, which is there once the client has subscribed to a shard channel.
func (c *Client) shardState() *shardState {
	if c.shard.Load() == nil {
		c.shard.Store(&shardState{})
	}
	return c.shard.Load()
}

// taken notes that the Hub has taken a shard channel away, and returns how many are left.
func (c *Client) taken(name string) int64 {
	s := c.shard.Load()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gone = append(s.gone, name)
	s.some.Store(true)
	return s.n.Add(-1)
}

// forgetTaken removes from subs what the Hub has taken away.
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

// SetProto sets the protocol of the messages to come, 2 or 3. They need not follow at once.
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

// Names returns what the client is subscribed to, in the order in which it came until one is removed.
func (c *Client) Names(kind command.SubscriptionKind) []string {
	if !c.Subscribed() {
		return nil
	}
	return slices.Clone(c.subs[kind].names)
}

// Sizes returns how many subscriptions of each kind exist, and what their names take in bytes.
func (c *Client) Sizes() (n [3]int, bytes int) {
	if c.Subscribed() {
		for kind := range n {
			n[kind] = len(c.subs[kind].names)
			bytes += c.subs[kind].bytes
		}
	}
	return n, bytes
}

// subscriptions are what one client is subscribed to, by kind.
type subscriptions [3]nameSet

// count returns what the confirmation of a subscription says: channels and patterns count together.
func (s *subscriptions) count(kind command.SubscriptionKind) int {
	if kind == command.ShardChannel {
		return len(s[kind].names)
	}
	return len(s[command.Channel].names) + len(s[command.Pattern].names)
}

func (s *subscriptions) empty() bool {
	return s.count(command.Channel)+s.count(command.ShardChannel) == 0
}

// nameSet is a set of names, in the order in which they came until one is removed.
type nameSet struct {
	names []string
	at    map[string]int // where each is in names; nil while they are few
	bytes int            // what the names take
}

// fewNames is how many names are looked through faster than they are looked up.
const fewNames = 8

// NameBytes returns how many bytes a name takes where it is kept.
func NameBytes(name string) int { return len(name) + int(unsafe.Sizeof(name)) }

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
	s.bytes += NameBytes(name)
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
	s.bytes -= NameBytes(name)
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
