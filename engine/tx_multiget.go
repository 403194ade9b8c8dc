package engine

import (
	"bytes"
	"encoding/binary"
	"slices"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine/reccache"
	"github.com/basaltdb/basalt/engine/rocks"
)

// KeyList is a list of keys for a batched read.
type KeyList struct {
	buf  []byte
	lens []uint32
}

// Reset empties the list.
func (l *KeyList) Reset() { l.buf, l.lens = l.buf[:0], l.lens[:0] }

// Add appends a copy of a key.
func (l *KeyList) Add(key []byte) {
	l.buf = append(l.buf, key...)
	l.lens = append(l.lens, uint32(len(key)))
}

// Len returns the number of keys.
func (l *KeyList) Len() int { return len(l.lens) }

// remove removes the keys for which drop, called with their index and the key, returns true.
func (l *KeyList) remove(drop func(i int, key []byte) bool) {
	from, bytes, n := 0, 0, 0
	for i, size := range l.lens {
		key := l.buf[from : from+int(size)]
		from += int(size)
		if !drop(i, key) {
			bytes += copy(l.buf[bytes:], key)
			l.lens[n] = size
			n++
		}
	}
	l.buf, l.lens = l.buf[:bytes], l.lens[:n]
}

// Keys returns the transaction's own key list, emptied; it is valid until the next call.
func (tx *Tx) Keys() *KeyList {
	if cap(tx.list.buf) > 1<<20 {
		tx.list = KeyList{}
	}
	tx.list.Reset()
	return &tx.list
}

// multiGetBatch is the number of keys that one cgo call reads: measured best between 8 and 16 keys.
const multiGetBatch = 16

// MultiGet returns the values of several keys of one family; nil where no value exists (an empty value is not nil). The
// result slice is valid until the next call.
func (tx *Tx) MultiGet(id cf.ID, keys *KeyList) ([][]byte, error) {
	if len(keys.lens) != 1 { // a batch of one key costs HDEL of one field a tenth more than Get
		return tx.multiGet(id, keys, 0)
	}
	value, found, err := tx.Get(id, keys.buf)
	if found && value == nil {
		value = []byte{}
	}
	tx.vals = append(tx.vals[:0], value)
	return tx.vals, err
}

// MultiGetAt is MultiGet of a snapshot, below the transaction's own writes.
func (tx *Tx) MultiGetAt(snap *Snapshot, id cf.ID, keys *KeyList) ([][]byte, error) {
	if snap.s == nil {
		return nil, ErrClosed
	}
	tx.snap = snap
	defer func() { tx.snap = nil }()
	return tx.multiGet(id, keys, 0)
}

// multiGet is MultiGet; with most above 0 it leaves out values that are longer, and remembers their heads if the keys
// are locked. Then it also ends early, with fewer values than keys, when the transaction could not remember more.
func (tx *Tx) multiGet(id cf.ID, keys *KeyList, most int) ([][]byte, error) {
	tx.vals = slices.Grow(tx.vals[:0], len(keys.lens))[:len(keys.lens)]
	clear(tx.vals)
	tx.early, tx.leftOut = tx.early[:0], len(keys.lens)
	own := tx.over.dirty(id) || len(tx.over.ents) > 0
	cache := tx.db.cache
	if !reccache.Holds(id) || tx.snap != nil { // the cache has the newest records
		cache = nil
	}
	if cache != nil {
		tx.touchCached(id, keys)
	}
	var miss missList
	off, size := 0, 0
	for i, l := range keys.lens {
		key := keys.buf[off : off+int(l)]
		off += int(l)
		if own {
			if e := tx.over.find(id, key); e != nil {
				if e.kind == written || e.kind == cachedValue {
					tx.vals[i] = tx.over.valueOf(e)
				}
				if e.kind != cachedHead {
					continue
				}
			}
			if len(tx.over.ranges) > 0 && tx.over.deletedByRange(id, key) {
				continue
			}
		}
		m := &miss.keys[miss.n]
		*m = missKey{at: i, from: off - int(l), ticket: reccache.NoTicket}
		if cache != nil {
			tx.arena.reserve(reccache.LargestRecord)
			free := tx.arena.buf
			m.hash = tx.hashes[i]
			v, is, ticket := cache.Get(m.hash, id, key, free)
			if is != reccache.Unknown {
				if is == reccache.Present {
					tx.vals[i] = tx.arena.adopt(v, len(free))
				}
				if miss.n > 0 {
					tx.early = append(tx.early, i)
				}
				continue
			}
			m.ticket = ticket
		}
		if miss.n++; miss.n == len(miss.keys) {
			if err := tx.readMissing(id, keys, &miss, most); err != nil {
				return nil, err
			}
			for j := range miss.keys {
				size += len(tx.vals[miss.keys[j].at])
			}
			if most > 0 && tx.over.cached+size > maxCachedReads {
				return tx.vals[:i+1], nil
			}
		}
	}
	return tx.vals, tx.readMissing(id, keys, &miss, most)
}

// touchCached computes the hashes of keys for the record cache, and prefetches their sets and slots into the CPU
// caches.
func (tx *Tx) touchCached(id cf.ID, keys *KeyList) {
	tx.hashes = tx.hashes[:0]
	off := 0
	for _, l := range keys.lens {
		tx.hashes = append(tx.hashes, tx.db.cache.Hash(id, keys.buf[off:off+int(l)]))
		off += int(l)
	}
	tx.touchedSum += tx.db.cache.Touch(tx.hashes)
}

// removeCached removes the keys that the record cache seems to hold.
func (tx *Tx) removeCached(id cf.ID, keys *KeyList) {
	if c := tx.db.cache; c != nil && reccache.Holds(id) {
		tx.touchCached(id, keys)
		keys.remove(func(i int, _ []byte) bool { return c.SeemsToHold(tx.hashes[i]) })
	}
}

// missList holds the keys of a batched read that only RocksDB can answer.
type missList struct {
	n    int
	keys [multiGetBatch]missKey
	lens [multiGetBatch]uint32
}

type missKey struct {
	at, from int // index of the key, and its offset in the list
	hash     uint64
	ticket   uint32
}

func (tx *Tx) readMissing(id cf.ID, keys *KeyList, miss *missList, most int) error {
	if miss.n == 0 {
		return nil
	}
	tx.missBuf = tx.missBuf[:0]
	for j := range miss.keys[:miss.n] {
		m := &miss.keys[j]
		miss.lens[j] = keys.lens[m.at]
		tx.missBuf = append(tx.missBuf, keys.buf[m.from:m.from+int(miss.lens[j])]...)
	}
	if err := tx.readBatch(id, tx.missBuf, miss.lens[:miss.n], miss.keys[:miss.n], most); err != nil {
		return err
	}
	miss.n = 0
	return nil
}

// leastBatchRoom is the min number of free bytes in the arena for the values of a batch.
const leastBatchRoom = 4 << 10

// readBatch reads up to multiGetBatch keys with one cgo call.
func (tx *Tx) readBatch(id cf.ID, keys []byte, lens []uint32, miss []missKey, most int) error {
	if err := tx.usable(); err != nil {
		return err
	}
	// The values are read directly into the arena. A batch is probably as long as the previous one.
	tx.arena.reserve(max(leastBatchRoom, tx.batchBytes))
	var snap *rocks.Snapshot
	if tx.snap != nil {
		snap = tx.snap.s
	}
	res, err := tx.db.rocks.MultiGet(snap, tx.db.family(id), keys, lens, most, tx.arena.take(1))
	if err != nil {
		return err
	}
	tx.batchBytes = min(len(res), arenaMax/2)
	res = tx.arena.keepGrown(res)
	off := 0
	for i, l := range lens {
		n := binary.LittleEndian.Uint32(res)
		res = res[4:]
		switch {
		case n == rocks.Missing:
			tx.fillAbsent(miss[i].hash, id, keys[off:off+int(l)], miss[i].ticket)
		case most > 0 && int(n) > most:
			if tx.leftOut = min(tx.leftOut, miss[i].at); tx.cacheOK {
				tx.cacheHead(id, keys[off:off+int(l)], slices.Clip(res[:min(most, commonValue)]), int(n))
			}
			res = res[most:]
		default:
			v := res[:n:n]
			res = res[n:]
			tx.vals[miss[i].at] = v
			if miss[i].ticket != reccache.NoTicket {
				tx.db.cache.Fill(miss[i].hash, id, keys[off:off+int(l)], v, miss[i].ticket)
			}
		}
		off += int(l)
	}
	return nil
}

// PrefetchBlind reads, in batches, the metadata records of keys that are about to be overwritten blindly: the
// key count needs to know whether they exist. Keys that are known to exist are left out.
func (tx *Tx) PrefetchBlind(userKeys [][]byte) error {
	if len(userKeys) < 2 {
		return nil
	}
	l := tx.Keys()
	tx.hashes = tx.hashes[:0]
	for _, k := range userKeys {
		tx.keyBuf = cf.AppendNSKey(tx.keyBuf[:0], tx.ns, k, tx.db.slots)
		l.Add(tx.keyBuf)
		tx.hashes = append(tx.hashes, tx.db.presence.Hash(tx.keyBuf))
	}
	return tx.prefetchHashed(l)
}

// prefetchHashed is PrefetchBlind for metadata keys. Their hashes for the presence cache are in tx.hashes.
func (tx *Tx) prefetchHashed(l *KeyList) error {
	if !tx.db.fitsCache() {
		return nil // see peek
	}
	// A separate loop, so that CPU cache misses overlap.
	for i, h := range tx.hashes {
		if tx.db.presence.ExistsHash(h) {
			tx.hashes[i] = 0 // never the hash of a key
		}
	}
	l.remove(func(i int, key []byte) bool { return tx.hashes[i] == 0 || tx.knowsMeta(key) })
	tx.removeCached(cf.Metadata, l)
	return tx.prefetch(l, cf.MaxHead)
}

// knowsMeta reports whether the transaction knows a metadata record.
func (tx *Tx) knowsMeta(nsKey []byte) bool {
	return tx.over.find(cf.Metadata, nsKey) != nil
}

// prefetchMost is the length of the longest value that Prefetch reads. Of a longer value it keeps the head: a command
// that needs the whole value reads it itself, and the others need not hold it in memory, twice and together with the
// other values.
const prefetchMost = 1 << 20

// Prefetch reads the metadata records of several user keys in batches and caches them, so that the Load of
// each is served from memory.
func (tx *Tx) Prefetch(userKeys [][]byte) error {
	if len(userKeys) < 2 {
		return nil
	}
	l := tx.Keys()
	for _, k := range userKeys {
		tx.keyBuf = cf.AppendNSKey(tx.keyBuf[:0], tx.ns, k, tx.db.slots)
		if !tx.knowsMeta(tx.keyBuf) {
			l.Add(tx.keyBuf)
		}
	}
	return tx.prefetch(l, prefetchMost)
}

// inOrder returns how many of the values that multiGet has read of unlocked metadata records may stand for reads in the
// order of the keys. A client that reads two keys must not find the second one older than the first one. But what the
// record cache has was read before what came from RocksDB: such a value counts only if it has not changed since. A
// record that was left out is read later, so the values behind it do not count.
func (tx *Tx) inOrder(l *KeyList) int {
	at, off := 0, 0
	for _, i := range tx.early {
		for ; at < i; at++ {
			off += int(l.lens[at])
		}
		tx.arena.reserve(reccache.LargestRecord)
		free := tx.arena.buf
		v, is, _ := tx.db.cache.Get(tx.hashes[i], cf.Metadata, l.buf[off:off+int(l.lens[i])], free)
		if is == reccache.Unknown || (is == reccache.Absent) != (tx.vals[i] == nil) ||
			!bytes.Equal(v[len(free):], tx.vals[i]) {
			return min(i, tx.leftOut)
		}
	}
	return min(l.Len(), tx.leftOut)
}

// prefetch reads metadata records and remembers them; of records longer than most it remembers the head, if the keys
// are locked. Of keys that are not locked it remembers only what was read in the order of the keys.
func (tx *Tx) prefetch(l *KeyList, most int) error {
	if l.Len() == 0 {
		return nil
	}
	vals, err := tx.multiGet(cf.Metadata, l, most)
	if err != nil {
		return err
	}
	lens := l.lens[:len(vals)]
	if !tx.cacheOK {
		lens = lens[:min(len(lens), tx.inOrder(l))]
	}
	off := 0
	for i, n := range lens { // the heads of values that were left out are remembered already
		key := l.buf[off : off+int(n)]
		if vals[i] != nil || !tx.knowsMeta(key) {
			tx.cache(cf.Metadata, key, vals[i], vals[i] != nil)
		}
		off += int(n)
	}
	return nil
}

// PrefetchKeys reads keys of a family in batches and caches them, so that the Get of each is served from memory. Keys
// in the record cache are left out. PrefetchKeys does nothing unless the locks of the collections are held. It changes
// the list.
func (tx *Tx) PrefetchKeys(id cf.ID, keys *KeyList) error {
	if !tx.cacheOK {
		return nil
	}
	tx.removeCached(id, keys)
	if keys.Len() < 2 {
		return nil
	}
	vals, err := tx.MultiGet(id, keys)
	if err != nil {
		return err
	}
	off := 0
	for i, n := range keys.lens {
		tx.cache(id, keys.buf[off:off+int(n)], vals[i], vals[i] != nil)
		off += int(n)
	}
	return nil
}
