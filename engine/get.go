package engine

import (
	"github.com/basaltdb/basalt/cf"
)

// commonValue is the room in bytes that a read finds: a longer value costs a second crossing when the arena is full.
const commonValue = 2 << 10

// Get returns the value of a key as the transaction sees it.
func (tx *Tx) Get(id cf.ID, key []byte) (value []byte, found bool, err error) {
	return tx.get(id, key, 0)
}

// get is Get; with most above 0 for a caller who needs no more than so many bytes of the value, from its beginning. It may
// be longer than that all the same. Of a value that is a part only, nothing is remembered.
func (tx *Tx) get(id cf.ID, key []byte, most int) (value []byte, found bool, err error) {
	if len(tx.over.ents) > 0 {
		if e := tx.over.find(tx.over.hash(id, key), id, key); e != nil {
			switch e.kind {
			case written, cachedValue:
				return tx.over.valueOf(e), true, nil
			}
			return nil, false, nil
		}
	}
	if len(tx.over.ranges) > 0 && tx.over.deletedByRange(id, key) {
		return nil, false, nil
	}
	tx.arena.reserve(commonValue)
	free := tx.arena.buf
	var h uint64
	ticket := noTicket
	if c := tx.db.cache; c != nil && cacheable(id) {
		h = c.hash(id, key)
		if value, found, ticket = c.get(h, id, key, free); found {
			return tx.adopted(id, key, value, len(free)), true, nil
		}
	}
	if err := tx.usable(); err != nil {
		return nil, false, err
	}
	whole := true
	if most > 0 {
		var size int
		size, found, err = tx.db.rocks.GetHead(tx.db.family(id), key, free[len(free):cap(free)])
		if whole = size <= cap(free)-len(free); !whole {
			size = min(most, cap(free)-len(free))
		}
		value = free[:len(free)+size]
	} else {
		value, found, err = tx.db.rocks.Get(tx.db.family(id), key, free)
	}
	if err != nil || !found {
		if err == nil && id == cf.Metadata && tx.cacheOK {
			tx.cache(id, key, nil, false)
		}
		return nil, false, err
	}
	if !whole {
		return tx.arena.adopt(value, len(free)), true, nil
	}
	value = tx.adopted(id, key, value, len(free))
	if ticket != noTicket {
		tx.db.cache.fill(h, id, key, value, ticket)
	}
	return value, true, nil
}

// adopted takes over a value that was appended to the arena's buffer, and caches it if it is a record that the
// transaction may read again.
func (tx *Tx) adopted(id cf.ID, key, value []byte, from int) []byte {
	value = tx.arena.adopt(value, from)
	if id == cf.Metadata && tx.cacheOK {
		tx.cache(id, key, value, true)
	}
	return value
}

// cache remembers the result of a read in the overlay.
func (tx *Tx) cache(id cf.ID, key, value []byte, found bool) {
	h := tx.over.hash(id, key)
	if tx.over.find(h, id, key) != nil {
		return
	}
	e := entry{hash: h, id: id, key: tx.arena.copy(key), value: value, kind: cachedMissing}
	if found {
		e.kind = cachedValue
	}
	tx.over.insert(e)
}
