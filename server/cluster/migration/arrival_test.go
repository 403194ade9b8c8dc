package migration_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine/enginetest"
	"github.com/basaltdb/basalt/internal/require"
	"github.com/basaltdb/basalt/server/cluster"
	"github.com/basaltdb/basalt/server/cluster/migration"
	"github.com/basaltdb/basalt/server/cluster/migration/destination"
	"github.com/basaltdb/basalt/server/cluster/migration/source"
	"github.com/basaltdb/basalt/server/cluster/peertest"
	"github.com/basaltdb/basalt/server/cluster/topology"
)

// TestSilentOwnerOfArrivals: slots that have arrived are served when their owner has not answered for 10 s. A short
// interruption does not suffice, however long the owner has been asked before.
func TestSilentOwnerOfArrivals(t *testing.T) {
	db := enginetest.Open(t)
	dir := t.TempDir()
	a, b := strings.Repeat("a", topology.IDLen), strings.Repeat("b", topology.IDLen)
	nothing := func() error { return nil }
	synctest.Test(t, func(t *testing.T) {
		slots := cluster.New(cluster.Options{
			Log: zap.NewNop(), IsSelf: func(_ string, port int) bool { return port == 7001 },
			IsReplica: func() bool { return false }, Follow: func(string, int) error { return nil }, Lead: nothing,
			Barrier: nothing, DeleteSlots: func(cf.SlotRange) error { return nil },
			Record: func(string) error { return nil }, Recorded: func() (string, error) { return "", nil },
			Replicated: func(int) {}, Empty: func() bool { return true }, Changed: func(_, _ *topology.Topology) {},
		})
		require.NoError(t, slots.SetNodeID(a))
		require.NoError(t, slots.SetNodes([]byte(a+" 127.0.0.1 7001 master - 0-99\n"+b+" 127.0.0.1 7002 master - 100-199"),
			1, false))
		var silent atomic.Bool
		const elsewhere = "-MOVED 100 127.0.0.1:7003\r\n"
		owner := peertest.Node{Answer: func([]string) (string, bool) { return elsewhere, !silent.Load() }}
		n, err := migration.NewNode(slots, source.Options{
			DB: db, Log: zap.NewNop(), Settings: func() source.Settings { return source.Settings{} },
			Dial: func(ctx context.Context, addr string) (net.Conn, error) {
				if silent.Load() {
					return nil, errors.New("nobody answers")
				}
				return owner.Dial(ctx, addr)
			},
		}, destination.Options{DB: db, Path: dir + "/importing", Log: zap.NewNop(), IsReplica: func() bool { return false },
			Followed: func() bool { return false }})
		require.NoError(t, err)
		defer n.Close()
		slots.SetMigrator(n)
		require.NoError(t, slots.Arrived(cf.SlotRange{First: 100, Last: 100}))
		want := func(when string, served bool) {
			t.Helper()
			synctest.Wait()
			if _, _, unsure := slots.Topology().Arrival(); unsure == served {
				t.Fatalf("%s: served %v", when, served)
			}
		}
		time.Sleep(time.Minute)
		want("the owner has another topology", false)
		for range 3 {
			silent.Store(true)
			time.Sleep(9 * time.Second)
			want("the owner is silent for 9 s", false)
			silent.Store(false)
			time.Sleep(time.Second)
			want("the owner answers again", false)
		}
		silent.Store(true)
		time.Sleep(11 * time.Second)
		want("the owner is silent for 11 s", true)
	})
}
