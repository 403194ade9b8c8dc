package session

import (
	"errors"

	"github.com/basaltdb/basalt/engine/search"
	"github.com/basaltdb/basalt/server/command"
)

// watchIndexes notes the entries that the search indexes have of the command's keys before it runs.
func (c *run) watchIndexes(f *frame, r *request) error {
	indexes := c.srv.Services.Indexes
	f.indexed.Reset()
	var buf [4]command.KeyRef
	for _, k := range r.spec.AppendKeys(buf[:0], r.args) {
		if k.Write {
			if err := indexes.Before(c.tx, &f.indexed, r.args[k.Arg]); err != nil {
				return err
			}
		}
	}
	if r.spec.OtherNamespace == nil {
		return nil
	}
	ns, arg, ok := r.spec.OtherNamespace(&c.srv.Services, c.sess, c.tx.Namespace(), r.args)
	if !ok {
		return nil
	}
	return c.tx.InNamespace(ns, func() error { return indexes.Before(c.tx, &f.indexed, r.args[arg]) })
}

// updateIndexes changes the entries as the command has changed the keys. A command that changes vectors while another
// client does is rolled back, and runs again with the lock of the graphs, as a script does that needs more locks.
func (c *run) updateIndexes(f *frame) error {
	err := f.indexed.After(c.tx)
	if lock, ok := errors.AsType[*search.NeedsLock](err); ok && f.mode != awaited {
		return c.wantLock(lock.Namespace, lock.Key, true)
	}
	return err
}
