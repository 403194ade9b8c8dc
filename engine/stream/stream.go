// Package stream is the stream type on an [engine.Tx]: an append-only log of entries, each with an id and a list of
// fields and values, and consumer groups that hand the entries out. The records are those of the stream family of
// Kvrocks, laid out in package cf:
//
//	prefix · u64 ms · u64 seq                                                -> fields and values of an entry
//	prefix · u64 max · 255 · u64 seq                                         -> the same when its ms is max
//	prefix · u64 max · 1 · u64 len(group) · group                            -> the state of a group
//	prefix · u64 max · 2 · u64 len(group) · group · u64 len(name) · name     -> a consumer
//	prefix · u64 max · 3 · u64 len(group) · group · u64 ms · u64 seq         -> a pending entry
//
// with all numbers big-endian. So entries are ordered by id and lie before everything else, except those of the last
// millisecond, which lie after everything else. The metadata record holds the number of entries, the first and the last
// id, and Redis's counters; see [cf.StreamMeta]. The first and the last id bound every scan, so that neither appending
// nor reading passes over the tombstones of trimmed entries.
//
// Functions that write need the key's lock for writing, the others for reading; [engine.DB.Update] and [engine.DB.View]
// take the locks. Returned slices are valid until the end of the transaction, slices passed to a callback until the
// callback returns. A key of another type gives [engine.ErrWrongType].
package stream

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
)

// stream is a loaded key.
type stream struct {
	tx   *engine.Tx
	rec  engine.Record
	meta cf.StreamMeta
}

// load reads a key; a missing key gives an empty stream whose record does not exist.
func load(tx *engine.Tx, key []byte) (s stream, err error) {
	s.tx = tx
	if s.rec, err = tx.Load(key, cf.TypeStream); err != nil || !s.rec.Exists {
		return s, err
	}
	if s.meta, err = cf.DecodeStreamMeta(s.rec.Tail); err != nil {
		return s, fmt.Errorf("key %q: %w", key, err)
	}
	return s, nil
}

// save writes the metadata record.
func (s *stream) save() {
	var buf [96]byte
	s.tx.Save(&s.rec, s.meta.Append(buf[:0]))
}

// entryKey returns the internal key of an entry; valid until the next key is built.
func (s *stream) entryKey(id ID) []byte {
	var buf [24]byte
	return s.tx.Subkey(&s.rec, cf.AppendStreamEntrySub(buf[:0], id))
}

// corrupt returns an error that names the key.
func (s *stream) corrupt(format string, args ...any) error {
	return fmt.Errorf("key %q: %w: %s", s.tx.UserKey(&s.rec), cf.ErrCorrupt, fmt.Sprintf(format, args...))
}

// Len returns the number of entries.
func Len(tx *engine.Tx, key []byte) (uint64, error) {
	rec, err := tx.Load(key, cf.TypeStream)
	return rec.Size, err
}

// LenAfter returns the number of entries with ids greater than id, LenBefore with smaller ids. An entry with that id
// need not exist.
func LenAfter(tx *engine.Tx, key []byte, id ID) (uint64, error) {
	s, err := load(tx, key)
	if err != nil || !s.hasAfter(id) {
		return 0, err
	}
	next, _ := Next(id)
	return s.count(next, s.meta.Last)
}

// LenBefore is described at [LenAfter].
func LenBefore(tx *engine.Tx, key []byte, id ID) (uint64, error) {
	s, err := load(tx, key)
	if err != nil || s.rec.Size == 0 || id.Compare(s.meta.First) <= 0 {
		return 0, err
	}
	return s.count(s.meta.First, before(id))
}

// LastGenerated returns the greatest id that an entry of the stream ever had or that SetID set; 0-0 when the stream
// does not exist.
func LastGenerated(tx *engine.Tx, key []byte) (ID, error) {
	s, err := load(tx, key)
	return s.meta.LastGenerated, err
}

// Entry is an entry of a stream. It is valid until the callback that it was passed to returns.
type Entry struct {
	ID   ID
	n    int
	rest []byte
}

// Len returns the number of fields plus the number of values.
func (e *Entry) Len() int { return e.n }

// Next returns the next field or value, in turn; false at the end.
func (e *Entry) Next() (s []byte, ok bool) {
	if len(e.rest) == 0 {
		return nil, false
	}
	s, rest, err := cf.CutStreamString(e.rest)
	if err != nil { // entry has checked the whole value
		panic("an entry that was checked is corrupt: " + err.Error())
	}
	e.rest = rest
	return s, true
}

// entry validates the value of an entry.
func (s *stream) entry(id ID, value []byte) (Entry, error) {
	e := Entry{ID: id, rest: value}
	for rest := value; len(rest) > 0; e.n++ {
		var err error
		if _, rest, err = cf.CutStreamString(rest); err != nil {
			return Entry{}, fmt.Errorf("key %q: entry %s: %w", s.tx.UserKey(&s.rec), text(id), err)
		}
	}
	if e.n == 0 || e.n%2 != 0 {
		return Entry{}, s.corrupt("entry %s of %d fields and values", text(id), e.n)
	}
	return e, nil
}

// pendingBounds returns the keys [lower, upper) between which a group's pending entries from one id to another lie.
func pendingBounds(prefix []byte, from, to ID) (lower, upper []byte) {
	lower = under(prefix, from)
	if next, ok := Next(to); ok {
		return lower, under(prefix, next)
	}
	upper, _ = cf.AppendSuccessor(nil, prefix) // a successor exists, because the prefix holds a length
	return lower, upper
}

// appendEntryBounds appends the keys [lo, up) between which the entries from one id to another lie. Both ids, or
// neither, must have the last millisecond.
func appendEntryBounds(lower, upper, prefix []byte, from, to ID) (lo, up []byte) {
	lo = cf.AppendStreamEntrySub(append(lower, prefix...), from)
	up = cf.AppendStreamEntrySub(append(upper, prefix...), to)
	return lo, append(up, 0)
}

// entriesIter iterates over entries. The entries of the last millisecond lie apart from the others on disk, so two
// iterators may be needed. Both are opened at once, so that the second one does not see later writes.
type entriesIter struct {
	*engine.Iter
	then *engine.Iter // the second iterator; nil = none, or already in use
}

// Next is [engine.Iter.Next].
func (it *entriesIter) Next() bool { return it.Iter.Next() || it.advance() && it.Iter.Next() }

// Skip is [engine.Iter.Skip].
func (it *entriesIter) Skip(n uint64) uint64 {
	done := it.Iter.Skip(n)
	if done < n && it.advance() {
		done += it.Iter.Skip(n - done)
	}
	return done
}

// advance switches to the second iterator; false when none exists.
func (it *entriesIter) advance() bool {
	if it.then == nil || it.Iter.Err() != nil {
		return false
	}
	it.Iter.Close()
	it.Iter, it.then = it.then, nil
	return true
}

// Close is [engine.Iter.Close].
func (it *entriesIter) Close() {
	it.Iter.Close()
	if it.then != nil {
		it.then.Close()
	}
}

// spans splits a range of ids into the ranges that are contiguous on disk: two when the range reaches into the last
// millisecond, otherwise one.
func spans(from, to ID) (list [2]struct{ from, to ID }, n int) {
	if from.Ms <= cf.MaxStreamMs {
		list[n].from, list[n].to = from, smaller(to, ID{Ms: cf.MaxStreamMs, Seq: math.MaxUint64})
		n++
	}
	if to.Ms > cf.MaxStreamMs {
		list[n].from, list[n].to = greater(from, ID{Ms: cf.StreamDelimiter}), to
		n++
	}
	return list, n
}

// iterate opens an iterator over the entries from one id to another, both included. The range must not be empty.
func (s *stream) iterate(from, to ID, o engine.IterOptions) (it entriesIter) {
	o.Prefix = s.tx.SubkeyPrefix(&s.rec)
	list, n := spans(from, to)
	for i := range n {
		span := &list[i]
		if o.Reverse {
			span = &list[n-1-i]
		}
		var lo, up [192]byte
		o.Lower, o.Upper = appendEntryBounds(lo[:0], up[:0], o.Prefix, span.from, span.to)
		if i == 0 {
			it.Iter = s.tx.Iter(cf.Stream, o)
		} else {
			it.then = s.tx.Iter(cf.Stream, o)
		}
	}
	return it
}

// count returns the number of entries from one id to another, both included.
func (s *stream) count(from, to ID) (total uint64, err error) {
	if from = greater(from, s.meta.First); from.Compare(to) > 0 {
		return 0, nil
	}
	prefix := bytes.Clone(s.tx.SubkeyPrefix(&s.rec))
	list, n := spans(from, to)
	for _, span := range list[:n] {
		lower, upper := appendEntryBounds(nil, nil, prefix, span.from, span.to)
		n, err := s.tx.Count(cf.Stream, lower, upper)
		if err != nil {
			return 0, err
		}
		total += n
	}
	return total, nil
}

// deleteEntries removes the entries from one id to another, both included, with one DeleteRange each span.
func (s *stream) deleteEntries(from, to ID) {
	prefix := bytes.Clone(s.tx.SubkeyPrefix(&s.rec))
	list, n := spans(from, to)
	for _, span := range list[:n] {
		lower, upper := appendEntryBounds(nil, nil, prefix, span.from, span.to)
		s.tx.DeleteRange(cf.Stream, lower, upper)
	}
}

// idOf decodes the id of an entry.
func (s *stream) idOf(sub []byte) (ID, error) {
	id, ok := cf.ParseStreamEntrySub(sub)
	if !ok {
		return ID{}, s.corrupt("stream entry id of %d bytes", len(sub))
	}
	return id, nil
}

func (s *stream) pendingIDOf(sub []byte) (ID, error) {
	if len(sub) != 16 {
		return ID{}, s.corrupt("stream entry id of %d bytes", len(sub))
	}
	return ID{Ms: binary.BigEndian.Uint64(sub), Seq: binary.BigEndian.Uint64(sub[8:])}, nil
}

func smaller(a, b ID) ID {
	if a.Compare(b) < 0 {
		return a
	}
	return b
}

func greater(a, b ID) ID {
	if a.Compare(b) > 0 {
		return a
	}
	return b
}

// limitOf returns how many entries an iterator expects to read; 0 = all.
func limitOf(count uint64) int {
	if count > math.MaxInt32 {
		return 0
	}
	return int(count)
}
