package session

import (
	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/server/replycache"
)

// repeat is the running command, if its reply may be cached.
type repeat struct {
	request replycache.Request
	until   int64 // when its key expires, in ms; 0 = never
}

// findReply looks for a cached reply of the command and stores it in kept, if one exists; the key's lock must be held.
// keep reports whether the reply that the command makes should be cached, by keepReply.
func (c *run) findReply(r *request, key []byte) (keep bool) {
	q := &c.repeat.request
	q.Set(c.out.Proto, c.tx.Namespace(), r.spec, r.args, c.tx.Generation(key))
	if c.kept = c.srv.replies.Get(q, c.tx.Now()); c.kept != nil {
		c.srv.DB.Stats.Hits.Add(1)
		return false
	}
	if c.srv.replies.Seen(q) {
		c.repeat.until, keep = keptUntil(c.tx, key)
	}
	return keep
}

// keepReply caches the reply of the finished command.
func (c *run) keepReply(reply []byte) { c.srv.replies.Put(&c.repeat.request, reply, c.repeat.until) }

// keptUntil returns the time until which the value of a key stays the same without writes; ok is false when parts of
// the value may expire, or the key does not exist.
func keptUntil(tx *engine.Tx, key []byte) (until int64, ok bool) {
	rec, err := tx.LoadHead(key)
	if err != nil || !rec.Exists || rec.Type == cf.TypeHash && len(rec.Tail) > 0 {
		return 0, false
	}
	return int64(rec.Expire), true
}
