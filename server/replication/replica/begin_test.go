package replica

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/enginetest"
	"github.com/basaltdb/basalt/internal/require"
	"github.com/basaltdb/basalt/server/replication/fullsync"
)

// TestLinkThatIsGoneBeginsNothing: REPLICAOF NO ONE may come while a link that begins waits for transactions. The
// database then stays a master's, with its replication id, and takes writes.
func TestLinkThatIsGoneBeginsNothing(t *testing.T) {
	db := enginetest.Open(t)
	r := New(Options{DB: db, Dir: t.TempDir(), Changed: func() {}}, Settings{})
	defer r.Close()
	l := &link{r: r, db: db, files: fullsync.New(fullsync.Options{Dir: r.o.Dir})}
	l.ctx, l.stop = context.WithCancel(context.Background())
	r.link = l
	r.Unfollow(func() {})
	require.NoError(t, l.begin())
	if db.IsReplica() {
		t.Error("the database is a replica's")
	}
	err := db.Update(cf.DefaultNamespace, nil, func(tx *engine.Tx) error {
		tx.Put(cf.Propagate, []byte("k"), []byte("v"))
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// TestSameError: attempts that fail alike are one line of the log, although each has a port of its own.
func TestSameError(t *testing.T) {
	core, logs := observer.New(zap.WarnLevel)
	l := &link{log: zap.New(core)}
	for port := range 3 {
		l.down(fmt.Errorf("PSYNC: %w", &net.OpError{Op: "read", Net: "tcp", Source: &net.TCPAddr{Port: 50000 + port},
			Addr: &net.TCPAddr{Port: 6666}, Err: syscall.ECONNRESET}))
	}
	const want = "PSYNC: read tcp :6666: connection reset by peer"
	if all := logs.All(); len(all) != 1 || all[0].ContextMap()["error"] != want || *l.err.Load() != want {
		t.Errorf("%v, %q", all, *l.err.Load())
	}
}

// TestLinkThatIsGoneReplacesNothing: REPLICAOF NO ONE may come when a copy of the master has been fetched, and clients
// may write before the copy takes the place of the database. It does not then.
func TestLinkThatIsGoneReplacesNothing(t *testing.T) {
	const id = "JQP7CZ5WISUYWTN5"
	dir := t.TempDir()
	db := enginetest.OpenWith(t, engine.Options{Dir: dir + "/db", Replica: true})
	var r *Replica
	put := func() {
		enginetest.Update(t, db, nil, func(tx *engine.Tx) error {
			tx.Put(cf.Propagate, []byte("k"), []byte("v"))
			return nil
		})
	}
	r = New(Options{DB: db, Dir: dir + "/sync_checkpoint", Replacing: func() func() {
		r.Unfollow(func() { db.BeginHistory(id) })
		put()
		return func() {}
	}}, Settings{})
	defer r.Close()
	l := &link{r: r, db: db, log: zap.NewNop()}
	l.ctx, l.stop = context.WithCancel(context.Background())
	r.link = l
	copied := enginetest.OpenWith(t, engine.Options{Dir: dir + "/master"})
	require.NoError(t, copied.Checkpoint(r.o.Dir))
	if err := l.replace(r.o.Dir); !errors.Is(err, engine.ErrUnwanted) {
		t.Errorf("%v, want %v", err, engine.ErrUnwanted)
	}
	if got, err := db.StoredReplicationID(); got != id || err != nil {
		t.Errorf("the id %q, %v; want %q", got, err, id)
	}
	err := db.View(cf.DefaultNamespace, nil, func(tx *engine.Tx) error {
		if _, found, err := tx.Get(cf.Propagate, []byte("k")); !found {
			t.Errorf("a write to the new master is lost: %v", err)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	put()
}

// TestLinkLeavesNoFiles: nothing of a full sync stays on the disk when its link has ended, or its process was killed.
func TestLinkLeavesNoFiles(t *testing.T) {
	dir := t.TempDir() + "/sync_checkpoint"
	leave := func() {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Error(err)
		}
		if err := os.WriteFile(dir+"/000012.sst", []byte("x"), 0o600); err != nil {
			t.Error(err)
		}
	}
	gone := func(when string) {
		if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: %v", when, err)
		}
	}
	leave()
	dialed := make(chan struct{})
	r := New(Options{DB: enginetest.Open(t), Dir: dir, Dial: func(ctx context.Context, _ string) (net.Conn, error) {
		leave() // as a link does that fetches files
		close(dialed)
		<-ctx.Done()
		return nil, ctx.Err()
	}}, Settings{})
	gone("after the start")
	r.Follow("master", 6666, true)
	<-dialed
	r.Unfollow(func() {})
	r.Close()
	gone("after the end of the link")
}
