package engine

import "github.com/basaltdb/basalt/engine/keycount"

// bulkCounts counts the keys of each namespace.
type bulkCounts map[string]*bulkCount

// bulkCount counts the keys of a namespace. As in [keycount.Counter] the expiries of the next minute are known to the
// millisecond, later ones to the second, which bounds the tables.
type bulkCount struct {
	plain int
	ends  map[uint64]int // by the last millisecond of a second
	soon  map[uint64]int // by the millisecond
}

// soonMost is the max number of milliseconds in soon before those that have passed become seconds.
const soonMost = 2 * keycount.ExactWindow

func (b bulkCounts) add(ns string, end uint64, now int64) {
	c := b[ns]
	if c == nil {
		c = &bulkCount{ends: map[uint64]int{}, soon: map[uint64]int{}}
		b[ns] = c
	}
	if end == 0 {
		c.plain++
		return
	}
	if end < uint64(now) || end-uint64(now) >= keycount.ExactWindow {
		c.ends[lastOfSecond(end)]++
		return
	}
	if c.soon[end]++; len(c.soon) > soonMost {
		for end, n := range c.soon {
			if end < uint64(now) {
				c.ends[lastOfSecond(end)] += n
				delete(c.soon, end)
			}
		}
	}
}

func lastOfSecond(ms uint64) uint64 { return ms/1000*1000 + 999 }

// total returns the number of keys.
func (c *bulkCount) total() (n int64) {
	n = int64(c.plain)
	for _, ends := range []map[uint64]int{c.ends, c.soon} {
		for _, expiring := range ends {
			n += int64(expiring)
		}
	}
	return n
}

// apply adds the keys to the counts of the database.
func (b bulkCounts) apply(db *DB, now int64) {
	for ns, c := range b {
		counter := db.counts.of(ns)
		counter.Add(0, c.plain, now)
		for _, ends := range []map[uint64]int{c.ends, c.soon} {
			for end, n := range ends {
				counter.Add(end, n, now)
			}
		}
	}
}
