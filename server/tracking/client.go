package tracking

import (
	"sync"

	"github.com/basaltdb/basalt/server/command"
	"github.com/basaltdb/basalt/server/resp"
	"github.com/basaltdb/basalt/server/wire"
)

// Peer is the view of a connection that receives messages, for other goroutines.
type Peer struct {
	Out        *wire.Conn
	Proto      int // of its replies, 2 or 3
	Namespace  string
	Subscribed bool // to anything, see package pubsub
}

// Origin is the value of a transaction's engine.Tx.Origin: it identifies the client that commits.
type Origin struct {
	ID    int64       // of the connection
	Batch *wire.Batch // flushed at the end of the run that commits
}

// Client is a connection that tracks keys, from Table.Add to Table.Remove. Change, SetCaching, Caching, Ran and
// Remembers are for the connection's own goroutine, the other methods for any.
type Client struct {
	command.Tracking // the connection's goroutine changes it with mu held, so it may read without mu
	id               int64
	find             func(id int64) (Peer, bool)
	caching          int // CLIENT CACHING for the next command: 1 = yes, -1 = no, 0 = not given

	mu      sync.Mutex
	peer    func() Peer // nil = the client no longer tracks
	busy    bool        // the connection is running commands
	pending []notice    // messages held back while busy
	held    int         // bytes of pending, see maxHeld
	broken  bool        // the connection that messages are redirected to is gone
}

// Change replaces the options of a client that tracks the keys that it reads, and goes on to do so. Keys that it has
// read stay remembered: it still caches them.
func (c *Client) Change(how command.Tracking) {
	c.mu.Lock()
	c.OptIn, c.OptOut, c.NoLoop, c.Redirect = how.OptIn, how.OptOut, how.NoLoop, how.Redirect
	c.broken = false
	c.mu.Unlock()
}

// Target returns the connection that messages are redirected to, 0 = the client's own.
func (c *Client) Target() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.Redirect
}

// notice is one message: keys, or nil for the whole keyspace.
type notice struct{ keys []string }

// size returns about how many bytes a notice takes.
func (n *notice) size() int {
	const header = 24
	size := header
	for _, k := range n.keys {
		size += header + len(k)
	}
	return size
}

// maxHeld is how many bytes of messages a client may have held back. A client that runs commands for long, such as a
// script, would else hold back what all others write meanwhile. Beyond the bound one message stands for all: the
// whole keyspace has changed.
const maxHeld = 1 << 20

// Broken reports whether the connection that messages are redirected to is gone.
func (c *Client) Broken() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.broken
}

// Letters returns the flags of CLIENT LIST.
func (c *Client) Letters() string {
	s := "t"
	if c.Broken() {
		s += "R"
	}
	if c.Broadcast {
		s += "B"
	}
	return s
}

// SetCaching is CLIENT CACHING for the next command.
func (c *Client) SetCaching(yes bool) {
	c.caching = -1
	if yes {
		c.caching = 1
	}
}

// Caching returns the answer of CLIENT CACHING for the next command: 1 = yes, -1 = no, 0 = not given.
func (c *Client) Caching() int { return c.caching }

// Ran notes that a command, or a transaction, has run or was refused: CLIENT CACHING applies to one only.
func (c *Client) Ran() { c.caching = 0 }

// Remembers reports whether the keys that a command reads must be remembered. The keys of a script are remembered by
// the commands that it calls.
func (c *Client) Remembers(flags command.Flag) bool {
	return !c.Broadcast && flags&command.ReadOnly != 0 && flags&(command.PubSub|command.Script) == 0 &&
		(!c.OptIn || c.caching > 0) && (!c.OptOut || c.caching >= 0)
}

// Begin holds messages back while commands run.
func (c *Client) Begin() {
	c.mu.Lock()
	c.busy = true
	c.mu.Unlock()
}

// TakeHeld moves the messages that Begin held back behind the replies of the run, if they go to the connection itself.
// A client that has read the reply to its own write has then read the message, too: it arrives in the same write, as
// from Redis, and the client does not answer from its cache meanwhile.
func (c *Client) TakeHeld(replies *resp.Writer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.Redirect != 0 || replies.Proto != 3 || c.peer == nil {
		return
	}
	for _, n := range c.pending {
		n.push(replies)
	}
	c.pending, c.held = nil, 0
}

// Idle sends the messages that are still held back: the replies are already on their way. batch belongs to the run,
// nil = no batch.
func (c *Client) Idle(batch *wire.Batch) {
	c.mu.Lock()
	c.busy = false
	pending := c.pending
	c.pending, c.held = nil, 0
	c.mu.Unlock()
	for _, n := range pending {
		c.deliver(n, batch)
	}
}

// notify sends a message now, or once the connection's replies are on their way. by has changed the keys; the origin
// of a flush is notified, too.
func (c *Client) notify(n notice, by *Origin) {
	c.mu.Lock()
	if c.peer == nil || c.NoLoop && by.ID == c.id && n.keys != nil {
		c.mu.Unlock()
		return
	}
	if c.busy {
		c.hold(n)
		c.mu.Unlock()
		return
	}
	c.mu.Unlock()
	c.deliver(n, by.Batch)
}

// hold keeps a message until Idle. mu must be held.
func (c *Client) hold(n notice) {
	switch c.held += n.size(); {
	case c.held <= maxHeld:
		c.pending = append(c.pending, n)
	case len(c.pending) != 1 || c.pending[0].keys != nil:
		c.pending = []notice{{}}
	}
}

// deliver puts a message into the outbox of the connection, or of the connection that messages are redirected to.
func (c *Client) deliver(n notice, batch *wire.Batch) {
	own, ok := c.self()
	if !ok {
		return
	}
	to, target := own, c.Target()
	if target != 0 {
		if to, ok = c.find(target); !ok {
			c.mu.Lock()
			c.broken = true
			c.mu.Unlock()
			if own.Proto == 3 { // sent each time, as in Redis
				w := resp.Writer{Proto: 3}
				w.Push(2)
				w.BulkString("tracking-redir-broken")
				w.Int(target)
				batch.Post(own.Out, w.Bytes())
			}
			return
		}
	}
	w := resp.Writer{Proto: to.Proto}
	switch {
	case to.Proto == 3:
		n.push(&w)
	case target != 0 && to.Subscribed:
		w.Array(3)
		w.BulkString("message")
		w.BulkString(command.InvalidateChannel)
		n.body(&w)
	default:
		return // RESP2 has no push messages
	}
	batch.Post(to.Out, w.Bytes())
}

// push writes the notice as a message of RESP3.
func (n *notice) push(w *resp.Writer) {
	w.Push(2)
	w.BulkString("invalidate")
	n.body(w)
}

func (n *notice) body(w *resp.Writer) {
	if n.keys == nil {
		w.Null()
		return
	}
	w.Array(len(n.keys))
	for _, k := range n.keys {
		w.BulkString(k)
	}
}

// ended reports whether the connection no longer tracks.
func (c *Client) ended() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.peer == nil
}

// self returns the connection; ok is false when it no longer tracks.
func (c *Client) self() (p Peer, ok bool) {
	c.mu.Lock()
	peer := c.peer
	c.mu.Unlock()
	if peer == nil {
		return Peer{}, false
	}
	return peer(), true
}
