package master

import (
	"encoding/binary"
	"errors"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/batch"
	"github.com/basaltdb/basalt/server/replication/proto"
)

// feeder sends the stream to one replica. Two goroutines work for it: one sends, one receives acknowledgements.
//
//	       take                    none in memory, but in the log
//	+--> backlog ----> send <--------------- log
//	|       | none at all
//	|       v
//	+--- asleep: woken by a writer, a WAIT, or after pingEvery
//
// Batches that arrive within pace of the last write to the socket wait for that time, unless they are large, or an
// acknowledgement is wanted. Under load one write then sends the batches of many commits, and writers need not wake the
// feeder. The write to the socket is the largest part of the master's cost.
type feeder struct {
	m    *Master
	link Link
	peer Peer

	next    atomic.Uint64 // the first sequence number that was not sent
	acked   atomic.Uint64 // the last acknowledged sequence number; 0 = none
	ackedAt atomic.Int64  // the time of the last acknowledgement in Unix nanoseconds; 0 = never
	answers atomic.Bool   // the replica knows "_getack"
	wanted  atomic.Uint64 // "_getack" is sent when everything up to this sequence number was sent; 0 = not wanted
	// synced and wantSync are like acked and wanted, for writes on the disk of the replica and "_getsync".
	synced   atomic.Uint64
	wantSync atomic.Uint64

	asleep atomic.Bool
	wake   chan struct{}
	sent   chan struct{} // closed when sending has ended
	stop   chan struct{} // closed to end the feeder
	once   sync.Once
	why    error // set before stop is closed

	allowed uint64   // the tolerated lag, which only decreases
	given   int64    // bytes given to the link
	taken   int64    // bytes that the replica had taken when the deadline was set
	told    struct { // see tellTime
		at   time.Time
		seq  uint64
		time int64
	}
	last  time.Time
	timer *time.Timer
	buf   []byte // frames from the log
}

const (
	pingEvery = 2 * time.Second
	timeEvery = time.Second // min time between two messages of tellTime
	pace      = 4 * time.Millisecond
	// little: fewer bytes of frames do not fill a write.
	little = 64 << 10
	// logBuffer is the max number of bytes of frames from the log in one write.
	logBuffer = 256 << 10
	// logRetry is the time between two attempts to read from the log what it should contain; logRetries is their
	// number.
	logRetry   = 10 * time.Millisecond
	logRetries = 50
	// lastWords is the max time for sending a replica the reason why it is disconnected.
	lastWords = 5 * time.Second
	// maxRequests is the max number of bytes of an incomplete request.
	maxRequests = 8 << 10
)

func newFeeder(m *Master, link Link, peer Peer, next uint64) *feeder {
	f := &feeder{m: m, link: link, peer: peer, wake: make(chan struct{}, 1), sent: make(chan struct{}),
		stop: make(chan struct{}), timer: time.NewTimer(time.Hour)}
	f.next.Store(next)
	f.answers.Store(peer.Ack)
	f.allowed = f.lag()
	return f
}

// String returns the address of the replica, for the log.
func (f *feeder) String() string {
	if s := f.state(); s.Port != 0 {
		return net.JoinHostPort(s.IP, strconv.Itoa(s.Port))
	}
	return f.peer.Remote
}

func (f *feeder) state() ReplicaState {
	s := ReplicaState{IP: f.peer.Address, Port: f.peer.Port, Remote: f.peer.Remote, Offset: f.next.Load() - 1}
	if s.IP == "" {
		s.IP, _, _ = net.SplitHostPort(f.peer.Remote)
	}
	if at := f.ackedAt.Load(); at != 0 {
		s.Offset, s.Acks, s.Age = f.acked.Load(), true, time.Since(time.Unix(0, at))
	}
	return s
}

// lag returns the number of sequence numbers by which the replica is at least behind what was sent to it.
func (f *feeder) lag() uint64 {
	next, latest := f.next.Load(), f.m.db.LatestSequence()
	if next > latest {
		return 0
	}
	return latest + 1 - next
}

// needs returns the sequence number from which the replica needs the log when it connects again.
func (f *feeder) needs() uint64 {
	if f.ackedAt.Load() != 0 {
		return f.acked.Load() + 1
	}
	return f.next.Load()
}

// end ends the feeder. Only the first reason counts.
func (f *feeder) end(why error) {
	f.once.Do(func() {
		f.why = why
		close(f.stop)
		f.link.Close()
	})
}

// reason returns the reason why the feeder was ended, nil while it is running.
func (f *feeder) reason() error {
	select {
	case <-f.stop:
		return f.why
	default:
		return nil
	}
}

// more wakes the feeder if it is asleep. Writers call it.
func (f *feeder) more() {
	if f.asleep.Load() && f.asleep.CompareAndSwap(true, false) {
		f.kick()
	}
}

func (f *feeder) kick() {
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

// ask makes the replica acknowledge a sequence number as soon as it has it.
func (f *feeder) ask(seq uint64) {
	if f.answers.Load() && f.acked.Load() < seq {
		f.want(&f.wanted, seq)
	}
}

// askSync makes the replica write a sequence number to its disk, and acknowledge that.
func (f *feeder) askSync(seq uint64) {
	if f.peer.Sync && f.synced.Load() < seq {
		f.want(&f.wantSync, seq)
	}
}

func (f *feeder) want(what *atomic.Uint64, seq uint64) {
	for {
		old := what.Load()
		if old >= seq || what.CompareAndSwap(old, seq) {
			break
		}
	}
	f.kick()
}

// due reports whether the question about a sequence number can be sent: everything up to that number was sent. 0 = no
// question.
func (f *feeder) due(what *atomic.Uint64) (seq uint64, ok bool) {
	seq = what.Load()
	return seq, seq != 0 && f.next.Load() > seq
}

// send sends the stream until the feeder is ended.
func (f *feeder) send() {
	defer close(f.sent)
	defer f.timer.Stop()
	err := f.write([]byte(proto.OK))
	for err == nil && f.reason() == nil {
		if err = f.checkLag(); err != nil {
			break
		}
		if err = f.tellTime(); err != nil {
			break
		}
		next := f.next.Load()
		frames, behind := f.m.backlog.Take(next)
		switch {
		case frames != nil && len(frames) < little && f.pause():
		case frames != nil:
			if err = f.advance(frames, behind); err == nil {
				err = f.askAck()
			}
		case f.m.db.LatestSequence() >= next:
			err = f.fromLog()
		default:
			if err = f.askAck(); err == nil {
				err = f.sleep()
			}
		}
	}
	f.sayWhy(err)
	f.end(err)
}

// sayWhy sends the replica the reason why it is disconnected, if the reason concerns the replica.
func (f *feeder) sayWhy(err error) {
	if !errors.Is(err, errLag) && !errors.Is(err, errPurged) {
		return
	}
	f.link.SetWriteDeadline(time.Now().Add(lastWords))
	if _, err := f.link.Write(proto.AppendEnd(nil, err.Error())); err == nil {
		f.link.Drain()
	}
}

// write sends frames. The link may queue them, so only bytes that the replica has taken since extend its deadline.
func (f *feeder) write(frames []byte) error {
	f.last = time.Now()
	pending := int64(f.link.Pending())
	if t := f.m.settings.Load().SendTimeout; t > 0 && (pending == 0 || f.given-pending > f.taken) {
		f.taken = f.given - pending
		f.link.SetWriteDeadline(f.last.Add(t))
	}
	f.given += int64(len(frames))
	n, err := f.link.Write(frames)
	f.m.sent.Add(int64(n))
	return err
}

// tellTime sends the replica the time of the master's clock, see package proto. The time is read together with the
// newest sequence number, and sent after everything up to that number.
func (f *feeder) tellTime() error {
	t := &f.told
	if !f.peer.Ack || f.next.Load() <= t.seq || time.Since(t.at) < timeEvery {
		return nil
	}
	now := t.time
	t.at, t.seq = time.Now(), f.m.db.LatestSequence()
	t.time = f.m.db.WritersTime()
	if now <= 0 {
		return nil
	}
	return f.write(proto.AppendTime(nil, now))
}

// advance sends the frames up to a sequence number.
func (f *feeder) advance(frames []byte, behind uint64) error {
	next := f.next.Swap(behind) // before the replica can acknowledge them
	err := f.write(frames)
	if err != nil {
		f.next.Store(next)
	}
	return err
}

// askAck sends "_getack" and "_getsync" when everything that they ask about was sent.
func (f *feeder) askAck() error {
	var frames []byte
	if seq, ok := f.due(&f.wanted); ok && f.wanted.CompareAndSwap(seq, 0) && f.acked.Load() < seq {
		frames = proto.AppendFrame(frames, proto.GetAck)
	}
	if seq, ok := f.due(&f.wantSync); ok && f.wantSync.CompareAndSwap(seq, 0) && f.synced.Load() < seq {
		frames = proto.AppendFrame(frames, proto.GetSync)
	}
	if frames == nil {
		return nil
	}
	return f.write(frames)
}

// pause waits for more commits if something was sent just before. It reports whether it waited.
func (f *feeder) pause() bool {
	left := pace - time.Since(f.last)
	if left <= 0 || f.wanted.Load() != 0 || f.wantSync.Load() != 0 {
		return false
	}
	f.wait(left)
	return true
}

// wait waits for d, for a wake or for the end.
func (f *feeder) wait(d time.Duration) (woken bool) {
	f.timer.Reset(d)
	select {
	case <-f.wake:
		return true
	case <-f.stop:
		return true
	case <-f.timer.C:
		return false
	}
}

// sleep waits until there may be something to send. It sends a ping after a long time without anything.
func (f *feeder) sleep() error {
	f.asleep.Store(true)
	defer f.asleep.Store(false)
	// A write between the last look at the backlog and this point woke nobody:
	_, ack := f.due(&f.wanted)
	_, sync := f.due(&f.wantSync)
	if ack || sync || f.m.db.LatestSequence() >= f.next.Load() {
		return nil
	}
	if f.wait(max(pingEvery-time.Since(f.last), 0)) {
		return nil
	}
	return f.write(proto.AppendFrame(nil, proto.Ping))
}

// checkLag ends the link to a replica that is too far behind. A replica that was so when it connected may catch up.
func (f *feeder) checkLag() error {
	most, lag := f.m.settings.Load().MaxLag, f.lag()
	if most > 0 && lag > max(most, f.allowed) {
		return errLag
	}
	f.allowed = min(f.allowed, lag)
	return nil
}

// fromLog sends batches from the log, up to the point where the backlog continues or the log ends.
func (f *feeder) fromLog() error {
	for try := 0; ; try++ {
		n, err := f.readLog()
		switch {
		case err != nil || n > 0:
			return err
		case try == logRetries:
			return errPurged
		case f.wait(logRetry) && f.reason() != nil:
			return nil
		}
	}
}

// readLog sends batches from the log and returns their number.
func (f *feeder) readLog() (sent int, err error) {
	next := f.next.Load()
	log, err := f.m.db.WAL(next)
	if err != nil {
		return 0, logError(err)
	}
	defer log.Close()
	flush := func() error {
		if len(f.buf) == 0 {
			return nil
		}
		err := f.advance(f.buf, next)
		if f.buf = f.buf[:0]; cap(f.buf) > 4*logBuffer {
			f.buf = nil
		}
		if err != nil {
			return err
		}
		return f.askAck()
	}
	for f.reason() == nil {
		rep, seq, err := log.Next()
		if err != nil && sent == 0 {
			return sent, logError(err)
		}
		if err != nil || rep == nil {
			break // the same error comes again
		}
		if seq > next {
			return sent, errPurged
		}
		if seq < next {
			if rep, err = batch.Tail(rep, next); err != nil {
				return sent, err
			}
		}
		if len(rep) == 0 {
			continue
		}
		f.buf = proto.AppendFrame(f.buf, rep)
		next += uint64(binary.LittleEndian.Uint32(rep[8:]))
		sent++
		if len(f.buf) < logBuffer {
			continue
		}
		if err := flush(); err != nil {
			return sent, err
		}
		if err := f.checkLag(); err != nil {
			return sent, err
		}
		if frames, _ := f.m.backlog.Take(next); frames != nil {
			break
		}
	}
	return sent, flush()
}

// logError explains an error of reading the log.
func logError(err error) error {
	if errors.Is(err, engine.ErrWALGap) {
		return errPurged
	}
	return err
}

// receive reads acknowledgements until the link ends.
func (f *feeder) receive() error {
	var buf []byte
	in := make([]byte, 1<<10)
	for {
		n, err := f.link.Read(in)
		if err != nil {
			return err
		}
		for buf = append(buf, in[:n]...); len(buf) > 0; {
			ack, ok, used, err := proto.ReadAck(buf)
			if err != nil {
				return err
			}
			if used == 0 {
				if len(buf) > maxRequests {
					return proto.ErrRequest
				}
				break
			}
			buf = buf[used:]
			if ok {
				f.acknowledge(ack)
			} else {
				f.m.log.Debug("the replica has sent something other than an acknowledgement")
			}
		}
	}
}

// acknowledge records an acknowledgement. A replica cannot have what was not sent.
func (f *feeder) acknowledge(a proto.Ack) {
	f.answers.Store(true)
	f.ackedAt.Store(time.Now().UnixNano())
	f.m.countGood()
	sent := f.next.Load() - 1
	seq, synced := min(a.Sequence, sent), min(a.Synced, sent)
	more := seq > f.acked.Load() || synced > f.synced.Load()
	f.acked.Store(max(seq, f.acked.Load()))
	f.synced.Store(max(synced, f.synced.Load()))
	if more {
		f.m.noteAck()
	}
}
