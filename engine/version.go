package engine

import (
	"math/rand/v2"
	"sync/atomic"
	"time"
)

// versions makes the versions of collections: (unix time in microseconds) << 11
// (counter mod 2048). The counter starts anywhere and grows with every version, as in Kvrocks.
type versions struct{ counter atomic.Uint64 }

func (v *versions) init() { v.counter.Store(rand.Uint64()) }

func (v *versions) next() uint64 {
	return uint64(time.Now().UnixMicro())<<11 | v.counter.Add(1)&2047
}
