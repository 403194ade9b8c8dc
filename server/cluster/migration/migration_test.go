package migration_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine/batch"
	"github.com/basaltdb/basalt/internal/require"
	"github.com/basaltdb/basalt/server/cluster/migration/source"
	"github.com/basaltdb/basalt/server/cluster/migration/stage"
)

// The tags have the slots 5061 (bar), 12182 (foo) and others.
var testTags = []string{"foo", "bar", "a", "b"}

func slotOf(tag string) cf.SlotRange {
	s := cf.Slot([]byte(tag))
	return cf.SlotRange{First: s, Last: s}
}

// The destination gets all keys of every type, those written meanwhile, and no others, whatever it had before.
func TestEverythingArrives(t *testing.T) {
	for _, raw := range []bool{true, false} {
		for seed := range uint64(3) {
			t.Run(fmt.Sprintf("raw=%v/%d", raw, seed), func(t *testing.T) {
				o, d := startOrigin(t), startDestination(t)
				o.settings.Raw = raw
				w := &writer{client: o.client, rng: rand.New(rand.NewPCG(seed, 5)), tags: testTags}
				// Old keys of the slots at the destination must not come back, even with the same versions.
				left := &writer{client: d.client, rng: rand.New(rand.NewPCG(seed, 6)), tags: testTags}
				left.write(300)
				w.write(1500)
				o.step = func(s stage.Stage) {
					switch s {
					case stage.Log, stage.Forbidden:
						w.write(1000)
					}
				}
				r := slotOf("foo")
				if seed == 2 {
					r = cf.SlotRange{First: 0, Last: cf.NumSlots - 1}
				}
				require.NoError(t, o.migrate(d, r))
				compare(t, o.db, d.db, r, raw)
				if !d.slots.has("imported", r.First) || !o.slots.has("moved", r.First) {
					t.Error("a side does not know that the slots have moved")
				}
				checkCount(t, d.node)
				if st := o.src.Status(); st.State != source.StateSuccess {
					t.Errorf("%+v", st)
				}
			})
		}
	}
}

// TestRangesAreDeleted: elements that one range delete has removed during a migration stay away, although the key keeps
// its version.
func TestRangesAreDeleted(t *testing.T) {
	var entries strings.Builder // more than a trim deletes one by one
	for i := range 10_002 {
		fmt.Fprintf(&entries, " XADD K %d-0 f v", i+1)
	}
	for _, tt := range []struct{ name, before, meanwhile string }{
		{"stream", strings.TrimSpace(entries.String()), "XTRIM K MAXLEN 1"},
		{"series, a longer retention", "TS.CREATE K chunk_size 1 RETENTION 5 TS.ADD K 10 1 TS.ADD K 20 1 TS.ADD K 30 1",
			"TS.ALTER K RETENTION 0"},
		{"series, the newest samples", "TS.CREATE K chunk_size 1 RETENTION 15 TS.ADD K 10 1 TS.ADD K 20 1 TS.ADD K 30 1",
			"TS.DEL K 30 30"},
	} {
		for _, raw := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s,raw=%v", tt.name, raw), func(t *testing.T) {
				o, d := startOrigin(t), startDestination(t)
				o.settings.Raw = raw
				send := func(text string) {
					text = strings.ReplaceAll(text, "K", "{foo}k")
					o.ok(strings.Split(strings.NewReplacer(" XADD", "|XADD", " TS.", "|TS.").Replace(text), "|")...)
				}
				send(tt.before)
				o.step = func(s stage.Stage) {
					if s == stage.Log {
						send(tt.meanwhile)
					}
				}
				r := slotOf("foo")
				require.NoError(t, o.migrate(d, r))
				compare(t, o.db, d.db, r, true)
			})
		}
	}
}

// A destination without keys takes over the order in which BITFIELD of the source numbers bits. One with keys keeps its
// own.
func TestBitOrder(t *testing.T) {
	var kvrocks batch.Builder
	kvrocks.Delete(cf.Propagate, []byte(cf.PropagateBitOrder))
	asKvrocks := func(n *node) { // as a database that Kvrocks has made
		if rep := n.do("APPLYBATCH", string(kvrocks.Bytes())); rep[0] == '-' {
			t.Fatal(rep)
		}
	}
	for _, tt := range []struct {
		name   string
		before func(o, d *node)
		want   int // BITFIELD {foo}b GET u8 0 of the destination
	}{
		{"both are new", func(_, d *node) {}, 1},
		{"the source is Kvrocks's", func(o, _ *node) { asKvrocks(o) }, 128},
		{"the destination was Kvrocks's", func(_, d *node) { asKvrocks(d); d.ok("SET {bar}k v", "FLUSHALL") }, 1},
		{"the destination is Kvrocks's", func(_, d *node) { asKvrocks(d); d.ok("SET {bar}k v") }, 128},
	} {
		for i, way := range []string{"commands", "batches", "table files"} {
			t.Run(tt.name+"/"+way, func(t *testing.T) {
				start := startOrigin
				if i == 2 {
					start = startFilesOrigin
				}
				o, d := start(t), startDestination(t)
				o.settings.Raw = i > 0
				tt.before(o.node, d.node)
				o.ok("SETBIT {foo}b 7 1")
				require.NoError(t, o.migrate(d, slotOf("foo")))
				if got, want := d.do("BITFIELD", "{foo}b", "GET", "u8", "0"), fmt.Sprintf("*1\r\n:%d\r\n", tt.want); got != want {
					t.Errorf("%q, want %q", got, want)
				}
			})
		}
	}
}

// checkCount compares DBSIZE with the number of keys.
func checkCount(t testing.TB, n *node) {
	t.Helper()
	keys := contents(t, n.db, cf.SlotRange{Last: cf.NumSlots - 1}, false)
	if got, want := n.do("DBSIZE"), fmt.Sprintf(":%d\r\n", len(keys)); got != want {
		t.Errorf("DBSIZE: %q, there are %d keys", got, len(keys))
	}
}

// Without APPLYBATCH commands send what they can, and anything else ends the migration.
func TestCommandsOnly(t *testing.T) {
	o, d := startOrigin(t), startDestination(t)
	d.hide = map[string]bool{"applybatch": true}
	w := &writer{client: o.client, rng: rand.New(rand.NewPCG(3, 5)), tags: testTags}
	carried := []string{"str", "hash", "list", "set", "zset", "bit", "int", "plainstream", "any"}
	w.write(3000, carried...)
	o.step = func(s stage.Stage) {
		if s == stage.Log || s == stage.Forbidden {
			w.write(2000, carried...)
		}
	}
	r := slotOf("foo")
	require.NoError(t, o.migrate(d, r))
	for _, key := range []string{"{foo}bit0", "{foo}plainstream0", "{foo}plainstream1"} {
		for _, cmd := range []string{"BITCOUNT K", "XINFO STREAM K", "XRANGE K - +", "PEXPIRETIME K"} {
			args := strings.Fields(strings.ReplaceAll(cmd, "K", key))
			if a, b := o.do(args...), d.do(args...); a != b {
				t.Errorf("%q: the source answers %q, the destination %q", args, a, b)
			}
		}
	}
	for name, what := range contents(t, o.db, r, false) {
		if strings.HasPrefix(what, "stream ") || strings.HasPrefix(what, "bitmap ") { // RENAME gives them other names too
			o.do("DEL", name)
			d.do("DEL", name)
		}
	}
	compare(t, o.db, d.db, r, false)
	for _, line := range []string{"BF.ADD {bar}k v", "JSON.SET {bar}k $ 1", "PFADD {bar}k v", "TDIGEST.CREATE {bar}k",
		"XGROUP CREATE {bar}k g 0 MKSTREAM"} {
		o.step = func(stage.Stage) {}
		o.ok("FLUSHALL", line)
		if err := o.migrate(d, slotOf("bar")); err == nil {
			t.Errorf("%s: the key was left out", line)
		}
		if n := len(contents(t, d.db, slotOf("bar"), false)); n != 0 {
			t.Errorf("%s: the destination has kept %d keys", line, n)
		}
	}
}
