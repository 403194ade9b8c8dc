package accounts

import (
	"sync"
	"time"

	"github.com/basaltdb/basalt/server/acl"
)

const (
	defaultLogEntries = 128
	// groupWithin is how long equal events are added to one entry.
	groupWithin = 60 * time.Second
	// groupDepth is how many of the newest entries are compared with an event.
	groupDepth = 10
	// maxLogText is the max length in bytes of the object, the user name and the client description, which clients
	// choose.
	maxLogText = 4096
)

// Context is the context of a denied action.
type Context uint8

// The contexts.
const (
	TopLevel Context = iota
	Multi
	Script
)

// String returns the name of the context in ACL LOG.
func (c Context) String() string { return [...]string{"toplevel", "multi", "lua"}[c] }

// Event is a denied action.
type Event struct {
	Reason  acl.Denied
	Context Context
	// Object is the key, the channel or the command name; for a failed authentication, the name of the authenticating
	// command.
	Object   string
	Username string
	Client   string // in the form of CLIENT LIST
}

// Entry is a group of events in the log that are equal except for the client.
type Entry struct {
	Event
	ID               int64
	Count            int64
	Created, Updated time.Time
}

// Log holds the latest denied actions, with bounded memory. Its methods are safe for concurrent use.
type Log struct {
	mu      sync.Mutex
	max     int
	nextID  int64
	entries []Entry // newest last
	counts  [acl.Reasons]int64
}

func (l *Log) Add(e Event, now time.Time) {
	e.Object, e.Username, e.Client = bounded(e.Object), bounded(e.Username), bounded(e.Client)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.counts[e.Reason]++
	if l.max == 0 {
		return
	}
	n := len(l.entries)
	for i := n - 1; i >= max(0, n-groupDepth); i-- {
		have := l.entries[i]
		if have.Reason == e.Reason && have.Context == e.Context && have.Object == e.Object && have.Username == e.Username &&
			now.Sub(have.Updated).Abs() <= groupWithin {
			have.Client, have.Updated = e.Client, now
			have.Count++
			copy(l.entries[i:], l.entries[i+1:])
			l.entries[n-1] = have
			return
		}
	}
	if n == l.max {
		copy(l.entries, l.entries[1:])
		l.entries = l.entries[:n-1]
	}
	l.entries = append(l.entries, Entry{Event: e, ID: l.nextID, Count: 1, Created: now, Updated: now})
	l.nextID++
}

func bounded(s string) string { return s[:min(len(s), maxLogText)] }

// Entries returns the n newest entries, newest first.
func (l *Log) Entries(n int) []Entry {
	l.mu.Lock()
	defer l.mu.Unlock()
	var list []Entry
	for i := len(l.entries) - 1; i >= 0 && len(list) < n; i-- {
		list = append(list, l.entries[i])
	}
	return list
}

// Reset removes the entries; the counters and the numbering continue.
func (l *Log) Reset() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.entries = nil
}

// SetMax changes the max number of entries; 0 = none.
func (l *Log) SetMax(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.max = max(n, 0)
	if have := len(l.entries); have > l.max {
		l.entries = append([]Entry(nil), l.entries[have-l.max:]...)
	}
}

// Count returns how many actions were denied for a reason since the start: INFO's acl_access_denied_auth and similar
// fields.
func (l *Log) Count(reason acl.Denied) int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.counts[reason]
}
