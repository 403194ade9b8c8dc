package carry

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/batch"
	"github.com/basaltdb/basalt/engine/enginetest"
	"github.com/basaltdb/basalt/engine/hash"
	"github.com/basaltdb/basalt/engine/keys"
	"github.com/basaltdb/basalt/engine/set"
	"github.com/basaltdb/basalt/engine/str"
	"github.com/basaltdb/basalt/engine/stream"
	"github.com/basaltdb/basalt/engine/zset"
	"github.com/basaltdb/basalt/internal/require"
	"github.com/basaltdb/basalt/server/cluster/migration/pace"
	"github.com/basaltdb/basalt/server/cluster/migration/slotdata"
	"github.com/basaltdb/basalt/server/cluster/peer"
	"github.com/basaltdb/basalt/server/cluster/peertest"
)

// carried is a database whose keys are sent to a node.
type carried struct {
	t     *testing.T
	db    *engine.DB
	node  *peertest.Node
	to    *To
	base  *slotdata.Reader
	log   *engine.Log
	slots cf.SlotRange
}

// start connects to a node that has some commands.
func start(t *testing.T, commands ...string) *carried {
	c := &carried{t: t, db: enginetest.OpenWith(t, engine.Options{Dir: t.TempDir() + "/db", Slots: true}),
		slots: cf.SlotRange{Last: cf.NumSlots - 1}}
	c.node = &peertest.Node{Answer: func(cmd []string) (string, bool) {
		if cmd[0] != "COMMAND" {
			return "", true
		}
		if slices.Contains(commands, cmd[2]) {
			return "*1\r\n*1\r\n$1\r\nx\r\n", true
		}
		return "*1\r\n*-1\r\n", true
	}}
	p, err := peer.Dial(t.Context(), c.node.Dial, "", "")
	require.NoError(t, err)
	t.Cleanup(p.Close)
	knows, err := Ask(p)
	require.NoError(t, err)
	c.node.Commands()
	c.to = &To{Ctx: t.Context(), Peer: p, Knows: knows, Clock: pace.Real{}, Pace: &pace.Pace{Clock: pace.Real{}},
		Settings: func() Settings { return Settings{Pipeline: 16, BatchBytes: 256} }, Check: func() error { return nil }}
	return c
}

func (c *carried) fresh() *slotdata.Reader { return slotdata.NewReader(c.db, time.Now().UnixMilli()) }

// update runs f with the key locked.
func (c *carried) update(key string, f func(tx *engine.Tx, key []byte) error) {
	c.t.Helper()
	enginetest.Update(c.t, c.db, enginetest.Bytes(key), func(tx *engine.Tx) error { return f(tx, []byte(key)) })
}

func (c *carried) hset(key string, pairs ...string) {
	c.t.Helper()
	c.update(key, func(tx *engine.Tx, key []byte) error {
		_, err := hash.Set(tx, key, enginetest.Bytes(pairs...))
		return err
	})
}

// snapshot takes the snapshot.
func (c *carried) snapshot() {
	c.base = c.fresh()
	c.t.Cleanup(c.base.Close)
	c.log = c.db.Log(c.base.Seq + 1)
	c.t.Cleanup(c.log.Close)
}

// send sends the snapshot.
func (c *carried) send(by Carrier) {
	c.t.Helper()
	err := c.base.Each(c.slots, func(k *slotdata.Key) error { return by.Snapshot(c.base, k) })
	if err == nil {
		err = by.Flush()
	}
	require.NoError(c.t, err)
}

// follow sends the changes of the log.
func (c *carried) follow(by Carrier) {
	c.t.Helper()
	var changes slotdata.Changes
	changes.Bounds(c.slots)
	for c.log.Sequence() <= c.db.LatestSequence() {
		rep, skip, err := c.log.Next()
		require.NoError(c.t, err)
		if rep == nil {
			continue
		}
		changes.Rep, changes.Skip = rep, skip
		require.NoError(c.t, by.Change(&changes))
	}
	require.NoError(c.t, by.Flush())
}

// TestRaw: batches of the configured size contain all records of the snapshot, and then those of the log.
func TestRaw(t *testing.T) {
	c := start(t, "applybatch")
	for i := range 50 {
		c.hset("h", fmt.Sprint("field", i), "value")
	}
	c.update("z", func(tx *engine.Tx, key []byte) error {
		_, _, err := zset.Add(tx, key, 0, []zset.Entry{{Member: []byte("m"), Score: 1}})
		return err
	})
	c.snapshot()
	raw := NewRaw(c.to, c.fresh)
	records := func() (all []string) {
		for _, cmd := range c.node.Commands() {
			if len(cmd) != 2 || cmd[0] != "APPLYBATCH" {
				t.Fatalf("%q", cmd)
			}
			for _, rec := range enginetest.Records(t, []byte(cmd[1])) {
				if rec.Kind == batch.Put {
					all = append(all, fmt.Sprintf("%s %x %x", rec.Family, rec.Key, rec.Value))
				}
			}
			if len(cmd[1]) > 512 {
				t.Errorf("a batch of %d bytes", len(cmd[1]))
			}
		}
		slices.Sort(all)
		return all
	}
	stored := func() (all []string) {
		enginetest.View(t, c.db, nil, func(tx *engine.Tx) error {
			for _, id := range []cf.ID{cf.Metadata, cf.Default, cf.ZSetScore, cf.Stream} {
				it := tx.Iter(id, engine.IterOptions{})
				for it.Next() {
					all = append(all, fmt.Sprintf("%s %x %x", id, it.Key(), it.Value()))
				}
				it.Close()
			}
			return nil
		})
		slices.Sort(all)
		return all
	}
	before := stored()
	c.send(raw)
	if got := records(); !slices.Equal(got, before) {
		t.Errorf("%d records were sent, there are %d", len(got), len(before))
	}
	c.hset("new", "a", "b")
	c.follow(raw)
	var added []string
	for _, rec := range stored() {
		if !slices.Contains(before, rec) {
			added = append(added, rec)
		}
	}
	if got := records(); !slices.Equal(got, added) {
		t.Errorf("the log brought %q, want %q", got, added)
	}
}

// TestMirror: commands send the existing keys, and then their changes.
func TestMirror(t *testing.T) {
	c := start(t)
	expect := func(want ...string) {
		t.Helper()
		var got []string
		for _, cmd := range c.node.Commands() {
			got = append(got, strings.Join(cmd, " "))
		}
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("sent %q, want %q", got, want)
		}
	}
	c.hset("h", "a", "1", "b", "2")
	c.update("s", func(tx *engine.Tx, key []byte) error {
		_, err := str.Set(tx, key, []byte("v"), str.SetOptions{Expire: 4102444800000})
		return err
	})
	c.update("gone", func(tx *engine.Tx, key []byte) error {
		_, err := set.Add(tx, key, enginetest.Bytes("x"))
		return err
	})
	c.snapshot()
	m := NewMirror(c.to, c.base, c.fresh)
	c.send(m)
	expect("HMSET h a 1 b 2", "SET s v PXAT 4102444800000", "SADD gone x")

	c.hset("h", "c", "3")
	c.update("h", func(tx *engine.Tx, key []byte) error {
		_, err := hash.Delete(tx, key, enginetest.Bytes("a"))
		return err
	})
	c.update("gone", func(tx *engine.Tx, key []byte) error {
		_, err := keys.Del(tx, key)
		return err
	})
	c.follow(m)
	expect("HMSET h c 3", "HDEL h a", "DEL gone")

	c.update("h", func(tx *engine.Tx, key []byte) error { // another life
		_, err := keys.Del(tx, key)
		return err
	})
	c.hset("h", "z", "26")
	c.follow(m)
	expect("DEL h", "HMSET h z 26")
}

// TestMirrorRange: elements that a range deletion has removed do not come back, although the key keeps its version.
func TestMirrorRange(t *testing.T) {
	c := start(t, "applybatch")
	add := func(ms uint64) func(tx *engine.Tx, key []byte) error {
		return func(tx *engine.Tx, key []byte) error {
			o := stream.AddOptions{NewID: stream.NewID{ID: stream.ID{Ms: ms}}}
			_, _, err := stream.Add(tx, key, enginetest.Bytes("f", "v"), &o)
			return err
		}
	}
	c.update("s", add(1))
	c.update("s", add(2))
	c.snapshot()
	m := NewMirror(c.to, c.base, c.fresh)
	c.send(m)
	there := map[string]bool{} // the entries at the destination
	apply := func() {
		t.Helper()
		for _, cmd := range c.node.Commands() {
			if cmd[0] != "APPLYBATCH" {
				continue
			}
			for _, rec := range enginetest.Records(t, []byte(cmd[1])) {
				switch {
				case rec.Family != cf.Stream:
				case rec.Kind == batch.Put:
					there[string(rec.Key)] = true
				case rec.Kind == batch.DeleteRange:
					maps.DeleteFunc(there, func(k string, _ bool) bool {
						return k >= string(rec.Key) && k < string(rec.Value)
					})
				default:
					t.Fatalf("%s %x", rec.Kind, rec.Key)
				}
			}
		}
	}
	apply()
	c.update("s", func(tx *engine.Tx, key []byte) error {
		rec, err := tx.Load(key, cf.TypeStream)
		first := slices.Clone(tx.Subkey(&rec, cf.AppendStreamEntrySub(nil, cf.StreamID{Ms: 1})))
		tx.DeleteRange(cf.Stream, first, slices.Clone(tx.Subkey(&rec, cf.AppendStreamEntrySub(nil, cf.StreamID{Ms: 2}))))
		return err
	})
	c.update("s", add(3))
	c.follow(m)
	apply()
	var ids []uint64
	for key := range there {
		sub, err := cf.ParseSubkey([]byte(key), true)
		require.NoError(t, err)
		id, _ := cf.ParseStreamEntrySub(sub.Sub)
		ids = append(ids, id.Ms)
	}
	if slices.Sort(ids); !slices.Equal(ids, []uint64{2, 3}) {
		t.Errorf("the destination has the entries %d, want 2 and 3", ids)
	}
}

// TestUnknownType: a key of a type that the destination does not know ends the migration, with every Carrier.
func TestUnknownType(t *testing.T) {
	c := start(t, "applybatch")
	c.update("j", func(tx *engine.Tx, key []byte) error {
		m := cf.Meta{Type: cf.TypeJSON}
		tx.Put(cf.Metadata, tx.NSKey(key), m.Append(nil))
		return nil
	})
	c.snapshot()
	for _, by := range []Carrier{NewRaw(c.to, c.fresh), NewMirror(c.to, c.base, c.fresh)} {
		err := c.base.Each(c.slots, func(k *slotdata.Key) error { return by.Snapshot(c.base, k) })
		if err == nil || !strings.Contains(err.Error(), "json.set") {
			t.Errorf("%T: %v", by, err)
		}
	}
}
