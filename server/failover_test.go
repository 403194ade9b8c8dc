package server_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/basaltdb/basalt/server/servertest"
)

// TestFailover: while clients write, a master and its replica swap roles, and swap back. Both then have every write
// that was confirmed, without a full synchronisation.
func TestFailover(t *testing.T) {
	for _, rsid := range []string{"no", "yes"} {
		t.Run("rsid="+rsid, func(t *testing.T) {
			settings := []string{"requirepass", "secret", "masterauth", "secret", "use-rsid-psync", rsid}
			a := startWith(t, quiet(), settings...)
			b := startWith(t, quiet(), settings...)
			ca, cb := a.Dial(t), b.Dial(t)
			ca.Want("AUTH secret", "+OK\r\n")
			cb.Want("AUTH secret", "+OK\r\n")
			ca.Want("FAILOVER", "-ERR FAILOVER requires connected replicas.\r\n")
			ca.Want("FAILOVER FORCE", "-ERR FAILOVER requires connected replicas.\r\n") // checked before the options
			cb.Want(replicaOf(b, a), "+OK\r\n")
			caughtUp(t, b, a)
			syncs := b.Master().Stats().SyncFull + a.Master().Stats().SyncFull
			for _, tt := range []struct{ command, want string }{
				{"FAILOVER ABORT", "-ERR No failover in progress.\r\n"},
				{"FAILOVER TO 127.0.0.1 1 TIMEOUT 10", "-ERR FAILOVER target HOST and PORT is not a replica.\r\n"},
				{"FAILOVER FORCE", "-ERR FAILOVER with force option requires both a timeout and target HOST and IP.\r\n"},
				{"FAILOVER TIMEOUT 0", "-ERR FAILOVER timeout must be greater than 0\r\n"},
				{"FAILOVER ABORT TIMEOUT 1", "-ERR syntax error\r\n"},
			} {
				ca.Want(tt.command, tt.want)
			}
			cb.Want("FAILOVER", "-ERR FAILOVER is not valid when server is a replica.\r\n")

			confirmed := map[string]string{}
			for round, from := range []*servertest.Harness{a, b} {
				to, admin := b, ca
				if from == b {
					to, admin = a, cb
				}
				var mu sync.Mutex
				var writers sync.WaitGroup
				for w := range 4 {
					c := from.Dial(t)
					c.Want("AUTH secret", "+OK\r\n")
					writers.Go(func() {
						for i := 0; ; i++ {
							k, v := fmt.Sprintf("%d:%d:%d", round, w, i), strconv.Itoa(i)
							if reply := c.Do("SET", k, v); reply != "+OK\r\n" {
								if !strings.HasPrefix(reply, "-READONLY") {
									t.Errorf("%q", reply)
								}
								return
							}
							mu.Lock()
							confirmed[k] = v
							mu.Unlock()
						}
					})
				}
				servertest.Eventually(t, "100 keys are written", func() bool {
					mu.Lock()
					defer mu.Unlock()
					return len(confirmed) > 100*(round+1)
				})
				admin.Want("FAILOVER", "+OK\r\n")
				writers.Wait()
				servertest.Eventually(t, "the failover has ended", func() bool {
					return strings.Contains(admin.Do("INFO", "replication"), "master_failover_state:no-failover")
				})
				if to.IsReplica() || !from.IsReplica() {
					t.Fatal("the master and the replica have not swapped roles")
				}
				caughtUp(t, from, to)
			}
			for k, v := range confirmed {
				want := fmt.Sprintf("$%d\r\n%s\r\n", len(v), v)
				if x, y := ca.Do("GET", k), cb.Do("GET", k); x != want || y != want {
					t.Fatalf("%s: %q and %q, want %q", k, x, y, want)
				}
			}
			if got := b.Master().Stats().SyncFull + a.Master().Stats().SyncFull; got != syncs {
				t.Errorf("%d full synchronisations", got-syncs)
			}
		})
	}
}

// TestFailoverWithoutRole: a server whose new role cannot be stored stays a master, and remembers that clients write to
// it: only a full synchronisation makes it a replica.
func TestFailoverWithoutRole(t *testing.T) {
	h := servertest.Start(t)
	if err := h.FollowInFailover("two words", 6666); err == nil || h.IsReplica() {
		t.Errorf("the server follows the master: %v", err)
	}
	h.Dial(t).Want("SET k v", "+OK\r\n")
	if _, err := os.Stat(filepath.Join(filepath.Dir(h.DB.Dir()), "own_writes")); err != nil {
		t.Error(err)
	}
}
