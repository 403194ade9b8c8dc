package server

import (
	"bytes"
	"hash/maphash"
	"sync"
	"sync/atomic"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/server/command"
)

// replyCache keeps the replies of commands that read much of one key, such as the first hundred members of a sorted
// set, when the same command comes again while the key stays as it is: a range of a hundred elements costs as much as
// dozens of point reads, and hot ones are asked for again and again.
//
// A reply is good as long as nobody has held the lock of the key's stripe for writing since it was made (the stripe's
// generation) and the key has not expired. It is kept from the second time on that a command is seen, so that
// commands that do not repeat cost a look into a table. The memory is bounded: reply-cache-size.
type replyCache struct {
	seed         maphash.Seed
	limit        atomic.Int64 // bytes, 0 = off
	bytes        atomic.Int64
	hits, misses atomic.Int64
	seen         [4096]atomic.Uint32 // hashes of commands that came lately
	shards       [32]replyShard
}

type replyShard struct {
	mu    sync.Mutex
	slots [128]cachedReply
	hand  int
	_     [40]byte
}

// cachedReply is one reply. The slices are never changed, only replaced.
type cachedReply struct {
	hash       uint64 // 0 = free
	generation uint64
	until      int64 // ms; 0 = the key does not expire
	command    []byte
	reply      []byte
}

// maxCachedReply is how long a reply may be that is kept.
const maxCachedReply = 64 << 10

func (c *replyCache) init() { c.seed = maphash.MakeSeed() }

// appendCommand appends what the reply depends on besides the data: protocol, namespace and arguments.
func appendCommand(dst []byte, proto int, ns string, spec *command.Spec, args [][]byte) []byte {
	dst = append(dst, byte(proto), byte(spec.ID), byte(spec.ID>>8), byte(len(ns)))
	dst = append(dst, ns...)
	for _, a := range args[1:] {
		n := len(a)
		dst = append(dst, byte(n), byte(n>>8), byte(n>>16), byte(n>>24))
		dst = append(dst, a...)
	}
	return dst
}

func (c *replyCache) shard(h uint64) (*replyShard, int) {
	return &c.shards[h%uint64(len(c.shards))], int(h >> 32 % uint64(len(replyShard{}.slots)))
}

// get returns the reply to a command that reads a key of this generation, nil when there is none.
func (c *replyCache) get(h uint64, cmd []byte, generation uint64, now int64) []byte {
	s, i := c.shard(h)
	s.mu.Lock()
	defer s.mu.Unlock()
	e := &s.slots[i]
	if e.hash != h || e.generation != generation || e.until != 0 && e.until <= now || !bytes.Equal(e.command, cmd) {
		return nil
	}
	return e.reply
}

// repeats notes that a command came, and reports whether it had come before.
func (c *replyCache) repeats(h uint64) bool {
	s := &c.seen[h>>20%uint64(len(c.seen))]
	mark := uint32(h>>32) | 1
	if s.Load() == mark {
		return true
	}
	s.Store(mark)
	return false
}

// put keeps a reply. What was in its place goes, and others go when there is no room.
func (c *replyCache) put(h uint64, cmd, reply []byte, generation uint64, until int64) {
	size := int64(len(cmd) + len(reply))
	if len(reply) > maxCachedReply || size > c.limit.Load() {
		return
	}
	both := append(append(make([]byte, 0, size), cmd...), reply...)
	s, i := c.shard(h)
	s.mu.Lock()
	defer s.mu.Unlock()
	c.drop(&s.slots[i])
	for tries := 0; c.bytes.Load()+size > c.limit.Load() && tries < len(s.slots); tries++ {
		c.drop(&s.slots[s.hand])
		s.hand = (s.hand + 1) % len(s.slots)
	}
	if c.bytes.Load()+size > c.limit.Load() {
		return // the other shards have it all
	}
	s.slots[i] = cachedReply{h, generation, until, both[:len(cmd):len(cmd)], both[len(cmd):]}
	c.bytes.Add(size)
}

func (c *replyCache) drop(e *cachedReply) {
	if e.hash != 0 {
		c.bytes.Add(-int64(len(e.command) + len(e.reply)))
		*e = cachedReply{}
	}
}

// setLimit changes how many bytes may be kept; what is there goes.
func (c *replyCache) setLimit(n int64) {
	c.limit.Store(n)
	for i := range c.shards {
		s := &c.shards[i]
		s.mu.Lock()
		for j := range s.slots {
			c.drop(&s.slots[j])
		}
		s.mu.Unlock()
	}
}

// repeated replies from the cache if it can, while the key's lock is held. Otherwise keep, if it is not nil, is to be
// called with the reply once the command has run.
func (c *conn) repeated(r *request, key []byte) (done bool, keep func(reply []byte)) {
	cache := &c.srv.replies
	c.cmdKey = appendCommand(c.cmdKey[:0], c.out.Proto, c.tx.Namespace(), r.spec, r.args)
	h := maphash.Bytes(cache.seed, c.cmdKey) | 1
	generation := c.tx.Generation(key)
	if reply := cache.get(h, c.cmdKey, generation, c.tx.Now()); reply != nil {
		cache.hits.Add(1)
		c.srv.db.Stats.Hits.Add(1)
		c.meter(r)
		r.reply = c.out.Mark()
		if c.track != nil {
			c.track.remember(c, r)
		}
		c.out.Raw(reply)
		c.observeRun(r)
		return true, nil
	}
	cache.misses.Add(1)
	if !cache.repeats(h) {
		return false, nil
	}
	until, ok := keptUntil(c.tx, key)
	if !ok {
		return false, nil
	}
	return false, func(reply []byte) { cache.put(h, c.cmdKey, reply, generation, until) }
}

// keptUntil returns until when what is read of a key stays the same if nobody writes; ok is false when parts of it may
// expire, or it does not exist.
func keptUntil(tx *engine.Tx, key []byte) (until int64, ok bool) {
	rec, err := tx.Look(key)
	if err != nil || !rec.Exists || rec.Type == cf.TypeHash && len(rec.Tail) > 0 {
		return 0, false
	}
	return int64(rec.Expire), true
}
