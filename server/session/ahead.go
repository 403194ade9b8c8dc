package session

import (
	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/server/command"
)

// prefetchReads runs consecutive readers that declare what they will read (see command.Spec.Prefetch) in one
// transaction, with the read side of all their keys' locks held: so the records can be fetched in batches. It returns
// how many commands it has run; 0 when the first command must run alone, because there is only one, or because another
// client holds a lock: no command waits for the key of another.
func (c *run) prefetchReads(reqs []request) int {
	n := 0
	for n < len(reqs) && n < singleBatch {
		r := &reqs[n]
		if n > 0 && (r.err != nil || r.spec.Prefetch == nil || r.spec.Flags&command.Write != 0 || c.refuse(r) != nil) {
			break
		}
		n++
	}
	if n < 2 {
		return 0
	}
	reqs = reqs[:n]
	c.prepare(reqs[0].spec)
	c.tx.Begin(c.sess.Namespace)
	keys := c.userKeys[:0]
	for i := range reqs {
		r := &reqs[i]
		c.keys = r.spec.AppendKeys(c.keys[:0], r.args)
		for _, k := range c.keys {
			keys = append(keys, r.args[k.Arg])
			c.tx.AddLock(r.args[k.Arg], false)
		}
	}
	c.userKeys = keys
	if !c.tx.TryAcquire() { // run alone, each command waits for its own key only, and finds out whether that is refused
		c.tx.Release()
		return 0
	}
	c.tx.KeepLocks()
	c.prefetch(keys, nil)
	c.prefetchAhead(reqs)
	if c.moved() {
		c.reroute(reqs)
	}
	for i := range reqs {
		r := &reqs[i]
		if r.err != nil {
			c.rejected(r)
			continue
		}
		c.invoke(c.frame, r)
		c.replied(r, r.reply)
	}
	c.tx.Release()
	c.publishDeferred(nil)
	return n
}

// prefetchAhead reads the records that the commands of a transaction will read, as far as the commands declare them.
func (c *run) prefetchAhead(reqs []request) {
	readers := 0
	for i := range reqs {
		if r := &reqs[i]; r.err == nil && r.spec.Prefetch != nil {
			readers++
		}
	}
	if readers < 2 {
		return
	}
	keys := c.tx.Keys()
	for i := range reqs {
		if r := &reqs[i]; r.err == nil && r.spec.Prefetch != nil {
			r.spec.Prefetch(c.tx, r.args, keys)
		}
	}
	c.prefetchFailed(c.tx.PrefetchKeys(cf.Default, keys))
}
