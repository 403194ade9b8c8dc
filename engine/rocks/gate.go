package rocks

import (
	"errors"
	"sync/atomic"
	"time"
)

// ErrClosed is what comes of a call after the database was closed.
var ErrClosed = errors.New("the database is closed")

// gate lets Stop wait for everybody who uses native objects of the database, and keeps out those who come later: a
// native object that is destroyed while it is used takes the process with it.
//
// A lock for reading would do, but all cores would share its counter. So there are many counters, which lie on cache
// lines of their own; whoever comes often has one to itself.
type gate struct {
	closed atomic.Bool
	next   atomic.Uint32
	left   chan struct{} // somebody has left since the gate was closed
	lanes  [numLanes]Lane
}

const numLanes = 64

// Lane is a way through the gate.
type Lane struct {
	users atomic.Int64
	g     *gate
	_     [48]byte
}

func (g *gate) init() {
	g.left = make(chan struct{}, 1)
	for i := range g.lanes {
		g.lanes[i].g = g
	}
}

// Lane returns the lane for one who comes again and again, such as a transaction.
func (d *DB) Lane() *Lane { return &d.gate.lanes[d.gate.next.Add(1)%numLanes] }

// Enter reports whether the database is open, and then keeps it open until Leave.
func (l *Lane) Enter() bool {
	if l.g.closed.Load() {
		return false
	}
	l.users.Add(1)
	if l.g.closed.Load() { // Stop may have looked before
		l.Leave()
		return false
	}
	return true
}

// hold keeps the database open once more, for what may outlive the stay of its maker, who has entered.
//
// It must be the same lane: then one that Stop has found empty stays so.
func (l *Lane) hold() { l.users.Add(1) }

// Leave ends what Enter began.
func (l *Lane) Leave() {
	l.users.Add(-1)
	if l.g.closed.Load() {
		select {
		case l.g.left <- struct{}{}:
		default:
		}
	}
}

// enter is Lane.Enter for those who come now and then.
func (d *DB) enter() bool { return d.gate.lanes[0].Enter() }
func (d *DB) leave()      { d.gate.lanes[0].Leave() }

// wait returns when everybody has left the gate, which is closed. While that takes time it calls waiting, which may be
// nil, now and then.
func (g *gate) wait(every time.Duration, waiting func(users int64)) {
	t := time.NewTicker(every)
	defer t.Stop()
	for i := range g.lanes {
		for g.lanes[i].users.Load() != 0 {
			select {
			case <-g.left:
			case <-t.C:
				if waiting != nil {
					waiting(g.users())
				}
			}
		}
	}
}

func (g *gate) users() (n int64) {
	for i := range g.lanes {
		n += g.lanes[i].users.Load()
	}
	return n
}
