package migrate

import (
	"slices"
	"sync"
	"sync/atomic"
)

// rounds copies what changes while the stream is read on. What changes during a round is copied by the next one, each
// key once: a collection that changes all the time costs a copy a round, however large it is, and the copy keeps up.
type rounds struct {
	c     *copier
	taken atomic.Int64 // in the source's count; the link sets it when add has returned
	ended chan struct{}

	mu   sync.Mutex
	turn *sync.Cond // something below has changed
	next *round     // what the next round does, nil = nothing
	busy bool       // with a round
	done int64      // what the target has, in the source's count
	last bool       // no more is added
	err  error      // why there are no more rounds
}

// round is what a round copies, and where the copy is after it.
type round struct {
	changes
	position string
	offset   int64
}

// maxChanged is how many keys a round has before the stream has to wait for it.
const maxChanged = 100_000

// begin begins to copy from an offset of the source on.
func (c *copier) begin(offset int64) *rounds {
	r := &rounds{c: c, ended: make(chan struct{}), done: offset}
	r.turn = sync.NewCond(&r.mu)
	r.taken.Store(offset)
	c.rounds.Store(r)
	go r.run()
	return r
}

// add adds changes, after which the copy is at a position.
func (r *rounds) add(ch *changes, position string, offset int64) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for r.err == nil && r.next != nil && len(r.next.keys) >= maxChanged {
		r.turn.Wait()
	}
	if r.err != nil {
		return r.err
	}
	if r.next == nil {
		r.next = &round{changes: changes{seen: map[key]bool{}}}
	}
	r.next.merge(ch)
	r.next.position, r.next.offset = position, offset
	r.turn.Broadcast()
	return nil
}

func (ch *changes) merge(other *changes) {
	for _, k := range other.keys {
		ch.add(k)
	}
	for _, db := range other.flushed {
		if !slices.Contains(ch.flushed, db) {
			ch.flushed = append(ch.flushed, db)
		}
	}
	ch.functions = ch.functions || other.functions
	if ch.again == nil {
		ch.again = other.again
	}
}

func (r *rounds) run() {
	defer close(r.ended)
	r.mu.Lock()
	defer r.mu.Unlock()
	for r.err == nil {
		if r.next == nil {
			if r.last {
				return
			}
			r.turn.Wait()
			continue
		}
		now := r.next
		r.next, r.busy = nil, true
		r.turn.Broadcast()
		r.mu.Unlock()
		err := r.c.apply(&now.changes)
		if err == nil {
			err = r.c.setPosition(now.position)
		}
		r.mu.Lock()
		r.busy = false
		if r.err = err; err == nil {
			r.done = now.offset
		}
	}
	r.turn.Broadcast()
	r.c.end() // the link, too
}

// stop lets the rounds end, with what was added, and returns the error that has ended them, or that of the link.
func (r *rounds) stop(link error) error {
	r.mu.Lock()
	r.last = true
	r.turn.Broadcast()
	r.mu.Unlock()
	<-r.ended
	if r.err != nil {
		return r.err
	}
	return link
}

// applied returns what the target has, in the source's count: all that was taken when there is nothing to do.
func (r *rounds) applied() int64 {
	taken := r.taken.Load() // before: what is added later is not in it
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err == nil && r.next == nil && !r.busy {
		return taken
	}
	return r.done
}
