package session

import (
	"net"
	"slices"
	"testing"
	"time"
	"unsafe"

	"github.com/basaltdb/basalt/server/command"
	"github.com/basaltdb/basalt/server/metrics"
	"github.com/basaltdb/basalt/server/tracking"
	"github.com/basaltdb/basalt/server/wire"
)

// The tests of this package access the internals of sessions through this file.

// Loop is a session without a goroutine of its own: a test feeds it with commands.
type Loop = conn

// NewLoop returns a session that the server does not count as a client.
func NewLoop(s *Shared, nc net.Conn, id int64) *Loop { return newConn(s, nc, id) }

// Feed runs the commands in text.
func (c *conn) Feed(text string) {
	c.wire.Inject([]byte(text))
	c.process()
}

// Each calls f with the sessions of all clients.
func (s *Shared) Each(f func(c *conn)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.conns {
		f(c)
	}
}

// BePatient lets scripts run for any time in a transaction shared with other clients, until the test ends.
func BePatient(t *testing.T) {
	before := sharedPatience
	sharedPatience = time.Hour
	t.Cleanup(func() { sharedPatience = before })
}

// Newest returns the session that began last.
func (s *Shared) Newest() *conn { return s.byID(s.lastID.Load()) }

func (c *conn) Wire() *wire.Conn          { return c.wire }
func (c *conn) Session() *command.Session { return c.sess }
func (c *conn) Remote() bool              { return c.info.remote }

// Older makes a client appear to have connected earlier by d.
func (c *conn) Older(d time.Duration) { c.info.created = c.info.created.Add(-d) }

const (
	SegmentCommands = segmentCommands
	SegmentKeys     = segmentKeys
	SegmentBatch    = segmentBatch
	SegmentReplies  = segmentReplies
)

const (
	Detaches        = detaches
	MaxBlockedInput = maxBlockedInput
	ReplyPeriod     = replyPeriod
)

var ErrQueueFull = errQueueFull

// Add registers a session as a client, without serving it, until Remove.
func (s *Shared) Add(c *conn) {
	s.add(c)
	s.left.Done()
}

func (s *Shared) Remove(c *conn) { s.remove(c) }

func (s *Shared) Latency() *metrics.Latency                { return &s.latency }
func (s *Shared) SlowLog() *metrics.SlowLog                { return &s.slowlog }
func (s *Shared) PerfLog() *metrics.Log[command.PerfEntry] { return &s.perflog }

func (s *Shared) TrackingPeer(id int64) (tracking.Peer, bool) { return s.trackingPeer(id) }

// NoLatency switches the latency monitor off.
func (s *Shared) NoLatency() { s.observe(func(o *observed) { o.latency = never }) }

// SlowInGroups sets the threshold of the slow log, but calls are still measured in groups.
func (s *Shared) SlowInGroups(from time.Duration) {
	s.observe(func(o *observed) { o.slow = from })
	o := *s.observed.Load()
	o.exact = false // until the next observe
	s.observed.Store(&o)
}

// Monitored reports whether sessions show their commands to monitors.
func (s *Shared) Monitored() bool { return s.observed.Load().monitored }

// PauseKept reports whether the sessions still check a pause, which may be over.
func (s *Shared) PauseKept() bool { return s.observed.Load().pause != nil }

func (c *conn) OutputLimit() int { return c.outputLimit() }

// Replied makes a client appear to have been active later by d.
func (c *conn) Replied(d time.Duration) { c.info.lastActive.Add(int64(d)) }

// Execute runs decoded commands, and returns their replies and whether the session must end.
func (c *conn) Execute(specs []*command.Spec, args [][][]byte) (replies string, ends bool) {
	w := c.beginRun()
	defer w.tx.Release()
	w.reqs = nil // another session may have used the run before
	for i, spec := range specs {
		w.reqs = append(w.reqs, request{args: args[i], spec: spec})
	}
	w.execute()
	return string(w.out.Bytes()), c.closeAfterReply
}

// Served reports whether the client, which is blocked, has its reply.
func (c *conn) Served() bool { return c.blocked.poll() == served }

// FeedAndKept runs the commands in text, and returns what the session still keeps of the input: the size of the read
// buffer, and arguments.
func (c *conn) FeedAndKept(text string) (buffer int, args []string) {
	c.wire.Inject([]byte(text))
	w := c.beginRun()
	defer w.end()
	w.runAll()
	lists := [][][]byte{w.argv[:cap(w.argv)], w.userKeys[:cap(w.userKeys)], w.blindKeys[:cap(w.blindKeys)], w.top.ctx.Args}
	for _, r := range w.reqs[:cap(w.reqs)] {
		lists = append(lists, r.args)
	}
	for _, a := range slices.Concat(lists...) {
		if a != nil {
			args = append(args, string(a))
		}
	}
	return c.wire.InputCap(), args
}

// StepClock makes it appear that the system's clock was set forward by d since the start. No client may be connected.
// The accepting goroutine, which nothing here can wait for, reads the time only when a client connects.
//
//go:norace
func (s *Shared) StepClock(d time.Duration) {
	// In a time with a reading of the monotonic clock, bits 30 to 62 of the first word are the seconds of the system's.
	before := s.started
	*(*uint64)(unsafe.Pointer(&s.started)) -= uint64(d/time.Second) << 30
	if before.Round(0).Sub(s.started.Round(0)) != d || before.Sub(s.started) != 0 {
		panic("a time has another layout") // Round strips the reading of the monotonic clock
	}
}
