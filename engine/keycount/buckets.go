package keycount

import (
	"slices"
	"time"
)

// buckets counts things by the second at which they end, and knows the sum of those whose end lies ahead.
//
// The width of a bucket grows with its distance from the present: a second up to 64 days, a minute up to 4 years, a day
// up to 1000 years, one bucket for the rest. So all buckets together take at most 25 MiB, however many keys exist;
// pages of 64 buckets are allocated on demand. The windows move with the clock. A thing that was added to a wide bucket
// and is subtracted from a narrow one makes the sum wrong by one between the ends of the two buckets.
//
// A bucket that has passed is no longer part of the sum, but it is kept for a day or two by a monotonic clock: when the
// wall clock was set forward and is set back, its things count again.
type buckets struct {
	pages map[int64]*page // by pageID
	live  int64           // sum of the buckets that have not passed
	now   int64           // buckets whose last second is at most this one have passed
	start int64           // second at which the windows begin

	gone     int64         // buckets whose last second is at most this one have been dropped
	dropped  int64         // sum of the dropped buckets
	lost     int64         // how many dropped things the clock may have returned to
	next     int64         // the next drop takes what had passed by then: now as of the last drop
	lastDrop time.Duration // when the last drop was
}

type page [pageLen]int32

const (
	pageLen = 64

	day         = 24 * 3600
	secondsSpan = 64 * day
	minutesSpan = 4 * 366 * day
	daysSpan    = 1000 * 366 * day
	// rebase is the change of the clock in seconds after which the windows follow it.
	rebase = 32 * day
	// keep is how long buckets are kept after they have passed.
	keep = 24 * time.Hour
	// farEnd is the last second of the last bucket.
	farEnd = int64(1) << 52
	// stepMost is the max number of seconds that the clock moves one by one; beyond that adding up all buckets is
	// cheaper.
	stepMost = 3600
)

// widths are the widths of the buckets in seconds. The last width has room for everything.
var widths = [...]int64{1, 60, day, farEnd + 1}

// newBuckets makes empty buckets. now (seconds since the epoch) is the present: earlier seconds have passed.
func newBuckets(now int64) buckets {
	return buckets{pages: map[int64]*page{}, now: now, start: now, gone: now - day, next: now - day}
}

// bucket returns the bucket of a second: its width (an index into widths) and its number among the buckets of that
// width.
func (b *buckets) bucket(sec int64) (width, n int64) {
	switch {
	case sec < b.start+secondsSpan:
		width = 0
	case sec < b.start+minutesSpan:
		width = 1
	case sec < b.start+daysSpan:
		width = 2
	default:
		width = 3
	}
	return width, sec / widths[width]
}

// last returns the last second of a bucket.
func last(width, n int64) int64 { return (n+1)*widths[width] - 1 }

// pageID combines a width and the number of a page among those of that width into one number.
func pageID(width, n int64) int64 { return width<<60 | n }

func splitPageID(id int64) (width, n int64) { return id >> 60, id & (1<<60 - 1) }

// add counts n things that end in a second; n may be negative. It reports whether the sum has changed: the bucket has
// not passed.
func (b *buckets) add(sec int64, n int) (ahead bool) {
	width, i := b.bucket(min(max(sec, 0), farEnd))
	end := last(width, i)
	if end <= b.gone {
		return false
	}
	id := pageID(width, i/pageLen)
	p := b.pages[id]
	if p == nil {
		p = new(page)
		b.pages[id] = p
	}
	p[i%pageLen] += int32(n)
	if ahead = end > b.now; ahead {
		b.live += int64(n)
	}
	return ahead
}

func (b *buckets) at(width, n int64) int64 {
	if p := b.pages[pageID(width, n/pageLen)]; p != nil {
		return int64(p[n%pageLen])
	}
	return 0
}

// holds reports whether the bucket of a second has a positive count.
func (b *buckets) holds(sec int64) bool {
	return b.at(b.bucket(min(max(sec, 0), farEnd))) > 0
}

// each calls f with the last second and the count of every nonzero bucket, in the order of the seconds. Buckets of
// different widths that end with the same second, because the windows have moved, count together.
func (b *buckets) each(f func(sec int64, n int32)) {
	ids := make([]int64, 0, len(b.pages))
	for id := range b.pages {
		ids = append(ids, id)
	}
	type entry struct {
		sec int64
		n   int32
	}
	var all []entry
	for _, id := range ids {
		width, first := splitPageID(id)
		for i, n := range b.pages[id] {
			if n != 0 {
				all = append(all, entry{last(width, first*pageLen+int64(i)), n})
			}
		}
	}
	slices.SortFunc(all, func(a, b entry) int { return int(a.sec - b.sec) })
	for i, e := range all {
		if i+1 < len(all) && all[i+1].sec == e.sec {
			all[i+1].n += e.n
		} else {
			f(e.sec, e.n)
		}
	}
}

// moveTo sets the present. steady is the time of a monotonic clock of any origin.
func (b *buckets) moveTo(sec int64, steady time.Duration) {
	if d := sec - b.now; d >= 0 && d <= stepMost {
		for s := b.now + 1; s <= sec; s++ {
			for width, w := range widths {
				if (s+1)%w == 0 {
					b.live -= b.at(int64(width), s/w)
				}
			}
		}
	} else if d < 0 && -d <= stepMost {
		for s := b.now; s > sec; s-- {
			for width, w := range widths {
				if (s+1)%w == 0 {
					b.live += b.at(int64(width), s/w)
				}
			}
		}
	} else {
		b.live = 0
		for id, p := range b.pages {
			width, first := splitPageID(id)
			for i, n := range p {
				if last(width, first*pageLen+int64(i)) > sec {
					b.live += int64(n)
				}
			}
		}
	}
	b.now = sec
	if d := sec - b.start; d > rebase || d < -rebase {
		b.start = sec
	}
	if sec < b.gone {
		b.lost += max(b.dropped, -b.dropped)
		b.gone, b.dropped, b.next = sec, 0, sec
	}
	if steady-b.lastDrop >= keep {
		b.drop()
		b.lastDrop = steady
	}
}

// drop forgets the pages that had passed already at the last drop.
func (b *buckets) drop() {
	b.next = min(b.next, b.now)
	for id, p := range b.pages {
		width, first := splitPageID(id)
		if last(width, (first+1)*pageLen-1) > b.next {
			continue
		}
		for _, n := range p {
			b.dropped += int64(n)
		}
		delete(b.pages, id)
	}
	b.gone = max(b.gone, b.next)
	b.next = b.now
}
