package offline_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/enginetest"
	"github.com/basaltdb/basalt/engine/hash"
	"github.com/basaltdb/basalt/engine/keys"
	"github.com/basaltdb/basalt/engine/offline"
	"github.com/basaltdb/basalt/engine/str"
	"github.com/basaltdb/basalt/internal/fixture"
	"github.com/basaltdb/basalt/internal/require"
)

// live returns all live records of a namespace in the plain form, as text.
func live(t *testing.T, dir, ns string, slots bool) string {
	t.Helper()
	var b strings.Builder
	db := enginetest.OpenPlain(t, engine.Options{Dir: dir, Slots: slots})
	defer db.Close()
	require.NoError(t, db.View(ns, nil, func(tx *engine.Tx) error {
		var found [][2][]byte
		meta := tx.Iter(cf.Metadata, engine.IterOptions{Prefix: cf.AppendNSPrefix(nil, ns)})
		for meta.Next() {
			name := meta.Key()
			if slots {
				name = name[2:]
			}
			found = append(found, [2][]byte{append([]byte(nil), name...), append([]byte(nil), meta.Value()...)})
		}
		meta.Close()
		all := map[string]string{}
		var names []string
		for _, f := range found {
			m, _, err := cf.DecodeMeta(f[1])
			if err != nil {
				return err
			}
			if !m.Live(0) {
				continue
			}
			text := fmt.Sprintf("%x", f[1])
			nsKey := cf.AppendNSKey(nil, ns, f[0], slots)
			for _, id := range []cf.ID{cf.Default, cf.ZSetScore, cf.Stream} {
				if m.Type.SingleRecord() {
					break
				}
				it := tx.Iter(id, engine.IterOptions{Prefix: cf.AppendSubkeyPrefix(nil, nsKey, slots, m.Version)})
				for it.Next() {
					text += fmt.Sprintf("\n  %s %x = %x", id, it.Key(), it.Value())
				}
				it.Close()
			}
			all[string(f[0])] = text
			names = append(names, string(f[0]))
		}
		slices.Sort(names)
		for _, n := range names {
			fmt.Fprintf(&b, "%q %s\n", n, all[n])
		}
		return nil
	}))
	return b.String()
}

// A database of Kvrocks becomes one of a cluster and comes back.
func TestReslotThereAndBack(t *testing.T) {
	dir := t.TempDir()
	fixture.Unpack(t, dir)
	from := dir + "/db"
	ctx := context.Background()
	var o offline.ReslotOptions
	o.From, o.To, o.Slots = from, dir+"/slots", true
	if _, err := offline.Reslot(ctx, o); err == nil || !strings.Contains(err.Error(), "other namespaces") {
		t.Fatalf("with namespaces: %v", err)
	}
	o.Namespace = cf.DefaultNamespace
	r, err := offline.Reslot(ctx, o)
	if err != nil || r.Verified != r.Records && r.Verified == 0 {
		t.Fatalf("%+v, %v", r, err)
	}
	want := live(t, from, cf.DefaultNamespace, false)
	if len(want) < 1000 {
		t.Fatalf("the fixture holds little: %s", want)
	}
	if got := live(t, o.To, cf.DefaultNamespace, true); got != want {
		t.Error("the database with slots holds something else")
	}
	if _, err := offline.Reslot(ctx, o); err == nil {
		t.Error("a database was written over")
	}
	back := offline.ReslotOptions{From: o.To, To: dir + "/back"}
	if _, err := offline.Reslot(ctx, back); err != nil {
		t.Fatal(err)
	}
	if got := live(t, back.To, cf.DefaultNamespace, false); got != want {
		t.Error("what came back is something else")
	}
	back.Merge = true
	if _, err := offline.Reslot(ctx, back); err == nil || !strings.Contains(err.Error(), "has the key") {
		t.Errorf("keys came together that there are twice: %v", err)
	}
	if _, err := offline.Reslot(ctx, offline.ReslotOptions{From: o.To, To: dir + "/x", Slots: true}); err == nil {
		t.Error("keys with slots got slots")
	}
}

// What was written since a conversion follows.
func TestReslotOn(t *testing.T) {
	dir := t.TempDir()
	set := func(db *engine.DB, key, value string) {
		enginetest.Update(t, db, enginetest.Bytes(key), func(tx *engine.Tx) error {
			_, err := str.Set(tx, []byte(key), []byte(value), str.SetOptions{})
			return err
		})
	}
	hset := func(db *engine.DB, key string, pairs ...string) {
		enginetest.Update(t, db, enginetest.Bytes(key), func(tx *engine.Tx) error {
			_, err := hash.Set(tx, []byte(key), enginetest.Bytes(pairs...))
			return err
		})
	}
	open := func() *engine.DB {
		db := enginetest.OpenPlain(t, engine.Options{Dir: dir + "/db"})
		return db
	}
	db := open()
	set(db, "a", "1")
	set(db, "b", "1")
	hset(db, "h", "x", "1")
	require.NoError(t, db.Checkpoint(dir+"/backup"))
	var o offline.ReslotOptions
	o.From, o.To, o.Slots = dir+"/backup", dir+"/slots", true
	if _, err := offline.Reslot(context.Background(), o); err != nil {
		t.Fatal(err)
	}
	set(db, "a", "2")
	hset(db, "h", "y", "2")
	hset(db, "n", "z", "3")
	enginetest.Update(t, db, enginetest.Bytes("b"), func(tx *engine.Tx) error {
		_, err := keys.Del(tx, []byte("b"))
		return err
	})
	o.From = dir + "/db"
	if _, err := offline.ReslotOn(context.Background(), o); err == nil {
		t.Error("a database was converted that is in use")
	}
	for flushed := range 2 {
		if flushed == 1 {
			db = open()
			require.NoError(t, db.FlushAll())
			set(db, "last", "1")
		}
		require.NoError(t, db.Close())
		r, err := offline.ReslotOn(context.Background(), o)
		if err != nil || r.Records == 0 || r.Verified == 0 {
			t.Fatalf("%+v, %v", r, err)
		}
		if got, want := live(t, o.To, cf.DefaultNamespace, true), live(t, o.From, cf.DefaultNamespace, false); got != want {
			t.Errorf("got\n%s\nwant\n%s", got, want)
		}
	}
	other := t.TempDir() + "/other"
	fresh := enginetest.OpenPlain(t, engine.Options{Dir: other})
	fresh.Close()
	o.From = other
	if _, err := offline.ReslotOn(context.Background(), o); err == nil {
		t.Error("another database was taken for the one that was converted")
	}
}
