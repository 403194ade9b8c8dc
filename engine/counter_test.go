package engine

import (
	"math/rand/v2"
	"testing"
)

// counted is a key of the counter's model.
type counted struct {
	expire int64 // ms, 0 = never
	until  int64 // the key counts while the clock shows less; 0 = for ever
}

// countedKey applies the rules of the type counter: expiries up to exactWindow ahead are counted to the
// millisecond (the key is there while the clock shows its very time of expiry), those before near to the second
// and the others to the minute, in which they expire.
func countedKey(c *counter, expire, now int64) counted {
	k := counted{expire: expire}
	switch {
	case expire == 0:
	case expire-now < exactWindow:
		k.until = expire + 1
	case expire/1000 < c.near:
		k.until = (expire/1000 + 1) * 1000
	default:
		k.until = (expire/60000 + 1) * 60000
	}
	return k
}

// TestCounterAgainstModel moves a clock on by milliseconds up to weeks and compares the count with keys that are
// counted one by one. No two keys expire in the same millisecond; TestCounterSharedMillisecond is about those.
func TestCounterAgainstModel(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	const day = 24 * 3600 * 1000
	now := int64(1_700_000_000_123)
	c := newCounter(now)
	var keys []counted
	used := map[int64]bool{0: true}
	late := 0 // checks at which a key was still counted after its expiry
	for step := range 30000 {
		switch rng.IntN(8) {
		case 0, 1, 2:
			expire := int64(0)
			if rng.IntN(4) > 0 {
				for used[expire] {
					expire = now + rng.Int64N([]int64{300, 5000, 59_999, 60_001, 200_000, 3600_000, day, 63 * day, 65 * day, 400 * day}[rng.IntN(10)])
				}
				used[expire] = true
			}
			keys = append(keys, countedKey(c, expire, now))
			c.add(uint64(expire), 1, now)
		case 3: // a key goes, maybe after its expiry: its record was still there
			if len(keys) > 0 {
				i := rng.IntN(len(keys))
				c.add(uint64(keys[i].expire), -1, now)
				keys[i] = keys[len(keys)-1]
				keys = keys[:len(keys)-1]
			}
		case 4: // the expiry of a key is changed
			if len(keys) > 0 {
				i := rng.IntN(len(keys))
				expire := now + 1 + rng.Int64N(100*day)
				if used[expire] {
					continue
				}
				used[expire] = true
				c.add(uint64(keys[i].expire), -1, now)
				c.add(uint64(expire), 1, now)
				keys[i] = countedKey(c, expire, now)
			}
		default:
			now += rng.Int64N([]int64{2, 50, 1000, 1001, 61_000, 3600_000}[rng.IntN(6)])
			if rng.IntN(2000) == 0 {
				now += rng.Int64N(20 * day)
			}
			var want, wantExpires int64
			for _, k := range keys {
				if k.until == 0 || now < k.until {
					want++
					if k.expire != 0 {
						wantExpires++
						if k.expire < now {
							late++
						}
					}
				}
			}
			if got, expires := c.total(now); got != want || expires != wantExpires {
				t.Fatalf("step %d: total = %d, %d with an expiry, want %d, %d", step, got, expires, want, wantExpires)
			}
		}
	}
	if late == 0 {
		t.Error("no key was looked at between its expiry and the end of its second or minute")
	}
	// In the end, when all have expired, nothing is left over in any window.
	now += 500 * day
	keep := int64(0)
	for _, k := range keys {
		if k.expire == 0 {
			keep++
		}
	}
	if got, expires := c.total(now); got != keep || expires != 0 || c.ttl != 0 {
		t.Errorf("after all have expired: %d, %d with an expiry, %d in the windows, want %d", got, expires, c.ttl, keep)
	}
	if len(c.exact) != 0 || len(c.secs) > 1 || len(c.mins) > 1 {
		t.Errorf("%d milliseconds, %d pages of seconds, %d pages of minutes are kept for what has passed", len(c.exact), len(c.secs), len(c.mins))
	}
}

// TestCounterSharedMillisecond: of two keys that expire at the same time, one was counted to the millisecond and
// the other to the second. Whichever goes, one is left, and none a second after the expiry.
func TestCounterSharedMillisecond(t *testing.T) {
	const now = int64(1_700_000_000_000)
	const expire = now + 90_500
	c := newCounter(now)
	c.add(uint64(expire), 1, now)        // to the second
	c.add(uint64(expire), 1, now+40_000) // to the millisecond
	for i, want := range []int64{1, 0} {
		c.add(uint64(expire), -1, now+41_000)
		if got, _ := c.total(now + 41_000); got != want {
			t.Errorf("%d keys left after %d deletes, want %d", got, i+1, want)
		}
	}
	c.add(uint64(expire), 1, now)
	c.add(uint64(expire), 1, now+40_000)
	c.add(uint64(expire), -1, now+50_000)
	if got, _ := c.total(expire); got != 1 {
		t.Errorf("%d keys at the time of expiry, want 1", got)
	}
	if got, _ := c.total(expire/1000*1000 + 1000); got != 0 {
		t.Errorf("%d keys when the second is over, want 0", got)
	}
	c.add(uint64(expire), -1, expire+5000) // the record of the one that expired is overwritten
	if got, _ := c.total(expire + 6000); got != 0 {
		t.Errorf("%d keys after an expired record went, want 0", got)
	}
}

// TestCounterFarFuture: times of expiry that no clock reaches do not overflow.
func TestCounterFarFuture(t *testing.T) {
	now := int64(1_700_000_000_000)
	c := newCounter(now)
	for _, expire := range []uint64{1<<64 - 1, 1 << 63, 1<<63 - 1, 1 << 62, 1 << 50} {
		c.add(expire, 1, now)
	}
	if got, expires := c.total(now + 1000); got != 5 || expires != 5 {
		t.Errorf("%d keys, %d with an expiry, want 5", got, expires)
	}
	for _, expire := range []uint64{1<<64 - 1, 1 << 63, 1<<63 - 1, 1 << 62, 1 << 50} {
		c.add(expire, -1, now+2000)
	}
	if got, _ := c.total(now + 3000); got != 0 {
		t.Errorf("%d keys, want 0", got)
	}
}
