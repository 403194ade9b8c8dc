package session

import (
	"time"

	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/server/command"
)

// Bounds of a write segment: commands that share one transaction and one write to the WAL.
const (
	segmentCommands = 256
	segmentKeys     = 1024
	segmentBatch    = 1 << 20   // bytes of write batch, large values not counted: the next command may patch them
	segmentLarge    = 64 << 10  // min size of a large value in bytes
	segmentMax      = 64 << 20  // bytes of write batch, everything counted ...
	segmentShare    = 8         // ... or this part of the largest batch, so that the next command still has room
	segmentReplies  = 256 << 10 // bytes of replies
)

// writeSegment runs commands from a write on in one transaction, and returns how many it has run.
//
// A segment waits for the locks of one command at most, with no other lock held: it takes the locks of its commands one
// command after the other, ends before the first command whose locks are not free, and waits only for those of its
// first command. Segments that waited for all locks at once would hold some while they wait for others: with a few
// popular keys, chains of segments that wait for each other form.
func (c *run) writeSegment(reqs []request) int {
	if c.srv.DB.Blocked() != nil {
		reqs = reqs[:1] // commands that need locks of a slow script must fail alone
	}
	c.prepare(reqs[0].spec)
	c.tx.Begin(c.sess.Namespace)
	mustBeAlone := reqs[0].spec.Flags&command.Alone != 0
	if mustBeAlone {
		reqs = reqs[:1]
		c.flush()
	}
	retry := c.script.retry
	if retry {
		reqs = reqs[:1] // a script that needs more locks, or is slow, runs alone
		if c.script.alone {
			c.flush()
		}
	}
	reqs = c.planSegment(reqs)
	if retry {
		c.lockSets[0] = c.script.appendLocks(c.lockSets[0])
	}
	c.tx.KeepLocks()
	alone := mustBeAlone || c.profiled || c.track != nil && c.track.NoLoop // no other client may share the commit
	// Whether a command blocks must not depend on another client's commit.
	combine := !alone && !(retry && c.script.alone) && !reqs[0].spec.MayBlock(reqs[0].args)
	combined, err := c.lockSegment(reqs, retry && c.script.all, combine)
	if err != nil && !combined {
		return c.turnedAway(c.segment.reqs, err)
	}
	if !combined {
		if c.pausedNow() {
			c.tx.Release()
			return 0
		}
		c.runSegment()
		if !c.closeAfterReply && !alone { // a handler that panicked must not affect other clients
			c.tx.RunWaiting(c.full)
		}
		err = c.tx.Commit()
	}
	done := c.segment.done
	if retry && !c.script.retry {
		c.script.forget()
	}
	c.settle(err)
	if len(c.deferred) > 0 {
		c.publishDeferred(err)
	}
	if err != nil {
		c.segmentFailed(err)
	}
	c.tx.Release()
	if c.sess.ReplyMode != command.ReplyOn {
		c.dropReplies(c.segment.reqs[:done])
	}
	return done
}

// planSegment returns the commands that may be in the segment, and sets lockSets to the locks of each. The segment ends
// with the last write before a command that cannot take part.
func (c *run) planSegment(reqs []request) []request {
	refs, locks, sets := c.keys[:0], c.locks[:0], c.lockSets[:0]
	n := 0
	for i := range reqs {
		r := &reqs[i]
		r.keys = 0
		if i >= segmentCommands || len(refs) > segmentKeys {
			break
		}
		if i > 0 && r.err != nil && r.spec != nil && r.spec.Name == "exec" {
			break // an error of EXEC aborts the transaction
		}
		if i > 0 && r.err == nil {
			if r.spec.Flags&(command.Solo|command.PubSub|command.Alone) != 0 || r.spec.MayBlock(r.args) {
				// Neither a blocked client nor a message may depend on a later commit.
				break
			}
			r.err = c.refuse(r)
			if c.seen.pause != nil && r.err == nil && c.seen.pause.holds(c.mayWrite(r)) {
				break // the first command is a script that only reads
			}
		}
		from := len(locks)
		if r.err == nil {
			first := len(refs)
			refs = r.spec.AppendKeys(refs, r.args)
			r.keys = len(refs) - first
			for _, k := range refs[first:] {
				locks = append(locks, c.tx.LockIn(c.tx.Namespace(), r.args[k.Arg], k.Write))
			}
			if r.spec.OtherNamespace != nil {
				locks = c.appendExternal(locks, r)
			}
			if r.spec.Flags&(command.Write|command.Script) != 0 {
				n = i + 1
			}
		}
		sets = append(sets, locks[from:len(locks):len(locks)])
	}
	c.keys, c.locks, c.lockSets = refs, locks, sets[:n]
	return reqs[:n]
}

// lockSegment takes the locks of the planned commands, of the first ones at least, and begins the segment with those
// whose locks it has. combined says that another client's transaction has run the segment, with the result err;
// otherwise the transaction holds no lock after an error.
func (c *run) lockSegment(reqs []request, all, combine bool) (combined bool, err error) {
	if all {
		c.beginSegment(reqs)
		return false, c.tx.AcquireAll()
	}
	n := c.tx.TryEach(c.lockSets)
	if n == 0 {
		n = oneLock(c.lockSets)
		c.beginSegment(reqs[:n]) // another client may run it
		for _, set := range c.lockSets[:n] {
			c.tx.AddLocks(set)
		}
		if combine {
			combined, err = c.tx.AcquireOrCombine(c)
		} else {
			err = c.tx.Acquire()
		}
		if combined || err != nil {
			return combined, err
		}
		n += c.tx.TryEach(c.lockSets[n:])
	}
	c.beginSegment(reqs[:n])
	return false, nil
}

// oneLock returns the number of sets, from the first on, that consist of the same single lock for writing as the first,
// at least 1.
func oneLock(sets [][]engine.Lock) int {
	first := sets[0]
	if len(first) != 1 || !first[0].Write() {
		return 1
	}
	n := 1
	for n < len(sets) && (len(sets[n]) == 0 || len(sets[n]) == 1 && sets[n][0].Name() == first[0].Name()) {
		n++
	}
	return n
}

// beginSegment makes the commands the segment, none of which has run.
func (c *run) beginSegment(reqs []request) {
	keys, blind := c.userKeys[:0], c.blindKeys[:0]
	refs := c.keys
	for i := range reqs {
		r := &reqs[i]
		for _, k := range refs[:r.keys] {
			if key := r.args[k.Arg]; r.spec.Flags&command.Blind != 0 {
				blind = append(blind, key)
			} else {
				keys = append(keys, key)
			}
		}
		refs = refs[r.keys:]
	}
	c.userKeys, c.blindKeys = keys, blind
	c.segment = segment{reqs: reqs}
}

// turnedAway ends a segment whose locks a slow script holds. It returns how many commands have run: one, which may
// have failed with the error.
func (c *run) turnedAway(reqs []request, err error) int {
	c.tx.Release()
	c.script.forget()
	if len(reqs) > 1 {
		return c.writeSegment(reqs[:1])
	}
	reqs[0].err = err
	c.rejected(&reqs[0])
	return 1
}

// appendExternal appends the lock of the key that a command touches in another namespace.
func (c *run) appendExternal(locks []engine.Lock, r *request) []engine.Lock {
	ns, arg, ok := r.spec.OtherNamespace(&c.srv.Services, c.sess, c.tx.Namespace(), r.args)
	if !ok {
		return locks
	}
	return append(locks, c.tx.LockIn(ns, r.args[arg], true))
}

// segment is a series of commands that share a transaction.
type segment struct {
	reqs       []request
	done       int  // commands that were run
	firstWrite int  // index of the first command whose reply depends on the commit
	wrote      bool // a command has written: firstWrite is set
}

// runSegment runs the commands of the segment in the transaction, whose locks are held.
func (c *run) runSegment() {
	s := &c.segment
	// If the transaction already holds writes, of another connection, every command may see them.
	s.wrote = !c.tx.Empty()
	if c.moved() {
		c.reroute(s.reqs)
	}
	c.tx.Tick(time.Now().UnixMilli())
	c.prefetch(c.userKeys, c.blindKeys)
	c.prefetchAhead(s.reqs)
	for s.done < len(s.reqs) {
		r := &s.reqs[s.done]
		if r.err != nil {
			r.reply = c.out.Mark()
			command.WriteError(&c.out, r.err)
			c.srv.Stats.Rejected(r.spec, r.err)
		} else if wrote, _ := c.invoke(c.frame, r); wrote {
			if !s.wrote {
				s.firstWrite, s.wrote = s.done, true
			}
			if c.blocked == nil { // XREADGROUP writes its consumer before it waits
				c.serveWaiters(r)
			}
		}
		if c.script.retry {
			break // the commands so far are committed; then the script runs again with more locks
		}
		s.done++
		if c.segmentFull() || c.closeAfterReply || c.over() {
			break
		}
	}
	if len(c.deferred) > 0 { // with the locks held: no later message about their keys comes first
		c.tx.OnCommit(func() { c.publishDeferred(nil) })
	}
}

// RunCombined runs the segment in the transaction of another connection, which holds the locks; this connection waits
// meanwhile. A pause may have begun since this connection has checked for one: the other one may only read.
func (c *run) RunCombined(tx *engine.Tx) (commands int) {
	if c.pausedNow() {
		return 1
	}
	own := c.tx
	c.tx, c.top.ctx.Tx, c.combined = tx, tx, true
	c.runSegment()
	c.tx, c.top.ctx.Tx, c.combined = own, own, false
	return max(1, c.segment.done)
}

// segmentFailed replaces the replies that depended on a failed commit. The commands after the first write may have
// seen that write, so nothing from the first write on has happened.
func (c *run) segmentFailed(err error) {
	c.srv.WriteFailed(err)
	s := &c.segment
	if !s.wrote {
		return
	}
	c.out.Truncate(s.reqs[s.firstWrite].reply)
	for i := s.firstWrite; i < s.done; i++ {
		r := &s.reqs[i]
		r.reply = c.out.Mark()
		if r.err != nil {
			command.WriteError(&c.out, r.err)
		} else {
			command.WriteError(&c.out, err)
		}
	}
}

// segmentFull reports whether the segment must be committed before it grows any further.
func (c *run) segmentFull() bool {
	size, most := c.tx.Size(), segmentMax
	if limit := c.srv.DB.MaxBatchBytes(); limit > 0 {
		most = int(min(int64(most), limit/segmentShare))
	}
	return size > segmentBatch && (size > most || size-c.tx.LargeValues(segmentLarge) > segmentBatch) ||
		c.out.Len() > segmentReplies
}
