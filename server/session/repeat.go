package session

import (
	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/server/replycache"
)

// repeat is the command that runs, when its reply may be kept.
type repeat struct {
	request replycache.Request
	until   int64 // when its key expires, in ms; 0 = never
}

// findReply takes the reply that was kept as that of the command, if there is one; the key's lock is held. keep says
// that the reply which the command is about to make should be kept, by keepReply.
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

// keepReply keeps the reply of the command that has run.
func (c *run) keepReply(reply []byte) { c.srv.replies.Put(&c.repeat.request, reply, c.repeat.until) }

// keptUntil returns until when what is read of a key stays the same if nobody writes; ok is false when parts of it may
// expire, or it does not exist.
func keptUntil(tx *engine.Tx, key []byte) (until int64, ok bool) {
	rec, err := tx.LoadHead(key)
	if err != nil || !rec.Exists || rec.Type == cf.TypeHash && len(rec.Tail) > 0 {
		return 0, false
	}
	return int64(rec.Expire), true
}
