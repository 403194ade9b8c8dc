// Package replycache keeps the replies of repeated reads, each valid for one generation of its key's lock.
//
// A reply of a command that reads much of one key, such as the first hundred members of a sorted set, is worth to be
// kept when the same command comes again while the key stays as it is: a range of a hundred elements costs as much as
// dozens of point reads, and hot ranges are asked for again and again.
//
// A reply is valid as long as nobody has held a lock of the key's bucket for writing since the reply was made (the
// bucket's generation) and the key has not expired. The caller holds the key's lock from Get to Put. Replies are
// derived state and are bounded together with the other kinds of it.
package replycache

import (
	"github.com/basaltdb/basalt/engine/derived"
	"github.com/basaltdb/basalt/server/command"
)

var kind = derived.Kind[*entry]{ID: derived.Replies}

// entry is one reply. It is never changed.
type entry struct {
	derived.Entry
	until int64 // ms; 0 = the key does not expire
	reply []byte
}

const (
	// MaxReply is the longest reply that is kept, in bytes: longer ones leave in parts, never as a whole. LRANGE of
	// 600 elements of 128 bytes takes a sixth of the CPU time (23 instead of 140 us) when its reply is kept.
	MaxReply = 256 << 10
	// usualReply is the length of a reply before it is known.
	usualReply = 1 << 10
	// entryBytes is what an entry takes besides its reply.
	entryBytes = 32
)

// Cache keeps replies in a registry of derived state. Any number of goroutines may use it.
type Cache struct{ registry *derived.Registry }

// New returns a cache of replies within the bounds of the registry.
func New(r *derived.Registry) Cache { return Cache{r} }

// Request is a command whose reply may be kept, while it runs. A connection uses one again and again.
type Request struct {
	id         []byte
	generation uint64
}

// Set identifies the request by what its reply depends on besides the data, and by the generation of its key's lock.
func (q *Request) Set(proto int, ns string, spec *command.Spec, args [][]byte, generation uint64) {
	q.generation = generation
	id := append(q.id[:0], byte(proto), byte(spec.ID), byte(spec.ID>>8), byte(len(ns)))
	id = append(id, ns...)
	for _, a := range args[1:] {
		n := len(a)
		id = append(id, byte(n), byte(n>>8), byte(n>>16), byte(n>>24))
		id = append(id, a...)
	}
	q.id = id
}

// Get returns the reply that was kept, which the caller must not change; nil = none. now is in ms.
func (c Cache) Get(q *Request, now int64) []byte {
	if e := kind.Find(c.registry, q.id, q.generation); e != nil && (e.until == 0 || e.until > now) {
		return e.reply
	}
	return nil
}

// Seen notes a request whose reply was not kept. It reports whether the reply should be kept now. As long as there is
// room every reply is, because a copy costs a twentieth of the read. After that a reply would displace state that may
// be worth more, so it must be asked for a second time.
func (c Cache) Seen(q *Request) (worth bool) {
	if c.registry.HasRoom(q.id, usualReply) || kind.Worth(c.registry, q.id, q.generation, usualReply) {
		return true
	}
	kind.Asked(c.registry, q.id, q.generation)
	return false
}

// Put keeps a copy of a reply, unless it is too long. until is when the key expires, in ms; 0 = never.
func (c Cache) Put(q *Request, reply []byte, until int64) {
	if len(reply) > MaxReply {
		return
	}
	e := &entry{until: until, reply: append(make([]byte, 0, len(reply)), reply...)}
	kind.Put(c.registry, q.id, q.generation, e, cap(e.reply)+entryBytes)
}
