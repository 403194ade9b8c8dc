package backup

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/basaltdb/basalt/engine/batch"
)

// FollowOptions configure the storing of a server's log.
type FollowOptions struct {
	CreateOptions
	Interval     time.Duration // how often the newest writes are stored; 0 = 5 s
	SegmentBytes int64         // a segment ends at this size; 0 = 16 MiB
	Every        time.Duration // interval of backups; 0 = only at the beginning of a timeline
	// Event receives events; nil = none.
	Event func(Event)
}

// Event is an event while the log of a server is stored.
type Event struct {
	Timeline string
	Message  string   // one line
	Created  *Created // a new backup
	Err      error    // an error; the program continues
}

const (
	reconnectMin = time.Second
	reconnectMax = 30 * time.Second
)

// errDiverged: the server's history differs from that of the timeline.
var errDiverged = errors.New("the server has another history than the log")

// Follow stores the log of a server until the context ends, which is not an error. After a failure it continues at the
// end of the log. If that is impossible, it begins a new timeline with a new backup.
func (r *Repo) Follow(ctx context.Context, s *Server, o FollowOptions) error {
	if o.Interval <= 0 {
		o.Interval = 5 * time.Second
	}
	if o.SegmentBytes <= 0 {
		o.SegmentBytes = 16 << 20
	}
	if o.Event == nil {
		o.Event = func(Event) {}
	}
	outer := ctx
	ctx, lock, err := r.lock(ctx, followLock)
	if err != nil {
		return err
	}
	defer lock.release()
	f := &follower{r: r, s: s, o: o, lock: lock}
	if err := f.resume(ctx); err != nil {
		return err
	}
	for wait := reconnectMin; ; wait = min(2*wait, reconnectMax) {
		began := time.Now()
		err := f.once(ctx)
		if outer.Err() != nil {
			return nil
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		o.Event(Event{Timeline: f.timeline, Message: "the connection has ended: " + err.Error(), Err: err})
		if errors.Is(err, errRange) || errors.Is(err, errDiverged) {
			f.timeline = ""
			continue
		}
		if time.Since(began) > 2*reconnectMax {
			wait = reconnectMin
		}
		select {
		case <-outer.Done():
			return nil
		case <-time.After(wait):
		}
	}
}

// follower is the state of Follow.
type follower struct {
	r    *Repo
	s    *Server
	o    FollowOptions
	lock *repoLock

	timeline string    // "" = a new one must begin
	last     *Segment  // the newest stored segment; nil = none
	next     uint64    // sequence number of the first write that is not stored
	until    time.Time // the log is complete up to this time
	base     time.Time // time of the newest backup of the timeline
	// streaming is the number of the connection; data of another connection may have another history.
	streaming atomic.Int64
}

// resume finds the timeline to continue: that of the newest backup with one.
func (f *follower) resume(ctx context.Context) error {
	backups, err := f.r.Backups(ctx)
	if err != nil && !errors.Is(err, ErrDamaged) {
		return err
	}
	lines, err := f.r.timelines(ctx)
	if err != nil {
		return err
	}
	for _, b := range backups {
		if b.Timeline != "" {
			f.timeline, f.base, f.next, f.until = b.Timeline, b.Time, b.Sequence+1, b.Time
		}
	}
	t := findTimeline(lines, f.timeline)
	if n := len(t.Segments); n > 0 {
		f.last = &t.Segments[n-1]
		f.next = f.last.Last + 1 // if the backup is newer, this fills the gap before it
	}
	if t.Until.After(f.until) {
		f.until = t.Until
	}
	return f.lock.setTimeline(ctx, f.timeline) // Prune keeps it
}

// once connects and stores what the server sends until the connection ends. The error is never nil.
func (f *follower) once(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	number := f.streaming.Add(1)
	var work sync.WaitGroup
	defer work.Wait()
	defer cancel(nil)
	if f.timeline != "" {
		s, err := f.continued(ctx)
		if err != nil {
			return err
		}
		f.o.Event(Event{Timeline: f.timeline, Message: fmt.Sprintf("the timeline goes on at sequence number %d", f.next)})
		return f.store(ctx, &work, number, s, f.until)
	}
	// A new timeline begins with a backup. The following log is stored in parallel with its files.
	timeline := f.r.newID()
	f.lock.setTimeline(ctx, timeline)
	begun := newBegun()
	work.Go(func() {
		err := f.backup(ctx, number, timeline, begun.note)
		if err != nil {
			cancel(err)
		}
	})
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case sequence := <-begun:
		f.timeline, f.last, f.next, f.until, f.base = timeline, nil, sequence+1, time.Time{}, time.Now()
	}
	// Before the backup is complete, the timeline cannot continue after a failure.
	s, err := f.s.stream(ctx, f.next)
	if err == nil {
		f.o.Event(Event{Timeline: timeline, Message: fmt.Sprintf("a timeline begins at sequence number %d", f.next)})
		err = f.store(ctx, &work, number, s, time.Time{})
	}
	cancel(err)
	work.Wait()
	backups, _ := f.r.Backups(context.WithoutCancel(ctx)) // after an error a new timeline begins
	if !slices.ContainsFunc(backups, func(b *Backup) bool { return b.Timeline == timeline }) {
		f.timeline = ""
	}
	return err
}

// begun passes on the sequence number of a backup whose first attempt has begun. Later attempts are newer: the log that
// begins behind the first one does for them.
type begun chan uint64

func newBegun() begun { return make(begun, 1) }

func (b begun) note(sequence uint64) error {
	select {
	case b <- sequence:
	default: // nobody waits for another one
	}
	return nil
}

// backup makes a backup of the timeline. At its end, the connection must still be the one with the number.
func (f *follower) backup(ctx context.Context, number int64, timeline string, began func(uint64) error) error {
	o := f.o.CreateOptions
	o.began = began
	o.timeline = func() string {
		if f.streaming.Load() == number && ctx.Err() == nil {
			return timeline
		}
		return ""
	}
	created, err := f.r.CreateFromServer(ctx, f.s, o)
	if err == nil {
		f.o.Event(Event{Timeline: timeline, Message: "a backup was made: " + created.ID, Created: created})
	}
	return err
}

// continued requests the stream after the log. The server must first send a segment equal to the newest stored one: it
// may have been restored or replaced, and have other writes with the same sequence numbers.
func (f *follower) continued(ctx context.Context) (*stream, error) {
	if f.last == nil {
		// The backup has no writes to compare with. Only a server that has written nothing since goes on.
		sequence, err := f.s.sequence(ctx)
		if err != nil {
			return nil, err
		}
		if sequence != f.next-1 {
			return nil, fmt.Errorf("%w, or was written to before anything of the log was stored", errDiverged)
		}
		return f.s.stream(ctx, f.next)
	}
	in, err := f.r.Store.Open(ctx, f.last.object())
	if errors.Is(err, fs.ErrNotExist) { // pruned meanwhile, by another clock
		return nil, errDiverged
	}
	if err != nil {
		return nil, err
	}
	defer in.Close()
	s, err := f.s.stream(ctx, f.last.First)
	if err != nil {
		return nil, err
	}
	c := comparison{s: s}
	err = readSegment(in, *f.last, func(rep []byte, _, _ time.Time) error { return c.compare(rep) })
	if err == nil && c.got != nil && c.n < c.got.Count() {
		// The server's batch extends beyond the segment. Request again a stream that begins there.
		s.Close()
		return f.s.stream(ctx, f.next)
	}
	if err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// comparison compares records with those of a stream. The batch boundaries may differ.
type comparison struct {
	s   *stream
	got *batch.Reader // of the stream's current batch
	n   uint32        // compared records of that batch
}

// record returns the next record of the stream.
func (c *comparison) record() (batch.Record, error) {
	for {
		for c.got != nil {
			rec, ok := c.got.Next()
			if !ok {
				if err := c.got.Err(); err != nil {
					return rec, err
				}
				c.got = nil
				break
			}
			if rec.Kind.Counted() {
				c.n++
				return rec, nil
			}
		}
		rep, _, err := c.s.next()
		if err != nil {
			return batch.Record{}, err
		}
		if rep == nil {
			return batch.Record{}, errDiverged // it is idle, so its history is shorter than the log
		}
		if c.got, err = batch.NewReader(bytes.Clone(rep)); err != nil {
			return batch.Record{}, err
		}
		c.n = 0
	}
}

func (c *comparison) compare(rep []byte) error {
	r, err := batch.NewReader(rep)
	if err != nil {
		return err
	}
	for {
		want, ok := r.Next()
		if !ok {
			return r.Err()
		}
		if !want.Kind.Counted() {
			continue
		}
		have, err := c.record()
		if err != nil {
			return err
		}
		if have.Kind != want.Kind || have.Family != want.Family || !bytes.Equal(have.Key, want.Key) ||
			!bytes.Equal(have.Value, want.Value) {
			return errDiverged
		}
	}
}

// arrived is a received batch, or a sign that the server is alive.
type arrived struct {
	rep []byte // nil = nothing was written
	at  time.Time
	err error
}

// store stores what a stream sends until it ends. unread is the time since which no one has read the log, zero = none.
func (f *follower) store(ctx context.Context, work *sync.WaitGroup, number int64, s *stream, unread time.Time) error {
	defer s.Close()
	in, gone := make(chan arrived, 64), make(chan struct{})
	defer close(gone)
	work.Go(func() { receive(ctx, s, in, gone) })
	tick := time.NewTicker(f.o.Interval)
	defer tick.Stop()
	var seg *segmentWriter
	defer func() {
		if seg != nil {
			seg.abort()
		}
	}()
	var alive time.Time // time of the last received data
	cut := func() error {
		if seg != nil {
			if err := seg.commit(); err != nil {
				return err
			}
			last := seg.seg
			f.last, f.next, seg = &last, last.Last+1, nil
		}
		if alive.After(f.until) {
			f.until = alive
			return f.putPosition(ctx)
		}
		return nil
	}
	backing := make(chan struct{}, 1)
	for {
		select {
		case a := <-in:
			if a.err != nil {
				// Received data is stored even while the program is being stopped.
				var end context.CancelFunc
				ctx, end = context.WithTimeout(context.WithoutCancel(ctx), answerTimeout)
				defer end()
				return errors.Join(a.err, cut())
			}
			alive = a.at
			if a.rep == nil {
				continue
			}
			next := f.next
			if seg != nil {
				next = seg.seg.Last + 1
			}
			if first, _ := span(a.rep); first != next {
				return errors.Join(fmt.Errorf("%w: sequence number %d comes after %d", errRange, first, next-1), cut())
			}
			if seg == nil {
				var err error
				// The writer outlives the context: the last segment is stored when the program is stopped.
				if seg, err = newSegment(context.WithoutCancel(ctx), f.r, f.timeline, unread); err != nil {
					return err
				}
				unread = time.Time{}
			}
			if err := seg.add(a.rep, a.at); err != nil {
				return err
			}
			if seg.seg.Size >= f.o.SegmentBytes {
				if err := cut(); err != nil {
					return err
				}
			}
		case now := <-tick.C:
			if err := cut(); err != nil {
				return err
			}
			if f.o.Every > 0 && now.Sub(f.base) >= f.o.Every && len(backing) == 0 {
				backing <- struct{}{}
				f.base = now
				timeline := f.timeline
				work.Go(func() {
					defer func() { <-backing }()
					err := f.backup(ctx, number, timeline, nil)
					if err != nil && ctx.Err() == nil {
						f.o.Event(Event{Timeline: timeline, Message: "no backup was made: " + err.Error(), Err: err})
					}
				})
			}
		}
	}
}

// receive reads a stream until it ends, or until gone is closed.
func receive(ctx context.Context, s *stream, in chan<- arrived, gone <-chan struct{}) {
	for {
		rep, at, err := s.next()
		if err != nil && ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		select {
		case in <- arrived{rep: bytes.Clone(rep), at: at, err: err}:
		case <-gone:
			return
		}
		if err != nil {
			return
		}
	}
}

func (f *follower) putPosition(ctx context.Context) error {
	text, err := json.Marshal(position{Time: f.until.UTC(), Sequence: f.next - 1})
	if err != nil {
		return err
	}
	return put(ctx, f.r, positionObject(f.timeline), text)
}
