// Package metrics counts what the server does: calls, errors and durations by command, events that took long, and logs
// of single commands. It knows neither connections nor settings.
package metrics

import (
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/server/command"
)

// Stats are the server's counters. Any number of goroutines may use them.
type Stats struct {
	Connections   atomic.Int64 // accepted
	RejectedConns atomic.Int64
	Commands      atomic.Int64
	NetIn, NetOut atomic.Int64 // bytes
	// Reads and Writes are how often input was read from clients, and replies were sent.
	Reads, Writes  atomic.Int64
	ProtocolErrors atomic.Int64
	OutputLimit    atomic.Int64 // connections closed at the limit of their output
	QueryLimit     atomic.Int64 // connections closed at the limit of their input
	WriteErrors    atomic.Int64
	ErrorReplies   atomic.Int64
	// Samples are what rates are computed from.
	Samples Samples
	// Hot are the keys that get the most commands.
	Hot HotKeys
	// OnReset, if not nil, is called by Reset, for counters that live elsewhere. It is set before the first use.
	OnReset func()

	byID []commandStats // by command.Spec.ID

	mu     sync.Mutex
	errors map[string]int64 // by kind
}

type commandStats struct {
	calls, nsec, rejected, failed atomic.Int64
	latency                       atomic.Pointer[Histogram] // nil = no call was measured
}

// maxErrorKinds bounds the error statistics, whose names may come from scripts.
const maxErrorKinds = 128

// maxErrorCode is the longest name of a kind of errors, in bytes.
const maxErrorCode = 32

// NewStats returns counters for all commands of the table.
func NewStats() *Stats {
	return &Stats{byID: make([]commandStats, command.NumSpecs()), errors: map[string]int64{}}
}

// Reset is CONFIG RESETSTAT: all counters begin at 0 again. Rates go on.
func (s *Stats) Reset() {
	for _, c := range []*atomic.Int64{&s.Connections, &s.RejectedConns, &s.Commands, &s.NetIn, &s.NetOut,
		&s.Reads, &s.Writes,
		&s.ProtocolErrors, &s.OutputLimit, &s.QueryLimit, &s.WriteErrors, &s.ErrorReplies} {
		c.Store(0)
	}
	for i := range s.byID {
		c := &s.byID[i]
		for _, x := range []*atomic.Int64{&c.calls, &c.nsec, &c.rejected, &c.failed} {
			x.Store(0)
		}
		c.latency.Store(nil)
	}
	s.mu.Lock()
	clear(s.errors)
	s.mu.Unlock()
	if s.OnReset != nil {
		s.OnReset()
	}
}

// Call counts n calls of a command that took so many nanoseconds together. Commands is the caller's to count.
func (s *Stats) Call(id int, n, nsec int64) {
	c := &s.byID[id]
	c.calls.Add(n)
	c.nsec.Add(nsec)
}

// Measure adds n calls that took so long each to the histogram of a command.
func (s *Stats) Measure(id int, each time.Duration, n int64) { s.byID[id].histogram().Add(each, n) }

// Rejected counts a command that did not run, and its error reply; nil = an unknown command.
func (s *Stats) Rejected(spec *command.Spec, err error) {
	if spec != nil {
		s.byID[spec.ID].rejected.Add(1)
	}
	s.ErrorReply(err)
}

// Failed counts a command that ran and failed, and its error reply.
func (s *Stats) Failed(spec *command.Spec, err error) {
	s.CallFailed(spec)
	s.ErrorReply(err)
}

// CallFailed counts a command that ran and failed, whose error reply is counted elsewhere.
func (s *Stats) CallFailed(spec *command.Spec) { s.byID[spec.ID].failed.Add(1) }

// ErrorReply counts an error reply by its kind: the first word.
func (s *Stats) ErrorReply(err error) {
	code := "ERR"
	if e, ok := errors.AsType[*engine.Error](err); ok && e.Code != "" {
		code = e.Code
	} else if e != nil { // of a script: the text begins with it
		if first, _, more := strings.Cut(e.Text, " "); more && len(first) <= maxErrorCode {
			code = first
		}
	}
	s.ErrorReplies.Add(1)
	s.mu.Lock()
	if _, ok := s.errors[code]; ok || len(s.errors) < maxErrorKinds {
		s.errors[code]++
	}
	s.mu.Unlock()
}

// ErrorCount is how many error replies of a kind there were.
type ErrorCount struct {
	Code  string
	Count int64
}

// Errors returns how many error replies of each kind there were, sorted by kind.
func (s *Stats) Errors() []ErrorCount {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := make([]ErrorCount, 0, len(s.errors))
	for code, n := range s.errors {
		list = append(list, ErrorCount{code, n})
	}
	slices.SortFunc(list, func(a, b ErrorCount) int { return strings.Compare(a.Code, b.Code) })
	return list
}

// CommandCount is what was counted of one command.
type CommandCount struct {
	Calls, Rejected, Failed int64
	Took                    time.Duration // of all calls together
	Latency                 *Histogram    // nil = no call was measured
}

// Command returns what was counted of a command.
func (s *Stats) Command(id int) CommandCount {
	c := &s.byID[id]
	return CommandCount{Calls: c.calls.Load(), Rejected: c.rejected.Load(), Failed: c.failed.Load(),
		Took: time.Duration(c.nsec.Load()), Latency: c.latency.Load()}
}

// Latencies returns the distribution of a command's durations; ok is false when no call was measured.
func (s *Stats) Latencies(spec *command.Spec) (usec, counts []int64, calls int64, ok bool) {
	h := s.byID[spec.ID].latency.Load()
	if h == nil {
		return nil, nil, 0, false
	}
	usec, counts, calls = h.Cumulative()
	return usec, counts, calls, calls > 0
}

// Frequency is OBJECT FREQ, see [HotKeys.Frequency].
func (s *Stats) Frequency(namespace string, key []byte) int64 {
	return s.Hot.Frequency(namespace, key, time.Now())
}
