package engine

import "github.com/basaltdb/basalt/cf"

// SameEpoch reports whether two keys of the default namespace have the same epoch.
func (db *DB) SameEpoch(a, b []byte) bool {
	epoch := func(k []byte) any {
		return db.locks.epoch(db.locks.name(cf.AppendNSKey(nil, cf.DefaultNamespace, k, db.slots)))
	}
	return epoch(a) == epoch(b)
}
