package stream_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/enginetest"
	"github.com/basaltdb/basalt/engine/stream"
)

// TestRestore makes a stream with groups and goes on working with it.
func TestRestore(t *testing.T) {
	db := enginetest.Open(t)
	update(t, db, func(tx *engine.Tx) error {
		r, err := stream.Restore(tx, key)
		if err != nil {
			return err
		}
		for _, e := range ids(t, "5-1 5-3 9-0") {
			if err := r.Add(e, raw("f", text(e))); err != nil {
				return err
			}
		}
		r.Group([]byte("g"), id(t, "5-3"), 2, []stream.ConsumerInfo{{Name: []byte("alice"), Seen: 50, Active: 40,
			Pending: 77}, {Name: []byte("bob"), Seen: 60}},
			[]stream.Pending{{ID: id(t, "5-1"), Consumer: []byte("alice"), Delivered: 30, Deliveries: 4},
				{ID: id(t, "5-3"), Consumer: []byte("alice"), Delivered: 31, Deliveries: 1}})
		r.Group([]byte("empty"), id(t, "0-0"), stream.UnknownReads, nil, nil)
		return r.End(stream.State{LastGenerated: id(t, "9-5"), MaxDeleted: id(t, "5-2"), EntriesAdded: 7})
	})
	if got := entries(t, db); got != "5-1 5-3 9-0" {
		t.Errorf("entries %s", got)
	}
	view(t, db, func(tx *engine.Tx) error {
		about, _, err := stream.About(tx, key)
		if err != nil {
			return err
		}
		want := stream.Info{Length: 3, LastGenerated: id(t, "9-5"), MaxDeleted: id(t, "5-2"), EntriesAdded: 7,
			First: id(t, "5-1"), Last: id(t, "9-0"), Groups: 2}
		if about != want {
			t.Errorf("%+v, want %+v", about, want)
		}
		groups, err := stream.Groups(tx, key)
		if err != nil {
			return err
		}
		var lines []string
		for _, g := range groups {
			lines = append(lines, fmt.Sprintf("%s %d %d %s %d", g.Name, g.Consumers, g.Pending, text(g.LastDelivered),
				g.EntriesRead))
			consumers, err := g.Group.Consumers()
			if err != nil {
				return err
			}
			for _, c := range consumers {
				lines = append(lines, fmt.Sprintf("%s %d %d %d", c.Name, c.Pending, c.Seen, c.Active))
			}
			err = g.Group.Each(stream.PendingOptions{To: stream.MaxID}, func(p *stream.Pending) {
				lines = append(lines, fmt.Sprintf("%s %s %d %d", text(p.ID), p.Consumer, p.Delivered, p.Deliveries))
			})
			if err != nil {
				return err
			}
		}
		slices.Sort(lines)
		if got := strings.Join(lines,
			", "); got != "5-1 alice 30 4, 5-3 alice 31 1, alice 2 50 40, bob 0 60 0, empty 0 0 0-0 -1, g 2 2 5-3 2" {
			t.Error(got)
		}
		return nil
	})
	update(t, db, func(tx *engine.Tx) error {
		g, err := stream.OpenGroup(tx, key, []byte("g"))
		if err != nil {
			return err
		}
		var got []stream.ID
		if err := readNew(g, "bob", 0, false, func(e *stream.Entry) { got = append(got, e.ID) }); err != nil {
			return err
		}
		if text(got...) != "9-0" {
			t.Errorf("bob gets %s", text(got...))
		}
		acked, err := stream.Ack(tx, key, []byte("g"), ids(t, "5-1 5-3 9-0"))
		if acked != 3 {
			t.Errorf("%d acknowledged", acked)
		}
		return err
	})
	add(t, db, "9-6")
	if got := entries(t, db); got != "5-1 5-3 9-0 9-6" {
		t.Errorf("entries %s", got)
	}
}

// TestRestoreEmpty makes a stream that has lost all its entries.
func TestRestoreEmpty(t *testing.T) {
	db := enginetest.Open(t)
	update(t, db, func(tx *engine.Tx) error {
		r, err := stream.Restore(tx, key)
		if err != nil {
			return err
		}
		return r.End(stream.State{LastGenerated: id(t, "3-3"), EntriesAdded: 3})
	})
	view(t, db, func(tx *engine.Tx) error {
		about, found, err := stream.About(tx, key)
		if want := (stream.Info{LastGenerated: id(t, "3-3"), EntriesAdded: 3}); !found || about != want {
			t.Errorf("%v %+v", found, about)
		}
		return err
	})
}
