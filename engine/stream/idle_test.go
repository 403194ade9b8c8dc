package stream_test

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/enginetest"
	"github.com/basaltdb/basalt/engine/stream"
)

// idleStep does a step of the tests below to the group g and returns what it says. Each step has a time, in
// milliseconds since the beginning.
func idleStep(t *testing.T, db *engine.DB, clock int64, step string) (said string) {
	t.Helper()
	var got []string
	w := strings.Fields(step)
	number := func(i int) int64 {
		n, err := strconv.ParseInt(w[i], 10, 64)
		if err != nil {
			t.Fatalf("%q: %v", step, err)
		}
		return n
	}
	update(t, db, func(tx *engine.Tx) error {
		tx.Tick(clock)
		switch w[0] {
		case "trim":
			_, err := stream.TrimOld(tx, key, &stream.Trim{By: stream.TrimMaxLen, MaxLen: uint64(number(1))})
			return err
		case "setid":
			return stream.SetID(tx, key, id(t, w[1]), stream.SetIDOptions{})
		case "add":
			for _, word := range w[1:] {
				o := stream.AddOptions{NewID: stream.NewID{ID: id(t, word)}}
				if _, _, err := stream.Add(tx, key, raw("f", "v"), &o); err != nil {
					return err
				}
			}
			return nil
		case "delete":
			_, err := stream.Delete(tx, key, ids(t, strings.Join(w[1:], " ")))
			return err
		case "ack":
			_, err := stream.Ack(tx, key, []byte("g"), ids(t, strings.Join(w[1:], " ")))
			return err
		case "group":
			return stream.CreateGroup(tx, key, []byte("g"), stream.GroupStart{}, true)
		}
		g, err := stream.OpenGroup(tx, key, []byte("g"))
		if err != nil {
			return err
		}
		switch w[0] {
		case "read": // consumer count
			return readNew(g, w[1], uint64(number(2)), false, func(e *stream.Entry) { got = append(got, text(e.ID)) })
		case "again": // consumer
			return g.History([]byte(w[1]), stream.ID{}, 0, func(stream.ID, *stream.Entry) bool { return true })
		case "destroy":
			return g.Destroy()
		case "give": // consumer id milliseconds ago
			o := stream.ClaimOptions{Deliveries: -1, JustID: true, Delivered: uint64(tx.Clock() - number(3))}
			return g.Claim([]byte(w[1]), ids(t, w[2]), &o, func(stream.ID, *stream.Entry) {})
		case "nack":
			_, err := g.Nack(ids(t, strings.Join(w[1:], " ")), stream.Fail, false)
			return err
		case "next": // min-idle-time
			idle, err := g.HasIdle(number(1))
			ms, known := g.NextIdle(number(1))
			got = append(got, fmt.Sprint(idle, " ", ms, " ", known))
			return err
		case "idle": // consumer min-idle-time count
			o := stream.ReadOptions{Claim: true, MinIdle: number(2), Count: uint64(number(3))}
			_, err := g.Read([]byte(w[1]), &o, func() {}, func(e *stream.Entry, d stream.Delivered) bool {
				got = append(got, fmt.Sprint(text(e.ID), ":", min(d.Idle, 9999), ":", d.Times))
				return true
			})
			return err
		}
		t.Fatalf("no step %q", step)
		return nil
	})
	return strings.Join(got, " ")
}

// TestIdle claims entries that have been pending for long: what the group remembers of them must agree with what has
// happened since.
func TestIdle(t *testing.T) {
	type step struct {
		at         int64
		what, want string
	}
	five := step{0, "add 1 2 3 4 5", ""}
	delivered := []step{five, {0, "read a 5", "1-0 2-0 3-0 4-0 5-0"}}
	for _, tt := range []struct {
		name  string
		steps []step
	}{
		{"one after the other", append(delivered, []step{
			{49, "idle b 50 1", ""}, {50, "idle b 50 1", "1-0:50:1"}, {51, "idle b 50 2", "2-0:51:1 3-0:51:1"},
			{52, "idle b 50 0", "4-0:52:1 5-0:52:1"}, {53, "idle b 50 0", ""}, {99, "idle c 50 0", ""},
			{101, "idle c 50 0", "1-0:51:2 2-0:50:2 3-0:50:2"}}...)},
		{"others with other times", append(delivered, []step{
			{50, "idle b 20 2", "1-0:50:1 2-0:50:1"}, {60, "idle c 100 1", ""}, {60, "idle c 10 0",
				"3-0:60:1 4-0:60:1 5-0:60:1 1-0:10:2 2-0:10:2"}, {60, "idle c 0 1", "1-0:0:3"}, {60, "idle c 0 0",
				"1-0:0:4 2-0:0:3 3-0:0:2 4-0:0:2 5-0:0:2"}}...)},
		{"delivered again meanwhile", append(delivered, []step{
			{100, "idle b 50 1", "1-0:100:1"}, {100, "give c 2-0 0", ""}, {100, "idle b 50 1", "3-0:100:1"},
			{101, "again a", ""}, {101, "idle b 50 0", ""}, {150, "idle b 50 0", "1-0:50:2 2-0:50:1 3-0:50:2"}}...)},
		{"acknowledged and deleted meanwhile", append(delivered, []step{
			{100, "idle b 50 1", "1-0:100:1"}, {100, "ack 2-0", ""}, {100, "delete 3-0", ""},
			{100, "idle b 50 1", "4-0:100:1"}, {100, "idle b 50 1", "5-0:100:1"}, {100, "idle b 50 1", ""}}...)},
		{"dated back", append(delivered, []step{
			{10, "idle b 50 1", ""}, {10, "give c 4-0 60", ""}, {10, "idle b 50 1", "4-0:60:1"},
			{100, "idle b 80 1", "1-0:100:1"}, {100, "give c 5-0 300", ""}, {100, "give c 5-0 200", ""},
			{100, "idle b 80 2", "5-0:200:1 2-0:100:1"}, {100, "idle b 80 0", "3-0:100:1 4-0:90:2"}}...)},
		{"given back", append(delivered, []step{
			{10, "nack 3-0 1-0", ""}, {10, "idle b 9000 1", "3-0:9999:1"}, {11, "nack 3-0", ""},
			{11, "idle b 5 0", "1-0:9999:1 3-0:9999:2 2-0:11:1 4-0:11:1 5-0:11:1"}, {11, "idle b 5 0", ""}}...)},
		{"times that do not exist", append(delivered, []step{
			{10, "nack 1-0", ""}, {10, "idle b 9223372036854775807 0", ""}, {10, "next 9223372036854775807",
				"false 9223372036854775807 false"}}...)},
		{"the group is made anew", append(delivered, []step{
			{100, "idle b 50 1", "1-0:100:1"}, {100, "destroy", ""}, {100, "group", ""}, {100, "idle b 50 2", "1-0:0:0 2-0:0:0"},
			{100, "read a 1", "3-0"}, {149, "next 50", "false 1 true"}, {150, "idle b 50 0",
				"1-0:50:1 2-0:50:1 3-0:50:1 4-0:0:0 5-0:0:0"}}...)},
		{"a trimmed entry comes again", append(delivered, []step{
			{0, "trim 0", ""}, {60, "idle b 50 0", ""}, {60, "setid 1-0", ""}, {60, "add 2", ""},
			{60, "ack 1-0 3-0 4-0 5-0", ""}, {60, "idle b 50 0", "2-0:60:1"}}...)},
		{"the next one", []step{
			five, {0, "next 50", "false 50 false"}, {0, "read a 1", "1-0"}, {1, "next 50", "false 49 true"},
			{5, "read a 1", "2-0"}, {10, "next 50", "false 40 true"}, {50, "next 50", "true 1 true"},
			{50, "idle b 50 1", "1-0:50:1"}, {50, "next 50", "false 5 true"}, {54, "next 50", "false 1 true"},
			{60, "delete 1-0 2-0", ""}, {200, "next 50", "false 50 false"}, {240, "next 50", "false 10 true"},
			{250, "next 50", "false 50 false"}, {250, "nack 2-0", ""}, {250, "next 0", "false 1 false"},
			{260, "read a 1", "3-0"}, {260, "next 0", "true 1 false"}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			db := enginetest.Open(t)
			start := time.Now().Add(time.Hour).UnixMilli()
			idleStep(t, db, start, "group")
			for _, s := range tt.steps {
				if got := idleStep(t, db, start+s.at, s.what); got != s.want {
					t.Errorf("%d %s: %q, want %q", s.at, s.what, got, s.want)
				}
			}
		})
	}
}

// TestIdleScans: the pending entries are read once for many claims, and not while none can be idle.
func TestIdleScans(t *testing.T) {
	db := enginetest.Open(t)
	const entries = 300
	start := time.Now().Add(time.Hour).UnixMilli()
	idleStep(t, db, start, "group")
	for i := range entries {
		idleStep(t, db, start, fmt.Sprint("add ", i+1))
	}
	idleStep(t, db, start, "read a 0")
	seeks := func() int {
		m := regexp.MustCompile(`rocksdb\.number\.db\.seek COUNT : (\d+)`).FindStringSubmatch(db.Statistics())
		if m == nil {
			t.Fatal("RocksDB counts no seeks")
		}
		n, _ := strconv.Atoi(m[1])
		return n
	}
	before := seeks()
	for i := range entries {
		if got := idleStep(t, db, start+10, "idle b 20 1"); got != "" {
			t.Fatalf("%s is idle", got)
		}
		if got, want := idleStep(t, db, start+100, "idle b 50 1"), fmt.Sprintf("%d-0:100:1", i+1); got != want {
			t.Fatalf("%s, want %s", got, want)
		}
	}
	if n := seeks() - before; n > 4 {
		t.Errorf("%d seeks", n)
	}
}
