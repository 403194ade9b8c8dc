package command

import (
	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/cuckoo"
	"github.com/basaltdb/basalt/engine/hash"
	"github.com/basaltdb/basalt/engine/hll"
	"github.com/basaltdb/basalt/engine/json"
	"github.com/basaltdb/basalt/engine/keys"
	"github.com/basaltdb/basalt/engine/list"
	sets "github.com/basaltdb/basalt/engine/set"
	"github.com/basaltdb/basalt/engine/str"
	"github.com/basaltdb/basalt/engine/stream"
	"github.com/basaltdb/basalt/engine/tdigest"
	"github.com/basaltdb/basalt/engine/zset"
	"github.com/basaltdb/basalt/server/rdb"
	"github.com/basaltdb/basalt/server/rdb/rdbfile"
)

// RestoreKey replaces the value of a key, as RESTORE does: for programs that load files.
func RestoreKey(tx *engine.Tx, key []byte, v *rdb.Value, expire int64) error {
	return restoreKey(tx, key, v, expire, maxRestore)
}

// restoreKey replaces the value of a key. The key expires at a time in milliseconds since the epoch, 0 = never; if
// that time has passed the key is deleted. A string has at most maxString bytes.
func restoreKey(tx *engine.Tx, key []byte, v *rdb.Value, expire, maxString int64) error {
	if batchSize(v, len(key)) > maxRestore {
		return errRestoreSize
	}
	if _, err := keys.Del(tx, key); err != nil {
		return err
	}
	if expire != 0 && expire <= tx.Now() {
		return nil
	}
	if err := restoreValue(tx, key, v, maxString); err != nil || expire == 0 {
		return err
	}
	_, err := keys.Expire(tx, key, expire, 0)
	return err
}

// RestoreNew writes a key of an RDB file that does not exist. A string has at most maxString bytes.
func RestoreNew(tx *engine.Tx, i *rdb.Item, maxString int64) error {
	if batchSize(i.Value, len(i.Key)) > maxRestore {
		return errRestoreSize
	}
	if err := restoreValue(tx, i.Key, i.Value, maxString); err != nil || !i.Expires {
		return err
	}
	_, err := keys.Expire(tx, i.Key, i.Expire, 0)
	return err
}

// recordSize is the approximate overhead of a record in a write batch and in its index, besides key and value, in
// bytes.
const recordSize = 100

// batchSize returns the approximate size of a value's write batch in bytes. Every element carries the key.
func batchSize(v *rdb.Value, key int) int64 {
	size := int64(len(v.String))
	each := int64(key + recordSize)
	if v.Kind == rdb.ZSet {
		each *= 2
	}
	count := func(elems [][]byte, perRecord int) {
		size += int64(len(elems)/perRecord) * each
		for _, e := range elems {
			size += int64(len(e))
		}
	}
	switch v.Kind {
	case rdb.Hash:
		count(v.Elems, 2)
	case rdb.Cuckoo:
		for _, f := range v.Cuckoo.Filters {
			size += int64(len(f)) + int64(len(f)/cuckoo.PageSize+1)*each
		}
	default:
		count(v.Elems, 1)
	}
	if v.Stream == nil {
		return size
	}
	for i := range v.Stream.Entries {
		size += each
		for _, f := range v.Stream.Entries[i].Fields {
			size += int64(len(f)) + 5
		}
	}
	for i := range v.Stream.Groups {
		g := &v.Stream.Groups[i]
		each := each + int64(len(g.Name))
		size += each
		for _, c := range g.Consumers {
			size += each + int64(len(c.Name))
		}
		for _, p := range g.Pending {
			size += each + int64(len(g.Consumers[p.Consumer].Name))
		}
	}
	return size
}

// restoreValue writes a value to a key that does not exist.
func restoreValue(tx *engine.Tx, key []byte, v *rdb.Value, maxString int64) (err error) {
	switch v.Kind {
	case rdb.String:
		if int64(len(v.String)) > maxString {
			return str.ErrTooLong
		}
		// In Redis a HyperLogLog is a string, here it is a type of its own.
		if ok, err := hll.Import(tx, key, v.String); ok || err != nil {
			return err
		}
		_, err = str.Set(tx, key, v.String, str.SetOptions{})
	case rdb.List:
		_, err = list.Push(tx, key, v.Elems, false, false)
	case rdb.Set:
		_, err = sets.Add(tx, key, v.Elems)
	case rdb.Hash:
		if v.Expires != nil {
			return hash.Restore(tx, key, v.Elems, v.Expires)
		}
		_, err = hash.Set(tx, key, v.Elems)
	case rdb.ZSet:
		entries := make([]zset.Entry, len(v.Elems))
		for i, m := range v.Elems {
			entries[i] = zset.Entry{Member: m, Score: v.Scores[i]}
		}
		err = zset.Store(tx, key, entries)
	case rdb.Stream:
		var r *stream.Restorer
		if r, err = stream.Restore(tx, key); err == nil {
			err = RestoreStream(r, v.Stream)
		}
	case rdb.JSON:
		_, err = json.Set(tx, key, json.Root(), v.String, json.Always, json.DefaultOptions)
	case rdb.TDigest:
		t := v.TDigest
		list := make([]tdigest.Centroid, len(t.Means))
		for i := range list {
			list[i] = tdigest.Centroid{Mean: t.Means[i], Weight: t.Weights[i]}
		}
		compression := uint32(min(t.Compression, tdigest.MaxCompression))
		err = tdigest.Restore(tx, key, compression, list, t.Min, t.Max)
	case rdb.Cuckoo:
		err = cuckoo.Restore(tx, key, &cuckoo.Chain{Items: v.Cuckoo.Items, Deleted: v.Cuckoo.Deleted,
			BucketSize: v.Cuckoo.BucketSize, MaxIterations: v.Cuckoo.MaxIterations, Expansion: v.Cuckoo.Expansion,
			Filters: v.Cuckoo.Filters})
	}
	return err
}

// RestoreEntries adds the entries of a part of a stream.
func RestoreEntries(r *stream.Restorer, v *rdb.StreamValue) error {
	for i := range v.Entries {
		if err := r.Add(v.Entries[i].ID, v.Entries[i].Fields); err != nil {
			return err
		}
	}
	return nil
}

// RestoreStream adds the contents of a stream, or its last part, and completes the stream.
func RestoreStream(r *stream.Restorer, v *rdb.StreamValue) error {
	if err := RestoreEntries(r, v); err != nil {
		return err
	}
	for i := range v.Groups {
		g := &v.Groups[i]
		consumers := make([]stream.ConsumerInfo, len(g.Consumers))
		for i, c := range g.Consumers {
			consumers[i] = stream.ConsumerInfo{Name: c.Name, Seen: c.Seen, Active: c.Active}
		}
		pending := make([]stream.Pending, len(g.Pending))
		for i, p := range g.Pending {
			pending[i] = stream.Pending{ID: p.ID, Consumer: g.Consumers[p.Consumer].Name, Delivered: p.Delivered,
				Deliveries: p.Deliveries}
		}
		r.Group(g.Name, g.Last, g.EntriesRead, consumers, pending)
	}
	return r.End(stream.State{LastGenerated: v.Last, MaxDeleted: v.MaxDeleted, EntriesAdded: v.EntriesAdded})
}

// stream writes a stream with its groups.
func (d *dumper) stream(tx *engine.Tx, key []byte) error {
	about, _, err := stream.About(tx, key)
	if err != nil {
		return err
	}
	w := rdb.NewStreamWriter(d.b)
	err = eachEntry(tx, key, func(id cf.StreamID, fields [][]byte, size int) {
		if d.full = d.full || d.sink == nil && int64(w.Len()+size) > d.limit; !d.full {
			w.Add(id, fields)
		}
		if d.sink != nil && w.Len() >= rdbfile.PartBytes {
			w.Drop()
		}
	})
	if err != nil || d.full {
		return err
	}
	v := rdb.StreamValue{Last: about.LastGenerated, MaxDeleted: about.MaxDeleted, EntriesAdded: about.EntriesAdded}
	if v.Groups, err = d.groups(tx, key, int64(w.Len())); err != nil || d.full {
		return err
	}
	if w.Dropped() {
		w = w.Again(d.b, &v)
		err = eachEntry(tx, key, func(id cf.StreamID, fields [][]byte, _ int) {
			if w.Add(id, fields); w.Len() >= rdbfile.PartBytes {
				d.pass(w.Take())
			}
		})
		if err != nil {
			return err
		}
	}
	d.b, d.version = w.End(&v)
	d.room(0)
	return nil
}

// eachEntry calls f with the entries of a stream: the fields and values of each, and their size in bytes.
func eachEntry(tx *engine.Tx, key []byte, f func(id cf.StreamID, fields [][]byte, size int)) error {
	var fields [][]byte
	return stream.Range(tx, key, stream.RangeOptions{From: stream.MinID, To: stream.MaxID}, func(e *stream.Entry) {
		fields = fields[:0]
		size := 0
		for s, ok := e.Next(); ok; s, ok = e.Next() {
			fields = append(fields, s)
			size += len(s)
		}
		f(e.ID, fields, size)
	})
}

// groups reads the consumer groups of a stream whose decoded size so far is size bytes.
func (d *dumper) groups(tx *engine.Tx, key []byte, size int64) ([]rdb.StreamGroup, error) {
	infos, err := stream.Groups(tx, key)
	if err != nil {
		return nil, err
	}
	groups := make([]rdb.StreamGroup, 0, len(infos))
	for _, i := range infos {
		g := rdb.StreamGroup{Name: i.Name, Last: i.LastDelivered, EntriesRead: i.EntriesRead}
		consumers, err := i.Group.Consumers()
		if err != nil {
			return nil, err
		}
		index := make(map[string]int, len(consumers))
		add := func(c rdb.StreamConsumer) int {
			n := len(g.Consumers)
			index[string(c.Name)] = n
			g.Consumers = append(g.Consumers, c)
			size += int64(len(c.Name)) + 32
			return n
		}
		for _, c := range consumers {
			add(rdb.StreamConsumer{Name: c.Name, Seen: c.Seen, Active: c.Active})
		}
		err = i.Group.Each(stream.PendingOptions{From: stream.MinID, To: stream.MaxID}, func(p *stream.Pending) {
			name := p.Consumer
			if p.Nacked {
				name = []byte(stream.Nobody)
			}
			n, ok := index[string(name)]
			if !ok { // nobody's, or a record of another version: in the form a pending entry must have a consumer
				n = add(rdb.StreamConsumer{Name: append([]byte(nil), name...), Seen: p.Delivered, Active: p.Delivered})
			}
			const pendingSize = 2*16 + 8 + 9
			if size += pendingSize; size > d.limit {
				d.full = true
				return
			}
			g.Pending = append(g.Pending, rdb.StreamPending{ID: p.ID, Delivered: p.Delivered,
				Deliveries: p.Deliveries, Consumer: n})
		})
		if err != nil || d.full {
			return nil, err
		}
		groups = append(groups, g)
	}
	return groups, nil
}
