package server

import (
	"fmt"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/derived"
	"github.com/basaltdb/basalt/server/command"
)

// replyKind is the replies of commands that read much of one key, such as the first hundred members of a sorted set,
// when the same command comes again while the key stays as it is: a range of a hundred elements costs as much as dozens
// of point reads, and hot ones are asked for again and again.
//
// A reply is good as long as nobody has held a lock of the key's bucket for writing since it was made (the bucket's
// generation) and the key has not expired. It is kept from the second time on that a command is seen. Its key is what
// appendCommand makes.
var replyKind = derived.Kind[*cachedReply]{ID: derived.Replies}

// cachedReply is one reply. It is never changed.
type cachedReply struct {
	derived.Entry
	until int64 // ms; 0 = the key does not expire
	reply []byte
}

const (
	// maxCachedReply is how long a reply may be that is kept.
	maxCachedReply = 64 << 10
	// commonReply is how long a reply is, about.
	commonReply = 1 << 10
)

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

// repeat is a command whose reply may be kept, while it runs.
type repeat struct {
	key        []byte // what appendCommand makes
	generation uint64
	until      int64
}

// findReply makes the reply that is kept that of the command, if there is one; the key's lock is held. keep says that the
// reply of the command, which is to run, is worth to be kept: then keepReply is to be called.
func (c *run) findReply(r *request, key []byte) (keep bool) {
	registry, p := c.srv.db.Derived(), &c.repeat
	p.key = appendCommand(p.key[:0], c.out.Proto, c.tx.Namespace(), r.spec, r.args)
	p.generation = c.tx.Generation(key)
	if kept := replyKind.Find(registry, p.key, p.generation); kept != nil && (kept.until == 0 || kept.until > c.tx.Now()) {
		c.srv.db.Stats.Hits.Add(1)
		c.kept = kept
		return false
	}
	if !replyKind.Worth(registry, p.key, p.generation, commonReply) {
		replyKind.Asked(registry, p.key, p.generation)
		return false
	}
	p.until, keep = keptUntil(c.tx, key)
	return keep
}

// keepReply keeps the reply of the command that has run.
func (c *run) keepReply(reply []byte) {
	if len(reply) <= maxCachedReply {
		kept := &cachedReply{until: c.repeat.until, reply: append(make([]byte, 0, len(reply)), reply...)}
		replyKind.Put(c.srv.db.Derived(), c.repeat.key, c.repeat.generation, kept, cap(kept.reply)+32)
	}
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

// followDerived bounds derived state by the setting. Without one the bound is that with which the database was opened.
func (s *Server) followDerived() {
	unset := s.db.Derived().Limit()
	apply := func(_, _ string) error {
		limit := unset
		if n := s.cfg.Int("derived-state-size"); n != 0 {
			limit = max(n, 0) * mib
		}
		s.db.Derived().SetLimit(limit)
		return nil
	}
	apply("", "")
	s.cfg.OnChange("derived-state-size", apply)
}

// writeDerived writes the numbers of derived state for INFO.
func (s *Server) writeDerived(w *infoWriter) {
	registry := s.db.Derived()
	all := registry.Stats()
	var sum derived.Stats
	for _, st := range all {
		sum.Hits += st.Hits
		sum.Misses += st.Misses
		sum.Evictions += st.Evictions
	}
	w.field("derived_state_bytes", registry.Used())
	w.field("derived_state_limit_bytes", registry.Limit())
	w.field("derived_state_hits", sum.Hits)
	w.field("derived_state_misses", sum.Misses)
	w.field("derived_state_evictions", sum.Evictions)
	for id, st := range all {
		w.field("derived_state_"+derived.ID(id).String(), fmt.Sprintf("entries=%d,bytes=%d,hits=%d,misses=%d,evictions=%d",
			st.Entries, st.Bytes, st.Hits, st.Misses, st.Evictions))
	}
}
