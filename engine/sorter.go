package engine

import (
	"encoding/binary"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine/batch"
	"github.com/basaltdb/basalt/internal/hugepage"
)

// Sorter holds records in memory, and returns them in the order in which [Ingest.Add] wants them.
type Sorter struct {
	fam      [cf.NumFamilies]bulkFamily
	size     int
	room     int
	versions versions
}

// NewSorter makes a Sorter for about so many bytes of records.
func NewSorter(size int) *Sorter {
	s := &Sorter{room: size}
	s.versions.init()
	return s
}

// Version returns a version for a new collection.
func (s *Sorter) Version() uint64 { return s.versions.next() }

// Put adds a record. It never fails.
func (s *Sorter) Put(id cf.ID, key, value []byte) error {
	f := &s.fam[id]
	if len(f.arena) > smallArena && cap(f.arena) < s.room {
		// All the room at once: it is not copied as it grows, and takes memory when it is written.
		arena := make([]byte, len(f.arena), s.room)
		hugepage.Advise(arena[:s.room])
		copy(arena, f.arena)
		f.arena = arena
	}
	s.size += f.put(key, value)
	return nil
}

// smallArena is the size from which the arena of a family is made large enough for all records.
const smallArena = 256 << 10

// Len returns about how many bytes the records take.
func (s *Sorter) Len() int { return s.size }

// Batches sorts the records and calls f with write batches of about size bytes, which f must not keep.
func (s *Sorter) Batches(size int, f func(rep []byte) error) error {
	var b batch.Builder
	for id := range s.fam {
		fam := &s.fam[id]
		for _, at := range fam.sorted() {
			n := at + recordHead + uint64(binary.NativeEndian.Uint32(fam.arena[at:]))
			b.Put(cf.ID(id), fam.arena[at+recordHead:n], fam.arena[n:at+recordLen(fam.arena, at)])
			if b.Len() >= size {
				if err := f(b.Bytes()); err != nil {
					return err
				}
				b.Reset()
			}
		}
	}
	if b.Count() == 0 {
		return nil
	}
	return f(b.Bytes())
}

// Reset forgets the records and keeps the memory.
func (s *Sorter) Reset() {
	for id := range s.fam {
		f := &s.fam[id]
		f.arena, f.at, f.first = f.arena[:0], f.at[:0], nil
	}
	s.size = 0
}
