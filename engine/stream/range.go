package stream

import (
	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
)

// RangeOptions select entries.
type RangeOptions struct {
	From, To ID // both included
	Reverse  bool
	Count    uint64 // max number; 0 = all
	// LastRead says that the transaction reads nothing else: its locks are released as soon as the iterator is open.
	LastRead bool
}

// Range calls f with the entries in a range of ids, ascending or descending.
func Range(tx *engine.Tx, key []byte, o RangeOptions, f func(e *Entry)) error {
	s, err := load(tx, key)
	if err != nil {
		return err
	}
	return s.scan(o, f)
}

// scan is Range on a loaded stream.
func (s *stream) scan(o RangeOptions, f func(e *Entry)) error {
	return s.scanWhile(o, func(e *Entry) bool {
		f(e)
		return true
	})
}

// scanWhile is scan until f returns false.
func (s *stream) scanWhile(o RangeOptions, f func(e *Entry) bool) error {
	from, to, count := greater(o.From, s.meta.First), smaller(o.To, s.meta.Last), o.Count
	if s.rec.Size == 0 || from.Compare(to) > 0 {
		return nil
	}
	if from == to { // one entry: a point read is cheaper than an iterator
		value, found, err := s.tx.Get(cf.Stream, s.entryKey(from))
		if err != nil || !found {
			return err
		}
		e, err := s.entry(from, value)
		if err == nil {
			f(&e)
		}
		return err
	}
	if count == 0 || count > s.rec.Size {
		count = s.rec.Size
	}
	it := s.iterate(from, to, engine.IterOptions{Reverse: o.Reverse, Limit: limitOf(count)})
	defer it.Close()
	if o.LastRead {
		s.tx.ReadsDone()
	}
	var e Entry
	for ; count > 0 && it.Next(); count-- {
		id, err := s.idOf(it.Key())
		if err != nil {
			return err
		}
		if e, err = s.entry(id, it.Value()); err != nil {
			return err
		}
		if !f(&e) {
			return nil
		}
	}
	return it.Err()
}

// After calls begin and then f with the entries whose ids are greater than id, at most count (0 = all), until f returns
// false. If no such entry exists, it calls neither and returns false.
func After(tx *engine.Tx, key []byte, id ID, count uint64, begin func(), f func(e *Entry) bool) (bool, error) {
	s, err := load(tx, key)
	if err != nil || !s.hasAfter(id) {
		return false, err
	}
	begin()
	next, _ := Next(id)
	return true, s.scanWhile(RangeOptions{From: next, To: MaxID, Count: count}, f)
}

// hasAfter reports whether an entry with a greater id exists.
func (s *stream) hasAfter(id ID) bool {
	return s.rec.Size > 0 && s.meta.Last.Compare(id) > 0
}

// Delete removes entries and returns how many existed. An empty stream continues to exist.
func Delete(tx *engine.Tx, key []byte, ids []ID) (deleted uint64, err error) {
	s, err := load(tx, key)
	if err != nil || s.rec.Size == 0 {
		return 0, err
	}
	ids = engine.Distinct(ids)
	values, err := s.values(ids)
	if err != nil {
		return 0, err
	}
	d := s.deletion()
	for i, id := range ids {
		if values[i] == nil {
			continue
		}
		if d.n == 0 {
			tx.LogData(cf.LogStream)
		}
		d.entry(id)
		s.meta.MaxDeleted = greater(s.meta.MaxDeleted, id)
	}
	if d.n == 0 {
		return 0, nil
	}
	if err := d.end(); err != nil {
		return 0, err
	}
	s.save()
	return d.n, nil
}

// edge returns the first or last existing entry from one id to another.
func (s *stream) edge(from, to ID, last bool) (ID, error) {
	it := s.iterate(from, to, engine.IterOptions{KeysOnly: true, Reverse: last, Limit: 1})
	defer it.Close()
	if !it.Next() {
		if err := it.Err(); err != nil {
			return ID{}, err
		}
		return ID{}, s.corrupt("no entry from %s to %s, the metadata says %d in all", text(from), text(to), s.rec.Size)
	}
	return s.idOf(it.Key())
}

// SetIDOptions say what SetID sets besides the last id.
type SetIDOptions struct {
	EntriesAdded    uint64
	SetEntriesAdded bool
	MaxDeleted      ID // 0-0 = leave it
}

// The errors of SetID, with Redis's texts.
var (
	ErrNoSuchKey         = engine.NewError("ERR", "no such key")
	ErrSetIDBelowDeleted = engine.NewError("ERR",
		"The ID specified in XSETID is smaller than the provided max_deleted_entry_id")
	ErrSetIDBelowTomb = engine.NewError("ERR",
		"The ID specified in XSETID is smaller than current max_deleted_entry_id")
	ErrSetIDBelowTop      = engine.NewError("ERR", "The ID specified in XSETID is smaller than the target stream top item")
	ErrEntriesAddedTooFew = engine.NewError("ERR",
		"The entries_added specified in XSETID is smaller than the target stream length")
)

// SetID sets the last generated id, which new entries follow, and optionally the number of entries ever added and the
// greatest deleted id.
func SetID(tx *engine.Tx, key []byte, id ID, o SetIDOptions) error {
	if id.Compare(o.MaxDeleted) < 0 {
		return ErrSetIDBelowDeleted
	}
	s, err := load(tx, key)
	switch {
	case err != nil:
		return err
	case !s.rec.Exists:
		return ErrNoSuchKey
	case id.Compare(s.meta.MaxDeleted) < 0:
		return ErrSetIDBelowTomb
	case s.rec.Size > 0 && id.Compare(s.meta.Last) < 0:
		return ErrSetIDBelowTop
	case s.rec.Size > 0 && o.SetEntriesAdded && o.EntriesAdded < s.rec.Size:
		return ErrEntriesAddedTooFew
	}
	s.dropAheads()
	s.dropWaits()
	s.meta.LastGenerated = id
	if o.SetEntriesAdded {
		s.meta.EntriesAdded = o.EntriesAdded
	}
	if o.MaxDeleted != (ID{}) {
		s.meta.MaxDeleted = o.MaxDeleted
	}
	tx.LogData(cf.LogStreamSetID)
	var buf [96]byte
	tx.SaveAppend(&s.rec, s.meta.Append(buf[:0])) // a record of its own: the log data refers to it
	return nil
}
