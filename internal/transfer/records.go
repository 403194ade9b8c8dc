package transfer

import (
	"bytes"
	"encoding/binary"
	"math"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/stream"
	"github.com/basaltdb/basalt/server/command"
	"github.com/basaltdb/basalt/server/rdb"
)

// records writes the records of values to a sink. It creates the records of collections itself, part by part; for other
// types the data types do, with bulk, which may be nil for those that need none.
type records struct {
	to    sink
	bulk  *engine.Bulk
	slots bool

	nsKey, key, val []byte

	// The collection whose parts are being written.
	meta   cf.Meta
	prefix int // length of the common prefix of its subkeys
	ttl    cf.HashTTL
	on     bool // its fields may expire
	index  uint64
	tx     *engine.Tx // of a stream
	stream *stream.Restorer
}

// sink takes records.
type sink interface {
	Put(id cf.ID, key, value []byte) error
	// Counted says that the metadata record of a live key was put; end is its expiry, 0 = never.
	Counted(ns string, end uint64)
	// Version returns a version for a new collection.
	Version() uint64
}

// isHLL reports whether a string is a HyperLogLog.
func isHLL(s []byte) bool { return bytes.HasPrefix(s, []byte("HYLL")) }

// put writes a part of a key that has not expired.
func (w *records) put(i *rdb.Item, now int64) error {
	ns := cf.DatabaseNamespace(int(i.DB))
	v := i.Value
	expire := uint64(0)
	if i.Expires {
		expire = uint64(i.Expire)
	}
	switch v.Kind {
	case rdb.String:
		if isHLL(v.String) {
			break
		}
		w.nsKey = cf.AppendNSKey(w.nsKey[:0], ns, i.Key, w.slots)
		m := cf.Meta{Type: cf.TypeString, Expire: expire}
		w.val = append(m.Append(w.val[:0]), v.String...)
		w.to.Counted(ns, expire)
		return w.to.Put(cf.Metadata, w.nsKey, w.val)
	case rdb.List, rdb.Set, rdb.ZSet, rdb.Hash:
		return w.collection(ns, i, expire, now)
	case rdb.Stream:
		if i.Part > 0 || i.More {
			return w.streamPart(ns, i)
		}
	}
	at := int64(expire)
	return w.bulk.Update(ns, func(tx *engine.Tx) error { return command.RestoreKey(tx, i.Key, v, at) })
}

func (w *records) sub(sub []byte) []byte {
	w.key = append(w.key[:w.prefix], sub...)
	return w.key
}

var collectionTypes = [...]cf.Type{rdb.List: cf.TypeList, rdb.Set: cf.TypeSet, rdb.ZSet: cf.TypeZSet,
	rdb.Hash: cf.TypeHash}

// collection writes a part of a list, set, sorted set or hash, and after the last part its metadata.
func (w *records) collection(ns string, i *rdb.Item, expire uint64, now int64) error {
	v := i.Value
	if i.Part == 0 {
		w.nsKey = cf.AppendNSKey(w.nsKey[:0], ns, i.Key, w.slots)
		w.meta = cf.Meta{Type: collectionTypes[v.Kind], Expire: expire, Version: w.to.Version()}
		w.key = cf.AppendSubkeyPrefix(w.key[:0], w.nsKey, w.slots, w.meta.Version)
		w.prefix, w.index = len(w.key), cf.ListOrigin
		w.on, w.ttl = v.Expires != nil, cf.HashTTL{Lower: math.MaxUint64}
	}
	if err := w.elements(v, now); err != nil || i.More {
		return err
	}
	if w.meta.Size == 0 { // all fields have expired
		return nil
	}
	w.val = w.val[:0]
	switch {
	case v.Kind == rdb.List:
		w.val = cf.AppendListTail(w.meta.Append(w.val), cf.ListOrigin, w.index)
	case w.on:
		if w.ttl.Persist == w.meta.Size {
			w.ttl.Lower, w.ttl.Upper = 0, 0
		}
		w.meta.SetFieldsEnd(w.ttl.FieldsEnd())
		w.val = cf.AppendHashTail(w.meta.Append(w.val), w.ttl)
	default:
		w.val = w.meta.Append(w.val)
	}
	w.to.Counted(ns, w.meta.End())
	return w.to.Put(cf.Metadata, w.nsKey, w.val)
}

func (w *records) elements(v *rdb.Value, now int64) error {
	var b [cf.ScoreLen]byte
	switch v.Kind {
	case rdb.List:
		for _, e := range v.Elems {
			if err := w.to.Put(cf.Default, w.sub(binary.BigEndian.AppendUint64(b[:0], w.index)), e); err != nil {
				return err
			}
			w.index++
		}
		w.meta.Size += uint64(len(v.Elems))
	case rdb.Set:
		for _, e := range v.Elems {
			if err := w.to.Put(cf.Default, w.sub(e), nil); err != nil {
				return err
			}
		}
		w.meta.Size += uint64(len(v.Elems))
	case rdb.ZSet:
		for n, e := range v.Elems {
			score := v.Scores[n] + 0 // 0 instead of -0
			if err := w.to.Put(cf.Default, w.sub(e), cf.AppendDouble(b[:0], score)); err != nil {
				return err
			}
			w.key = append(cf.AppendDouble(w.key[:w.prefix], score), e...)
			if err := w.to.Put(cf.ZSetScore, w.key, nil); err != nil {
				return err
			}
		}
		w.meta.Size += uint64(len(v.Elems))
	case rdb.Hash:
		for n := 0; n < len(v.Elems); n += 2 {
			value := v.Elems[n+1]
			if w.on {
				at := uint64(0)
				if v.Expires != nil {
					at = v.Expires[n/2]
				}
				if at != 0 && at <= uint64(now) {
					continue
				}
				if at == 0 {
					w.ttl.Persist++
				} else {
					w.ttl.Lower, w.ttl.Upper = min(w.ttl.Lower, at), max(w.ttl.Upper, at)
				}
				w.val = cf.AppendHashValue(w.val[:0], at, value)
				value = w.val
			}
			if err := w.to.Put(cf.Default, w.sub(v.Elems[n]), value); err != nil {
				return err
			}
			w.meta.Size++
		}
	}
	return nil
}

// streamPart writes a part of a stream.
func (w *records) streamPart(ns string, i *rdb.Item) (err error) {
	if i.Part == 0 {
		w.tx = w.bulk.Begin(ns)
		if w.stream, err = stream.Restore(w.tx, i.Key); err != nil {
			return err
		}
	}
	v := i.Value.Stream
	if i.More {
		err = command.RestoreEntries(w.stream, v)
	} else {
		err = command.RestoreStream(w.stream, v)
		if err == nil && i.Expires {
			err = w.expireStream(i)
		}
	}
	if err == nil {
		err = w.bulk.Take(w.tx)
	}
	if !i.More {
		w.close()
	}
	return err
}

// expireStream sets the expiry of the stream whose metadata the transaction has just written.
func (w *records) expireStream(i *rdb.Item) error {
	rec, err := w.tx.LoadAny(i.Key)
	if err != nil {
		return err
	}
	rec.Expire = uint64(i.Expire)
	w.tx.SaveAppend(&rec, append([]byte(nil), rec.Tail...))
	return nil
}

// close ends unfinished work.
func (w *records) close() {
	if w.tx != nil {
		w.tx.Release()
		w.tx, w.stream = nil, nil
	}
}
