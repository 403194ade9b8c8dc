package engine

import (
	"github.com/basaltdb/basalt/engine/keycount"
)

// SwitchNamespace makes the transaction work on the keys of another namespace from now on; its reads, writes and locks
// so far stay. It is for commands that touch two namespaces (MOVE) and for transactions that choose another database in
// between (SELECT after MULTI): all locks are requested before Acquire, each in its namespace.
//
// Records that were loaded before still belong to their namespace, but they can be saved and dropped only in it: the
// key count goes by the transaction's namespace.
func (tx *Tx) SwitchNamespace(ns string) {
	if tx.ns != ns {
		tx.ns, tx.nsCount = ns, nil
	}
}

// InNamespace runs f in another namespace and then switches back.
func (tx *Tx) InNamespace(ns string, f func() error) error {
	own, count := tx.ns, tx.nsCount
	tx.SwitchNamespace(ns)
	defer func() { tx.ns, tx.nsCount = own, count }()
	return f()
}

// AddLockIn is AddLock for a key of another namespace.
func (tx *Tx) AddLockIn(ns string, userKey []byte, write bool) {
	tx.locks.Add(tx.LockIn(ns, userKey, write))
}

// counter returns the counter of the transaction's namespace. It is created when a key must be counted: reading a
// namespace without keys leaves nothing behind.
func (tx *Tx) counter() *keycount.Counter {
	if tx.nsCount == nil {
		tx.nsCount = tx.db.counts.of(tx.ns)
	}
	return tx.nsCount
}
