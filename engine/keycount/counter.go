// Package keycount counts keys without looking for them: a counter follows the writes, each of which says what it has
// replaced. The package knows no database.
//
// A writer that knows the record it replaces says so with [Counter.Add], and then the count is exact. A writer that
// does not know it, because it would have to read the record from the disk only for the count, replaces one that is
// taken to be as the last one that was looked at ([Counter.Guess]). One writer of [SampleEvery], chosen at random, does
// read it, and stands for all: the difference between the record and the guess counts SampleEvery times. So the
// expected count is right, however wrong the guess, and only differences make it vary. Their number is kept, hence the
// standard error is known: SampleEvery times the root of the number of differences that were seen.
//
// Times of expiry ("ends") and the present are milliseconds since the epoch; an end of 0 is never.
package keycount

import (
	"math"
	"sync"
	"sync/atomic"
	"time"
)

// SampleEvery is how many writers that do not know what they replace one of them reads for. The disk sees that many
// times fewer reads than writes; the standard error grows with it.
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
	missed int64           // wrong guesses that make the count vary for ever
	// Those that do so for a time, by its end, less those whose time has not begun, by its beginning.
	misses buckets
	slack  int64 // how far the count may be off besides
	// loose: there are keys with an expiry that were counted as having none.
	loose bool
}

const (
	// exactWindow is up to how many milliseconds ahead expiries are known to the millisecond.
	exactWindow = 60 * 1000
	// exactMost is how many milliseconds may be remembered before those that have passed are forgotten.
	exactMost = 2 * exactWindow
)

// New makes a counter of no keys.
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

// Add counts n keys with that end; n is negative for keys that are gone. An end in the past is allowed, and must be
// named for a key that is gone although it had expired.
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
	c.ends.add(ms/1000, n)
	if have := c.exact[ms]; n > 0 && ms/1000 >= now/1000 && ms-now < exactWindow || n < 0 && have > 0 {
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

// forget drops milliseconds of seconds that are not near. mu must be held.
func (c *Counter) forget(now int64) {
	for ms := range c.exact {
		if ms/1000 < now/1000 || ms > now+exactWindow {
			delete(c.exact, ms)
		}
	}
}

// Record is what of a key's record matters to the count.
type Record struct {
	Exists bool
	End    uint64
}

// guesses that are no time to live in milliseconds.
const (
	guessPlain  = 0 // exists without an expiry: the first guess
	guessAbsent = -1
)

// Guess returns what a record that a writer has not seen is taken to be.
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

// Learn makes what a writer has seen of a record the next guess.
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

// Unseen notes that a record was replaced that is not known; what is guessed of it is taken off by Add.
func (c *Counter) Unseen() {
	c.unknown.Add(1)
	if s := c.scan.Load(); s != nil {
		s.unknown.Add(1)
	}
}

// Missed notes that a guess was wrong. Of two records that expire, the count is wrong from the end of the one to that
// of the other; else it is from now on, until the record ends.
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

// Assume makes the counter begin with n keys of which nothing is known, not even whether they expire, and which may be
// off by slack.
func (c *Counter) Assume(n, slack int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.plain.Add(n)
	c.slack += slack
	c.loose = true
}

// Doubt says that the count may be off by so many keys more.
func (c *Counter) Doubt(slack int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.slack += slack
}

// Reset forgets all keys: there are none. A scan that is under way is given up.
func (c *Counter) Reset(now int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.scan.Store(nil)
	c.clear(now)
}

// BeginScan returns a counter for a scan, which adds to it the keys of a snapshot. It hears of all that c hears of from
// now on; so nothing may be added while it is made and the snapshot is taken. A scan that is under way is given up.
func (c *Counter) BeginScan(now int64) *Counter {
	s := New(now)
	c.scan.Store(s)
	return s
}

// Scanning reports whether this is the scan under way; nil asks for any.
func (c *Counter) Scanning(s *Counter) bool {
	now := c.scan.Load()
	return now != nil && (s == nil || s == now)
}

// EndScan makes the result of a scan the count, unless the scan was given up meanwhile. Nothing may be added until it
// returns. With a nil result the scan has failed.
func (c *Counter) EndScan(s *Counter, failed bool) {
	if !c.scan.CompareAndSwap(s, nil) || failed {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ends, c.misses, c.exact = s.ends, s.misses, s.exact
	c.missed, c.slack, c.loose = s.missed, s.slack, s.loose
	c.plain.Store(s.plain.Load())
	c.unknown.Store(s.unknown.Load())
}

// State is what a counter says.
type State struct {
	Keys    int64 // that have not expired
	Expires int64 // those of them that will expire
	Exact   bool
	// Bound is how far Keys may be off at a confidence of 95 %. After Assume it is about all keys that were assumed,
	// whether they have expired or not.
	Bound int64
}

// z95 is how many standard errors to either side of an estimate make 95 %.
const z95 = 1.96

// State returns the count at a present. steady is the time by a clock that cannot be set, from any fixed origin.
func (c *Counter) State(now int64, steady time.Duration) State {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ends.moveTo(now/1000-1, steady)
	c.misses.moveTo(now/1000-1, steady)
	s := State{Expires: c.ends.live}
	for ms := now / 1000 * 1000; ms < now && len(c.exact) > 0; ms++ {
		s.Expires -= int64(c.exact[ms])
	}
	s.Keys = max(c.plain.Load()+s.Expires, 0)
	s.Expires = max(s.Expires, 0)
	s.Bound = c.slack + c.ends.lost + c.spread()
	s.Exact = s.Bound == 0 && !c.loose
	return s
}

// spread returns 95 % of the error that guesses make. mu must be held.
//
// The number of wrong guesses that were seen is itself a matter of chance: 3 is the 95 % bound of what may have been
// when none was. Without any, the count cannot be off by more than one for each guess.
func (c *Counter) spread() int64 {
	unknown := c.unknown.Load()
	if unknown == 0 {
		return 0
	}
	missed := c.missed + max(c.misses.live, 0)
	bound := int64(math.Ceil(z95 * SampleEvery * math.Sqrt(float64(missed+3))))
	return min(bound, unknown+missed*SampleEvery)
}
