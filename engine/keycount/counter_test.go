package keycount

import (
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/basaltdb/basalt/internal/require"
)

// total is State for tests in which the two clocks go alike.
func total(c *Counter, now int64) (keys, expires int64) {
	s := c.State(now, time.Duration(now)*time.Millisecond)
	return s.Keys, s.Expires
}

// counted is a key of the counter's model, or with n below 0 one that was taken off another bucket than it is in.
type counted struct {
	expire int64 // ms, 0 = never
	until  int64 // the key counts while the clock shows less; 0 = for ever
	n      int64
}

// until applies the rules of the counter to a key that expires, and is there while the clock shows that very time.
func until(c *Counter, expire, now int64) int64 {
	switch {
	case expire == 0:
		return 0
	case expire/1000 >= now/1000 && expire-now < ExactWindow:
		return expire + 1
	}
	return (last(c.ends.bucket(expire/1000)) + 1) * 1000
}

// TestCounterAgainstModel moves a clock on by milliseconds up to weeks, and at times back, and compares the count with
// keys that are counted one by one. No two keys expire in the same millisecond; TestCounterSharedMillisecond is about
// those.
func TestCounterAgainstModel(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	const day = 24 * 3600 * 1000
	now, steady := int64(1_700_000_000_123), time.Duration(0)
	c := New(now)
	back := 0
	spans := []int64{300, 5000, 59_999, 60_001, 200_000, 3600_000, day, 63 * day, 65 * day, 400 * day, 5000 * day}
	var keys []counted
	used := map[int64]bool{0: true}
	add := func(expire int64) {
		used[expire] = true
		keys = append(keys, counted{expire, until(c, expire, now), 1})
		c.Add(uint64(expire), 1, now)
	}
	remove := func() {
		i := rng.IntN(len(keys))
		k := keys[i]
		if k.n < 0 || k.expire < 0 {
			return
		}
		u, second := until(c, k.expire, now), (k.expire/1000+1)*1000
		if k.until == k.expire+1 || k.until == u || u == k.expire+1 && k.until == second {
			keys[i] = keys[len(keys)-1]
			keys = keys[:len(keys)-1]
		} else {
			if u == k.expire+1 {
				u = second
			}
			keys = append(keys, counted{k.expire, u, -1})
			keys[i].expire = -1 // cannot go again
		}
		c.Add(uint64(k.expire), -1, now)
	}
	late := 0 // checks at which a key was still counted after its expiry
	for step := range 30000 {
		switch rng.IntN(8) {
		case 0, 1, 2:
			expire := int64(0)
			if rng.IntN(4) > 0 {
				for used[expire] {
					expire = now + rng.Int64N(spans[rng.IntN(len(spans))])
				}
			}
			add(expire)
		case 3, 4: // a key goes, maybe after its expiry: its record was still there
			if len(keys) > 0 {
				remove()
			}
		default:
			forward := rng.Int64N([]int64{2, 50, 1000, 1001, 61_000, 3600_000}[rng.IntN(6)])
			if rng.IntN(2000) == 0 {
				forward += rng.Int64N(20 * day)
			}
			if rng.IntN(50) == 0 && forward > 10_000 { // the clock is set back a little, and nothing is written before that
				at := now - 1000 - rng.Int64N(3600_000)
				c.State(at, steady)
				back++
			}
			now += forward
			steady += time.Duration(forward) * time.Millisecond
			var want, wantExpires int64
			for _, k := range keys {
				if k.until == 0 || now < k.until {
					want += k.n
					if k.expire != 0 {
						wantExpires += k.n
						if k.expire > 0 && k.expire < now {
							late++
						}
					}
				}
			}
			if s := c.State(now, steady); s.Keys != want || s.Expires != wantExpires || !s.Exact {
				t.Fatalf("step %d: %+v, want %d, %d with an expiry", step, s, want, wantExpires)
			}
		}
	}
	if late == 0 || back == 0 {
		t.Error("no key was looked at between its expiry and the end of its bucket")
	}
	// In the end, when all have expired for days, nothing is left over in any window.
	now += 6000 * day
	keep := int64(0)
	for _, k := range keys {
		if k.expire == 0 {
			keep += k.n
		}
	}
	for range 3 {
		steady += 25 * time.Hour
		if s := c.State(now, steady); s.Keys != keep || s.Expires != 0 {
			t.Errorf("after all have expired: %+v, want %d", s, keep)
		}
	}
	c.forget(now)
	if len(c.exact) != 0 || len(c.ends.pages) > 3 {
		t.Errorf("%d milliseconds and %d pages are kept for what has passed", len(c.exact), len(c.ends.pages))
	}
}

// TestClockJumps sets the clock forward and back.
func TestClockJumps(t *testing.T) {
	const day, start = int64(24 * 3600 * 1000), int64(1_700_000_000_000)
	for _, tt := range []struct {
		name    string
		forward int64 // ms
		away    time.Duration
		exact   bool
	}{
		{"for a minute by an hour", 3600 * 1000, time.Minute, true},
		{"for a minute by a year", 366 * day, time.Minute, true},
		{"for an hour by ten years", 3660 * day, time.Hour, true},
		{"for three days by a year", 366 * day, 73 * time.Hour, false},
	} {
		c, steady := New(start), time.Duration(0)
		c.Add(0, 5, start)
		for i := range 100 { // from half a minute to 50 days
			c.Add(uint64(start+30_000+int64(i)*day/2), 1, start)
		}
		c.State(start, steady)
		c.State(start+tt.forward, steady)
		for range 3 { // while it is away, the counter is asked
			steady += tt.away / 3
			c.State(start+tt.forward+steady.Milliseconds(), steady)
		}
		passed := steady.Milliseconds() > 30_000
		want := int64(105)
		if passed {
			want -= (steady.Milliseconds()-30_000)/(day/2) + 1
		}
		s := c.State(start+steady.Milliseconds(), steady)
		if tt.exact && (s.Keys != want || !s.Exact) {
			t.Errorf("%s: %+v, want %d", tt.name, s, want)
		}
		if !tt.exact && (s.Exact || s.Keys+s.Bound < want || s.Keys > want) {
			t.Errorf("%s: %+v, want an estimate of %d", tt.name, s, want)
		}
		// What is written now counts.
		c.Add(uint64(start+steady.Milliseconds()+5000), 1, start+steady.Milliseconds())
		if after := c.State(start+steady.Milliseconds(), steady); after.Keys != s.Keys+1 {
			t.Errorf("%s: a new key makes %d of %d", tt.name, after.Keys, s.Keys)
		}
	}
}

// TestMemoryIsBounded: any number of keys with any expiries takes a fixed number of pages.
func TestMemoryIsBounded(t *testing.T) {
	const now = int64(1_700_000_000_000)
	c := New(now)
	b := &c.ends
	for sec := b.start; sec < b.start+secondsSpan; sec += pageLen {
		b.add(sec, 1)
	}
	for sec := b.start; sec < b.start+minutesSpan; sec += 60 * pageLen / 2 {
		b.add(sec, 1)
	}
	for sec := b.start; sec < b.start+daysSpan; sec += day * pageLen / 2 {
		b.add(sec, 1)
	}
	b.add(farEnd, 1)
	full := len(b.pages)
	if size := full * pageLen * 4; size > 33<<20 {
		t.Errorf("the pages take %d bytes", size)
	}
	rng := rand.New(rand.NewPCG(1, 2))
	for range 1 << 18 {
		c.Add(uint64(now)+rng.Uint64()>>rng.IntN(64), 1, now)
		c.Add(uint64(now+rng.Int64N(30_000)), 1, now-int64(rng.IntN(2)*120_000))
	}
	if len(b.pages) > full+2 || len(c.exact) > exactMost {
		t.Errorf("%d pages instead of %d, %d milliseconds", len(b.pages), full, len(c.exact))
	}
}

// TestEstimate replaces records unseen, with one in SampleEvery looked at, and finds the truth within the bound.
func TestEstimate(t *testing.T) {
	const now, minute = int64(1_700_000_000_000), 60_000
	plain, none := Record{Exists: true}, Record{}
	ttl := func(rng *rand.Rand) Record { return Record{true, uint64(now + minute + rng.Int64N(100*minute))} }
	for name, f := range map[string]struct {
		old     func(rng *rand.Rand) Record
		loosest int64 // bound at once, and
		soon    int64 // while keys expire
	}{
		"all exist":    {func(*rand.Rand) Record { return plain }, 900, 900},
		"none exists":  {func(*rand.Rand) Record { return none }, 1100, 1100},
		"half of them": {func(rng *rand.Rand) Record { return []Record{plain, none}[rng.IntN(2)] }, 8600, 8600},
		"one in a thousand": {func(rng *rand.Rand) Record { return []Record{none, plain}[min(rng.IntN(1000), 1)] },
			1500, 1500},
		"with an expiry": {ttl, 1200, 9000},
	} {
		good := 0
		const runs, writes = 20, 1 << 17
		for run := range runs {
			rng := rand.New(rand.NewPCG(uint64(run), 7))
			c := New(now)
			truth := int64(0)
			for range writes { // each replaces one of as many keys by one without an expiry
				old := f.old(rng)
				if old.Exists {
					c.Add(old.End, 1, now)
				}
				truth++
				c.Unseen()
				guess := c.Guess(now)
				if rng.IntN(SampleEvery) == 0 {
					if c.Learn(old, now); old != guess {
						c.Missed(guess, old)
						if guess.Exists {
							c.Add(guess.End, SampleEvery, now)
						}
						if old.Exists {
							c.Add(old.End, -SampleEvery, now)
						}
					}
				}
				if guess.Exists {
					c.Add(guess.End, -1, now)
				}
				c.Add(0, 1, now)
			}
			s := c.State(now, 0)
			if s.Exact || s.Bound > f.loosest {
				t.Errorf("%s: %+v", name, s)
			}
			later := c.State(now+50*minute, 0)
			end := c.State(now+1000*minute, 0)
			if later.Bound > f.soon || end.Bound > f.loosest {
				t.Errorf("%s: later %+v, at the end %+v", name, later, end)
			}
			if abs(s.Keys-truth) <= s.Bound && abs(later.Keys-truth) <= later.Bound && abs(end.Keys-truth) <= end.Bound {
				good++
			}
		}
		if good < runs-2 {
			t.Errorf("%s: %d of %d estimates are within their bound", name, good, runs)
		}
	}
}

func abs(n int64) int64 { return max(n, -n) }

// TestScan: a scan makes an estimate exact, with what is written meanwhile.
func TestScan(t *testing.T) {
	const now = int64(1_700_000_000_000)
	c := New(now)
	c.Assume(100, 50)
	c.Add(uint64(now+5000), -1, now) // of a key that was assumed
	if s := c.State(now, 0); s.Keys != 99 || s.Expires != 0 || s.Bound != 50 {
		t.Errorf("%+v", s)
	}
	s := c.BeginScan(now)
	c.Add(uint64(now+9000), -1, now) // before the scan comes to it
	c.Add(0, 1, now)
	s.Add(uint64(now+9000), 1, now)
	s.Add(0, 7, now)
	c.EndScan(s, false)
	if s := c.State(now, 0); s != (State{Keys: 8, Exact: true}) {
		t.Errorf("%+v", s)
	}
	for name, give := range map[string]func(s *Counter){
		"it fails":         func(s *Counter) { c.EndScan(s, true) },
		"the keys go":      func(s *Counter) { c.Reset(now); c.Add(0, 8, now); c.EndScan(s, false) },
		"another one runs": func(s *Counter) { o := c.BeginScan(now); c.EndScan(s, false); c.EndScan(o, true) },
	} {
		s := c.BeginScan(now)
		s.Add(0, 5, now)
		give(s)
		if s := c.State(now, 0); s.Keys != 8 || c.Scanning(nil) {
			t.Errorf("%s: %+v", name, s)
		}
	}
}

// sample makes counts of all kinds.
func sample(now int64) *Saved {
	c := New(now)
	c.Add(0, 7, now)
	for _, end := range []int64{now - 5000, now + 1, now + 10_000, now + 1_000_000, now + 1e11, now + 1e12, 1 << 62} {
		c.Add(uint64(end), 3, now)
	}
	d := New(now)
	d.Assume(1000, 400)
	d.Unseen()
	d.Missed(Record{Exists: true}, Record{})
	d.Missed(Record{Exists: true, End: uint64(now + 60_000)}, Record{})
	all := map[string]*Counter{"": c, "db7": d, "gone": New(now)}
	return &Saved{Identity: "id", Manifest: "MANIFEST-000007\n", Sequence: 1 << 40, Counters: all}
}

func TestFile(t *testing.T) {
	const now = int64(1_700_000_000_000)
	dir := t.TempDir()
	if s, err := Read(dir, now); s != nil || err != nil {
		t.Errorf("without a file: %v %v", s, err)
	}
	saved := sample(now)
	require.NoError(t, saved.Write(dir))
	got, err := Read(dir, now+500)
	require.NoError(t, err)
	if got.Identity != saved.Identity || got.Manifest != saved.Manifest || got.Sequence != saved.Sequence ||
		len(got.Counters) != 3 {
		t.Errorf("%+v", got)
	}
	for ns, c := range saved.Counters {
		for _, at := range []int64{500, 20_000, 100_000_000, 2e11, 5e12, -7000} {
			if want, have := c.State(now+at, 0), got.Counters[ns].State(now+at, 0); have != want {
				t.Errorf("%q after %d: %+v, want %+v", ns, at, have, want)
			}
		}
	}
	b := saved.Append(nil)
	for i := range b {
		bad := append([]byte(nil), b...)
		bad[i] ^= 1
		for _, bad := range [][]byte{bad, b[:i]} {
			if _, err := Decode(bad, now); !errors.Is(err, ErrFile) {
				t.Fatalf("damage at byte %d: %v", i, err)
			}
		}
	}
	if err := Remove(dir); err != nil {
		t.Error(err)
	}
	if err := Remove(dir); err != nil {
		t.Error(err)
	}
}

func FuzzDecode(f *testing.F) {
	const now = int64(1_700_000_000_000)
	b := sample(now).Append(nil)
	f.Add(b[len(magic) : len(b)-4])
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := decode(b, now)
		if err != nil {
			return
		}
		for ns, c := range s.Counters {
			c.State(now, 0)
			if len(c.ends.pages) > len(b)+1 {
				t.Errorf("%q: %d pages of %d bytes", ns, len(c.ends.pages), len(b))
			}
		}
		again, err := Decode(s.Append(nil), now)
		if err != nil || len(again.Counters) != len(s.Counters) {
			t.Fatalf("what was read cannot be written: %v", err)
		}
	})
}

// TestCounterSharedMillisecond: of two keys that expire at the same time, one was counted to the millisecond and
// the other to the second. Whichever goes, one is left, and none a second after the expiry.
func TestCounterSharedMillisecond(t *testing.T) {
	const now = int64(1_700_000_000_000)
	const expire = now + 90_500
	c := New(now)
	c.Add(uint64(expire), 1, now)        // to the second
	c.Add(uint64(expire), 1, now+40_000) // to the millisecond
	for i, want := range []int64{1, 0} {
		c.Add(uint64(expire), -1, now+41_000)
		if got, _ := total(c, now+41_000); got != want {
			t.Errorf("%d keys left after %d deletes, want %d", got, i+1, want)
		}
	}
	c.Add(uint64(expire), 1, now)
	c.Add(uint64(expire), 1, now+40_000)
	c.Add(uint64(expire), -1, now+50_000)
	if got, _ := total(c, expire); got != 1 {
		t.Errorf("%d keys at the time of expiry, want 1", got)
	}
	if got, _ := total(c, expire/1000*1000+1000); got != 0 {
		t.Errorf("%d keys when the second is over, want 0", got)
	}
	c.Add(uint64(expire), -1, expire+5000) // the record of the one that expired is overwritten
	if got, _ := total(c, expire+6000); got != 0 {
		t.Errorf("%d keys after an expired record went, want 0", got)
	}
}

// TestCounterFarFuture: times of expiry that no clock reaches do not overflow.
func TestCounterFarFuture(t *testing.T) {
	now := int64(1_700_000_000_000)
	c := New(now)
	for _, expire := range []uint64{1<<64 - 1, 1 << 63, 1<<63 - 1, 1 << 62, 1 << 50} {
		c.Add(expire, 1, now)
	}
	if got, expires := total(c, now+1000); got != 5 || expires != 5 {
		t.Errorf("%d keys, %d with an expiry, want 5", got, expires)
	}
	for _, expire := range []uint64{1<<64 - 1, 1 << 63, 1<<63 - 1, 1 << 62, 1 << 50} {
		c.Add(expire, -1, now+2000)
	}
	if got, _ := total(c, now+3000); got != 0 {
		t.Errorf("%d keys, want 0", got)
	}
}

// TestFileOfTwoWidths: two buckets of different widths may end with the same second. The file has their sum.
func TestFileOfTwoWidths(t *testing.T) {
	start := int64(1_700_000_000_000) / 60_000 * 60_000
	now, steady := start, time.Duration(0)
	c := New(now)
	end := uint64(start + 70*day*1000 + 59_500) // of the last second of a minute
	c.Add(end, 3, now)                          // by the minute
	now, steady = now+33*day*1000, steady+33*24*time.Hour
	c.State(now, steady)
	c.Add(end, 4, now) // by the second
	c.Add(0, 5, now)
	again, err := Decode((&Saved{Counters: map[string]*Counter{"": c}}).Append(nil), now)
	require.NoError(t, err)
	for _, x := range []struct {
		now  int64
		keys int64
	}{{now, 12}, {int64(end) / 1000 * 1000, 12}, {int64(end) + 1000, 5}} {
		if s := again.Counters[""].State(x.now, steady); s.Keys != x.keys || !s.Exact {
			t.Errorf("at %d: %+v, want %d keys", x.now, s, x.keys)
		}
	}
}
