package engine

import (
	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine/reccache"
	"github.com/basaltdb/basalt/engine/rocks"
)

// commonValue is the free space in bytes that a read reserves: a longer value costs a second cgo call when the arena is
// full.
const commonValue = 2 << 10

// Get returns the value of a key as the transaction sees it.
func (tx *Tx) Get(id cf.ID, key []byte) (value []byte, found bool, err error) {
	value, _, found, err = tx.read(id, key, 0, nil)
	return value, found, err
}

// read is Get. most above 0 is for callers that need only that many bytes from the beginning of the value; the result
// may be longer nevertheless. size is the length of the whole value. A caller that may need other parts of the value
// too passes held. If the value was cut off, held is set, and the caller must close it.
//
// Of a value that was cut off, the transaction remembers at most the head.
func (tx *Tx) read(id cf.ID, key []byte, most int, held *rocks.Held) (value []byte, size int, found bool, err error) {
	if len(tx.over.ents) > 0 {
		if e := tx.over.find(id, key); e != nil {
			switch {
			case e.kind == written || e.kind == cachedValue:
				value = tx.over.valueOf(e)
				return value, len(value), true, nil
			case e.kind != cachedHead:
				return nil, 0, false, nil
			case held == nil && most > 0 && most <= len(e.value):
				return e.value, e.valN, true, nil
			}
		}
	}
	if len(tx.over.ranges) > 0 && tx.over.deletedByRange(id, key) {
		return nil, 0, false, nil
	}
	tx.arena.reserve(commonValue)
	free := tx.arena.buf
	var h uint64
	ticket := reccache.NoTicket
	if c := tx.db.cache; c != nil && reccache.Holds(id) {
		h = c.Hash(id, key)
		if value, found, ticket = c.Get(h, id, key, free); found {
			value = tx.adopted(id, key, value, len(free))
			return value, len(value), true, nil
		}
	}
	if err := tx.asking(); err != nil {
		return nil, 0, false, err
	}
	whole := true
	switch {
	case held != nil:
		value, found, err = tx.db.rocks.GetHeld(tx.db.family(id), key, free, held)
		if size = held.Size(); size > 0 {
			whole = false
		}
	case most > 0:
		size, found, err = tx.db.rocks.GetHead(tx.db.family(id), key, free[len(free):cap(free)])
		n := size
		if whole = size <= cap(free)-len(free); !whole {
			n = min(most, cap(free)-len(free))
		}
		value = free[:len(free)+n]
	default:
		value, found, err = tx.db.rocks.Get(tx.db.family(id), key, free)
	}
	if err != nil || !found {
		if err == nil && id == cf.Metadata && tx.cacheOK {
			tx.cache(id, key, nil, false)
		}
		return nil, 0, false, err
	}
	if !whole {
		value = tx.arena.adopt(value, len(free))
		if id == cf.Metadata && tx.cacheOK {
			tx.cacheHead(id, key, value, size)
		}
		return value, size, true, nil
	}
	value = tx.adopted(id, key, value, len(free))
	// A caller that reads only the head, for example to see what a write replaces, does not need a large record again.
	if ticket != reccache.NoTicket && (most == 0 || len(value) <= reccache.SlotSize) {
		tx.db.cache.Fill(h, id, key, value, ticket)
	}
	return value, len(value), true, nil
}

// adopted takes over a value that was appended to the arena's buffer, and caches the value if it is a record that the
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
	if e := tx.over.find(id, key); e != nil {
		switch {
		case e.kind == cachedHead && found:
			e.kind, e.value = cachedValue, value
		}
		return
	}
	e := entry{id: id, key: tx.arena.copy(key), value: value, kind: cachedMissing}
	if found {
		e.kind = cachedValue
	}
	tx.over.insert(e)
}

// cacheHead remembers the beginning of a value of size bytes in the overlay.
func (tx *Tx) cacheHead(id cf.ID, key, head []byte, size int) {
	if e := tx.over.find(id, key); e == nil {
		tx.over.insert(entry{id: id, key: tx.arena.copy(key), value: head, valN: size, kind: cachedHead})
	}
}
