package stream

import (
	"encoding/binary"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/basaltdb/basalt/cf"
)

// remembered is what was learned of streams and serves their next commands.
//
// What it holds of a stream is guarded by the key's lock. Whatever may make it wrong (a rollback, a failed commit,
// FLUSHALL, a batch from outside) makes the engine forget its hints, and it counts only while the hint with its number is
// there. It is identified by database, namespace, key and version, so a key that was deleted, renamed or replaced does not
// meet that of an old one.
type remembered[T any] struct {
	most     int   // streams
	sentinel cf.ID // a family in which streams have no entries, so that its hint is free for the number

	mu      sync.Mutex
	streams map[string]*numbered[T]
	used    atomic.Bool
	last    atomic.Uint64
}

type numbered[T any] struct {
	number uint64
	value  T
}

// of returns what is remembered of a stream, nil when that is nothing or cannot be trusted; with create, an empty T then.
func (m *remembered[T]) of(s *stream, create bool) *T {
	if !create && !m.used.Load() {
		return nil
	}
	prefix := s.tx.SubkeyPrefix(&s.rec)
	var buf [192]byte
	id := append(binary.LittleEndian.AppendUint64(buf[:0], uint64(uintptr(unsafe.Pointer(s.tx.DB())))), prefix...)
	m.mu.Lock()
	v := m.streams[string(id)]
	m.mu.Unlock()
	if v != nil {
		if hint := s.tx.LowBound(m.sentinel, prefix); len(hint) == 8 && binary.LittleEndian.Uint64(hint) == v.number {
			return &v.value
		}
		m.mu.Lock()
		delete(m.streams, string(id))
		m.mu.Unlock()
	}
	if !create {
		return nil
	}
	v = &numbered[T]{number: m.last.Add(1)}
	var number [8]byte
	binary.LittleEndian.PutUint64(number[:], v.number)
	s.tx.SetLowBound(m.sentinel, prefix, number[:])
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.streams == nil {
		m.streams = map[string]*numbered[T]{}
	}
	if len(m.streams) >= m.most {
		for k := range m.streams {
			delete(m.streams, k)
			break
		}
	}
	m.streams[string(id)] = v
	m.used.Store(true)
	return &v.value
}
