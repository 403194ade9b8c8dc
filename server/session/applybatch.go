package session

import (
	"time"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
)

// ApplyBatch is APPLYBATCH: a write batch of another server is committed like the writes of a command. The engine
// updates its own caches of the keys. ApplyBatch serves the clients blocked on the keys, and updates the scripts,
// libraries and namespaces in memory. It publishes no keyspace events: the batch does not say which commands made it.
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
	if err := c.lockUnpaused(always, func() error { return c.tx.AcquireFor(b) }); err != nil {
		return err
	}
	c.tx.Tick(time.Now().UnixMilli())
	if yield {
		c.tx.YieldToOthers()
	}
	if err := c.tx.Apply(b); err != nil {
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
	err = c.tx.Commit()
	c.settle(err)
	c.publishDeferred(err)
	if err != nil {
		c.srv.WriteFailed(err)
		return err
	}
	c.tx.Unlock() // RefreshNamespaces takes the mutex of the settings, whose holder may be waiting for locks
	if b.Namespaces {
		c.srv.RefreshNamespaces()
	}
	return nil
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
