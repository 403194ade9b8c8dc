// Package keycount counts keys without a scan: a counter follows the writes, each of which says what it has replaced.
// The package does not know the database.
//
// A writer that knows the record it replaces reports it with [Counter.Add]; then the count is exact. A writer that does
// not know the record, because it would have to read it from the disk only for the count, assumes that the record is
// like the last one that was read ([Counter.Guess]). One such writer of [SampleEvery], chosen at random, does read the
// record and stands for all: the difference between the record and the guess counts SampleEvery times. So the expected
// count is correct, however wrong the guesses; only the differences make the count vary. The counter keeps their
// number, and so knows the standard error: SampleEvery times the root of the number of differences that were seen.
//
// Times of expiry ("ends") and the present are milliseconds since the epoch; an end of 0 is never.
package keycount

import (
	"math"
	"sync"
	"sync/atomic"
	"time"
)

// SampleEvery: one of so many writers that do not know what they replace reads the record. The disk sees that many
// times fewer reads than writes; the standard error grows with SampleEvery.
const SampleEvery = 256

// Counter counts the keys of one namespace. Its methods may be called by several goroutines, except where they say
// otherwise.
type Counter struct {
	plain   atomic.Int64 // keys without an expiry
	unknown atomic.Int64 // records that were replaced unseen
	scan    atomic.Pointer[Counter]
	guess   atomic.Int64 // see Guess

	mu     sync.Mutex
	ends   buckets         // keys with an expiry
	exact  map[int64]int32 // some of them by millisecond
	missed int64           // wrong guesses that make the count vary permanently
	// Wrong guesses that make the count vary for a time: +1 at the end of that time, -1 at its beginning.
	misses buckets
	slack  int64 // further max error of the count
	// loose: keys with an expiry may have been counted as keys without.
	loose bool
	// expired is how many keys have expired, as far as the windows of ends have moved.
	expired int64
}

const (
	// ExactWindow is how many milliseconds ahead expiries are known to the millisecond. Those that were further ahead when
	// they were added are known to the second.
	ExactWindow = 60 * 1000
	// exactMost is the max number of milliseconds in exact before those that have passed are forgotten.
	exactMost = 2 * ExactWindow
)

// New makes a counter with no keys.
func New(now int64) *Counter {
	c := &Counter{}
	c.clear(now)
	return c
}

func (c *Counter) clear(now int64) {
	c.plain.Store(0)
	c.unknown.Store(0)
	c.ends, c.misses = newBuckets(now/1000-1), newBuckets(now/1000-1)
	c.exact = map[int64]int32{}
	c.missed, c.slack, c.loose = 0, 0, false
}

// Add counts n keys with that end; n is negative for keys that are gone. An end in the past is allowed, and is required
// for a key that is removed after its expiry.
func (c *Counter) Add(end uint64, n int, now int64) {
	c.add(end, n, now)
	if s := c.scan.Load(); s != nil {
		s.add(end, n, now)
	}
}

func (c *Counter) add(end uint64, n int, now int64) {
	if end == 0 {
		c.plain.Add(int64(n))
		return
	}
	ms := int64(min(end, math.MaxInt64))
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.loose && n < 0 && !c.ends.holds(ms/1000) {
		c.plain.Add(int64(n))
		return
	}
	if c.ends.add(ms/1000, n) && n < 0 && ms < now {
		c.expired -= int64(n) // the windows have not moved since
	}
	if have := c.exact[ms]; n > 0 && ms/1000 >= now/1000 && ms-now < ExactWindow || n < 0 && have > 0 {
		if have += int32(n); have > 0 {
			c.exact[ms] = have
		} else {
			delete(c.exact, ms)
		}
		if len(c.exact) > exactMost {
			c.forget(now)
		}
	}
}

// forget drops the milliseconds of seconds that are not near the present. mu must be held.
func (c *Counter) forget(now int64) {
	for ms := range c.exact {
		if ms/1000 < now/1000 || ms > now+ExactWindow {
			delete(c.exact, ms)
		}
	}
}

// Record is the part of a key's record that matters to the count.
type Record struct {
	Exists bool
	End    uint64
}

// guesses that are not a time to live in milliseconds.
const (
	guessPlain  = 0 // exists without an expiry: the first guess
	guessAbsent = -1
)

// Guess returns the assumed state of a record that a writer has not read.
func (c *Counter) Guess(now int64) Record {
	switch g := c.guess.Load(); g {
	case guessPlain:
		return Record{Exists: true}
	case guessAbsent:
		return Record{}
	default:
		return Record{Exists: true, End: uint64(now + g)}
	}
}

// Learn makes the record that a writer has read the next guess.
func (c *Counter) Learn(r Record, now int64) {
	switch {
	case !r.Exists:
		c.guess.Store(guessAbsent)
	case r.End == 0:
		c.guess.Store(guessPlain)
	default:
		c.guess.Store(max(int64(min(r.End, math.MaxInt64))-now, 1))
	}
}

// Unseen notes that an unknown record was replaced. Add subtracts the guess.
func (c *Counter) Unseen() {
	c.unknown.Add(1)
	if s := c.scan.Load(); s != nil {
		s.unknown.Add(1)
	}
}

// Missed notes that a guess was wrong. If both records expire, the count is wrong between their two ends. Otherwise it
// is wrong from now on, permanently if one of the records exists without an expiry.
func (c *Counter) Missed(guess, truth Record) {
	c.miss(guess, truth)
	if s := c.scan.Load(); s != nil {
		s.miss(guess, truth)
	}
}

func (c *Counter) miss(guess, truth Record) {
	second := func(r Record) int64 { return int64(min(r.End, math.MaxInt64)) / 1000 }
	c.mu.Lock()
	defer c.mu.Unlock()
	if guess.Exists && guess.End == 0 || truth.Exists && truth.End == 0 {
		c.missed++
		return
	}
	c.misses.add(max(second(guess), second(truth)), 1)
	if guess.Exists && truth.Exists {
		c.misses.add(min(second(guess), second(truth)), -1)
	}
}

// Assume makes the counter begin with n unknown keys: not even whether they expire is known. Their number may be off
// by slack.
func (c *Counter) Assume(n, slack int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.plain.Add(n)
	c.slack += slack
	c.loose = true
}

// Doubt says that the count may be off by slack more keys.
func (c *Counter) Doubt(slack int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.slack += slack
}

// Reset sets the count to zero. A running scan is abandoned.
func (c *Counter) Reset(now int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.scan.Store(nil)
	c.clear(now)
}

// BeginScan returns a counter for a scan, which adds the keys of a snapshot to it. That counter also gets all changes
// of c from now on, so nothing may be added between BeginScan and taking the snapshot. A running scan is abandoned.
func (c *Counter) BeginScan(now int64) *Counter {
	s := New(now)
	c.scan.Store(s)
	return s
}

// Scanning reports whether s is the running scan; s = nil asks whether any scan is running.
func (c *Counter) Scanning(s *Counter) bool {
	now := c.scan.Load()
	return now != nil && (s == nil || s == now)
}

// EndScan makes the result of a scan the count, unless the scan was abandoned meanwhile. Nothing may be added until
// EndScan returns. failed says that the scan has failed and has no result.
func (c *Counter) EndScan(s *Counter, failed bool) {
	if !c.scan.CompareAndSwap(s, nil) || failed {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ends.now > s.ends.now { // what has expired meanwhile is counted already
		s.ends.moveTo(c.ends.now, s.ends.lastDrop)
	}
	c.ends, c.misses, c.exact = s.ends, s.misses, s.exact
	c.missed, c.slack, c.loose = s.missed, s.slack, s.loose
	c.plain.Store(s.plain.Load())
	c.unknown.Store(s.unknown.Load())
}

// State is the result of a counter.
type State struct {
	Keys    int64 // that have not expired
	Expires int64 // how many of them will expire
	Expired int64 // how many keys have expired since the counter exists; up to a second late
	Exact   bool
	// Bound is the max error of Keys at a confidence of 95 %. After Assume it is about the number of all assumed keys,
	// whether they have expired or not.
	Bound int64
}

// z95 is the number of standard errors to either side of an estimate for a confidence of 95 %.
const z95 = 1.96

// State returns the count at a present. steady is the time of a monotonic clock of any fixed origin.
func (c *Counter) State(now int64, steady time.Duration) State {
	c.mu.Lock()
	defer c.mu.Unlock()
	ahead := c.ends.live
	c.ends.moveTo(now/1000-1, steady)
	c.expired += ahead - c.ends.live
	c.misses.moveTo(now/1000-1, steady)
	s := State{Expires: c.ends.live, Expired: c.expired}
	for ms := now / 1000 * 1000; ms < now && len(c.exact) > 0; ms++ {
		s.Expires -= int64(c.exact[ms])
	}
	s.Keys = max(c.plain.Load()+s.Expires, 0)
	s.Expires = max(s.Expires, 0)
	s.Bound = c.slack + c.ends.lost + c.spread()
	s.Exact = s.Bound == 0 && !c.loose
	return s
}

// spread returns the 95 % bound of the error that guesses cause. mu must be held.
//
// The number of wrong guesses that were seen is itself random: when none was seen, the 95 % bound of their expected
// number is 3. In any case the count cannot be off by more than one for each guess.
func (c *Counter) spread() int64 {
	unknown := c.unknown.Load()
	if unknown == 0 {
		return 0
	}
	missed := c.missed + max(c.misses.live, 0)
	bound := int64(math.Ceil(z95 * SampleEvery * math.Sqrt(float64(missed+3))))
	return min(bound, unknown+missed*SampleEvery)
}
