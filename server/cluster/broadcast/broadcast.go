// Package broadcast passes the messages of publishers on to the other nodes of a cluster, which deliver them to their
// own subscribers.
//
// PUBLISH goes to all masters: a subscriber may be connected to any node. The log of a master carries the message to
// its replicas. SPUBLISH goes to the nodes that have the same slots. A node that gets a message on a connection that
// has sent CLUSTERX RELAY passes it on no further. A Kvrocks refuses that command, but never passes messages on.
//
// Like a message of Redis's cluster bus, a message arrives at most once, unless the connection breaks in the moment in
// which it is sent: then it may arrive twice. While a node cannot be reached its messages are lost.
package broadcast

import (
	"context"
	"errors"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/basaltdb/basalt/server/cluster/peer"
	"github.com/basaltdb/basalt/server/cluster/topology"
)

const (
	// maxQueue bounds the bytes that wait for one node. Messages beyond it are lost.
	maxQueue = 16 << 20
	// overhead is what a message takes in memory besides its bytes, roughly.
	overhead = 96
	// idleTime is how long a connection without messages is kept.
	idleTime = time.Minute
	// retryTime is the time between two attempts to connect.
	retryTime = time.Second
)

// Options are what a Sender needs of the server. All fields are set.
type Options struct {
	Log      *zap.Logger
	Topology func() *topology.Topology
	Dial     func(ctx context.Context, addr string) (net.Conn, error)
	Password func() string // of the other nodes; "" = none
}

// Sender passes messages on. Any goroutine may use it.
type Sender struct {
	opt  Options
	ctx  context.Context
	stop context.CancelFunc
	wg   sync.WaitGroup

	mu    sync.Mutex
	links map[string]*link // by address; a link without messages for idleTime ends
}

// link is the connection to one node. Its goroutine owns the fields below the line.
type link struct {
	addr  string
	wake  chan struct{} // has room for one
	queue [][][]byte    // commands; guarded by Sender.mu, as the next two
	bytes int           // of the queue
	lost  int           // messages lost since the node was reached last

	peer    *peer.Peer // nil = not connected
	down    bool       // the log says that messages are lost
	refuses bool       // the log says that the node has refused a message
}

// New makes a Sender. Close ends it.
func New(opt Options) *Sender {
	s := &Sender{opt: opt, links: map[string]*link{}}
	s.ctx, s.stop = context.WithCancel(context.Background())
	return s
}

// Close closes the connections. Messages that wait are lost.
func (s *Sender) Close() {
	s.mu.Lock()
	s.stop()
	s.mu.Unlock()
	s.wg.Wait()
}

// Send passes a message of a client of this node on; shard: it is one of SPUBLISH. Send does not wait for other nodes.
func (s *Sender) Send(channel, payload []byte, shard bool) {
	t := s.opt.Topology()
	if t.Self == nil {
		return
	}
	command := [][]byte{[]byte("PUBLISH"), nil, nil}
	if shard {
		command[0] = []byte("SPUBLISH")
	}
	for _, n := range t.Nodes {
		if n == t.Self || shard && n.MasterID() != t.Self.MasterID() || !shard && !n.IsMaster() {
			continue
		}
		if command[1] == nil {
			command[1], command[2] = slices.Clone(channel), slices.Clone(payload)
		}
		s.queue(n.Addr(), command)
	}
}

func (s *Sender) queue(addr string, command [][]byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ctx.Err() != nil {
		return
	}
	l := s.links[addr]
	if l == nil {
		l = &link{addr: addr, wake: make(chan struct{}, 1)}
		s.links[addr] = l
		s.wg.Go(func() { s.run(l) })
	}
	if size := size(command); l.bytes == 0 || l.bytes+size <= maxQueue {
		l.queue, l.bytes = append(l.queue, command), l.bytes+size
	} else {
		l.lost++
	}
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

func size(command [][]byte) int { return overhead + len(command[1]) + len(command[2]) }

// take empties the queue of a link.
func (s *Sender) take(l *link) (commands [][][]byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	commands, l.queue, l.bytes = l.queue, nil, 0
	return commands
}

// forget removes a link whose queue is empty, and reports whether it did.
func (s *Sender) forget(l *link) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(l.queue) > 0 {
		return false
	}
	delete(s.links, l.addr)
	return true
}

func (s *Sender) run(l *link) {
	defer l.disconnect()
	idle := time.NewTimer(idleTime)
	defer idle.Stop()
	for {
		select {
		case <-s.ctx.Done():
			return
		case <-idle.C:
			if s.forget(l) {
				return
			}
		case <-l.wake:
		}
		idle.Reset(idleTime)
		commands := s.take(l)
		if len(commands) == 0 {
			continue
		}
		if err := s.deliver(l, commands); err != nil {
			if l.peer != nil { // the node has refused a message, as a Kvrocks does those of shard channels
				s.refused(l, err)
				continue
			}
			s.failed(l, len(commands), err)
			select {
			case <-s.ctx.Done():
			case <-time.After(retryTime):
			}
			continue
		}
		s.delivered(l)
	}
}

// deliver sends commands and awaits their replies. A connection from before may have been closed by the node, which
// only shows when it is used: then there is a second attempt.
func (s *Sender) deliver(l *link, commands [][][]byte) error {
	old := l.peer != nil
	answered, err := s.try(l, commands)
	if err != nil && old && !answered {
		_, err = s.try(l, commands)
	}
	return err
}

// try is one attempt; answered: a reply has come.
func (s *Sender) try(l *link, commands [][][]byte) (answered bool, err error) {
	if l.peer == nil {
		if l.peer, err = s.connect(l.addr); err != nil {
			return false, err
		}
	}
	defer func() {
		if l.peer.Broken() {
			l.disconnect()
		}
	}()
	for _, c := range commands {
		if err := l.peer.Send(c...); err != nil {
			return false, err
		}
	}
	if err := l.peer.Flush(); err != nil {
		return false, err
	}
	var refused error
	for range commands {
		switch _, err := l.peer.Reply(); {
		case err == nil:
		case peer.IsReply(err):
			refused = err
		default:
			return answered, err
		}
		answered = true
	}
	return true, refused
}

func (s *Sender) connect(addr string) (*peer.Peer, error) {
	p, err := peer.Dial(s.ctx, s.opt.Dial, addr, s.opt.Password())
	if err != nil {
		return nil, err
	}
	if _, err := p.Do("CLUSTERX", "RELAY"); err != nil && !isUnknown(err) {
		p.Close()
		return nil, err
	}
	return p, nil
}

// isUnknown reports whether a node does not know CLUSTERX RELAY. After any other refusal, such as a missing permission,
// the node would pass messages on, and they would go round for ever.
func isUnknown(err error) bool {
	e, ok := errors.AsType[peer.Error](err)
	return ok && strings.HasPrefix(string(e), "ERR ") && strings.Contains(string(e), "CLUSTERX")
}

func (l *link) disconnect() {
	if l.peer != nil {
		l.peer.Close()
		l.peer = nil
	}
}

// failed counts the lost messages, and says so the first time.
func (s *Sender) failed(l *link, lost int, err error) {
	if s.ctx.Err() != nil {
		return
	}
	s.mu.Lock()
	l.lost += lost
	s.mu.Unlock()
	if !l.down {
		l.down = true
		s.opt.Log.Warn("messages of publishers do not reach a node of the cluster", zap.String("node", l.addr),
			zap.Error(err))
	}
}

// refused says the first time that a node has refused a message.
func (s *Sender) refused(l *link, err error) {
	if !l.refuses {
		l.refuses = true
		s.opt.Log.Warn("a node of the cluster refuses messages of publishers", zap.String("node", l.addr), zap.Error(err))
	}
}

// delivered says how many messages were lost before.
func (s *Sender) delivered(l *link) {
	s.mu.Lock()
	lost := l.lost
	l.lost = 0
	s.mu.Unlock()
	l.down = false
	if lost > 0 {
		s.opt.Log.Warn("messages of publishers did not reach a node of the cluster, which takes them again",
			zap.String("node", l.addr), zap.Int("lost", lost))
	}
}
