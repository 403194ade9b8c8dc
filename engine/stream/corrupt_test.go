package stream_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/enginetest"
	"github.com/basaltdb/basalt/engine/stream"
)

// everything calls every function on a stream with the groups g and h, and returns the errors.
func everything(tx *engine.Tx) (errs []error) {
	did := func(err error) { errs = append(errs, err) }
	entry := func(e *stream.Entry) {
		for _, ok := e.Next(); ok; _, ok = e.Next() {
		}
	}
	claimed := func(_ stream.ID, e *stream.Entry) {
		if e != nil {
			entry(e)
		}
	}
	did(stream.Range(tx, key, stream.RangeOptions{To: stream.MaxID}, entry))
	did(stream.Range(tx, key, stream.RangeOptions{To: stream.MaxID, Reverse: true, Count: 2}, entry))
	_, err := stream.After(tx, key, stream.ID{}, 0, func() {}, func(e *stream.Entry) bool { entry(e); return true })
	did(err)
	_, _, err = stream.About(tx, key)
	did(err)
	groups, err := stream.Groups(tx, key)
	did(err)
	for _, g := range groups {
		consumers, err := g.Group.Consumers()
		did(err)
		_, _, err = g.Group.PendingLists(consumers, 3)
		did(err)
		_, err = g.Group.Summary()
		did(err)
		did(g.Group.Each(stream.PendingOptions{To: stream.MaxID, Consumer: []byte("c")}, func(*stream.Pending) {}))
	}
	for _, f := range []func(g *stream.Group) error{
		func(g *stream.Group) error {
			_, err := g.Read([]byte("d"), &stream.ReadOptions{Claim: true}, func() {},
				func(e *stream.Entry, _ stream.Delivered) bool { entry(e); return true })
			return err
		},
		func(g *stream.Group) error {
			return g.History([]byte("c"), stream.ID{}, 0, func(id stream.ID, e *stream.Entry) bool {
				claimed(id, e)
				return true
			})
		},
		func(g *stream.Group) error {
			_, err := g.Nack([]stream.ID{{Ms: 1, Seq: 1}, {Ms: 1, Seq: 2}}, stream.Silent, true)
			return err
		},
		func(g *stream.Group) error {
			_, err := g.HasIdle(1)
			g.NextIdle(1)
			return err
		},
		func(g *stream.Group) error {
			return g.Claim([]byte("d"), []stream.ID{{Ms: 1, Seq: 1}, {Ms: 1, Seq: 2}},
				&stream.ClaimOptions{Deliveries: -1, Force: true}, claimed)
		},
		func(g *stream.Group) error {
			_, _, err := g.AutoClaim([]byte("c"), &stream.AutoClaimOptions{Count: 100}, claimed)
			return err
		},
		func(g *stream.Group) error { _, err := g.DeleteConsumer([]byte("d")); return err },
		func(g *stream.Group) error { g.SetStart(stream.GroupStart{}); return nil },
		func(g *stream.Group) error { return g.Destroy() },
	} {
		if _, err := stream.Ack(tx, key, []byte("g"), []stream.ID{{Ms: 1, Seq: 1}}); err != nil {
			did(err)
		}
		g, err := stream.OpenGroup(tx, key, []byte("g"))
		if did(err); g != nil {
			did(f(g))
		}
	}
	_, _, err = stream.Add(tx, key, raw("a", "b"), &stream.AddOptions{NewID: stream.NewID{Auto: stream.AutoID},
		Trim: stream.Trim{By: stream.TrimMaxLen, MaxLen: 3}})
	did(err)
	_, _, err = stream.AboutIdempotence(tx, key)
	did(err)
	for _, iid := range []string{"i", "j"} {
		_, _, err = produce(tx, "p", iid, stream.ID{})
		did(err)
	}
	_, _, err = produce(tx, "q", "i", stream.ID{})
	did(err)
	_, err = stream.SetIdempotence(tx, key, 5, 5)
	did(err)
	_, err = stream.Delete(tx, key, []stream.ID{{Ms: 1, Seq: 1}, {Ms: 1, Seq: 3}})
	did(err)
	_, err = stream.TrimOld(tx, key, &stream.Trim{By: stream.TrimMinID, MinID: stream.ID{Ms: 1, Seq: 2}})
	did(err)
	_, err = stream.TrimOld(tx, key, &stream.Trim{By: stream.TrimMaxLen, Approx: true})
	did(err)
	did(stream.CreateGroup(tx, key, []byte("new"), stream.GroupStart{Last: true}, false))
	did(stream.SetID(tx, key, stream.MaxID, stream.SetIDOptions{}))
	return errs
}

func addSmall(tx *engine.Tx) error {
	for seq := range uint64(4) {
		id := stream.ID{Ms: 1, Seq: seq + 1}
		if _, _, err := stream.Add(tx, key, raw("f", "v"), &stream.AddOptions{NewID: stream.NewID{ID: id}}); err != nil {
			return err
		}
	}
	for _, name := range []string{"g", "h"} {
		if err := stream.CreateGroup(tx, key, []byte(name), stream.GroupStart{}, false); err != nil {
			return err
		}
		g, err := stream.OpenGroup(tx, key, []byte(name))
		if err != nil {
			return err
		}
		if err := readNew(g, "c", 2, false, func(*stream.Entry) {}); err != nil {
			return err
		}
	}
	_, _, err := produce(tx, "p", "i", stream.ID{Ms: 1, Seq: 5})
	return err
}

// FuzzStored puts arbitrary bytes in the place of a record: no function may panic or run on for ever, and each error
// is one of Redis's or names the key.
func FuzzStored(f *testing.F) {
	group := (&cf.StreamGroupValue{Consumers: 1 << 60, Pending: 1 << 63, EntriesRead: -7}).Append(nil)
	meta := (&cf.StreamMeta{First: stream.ID{Ms: 5}, Last: stream.ID{Ms: 1}, EntriesAdded: 1 << 63,
		Groups: 1 << 63}).Append(nil)
	wide := (&cf.StreamMeta{Last: stream.MaxID, LastGenerated: stream.MaxID}).Append(nil)
	f.Add(byte(0), meta, uint64(4))
	f.Add(byte(0), wide, uint64(1)<<63)
	f.Add(byte(0), wide[:88], uint64(0))
	f.Add(byte(0), wide[:87], uint64(4))
	f.Add(byte(1), []byte("\x01f\x01v\x00"), uint64(0))
	f.Add(byte(2), group, uint64(0))
	f.Add(byte(3), (&cf.StreamConsumerValue{Pending: 1 << 63}).Append(nil), uint64(0))
	f.Add(byte(4), (&cf.StreamPendingValue{DeliveryTime: 1 << 63, DeliveryCount: 1<<64 - 1,
		Consumer: []byte("c")}).Append(nil), uint64(0))
	f.Add(byte(4), (&cf.StreamPendingValue{Consumer: []byte("nobody")}).Append(nil), uint64(0))
	f.Add(byte(6), (&cf.StreamProducerValue{Next: 1 << 63, LastMs: 1 << 63}).Append(nil), uint64(0))
	f.Add(byte(6), (&cf.StreamProducerValue{First: 5, Next: 5, LastMs: 1 << 63}).Append(nil), uint64(0))
	f.Add(byte(6), []byte{}, uint64(0))
	f.Add(byte(7), []byte("short"), uint64(0))
	f.Add(byte(7), (&cf.StreamID{Ms: 1 << 63}).Append(nil), uint64(0))
	f.Add(byte(8), []byte("short"), uint64(0))
	f.Add(byte(8), (&cf.StreamQueuedValue{IID: []byte("other")}).Append(nil), uint64(0))
	f.Add(byte(9), []byte("short"), uint64(0))
	f.Add(byte(9), (&cf.StreamIdempotenceValue{Duration: 1 << 63, Cursor: []byte("p")}).Append(nil), uint64(0))
	f.Add(byte(5), append(cf.AppendStreamKindSub(nil, cf.StreamProducer), 0, 0, 0, 0, 0, 0, 0, 9, 'p'), uint64(0))
	f.Add(byte(5), append(cf.AppendStreamKindSub(nil, cf.StreamConsumer), 0, 0, 0, 0, 0, 0, 0, 1, 'g'), uint64(0))
	f.Add(byte(5), append(cf.AppendStreamKindSub(nil, cf.StreamGroup), 0, 0, 0, 0, 0, 0, 0, 9, 'g'), uint64(0))
	f.Add(byte(5), []byte("\x00\x00\x00\x00\x00\x00\x00\x01\x00"), uint64(0))
	db := enginetest.Open(f)
	done := errors.New("done")
	f.Fuzz(func(t *testing.T, what byte, data []byte, size uint64) {
		err := db.Update(ns, [][]byte{key}, func(tx *engine.Tx) error {
			if err := addSmall(tx); err != nil {
				return err
			}
			rec, err := tx.Load(key, cf.TypeStream)
			if err != nil {
				return err
			}
			first := cf.StreamID{Ms: 1, Seq: 1}
			var sub []byte
			switch what % 10 {
			case 0:
				rec.Size = size
				tx.SaveAppend(&rec, data)
			case 1:
				sub = cf.AppendStreamEntrySub(nil, first)
			case 2:
				sub = cf.AppendStreamGroupSub(nil, cf.StreamGroup, []byte("g"))
			case 3:
				sub = cf.AppendStreamConsumerSub(nil, []byte("g"), []byte("c"))
			case 4:
				sub = cf.AppendStreamPendingSub(nil, []byte("g"), first)
			case 5:
				tx.Put(cf.Stream, tx.Subkey(&rec, data), nil)
			case 6:
				sub = cf.AppendStreamProducerSub(nil, cf.StreamProducer, []byte("p"))
			case 7:
				sub = cf.AppendStreamIIDSub(nil, []byte("p"), []byte("i"))
			case 8:
				sub = cf.AppendStreamQueuedSub(nil, []byte("p"), 0)
			case 9:
				sub = cf.AppendStreamKindSub(nil, cf.StreamIdempotence)
			}
			if sub != nil {
				tx.Put(cf.Stream, tx.Subkey(&rec, sub), data)
			}
			for _, err := range everything(tx) {
				if _, ok := errors.AsType[*engine.Error](err); err != nil && !ok && !(strings.Contains(err.Error(), `key "s"`) &&
					errors.Is(err, cf.ErrCorrupt)) {
					t.Errorf("%d %q %d: %v", what%10, data, size, err)
				}
			}
			return done
		})
		if !errors.Is(err, done) {
			t.Fatal(err)
		}
	})
}
