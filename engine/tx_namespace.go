package engine

import (
	"github.com/basaltdb/basalt/engine/keycount"
)

// SwitchNamespace makes the transaction work on the keys of another namespace from now on; what it has read,
// written and locked stays. It is for commands that touch two namespaces (MOVE) and for transactions that choose
// another database on their way (SELECT after MULTI): all locks are asked for before Acquire, each in its
// namespace.
//
// Records that were loaded before keep belonging to their namespace, but they are saved and dropped only in it: the
// count of keys goes by the namespace of the transaction.
func (tx *Tx) SwitchNamespace(ns string) {
	if tx.ns != ns {
		tx.ns, tx.nsCount = ns, nil
	}
}

// InNamespace runs f in another namespace and returns to the present one.
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

// counter returns the count of keys of the transaction's namespace. It is made when there is something to count:
// looking at a namespace without keys leaves nothing behind.
func (tx *Tx) counter() *keycount.Counter {
	if tx.nsCount == nil {
		tx.nsCount = tx.db.counts.of(tx.ns)
	}
	return tx.nsCount
}
