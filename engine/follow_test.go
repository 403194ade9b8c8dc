package engine_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/enginetest"
	"github.com/basaltdb/basalt/internal/require"
)

// TestFollow: what a follower hears is what is in the log, whoever writes and however commits are grouped.
func TestFollow(t *testing.T) {
	db := enginetest.Open(t)
	const id = "0123456789ABCDEF"
	db.SetReplicationID(id)
	var mu sync.Mutex
	heard := map[uint64][]byte{}
	db.Follow(func(seq uint64, rep []byte) {
		b := bytes.Clone(rep)
		binary.LittleEndian.PutUint64(b, seq)
		mu.Lock()
		heard[seq] = b
		mu.Unlock()
	})
	var wg sync.WaitGroup
	for w := range 8 {
		wg.Go(func() {
			for i := range 50 {
				key := fmt.Appendf(nil, "k%d", w)
				err := db.Update(cf.DefaultNamespace, [][]byte{key}, func(tx *engine.Tx) error {
					if w == 0 {
						tx.YieldToOthers() // written apart from the groups
					}
					tx.Put(cf.Metadata, tx.NSKey(key), fmt.Appendf(nil, "\x01\x00\x00\x00\x00%d", i))
					return nil
				})
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	db.Follow(nil)
	setHash(t, db, "unheard", "a", "b")

	next := uint64(1)
	for next <= 400 {
		rep := heard[next]
		if rep == nil {
			t.Fatalf("nothing was heard of sequence number %d", next)
		}
		if !bytes.HasSuffix(rep, []byte("\x03\x12r "+id)) {
			t.Fatalf("batch %d does not end with the replication id: %q", next, rep)
		}
		next += uint64(binary.LittleEndian.Uint32(rep[8:]))
	}
	log, err := db.WAL(0)
	require.NoError(t, err)
	defer log.Close()
	for n := 0; ; n++ {
		rep, seq, err := log.Next()
		require.NoError(t, err)
		if seq > 400 {
			break
		}
		// RocksDB may log two batches as one.
		if b := heard[seq]; b == nil || !bytes.HasPrefix(rep[12:], b[12:len(b)-20]) {
			t.Fatalf("the batch of sequence number %d is not the one that was heard", seq)
		}
	}
	if _, ok := heard[401]; ok {
		t.Error("the follower heard of a write after it had ended")
	}
}

// TestHistoryBytes: the id is in the database and ends the batch, byte by byte as Kvrocks writes it.
func TestHistoryBytes(t *testing.T) {
	db := enginetest.Open(t)
	db.BeginHistory("JQP7CZ5WISUYWTN5")
	enginetest.Update(t, db, nil, func(tx *engine.Tx) error {
		tx.Put(cf.PubSub, []byte("channel"), []byte("message"))
		return nil
	})
	u, err := db.UpdatesAfter(0, engine.UpdatesLimit{Batches: 1, Bytes: 1 << 20})
	require.NoError(t, err)
	want := "\x01\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x05\x04\x0freplication_id_\x10JQP7CZ5WISUYWTN5\x03\x12r " +
		"JQP7CZ5WISUYWTN5"
	if got := string(u.Batches[0]); got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestBeginHistory: the id is written right before the first commit, once, also when that fails at first, and
// every batch ends with it; not at all in a database that becomes that of a replica before.
func TestBeginHistory(t *testing.T) {
	const id = "JQP7CZ5WISUYWTN5"
	db := enginetest.Open(t)
	db.BeginHistory("NEVERWRITTENHERE")
	db.SetReplicationID("")
	db.BeginHistory(id)
	if n := db.LatestSequence(); n != 0 {
		t.Errorf("%d writes", n)
	}
	write := func() error {
		return db.Update("", nil, func(tx *engine.Tx) error {
			tx.Put(cf.PubSub, []byte("channel"), []byte("message"))
			return nil
		})
	}
	db.InjectWriteError(errors.New("full"))
	if err := write(); err == nil {
		t.Error("no error")
	}
	db.InjectWriteError(nil)
	for range 2 {
		require.NoError(t, write())
	}
	if got, err := db.StoredReplicationID(); err != nil || got != id {
		t.Errorf("%q, %v is stored", got, err)
	}
	u, err := db.UpdatesAfter(0, engine.UpdatesLimit{Batches: 9, Bytes: 1 << 20})
	require.NoError(t, err)
	if len(u.Batches) != 3 || !strings.Contains(string(u.Batches[0]), "\x0freplication_id_\x10"+id) {
		t.Errorf("%q", u.Batches)
	}
	for _, b := range u.Batches {
		if !strings.HasSuffix(string(b), "\x03\x12r "+id) {
			t.Errorf("%q", b)
		}
	}
}

// TestKeepLogs: the logs that hold a sequence number and what follows become as new, those before stay old.
func TestKeepLogs(t *testing.T) {
	o := engine.DefaultRocksOptions()
	o.WALTTLSeconds, o.WALSizeLimitMB = 3600, 100
	db := enginetest.OpenWith(t, engine.Options{Dir: t.TempDir() + "/db", Rocks: o})
	var seqs []uint64 // the first of each log
	for i := range 4 {
		seqs = append(seqs, db.LatestSequence()+1)
		setHash(t, db, fmt.Sprint("k", i), "a", "b")
		for id := range cf.NumFamilies {
			require.NoError(t, db.FlushMemtable(id))
		}
	}
	logs := func() (paths []string) {
		for _, dir := range []string{db.Dir() + "/archive", db.Dir()} {
			found, err := filepath.Glob(dir + "/*.log")
			require.NoError(t, err)
			paths = append(paths, found...)
		}
		return paths
	}()
	if len(logs) < 4 {
		t.Fatalf("there are only the logs %q", logs)
	}
	old := time.Now().Add(-30 * time.Minute)
	for _, p := range logs {
		require.NoError(t, os.Chtimes(p, old, old))
	}
	require.NoError(t, db.KeepLogs(seqs[2]+1))
	var fresh []bool
	for _, p := range logs {
		info, err := os.Stat(p)
		require.NoError(t, err)
		fresh = append(fresh, info.ModTime().After(old.Add(time.Minute)))
	}
	want := make([]bool, len(logs))
	for i := 2; i < len(logs); i++ {
		want[i] = true
	}
	if !slices.Equal(fresh, want) {
		t.Errorf("made new: %v of %q", fresh, logs)
	}
}

// TestLogsOfTheFuture: logs that are newer than now, because the clock was set back, are kept like new ones. RocksDB
// takes them for older than any limit.
func TestLogsOfTheFuture(t *testing.T) {
	o := engine.DefaultRocksOptions()
	o.WALTTLSeconds, o.WALSizeLimitMB = 3600, 100
	dir := t.TempDir() + "/db"
	db := enginetest.OpenWith(t, engine.Options{Dir: dir, Rocks: o})
	setHash(t, db, "k", "a", "b")
	for id := range cf.NumFamilies {
		require.NoError(t, db.FlushMemtable(id))
	}
	setHash(t, db, "k", "a", "c")
	require.NoError(t, db.Close())
	logs, err := filepath.Glob(dir + "/archive/*.log")
	if err != nil || len(logs) == 0 {
		t.Fatalf("%q, %v", logs, err)
	}
	future := time.Now().Add(time.Minute)
	for _, p := range logs {
		require.NoError(t, os.Chtimes(p, future, future))
	}
	db = enginetest.OpenWith(t, engine.Options{Dir: dir, Rocks: o})
	for id := range cf.NumFamilies {
		require.NoError(t, db.FlushMemtable(id))
	}
	for _, p := range logs {
		if _, err := os.Stat(p); err != nil {
			t.Error(err)
		}
	}
}
