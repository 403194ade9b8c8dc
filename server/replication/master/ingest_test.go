package master_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/batch"
	"github.com/basaltdb/basalt/engine/enginetest"
	"github.com/basaltdb/basalt/internal/require"
	"github.com/basaltdb/basalt/server/replication/master"
	"github.com/basaltdb/basalt/server/replication/proto"
)

// TestIngested: no replica continues over ingested table files, whether it was connected, had all writes, was behind,
// or had fetched an older checkpoint. A replica with a new copy does.
func TestIngested(t *testing.T) {
	db := enginetest.OpenWith(t, engine.Options{Dir: t.TempDir() + "/db", Slots: true})
	m := master.New(master.Options{DB: db, CheckpointDir: t.TempDir() + "/checkpoint"},
		master.Settings{BacklogBytes: 1 << 20})
	defer m.Close()
	write := func() {
		enginetest.Update(t, db, [][]byte{[]byte("a")}, func(tx *engine.Tx) error {
			rec, err := tx.LoadHead([]byte("a"))
			rec.Type = cf.TypeString
			tx.Save(&rec, []byte("v"))
			return err
		})
	}
	write()
	write()
	if m.Followed() {
		t.Error("nobody has come")
	}
	seq := db.LatestSequence()
	level, behind := connect(t, m, seq+1, proto.Conf{}), connect(t, m, 1, proto.Conf{})
	behind.batches(seq)
	if !m.Followed() {
		t.Error("replicas are connected")
	}

	slots := cf.SlotRange{First: cf.Slot([]byte("foo")), Last: cf.Slot([]byte("foo"))}
	g, err := db.NewIngest(t.TempDir()+"/ingest", slots)
	require.NoError(t, err)
	defer g.Close()
	var b batch.Builder
	b.Put(cf.Metadata, cf.AppendNSKey(nil, cf.DefaultNamespace, []byte("foo"), true),
		(&cf.Meta{Type: cf.TypeString}).Append(nil))
	require.NoError(t, g.Add(b.Bytes()))
	go level.untilEnd()
	go behind.untilEnd()
	resume := m.Suspend()
	require.NoError(t, g.Commit())
	resume()
	<-level.ended
	<-behind.ended
	for _, written := range []bool{false, true} {
		if written {
			write()
		}
		if err := m.Accept(proto.PSync{Next: seq + 1}); !errors.Is(err, proto.ErrOutOfRange) {
			t.Errorf("written %v: a replica that was level: %v", written, err)
		}
		r := connect(t, m, 1, proto.Conf{}) // the log has the beginning
		r.batches(seq)
		if written {
			r.untilEnd()
		} else {
			r.conn.Close()
			<-r.ended
		}
		connect(t, m, seq+2, proto.Conf{}).conn.Close()
	}
}

// TestFollowed: a lost replica counts for some time.
func TestFollowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := enginetest.OpenWith(t, engine.Options{Dir: t.TempDir() + "/db"})
		m := master.New(master.Options{DB: db, CheckpointDir: t.TempDir() + "/checkpoint"},
			master.Settings{BacklogBytes: 1 << 20})
		defer m.Close()
		r := connect(t, m, 1, proto.Conf{})
		r.conn.Close()
		<-r.ended
		if !m.Followed() {
			t.Error("a replica was lost just now")
		}
		time.Sleep(11 * time.Minute)
		if m.Followed() {
			t.Error("a replica was lost long ago")
		}
	})
}
