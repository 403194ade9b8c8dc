package session

import (
	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/server/command"
	"github.com/basaltdb/basalt/server/replycache"
)

// repeat is the running command, if its reply may be cached.
type repeat struct {
	request replycache.Request
	keys    []command.KeyRef
	until   int64 // when its key expires, in ms; 0 = never
}

// findReply returns the cached reply of a Repeatable command; nil = none. keep reports whether the reply that the
// command makes should be cached, by keepReply. Commands of several keys, and those without their key's lock or with
// that lock for writing, have no cached replies: their transaction may have changed the key and may yet fail.
func (c *run) findReply(r *request) (kept []byte, keep bool) {
	c.repeat.keys = r.spec.AppendKeys(c.repeat.keys[:0], r.args)
	if len(c.repeat.keys) != 1 || c.srv.DB.Derived().Limit() == 0 {
		return nil, false
	}
	key := r.args[c.repeat.keys[0].Arg]
	generation, ok := c.tx.ReadGeneration(key)
	if !ok {
		return nil, false
	}
	q := &c.repeat.request
	q.Set(c.out.Proto, c.tx.Namespace(), r.spec, r.args, generation)
	if kept = c.srv.replies.Get(q, c.tx.Now()); kept != nil {
		c.srv.DB.Stats.Hits.Add(1)
		return kept, false
	}
	if c.srv.replies.Seen(q) {
		c.repeat.until, keep = keptUntil(c.tx, key)
	}
	return nil, keep
}

// keptUntil returns the time until which the value of a key stays the same without writes; ok is false when parts of
// the value may expire, or the key does not exist.
func keptUntil(tx *engine.Tx, key []byte) (until int64, ok bool) {
	rec, ok := tx.GlanceAny(key)
	if !ok || rec.Type == cf.TypeHash && len(rec.Tail) > 0 {
		return 0, false
	}
	return int64(rec.Expire), true
}
