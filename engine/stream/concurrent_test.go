package stream_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/enginetest"
	"github.com/basaltdb/basalt/engine/stream"
)

// TestConcurrent lets some add entries and consumers of two groups read and acknowledge them, while others go over
// the stream: each group hands out every entry exactly once, and no reader sees entries other than the metadata's.
func TestConcurrent(t *testing.T) {
	db := enginetest.Open(t)
	const producers, each, perGroup = 3, 200, 3
	groups := []string{"g", "h"}
	update(t, db, func(tx *engine.Tx) error {
		for _, g := range groups {
			if err := stream.CreateGroup(tx, key, []byte(g), stream.GroupStart{}, true); err != nil {
				return err
			}
		}
		return nil
	})
	keys := [][]byte{key}
	var adding, reading sync.WaitGroup
	var added atomic.Bool
	for p := range producers {
		adding.Go(func() {
			for i := range each {
				err := db.Update(ns, keys, func(tx *engine.Tx) error {
					_, _, err := stream.Add(tx, key, raw("id", fmt.Sprintf("%d:%d", p, i)),
						&stream.AddOptions{NewID: stream.NewID{Auto: stream.AutoID}})
					return err
				})
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	var mu sync.Mutex
	got := map[string]int{}
	for _, name := range groups {
		for c := range perGroup {
			reading.Go(func() {
				for {
					last := added.Load() // once all are added, nothing new is the end
					var ids []stream.ID
					var values []string
					err := db.Update(ns, keys, func(tx *engine.Tx) error {
						g, err := stream.OpenGroup(tx, key, []byte(name))
						if err != nil {
							return err
						}
						return readNew(g, string(rune('a'+c)), 3, false, func(e *stream.Entry) {
							ids = append(ids, e.ID)
							e.Next()
							v, _ := e.Next()
							values = append(values, name+string(v))
						})
					})
					if err == nil && len(ids) > 0 {
						err = db.Update(ns, keys, func(tx *engine.Tx) error {
							n, err := stream.Ack(tx, key, []byte(name), ids)
							if err == nil && n != uint64(len(ids)) {
								err = fmt.Errorf("%d of %d acknowledged", n, len(ids))
							}
							return err
						})
					}
					if err != nil {
						t.Error(err)
						return
					}
					mu.Lock()
					for _, v := range values {
						got[v]++
					}
					mu.Unlock()
					if len(ids) == 0 && last {
						return
					}
				}
			})
		}
	}
	reading.Go(func() {
		for !added.Load() {
			err := db.View(ns, keys, func(tx *engine.Tx) error {
				i, _, err := stream.About(tx, key)
				if err != nil {
					return err
				}
				n, last := uint64(0), stream.ID{}
				err = stream.Range(tx, key, stream.RangeOptions{To: stream.MaxID}, func(e *stream.Entry) {
					if e.ID.Compare(last) <= 0 {
						t.Errorf("%s after %s", text(e.ID), text(last))
					}
					last = e.ID
					n++
				})
				if err == nil && (n != i.Length || last != i.Last) {
					err = fmt.Errorf("%d entries up to %s, the metadata says %+v", n, text(last), i)
				}
				return err
			})
			if err != nil {
				t.Error(err)
				return
			}
		}
	})
	adding.Wait()
	added.Store(true)
	reading.Wait()
	if want := producers * each * len(groups); len(got) != want {
		t.Errorf("%d entries were handed out, want %d", len(got), want)
	}
	for v, n := range got {
		if n != 1 {
			t.Errorf("%s was handed out %d times", v, n)
		}
	}
	view(t, db, func(tx *engine.Tx) error {
		list, err := stream.Groups(tx, key)
		for _, g := range list {
			if g.Pending != 0 || g.Lag != 0 || !g.LagKnown || g.EntriesRead != producers*each {
				t.Errorf("%+v", g)
			}
		}
		return err
	})
}

// TestConcurrentTrim lets some add entries to a stream of limited length, others trim it and delete from it: there are
// never more than allowed, and the ends are always those of the metadata.
func TestConcurrentTrim(t *testing.T) {
	db := enginetest.Open(t)
	keys := [][]byte{key}
	const limit = 50
	var all sync.WaitGroup
	run := func(f func(tx *engine.Tx, i int) error) {
		all.Go(func() {
			for i := range 300 {
				if err := db.Update(ns, keys, func(tx *engine.Tx) error { return f(tx, i) }); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for range 2 {
		run(func(tx *engine.Tx, i int) error {
			_, _, err := stream.Add(tx, key, raw("f", "v"),
				&stream.AddOptions{NewID: stream.NewID{Auto: stream.AutoID},
					Trim: stream.Trim{By: stream.TrimMaxLen, MaxLen: limit}})
			return err
		})
	}
	run(func(tx *engine.Tx, i int) error {
		_, err := stream.TrimOld(tx, key, &stream.Trim{By: stream.TrimMaxLen, MaxLen: uint64(limit - i%7)})
		return err
	})
	run(func(tx *engine.Tx, i int) error { // one of the first ten
		var ids []stream.ID
		err := stream.Range(tx, key, stream.RangeOptions{To: stream.MaxID, Count: 10},
			func(e *stream.Entry) { ids = append(ids, e.ID) })
		if err != nil || len(ids) == 0 {
			return err
		}
		_, err = stream.Delete(tx, key, ids[i%len(ids):][:1])
		return err
	})
	run(func(tx *engine.Tx, _ int) error {
		i, _, err := stream.About(tx, key)
		if err != nil {
			return err
		}
		var ids []stream.ID
		err = stream.Range(tx, key, stream.RangeOptions{To: stream.MaxID}, func(e *stream.Entry) { ids = append(ids, e.ID) })
		if n := len(ids); err == nil && (n > limit || uint64(n) != i.Length || n > 0 &&
			(ids[0] != i.First || ids[n-1] != i.Last)) {
			err = fmt.Errorf("%s, the metadata says %+v", text(ids...), i)
		}
		return err
	})
	all.Wait()
}
