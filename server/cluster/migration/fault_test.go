package migration_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/enginetest"
	"github.com/basaltdb/basalt/internal/require"
	"github.com/basaltdb/basalt/server/cluster/migration/carry"
	"github.com/basaltdb/basalt/server/cluster/migration/destination"
	"github.com/basaltdb/basalt/server/cluster/migration/source"
	"github.com/basaltdb/basalt/server/cluster/migration/stage"
)

// failed checks that a failed migration has left keys only at the source.
func failed(t *testing.T, o *origin, d *sink, r cf.SlotRange, err error, before map[string]string) {
	t.Helper()
	if err == nil {
		t.Fatal("the migration has not failed")
	}
	if st := o.src.Status(); st.State != source.StateFailed {
		t.Errorf("%+v", st)
	}
	if !o.slots.has("", r.First) {
		t.Error("the source does not serve the slots as before")
	}
	if !d.slots.has("", r.First) {
		t.Error("the destination serves the slots")
	}
	if n := len(contents(t, d.db, r, false)); n != 0 {
		t.Errorf("the destination has kept %d keys", n)
	}
	checkCount(t, d.node)
	if before != nil {
		for k, v := range contents(t, o.db, r, true) {
			if before[k] != v {
				t.Errorf("key %q has changed at the source", k)
			}
		}
	}
}

// The connection is cut at each command in turn, before it runs and after it. Each time the source keeps the slots, the
// destination deletes them, and the next migration moves all keys.
func TestCutEverywhere(t *testing.T) {
	for _, raw := range []bool{true, false} {
		t.Run(fmt.Sprintf("raw=%v", raw), func(t *testing.T) {
			o, d := startOrigin(t), startDestination(t)
			o.settings.Raw = raw
			o.settings.BatchBytes = 2 << 10
			w := &writer{client: o.client, rng: rand.New(rand.NewPCG(8, 5)), tags: []string{"foo"}}
			w.write(200)
			r := slotOf("foo")
			o.step = func(s stage.Stage) {
				if s == stage.Log || s == stage.Forbidden {
					w.write(20)
				}
			}
			done := false
			for cut := 0; !done; cut += 1 + cut/8 {
				for _, after := range []bool{false, true} {
					n := -1 // AUTH is not sent
					var at []string
					d.hear = func(cmd []string) bool {
						if n++; n == cut {
							at = cmd
						}
						return n != cut || after
					}
					d.deaf = func([]string) bool { return after && n == cut }
					err := o.migrate(d, r)
					d.idle()
					// When the reply to IMPORT 1 is lost, the source repeats the command and gets the reply. IMPORT 65
					// is optional: without it the destination asks the source.
					ended := len(at) == 4 && (after && at[3] == "1" || at[3] == "65")
					if n < cut || ended {
						done = true
						require.NoError(t, err)
						compare(t, o.db, d.db, r, raw)
						break
					}
					failed(t, o, d, r, err, nil)
				}
			}
			if !d.slots.has("imported", r.First) {
				t.Error("nothing was migrated at last")
			}
		})
	}
}

func TestCancelled(t *testing.T) {
	for _, at := range []stage.Stage{stage.Start, stage.Snapshot, stage.Log,
		stage.Forbidden, stage.Rest} {
		for name, cancel := range map[string]func(o *origin){
			"cancelled": func(o *origin) {
				o.src.Cancel(context.Canceled, func(cf.SlotRange, string) bool { return true })
			},
			"flushed": func(o *origin) { o.ok("FLUSHALL") },
		} {
			t.Run(string(at)+"/"+name, func(t *testing.T) {
				o, d := startOrigin(t), startDestination(t)
				w := &writer{client: o.client, rng: rand.New(rand.NewPCG(8, 5)), tags: []string{"foo"}}
				w.write(300)
				o.step = func(s stage.Stage) {
					if s == at {
						cancel(o)
						w.write(50)
					}
				}
				err := o.migrate(d, slotOf("foo"))
				d.idle()
				failed(t, o, d, slotOf("foo"), err, nil)
			})
		}
	}
}

// A FLUSHALL of the destination deletes what has come, but not what comes later. So the source keeps the slots: it
// would delete the keys that the destination lacks.
func TestDestinationFlushed(t *testing.T) {
	for _, raw := range []bool{true, false} {
		for _, at := range []stage.Stage{stage.Log, stage.Forbidden, stage.Rest, stage.Success} {
			t.Run(fmt.Sprintf("raw=%v/%s", raw, at), func(t *testing.T) {
				o, d := startOrigin(t), startDestination(t)
				o.settings.Raw = raw
				o.ok("HSET {foo}h a 1 b 2", "SET {foo}a 1")
				o.step = func(s stage.Stage) {
					if s == at {
						d.ok("FLUSHALL")
					}
					if s == stage.Log {
						o.ok("HSET {foo}h c 3", "SET {foo}b 1")
					}
				}
				err := o.migrate(d, slotOf("foo"))
				d.idle()
				failed(t, o, d, slotOf("foo"), err, nil)
				o.step = func(stage.Stage) {}
				require.NoError(t, o.migrate(d, slotOf("foo")))
				compare(t, o.db, d.db, slotOf("foo"), raw)
			})
		}
	}
}

// A destination that was killed deletes the imported keys. A destination that had everything deletes them when the
// source, which has kept the slots, tells it to.
func TestDestinationKilled(t *testing.T) {
	for _, killed := range []string{"0", "APPLYBATCH", "1"} {
		t.Run(killed, func(t *testing.T) {
			o, d := startOrigin(t), startDestination(t)
			path := t.TempDir() + "/import"
			d.openImport(path)
			o.ok("SET {foo}a 1", "HSET {foo}h a 1 b 2", "ZADD {foo}z 1 a")
			d.ok("SET other 1")
			r := slotOf("foo")
			d.deaf = func(cmd []string) bool {
				if cmd[0] != killed && cmd[len(cmd)-1] != killed {
					return false
				}
				// The next process: its topology has kept the imported slots.
				d.openImport(path)
				return true
			}
			o.limits = source.StandardLimits // the answer never comes
			if err := o.migrate(d, r); err == nil {
				t.Fatal("the migration has not failed")
			}
			o.limits = patient
			d.idle()
			if n := len(contents(t, d.db, r, false)); n != 0 {
				t.Errorf("there are %d keys", n)
			}
			d.deaf = func([]string) bool { return false } // nobody is connected
			o.ok("DEL {foo}a", "HDEL {foo}h b")
			require.NoError(t, o.migrate(d, r))
			compare(t, o.db, d.db, r, true)
			if got := d.do("GET", "other"); got != "$1\r\n1\r\n" {
				t.Errorf("a key of another slot: %q", got)
			}
		})
	}
}

// An import that another connection begins again does not mix with the first one.
func TestBegunAgain(t *testing.T) {
	d := startDestination(t)
	a, b := dial(t, d.addr), dial(t, d.addr)
	a.ok("CLUSTER IMPORT 5-6 0", "CLUSTER IMPORT 5-6 0")
	if got := b.do("CLUSTER", "IMPORT", "7",
		"0"); got != "-ERR ERR only one importing job is allowed, current importing: 5-6\r\n" &&
		!strings.Contains(got, "only one importing job is allowed, current importing: 5-6") {
		t.Errorf("%q", got)
	}
	b.ok("CLUSTER IMPORT 5-6 0")
	if _, err := a.Read(make([]byte, 1)); err == nil {
		t.Error("the first connection lives")
	}
	if got := b.do("CLUSTER", "IMPORT", "5", "1"); !strings.Contains(got,
		"mismatch slot, importing slot(s): 5-6, but got: 5") {
		t.Errorf("%q", got)
	}
	b.ok("CLUSTER IMPORT 5-6 1")
	if _, state := d.imp.Load().Status(); state != destination.Success || !d.slots.has("imported", 6) {
		t.Error("the slots were not imported")
	}
}

// lateClock is ahead of the real time; its Sleep does not wait.
type lateClock struct{ ahead, slept atomic.Int64 }

func (c *lateClock) Now() time.Time { return time.Now().Add(time.Duration(c.ahead.Load())) }

func (c *lateClock) Sleep(ctx context.Context, d time.Duration) error {
	if d > 0 {
		c.ahead.Add(int64(d))
		c.slept.Add(int64(d))
	}
	return ctx.Err()
}

// A collection expires at the destination, which drops its elements, after its expiry was removed at the source: the
// destination gets them again.
func TestPersistedInTime(t *testing.T) {
	for _, raw := range []bool{true, false} {
		for _, cmd := range []string{"PERSIST K", "PEXPIREAT K 4102444800000"} {
			t.Run(fmt.Sprintf("raw=%v/%s", raw, cmd), func(t *testing.T) {
				clock := &lateClock{}
				o, d := startOriginAt(t, clock), startDestination(t)
				o.settings.Raw = raw
				keys := []string{"{foo}hash", "{foo}list", "{foo}bloom", "{foo}zset", "{foo}str"}
				o.ok("HSET {foo}hash a 1", "RPUSH {foo}list a b", "BF.ADD {foo}bloom a", "ZADD {foo}zset 1 a", "SET {foo}str a")
				for _, k := range keys {
					o.ok("EXPIRE " + k + " 100")
				}
				r := slotOf("foo")
				o.step = func(s stage.Stage) {
					if s != stage.Log {
						return
					}
					for _, k := range keys {
						o.ok(strings.ReplaceAll(cmd, "K", k))
					}
					clock.ahead.Store(int64(200 * time.Second))
					dropElements(t, d.db, r)
				}
				require.NoError(t, o.migrate(d, r))
				compare(t, o.db, d.db, r, raw)
			})
		}
	}
}

// dropElements deletes the elements of all collections, as a compaction does that finds them expired.
func dropElements(t *testing.T, db *engine.DB, r cf.SlotRange) {
	lower, upper := engine.SlotBounds(r)
	enginetest.Update(t, db, nil, func(tx *engine.Tx) error {
		for _, id := range []cf.ID{cf.Default, cf.ZSetScore, cf.Stream} {
			tx.DeleteRange(id, lower, upper)
		}
		return nil
	})
}

// The configured rates are kept.
func TestRates(t *testing.T) {
	for _, tt := range []struct {
		name     string
		raw      bool
		settings carry.Settings
		min, max time.Duration
	}{
		{"commands", false, carry.Settings{Speed: 100, Pipeline: 10, BatchBytes: 1 << 20}, 9 * time.Second, 10 * time.Second},
		{"commands at once", false, carry.Settings{Pipeline: 10, BatchBytes: 1 << 20}, 0, 0},
		{"bytes", true, carry.Settings{BatchBytes: 1 << 10, BatchRate: 10 << 10, Pipeline: 1}, 100 * time.Second,
			110 * time.Second},
		{"bytes at once", true, carry.Settings{BatchBytes: 1 << 10, Pipeline: 1}, 0, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			clock := &lateClock{}
			o, d := startOriginAt(t, clock), startDestination(t)
			o.settings = source.Settings{Settings: tt.settings, Raw: tt.raw, Gap: 1}
			for i := range 1000 {
				o.ok(fmt.Sprintf("SET {foo}%d %s", i, strings.Repeat("x", 1000)))
			}
			began := time.Now()
			require.NoError(t, o.migrate(d, slotOf("foo")))
			// Time spent working counts as time slept.
			if got := time.Duration(clock.slept.Load()); got+time.Since(began) < tt.min || got > tt.max {
				t.Errorf("slept %v, want %v to %v", got, tt.min, tt.max)
			}
		})
	}
}

func TestRefused(t *testing.T) {
	o, d := startOrigin(t), startDestination(t)
	var second error
	o.step = func(s stage.Stage) {
		if s == stage.Snapshot {
			second = o.src.Migrate(slotOf("bar"), source.Target{}, nil)
		}
	}
	require.NoError(t, o.migrate(d, slotOf("foo")))
	if second != source.ErrBusy {
		t.Errorf("a second migration: %v", second)
	}
	o.step = func(stage.Stage) {}
	addr := d.addr
	d.addr = "127.0.0.1:1"
	if err := o.migrate(d, slotOf("foo")); err == nil {
		t.Error("nobody listens, and the slots were migrated")
	}
	d.addr = addr
	o.src.Close()
	if err := o.migrate(d, slotOf("foo")); err == nil {
		t.Error("migrated after the end")
	}
}

// The pause of writes does not depend on a destination that hangs. If the destination hangs before it has everything,
// clients may write again and the end is tried once more. If it hangs when asked whether it has the slots, the slots
// stay.
func TestPauseIsBounded(t *testing.T) {
	for _, tt := range []struct {
		name string
		step stage.Stage // at which the destination does not answer any more
		ends int         // how often writes are forbidden
		ok   bool
	}{
		{"the rest", stage.Rest, 2, true},
		{"the end", stage.Success, 1, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o, d := startOrigin(t), startDestination(t)
			r := slotOf("foo")
			o.ok("SET {foo}a 1")
			var hangs atomic.Bool
			ends := 0
			o.step = func(s stage.Stage) {
				if s == stage.Forbidden {
					ends++
					o.ok(fmt.Sprintf("SET {foo}b %d", ends))
					// Only the limit of the step that hangs is short.
					o.limits = patient
					if ends == 1 && tt.step == stage.Rest {
						o.limits.Rest = source.StandardLimits.Rest
					}
				}
				if s == tt.step && ends == 1 {
					hangs.Store(true)
					o.limits.Answer = source.StandardLimits.Answer
				}
			}
			d.hear = func([]string) bool {
				if !hangs.Load() {
					return true
				}
				for deadline := time.Now().Add(time.Minute); o.slots.has("forbidden", r.First); time.Sleep(time.Millisecond) {
					if time.Now().After(deadline) {
						t.Error("writes are forbidden for a minute")
						break
					}
				}
				hangs.Store(false)
				return tt.ok
			}
			err := o.migrate(d, r)
			d.idle()
			if ends != tt.ends {
				t.Errorf("writes were forbidden %d times", ends)
			}
			if !tt.ok {
				failed(t, o, d, r, err, nil)
				return
			}
			require.NoError(t, err)
			compare(t, o.db, d.db, r, true)
		})
	}
}

// Commands of a connection that is older than the import of the slots are ignored: the network has delayed them.
func TestStale(t *testing.T) {
	d := startDestination(t)
	old, link := dial(t, d.addr), dial(t, d.addr)
	old.ok("PING")
	link.ok("PING", "CLUSTER IMPORT 5-6 0")
	stale := func() {
		t.Helper()
		for _, state := range []string{"0", "2"} {
			if got := old.do("CLUSTER", "IMPORT", "5-6", state); !strings.Contains(got, "a newer connection has begun") {
				t.Errorf("state %s: %q", state, got)
			}
		}
	}
	stale()
	link.ok("CLUSTER IMPORT 5-6 1")
	stale()
	if !d.slots.has("imported", 5) {
		t.Error("the slots were not imported")
	}
	link.ok("CLUSTER IMPORT 5-6 2")
	if d.slots.has("imported", 5) {
		t.Error("the slots are here after the end")
	}
}

// A source asks on a new connection about the result of an import.
func TestAsked(t *testing.T) {
	d := startDestination(t)
	ask := func() string { return dial(t, d.addr).do("CLUSTER", "IMPORT", "5-6", "1") }
	first := dial(t, d.addr)
	first.ok("CLUSTER IMPORT 5-6 0")
	for range 2 { // it has not ended: from now on it has failed
		if got := ask(); !strings.Contains(got, "the import of the slots has ended") {
			t.Errorf("%q", got)
		}
	}
	second := dial(t, d.addr)
	second.ok("CLUSTER IMPORT 5-6 0", "CLUSTER IMPORT 5-6 1")
	for range 2 {
		if got := ask(); got != "+OK\r\n" {
			t.Errorf("%q", got)
		}
	}
}
