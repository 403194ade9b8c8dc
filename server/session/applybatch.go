package session

import (
	"bytes"
	"errors"
	"time"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/search"
)

// ApplyBatch is APPLYBATCH: a write batch of another server is committed like the writes of a command. The engine
// updates its own caches of the keys. ApplyBatch serves the clients blocked on the keys, changes their entries in the
// search indexes, and updates the scripts, libraries and namespaces in memory. It publishes no keyspace events: the
// batch does not say which commands made it.
func (c *run) ApplyBatch(rep []byte, yield bool) error {
	b, err := c.srv.DB.CheckBatch(rep)
	if err != nil {
		return err
	}
	if b.Tokens {
		if err := c.srv.MayStoreNamespaces(); err != nil {
			return engine.NewError("ERR", "the batch holds namespaces: "+err.Error())
		}
	}
	err = c.applyRecords(b, yield, c.tx.AcquireFor)
	if _, ok := errors.AsType[*search.NeedsLock](err); ok {
		c.tx.Release()
		c.tx.Begin(c.sess.Namespace)
		err = c.applyRecords(b, yield, func(*engine.ExternalBatch) error { return c.tx.AcquireAll() })
	}
	if err != nil {
		return err
	}
	if c.srv.waiters.n.Load() > 0 {
		c.serveLocked()
	}
	if b.Scripts {
		c.tx.OnCommit(c.srv.Scripts.Forget)
	}
	if b.Libraries {
		c.tx.OnCommit(c.srv.Scripts.Reload)
	}
	if b.Indexes {
		c.tx.OnCommit(c.srv.Services.Indexes.Reload)
	}
	if err := c.commit(); err != nil {
		return err
	}
	c.tx.Unlock() // RefreshNamespaces takes the mutex of the settings, whose holder may be waiting for locks
	if b.Namespaces {
		c.srv.RefreshNamespaces()
	}
	return nil
}

// applyRecords locks the keys of a batch and applies its records, without a commit. It fails with a [search.NeedsLock]
// if a key has a vector and another client changes vectors of the same index.
func (c *run) applyRecords(b *engine.ExternalBatch, yield bool, acquire func(*engine.ExternalBatch) error) error {
	if err := c.lockUnpaused(always, func() error { return acquire(b) }); err != nil {
		return err
	}
	c.tx.Tick(time.Now().UnixMilli())
	if yield {
		c.tx.YieldToOthers()
	}
	var indexed search.Watch
	if c.srv.Services.Indexes.Any() {
		if err := c.watchBatch(b, &indexed); err != nil {
			return err
		}
	}
	if err := c.tx.Apply(b); err != nil {
		return err
	}
	return indexed.After(c.tx)
}

// watchBatch notes the entries that the search indexes have of the keys of a batch. The batch of a server with the same
// indexes changes them as the keys do, and then nothing is left to change.
func (c *run) watchBatch(b *engine.ExternalBatch, w *search.Watch) error {
	seen := map[string]bool{}
	return b.EachKey(c.srv.DB.Slots(), func(ns, key []byte) error {
		nsKey := string(cf.AppendNSKey(nil, string(ns), key, false))
		if seen[nsKey] {
			return nil
		}
		seen[nsKey] = true
		return c.tx.InNamespace(string(ns), func() error {
			return c.srv.Services.Indexes.Before(c.tx, w, bytes.Clone(key))
		})
	})
}

// serveLocked serves the clients blocked on keys whose locks the transaction holds: the batch does not name its keys.
func (c *run) serveLocked() {
	var ready []keyRef
	for _, nsKey := range c.srv.waiters.keys() {
		if ns, key, err := cf.SplitNSKey([]byte(nsKey), c.srv.DB.Slots()); err == nil {
			ready = append(ready, keyRef{string(ns), key})
		}
	}
	c.serveReady(ready)
}
