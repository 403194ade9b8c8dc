package zset

import (
	"bytes"
	"math"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
)

// Flags are the conditions of ZADD.
type Flags uint8

// The conditions. NX excludes XX, GT and LT; GT excludes LT. The caller checks that.
const (
	NX   Flags = 1 << iota // only add members
	XX                     // only update members
	GT                     // update a member only when its score grows
	LT                     // update a member only when its score shrinks
	incr                   // the score is added to the old one
)

// apply returns the new score of a member, and whether the conditions allow the change.
func (f Flags) apply(had bool, old, arg float64) (score float64, ok bool, err error) {
	if !had {
		return arg, f&XX == 0, nil
	}
	if f&NX != 0 {
		return old, false, nil
	}
	score = arg
	if f&incr != 0 {
		if score += old; math.IsNaN(score) {
			return old, false, ErrNaN
		}
	}
	if f&LT != 0 && score >= old || f&GT != 0 && score <= old {
		return old, false, nil
	}
	return score, true, nil
}

// Add sets the scores of members, in the given order. It returns how many members are new and how many existing members
// changed their score. A repeated member is counted each time, as in Redis, but written once.
func Add(tx *engine.Tx, key []byte, f Flags, entries []Entry) (added, changed int, err error) {
	rec, err := load(tx, key)
	if err != nil || !rec.Exists && f&XX != 0 {
		return 0, 0, err
	}
	w := writer{tx: tx, rec: rec}
	if len(entries) == 1 {
		_, _, added, changed, err = w.addOne(f, entries[0])
	} else {
		added, changed, err = w.addMany(f, entries)
	}
	if err == nil {
		w.done()
	}
	return added, changed, err
}

// Incr adds by to the score of a member (0 for a new member) and returns the sum. ok is false when the conditions
// forbid the change.
func Incr(tx *engine.Tx, key []byte, f Flags, member []byte, by float64) (score float64, ok bool, err error) {
	rec, err := load(tx, key)
	if err != nil || !rec.Exists && f&XX != 0 {
		return 0, false, err
	}
	w := writer{tx: tx, rec: rec}
	score, ok, _, _, err = w.addOne(f|incr, Entry{member, by})
	if err == nil {
		w.done()
	}
	return score, ok, err
}

func (w *writer) addOne(f Flags, e Entry) (score float64, ok bool, added, changed int, err error) {
	var old float64
	var had bool
	if w.rec.Exists {
		if old, had, err = scoreOf(w.tx, &w.rec, e.Member); err != nil {
			return 0, false, 0, 0, err
		}
	}
	score, ok, err = f.apply(had, old, e.Score)
	if err != nil || !ok || had && score == old {
		return score, ok, 0, 0, err
	}
	w.put(e.Member, had, old, score)
	if had {
		return score, true, 0, 1, nil
	}
	return score, true, 1, 0, nil
}

// pending is the outcome for one member of an Add.
type pending struct {
	member   []byte
	had, has bool
	old, now float64
	last     int // index of the member's last occurrence
}

// addMany applies the entries in their order and then writes each member once, the member with the last occurrence
// first, as Kvrocks does.
func (w *writer) addMany(f Flags, entries []Entry) (added, changed int, err error) {
	var values [][]byte
	if w.rec.Exists {
		keys := w.tx.Keys()
		for i := range entries {
			keys.Add(w.tx.Subkey(&w.rec, entries[i].Member))
		}
		if values, err = w.tx.MultiGet(cf.Default, keys); err != nil {
			return 0, 0, err
		}
	}
	all := make([]pending, 0, len(entries))
	at := make([]int, len(entries)) // at[i] is the index in all of entry i's member
	find := finder(len(entries))
	for i := range entries {
		e := &entries[i]
		j := find(all, e.Member)
		if j == len(all) {
			p := pending{member: e.Member}
			if values != nil && values[i] != nil {
				if p.old, err = parseScore(w.tx, &w.rec, values[i]); err != nil {
					return 0, 0, err
				}
				p.had, p.has, p.now = true, true, p.old
			}
			all = append(all, p)
		}
		p := &all[j]
		p.last, at[i] = i, j
		score, ok, err := f.apply(p.has, p.now, e.Score)
		switch {
		case err != nil:
			return 0, 0, err
		case !ok:
			continue
		case !p.has:
			added++
		case score != p.now:
			changed++
		}
		p.has, p.now = true, score
	}
	for i := len(entries) - 1; i >= 0; i-- {
		p := &all[at[i]]
		if p.last == i && p.has && (!p.had || p.now != p.old) {
			w.put(p.member, p.had, p.old, p.now)
		}
	}
	return added, changed, nil
}

// finder returns a function that returns the index of a member in all, or len(all) for a new member, which the caller
// then appends. It compares few members one by one and uses a map for many.
func finder(n int) func(all []pending, member []byte) int {
	if n <= 16 {
		return func(all []pending, member []byte) int {
			for i := range all {
				if bytes.Equal(all[i].member, member) {
					return i
				}
			}
			return len(all)
		}
	}
	index := make(map[string]int, n)
	return func(all []pending, member []byte) int {
		i, ok := index[string(member)]
		if !ok {
			i = len(all)
			index[string(member)] = i
		}
		return i
	}
}
