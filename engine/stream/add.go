package stream

import (
	"math"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
)

// Auto says which part of a new entry's id the stream generates.
type Auto uint8

// The ways to generate an id.
const (
	AutoNone Auto = iota // nothing: the id is given
	AutoSeq              // the sequence number: the one after the last entry's, for given milliseconds
	// the whole id: the current time, or if that is not after the last entry, the id after the last entry
	AutoID
)

// NewID is the requested id of a new entry.
type NewID struct {
	ID   ID
	Auto Auto
}

// AddOptions say how an entry is added.
type AddOptions struct {
	NewID
	NoCreate bool // do nothing when the stream does not exist
	Trim     Trim // what to remove once the entry is added
	Trimmed  bool // set by Add: the stream had entries to remove

	Producer  []byte // who adds the entry, nil = nobody in particular
	IID       []byte // with Producer: the entry is not added if the stream knows this iid of the producer
	Duplicate bool   // set by Add: the entry was not added, because the stream has it already
}

// The errors of Add, with Redis's texts except ErrFields.
var (
	ErrZeroID     = engine.NewError("ERR", "The ID specified in XADD must be greater than 0-0")
	ErrIDTooSmall = engine.NewError("ERR", "The ID specified in XADD is equal or smaller than the target stream top item")
	ErrExhausted  = engine.NewError("ERR", "The stream has exhausted the last possible ID, unable to add more items")
	ErrFields     = engine.NewError("ERR", "an entry consists of pairs of a field and a value")
	ErrEntrySize  = engine.NewError("ERR", "Elements are too large to be stored")
)

// maxEntry is the max total length in bytes of the fields and values of an entry: Redis's limit.
const maxEntry = 1 << 30

// Add adds an entry of fields and values, given in turn, and returns its id. If the stream does not exist, Add creates
// it, or with NoCreate does nothing and returns false. Of an entry that the stream has already it returns the id.
func Add(tx *engine.Tx, key []byte, fields [][]byte, o *AddOptions) (id ID, added bool, err error) {
	switch {
	case len(fields) == 0 || len(fields)%2 != 0:
		return ID{}, false, ErrFields
	case o.Auto == AutoNone && o.ID == MinID:
		return ID{}, false, ErrZeroID
	}
	s, err := load(tx, key)
	if err != nil || !s.rec.Exists && o.NoCreate {
		return ID{}, false, err
	}
	var p *producer
	if o.Producer != nil {
		p, id, o.Duplicate, err = s.producer(o.Producer, o.IID)
		switch {
		case err != nil:
			return ID{}, false, err
		case o.Auto == AutoNone: // a master has decided that the entry is new
			o.Duplicate = false
		case o.Duplicate:
			p.duplicate()
			return id, true, nil
		}
	}
	if id, err = s.newID(&o.NewID); err != nil {
		return ID{}, false, err
	}
	size := 0
	for _, f := range fields {
		size += len(f)
	}
	if size > maxEntry {
		return ID{}, false, ErrEntrySize
	}
	tx.LogData(cf.LogStream)
	keep := true
	oldLast := s.meta.Last
	if o.Trim.By != TrimNone {
		before := s.rec.Size
		if keep, err = s.trimToAdd(&o.Trim, id); err != nil {
			return ID{}, false, err
		}
		o.Trimmed = !keep || s.rec.Size != before
	}
	s.meta.LastGenerated = id
	s.meta.EntriesAdded++
	if keep {
		var buf [512]byte
		value := buf[:0]
		for _, f := range fields {
			value = cf.AppendStreamString(value, f)
		}
		tx.Put(cf.Stream, s.entryKey(id), value)
		s.rec.Size++
		s.meta.Last = id
		if s.rec.Size == 1 {
			s.meta.First, s.meta.RecordedFirst = id, id
		}
		if o.Trim.By != TrimNone {
			s.extendRun(oldLast, id)
		}
	}
	s.save()
	if p != nil {
		err = p.add(o.IID, id)
	}
	return id, err == nil, err
}

// newID chooses the id of a new entry.
func (s *stream) newID(n *NewID) (ID, error) {
	last := s.meta.LastGenerated
	if last == MaxID {
		return ID{}, ErrExhausted
	}
	id := n.ID
	switch n.Auto {
	case AutoID:
		id = ID{Ms: now(s.tx)}
		if id.Ms <= last.Ms {
			id, _ = Next(last)
		}
		return id, nil
	case AutoSeq:
		if id.Seq = 0; id.Ms == last.Ms {
			if last.Seq == math.MaxUint64 {
				return ID{}, ErrIDTooSmall
			}
			id.Seq = last.Seq + 1
		}
	}
	if id.Compare(last) <= 0 {
		return ID{}, ErrIDTooSmall
	}
	return id, nil
}
