package session

import (
	"time"

	"github.com/basaltdb/basalt/server/acl"
	"github.com/basaltdb/basalt/server/command"
)

// add registers a connection as a client, and left counts it until its session ends. It returns false when the server
// is being closed.
func (s *Shared) add(c *conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing.Load() {
		return false
	}
	s.conns[c.sess.ID] = c
	if c.info.remote {
		s.remote.Add(1)
	}
	s.left.Add(1)
	return true
}

func (s *Shared) remove(c *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conns[c.sess.ID] == c {
		delete(s.conns, c.sess.ID)
		if c.info.remote {
			s.remote.Add(-1)
		}
	}
}

// Clients returns how many clients are connected.
func (s *Shared) Clients() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.conns)
}

// OnlyLocalClients reports whether all connected clients are on this host.
func (s *Shared) OnlyLocalClients() bool { return s.remote.Load() == 0 }

// byID returns a connection, nil = it does not exist.
func (s *Shared) byID(id int64) *conn {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.conns[id]
}

// WakeIdle makes idle connections check the setting timeout again.
func (s *Shared) WakeIdle() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing.Load() {
		return
	}
	for _, c := range s.conns {
		// Some connections have a deadline of another kind.
		if c.info.waiter.Load() == nil && !c.shaking.Load() && !c.info.view.Load().replica {
			c.wire.Wake()
		}
	}
}

// CloseSubscribers closes the connections of a user with subscriptions that the user may no longer have.
func (s *Shared) CloseSubscribers(user *acl.User) {
	denied := s.Hub.Select(func(kind command.SubscriptionKind, name string) bool {
		return !user.MayAccessChannel([]byte(name), kind == command.Pattern)
	})
	s.mu.Lock()
	var lost []*conn
	for _, c := range s.conns {
		if denied[&c.subs] && c.info.view.Load().user == user.Name() {
			lost = append(lost, c)
		}
	}
	s.mu.Unlock()
	for _, c := range lost {
		c.kill()
	}
}

// Describe returns what CLIENT INFO shows of a connection, for ACL LOG: go-redis parses both.
func (s *Shared) Describe(id int64) string {
	c := s.byID(id)
	if c == nil {
		return ""
	}
	i := c.describe(time.Now())
	return i.InfoLine()
}

// Counts are numbers of clients that INFO shows.
type Counts struct {
	Clients, Monitors int
	Blocked, Paused   int // clients that wait for data, and for the end of a pause
	// Keys counts the keys that clients are blocked on; NoKey counts those with clients that also wait for the
	// deletion.
	Keys, NoKey int
}

// Counts returns the current numbers.
func (s *Shared) Counts() Counts {
	n := Counts{Clients: s.Clients(), Monitors: s.monitors.len(), Blocked: int(s.waiters.n.Load()),
		Paused: int(s.paused.Load())}
	n.Keys, n.NoKey = s.waiters.counts()
	return n
}
