package replica_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/enginetest"
	"github.com/basaltdb/basalt/engine/hash"
	"github.com/basaltdb/basalt/internal/require"
	"github.com/basaltdb/basalt/server/replication/master"
	"github.com/basaltdb/basalt/server/replication/proto"
	"github.com/basaltdb/basalt/server/replication/replica"
	"github.com/basaltdb/basalt/server/wire/wiretest"
)

// TestCopy: a copy of the master, although the connections are cut again and again, byte by byte, and after the
// master's database has changed between two attempts. What has arrived is not fetched again.
func TestCopy(t *testing.T) {
	for _, tt := range []struct {
		name  string
		files int   // more than else
		bytes int64 // after which connections are cut, 0 = never
		slow  bool
		empty bool
		conns int64 // for the answers, the list, CURRENT and MANIFEST, the rest, the stream; 0 = any number
	}{
		{"at once", 0, 0, false, false, 5},
		{"in pieces", 0, 60 << 10, false, false, 0},
		{"byte by byte", 0, 0, true, false, 5},
		{"emptied", 0, 0, false, true, 5},
		{"over several connections", proto.ParallelFrom, 0, false, false, 4 + proto.MaxParallel},
		{"over several connections, in pieces", proto.ParallelFrom, 15 << 10, false, false, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o := calm(t, false)
			o.Rocks.WALTTLSeconds, o.Rocks.WALSizeLimitMB = 0, 0
			original := enginetest.OpenWith(t, o)
			fillMaster(t, original)
			for range tt.files {
				putFile(t, original, "key", make([]byte, 1000))
			}
			m := master.New(master.Options{DB: original, CheckpointDir: filepath.Dir(o.Dir) + "/checkpoint"},
				master.Settings{BacklogBytes: 1 << 20, ShareFor: time.Hour})
			defer m.Close()
			f := newFollower(t)
			f.db.SetMaster()
			fillMaster(t, f.db) // something else, and more of it
			fillMaster(t, f.db)
			var conns, cuts, empties atomic.Int64
			s := followerSettings
			s.EmptyFirst = tt.empty
			dial := served(t, m, func(c net.Conn) net.Conn {
				conns.Add(1)
				switch {
				case tt.slow:
					return byteByByte{c}
				case tt.bytes > 0:
					cuts.Add(1)
					left := new(atomic.Int64)
					left.Store(tt.bytes * cuts.Load()) // later ones bring more
					return cut{c, left}
				}
				return c
			})
			core, logs := observer.New(zap.InfoLevel)
			f.Replica = replica.New(replica.Options{
				DB: f.db, Log: zap.New(core), Dir: filepath.Dir(f.db.Dir()) + "/sync_checkpoint",
				Dial: func(ctx context.Context, _ string) (net.Conn, error) { return dial(ctx) },
				Replaced: func() {
					if f.db.LatestSequence() == 0 {
						empties.Add(1)
					}
				},
			}, s)
			defer f.Close()
			f.Follow("master", 1, true)
			waitFor(t, "the replica has caught up", func() bool {
				return f.Up() && f.db.LatestSequence() == original.LatestSequence()
			})
			a, b := dump(t, original), dump(t, f.db)
			if strings.Join(a, "\n") != strings.Join(b, "\n") {
				t.Errorf("the master has %d records, the replica %d, or others", len(a), len(b))
			}
			reused := 0
			for _, e := range logs.FilterMessage("fetching files").All() {
				if n, ok := e.ContextMap()["reused"].(int64); ok {
					reused = max(reused, int(n))
				}
			}
			if (reused > 0) != (tt.bytes > 0) {
				t.Errorf("%d files were kept from one attempt to the next", reused)
			}
			if got := empties.Load() > 0; got != tt.empty {
				t.Errorf("emptied before: %t", got)
			}
			if st, _ := f.Status(); st.FullSyncs != 1 {
				t.Errorf("%d full synchronisations", st.FullSyncs)
			}
			if n := conns.Load(); tt.conns != 0 && n != tt.conns {
				t.Errorf("%d connections, want %d", n, tt.conns)
			}
			if _, err := os.Stat(filepath.Dir(f.db.Dir()) + "/sync_checkpoint"); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("sync_checkpoint: %v", err)
			}
			// The stream goes on from there.
			fillMaster(t, original)
			waitFor(t, "the replica has caught up", func() bool { return f.db.LatestSequence() == original.LatestSequence() })
			if a, b := dump(t, original), dump(t, f.db); strings.Join(a, "\n") != strings.Join(b, "\n") {
				t.Errorf("the master has %d records, the replica %d, or others", len(a), len(b))
			}
		})
	}
}

// TestCopyProgress: how far a copy is, at which rate it goes on, and how long that takes, is known, and logged every
// ten seconds.
func TestCopyProgress(t *testing.T) {
	o := calm(t, false)
	o.Rocks.WALTTLSeconds, o.Rocks.WALSizeLimitMB = 0, 0
	original := enginetest.OpenWith(t, o)
	rnd := rand.NewChaCha8([32]byte{})
	for i := range 8 { // values that do not compress
		value := make([]byte, 1<<20)
		rnd.Read(value)
		putFile(t, original, fmt.Sprint("key", i), value)
	}
	f := newFollower(t)
	synctest.Test(t, func(t *testing.T) {
		m := master.New(master.Options{DB: original, CheckpointDir: t.TempDir() + "/c"},
			master.Settings{BytesPerSecond: 200 << 10, ShareFor: time.Hour}) // 41 seconds
		defer m.Close()
		var serving sync.WaitGroup
		defer serving.Wait()
		f.start(func(context.Context) (net.Conn, error) {
			ours, theirs := net.Pipe()
			serving.Go(func() { serve(m, wiretest.Link{Conn: theirs}) })
			return ours, nil
		}, followerSettings)
		defer f.Close()
		time.Sleep(20 * time.Second)
		synctest.Wait()
		st, _ := f.Status()
		p := st.Sync
		if st.State != replica.FetchingFiles || p.Bytes < 8<<20 || p.Bytes > 9<<20 || p.BytesDone < 3<<20 ||
			p.BytesDone > 5<<20 || p.FilesDone < 3 || p.Files < 8 {
			t.Errorf("%v: %+v", st.State, p)
		}
		if p.Rate < 150<<10 || p.Rate > 250<<10 || p.Left < 15*time.Second || p.Left > 30*time.Second {
			t.Errorf("%d bytes a second, %v left", p.Rate, p.Left)
		}
		all := f.logs.FilterMessage("fetching files").FilterFieldKey("left").All()
		if len(all) == 0 || all[0].ContextMap()["bytes_per_second"].(int64) < 150<<10 {
			t.Errorf("the log has %v", all)
		}
	})
}

// TestCopyRefused: what a master may send that is no copy of a database leaves the old one.
func TestCopyRefused(t *testing.T) {
	for _, tt := range []struct {
		name string
		list string
		file string
		err  string
	}{
		{"an error", "-can't create db checkpoint\r\n", "", "can't create"},
		{"a path", "CURRENT,../../evil\r\n", "", "not the name"},
		{"no CURRENT", "000001.sst\r\n", "", "no CURRENT"},
		{"nonsense for a size", "CURRENT\r\n", "-x\r\n", "its size"},
		{"more than the disk holds", "CURRENT\r\n", "9000000000000000\r\n", "no space"},
		{"no database", "CURRENT\r\n", "5\r\nhello", "does not name a MANIFEST"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := newFollower(t)
			f.db.SetMaster()
			fillMaster(t, f.db)
			before := dump(t, f.db)
			synctest.Test(t, func(t *testing.T) {
				dial, accept := playing(t)
				f.start(dial, followerSettings)
				defer f.Close()
				p := accept()
				p.introduce()
				p.expect(proto.AppendPSync(nil, proto.PSync{Next: f.db.LatestSequence() + 1}))
				p.send("-ERR sequence out of range, please use fullsync\r\n")
				p = accept()
				p.expect(proto.AppendFetchMeta(nil))
				p.send(tt.list)
				if tt.file != "" {
					p = accept()
					p.expect(proto.AppendFetchFiles(nil, []string{"CURRENT"}))
					p.send(tt.file)
				}
				next := accept() // tries again
				st, _ := f.Status()
				if !strings.Contains(st.Err, tt.err) {
					t.Errorf("error %q, want %q", st.Err, tt.err)
				}
				next.conn.Close()
			})
			if got := dump(t, f.db); strings.Join(got, "\n") != strings.Join(before, "\n") {
				t.Error("the database has changed")
			}
		})
	}
}

// TestOwnWrites: a database to which clients have written takes a copy of its master, also when the process that was
// told to follow has ended before. Sequence numbers alone would let it go on with a history that is not the master's.
func TestOwnWrites(t *testing.T) {
	original := enginetest.OpenWith(t, calm(t, false))
	fillMaster(t, original)
	fillMaster(t, original) // the log has what the replica would ask for
	m := master.New(master.Options{DB: original, CheckpointDir: t.TempDir() + "/checkpoint"},
		master.Settings{BacklogBytes: 1 << 20, ShareFor: time.Hour})
	defer m.Close()
	for name, tt := range map[string]struct {
		before func(r *replica.Replica) // in the process before
		fulls  int64
	}{
		"told before":     {func(r *replica.Replica) { r.Follow("master", 1, true) }, 1},
		"was a master":    {func(r *replica.Replica) { r.Lead() }, 1},
		"was promoted":    {func(r *replica.Replica) { r.Unfollow(func() {}) }, 1},
		"handed over":     {func(r *replica.Replica) { r.Lead(); r.HandOver() }, 0},
		"was a replica":   {func(r *replica.Replica) { r.Follow("master", 1, false) }, 0},
		"nothing is told": {func(*replica.Replica) {}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFollower(t)
			f.db.SetMaster()
			fillMaster(t, f.db)
			f.start(func(context.Context) (net.Conn, error) { return nil, errors.New("nobody there") }, followerSettings)
			tt.before(f.Replica)
			f.Close()
			dial := served(t, m, func(c net.Conn) net.Conn { return c })
			f.start(dial, followerSettings)
			defer func() { f.Close() }()
			waitFor(t, "the replica has caught up", func() bool {
				return f.Up() && f.db.LatestSequence() == original.LatestSequence()
			})
			if st, _ := f.Status(); st.FullSyncs != tt.fulls {
				t.Errorf("%d full synchronisations, want %d", st.FullSyncs, tt.fulls)
			}
			f.Close()
			f.start(dial, followerSettings) // what it has is the master's now
			waitFor(t, "the replica is connected again", f.Up)
			if st, _ := f.Status(); st.FullSyncs != 0 {
				t.Errorf("%d full synchronisations more", st.FullSyncs)
			}
		})
	}
}

// cut is a connection that ends after so many bytes that all of them have brought together.
type cut struct {
	net.Conn
	left *atomic.Int64
}

func (c cut) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if c.left.Add(-int64(n)) < 0 && err == nil {
		c.Conn.Close()
		return 0, io.ErrUnexpectedEOF
	}
	return n, err
}

// fillMaster makes a database with several files and a log.
func fillMaster(t testing.TB, db *engine.DB) {
	t.Helper()
	for round := range 4 {
		for i := range 60 {
			key := fmt.Appendf(nil, "h%d", i)
			value := bytes.Repeat([]byte{byte('a' + round)}, 1000)
			require.NoError(t, db.Update(cf.DefaultNamespace, [][]byte{key}, func(tx *engine.Tx) error {
				_, err := hash.Set(tx, key, [][]byte{fmt.Appendf(nil, "f%d", round), value})
				return err
			}))
		}
		if round < 3 {
			for id := range cf.NumFamilies {
				require.NoError(t, db.FlushMemtable(id))
			}
		}
	}
}

// putFile writes a key, with a table file of its own.
func putFile(t testing.TB, db *engine.DB, key string, value []byte) {
	t.Helper()
	enginetest.Update(t, db, [][]byte{[]byte(key)}, func(tx *engine.Tx) error {
		tx.Put(cf.Metadata, tx.NSKey([]byte(key)), append(make([]byte, 5), value...))
		return nil
	})
	require.NoError(t, db.FlushMemtable(cf.Metadata))
}
