package offline

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/enginetest"
	"github.com/basaltdb/basalt/engine/stream"
	"github.com/basaltdb/basalt/internal/require"
)

// TestStreamGroups checks a stream with a group: sound, and with numbers in its records that are wrong.
func TestStreamGroups(t *testing.T) {
	key := enginetest.Bytes("s")
	for _, tt := range []struct {
		name  string
		wrong func(g *cf.StreamGroupValue, nobody *cf.StreamConsumerValue)
		want  []string
	}{
		{"sound", func(*cf.StreamGroupValue, *cf.StreamConsumerValue) {}, nil},
		{"consumers", func(g *cf.StreamGroupValue, _ *cf.StreamConsumerValue) { g.Consumers++ },
			[]string{"group g says 3 consumers and 3 pending entries, there are 2 and 3"}},
		{"pending entries that are nobody's",
			func(_ *cf.StreamGroupValue, nobody *cf.StreamConsumerValue) { nobody.Pending = 5 },
			[]string{`consumer "\x00nobody" of group g says 5 pending entries, there are 2`}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir() + "/db"
			db := enginetest.OpenPlain(t, engine.Options{Dir: dir})
			enginetest.Update(t, db, key, func(tx *engine.Tx) error {
				for i := range 3 {
					o := stream.AddOptions{NewID: stream.NewID{ID: stream.ID{Ms: uint64(i + 1)}}}
					if _, _, err := stream.Add(tx, key[0], enginetest.Bytes("f", "v"), &o); err != nil {
						return err
					}
				}
				if err := stream.CreateGroup(tx, key[0], []byte("g"), stream.GroupStart{}, false); err != nil {
					return err
				}
				g, err := stream.OpenGroup(tx, key[0], []byte("g"))
				if err != nil {
					return err
				}
				_, err = g.Read([]byte("c"), &stream.ReadOptions{}, func() {},
					func(*stream.Entry, stream.Delivered) bool { return true })
				if err != nil {
					return err
				}
				_, err = g.Nack([]stream.ID{{Ms: 1}, {Ms: 3}}, stream.Fail, false)
				return err
			})
			enginetest.Update(t, db, key, func(tx *engine.Tx) error {
				rec, err := tx.Load(key[0], cf.TypeStream)
				if err != nil {
					return err
				}
				group := cf.AppendStreamGroupSub(nil, cf.StreamGroup, []byte("g"))
				nobody := cf.AppendStreamConsumerSub(nil, []byte("g"), []byte(cf.StreamNobody))
				values := make([][]byte, 2)
				for i, sub := range [][]byte{group, nobody} {
					v, _, err := tx.Get(cf.Stream, tx.Subkey(&rec, sub))
					if err != nil {
						return err
					}
					values[i] = slices.Clone(v)
				}
				g, err := cf.DecodeStreamGroup(values[0])
				if err != nil {
					return err
				}
				n, err := cf.DecodeStreamConsumer(values[1])
				tt.wrong(&g, &n)
				tx.Put(cf.Stream, tx.Subkey(&rec, group), g.Append(nil))
				tx.Put(cf.Stream, tx.Subkey(&rec, nobody), n.Append(nil))
				return err
			})
			require.NoError(t, db.Close())
			var got []string
			for _, p := range check(t, dir).Problems {
				got = append(got, p.String())
			}
			if len(got) != len(tt.want) || len(got) > 0 && !strings.Contains(got[0], tt.want[0]) {
				t.Errorf("problems %q, want %q", got, tt.want)
			}
			if len(got) == 0 {
				return
			}
			if r, err := Repair(t.Context(), dir, Options{}); err != nil || r.Left != 0 {
				t.Fatalf("%+v, %v", r, err)
			}
			if left := check(t, dir).Problems; len(left) > 0 {
				t.Error(fmt.Sprint("after the repair: ", left))
			}
		})
	}
}

// TestStreamProducers checks a stream with idempotent production: sound, and with records that are wrong. What the
// records say is checked too.
func TestStreamProducers(t *testing.T) {
	key := enginetest.Bytes("s")
	sub := func(kind cf.StreamKind) []byte { return cf.AppendStreamProducerSub(nil, kind, []byte("p")) }
	short := []byte("short")
	for _, tt := range []struct {
		name, want string
		sub, value []byte
	}{
		{"sound", "", nil, nil},
		{"queue", "producer p says 5 iids, there are 2, and 2 in the queue", sub(cf.StreamProducer),
			(&cf.StreamProducerValue{Next: 5}).Append(nil)},
		{"iids", "producer p says 2 iids, there are 3, and 2 in the queue",
			cf.AppendStreamIIDSub(nil, []byte("p"), []byte("x")), (&cf.StreamID{}).Append(nil)},
		{"no producer", "producer q says 0 iids, there are 0, and 1 in the queue",
			cf.AppendStreamQueuedSub(nil, []byte("q"), 0), (&cf.StreamQueuedValue{}).Append(nil)},
		{"producer's value", "stream producer of 5 bytes", sub(cf.StreamProducer), short},
		{"iid's value", "iid of a stream, 5 bytes", cf.AppendStreamIIDSub(nil, []byte("p"), []byte("a")), short},
		{"place's value", "place in the queue of a stream's producer, 5 bytes",
			cf.AppendStreamQueuedSub(nil, []byte("p"), 0), short},
		{"idempotence's value", "stream idempotence of 5 bytes", cf.AppendStreamKindSub(nil, cf.StreamIdempotence), short},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir() + "/db"
			db := enginetest.OpenPlain(t, engine.Options{Dir: dir})
			enginetest.Update(t, db, key, func(tx *engine.Tx) error {
				for i, iid := range enginetest.Bytes("a", "b") {
					o := stream.AddOptions{NewID: stream.NewID{ID: stream.ID{Ms: uint64(1<<50 + i)}}, Producer: []byte("p"),
						IID: iid}
					if _, _, err := stream.Add(tx, key[0], enginetest.Bytes("f", "v"), &o); err != nil {
						return err
					}
				}
				rec, err := tx.Load(key[0], cf.TypeStream)
				if tt.sub != nil {
					tx.Put(cf.Stream, tx.Subkey(&rec, tt.sub), tt.value)
				}
				return err
			})
			require.NoError(t, db.Close())
			var got []string
			for _, p := range check(t, dir).Problems {
				got = append(got, p.String())
			}
			if (len(got) > 0) != (tt.want != "") || len(got) > 0 && !strings.Contains(strings.Join(got, "\n"), tt.want) {
				t.Errorf("problems %q, want %q", got, tt.want)
			}
			if tt.want != "" {
				return
			}
			var said []string
			require.NoError(t, Raw(dir, cf.DefaultNamespace, key[0], 0, func(r Record) error {
				_, part, _ := strings.Cut(r.Parts[len(r.Parts)-1], ": ")
				_, value, _ := strings.Cut(r.Fields[0], ": ")
				if r.Family == cf.Stream.String() && !strings.HasPrefix(part, "entry") {
					said = append(said, part+": "+value)
				}
				return nil
			}))
			want := []string{"producer p: queue from 0 to 2, last ms 1125899906842625",
				"iid a of producer p: entry 1125899906842624-0", "iid b of producer p: entry 1125899906842625-0",
				"place 0 in the queue of producer p: iid a, ms 1125899906842624",
				"place 1 in the queue of producer p: iid b, ms 1125899906842625",
				"idempotence: 100 seconds, 100 iids a producer, 2 added, 0 duplicates"}
			if !slices.Equal(said, want) {
				t.Errorf("records\n%s, want\n%s", strings.Join(said, "\n"), strings.Join(want, "\n"))
			}
		})
	}
}
