package command

import (
	"bytes"
	"slices"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/keys"
	"github.com/basaltdb/basalt/engine/list"
	sets "github.com/basaltdb/basalt/engine/set"
	"github.com/basaltdb/basalt/engine/zset"
)

var sortCommands = []Spec{
	{Name: "sort", Handler: sortElements, Arity: -2, Flags: Write | DenyOOM | MovableKeys, Keys: sortKeys},
	{Name: "sort_ro", Handler: sortElements, Arity: -2, Flags: ReadOnly | MovableKeys},
}

// The errors of SORT. Their texts are those of Redis, except errSortSize.
var (
	errSortNumber    = engine.NewError("ERR", "One or more scores can't be converted into double")
	errSortByCluster = engine.NewError("ERR", "BY option of SORT denied in cluster mode.")
	errSortGet       = engine.NewError("ERR", "GET option of SORT denied in cluster mode.")
	errSortByDenied  = engine.NewError("ERR", "BY option of SORT denied due to insufficient ACL permissions.")
	errSortGetDenied = engine.NewError("ERR", "GET option of SORT denied due to insufficient ACL permissions.")
	errSortSize      = engine.NewError("ERR", "there is too much to be sorted")
)

// maxSort bounds the memory of SORT, in bytes: for the elements and their sort keys, and for what it stores. On a host
// with little memory the bound is engine.DB.MaxResultBytes.
const maxSort = 1 << 30

// sortKeys are the key that is sorted, and the destination. Keys that patterns lead to are not known beforehand: see
// sortPattern.
func sortKeys(args [][]byte, add func(argIndex int, write bool)) error {
	store := 0
	for i := 2; i < len(args); i++ {
		switch {
		case EqualFold(args[i], "LIMIT"):
			i += 2
		case EqualFold(args[i], "BY"), EqualFold(args[i], "GET"):
			i++
		case EqualFold(args[i], "STORE"):
			i++
			store = i
		}
	}
	add(1, false)
	if store > 0 {
		add(store, true)
	}
	return nil
}

// sortOptions are the options of SORT.
type sortOptions struct {
	desc, alpha bool
	noSort      bool         // BY something without a star
	by          *sortPattern // nil = by the elements themselves
	gets        []sortPattern
	start       int64
	count       int64 // negative = all
	store       []byte
	stores      bool
}

// parseSort reads the options. allKeys: the user may read every key, which Redis asks for even where the pattern
// names none.
func parseSort(args [][]byte, readOnly, cluster bool, allKeys func() bool) (o sortOptions, err error) {
	o.count = -1
	w := options{args: args}
	for w.more() {
		switch {
		case w.is("ASC"):
			o.desc = false
		case w.flag("DESC", &o.desc):
		case w.flag("ALPHA", &o.alpha):
		case w.limit(&o.start, &o.count):
		case !readOnly && w.value("STORE", &o.store):
			o.stores = true
		case w.has("BY", 1):
			// One without a star ends all sorting, also by a pattern that comes later, as in Redis.
			p := parseSortPattern(w.next())
			if o.by = &p; p.star {
				w.check(!cluster, errSortByCluster)
				w.check(allKeys(), errSortByDenied)
			} else {
				o.noSort = true
			}
		case w.has("GET", 1):
			w.check(!cluster, errSortGet)
			w.check(allKeys(), errSortGetDenied)
			o.gets = append(o.gets, parseSortPattern(w.next()))
		default:
			w.err = ErrSyntax
		}
	}
	return o, w.err
}

// window returns which of n elements are wanted: count elements from start on.
func (o *sortOptions) window(n int64) (start, count int64) {
	start = min(max(o.start, 0), n)
	if o.count < 0 {
		return start, n - start
	}
	return start, min(o.count, n-start)
}

// sortElements is SORT and SORT_RO.
func sortElements(c *Ctx) error {
	readOnly := c.Spec.Flags&ReadOnly != 0
	o, err := parseSort(c.Args[2:], readOnly, c.Tx.DB().Slots(), func() bool { return mayReadAllKeys(c) })
	if err != nil {
		return err
	}
	v, err := sortSource(c, &o)
	if err != nil {
		return err
	}
	if v.unsorted && len(v.items) > 0 {
		if err := v.keys(c, &o); err != nil {
			return err
		}
		v.sort(&o)
	}
	items := v.items
	if !v.cut {
		start, count := o.window(int64(len(items)))
		items = items[start : start+count]
	}
	if o.stores {
		return sortKeep(c, &o, items)
	}
	columns := max(len(o.gets), 1)
	c.Out.Array(columns * len(items))
	mark := c.Out.Mark()
	return sortRows(c, &o, items, func(value []byte) error {
		bulkOrNull(c, value, value != nil)
		if c.Out.Len()-mark > maxRandomReply {
			return errReplySize
		}
		return nil
	})
}

// sortItem is an element and its sort key.
type sortItem struct {
	elem  []byte
	key   []byte // with ALPHA and BY; nil = none
	score float64
}

const sortItemSize = 56

// sortVector holds the elements to sort.
type sortVector struct {
	items    []sortItem
	unsorted bool // the elements are not in their order yet
	cut      bool // LIMIT was applied
	chunk    []byte
	room     int64 // bytes that the elements may still take
}

func (v *sortVector) full() bool { return v.room < 0 }

// add copies an element. Beyond the limit no element is added any more.
func (v *sortVector) add(elem []byte) {
	if v.room -= int64(len(elem)) + sortItemSize; v.full() {
		return
	}
	if v.chunk == nil || cap(v.chunk)-len(v.chunk) < len(elem) {
		v.chunk = make([]byte, 0, max(len(elem), min(max(2*cap(v.chunk), 512), 256<<10)))
	}
	at := len(v.chunk)
	v.chunk = append(v.chunk, elem...)
	v.items = append(v.items, sortItem{elem: v.chunk[at:len(v.chunk):len(v.chunk)]})
}

// sortSource reads the elements to sort. With BY nosort, only the elements that LIMIT selects are read from a list or
// a sorted set.
func sortSource(c *Ctx, o *sortOptions) (v sortVector, err error) {
	tx, key := c.Tx, c.Args[1]
	rec, err := tx.LoadHead(key)
	if err == nil && rec.Type == cf.TypeList {
		err = tx.LoadRest(&rec)
	}
	if err != nil || !rec.Exists {
		return v, err
	}
	switch rec.Type {
	case cf.TypeList, cf.TypeSet, cf.TypeZSet:
	default:
		return v, engine.ErrWrongType
	}
	n := int64(rec.Size)
	start, count := o.window(n)
	v.cut, v.unsorted = o.noSort, !o.noSort
	if v.unsorted {
		start, count = 0, n
	}
	v.room = min(maxSort, tx.DB().MaxResultBytes())
	if count > v.room/sortItemSize {
		return v, errSortSize
	}
	if count == 0 {
		return v, nil
	}
	v.items = make([]sortItem, 0, count)
	turned := o.noSort && o.desc && (rec.Type != cf.TypeSet || o.stores || c.InScript)
	switch rec.Type {
	case cf.TypeList:
		if turned {
			start = n - start - count
		}
		err = list.Range(tx, key, start, start+count-1, func(uint64) {}, v.add)
	case cf.TypeSet:
		// The order of a set would be any; here it is that of its bytes, which Redis too makes it for STORE and in
		// scripts. Only there has DESC a meaning.
		if turned {
			start = n - start - count
		}
		i := int64(0)
		err = sets.Each(tx, key, func(uint64) {}, func(member []byte) {
			if i >= start && i < start+count {
				v.add(member)
			}
			i++
		})
	case cf.TypeZSet:
		q := zset.Query{Start: start, Stop: start + count - 1, Reverse: turned}
		err = zset.Range(tx, key, &q, func(member []byte, _ float64) { v.add(member) })
	}
	if turned && rec.Type != cf.TypeZSet {
		slices.Reverse(v.items)
	}
	if err == nil && v.full() {
		err = errSortSize
	}
	return v, err
}

// keys finds out what each element is sorted by.
func (v *sortVector) keys(c *Ctx, o *sortOptions) error {
	if o.by == nil {
		if o.alpha {
			return nil
		}
		for i := range v.items {
			if !v.items[i].setScore(v.items[i].elem) {
				return errSortNumber
			}
		}
		return nil
	}
	numeric := true
	err := o.by.lookUp(c, v.items, func(i int, value []byte) error {
		switch {
		case value == nil: // sorts as 0, with ALPHA before all others
		case o.alpha:
			v.items[i].key = value
			v.room -= int64(len(value))
		default:
			numeric = v.items[i].setScore(value) && numeric
		}
		if v.full() {
			return errSortSize
		}
		return nil
	})
	if err == nil && !numeric {
		err = errSortNumber
	}
	return err
}

// setScore reads the number that an element is sorted by, with the rules of C's strtod: blanks may come before it,
// the text ends at a zero byte, and an empty one is 0.
func (it *sortItem) setScore(text []byte) (ok bool) {
	text = cString(text)
	if len(text) == 0 {
		return true
	}
	it.score, ok = ParseFloat(bytes.TrimLeft(text, " \t\n\v\f\r"))
	return ok
}

// sort sorts the elements: equal numbers by the elements, elements with equal strings not at all.
func (v *sortVector) sort(o *sortOptions) {
	sign := 1
	if o.desc {
		sign = -1
	}
	switch {
	case !o.alpha:
		slices.SortFunc(v.items, func(a, b sortItem) int {
			switch {
			case a.score < b.score:
				return -sign
			case a.score > b.score:
				return sign
			}
			return sign * bytes.Compare(a.elem, b.elem)
		})
	case o.by == nil:
		slices.SortFunc(v.items, func(a, b sortItem) int { return sign * bytes.Compare(a.elem, b.elem) })
	default:
		slices.SortStableFunc(v.items, func(a, b sortItem) int {
			switch {
			case a.key == nil && b.key == nil:
				return 0
			case a.key == nil:
				return -sign
			case b.key == nil:
				return sign
			}
			return sign * bytes.Compare(a.key, b.key)
		})
	}
}

// sortRows calls f with all values of the result in their order; nil stands for a missing value.
func sortRows(c *Ctx, o *sortOptions, items []sortItem, f func(value []byte) error) error {
	if len(o.gets) == 0 {
		for i := range items {
			if err := f(items[i].elem); err != nil {
				return err
			}
		}
		return nil
	}
	values := make([][]byte, 0, min(len(items), sortBatch)*len(o.gets))
	for len(items) > 0 {
		some := items[:min(len(items), sortBatch)]
		items = items[len(some):]
		values = values[:len(some)*len(o.gets)]
		for g := range o.gets {
			err := o.gets[g].lookUp(c, some, func(i int, value []byte) error {
				values[i*len(o.gets)+g] = value
				return nil
			})
			if err != nil {
				return err
			}
		}
		for _, value := range values {
			if err := f(value); err != nil {
				return err
			}
		}
	}
	return nil
}

// sortKeep keeps the result as a list in the place of what the destination holds, which may be the key that was
// sorted. A missing value becomes an empty element; without values no list is stored.
func sortKeep(c *Ctx, o *sortOptions, items []sortItem) error {
	elems := make([][]byte, 0, min(len(items)*max(len(o.gets), 1), 1<<16))
	size, stored := int64(0), 0
	each := len(c.Tx.NSKey(o.store)) + 4 + 2*8 // the key of an element: a length, the version, the index
	room := c.Tx.BatchRoom()
	err := sortRows(c, o, items, func(value []byte) error {
		elems = append(elems, value)
		if size += int64(len(value) + len(o.store) + recordSize); size > maxSort {
			return errSortSize
		}
		if stored += each + len(value); int64(stored) > room {
			return engine.ErrBatchSize
		}
		return nil
	})
	if err == nil {
		err = c.Tx.Reserve(len(elems), stored)
	}
	if err != nil {
		return err
	}
	if _, err := keys.Del(c.Tx, o.store); err != nil {
		return err
	}
	if len(elems) > 0 {
		_, err = list.Push(c.Tx, o.store, elems, false, false)
	}
	return replyInt(c, len(elems), err)
}
