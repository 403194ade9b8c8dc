package server

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/server/command"
)

// stats are the server's counters.
type stats struct {
	connections, rejectedConns atomic.Int64
	commands                   atomic.Int64
	netIn, netOut              atomic.Int64
	protocolErrors             atomic.Int64
	outputLimit                atomic.Int64
	writeErrors                atomic.Int64
	errorReplies               atomic.Int64
	since                      atomic.Int64   // unix ms of the last reset
	calls                      []commandStats // by command ID
	mu                         sync.Mutex
	errors                     map[string]int64
	samples                    samples
}

type commandStats struct {
	calls, nsec, rejected, failed atomic.Int64
	latency                       atomic.Pointer[histogram] // nil = no call was measured
}

// maxErrorKinds bounds the error statistics, whose names may come from scripts.
const maxErrorKinds = 128

// maxErrorCode is how long such a name may be.
const maxErrorCode = 32

func (s *stats) init() {
	s.calls = make([]commandStats, command.NumSpecs())
	s.errors = map[string]int64{}
	s.since.Store(time.Now().UnixMilli())
}

// reset is CONFIG RESETSTAT.
func (s *stats) reset() {
	for _, c := range []*atomic.Int64{&s.connections, &s.rejectedConns, &s.commands, &s.netIn, &s.netOut, &s.protocolErrors, &s.outputLimit, &s.writeErrors, &s.errorReplies} {
		c.Store(0)
	}
	for i := range s.calls {
		c := &s.calls[i]
		for _, x := range []*atomic.Int64{&c.calls, &c.nsec, &c.rejected, &c.failed} {
			x.Store(0)
		}
		c.latency.Store(nil)
	}
	s.mu.Lock()
	clear(s.errors)
	s.mu.Unlock()
}

func (s *stats) rejected(spec *command.Spec, err error) {
	if spec != nil {
		s.calls[spec.ID].rejected.Add(1)
	}
	s.failed(err)
}

func (s *stats) failed(err error) {
	code := "ERR"
	var e *engine.Error
	if errors.As(err, &e) && e.Code != "" {
		code = e.Code
	} else if e != nil { // of a script: the text begins with it
		if first, _, more := strings.Cut(e.Text, " "); more && len(first) <= maxErrorCode {
			code = first
		}
	}
	s.errorReplies.Add(1)
	s.mu.Lock()
	if _, ok := s.errors[code]; ok || len(s.errors) < maxErrorKinds {
		s.errors[code]++
	}
	s.mu.Unlock()
}

type errorCount struct {
	code  string
	count int64
}

// errorCounts returns how often each kind of error was replied, sorted by kind.
func (s *stats) errorCounts() []errorCount {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := make([]errorCount, 0, len(s.errors))
	for code, n := range s.errors {
		list = append(list, errorCount{code, n})
	}
	slices.SortFunc(list, func(a, b errorCount) int { return strings.Compare(a.code, b.code) })
	return list
}

// ResetStats is CONFIG RESETSTAT.
func (s *Server) ResetStats() {
	s.stats.reset()
	s.db.Stats.Hits.Store(0)
	s.db.Stats.Misses.Store(0)
}

// account adds what was counted since the last time to the server's counters.
func (c *conn) account() {
	s := &c.calls
	if len(s.touched) == 0 {
		return
	}
	var total int64
	for _, id := range s.touched {
		n := &s.byID[id]
		g := &c.srv.stats.calls[id]
		g.calls.Add(n.calls)
		g.nsec.Add(n.nsec)
		total += n.calls
		*n = callCount{}
	}
	c.srv.stats.commands.Add(total)
	c.info.cmds.Add(total)
	c.info.lastCmd.Store(command.ByID(int(s.touched[len(s.touched)-1])))
	c.info.lastActive.Store(c.srv.started.Add(c.clock).UnixMilli())
	s.touched = s.touched[:0]
}

// samples keeps the counters of the last 1.6 seconds, 100 ms apart, for the "instantaneous" figures.
type samples struct {
	mu   sync.Mutex
	ring [16]sample
	n    int
}

type sample struct {
	at                      time.Time
	commands, netIn, netOut int64
	tickers                 [len(rated)]uint64
}

func (s *samples) add(x sample) {
	s.mu.Lock()
	s.ring[s.n%len(s.ring)] = x
	s.n++
	s.mu.Unlock()
}

// rates are a second's worth of what is counted, over the samples.
type rates struct {
	commands, netIn, netOut float64
	tickers                 [len(rated)]float64
}

func (s *samples) rates() (r rates) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.n < 2 {
		return r
	}
	newest := &s.ring[(s.n-1)%len(s.ring)]
	oldest := &s.ring[max(0, s.n-len(s.ring))%len(s.ring)]
	d := newest.at.Sub(oldest.at).Seconds()
	if d <= 0 {
		return r
	}
	// Counters that were reset in between count as zero.
	r.commands = max(0, float64(newest.commands-oldest.commands)/d)
	r.netIn = max(0, float64(newest.netIn-oldest.netIn)/d)
	r.netOut = max(0, float64(newest.netOut-oldest.netOut)/d)
	for i := range r.tickers {
		r.tickers[i] = max(0, (float64(newest.tickers[i])-float64(oldest.tickers[i]))/d)
	}
	return r
}

// newRunID makes the 40 hexadecimal digits that tell one run of a server from another.
func newRunID() string {
	var b [20]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}
