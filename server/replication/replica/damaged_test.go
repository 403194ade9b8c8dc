package replica_test

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/enginetest"
	"github.com/basaltdb/basalt/internal/require"
	"github.com/basaltdb/basalt/server/replication/master"
	"github.com/basaltdb/basalt/server/replication/replica"
)

// TestDamagedReplica: a replica whose own files are damaged fetches a copy from its master when a write of the master
// meets the damage, and without a write when a compaction has met it, after which the database writes nothing.
func TestDamagedReplica(t *testing.T) {
	for _, compaction := range []bool{false, true} {
		name := "write"
		if compaction {
			name = "compaction"
		}
		t.Run(name, func(t *testing.T) {
			o := calm(t, false)
			original := enginetest.OpenWith(t, o)
			m := master.New(master.Options{DB: original, CheckpointDir: filepath.Dir(o.Dir) + "/checkpoint"},
				master.Settings{BacklogBytes: 1 << 20, ShareFor: time.Hour})
			defer m.Close()
			dial := served(t, m, func(c net.Conn) net.Conn { return c })
			of := calm(t, true)
			f := &follower{db: enginetest.OpenWith(t, of)}
			f.start(dial, followerSettings)
			caughtUp := func(fulls int64) {
				t.Helper()
				waitFor(t, "the replica has caught up", func() bool {
					st, _ := f.Status()
					return f.Up() && st.FullSyncs == fulls && f.db.LatestSequence() == original.LatestSequence()
				})
			}
			fillMaster(t, original)
			caughtUp(0)
			require.NoError(t, f.db.FlushMemtables())
			f.Close()
			require.NoError(t, f.db.Close()) // what is in memory hides the damage
			damageTables(t, of.Dir)
			f.db = enginetest.OpenWith(t, of)
			f.start(dial, followerSettings)
			defer f.Close()
			if compaction {
				caughtUp(0)
				if err := f.db.CompactRange(cf.Metadata, nil, nil); !engine.IsDamage(err) {
					t.Fatalf("the compaction has not met the damage: %v", err)
				}
			} else { // its keys are counted off
				require.NoError(t, original.FlushNamespace(cf.DefaultNamespace))
				fillMaster(t, original)
			}
			caughtUp(1)
			enginetest.SameRecords(t, original, f.db)
			if compaction { // another copy may be as bad
				damageTables(t, of.Dir)
				f.db.DropBlockCache()
				if err := f.db.CompactRange(cf.Metadata, nil, nil); !engine.IsDamage(err) {
					t.Fatalf("the compaction has not met the damage: %v", err)
				}
				waitFor(t, "the link is down", func() bool {
					st, _ := f.Status()
					return st.State == replica.Connecting && strings.Contains(st.Err, "Corruption") && st.FullSyncs == 1
				})
				f.Close()
				f.db.Close() // which fails, too
			}
		})
	}
}

// damageTables changes bytes of the first block of each table file.
func damageTables(t testing.TB, dir string) {
	t.Helper()
	tables, err := filepath.Glob(dir + "/*.sst")
	require.NoError(t, err)
	for _, name := range tables {
		file, err := os.OpenFile(name, os.O_RDWR, 0)
		require.NoError(t, err)
		_, err = file.WriteAt(make([]byte, 16), 8)
		require.NoError(t, err)
		require.NoError(t, file.Close())
	}
}
