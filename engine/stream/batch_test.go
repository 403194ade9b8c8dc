package stream_test

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/batch"
	"github.com/basaltdb/basalt/engine/enginetest"
	"github.com/basaltdb/basalt/engine/stream"
	"github.com/basaltdb/basalt/internal/require"
)

// line describes a record: what is done, and to what.
func line(t testing.TB, rec *batch.Record) string {
	t.Helper()
	what := map[batch.Kind]string{batch.Put: "put ", batch.Delete: "delete ", batch.DeleteRange: "delete from "}[rec.Kind]
	switch {
	case rec.Kind == batch.LogData:
		return "log " + string(rec.Value)
	case rec.Family == cf.Metadata:
		return what + "metadata"
	case rec.Family != cf.Stream:
		t.Fatalf("a record of family %s", rec.Family)
	}
	return what + subText(t, rec.Key)
}

func subText(t testing.TB, key []byte) string {
	k, err := cf.ParseSubkey(key, false)
	require.NoError(t, err)
	if bytes.Equal(k.Sub, cf.AppendStreamKindSub(nil, cf.StreamProducer)) {
		return "producers"
	}
	s, err := cf.ParseStreamSub(k.Sub)
	require.NoError(t, err)
	switch s.Kind {
	case cf.StreamGroup:
		return "group " + string(s.Group)
	case cf.StreamConsumer:
		return "consumer " + string(s.Group) + " " + string(s.Consumer)
	case cf.StreamPending:
		return "pending " + string(s.Group) + " " + text(s.ID)
	case cf.StreamProducer:
		return "producer " + string(s.Producer)
	case cf.StreamIID:
		return "iid " + string(s.Producer) + " " + string(s.IID)
	case cf.StreamQueued:
		return fmt.Sprintf("queued %s %d", s.Producer, s.Place)
	case cf.StreamIdempotence:
		return "idempotence"
	}
	return text(s.ID)
}

// TestBatches compares the records of each write with those that Kvrocks 2.10 writes, in its order, where it writes
// them without a fault.
func TestBatches(t *testing.T) {
	group := func(f func(g *stream.Group) error) func(tx *engine.Tx) error {
		return func(tx *engine.Tx) error {
			g, err := stream.OpenGroup(tx, key, []byte("g"))
			if err != nil {
				return err
			}
			return f(g)
		}
	}
	adding := func(idText string, trim stream.Trim) func(tx *engine.Tx) error {
		return func(tx *engine.Tx) error {
			_, _, err := stream.Add(tx, key, raw("f", "v"), &stream.AddOptions{NewID: stream.NewID{ID: id(t, idText)},
				Trim: trim})
			return err
		}
	}
	read := func(consumer string, count uint64, noAck bool) func(tx *engine.Tx) error {
		return group(func(g *stream.Group) error {
			return readNew(g, consumer, count, noAck, func(*stream.Entry) {})
		})
	}
	claim := func(consumer, list string, force bool) func(tx *engine.Tx) error {
		return group(func(g *stream.Group) error {
			return g.Claim([]byte(consumer), ids(t, list), &stream.ClaimOptions{Deliveries: -1, Force: force},
				func(stream.ID, *stream.Entry) {})
		})
	}
	readIdle := group(func(g *stream.Group) error {
		_, err := g.Read([]byte("d"), &stream.ReadOptions{Claim: true}, func() {},
			func(*stream.Entry, stream.Delivered) bool { return true })
		return err
	})
	nack := func(list string, force bool) func(tx *engine.Tx) error {
		return group(func(g *stream.Group) error {
			_, err := g.Nack(ids(t, list), stream.Fail, force)
			return err
		})
	}
	del := func(list string) func(tx *engine.Tx) error {
		return func(tx *engine.Tx) error { _, err := stream.Delete(tx, key, ids(t, list)); return err }
	}
	ack := func(list string) func(tx *engine.Tx) error {
		return func(tx *engine.Tx) error { _, err := stream.Ack(tx, key, []byte("g"), ids(t, list)); return err }
	}
	trim := func(tr stream.Trim) func(tx *engine.Tx) error {
		return func(tx *engine.Tx) error { _, err := stream.TrimOld(tx, key, &tr); return err }
	}
	create := func(name string, stream1 bool) func(tx *engine.Tx) error {
		return func(tx *engine.Tx) error {
			return stream.CreateGroup(tx, key, []byte(name), stream.GroupStart{EntriesRead: -1}, stream1)
		}
	}
	once := func(producer, iid, idText string) func(tx *engine.Tx) error {
		return func(tx *engine.Tx) error { _, _, err := produce(tx, producer, iid, id(t, idText)); return err }
	}
	remember := func(size uint64) func(tx *engine.Tx) error {
		return func(tx *engine.Tx) error { _, err := stream.SetIdempotence(tx, key, 0, size); return err }
	}
	two := stream.Trim{By: stream.TrimMaxLen, MaxLen: 2}
	type step = func(tx *engine.Tx) error
	three := []step{adding("1-1", stream.Trim{}), adding("1-2", stream.Trim{}), adding("2-0", stream.Trim{})}
	db := enginetest.Open(t)
	grouped := append(slices.Clone(three), create("g", false), read("c", 2, false))
	for _, c := range []struct {
		name   string
		before []step
		f      step
		want   string // with commas between
	}{
		{"add", nil, adding("1-1", stream.Trim{}), "log 8, put 1-1, put metadata"},
		{"add and trim", three, adding("3-0", two), "log 8, delete 1-1, delete 1-2, put 3-0, put metadata"},
		{"add and trim that too", three, adding("3-0", stream.Trim{By: stream.TrimMaxLen}),
			"log 8, delete 1-1, delete 1-2, delete 2-0, put metadata"},
		{"delete", three, del("2-0 9-9 1-1"), "log 8, delete 2-0, delete 1-1, put metadata"},
		{"delete nothing", three, del("9-9"), ""},
		{"trim", three, trim(two), "log 8, delete 1-1, put metadata"},
		{"trim by id", three, trim(stream.Trim{By: stream.TrimMinID, MinID: id(t, "2")}),
			"log 8, delete 1-1, delete 1-2, put metadata"},
		{"trim nothing", three, trim(stream.Trim{By: stream.TrimMinID, MinID: id(t, "1-1")}), ""},
		{"set id", three, func(tx *engine.Tx) error {
			return stream.SetID(tx, key, id(t, "9-9"),
				stream.SetIDOptions{})
		}, "log 8 XSETID, put metadata"},
		{"create a group", three, create("g", false), "log 8, put group g, put metadata"},
		{"create a group and a stream", nil, create("g", true), "log 8, put group g, put metadata"},
		{"set a group's id", grouped,
			group(func(g *stream.Group) error { g.SetStart(stream.GroupStart{}); return nil }), "log 8, put group g"},
		{"create a consumer", grouped, group(func(g *stream.Group) error {
			_, err := g.CreateConsumer([]byte("d"))
			return err
		}), "log 8, put consumer g d, put group g"},
		{"create it again", grouped, group(func(g *stream.Group) error {
			_, err := g.CreateConsumer([]byte("c"))
			return err
		}), ""},
		{"delete a consumer", grouped, group(func(g *stream.Group) error {
			_, err := g.DeleteConsumer([]byte("c"))
			return err
		}),
			"log 8, delete pending g 1-1, delete pending g 1-2, delete consumer g c, put group g"},
		{"destroy a group", grouped, group(func(g *stream.Group) error { return g.Destroy() }),
			"log 8, delete group g, delete consumer g c, delete pending g 1-1, delete pending g 1-2, put metadata"},
		{"read as a new consumer", grouped, read("d", 0, false),
			"log 8, put consumer g d, put group g, log 8, put pending g 2-0, put group g, put consumer g d"},
		{"read as an old consumer", grouped, read("c", 0, false), "log 8, put pending g 2-0, put group g, put consumer g c"},
		{"read without acknowledging", grouped, read("c", 0, true), "log 8, put group g, put consumer g c"},
		{"read what there is not", append(slices.Clone(grouped), read("c", 0, false)), read("c", 0, false),
			"log 8, put consumer g c"},
		{"read once more", grouped, group(func(g *stream.Group) error {
			return g.History([]byte("c"), stream.ID{}, 1, func(stream.ID, *stream.Entry) bool { return true })
		}), "log 8, put pending g 1-1, put consumer g c"},
		{"acknowledge", grouped, ack("1-2 1-1 9-9"),
			"log 8, delete pending g 1-2, delete pending g 1-1, put group g, put consumer g c"},
		{"acknowledge nothing", grouped, ack("9-9"), ""},
		{"claim", append(slices.Clone(grouped), group(func(g *stream.Group) error {
			_, err := g.CreateConsumer([]byte("d"))
			return err
		})), claim("d", "1-1", false),
			"log 8, put consumer g c, put pending g 1-1, put consumer g d, put group g"},
		{"claim by force", grouped, claim("c", "2-0", true), "log 8, put pending g 2-0, put consumer g c, put group g"},
		{"claim what was deleted", append(slices.Clone(grouped), del("1-1")), claim("c", "1-1", false),
			"log 8, delete pending g 1-1, put consumer g c, put group g"},
		{"claim automatically", append(slices.Clone(grouped), del("1-1")), group(func(g *stream.Group) error {
			_, _, err := g.AutoClaim([]byte("c"), &stream.AutoClaimOptions{Count: 10}, func(stream.ID, *stream.Entry) {})
			return err
		}), "log 8, delete pending g 1-1, put pending g 1-2, put consumer g c, put group g"},
		{"read idle and new entries", append(slices.Clone(grouped), del("1-1")), readIdle,
			"log 8, put consumer g d, put group g, log 8, put pending g 1-2, put pending g 2-0, put group g, " +
				"put consumer g c, put consumer g d"},
		{"read idle entries", append(slices.Clone(grouped), read("c", 0, true)), readIdle,
			"log 8, put consumer g d, put group g, log 8, put pending g 1-1, put pending g 1-2, put consumer g c, " +
				"put consumer g d"},
		{"give back", grouped, nack("1-2 9-9 1-2", false),
			"log 8, put consumer g c, put pending g 1-2, put consumer g \x00nobody, put group g"},
		{"give back what was not delivered", grouped, nack("2-0", true),
			"log 8, put pending g 2-0, put consumer g \x00nobody, put group g"},
		{"give back nothing", grouped, nack("2-0", false), ""},
		{"acknowledge the last one of nobody's", append(slices.Clone(grouped), nack("1-1", false)), ack("1-1"),
			"log 8, delete pending g 1-1, put group g, put consumer g \x00nobody"},
		{"add once", nil, once("p", "i", "9999999999999-1"),
			"log 8, put 9999999999999-1, put metadata, put iid p i, put queued p 0, put producer p, put idempotence"},
		{"add again", []step{once("p", "i", "9999999999999-1")}, once("p", "i", "0-0"), "log 8, put idempotence"},
		{"add one more than is remembered", []step{once("q", "i", "9999999999999-1"), remember(1),
			once("p", "i", "9999999999999-2")}, once("p", "j", "0-0"),
			"log 8, put 9999999999999-3, put metadata, delete iid p i, delete queued p 0, put iid p j, " +
				"put queued p 1, put producer p, put idempotence"},
		{"remember", three, remember(5), "log 8, put idempotence"},
		{"remember less", []step{once("p", "i", "1-1")}, remember(5), "log 8, delete from producers, put idempotence"},
		{"remember the usual", three, remember(100), "log 8, put idempotence"},
		{"remember as before", []step{once("p", "i", "1-1")}, remember(100), ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			drop(t, db)
			for _, f := range c.before {
				update(t, db, f)
			}
			lines := enginetest.Each(line)(t, enginetest.Batches(t, db, func() { update(t, db, c.f) }))
			if got := strings.Join(lines, ", "); got != c.want {
				t.Errorf("records\n%s, want\n%s", got, c.want)
			}
		})
	}
}

// TestBulkTrim removes more than is deleted one by one.
func TestBulkTrim(t *testing.T) {
	const size = 25000
	db := enginetest.Open(t)
	for _, c := range []struct {
		name string
		trim stream.Trim
		left int
	}{
		{"length", stream.Trim{By: stream.TrimMaxLen, MaxLen: 500}, 500},
		{"length 0", stream.Trim{By: stream.TrimMaxLen}, 0},
		{"id", stream.Trim{By: stream.TrimMinID, MinID: stream.ID{Ms: 24501}}, 500},
		{"id of no entry", stream.Trim{By: stream.TrimMinID, MinID: stream.ID{Ms: 24500, Seq: 5}}, 500},
		{"id of the last entry", stream.Trim{By: stream.TrimMinID, MinID: stream.ID{Ms: 25000}}, 1},
		{"id behind all", stream.Trim{By: stream.TrimMinID, MinID: stream.ID{Ms: 99999}}, 0},
		{"length, a hundred at a time", stream.Trim{By: stream.TrimMaxLen, MaxLen: 510, Approx: true}, 600},
		{"id, a hundred at a time", stream.Trim{By: stream.TrimMinID, MinID: stream.ID{Ms: 24450}, Approx: true}, 600},
		{"id behind all, a hundred at a time", stream.Trim{By: stream.TrimMinID, MinID: stream.MaxID, Approx: true}, 0},
		{"id and limit", stream.Trim{By: stream.TrimMinID, MinID: stream.ID{Ms: 24450}, Approx: true, Limit: 22222},
			25000 - 22200},
		{"limited", stream.Trim{By: stream.TrimMaxLen, MaxLen: 500, Approx: true, Limit: 12345}, 25000 - 12300},
	} {
		t.Run(c.name, func(t *testing.T) {
			drop(t, db)
			update(t, db, func(tx *engine.Tx) error {
				if err := stream.CreateGroup(tx, key, []byte("g"), stream.GroupStart{}, true); err != nil {
					return err
				}
				for i := range size {
					if _, _, err := stream.Add(tx, key, raw("f", "v"),
						&stream.AddOptions{NewID: stream.NewID{ID: stream.ID{Ms: uint64(i + 1)}}}); err != nil {
						return err
					}
				}
				return nil
			})
			update(t, db, func(tx *engine.Tx) error {
				n, err := stream.TrimOld(tx, key, &c.trim)
				if err == nil && n != uint64(size-c.left) {
					t.Errorf("%d entries removed, want %d", n, size-c.left)
				}
				return err
			})
			list := strings.Fields(entries(t, db))
			if len(list) != c.left || c.left > 0 && list[0] != text(stream.ID{Ms: uint64(size - c.left + 1)}) {
				t.Errorf("%d entries from %.1q on, want %d", len(list), list, c.left)
			}
			view(t, db, func(tx *engine.Tx) error {
				i, _, err := stream.About(tx, key)
				if err == nil && (i.Length != uint64(c.left) || i.Groups != 1) {
					t.Errorf("%+v", i)
				}
				return err
			})
			add(t, db, "30000-1")
			if got := entries(t, db); got != strings.Join(append(list, "30000-1"), " ") {
				t.Errorf("%d entries after another was added", len(strings.Fields(got)))
			}
		})
	}
}
