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
	segmentMax      = 64 << 20  // bytes of write batch, everything counted
	segmentReplies  = 256 << 10 // bytes of replies
)

// After a segment that had to wait for a lock, the next contendedSegments segments of the connection are short.
//
// A segment takes the locks of all its commands before it runs, those of readers included. When many clients use the
// same few keys, a segment that waits for one of them holds others meanwhile, for which further segments wait. So the
// short segments end before their first reader, as readers of one record hold no lock outside of segments. With GET and
// SET 4:1, zipfian keys and pipelines of 16, that lowers the p99 from 33 to 14 ms in memory, from 138 to 46 ms with
// `sync yes`.
//
// They also end after contendedCommands, because commands that read from the disk do so with all locks held: with
// zipfian keys and data larger than memory, that doubles the rate of HSET, and its p99 falls to a fifth. With `sync
// yes` they do not: a commit takes the same time then, whatever its length, and more commits cost a third of the rate.
const (
	contendedSegments = 16
	contendedCommands = 2
)

// writeSegment runs commands from a write on in one transaction, and returns how many it has run.
func (c *run) writeSegment(reqs []request) int {
	if c.srv.DB.Blocked() != nil {
		reqs = reqs[:1] // commands that need locks of a slow script must fail alone
	}
	// The segment ends with the last write before a command that cannot take part.
	c.prepare(reqs[0].spec)
	c.tx.Begin(c.sess.Namespace)
	keys, blind := c.userKeys[:0], c.blindKeys[:0]
	refs := c.keys[:0]
	n := 0
	most := segmentCommands
	if c.contended > 0 && !c.srv.DB.Syncs() {
		most = contendedCommands
	}
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
		c.script.addLocks(c.tx)
	}
	for i := range reqs {
		r := &reqs[i]
		r.keys = 0
		if i >= most || len(refs) > segmentKeys {
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
			if c.contended > 0 && r.spec.Flags&(command.Write|command.Script) == 0 {
				break
			}
			r.err = c.refuse(r)
			if c.seen.pause != nil && r.err == nil && c.seen.pause.holds(c.mayWrite(r)) {
				break // the first command is a script that only reads
			}
		}
		if r.err != nil {
			continue
		}
		from := len(refs)
		refs = r.spec.AppendKeys(refs, r.args)
		r.keys = len(refs) - from
		if r.spec.Flags&(command.Write|command.Script) != 0 {
			n = i + 1
		}
		if r.spec.OtherNamespace != nil {
			c.lockExternal(r)
		}
	}
	c.contended = max(c.contended-1, 0)
	c.keys = refs
	for i := range reqs[:n] {
		r := &reqs[i]
		for _, k := range refs[:r.keys] {
			key := r.args[k.Arg]
			c.tx.AddLock(key, k.Write)
			if r.spec.Flags&command.Blind != 0 {
				blind = append(blind, key)
			} else {
				keys = append(keys, key)
			}
		}
		refs = refs[r.keys:]
	}
	c.userKeys, c.blindKeys = keys, blind
	c.segment = segment{reqs: reqs[:n]}
	c.tx.KeepLocks()
	var combined bool
	var err error
	alone := mustBeAlone || c.profiled || c.track != nil && c.track.NoLoop // no other client may share the commit
	if retry && c.script.all {
		err = c.tx.AcquireAll()
	} else if alone || retry && c.script.alone || reqs[0].spec.MayBlock(reqs[0].args) {
		err = c.tx.Acquire() // whether it waits must not depend on another client's commit
	} else {
		combined, err = c.tx.AcquireOrCombine(c)
	}
	if err != nil && !combined {
		return c.turnedAway(reqs[:n], err)
	}
	if c.tx.HadToWait() {
		c.contended = contendedSegments
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
		c.dropReplies(reqs[:done])
	}
	return done
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

// lockExternal asks for the lock of the key that a command touches in another namespace.
func (c *run) lockExternal(r *request) {
	if ns, arg, ok := r.spec.OtherNamespace(&c.srv.Services, c.sess, c.tx.Namespace(), r.args); ok {
		c.tx.AddLockIn(ns, r.args[arg], true)
	}
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
		if c.segmentFull() || c.closeAfterReply || c.srv.ended() {
			break
		}
	}
}

// RunCombined runs the segment in the transaction of another connection, which holds the locks; this connection waits
// meanwhile.
func (c *run) RunCombined(tx *engine.Tx) (commands int) {
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
	size := c.tx.Size()
	return size > segmentBatch && (size > segmentMax || size-c.tx.LargeValues(segmentLarge) > segmentBatch) ||
		c.out.Len() > segmentReplies
}
