package engine

import (
	"math/rand/v2"
	"sync/atomic"
)

// peeks decides whether a blind write asks memory for the record that it replaces. Where most of the data is on the
// disk, memory cannot tell after a look into the filters of several files: a fifth of the CPU time of a SET. Then only
// one write of peekEvery asks, and the key count takes the others for unknown, see replace.
type peeks struct {
	vain atomic.Int32 // share of the late peeks that memory could not answer, in parts of peekScale
}

const (
	peekScale = 1 << 16
	// peekSpan is how many peeks the moving average spans, about.
	peekSpan = 64
	// maxVain is the share of peeks in vain from which on most writes do without.
	maxVain = peekScale / 2
	// peekEvery is how many writes there are for each peek then.
	peekEvery = 16
)

// worth reports whether the next write, or the next batch of writes, should ask memory.
func (p *peeks) worth() bool { return p.vain.Load() < maxVain || rand.Uint32N(peekEvery) == 0 }

// learn takes down whether memory could tell. Updates at the same time may displace one another.
func (p *peeks) learn(told bool) {
	vain, towards := p.vain.Load(), int32(0)
	if !told {
		towards = peekScale
	}
	if step := (towards - vain) / peekSpan; step != 0 {
		p.vain.Store(vain + step)
	}
}
