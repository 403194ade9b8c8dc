package engine

import (
	"encoding/binary"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine/batch"
	"github.com/basaltdb/basalt/internal/hugepage"
)

// Sorter holds records in memory, and returns them in the order in which [Ingest.Add] wants them. The records of a
// collection are put one after the other. Keys have no slots.
type Sorter struct {
	fam      [cf.NumFamilies]sortRecords
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
	s.size += f.put(key, value, collectionPrefix(id, key, false))
	return nil
}

// smallArena is the size from which the arena of a family is made large enough for all records.
const smallArena = 256 << 10

// Len returns about how many bytes the records take.
func (s *Sorter) Len() int { return s.size }

// Batches sorts the records and calls f with write batches of about size bytes, which f must not keep. A batch has
// records of one family; those of the families alternate, because [Ingest] writes the families at the same time.
func (s *Sorter) Batches(size int, f func(rep []byte) error) error {
	var sorted [cf.NumFamilies]chan []uint64
	for id := range s.fam {
		sorted[id] = make(chan []uint64, 1)
		go func() { sorted[id] <- s.fam[id].sorted() }()
	}
	var left [cf.NumFamilies][]uint64
	for id := range s.fam {
		left[id] = <-sorted[id]
	}
	var b batch.Builder
	for more := true; more; {
		more = false
		for id := range s.fam {
			arena := s.fam[id].arena
			for len(left[id]) > 0 && b.Len() < size {
				at := left[id][0]
				left[id] = left[id][1:]
				n := at + recordHead + uint64(binary.NativeEndian.Uint32(arena[at:]))
				b.Put(cf.ID(id), arena[at+recordHead:n], arena[n:at+recordLen(arena, at)])
			}
			if b.Count() == 0 {
				continue
			}
			if err := f(b.Bytes()); err != nil {
				return err
			}
			b.Reset()
			more = true
		}
	}
	return nil
}

// Reset forgets the records and keeps the memory.
func (s *Sorter) Reset() {
	for id := range s.fam {
		s.fam[id].reset()
	}
	s.size = 0
}
