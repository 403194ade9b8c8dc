package rocks

import (
	"errors"
	"sync/atomic"
	"time"
)

// ErrClosed is returned by calls after the database was closed.
var ErrClosed = errors.New("the database is closed")

// gate lets Stop wait for all users of native objects of the database, and keeps later users out: using a native object
// that is being destroyed crashes the process.
//
// A read lock would do the same, but all cores would share its counter. So the gate has many counters, each on its own
// cache lines, and a frequent user has a counter of its own.
type gate struct {
	closed atomic.Bool
	next   atomic.Uint32
	left   chan struct{} // a user has left since the gate was closed
	lanes  [numLanes]Lane
}

const numLanes = 64

// Lane is one of the gate's counters.
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

// Lane returns the lane for a frequent user, such as a transaction.
func (d *DB) Lane() *Lane { return &d.gate.lanes[d.gate.next.Add(1)%numLanes] }

// Enter reports whether the database is open. If so, the database stays open until Leave.
func (l *Lane) Enter() bool {
	if l.g.closed.Load() {
		return false
	}
	l.users.Add(1)
	if l.g.closed.Load() { // Stop may have read the counter before the increment
		l.Leave()
		return false
	}
	return true
}

// hold keeps the database open for an object that may outlive the caller's own stay. The caller must have entered this
// lane: a lane that Stop has found empty must stay empty.
func (l *Lane) hold() { l.users.Add(1) }

// Leave undoes Enter.
func (l *Lane) Leave() {
	l.users.Add(-1)
	if l.g.closed.Load() {
		select {
		case l.g.left <- struct{}{}:
		default:
		}
	}
}

// enter is Lane.Enter for occasional users.
func (d *DB) enter() bool { return d.gate.lanes[0].Enter() }
func (d *DB) leave()      { d.gate.lanes[0].Leave() }

// use calls f unless the database is closed.
func (d *DB) use(f func()) {
	if d.enter() {
		defer d.leave()
		f()
	}
}

// do is use for a call that may fail.
func (d *DB) do(f func() error) error {
	err := ErrClosed
	d.use(func() { err = f() })
	return err
}

// wait waits until all users have left the closed gate. Meanwhile it calls waiting, which may be nil, at intervals of
// every.
func (g *gate) wait(every time.Duration, waiting func(users int64)) {
	t := time.NewTicker(every)
	defer t.Stop()
	for i := range g.lanes {
		for g.lanes[i].users.Load() != 0 {
			select {
			case <-g.left:
			case <-t.C:
				var users int64
				for i := range g.lanes {
					users += g.lanes[i].users.Load()
				}
				if waiting != nil {
					waiting(users)
				}
			}
		}
	}
}
