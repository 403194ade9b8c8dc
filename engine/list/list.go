// Package list is the list type on an [engine.Tx]. An element is one record of the default family:
//
//	prefix · u64 index -> element
//
// The metadata record holds the number of elements and, after the common fields, head and tail: the elements have the
// indexes [head, tail). A new list begins at [cf.ListOrigin]. A push to the left lowers head, a push to the right
// raises tail. So reading an element is one point read however long the list is, and reading a range is one scan.
//
// A list that loses its last element is deleted.
//
// Functions that write need the key's lock for writing, the others for reading; [engine.DB.Update] and [engine.DB.View]
// take the locks. Returned slices are valid until the end of the transaction, slices passed to a callback until the
// callback returns. A key of another type gives [engine.ErrWrongType].
package list

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
)

// Errors of the functions of this package.
var (
	ErrNoKey = engine.NewError("ERR", "no such key")
	ErrIndex = engine.NewError("ERR", "index out of range")
)

// state is a list's metadata.
type state struct {
	engine.Record
	head, tail uint64
}

func load(tx *engine.Tx, key []byte) (state, error) {
	rec, err := tx.Load(key, cf.TypeList)
	l := state{Record: rec, head: cf.ListOrigin, tail: cf.ListOrigin}
	if err != nil || !rec.Exists {
		return l, err
	}
	if l.head, l.tail, err = cf.DecodeListTail(rec.Tail); err == nil && l.tail-l.head != l.Size {
		err = fmt.Errorf("%w: %d elements at the indexes [%d, %d)", cf.ErrCorrupt, l.Size, l.head, l.tail)
	}
	if err != nil {
		return l, fmt.Errorf("key %q: %w", key, err)
	}
	return l, nil
}

// save writes the metadata record, or deletes it when the list is empty.
func (l *state) save(tx *engine.Tx) {
	l.Size = l.tail - l.head
	if l.Size == 0 {
		tx.Drop(&l.Record)
		return
	}
	var tail [16]byte
	tx.Save(&l.Record, cf.AppendListTail(tail[:0], l.head, l.tail))
}

func (l *state) put(tx *engine.Tx, index uint64, elem []byte) {
	tx.PutSubkey(&l.Record, cf.Default, tx.SubkeyU64(&l.Record, index), elem)
}

func (l *state) delete(tx *engine.Tx, index uint64) {
	tx.DeleteSubkey(cf.Default, tx.SubkeyU64(&l.Record, index))
}

func (l *state) get(tx *engine.Tx, index uint64) ([]byte, error) {
	elem, found, err := tx.Get(cf.Default, tx.SubkeyU64(&l.Record, index))
	if err == nil && !found {
		err = fmt.Errorf("key %q: %w: there is no element at the index %d", tx.UserKey(&l.Record), cf.ErrCorrupt, index)
	}
	return elem, err
}

// at turns a user's index (negative = from the end) into a record's index.
func (l *state) at(index int64) (uint64, bool) {
	if index < 0 {
		index += int64(l.Size)
	}
	if index < 0 || uint64(index) >= l.Size {
		return 0, false
	}
	return l.head + uint64(index), true
}

// clamp turns a user's range (both ends included, negative = from the end) into record indexes [from, to).
func (l *state) clamp(start, stop int64) (from, to uint64) {
	size := int64(l.Size)
	if start < 0 {
		start = max(start+size, 0)
	}
	if stop < 0 {
		stop += size
	}
	stop = min(stop, size-1)
	if start > stop {
		return l.head, l.head
	}
	return l.head + uint64(start), l.head + uint64(stop) + 1
}

// bound returns the key of the element at an index, as a bound of a scan.
func (l *state) bound(tx *engine.Tx, index uint64) []byte {
	return bytes.Clone(tx.SubkeyU64(&l.Record, index))
}

// iter returns an iterator over the elements [from, to), backwards with reverse.
func (l *state) iter(tx *engine.Tx, from, to uint64, reverse bool) *engine.Iter {
	return tx.Iter(cf.Default, engine.IterOptions{Prefix: tx.SubkeyPrefix(&l.Record), Lower: l.bound(tx, from),
		Upper: l.bound(tx, to), Reverse: reverse, Limit: int(min(to-from, 1<<30))})
}

// index returns the record index of an iterator's current element.
func (l *state) index(tx *engine.Tx, it *engine.Iter) (uint64, error) {
	if len(it.Key()) != 8 {
		return 0, fmt.Errorf("key %q: %w: list index of %d bytes", tx.UserKey(&l.Record), cf.ErrCorrupt, len(it.Key()))
	}
	return binary.BigEndian.Uint64(it.Key()), nil
}

// Len returns the number of elements.
func Len(tx *engine.Tx, key []byte) (uint64, error) {
	l, err := load(tx, key)
	return l.Size, err
}

// Push adds elements one after the other at the left or the right end and returns the new length. With existing it adds
// nothing, and returns 0, when the list does not exist.
func Push(tx *engine.Tx, key []byte, elems [][]byte, left, existing bool) (uint64, error) {
	l, err := load(tx, key)
	if err != nil || existing && !l.Exists {
		return 0, err
	}
	l.push(tx, elems, left)
	l.save(tx)
	return l.Size, nil
}

// push adds elements one after the other at an end.
func (l *state) push(tx *engine.Tx, elems [][]byte, left bool) {
	if left {
		tx.LogData(cf.LogListPushL)
		for _, e := range elems {
			l.head--
			l.put(tx, l.head, e)
		}
		return
	}
	tx.LogData(cf.LogListPushR)
	for _, e := range elems {
		l.put(tx, l.tail, e)
		l.tail++
	}
}

// Pop removes up to n elements from the left or the right end and calls f with each. Before that it calls begin with
// their number, unless the list does not exist.
func Pop(tx *engine.Tx, key []byte, n uint64, left bool, begin func(n uint64), f func(elem []byte)) error {
	l, err := load(tx, key)
	if err != nil || !l.Exists {
		return err
	}
	n = min(n, l.Size)
	if err := tx.SubkeysFit(&l.Record, n, 8); err != nil {
		return err
	}
	begin(n)
	if n == 0 {
		return nil
	}
	from, to := l.end(n, left)
	if n == 1 { // the common case: a point read does not pass over the tombstones of earlier pops
		if err := l.prefetch(tx, from, left); err != nil {
			return err
		}
		elem, err := l.get(tx, from)
		if err != nil {
			return err
		}
		f(elem)
	} else {
		if err := l.each(tx, from, to, !left, f); err != nil {
			return err
		}
	}
	l.cut(tx, from, to, left)
	l.save(tx)
	return nil
}

// end returns the record indexes [from, to) of the n elements at an end.
func (l *state) end(n uint64, left bool) (from, to uint64) {
	if left {
		return l.head, l.head + n
	}
	return l.tail - n, l.tail
}

// cut removes the elements [from, to), which are those at an end.
func (l *state) cut(tx *engine.Tx, from, to uint64, left bool) {
	if left {
		tx.LogData(cf.LogListPopL)
		for i := from; i < to; i++ {
			l.delete(tx, i)
		}
		l.head = to
		return
	}
	tx.LogData(cf.LogListPopR)
	for i := to; i > from; i-- {
		l.delete(tx, i-1)
	}
	l.tail = from
}

// popAhead is how many elements one batched read returns when one pop follows another.
const popAhead = 32

// prefetch reads the elements that the next pops of the transaction will need, unless this pop is the first.
func (l *state) prefetch(tx *engine.Tx, index uint64, left bool) error {
	if !tx.Saved(&l.Record) || tx.Near(cf.Default, tx.SubkeyU64(&l.Record, index)) {
		return nil
	}
	from, to := index, min(index+popAhead, l.tail)
	if !left {
		from, to = max(l.head, index+1-popAhead), index+1
	}
	return tx.PrefetchRange(cf.Default, l.bound(tx, from), l.bound(tx, to), int(to-from))
}

// each calls f with the elements [from, to). A missing element is an error.
func (l *state) each(tx *engine.Tx, from, to uint64, reverse bool, f func(elem []byte)) error {
	it := l.iter(tx, from, to, reverse)
	defer it.Close()
	tx.ReadsDone()
	n := uint64(0)
	for it.Next() {
		f(it.Value())
		n++
	}
	return l.complete(tx, it, n, from, to)
}

// Index returns the element at an index; a negative index counts from the end.
func Index(tx *engine.Tx, key []byte, index int64) (elem []byte, found bool, err error) {
	l, err := load(tx, key)
	if err != nil || !l.Exists {
		return nil, false, err
	}
	i, ok := l.at(index)
	if !ok {
		return nil, false, nil
	}
	elem, err = l.get(tx, i)
	return elem, err == nil, err
}

// Range calls f with the elements from start to stop, both included. Before that it calls begin with their number.
func Range(tx *engine.Tx, key []byte, start, stop int64, begin func(n uint64), f func(elem []byte)) error {
	l, err := load(tx, key)
	if err != nil {
		return err
	}
	if !l.Exists {
		begin(0)
		return nil
	}
	from, to := l.clamp(start, stop)
	begin(to - from)
	if from == to {
		return nil
	}
	return l.each(tx, from, to, false, f)
}

// Set replaces the element at an index.
func Set(tx *engine.Tx, key []byte, index int64, elem []byte) error {
	l, err := load(tx, key)
	if err != nil {
		return err
	}
	if !l.Exists {
		return ErrNoKey
	}
	i, ok := l.at(index)
	if !ok {
		return ErrIndex
	}
	old, err := l.get(tx, i)
	if err != nil || bytes.Equal(old, elem) { // like Kvrocks, write nothing when the element does not change
		return err
	}
	var log [32]byte
	tx.LogData(cf.AppendLogLSet(log[:0], int64(i-l.head)))
	l.put(tx, i, elem)
	return nil
}

// Trim keeps the elements from start to stop, both included.
func Trim(tx *engine.Tx, key []byte, start, stop int64) error {
	l, err := load(tx, key)
	if err != nil || !l.Exists {
		return err
	}
	from, to := l.clamp(start, stop)
	if from == l.head && to == l.tail {
		return nil
	}
	if from == to { // nothing is left: deleting the record removes the elements, without log data as in Kvrocks
		tx.Drop(&l.Record)
		return nil
	}
	if stop < 0 {
		stop += int64(l.Size)
	}
	tx.LogData(cf.AppendLogLTrim(nil, int64(from-l.head), stop))
	if keepsLittle(l.Size, to-from) {
		return l.keep(tx, from, to)
	}
	if err := tx.SubkeysFit(&l.Record, l.Size-(to-from), 8); err != nil {
		return err
	}
	for i := l.head; i < from; i++ {
		l.delete(tx, i)
	}
	for i := to; i < l.tail; i++ {
		l.delete(tx, i)
	}
	l.head, l.tail = from, to
	l.save(tx)
	return nil
}

// keepsLittle reports whether Trim should write the keep elements that are left again under a new version, rather than
// delete all others: of a list of 1,000,000 all but 100 are removed in 0.02 instead of 1.4 seconds, and the batch has
// 100 elements instead of 1,000,000. Compactions drop the others.
func keepsLittle(size, keep uint64) bool {
	const least, share = 10000, 4
	removed := size - keep
	return removed > least && keep < removed/share
}

// keep writes the elements at the indexes [from, to) again under a new version, which all others do not have. It
// deletes one of the others: a Kvrocks that reads the batch makes LTRIM of the first deletion.
func (l *state) keep(tx *engine.Tx, from, to uint64) error {
	it := l.iter(tx, from, to, false)
	defer it.Close()
	removed := l.head
	if removed == from {
		removed = to
	}
	l.delete(tx, removed)
	tx.Renew(&l.Record)
	n := uint64(0)
	for ; it.Next(); n++ {
		if err := tx.BatchError(); err != nil {
			return err
		}
		l.put(tx, from+n, it.Value())
	}
	if err := l.complete(tx, it, n, from, to); err != nil {
		return err
	}
	l.head, l.tail = from, to
	l.save(tx)
	return nil
}

// Move removes an element from one end of a list and adds it at an end of another list or of the same one.
func Move(tx *engine.Tx, from, to []byte, fromLeft, toLeft bool) (elem []byte, found bool, err error) {
	src, err := load(tx, from)
	if err != nil || !src.Exists {
		return nil, false, err
	}
	same := string(from) == string(to)
	dst := src
	if !same {
		if dst, err = load(tx, to); err != nil {
			return nil, false, err
		}
	}
	at := src.head
	if !fromLeft {
		at = src.tail - 1
	}
	if err = src.prefetch(tx, at, fromLeft); err != nil {
		return nil, false, err
	}
	if elem, err = src.get(tx, at); err != nil {
		return nil, false, err
	}
	if same && (fromLeft == toLeft || src.Size == 1) {
		return elem, true, nil
	}
	tx.LogData(cf.AppendLogLMove(nil, from, to, fromLeft, toLeft))
	src.delete(tx, at)
	if fromLeft {
		src.head++
	} else {
		src.tail--
	}
	if same {
		dst.head, dst.tail = src.head, src.tail
	} else {
		src.save(tx)
	}
	if toLeft {
		dst.head--
		dst.put(tx, dst.head, elem)
	} else {
		dst.put(tx, dst.tail, elem)
		dst.tail++
	}
	dst.save(tx)
	return elem, true, nil
}
