package engine_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/compaction"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/batch"
	"github.com/basaltdb/basalt/engine/enginetest"
	"github.com/basaltdb/basalt/engine/str"
	"github.com/basaltdb/basalt/internal/fixture"
	"github.com/basaltdb/basalt/internal/require"
)

// openReplica opens the database of a replica.
func openReplica(t testing.TB) *engine.DB {
	t.Helper()
	o := engine.DefaultRocksOptions()
	o.DisableAutoCompactions = true
	return enginetest.OpenWith(t, engine.Options{Dir: t.TempDir() + "/db", Replica: true, Rocks: o})
}

// applyUpdates applies batches of a master.
func applyUpdates(db *engine.DB, exact bool, reps ...[]byte) (int, error) {
	var updates []*engine.ExternalBatch
	for _, rep := range reps {
		b, err := db.CheckUpdate(rep)
		if err != nil {
			return 0, err
		}
		updates = append(updates, b)
	}
	return db.ApplyUpdates(updates, exact, nil, nil)
}

// masterBatch is a batch of a master with a sequence number.
func masterBatch(seq uint64, build func(b *batch.Builder)) []byte {
	var b batch.Builder
	build(&b)
	rep := bytes.Clone(b.Bytes())
	binary.LittleEndian.PutUint64(rep, seq)
	return rep
}

// TestApplyUpdates: the records of recorded streams of a master of Kvrocks are in the log of the replica afterwards
// byte by byte and with the same sequence numbers, however many batches are applied together. Messages and what changes
// the propagate family are batches of their own.
func TestApplyUpdates(t *testing.T) {
	for _, name := range []string{fixture.PlainReplication, fixture.RSIDReplication} {
		for _, group := range []int{1, 7, 1000} {
			r := fixture.LoadReplication(t, name)
			var reps [][]byte
			for _, b := range r.Startup {
				reps = append(reps, b.Rep)
			}
			for _, c := range r.Commands {
				for _, b := range c.Batches {
					reps = append(reps, b.Rep)
				}
			}
			db := openReplica(t)
			for part := range slices.Chunk(reps, group) {
				if n, err := applyUpdates(db, true, part...); n != len(part) || err != nil {
					t.Fatalf("%s: %d of %d, %v", name, n, len(part), err)
				}
			}
			u, err := db.UpdatesAfter(0, engine.UpdatesLimit{Batches: len(reps) + 1, Bytes: 1 << 30})
			if err != nil || group == 1 && !slices.EqualFunc(u.Batches, reps, bytes.Equal) {
				t.Errorf("%s: the log holds %d batches of %d, %v", name, len(u.Batches), len(reps), err)
			}
			want, alone := joined(t, reps)
			got, gotAlone := joined(t, u.Batches)
			if !bytes.Equal(got, want) || gotAlone != alone {
				t.Errorf("%s: by %d: the log holds other records, or %d instead of %d batches of their own", name, group,
					gotAlone, alone)
			}
			if last := reps[len(reps)-1]; u.Last != binary.LittleEndian.Uint64(last)+
				uint64(binary.LittleEndian.Uint32(last[8:]))-1 {
				t.Errorf("%s: by %d: the last sequence number is %d", name, group, u.Last)
			}
			keys, expires := scanCount(t, db, ns)
			wantCount(t, db, ns, keys, expires)
			if v, err := get(db, "after"); v != "flush" || err != nil {
				t.Errorf("%s: %q, %v", name, v, err)
			}
		}
	}
}

// joined returns the records of batches, one behind the other, and how many batches have messages or records of the
// propagate family and no others.
func joined(t *testing.T, reps [][]byte) (records []byte, alone int) {
	t.Helper()
	for _, rep := range reps {
		records = append(records, rep[batch.HeaderLen:]...)
		r, err := batch.NewReader(rep)
		require.NoError(t, err)
		special, others := 0, 0
		for rec, ok := r.Next(); ok; rec, ok = r.Next() {
			switch {
			case !rec.Kind.Counted():
			case rec.Family == cf.PubSub, rec.Family == cf.Propagate:
				special++
			default:
				others++
			}
		}
		if special > 0 && others == 0 {
			alone++
		}
	}
	return records, alone
}

// TestApplyUpdatesInOrder: a batch that does not follow is not written; those before it are.
func TestApplyUpdatesInOrder(t *testing.T) {
	db := openReplica(t)
	put := func(seq uint64, key string) []byte {
		return masterBatch(seq, func(b *batch.Builder) { b.Put(cf.Metadata, nsKey(ns, key), stringRecord("v", 0)) })
	}
	n, err := applyUpdates(db, true, put(1, "a"), put(2, "b"), put(4, "d"))
	if n != 2 || !errors.Is(err, engine.ErrSequence) {
		t.Errorf("%d, %v", n, err)
	}
	if n, err := applyUpdates(db, true, put(2, "b")); n != 0 || !errors.Is(err, engine.ErrSequence) {
		t.Errorf("%d, %v", n, err)
	}
	empty := masterBatch(3, func(b *batch.Builder) { b.LogData([]byte("r 0123456789ABCDEF")) })
	if n, err := applyUpdates(db, true, empty, put(3, "c")); n != 2 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	if n, err := applyUpdates(db, false, put(9, "d")); n != 1 || err != nil { // a replica that others write to
		t.Errorf("%d, %v", n, err)
	}
	if got := db.LatestSequence(); got != 4 {
		t.Errorf("sequence %d, want 4", got)
	}
	for _, key := range []string{"a", "b", "c", "d"} {
		mustGet(t, db, key, "v")
	}
	wantCount(t, db, ns, 4, 0)
}

// TestApplyUpdatesOfNewerVersion: what is not understood is written, unless RocksDB would fail after it was logged.
func TestApplyUpdatesOfNewerVersion(t *testing.T) {
	db := openReplica(t)
	put := masterBatch(1, func(b *batch.Builder) { b.Put(cf.Metadata, nsKey(ns, "k"), stringRecord("v", 0)) })
	for name, rep := range map[string][]byte{
		"a family that there is not": masterBatch(1, func(b *batch.Builder) { b.Put(9, []byte("k"), []byte("v")) }),
		"a range with a wrong order": masterBatch(1, func(b *batch.Builder) {
			b.DeleteRange(cf.Metadata, []byte("b"), []byte("a"))
		}),
		"cut off": put[:20],
	} {
		if _, err := applyUpdates(db, true, rep); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	strange := masterBatch(1, func(b *batch.Builder) {
		b.Put(cf.Metadata, []byte{200, 'x'}, []byte{0x8f})
		b.Put(cf.Metadata, nsKey(ns, "k"), stringRecord("v", 0))
		b.Put(cf.Default, []byte{200, 'x'}, nil)
	})
	if n, err := applyUpdates(db, true, strange); n != 1 || err != nil {
		t.Fatalf("%d, %v", n, err)
	}
	mustGet(t, db, "k", "v")
	if got := db.LatestSequence(); got != 3 {
		t.Errorf("sequence %d, want 3", got)
	}
}

// TestApplyUpdatesToNewerFamily: a replica creates the column family in which newer versions of Kvrocks index time
// series when its master writes to it, and preserves it.
func TestApplyUpdatesToNewerFamily(t *testing.T) {
	dir := t.TempDir() + "/db"
	o := engine.Options{Dir: dir, Replica: true}
	db := enginetest.OpenPlain(t, o)
	index := func(seq uint64, key string) []byte {
		return masterBatch(seq, func(b *batch.Builder) {
			b.Put(cf.Metadata, nsKey(ns, key), []byte{0x8d, 'n', 'e', 'w'}) // a time series
			b.Put(7, []byte(key), []byte("v"))
		})
	}
	if n, err := applyUpdates(db, true, index(1, "j"), index(3, "k")); n != 2 || err != nil {
		t.Fatalf("%d, %v", n, err)
	}
	if names := db.UnknownFamilies(); len(names) > 0 {
		t.Errorf("unknown families %q", names)
	}
	require.NoError(t, db.Close())
	db = enginetest.OpenPlain(t, o)
	if n, err := applyUpdates(db, true, index(5, "l")); n != 1 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	require.NoError(t, db.Close())
	if got := readNative(t, dir)["index"]; got != "v" {
		t.Errorf("the family holds %q", got)
	}
}

// TestReplicaAwaitsCommits: a commit without locks, such as that of a message, is written before SetReplica returns or
// not at all.
func TestReplicaAwaitsCommits(t *testing.T) {
	db := enginetest.Open(t)
	for range 20 {
		db.SetMaster()
		db.BeginHistory("JQP7CZ5WISUYWTN5")
		var all sync.WaitGroup
		begun := make(chan struct{}, 4)
		for range cap(begun) {
			all.Go(func() {
				for n := 0; ; n++ {
					err := db.Update(ns, nil, func(tx *engine.Tx) error {
						tx.Put(cf.PubSub, []byte("channel"), []byte("message"))
						return nil
					})
					if n == 0 {
						begun <- struct{}{}
					}
					if err != nil {
						if !errors.Is(err, engine.ErrReplica) {
							t.Error(err)
						}
						return
					}
				}
			})
		}
		<-begun
		var last uint64
		db.SetReplica(func(set func(bool)) { set(true) })
		last = db.LatestSequence()
		all.Wait()
		if got := db.LatestSequence(); got != last {
			t.Fatalf("%d writes of its own after it had become a replica", got-last)
		}
	}
}

// TestReplicaRefuses: nobody but the master writes to the database of a replica, and after its promotion everybody
// does.
func TestReplicaRefuses(t *testing.T) {
	db := openReplica(t)
	set := func() error {
		return db.Update(ns, keys("k"), func(tx *engine.Tx) error {
			_, err := str.Set(tx, []byte("k"), []byte("own"), str.SetOptions{})
			return err
		})
	}
	if err := set(); !errors.Is(err, engine.ErrReplica) {
		t.Errorf("a replica was written to: %v", err)
	}
	if _, err := db.DeleteExpired(ns, []byte("k"), nil, nil); err != nil { // there is nothing to delete
		t.Error(err)
	}
	db.SetReplica(func(set func(bool)) { set(false) })
	if err := set(); err != nil {
		t.Errorf("slave-read-only no: %v", err)
	}
	db.SetReplica(func(set func(bool)) { set(true) })
	if err := set(); !errors.Is(err, engine.ErrReplica) {
		t.Errorf("a replica was written to: %v", err)
	}
	db.SetMaster()
	if err := set(); err != nil {
		t.Errorf("a master: %v", err)
	}
}

// TestReplicaKeepsWhatTheMasterHas: compactions of a replica drop nothing that has expired by its own clock only.
// When the master then makes the key persistent, all of it is there.
func TestReplicaKeepsWhatTheMasterHas(t *testing.T) {
	const minute = 60_000
	db := openReplica(t)
	master := time.Now().UnixMilli() - 30*minute // its clock is behind
	expire := uint64(master + minute)            // 29 minutes ago, here
	version := uint64(master-minute) * 1000 << 11
	meta := func(expire uint64) []byte {
		m := cf.Meta{Type: cf.TypeHash, Expire: expire, Version: version, Size: 2}
		return m.Append(nil)
	}
	if _, err := applyUpdates(db, true, masterBatch(1, func(b *batch.Builder) {
		b.Put(cf.Default, subkey("h", version, "f"), []byte("v"))
		b.Put(cf.Default, subkey("h", version, "g"), []byte("w"))
		b.Put(cf.Metadata, nsKey(ns, "h"), meta(expire))
	}), masterBatch(4, func(b *batch.Builder) {
		b.Put(cf.Metadata, nsKey(ns, "s"), stringRecord("v", expire))
	})); err != nil {
		t.Fatal(err)
	}
	want := func(when string, metadata, subkeys int) {
		t.Helper()
		compact(t, db)
		if m, s := records(t, db, cf.Metadata), records(t, db, cf.Default); m != metadata || s != subkeys {
			t.Errorf("%s: %d metadata records and %d subkeys are left, want %d and %d", when, m, s, metadata, subkeys)
		}
	}
	want("the clocks are half an hour apart", 2, 2)
	if n, err := db.CompactExpired(1, time.Now().UnixMilli()); n != 0 || err != nil {
		t.Errorf("%d files were compacted in vain, %v", n, err)
	}
	db.MasterTime(master)
	want("before the expiry at the master", 2, 2)
	if _, err := applyUpdates(db, true, masterBatch(5, func(b *batch.Builder) { // PERSIST, just in time
		b.Put(cf.Metadata, nsKey(ns, "h"), meta(0))
	})); err != nil {
		t.Fatal(err)
	}
	db.MasterTime(master + 2*minute)
	want("the string has expired at the master", 1, 2)
	db.NewMaster()
	if _, err := applyUpdates(db, true, masterBatch(6, func(b *batch.Builder) {
		b.Put(cf.Metadata, nsKey(ns, "h"), meta(expire))
	})); err != nil {
		t.Fatal(err)
	}
	want("a new master has not told its time", 1, 2)
	db.SetMaster()
	want("promoted", 0, 0)
}

// TestMasterClockSteps: a master whose clock is ahead by mistake, or is set back, costs a replica no data.
func TestMasterClockSteps(t *testing.T) {
	const hour = 3600_000
	now := time.Now().UnixMilli()
	ahead := uint64(now+1000*hour) * 1000 << 11 // a version
	for _, tt := range []struct {
		name   string
		expire int64
		report func(db *engine.DB)
	}{
		{"a time ahead", now + hour, func(db *engine.DB) { db.MasterTime(now + 1000*hour) }},
		{"a version ahead", now + hour, func(db *engine.DB) {
			_, err := applyUpdates(db, true, masterBatch(3, func(b *batch.Builder) {
				b.Put(cf.Metadata, nsKey(ns, "s"), (&cf.Meta{Type: cf.TypeHash, Version: ahead, Size: 1}).Append(nil))
				b.Put(cf.Default, subkey("s", ahead, "f"), []byte("v"))
			}))
			require.NoError(t, err)
		}},
		{"set back", now - hour, func(db *engine.DB) {
			db.MasterTime(now - hour/10)
			db.MasterTime(now - 5*hour)
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			db := openReplica(t)
			version := uint64(now-10*hour) * 1000 << 11
			_, err := applyUpdates(db, true, masterBatch(1, func(b *batch.Builder) {
				m := cf.Meta{Type: cf.TypeHash, Expire: uint64(tt.expire), Version: version, Size: 1}
				b.Put(cf.Metadata, nsKey(ns, "h"), m.Append(nil))
				b.Put(cf.Default, subkey("h", version, "f"), []byte("v"))
			}))
			require.NoError(t, err)
			tt.report(db)
			before := records(t, db, cf.Default)
			compact(t, db)
			if got := records(t, db, cf.Default); got != before {
				t.Errorf("%d of %d fields are left", got, before)
			}
		})
	}
}

// TestReplicaKeepsFields is the same for fields of hashes.
func TestReplicaKeepsFields(t *testing.T) {
	now := time.Now().UnixMilli()
	const hour = 3600_000
	version := uint64(now) * 1000 << 11
	for _, tt := range []struct {
		clock  int64
		fields int
	}{
		{0, 3},
		{now - 2*hour, 3},
		{now - hour + compaction.Grace - 1, 3},
		{now - hour + compaction.Grace + 1, 2},
	} {
		t.Run(fmt.Sprint(tt.clock), func(t *testing.T) {
			db := openReplica(t)
			ttl := cf.HashTTL{Persist: 1, Lower: uint64(now - hour), Upper: uint64(now + hour)}
			if _, err := applyUpdates(db, true, masterBatch(1, func(b *batch.Builder) {
				for i, at := range []int64{0, now - hour, now + hour} {
					b.Put(cf.Default, subkey("h", version, fmt.Sprint(i)), cf.AppendHashValue(nil, uint64(at), []byte("v")))
				}
				m := cf.Meta{Type: cf.TypeHash, Version: version, Size: 3}
				b.Put(cf.Metadata, nsKey(ns, "h"), cf.AppendHashTail(m.Append(nil), ttl))
			})); err != nil {
				t.Fatal(err)
			}
			db.NewMaster()
			db.MasterTime(tt.clock)
			compact(t, db)
			if got := records(t, db, cf.Default); got != tt.fields {
				t.Errorf("%d fields are left, want %d", got, tt.fields)
			}
		})
	}
}
