package compaction

import (
	"sync"
	"time"
)

// Clock is the time by which compactions judge what has expired. It does not follow the system's clock at once when
// that is set forward: it might be by mistake, and would be set back. Compactions drop the metadata record and the
// subkeys of an expired key at different times, so a key that expires only by the wrong clock would come back
// without its elements.
//
// The first time is believed, and later ones that a monotonic clock confirms. The zero value has seen none.
type Clock struct {
	mu     sync.Mutex
	begun  bool
	at     int64         // the last time that was believed
	steady time.Duration // the monotonic clock at that time
	// ahead is the monotonic clock when the system's clock was first seen to be ahead; 0 = it is not
	ahead time.Duration
}

// Believed is how long the system's clock must be ahead before Clock follows it: a day, so that people notice. Until
// then expired data takes room. A virtual machine that was suspended looks the same.
const Believed = 24 * time.Hour

// Now returns the time by which to judge. system is the system's clock, steady a monotonic clock, which must be
// positive.
func (c *Clock) Now(system int64, steady time.Duration) int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	// Smaller steps do no harm: subkeys are dropped Grace after the expiry.
	if want := c.at + (steady - c.steady).Milliseconds(); c.begun && system > want+Grace {
		if c.ahead == 0 {
			c.ahead = steady
		}
		if steady-c.ahead < Believed {
			return want
		}
	}
	c.begun, c.at, c.steady, c.ahead = true, system, steady, 0
	return system
}
