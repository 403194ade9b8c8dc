package list

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
)

// PosOptions selects the occurrences that Pos returns.
type PosOptions struct {
	Rank   int64  // 1 = from the first occurrence, 2 = from the second, -1 = backwards from the last, ...
	Count  uint64 // the max number of occurrences; 0 = all
	MaxLen uint64 // the max number of comparisons; 0 = no limit
}

// Pos calls f with the indexes, counted from the left, of the occurrences of an element.
func Pos(tx *engine.Tx, key, elem []byte, o PosOptions, f func(index uint64)) error {
	l, err := load(tx, key)
	if err != nil || !l.Exists {
		return err
	}
	reverse, skip := o.Rank < 0, uint64(o.Rank-1)
	if reverse {
		skip = uint64(-(o.Rank + 1))
	}
	it := l.iter(tx, l.head, l.tail, reverse)
	defer it.Close()
	tx.ReadsDone()
	var compared, found uint64
	for (o.MaxLen == 0 || compared < o.MaxLen) && it.Next() {
		compared++
		if !bytes.Equal(it.Value(), elem) {
			continue
		}
		if skip > 0 {
			skip--
			continue
		}
		i, err := l.index(tx, it)
		if err != nil {
			return err
		}
		f(i - l.head)
		if found++; found == o.Count {
			return nil
		}
	}
	return it.Err()
}

// Insert adds an element before or after the first occurrence of pivot. It returns the new length, -1 when pivot is
// missing, 0 when the list does not exist. The shorter side of the list moves by one index.
func Insert(tx *engine.Tx, key, pivot, elem []byte, before bool) (int64, error) {
	l, err := load(tx, key)
	if err != nil || !l.Exists {
		return 0, err
	}
	at, found, err := l.find(tx, pivot)
	if err != nil {
		return 0, err
	}
	if !found {
		return -1, nil
	}
	tx.LogData(cf.AppendLogLInsert(nil, before, pivot, elem))
	if !before {
		at++
	}
	// The new element goes between at-1 and at: either the elements to its left move down, or those to its right move
	// up.
	if at-l.head <= l.tail-at {
		if err := l.shift(tx, l.head, at, -1); err != nil {
			return 0, err
		}
		l.put(tx, at-1, elem)
		l.head--
	} else {
		if err := l.shift(tx, at, l.tail, 1); err != nil {
			return 0, err
		}
		l.put(tx, at, elem)
		l.tail++
	}
	l.save(tx)
	return int64(l.Size), nil
}

// find returns the index of the first occurrence of an element.
func (l *state) find(tx *engine.Tx, elem []byte) (at uint64, found bool, err error) {
	it := l.iter(tx, l.head, l.tail, false)
	defer it.Close()
	for it.Next() {
		if bytes.Equal(it.Value(), elem) {
			at, err = l.index(tx, it)
			return at, err == nil, err
		}
	}
	return 0, false, it.Err()
}

// shift rewrites the elements [from, to) one index lower (by -1, last element first) or higher (by 1, first element
// first), in the order of Kvrocks's records.
func (l *state) shift(tx *engine.Tx, from, to uint64, by int) error {
	if from == to {
		return nil
	}
	it := l.iter(tx, from, to, by < 0)
	defer it.Close()
	n := uint64(0)
	for it.Next() {
		i, err := l.index(tx, it)
		if err != nil {
			return err
		}
		l.put(tx, i+uint64(by), it.Value())
		n++
	}
	return l.complete(tx, it, n, from, to)
}

// complete returns an iterator's error, or an error when it found n elements instead of all of [from, to).
func (l *state) complete(tx *engine.Tx, it *engine.Iter, n, from, to uint64) error {
	if err := it.Err(); err != nil {
		return err
	}
	if n != to-from {
		return fmt.Errorf("key %q: %w: %d of the %d elements from index %d on are missing", tx.UserKey(&l.Record),
			cf.ErrCorrupt, to-from-n, to-from, from)
	}
	return nil
}

// Remove removes the first count occurrences of an element, the last -count ones when count is negative, all when it is
// 0. It returns how many it removed. The shorter side of the list closes the gaps.
func Remove(tx *engine.Tx, key []byte, count int64, elem []byte) (int64, error) {
	l, err := load(tx, key)
	if err != nil || !l.Exists {
		return 0, err
	}
	gone, err := l.occurrences(tx, count, elem)
	if err != nil || len(gone) == 0 {
		return 0, err
	}
	tx.LogData(cf.AppendLogLRem(nil, count, elem))
	if uint64(len(gone)) == l.Size {
		tx.Drop(&l.Record)
		return int64(len(gone)), nil
	}
	first, last := gone[0], gone[len(gone)-1] // ascending
	if last-l.head <= l.tail-1-first {
		err = l.close(tx, l.head, last+1, gone, true)
		l.head += uint64(len(gone))
	} else {
		err = l.close(tx, first, l.tail, gone, false)
		l.tail -= uint64(len(gone))
	}
	if err != nil {
		return 0, err
	}
	l.save(tx)
	return int64(len(gone)), nil
}

// occurrences returns the ascending indexes of the elements that Remove removes.
func (l *state) occurrences(tx *engine.Tx, count int64, elem []byte) ([]uint64, error) {
	most := uint64(count)
	if count < 0 {
		most = -most
	}
	it := l.iter(tx, l.head, l.tail, count < 0)
	defer it.Close()
	var at []uint64
	for it.Next() {
		if !bytes.Equal(it.Value(), elem) {
			continue
		}
		i, err := l.index(tx, it)
		if err != nil {
			return nil, err
		}
		at = append(at, i)
		if uint64(len(at)) == most {
			break
		}
	}
	if count < 0 {
		slices.Reverse(at)
	}
	return at, it.Err()
}

// close rewrites the elements [from, to) without the indexes in gone, packed against to (up) or against from, and
// deletes the records that become free.
func (l *state) close(tx *engine.Tx, from, to uint64, gone []uint64, up bool) error {
	it := l.iter(tx, from, to, up)
	defer it.Close()
	free := from
	if up {
		free = to - 1
	}
	g, n := 0, uint64(0)
	for ; it.Next(); n++ {
		i, err := l.index(tx, it)
		if err != nil {
			return err
		}
		next := g
		if up {
			next = len(gone) - 1 - g
		}
		if g < len(gone) && gone[next] == i {
			g++
			continue
		}
		if i != free {
			l.put(tx, free, it.Value())
		}
		if up {
			free--
		} else {
			free++
		}
	}
	if err := l.complete(tx, it, n, from, to); err != nil {
		return err
	}
	for k := range uint64(len(gone)) { // from the end of the list inwards
		if up {
			l.delete(tx, from+k)
		} else {
			l.delete(tx, to-1-k)
		}
	}
	return nil
}
