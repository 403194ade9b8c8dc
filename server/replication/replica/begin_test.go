package replica

import (
	"context"
	"testing"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/enginetest"
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
	if err := l.begin(); err != nil {
		t.Fatal(err)
	}
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
