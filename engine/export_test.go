package engine

import "github.com/basaltdb/basalt/cf"

// SameLock reports whether two keys of the default namespace have the same lock.
func (db *DB) SameLock(a, b []byte) bool {
	index := func(k []byte) uint32 { return db.locks.index(cf.AppendNSKey(nil, cf.DefaultNamespace, k, db.slots)) }
	return index(a) == index(b)
}
