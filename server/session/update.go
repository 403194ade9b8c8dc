package session

import (
	"slices"
	"time"

	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/search"
	"github.com/basaltdb/basalt/server/wire"
)

// Update runs f in a transaction of its own, with the locks of the keys, or all locks, see command.Control. It first
// waits for the end of a pause. After f it serves the clients blocked on the keys, and commits.
func (c *run) Update(keys [][]byte, all bool, f func(tx *engine.Tx) error) error {
	defer c.tx.Release()
	if err := c.lockPiece(keys, all); err != nil {
		return err
	}
	if err := c.srv.Limits.refuseWrite(c.frame.ctx.Spec.Flags); err != nil {
		return err
	}
	c.tx.Tick(time.Now().UnixMilli())
	c.prefetch(keys, nil)
	var indexed search.Watch
	if indexes := c.srv.Services.Indexes; indexes.Any() {
		for _, k := range keys {
			if err := indexes.Before(c.tx, &indexed, k); err != nil {
				return err
			}
		}
	}
	if err := f(c.tx); err != nil {
		return err
	}
	if err := indexed.After(c.tx); err != nil {
		return err
	}
	if c.srv.waiters.n.Load() > 0 {
		ready := make([]keyRef, len(keys))
		for i, k := range keys {
			ready[i] = keyRef{c.tx.Namespace(), k}
		}
		c.serveReady(ready)
	}
	return c.commit()
}

// commit commits the transaction and publishes what follows from it.
func (c *run) commit() error { return c.committed(c.tx.Commit()) }

// committed completes a commit that has ended with err.
func (c *run) committed(err error) error {
	c.settle(err)
	c.publishDeferred(err)
	if err != nil {
		c.srv.WriteFailed(err)
	}
	return err
}

// lockPiece begins a transaction and takes its locks while no pause holds, those of the graphs that the keys have nodes
// in included.
func (c *run) lockPiece(keys [][]byte, all bool) error {
	return c.lockUnpaused(always, func() error {
		if c.srv.closing.Load() {
			return ErrClosing
		}
		select {
		case <-c.done:
			return wire.ErrGone
		default:
		}
		for {
			c.tx.Release()
			c.tx.Begin(c.sess.Namespace)
			if all {
				return c.tx.AcquireAll()
			}
			graphs := c.srv.Services.Indexes.GraphLocks(c.sess.Namespace, keys)
			for _, k := range slices.Concat(keys, graphs) {
				c.tx.AddLock(k, true)
			}
			if err := c.tx.Acquire(); err != nil {
				return err
			}
			// FT.CREATE may have come while this transaction waited: it changes the indexes with all locks held.
			graphs = c.srv.Services.Indexes.GraphLocks(c.sess.Namespace, keys)
			if !slices.ContainsFunc(graphs, func(k []byte) bool { return !c.tx.Holds(k) }) {
				return nil
			}
		}
	})
}
