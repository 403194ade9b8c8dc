package engine

import (
	"unsafe"

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
		var is reccache.Answer
		switch value, is, ticket = c.Get(h, id, key, free); is {
		case reccache.Present:
			value = tx.adopted(id, key, value, len(free))
			return value, len(value), true, nil
		case reccache.Absent:
			tx.missing(id, key)
			return nil, 0, false, nil
		}
	}
	if err := tx.usable(); err != nil {
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
	if err != nil {
		return nil, 0, false, err
	}
	if !found {
		tx.fillAbsent(h, id, key, ticket)
		tx.missing(id, key)
		return nil, 0, false, nil
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
	if ticket != reccache.NoTicket && (most == 0 || len(value) <= reccache.SmallRecord) {
		tx.db.cache.Fill(h, id, key, value, ticket)
	}
	return value, len(value), true, nil
}

// fillAbsent lets the record cache remember that a key has no record. What a transaction with locks finds missing it is
// mostly about to write: the entry would be replaced at once.
func (tx *Tx) fillAbsent(h uint64, id cf.ID, key []byte, ticket uint32) {
	if ticket != reccache.NoTicket && !tx.cacheOK {
		tx.db.cache.FillAbsent(h, id, key, ticket)
	}
}

// missing remembers that a record that the transaction may look for again does not exist.
func (tx *Tx) missing(id cf.ID, key []byte) {
	if id == cf.Metadata && tx.cacheOK {
		tx.cache(id, key, nil, false)
	}
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

// maxCachedReads is the max size in bytes of the reads that a transaction remembers: a script, or EXEC, may read all
// of the database.
const maxCachedReads = 16 << 20

// cache remembers the result of a read in the overlay.
func (tx *Tx) cache(id cf.ID, key, value []byte, found bool) {
	if tx.over.cached+len(value) > maxCachedReads {
		return
	}
	if e := tx.over.find(id, key); e != nil {
		if e.kind == cachedHead && found {
			e.kind, e.value = cachedValue, value
			tx.over.cached += len(value)
		}
		return
	}
	e := entry{id: id, key: tx.arena.copy(key), value: value, kind: cachedMissing}
	if found {
		e.kind = cachedValue
	}
	tx.over.insert(e)
	tx.over.cached += int(unsafe.Sizeof(e)) + len(key) + len(value)
}

// cacheHead remembers the beginning of a value of size bytes in the overlay. The head is kept beyond maxCachedReads
// too: prefetch takes what is not known afterwards for missing.
func (tx *Tx) cacheHead(id cf.ID, key, head []byte, size int) {
	if e := tx.over.find(id, key); e == nil {
		tx.over.insert(entry{id: id, key: tx.arena.copy(key), value: head, valN: size, kind: cachedHead})
	}
}
